package rules

import (
	"fmt"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"

	"github.com/yett-dev/yett/core/pattern"
)

// largeExpressions refuses a source whose matches() expressions are too large to be compiled even once. CEL says of
// those below what is wrong with them.
func largeExpressions(tree *ast.AST) (faults []Error) {
	total := 0
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != overloads.Matches || len(e.AsCall().Args()) == 0 {
			return
		}
		args := e.AsCall().Args()
		literal := args[len(args)-1]
		if literal.Kind() != ast.LiteralKind || len(faults) > 0 {
			return
		}
		text, _ := literal.AsLiteral().(types.String)
		size, err := pattern.Size(string(text))
		if total += size; err == nil && total > maxExpressions {
			at := tree.SourceInfo().GetStartLocation(literal.ID())
			faults = append(faults, Error{Line: at.Line(), Column: at.Column() + 1, Msg: fmt.Sprintf("the matches() "+
				"expressions up to here have about %d instructions: the limit is %d for one and %d for all of them", total,
				maxExpression, maxExpressions)})
		}
	}))
	return faults
}
