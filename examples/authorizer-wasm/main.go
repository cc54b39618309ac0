// Command payment-limits is an example of an authorizer in a WASM module: it reads the amount of a payment from the
// call's arguments, denies what is above one limit, hands what is above a lower one to a person, and abstains from the
// rest, so that rules behind it decide. Calls come from the host as JSON. It never permits anything, sees no file,
// clock or network, and an amount that it cannot read is denied.
package main

import (
	"errors"

	"github.com/yett-dev/yett/sdk/abi"
	"github.com/yett-dev/yett/sdk/scanner"
)

func init() { scanner.Register(spec) }
func main() { scanner.Main() }

var spec = scanner.Spec{
	Name:    "payment-limits",
	Version: "1.0.0",
	Config: `{"type":"object","additionalProperties":false,"properties":{` +
		`"tool":{"type":"string","minLength":1},` +
		`"deny_above":{"type":"number","minimum":0},` +
		`"defer_above":{"type":"number","minimum":0}}}`,
	Init:  configure,
	Check: check,
}

// config is the operator's choice; amounts are in the currency of the tool.
var config = struct {
	tool       string
	denyAbove  float64
	deferAbove float64
}{"payments/pay", 1000, 100}

func configure(doc []byte) error {
	err := scanner.Members(doc, func(name string, v scanner.Value) (err error) {
		switch name {
		case "tool":
			if config.tool, err = v.Str(); err == nil && config.tool == "" {
				err = errors.New("must not be empty")
			}
		case "deny_above":
			config.denyAbove, err = limit(v)
		case "defer_above":
			config.deferAbove, err = limit(v)
		default:
			err = errors.New("unknown key; known are tool, deny_above and defer_above")
		}
		if err != nil {
			return errors.New(name + ": " + err.Error())
		}
		return nil
	})
	if err == nil && config.deferAbove > config.denyAbove {
		return errors.New("defer_above: must not be more than deny_above")
	}
	return err
}

func limit(v scanner.Value) (float64, error) {
	f, err := v.Float()
	if err == nil && f < 0 {
		err = errors.New("must not be negative")
	}
	return f, err
}

// check decides one call: {"tool_id":…,"args":{"amount":…},…}.
func check(call []byte, d *scanner.Decision) error {
	var tool string
	args := []byte("{}")
	err := scanner.Members(call, func(name string, v scanner.Value) (err error) {
		switch name {
		case "tool_id":
			tool, err = v.Str()
		case "args":
			args = v.Raw()
		}
		return err
	})
	if err != nil || tool != config.tool {
		return err // without an error: not a payment, abstain
	}
	amount, ok := 0.0, false
	err = scanner.Members(args, func(name string, v scanner.Value) error {
		if name == "amount" {
			f, err := v.Float()
			amount, ok = f, err == nil && f >= 0
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case !ok:
		d.Effect, d.Code, d.Reason = abi.EffectDeny, "AMOUNT_UNREADABLE", "args.amount must be a number that is not negative"
	case amount > config.denyAbove:
		d.Effect, d.Code, d.Reason = abi.EffectDeny, "AMOUNT_TOO_HIGH", "the amount is above the limit for payments"
	case amount > config.deferAbove:
		d.Effect, d.Code, d.Reason = abi.EffectDefer, "AMOUNT_NEEDS_APPROVAL", "a person approves payments of this size"
	}
	return nil
}
