package core

import (
	"errors"
	"fmt"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/rules"
	"github.com/yett-dev/yett/sdk"
)

// policyBudget is what one test of a client's policy may take.
const policyBudget = 100 * time.Millisecond

// compilePolicy makes a chain of one step from the text of a rules file. The error is an *ops.PolicyError.
func compilePolicy(text string) (*chain.Authorizer, error) {
	const name = "policy.yaml"
	file, err := config.ParseRules(name, []byte(text))
	if err != nil {
		return nil, policyError(err)
	}
	set, err := CompileRules([]config.RuleSet{file})
	if err != nil {
		return nil, policyError(err)
	}
	return &chain.Authorizer{Budget: policyBudget, Default: sdk.Deny, Now: time.Now, Places: conditions,
		Steps: []chain.Step{{Name: "policy", Kind: "rules", OnError: sdk.Deny, Inline: true, Checker: set}}}, nil
}

// policyError gives what is wrong with a policy its place in the text.
func policyError(err error) error {
	out := &ops.PolicyError{}
	var form *config.Error
	if errors.As(err, &form) {
		for _, p := range form.Problems {
			msg := p.Msg
			if p.Key != "" {
				msg = p.Key + ": " + msg
			}
			out.Faults = append(out.Faults, ops.PolicyFault{Line: max(p.Pos.Line, 1), Column: max(p.Pos.Column, 1), Msg: msg})
		}
		return out
	}
	list := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		list = joined.Unwrap()
	}
	for _, one := range list {
		f := ops.PolicyFault{Msg: one.Error()}
		var rule *rules.Error
		if errors.As(one, &rule) {
			var name string
			if _, err := fmt.Sscanf(rule.Pos, "policy.yaml:%d:%d", &f.Line, &f.Column); err != nil {
				name = rule.Pos + ": "
			}
			at := *rule
			at.Pos = ""
			f.Msg = name + at.Error()
		}
		out.Faults = append(out.Faults, f)
	}
	return out
}
