package loaded

import (
	"errors"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/rules"
	"github.com/yett-dev/yett/sdk"
)

// policyBudget is what one test of a client's policy may take.
const policyBudget = 100 * time.Millisecond

// CompilePolicy makes a chain of one step from the text of a rules file. The error is an *ops.PolicyError.
func CompilePolicy(text string) (*chain.Authorizer, error) {
	const name = "policy.yaml"
	file, err := config.ParseRules(name, []byte(text))
	if err != nil {
		return nil, policyError(err, nil)
	}
	set, err := CompileRules([]config.RuleSet{file})
	if err != nil {
		return nil, policyError(err, file.Rules)
	}
	return &chain.Authorizer{Budget: policyBudget, Default: sdk.Deny, Now: time.Now, Places: conditions,
		Steps: []chain.Step{{Name: "policy", Kind: "rules", OnError: sdk.Deny, Inline: true, Checker: set}}}, nil
}

// policyError gives what is wrong with a policy its place in the text. The rules are those of the policy, if it could
// be read.
func policyError(err error, list []config.Rule) error {
	out := &ops.PolicyError{}
	var form *config.Error
	if errors.As(err, &form) {
		for _, p := range form.Problems {
			msg := p.Msg
			if p.Key != "" {
				msg = p.Key + ": " + msg
			}
			out.Faults = append(out.Faults, policyFault(p.Pos, msg))
		}
		return out
	}
	faults := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		faults = joined.Unwrap()
	}
	for _, one := range faults {
		var rule *rules.Error
		if !errors.As(one, &rule) || rule.Rule >= len(list) {
			out.Faults = append(out.Faults, ops.PolicyFault{Msg: one.Error()})
			continue
		}
		at := *rule
		at.Pos = "" // the fault has it as numbers
		out.Faults = append(out.Faults, policyFault(list[rule.Rule].Pos, at.Error()))
	}
	return out
}

// policyFault is one fault at a place; the beginning of the text stands for one that is not known.
func policyFault(pos config.Pos, msg string) ops.PolicyFault {
	return ops.PolicyFault{Line: max(pos.Line, 1), Column: max(pos.Column, 1), Msg: msg}
}
