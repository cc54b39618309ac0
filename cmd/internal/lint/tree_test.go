package lint

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// tree is every text file of a repository.
type tree struct {
	root  string
	fset  *token.FileSet
	files []*file
}

// file is one of them. Paths have slashes and start at the root.
type file struct {
	path string
	src  []byte
	ast  *ast.File // nil unless it is Go that belongs to a package of ours (testdata does not)
}

// maxText is the size above which a file is taken for data.
const maxText = 4 << 20

// skipped are folders that hold nothing of ours.
var skipped = map[string]bool{".git": true, "bin": true, "node_modules": true}

// ourModule is the module's path; imports that start with it are ours.
const ourModule = "github.com/yett-dev/yett"

// load reads the repository at root. Binary files (with a NUL byte) are listed without content.
func load(root string) (*tree, error) {
	tr := &tree{root: root, fset: token.NewFileSet()}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if skipped[d.Name()] {
				return filepath.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel(root, name)
		if err != nil || !d.Type().IsRegular() || rel == ".git" { // of a second worktree it is a file
			return err
		}
		return tr.add(filepath.ToSlash(rel), name)
	})
	return tr, err
}

func (tr *tree) add(rel, name string) error {
	f := &file{path: rel}
	src, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if len(src) <= maxText && !bytes.Contains(src, []byte{0}) {
		f.src = src
	}
	if strings.HasSuffix(rel, ".go") && !strings.Contains("/"+rel, "/testdata/") {
		if f.ast, err = parser.ParseFile(tr.fset, rel, src, parser.ParseComments|parser.SkipObjectResolution); err != nil {
			return fmt.Errorf("%s does not parse: %w", rel, err)
		}
	}
	tr.files = append(tr.files, f)
	return nil
}

// goFiles are the Go files of our packages; tests says whether _test.go files are among them.
func (tr *tree) goFiles(tests bool) []*file {
	var out []*file
	for _, f := range tr.files {
		if f.ast != nil && (tests || !f.test()) {
			out = append(out, f)
		}
	}
	return out
}

func (f *file) test() bool { return strings.HasSuffix(f.path, "_test.go") }

// dir is the folder of the file, "." for the root.
func (f *file) dir() string { return path.Dir(f.path) }

// in says whether the file lies in one of the folders or below.
func (f *file) in(dirs ...string) bool {
	for _, d := range dirs {
		if f.dir() == d || strings.HasPrefix(f.dir(), d+"/") {
			return true
		}
	}
	return false
}

func (f *file) generated() bool { return ast.IsGenerated(f.ast) }

// at is "path:line: " of a node.
func (tr *tree) at(n ast.Node) string {
	p := tr.fset.Position(n.Pos())
	return fmt.Sprintf("%s:%d: ", p.Filename, p.Line)
}

// calls finds uses of pkg.name, called or handed on, in a file: pkg is an import path.
func calls(f *file, pkg string, names ...string) []ast.Node {
	local := ""
	for _, im := range f.ast.Imports {
		if strings.Trim(im.Path.Value, `"`) == pkg {
			if local = path.Base(pkg); im.Name != nil {
				local = im.Name.Name
			}
		}
	}
	var found []ast.Node
	if local == "" {
		return nil
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == local {
			for _, name := range names {
				if sel.Sel.Name == name {
					found = append(found, n)
				}
			}
		}
		return true
	})
	return found
}

// lines calls fn for each line of a text file, counted from 1.
func (f *file) lines(fn func(n int, line string)) {
	n := 0
	for line := range strings.Lines(string(f.src)) {
		n++
		fn(n, line)
	}
}

// grep gives "path:line: " of each line that matches.
func (f *file) grep(re *regexp.Regexp) []string {
	var out []string
	f.lines(func(n int, line string) {
		if re.MatchString(line) {
			out = append(out, fmt.Sprintf("%s:%d: ", f.path, n))
		}
	})
	return out
}

// root is the folder with go.mod above this one.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above this package")
		}
		dir = filepath.Dir(dir)
	}
}
