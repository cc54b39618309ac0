package main

import (
	"fmt"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/bundle"
)

// The bounds of what is compiled. OPA's compiler calls itself for each step of a reference, and a stack that outgrows
// Go's bound ends the process, and with it the policies in force. (Its parser bounds what is nested.) Its time grows
// with the square of a rule's expressions and of its branches, and it cannot be interrupted.
const (
	maxRef      = 10_000 // steps of a reference
	maxExprs    = 5_000  // expressions, operators and calls of a rule, or of one of its branches
	maxBranches = 5_000  // of a rule: itself and each else
)

// checkShape refuses what the compiler would not stand.
func checkShape(b *bundle.Bundle) error {
	for i := range b.Modules {
		m := b.Modules[i].Parsed
		if err := checkRefs(m); err != nil {
			return err
		}
		for _, r := range m.Rules {
			if err := checkRule(r); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkRefs(m *ast.Module) (err error) {
	ast.WalkRefs(m, func(r ast.Ref) bool {
		if len(r) > maxRef && err == nil {
			err = fmt.Errorf("%s: a reference of %d steps; at most %d", r[0].Location, len(r), maxRef)
		}
		return err != nil
	})
	return err
}

func checkRule(r *ast.Rule) error {
	branches := 0
	for b := r; b != nil; b = b.Else {
		if branches++; branches > maxBranches {
			return fmt.Errorf("%s: a rule with more than %d branches", r.Location, maxBranches)
		}
		exprs := 0
		v := ast.NewGenericVisitor(func(x any) bool {
			switch x.(type) {
			case *ast.Expr, ast.Call:
				exprs++
			}
			return exprs > maxExprs
		})
		v.Walk(b.Head)
		v.Walk(b.Body)
		if exprs > maxExprs {
			return fmt.Errorf("%s: a rule with more than %d expressions, operators and calls", b.Location, maxExprs)
		}
	}
	return nil
}
