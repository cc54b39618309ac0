package abi

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// row is one row of a table of README.md, by the titles of its columns.
type row map[string]string

// tables reads every table of the document with the heading that it stands under.
func tables(t *testing.T) map[string][]row {
	t.Helper()
	doc, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]row{}
	var heading string
	var titles []string
	for line := range strings.Lines(string(doc)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			titles = nil
			if strings.HasPrefix(line, "#") {
				heading = strings.TrimLeft(line, "# ")
			}
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case titles == nil:
			titles = cells
		case strings.Trim(cells[0], "-") == "": // the line below the titles
		case len(cells) != len(titles):
			t.Errorf("%s: a row of %d cells under %d titles: %s", heading, len(cells), len(titles), line)
		default:
			r := row{}
			for i, title := range titles {
				r[title] = strings.Trim(cells[i], "`")
			}
			out[heading] = append(out[heading], r)
		}
	}
	return out
}

// constants are the exported constants of abi.go with their values as the document writes them.
func constants(t *testing.T) map[string]string {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "abi.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	pkg, err := new(types.Config).Check("abi", fset, []*ast.File{file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, name := range pkg.Scope().Names() {
		c, ok := pkg.Scope().Lookup(name).(*types.Const)
		if !ok || !c.Exported() {
			continue
		}
		if out[name] = c.Val().ExactString(); c.Val().Kind() == constant.String {
			out[name] = constant.StringVal(c.Val())
		}
	}
	return out
}

// TestReadmeNamesEveryConstant holds each row that names a constant against its value, and wants each constant to have
// one.
func TestReadmeNamesEveryConstant(t *testing.T) {
	want, seen := constants(t), map[string]bool{}
	if len(want) < 50 {
		t.Errorf("only %d constants were read", len(want))
	}
	for heading, rows := range tables(t) {
		for _, r := range rows {
			name, ok := r["Go"]
			if !ok {
				continue
			}
			value := r["Value"]
			for _, title := range []string{"Export", "Import"} {
				if v, ok := r[title]; ok {
					value = v
				}
			}
			switch is, there := want[name]; {
			case !there:
				t.Errorf("%s: there is no constant %q", heading, name)
			case value != is:
				t.Errorf("%s: %s is %q, the document says %q", heading, name, is, value)
			case seen[name]:
				t.Errorf("%s: %s is there twice", heading, name)
			}
			seen[name] = true
		}
	}
	for name := range want {
		if !seen[name] {
			t.Errorf("the document does not name %s", name)
		}
	}
}

// members lists the JSON members of a struct, with those inside of it.
func members(typ reflect.Type, prefix string) (out []string) {
	for f := range typ.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		out = append(out, prefix+name)
		inner, list := f.Type, ""
		if inner.Kind() == reflect.Slice {
			inner, list = inner.Elem(), "[]"
		}
		if inner.Kind() == reflect.Struct {
			out = append(out, members(inner, prefix+name+list+".")...)
		}
	}
	return out
}

func TestReadmeListsEveryMember(t *testing.T) {
	all := tables(t)
	for heading, typ := range map[string]reflect.Type{"Metadata": reflect.TypeFor[Metadata](),
		"yett_init": reflect.TypeFor[InitConfig]()} {
		var got []string
		for _, r := range all[heading] {
			got = append(got, r["Member"])
		}
		want := members(typ, "")
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: the document has %q, the type %q", heading, got, want)
		}
	}
}

func TestReadmeListsTheImportsOfWASI(t *testing.T) {
	var got []string
	for _, r := range tables(t)["Imports"] {
		if _, ours := r["Go"]; !ours {
			got = append(got, r["Import"])
		}
	}
	if !slices.Equal(got, WASI) {
		t.Errorf("the document has %q, the package %q", got, WASI)
	}
}

// fenced is the content of the code block of that kind.
func fenced(t *testing.T, kind string) string {
	t.Helper()
	doc, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?ms)^```" + kind + "\n(.*?)^```$").FindSubmatch(doc)
	if m == nil {
		t.Fatalf("the document has no block %q", kind)
	}
	return string(m[1])
}

// TestReadmeExampleOfAScan makes the example's bytes and flags from its words.
func TestReadmeExampleOfAScan(t *testing.T) {
	var want []byte
	want = append(want, 0xaa, 0xbb)
	want = append(want, "no 12345 !x"...)
	for len(want)%4 != 0 {
		want = append(want, 0)
	}
	for _, v := range []uint32{0, 3, 1, 9} {
		want = binary.LittleEndian.AppendUint32(want, v)
	}
	var got []byte
	for line := range strings.Lines(fenced(t, "hex")) {
		_, digits, _ := strings.Cut(line, ":")
		b, err := hex.DecodeString(strings.Join(strings.Fields(digits), ""))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, b...)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the document has\n%x, want\n%x", got, want)
	}
	if n := (len(want) - 16) / HitSize; n != 2 {
		t.Errorf("%d hits", n)
	}
	doc, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	call := fmt.Sprintf("asks for %d bytes and writes", len(want))
	flags := fmt.Sprintf("`yett_scan(2, 11, %#x)`", 2<<HitShift|FlagHitsComplete|FlagUTF8|FlagStream)
	for _, s := range []string{call, flags} {
		if !strings.Contains(string(doc), s) {
			t.Errorf("the document does not say %q", s)
		}
	}
}
