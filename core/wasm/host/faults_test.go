package host

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// TestFaultCodes holds the table of codes against the source: no Err… may be left out, no code may stand for two.
func TestFaultCodes(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared := 0
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(v.Names[0].Name, "Err") {
			declared++
		}
		return true
	})
	seen := map[string]bool{}
	ours := 0
	for _, f := range faultCodes {
		if seen[f.code] {
			t.Errorf("%s stands for two", f.code)
		}
		seen[f.code] = true
		if !errors.Is(f.err, context.Canceled) && !errors.Is(f.err, context.DeadlineExceeded) {
			ours++
		}
		if got := FaultOf(FaultCode(fmt.Errorf("wrapped: %w", f.err))); got != f.err {
			t.Errorf("%s comes back as %v", f.code, got)
		}
	}
	if declared == 0 || ours < declared {
		t.Errorf("%d errors are declared, %d have a code", declared, ours)
	}
	if FaultCode(errors.New("x")) != "" || FaultOf("x") != nil || FaultCode(nil) != "" {
		t.Error("an unknown error has a code")
	}
}
