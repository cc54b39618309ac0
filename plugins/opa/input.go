package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/plugin"
)

// Numbers beyond these are refused. Rego compares and adds exactly, at a cost that grows with the exponent, so that a
// short text could keep an evaluation busy or end it.
const (
	maxDigits   = 1000
	maxExponent = 1000
)

// inputOf is the input document of a call.
func inputOf(c *plugin.Call) (ast.Value, error) {
	args, err := document("args", c.Args)
	if err != nil {
		return nil, err
	}
	context, err := document("context", c.Context)
	if err != nil {
		return nil, err
	}
	text := func(name, value string) [2]*ast.Term {
		return [2]*ast.Term{ast.InternedTerm(name), ast.StringTerm(value)}
	}
	members := [][2]*ast.Term{
		text("agent_id", c.AgentID),
		text("session_id", c.SessionID),
		text("tool_id", c.ToolID),
		text("operation", c.Operation),
		text("key_id", c.KeyID),
		text("key_name", c.KeyName),
		text("call_id", c.CallID),
		{ast.InternedTerm("args"), args},
		{ast.InternedTerm("context"), context},
	}
	if !c.Time.IsZero() {
		members = append(members, text("time", c.Time.UTC().Format(time.RFC3339Nano)))
	}
	return ast.NewObject(members...), nil
}

// document reads one of the call's JSON objects. Without one it is an empty object.
func document(name string, raw []byte) (*ast.Term, error) {
	if len(raw) == 0 {
		return ast.ObjectTerm(), nil
	}
	var d exact.Doc
	if err := d.Parse(string(raw), exact.DefaultLimits); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if k := d.Root().Kind(); k != exact.Object {
		return nil, fmt.Errorf("%s is %s, not an object", name, k)
	}
	t, err := term(d.Root())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}

// term is a value as Rego has it. Numbers keep every digit of their value.
func term(v exact.Value) (*ast.Term, error) {
	switch v.Kind() {
	case exact.Null:
		return ast.NullTerm(), nil
	case exact.Bool:
		return ast.InternedTerm(v.Bool()), nil
	case exact.Number:
		return number(v)
	case exact.String:
		return ast.StringTerm(v.Str()), nil
	case exact.Array:
		list := make([]*ast.Term, 0, v.Len())
		for e := range v.Elements() {
			t, err := term(e)
			if err != nil {
				return nil, err
			}
			list = append(list, t)
		}
		return ast.ArrayTerm(list...), nil
	case exact.Object:
		members := make([][2]*ast.Term, 0, v.Len())
		for name, e := range v.Members() {
			t, err := term(e)
			if err != nil {
				return nil, err
			}
			members = append(members, [2]*ast.Term{ast.StringTerm(name), t})
		}
		return ast.ObjectTerm(members...), nil
	}
	return nil, fmt.Errorf("a value of an unknown kind")
}

// number is the exact value in one form: 1.50, 1.5 and 15e-1 are the same text. Rego compares two fractions as float64
// when both are written with zeros at their end, and would find 9007199254740992.90 no greater than
// 9007199254740992.50.
func number(v exact.Value) (*ast.Term, error) {
	raw := v.Raw()
	if len(raw) <= 18 && !strings.ContainsAny(raw, ".eE") {
		return ast.NewTerm(ast.Number(raw)), nil
	}
	d := v.Decimal()
	neg, digits, exp := d.Parts()
	if len(raw) > maxDigits || len(digits) > maxDigits || exp > maxExponent || exp < -maxExponent {
		return nil, fmt.Errorf("a number with more than %d digits or an exponent beyond ±%d", maxDigits, maxExponent)
	}
	text := d.String()
	if strings.Contains(text, "e") { // without the point, which Rego would take for a fraction's
		text = digits + "e" + strconv.Itoa(exp-len(digits))
		if neg {
			text = "-" + text
		}
	}
	return ast.NewTerm(ast.Number(text)), nil
}
