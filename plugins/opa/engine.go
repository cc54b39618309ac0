package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/bundle"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/plugin"
)

// switchedOff are the built-in functions that reach out of the evaluation: they make a decision wait for others, or
// carry what a call says to them. The pure functions of net, such as net.cidr_contains, are no such functions.
var switchedOff = map[string]bool{"http.send": true, "net.lookup_ip_addr": true, "opa.runtime": true}

// engine is one compiled set of policies. It is never changed, and may be asked by many at once.
type engine struct {
	query       rego.PreparedEvalQuery
	onUndefined sdk.Verdict
	unread      []string // files that look like data and are none
}

// compile makes an engine of what was read. An error is for the operator: nothing of it was put to use.
func compile(ctx context.Context, c *config, s *source) (*engine, error) {
	caps := capabilities(c)
	b, err := readBundle(c, s, caps)
	if err != nil {
		return nil, err
	}
	if err := checkShape(b); err != nil {
		return nil, err
	}
	if !defines(b, c.decision) {
		return nil, fmt.Errorf("nothing in the policies defines %s", c.Decision)
	}
	q, err := rego.New(
		rego.Query(c.Decision),
		rego.ParsedBundle("policy", b),
		rego.Capabilities(caps),
		rego.StrictBuiltinErrors(c.BuiltinErrors == fail),
	).PrepareForEval(ctx)
	if err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	e := &engine{query: q, unread: s.unread()}
	if c.OnUndefined == deny {
		e.onUndefined = sdk.Verdict{Effect: sdk.Deny, Code: codeUndefined, Reason: c.Decision + " is undefined for this call"}
	}
	return e, nil
}

// capabilities is all that this version of OPA can do, without what is switched off. AllowNet is never nil, which would
// be everybody.
func capabilities(c *config) *ast.Capabilities {
	off := map[string]bool{}
	for name := range switchedOff {
		off[name] = true
	}
	for _, name := range c.AllowBuiltins {
		delete(off, name)
	}
	caps := *ast.CapabilitiesForThisVersion()
	all := caps.Builtins
	caps.Builtins = make([]*ast.Builtin, 0, len(all))
	for _, b := range all {
		if !off[b.Name] {
			caps.Builtins = append(caps.Builtins, b)
		}
	}
	caps.AllowNet = append([]string{}, c.AllowHosts...)
	return &caps
}

func readBundle(c *config, s *source, caps *ast.Capabilities) (*bundle.Bundle, error) {
	r := bundle.NewCustomReader(&feed{rest: s.files}).WithCapabilities(caps).WithSizeLimitBytes(maxBytes + 1)
	if v := c.Verify; v != nil {
		keys := map[string]*bundle.KeyConfig{v.KeyID: {Key: v.PublicKey, Algorithm: v.Algorithm, Scope: v.Scope}}
		r = r.WithBundleVerificationConfig(bundle.NewVerificationConfig(keys, v.KeyID, v.Scope, nil))
	}
	b, err := r.Read()
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the policies: %w", err)
	case b.Type() == bundle.DeltaBundleType:
		return nil, errors.New("a delta bundle: only whole bundles can be loaded")
	case len(b.WasmModules) > 0 || len(b.PlanModules) > 0:
		return nil, errors.New("the bundle holds compiled policies (policy.wasm or plan.json): build it with the target rego")
	}
	return &b, nil
}

// defines says whether a rule or the data can ever give the document at ref a value. A misspelt path would be undefined
// for every call.
func defines(b *bundle.Bundle, ref ast.Ref) bool {
	for i := range b.Modules {
		for _, r := range b.Modules[i].Parsed.Rules {
			at := r.Ref().GroundPrefix()
			if ref.HasPrefix(at) || at.HasPrefix(ref) {
				return true
			}
		}
	}
	var at any = map[string]any(b.Data)
	for _, t := range ref[1:] {
		m, ok := at.(map[string]any)
		name, isString := t.Value.(ast.String)
		if !ok || !isString {
			return false
		}
		if at, ok = m[string(name)]; !ok {
			return false
		}
	}
	return true
}

// Decide evaluates the policies for one call. The evaluation ends with ctx.
func (e *engine) Decide(ctx context.Context, c *plugin.Call) (sdk.Verdict, error) {
	in, err := inputOf(c)
	if err != nil {
		return sdk.Verdict{}, err
	}
	opts := []rego.EvalOption{rego.EvalParsedInput(in)}
	if !c.Time.IsZero() {
		// the log's time is the policy's: the same call, asked again, gets the same answer
		opts = append(opts, rego.EvalTime(c.Time))
	}
	rs, err := e.query.Eval(ctx, opts...)
	switch {
	case err != nil && ctx.Err() != nil:
		return sdk.Verdict{}, fmt.Errorf("the evaluation was cut off: %w", ctx.Err())
	case err != nil:
		return sdk.Verdict{}, evalError(err)
	case len(rs) == 0:
		return e.onUndefined, nil
	case len(rs) > 1 || len(rs[0].Expressions) != 1:
		return sdk.Verdict{}, errors.New("the decision has more than one value")
	}
	return parseDecision(rs[0].Expressions[0].Value)
}

// evalError says what went wrong and where, without the values: they are the call's, and errors go to logs.
func evalError(err error) error {
	var e *topdown.Error
	if !errors.As(err, &e) {
		return errors.New("the evaluation failed")
	}
	what := e.Message
	if e.Code == topdown.BuiltinErr || e.Code == topdown.TypeErr {
		what, _, _ = strings.Cut(what, ":") // the name of the function
	}
	if e.Location == nil {
		return fmt.Errorf("%s: %s", e.Code, what)
	}
	return fmt.Errorf("%s at %s:%d: %s", e.Code, e.Location.File, e.Location.Row, what)
}
