package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"strings"
	"unicode/utf8"
)

// maxColumns is where a line of a Go file ends at the latest. A tab counts as one.
const maxColumns = 120

// longText is how long a raw string in a line of code may be before it counts as embedded text.
const longText = 40

// Long are the rows of tables, lines with a web address, and those that tools read. So are texts in raw strings of
// several lines, and the tags of structs; see long.
var (
	tableRow = regexp.MustCompile("^\\s*(\\{|(\"[^\"]*\"|`[^`]*`|'[^']*'|[\\w.\\[\\]\\*]+(\\{[^{}]*\\})?):\\s+\\{)")
	address  = regexp.MustCompile("https?://")
)

func columns(tr *tree) []string {
	var out []string
	for _, f := range tr.goFiles(true) {
		if f.generated() {
			continue
		}
		may := long(tr, f)
		n := 0
		for line := range strings.Lines(string(f.src)) {
			n++
			line = strings.TrimSuffix(line, "\n")
			if w := utf8.RuneCountInString(line); w > maxColumns && !may[n] && !tableRow.MatchString(line) &&
				!address.MatchString(line) && !strings.HasPrefix(line, "//go:") {
				out = append(out, fmt.Sprintf("%s:%d: %d columns, at most %d: break the line behind a comma or an operator", f.path,
					n, w, maxColumns))
			}
		}
	}
	return out
}

// long are the lines of a file with raw strings of several lines, or with a tag.
func long(tr *tree, f *file) map[int]bool {
	out := map[int]bool{}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			first, last := tr.fset.Position(n.Pos()).Line, tr.fset.Position(n.End()).Line
			if n.Kind == token.STRING && n.Value[0] == '`' && (first != last || utf8.RuneCountInString(n.Value) > longText) {
				for l := first; l <= last; l++ {
					out[l] = true
				}
			}
		case *ast.Field:
			if n.Tag != nil {
				out[tr.fset.Position(n.Tag.Pos()).Line] = true
			}
		}
		return true
	})
	return out
}
