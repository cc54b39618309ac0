package lint

import (
	"go/ast"
	"path"
	"reflect"
	"strconv"
	"strings"
)

// settings wants each setting of the configuration to be read by something, and not only to be checked: one that only
// stands in the reference does nothing, and says nothing about that. It goes by names, so it misses a setting that has
// the name of something else that is read.
func settings(tr *tree) []string {
	var fields []*ast.Ident
	read := map[string]bool{}
	for _, f := range tr.goFiles(false) {
		ours := path.Dir(f.path) == "config"
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if ours && (n.Name.Name == "validate" || n.Name.Name == "check") {
					return false
				}
			case *ast.Field:
				if ours && n.Tag != nil && len(n.Names) == 1 && isSetting(n.Tag.Value) {
					fields = append(fields, n.Names[0])
				}
			case *ast.SelectorExpr:
				read[n.Sel.Name] = true
			}
			return true
		})
	}
	var out []string
	for _, id := range fields {
		if !read[id.Name] {
			out = append(out, tr.at(id)+id.Name+" is a setting that nothing reads: use it, or take it out")
		}
	}
	return out
}

// isSetting says whether a field's tag makes it a key with a default or a text of the reference.
func isSetting(tag string) bool {
	text, err := strconv.Unquote(tag)
	if err != nil {
		return false
	}
	_, is := reflect.StructTag(text).Lookup("koanf")
	return is
}

// keySpaces wants each kind of row in the database to have a prefix of its own, to say its layout, and to be used in
// two places at least: one that writes and one that reads.
func keySpaces(tr *tree) []string {
	const file = "core/store/keyspace.go"
	var out []string
	var names []*ast.Ident
	taken := map[string]string{}
	used := map[string]int{}
	for _, f := range tr.goFiles(false) {
		if path.Dir(f.path) != path.Dir(file) {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				if f.path != file || len(n.Names) != 1 || !strings.HasPrefix(n.Names[0].Name, "prefix") || len(n.Values) != 1 {
					return true
				}
				names = append(names, n.Names[0])
				if lit, ok := n.Values[0].(*ast.BasicLit); ok {
					if other := taken[lit.Value]; other != "" {
						out = append(out, tr.at(n)+n.Names[0].Name+" is "+lit.Value+", as "+other+" is: take a byte of its own")
					}
					taken[lit.Value] = n.Names[0].Name
				}
				if n.Comment == nil && n.Doc == nil {
					out = append(out, tr.at(n)+n.Names[0].Name+" does not say its layout: write key → value behind it")
				}
				return false
			case *ast.Ident:
				used[n.Name]++
			}
			return true
		})
	}
	for _, id := range names {
		if used[id.Name] < 2 {
			out = append(out, tr.at(id)+id.Name+" is used less than twice: a row must be written and read")
		}
	}
	return out
}

// generated wants a line that builds each built-in scanner: a module that cannot be rebuilt stays as it is.
func generated(tr *tree) []string {
	var out []string
	lines := ""
	for _, f := range tr.files {
		if f.path == "scanners/builtin.go" {
			lines = string(f.src)
		}
	}
	for _, f := range tr.files {
		parts := strings.Split(f.path, "/")
		if len(parts) != 3 || parts[0] != "scanners" || parts[2] != "main.go" {
			continue
		}
		if name := parts[1]; !strings.Contains(lines, "-o "+name+"/"+name+".wasm ./"+name+"\n") {
			out = append(out, f.path+": scanners/builtin.go has no go:generate line that builds "+name+"/"+name+".wasm")
		}
	}
	return out
}
