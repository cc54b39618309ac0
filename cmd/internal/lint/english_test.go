package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"
)

// turns are ways of saying things that newcomers read twice, each with what to write. They are looked for in messages,
// which are the strings of what is not a test, and in documents.
var turns = []struct{ not, write string }{
	{"goes with", `"allowed only with …", "needs …" or "beside …"`},
	{"is wanted", `"expected …, got …"`},
	{"are wanted", `"expected …, got …"`},
	{"is none of", `"is not one of …", or "unknown …: expected …"`},
	{"that is none", `"invalid …", or "is not a …"`},
	{"was to be", `"should have been …", or who does what`},
	{"were to be", `"should have been …", or who does what`},
	{"whose it is", `"who owns it"`},
	{"of which the first", `two sentences: "The first matching … wins. …"`},
	{"who is killed", `"a killed agent", "a killed key"`},
}

func english(tr *tree) []string {
	var out []string
	look := func(at, text string) {
		lower := strings.ToLower(text)
		for _, turn := range turns {
			if strings.Contains(lower, turn.not) {
				out = append(out, fmt.Sprintf("%s%q is hard to read: write %s", at, turn.not, turn.write))
			}
		}
	}
	for _, f := range tr.files {
		if !strings.HasSuffix(f.path, ".md") {
			continue
		}
		n := 0
		for line := range strings.Lines(string(f.src)) {
			n++
			look(fmt.Sprintf("%s:%d: ", f.path, n), line)
		}
	}
	for _, f := range tr.goFiles(false) {
		if f.generated() || strings.HasPrefix(f.path, "cmd/internal/lint/") {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				look(tr.at(lit), lit.Value)
			}
			return true
		})
	}
	return out
}
