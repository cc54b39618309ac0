package lint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	goodDoc = "// Package x owns nothing. It is here to be read.\n// It must never do anything.\npackage x\n"
	aHeader = "package x\n\n"
)

// planted are small trees that break one rule each. want is part of what the rule must say; "" means it must be silent.
var planted = []struct {
	rule  string
	what  string
	files map[string]string
	want  string
}{
	{"gofmt", "spaces for tabs", map[string]string{"core/x/x.go": aHeader + "func  f() {}\n"}, "run gofmt -w core/x/x.go"},
	{"gofmt", "as it should be", map[string]string{"core/x/x.go": aHeader + "func f() {}\n"}, ""},
	{"gofmt", "testdata is not ours to format", map[string]string{"core/x/testdata/x.go": aHeader + "func  f() {}\n"}, ""},

	{"imports", "a package without a row", map[string]string{"core/x/x.go": aHeader}, "core/x: the package has no row"},
	{"imports", "sdk reaches up", map[string]string{"sdk/sdk.go": `package sdk; import _ "` + ourModule + `/core/chain"`}, "sdk may not import core/chain"},
	{"imports", "a sibling", map[string]string{"core/chain/x.go": `package chain; import _ "` + ourModule + `/core/store"`}, "core/chain may not import core/store"},
	{"imports", "core from below", map[string]string{"core/ops/x.go": `package ops; import _ "` + ourModule + `/core"`}, "only cmd imports core"},
	{"imports", "core from a test below", map[string]string{"core/ops/x_test.go": `package ops; import _ "` + ourModule + `/core"`}, "only cmd imports core"},
	{"imports", "core from cmd", map[string]string{"cmd/yett/x.go": `package main; import _ "` + ourModule + `/core"`}, ""},
	{"imports", "an example that looks inside", map[string]string{"examples/a/main.go": `package main; import _ "` + ourModule + `/core/ops"`}, "examples/* may not import core/ops"},
	{"imports", "a scanner that looks inside", map[string]string{"scanners/a/main.go": `package main; import _ "` + ourModule + `/config"`}, "scanners/* may not import config"},
	{"imports", "a scanner as any", map[string]string{"scanners/a/main.go": `package main; import _ "` + ourModule + `/sdk/scanner"`}, ""},
	{"imports", "somebody else's library", map[string]string{"core/httpd/x.go": `package httpd; import _ "github.com/cockroachdb/pebble/v2"`}, "only core/store knows that library"},
	{"imports", "a library in its place", map[string]string{"core/store/x.go": `package store; import _ "github.com/cockroachdb/pebble/v2/vfs"`}, ""},
	{"imports", "somebody else's library in a test", map[string]string{"core/chain/x_test.go": `package chain; import _ "github.com/valyala/fasthttp"`}, "only core/httpd knows that library"},
	{"imports", "an unknown library", map[string]string{"core/chain/x.go": `package chain; import _ "example.com/fast"`}, "use the standard library"},
	{"imports", "a prefix is not the module", map[string]string{"core/store/x.go": `package store; import _ "github.com/cockroachdb/pebble/v22"`}, "may not import"},
	{"imports", "a library for tests", map[string]string{"core/chain/x_test.go": `package chain; import _ "pgregory.net/rapid"`}, ""},
	{"imports", "a library for tests in the program", map[string]string{"core/chain/x.go": `package chain; import _ "pgregory.net/rapid"`}, "may not import pgregory.net/rapid"},
	{"imports", "a neighbour in a test", map[string]string{"core/chain/x_test.go": `package chain_test; import _ "` + ourModule + `/core/rules"`}, ""},
	{"imports", "sdk's test reaches up", map[string]string{"sdk/wire/x_test.go": `package wire_test; import _ "` + ourModule + `/core/ops"`}, "sdk/wire may not import core/ops"},
	{"imports", "cgo", map[string]string{"core/chain/x.go": `package chain; import "C"`}, "no cgo"},

	{"package comment", "none", map[string]string{"core/x/x.go": aHeader}, "core/x: the package comment has 0 lines"},
	{"package comment", "one line", map[string]string{"core/x/x.go": "// Package x is.\npackage x\n"}, "has 1 lines"},
	{"package comment", "a page", map[string]string{"core/x/x.go": "// Package x is.\n" + strings.Repeat("// more\n", 10) + "package x\n"}, "has 11 lines"},
	{"package comment", "one file of two", map[string]string{"core/x/x.go": goodDoc, "core/x/y.go": aHeader}, ""},

	{"package name", "util", map[string]string{"core/util/x.go": "package util\n"}, "package util says nothing"},
	{"package name", "a folder helpers", map[string]string{"core/helpers/x.go": "package strs\n"}, "says nothing"},
	{"package name", "camel case", map[string]string{"core/x/x.go": "package webSite\n"}, "webSite"},
	{"package name", "a noun", map[string]string{"core/chain/x.go": "package chain\n", "core/chain/x_test.go": "package chain_test\n"}, ""},

	{"size", "a long file", map[string]string{"core/x/x.go": aHeader + strings.Repeat("// line\n", 400)}, "402 lines, at most 400"},
	{"size", "a file of 400", map[string]string{"core/x/x.go": aHeader + strings.Repeat("// line\n", 398)}, ""},
	{"size", "a long test file", map[string]string{"core/x/x_test.go": aHeader + strings.Repeat("// line\n", 600)}, "602 lines, at most 600"},
	{"size", "a long generated file", map[string]string{"core/x/x.go": "// Code generated by x. DO NOT EDIT.\n\n" + aHeader + strings.Repeat("// line\n", 600)}, ""},
	{"size", "a long function", map[string]string{"core/x/x.go": aHeader + "func f() {\n" + strings.Repeat("\tg()\n", 79) + "}\n"}, "f has 81 lines, at most 80"},
	{"size", "a long function in a variable", map[string]string{"core/x/x.go": aHeader + "var f = func() {\n" + strings.Repeat("\tg()\n", 79) + "}\n"}, "a function has 81 lines"},
	{"size", "a function of 80", map[string]string{"core/x/x.go": aHeader + "func f() {\n" + strings.Repeat("\tg()\n", 78) + "}\n"}, ""},
	{"size", "a long test", map[string]string{"core/x/x_test.go": aHeader + "func f() {\n" + strings.Repeat("\tg()\n", 79) + "}\n"}, ""},

	{"init", "in core", map[string]string{"core/x/x.go": aHeader + "func init() {}\n"}, "core/x/x.go:3: no init()"},
	{"init", "in config", map[string]string{"config/x.go": aHeader + "func init() {}\n"}, "no init()"},
	{"init", "a method", map[string]string{"core/x/x.go": aHeader + "func (t *T) init() {}\n"}, ""},
	{"init", "in a scanner", map[string]string{"scanners/a/x.go": "package main\n\nfunc init() {}\n"}, ""},

	{"panic", "in core", map[string]string{"core/x/x.go": aHeader + "func f() { panic(1) }\n"}, "core/x/x.go:3: no panic in core"},
	{"panic", "in a test", map[string]string{"core/x/x_test.go": aHeader + "func f() { panic(1) }\n"}, ""},
	{"panic", "in a listed place", map[string]string{"core/wasm/host/call.go": "package host\n\nfunc f() { panic(1) }\n"}, ""},

	{"clock", "a call", map[string]string{"core/ops/x.go": "package ops\n\nimport \"time\"\n\nvar a = time.Now()\n"}, "core/ops/x.go:5: no clock here"},
	{"clock", "handed on", map[string]string{"core/store/x.go": "package store\n\nimport \"time\"\n\nvar a = time.Now\n"}, "no clock here"},
	{"clock", "by another name", map[string]string{"core/chain/x.go": "package chain\n\nimport clock \"time\"\n\nvar a = clock.Since(b)\n"}, "no clock here"},
	{"clock", "randomness", map[string]string{"core/rules/x.go": "package rules\n\nimport \"math/rand/v2\"\n"}, "no randomness here"},
	{"clock", "in the wiring", map[string]string{"core/x.go": "package core\n\nimport \"time\"\n\nvar a = time.Now\n"}, ""},
	{"clock", "in a test", map[string]string{"core/ops/x_test.go": "package ops\n\nimport \"time\"\n\nvar a = time.Now\n"}, ""},
	{"clock", "a method of that name", map[string]string{"core/ops/x.go": "package ops\n\nvar a = set.Now()\n"}, ""},

	{"print", "fmt", map[string]string{"core/x/x.go": aHeader + "import \"fmt\"\n\nfunc f() { fmt.Println(1) }\n"}, "no printing to stdout"},
	{"print", "builtin", map[string]string{"core/x/x.go": aHeader + "func f() { println(1) }\n"}, "left from debugging"},
	{"print", "to a writer", map[string]string{"core/x/x.go": aHeader + "import \"fmt\"\n\nfunc f() { fmt.Fprintln(w, 1) }\n"}, ""},

	{"todo", "unsigned", map[string]string{"core/x/x.go": aHeader + "// TO" + "DO: later\n"}, "an open end without a name"},
	{"todo", "signed", map[string]string{"core/x/x.go": aHeader + "// TO" + "DO(ada): when Go has it\n"}, ""},
	{"todo", "a plan", map[string]string{"core/x/x.go": aHeader + "// as in phase 2\n"}, "names a plan or ticket"},
	{"todo", "a ticket", map[string]string{"core/x/x_test.go": aHeader + "// see issue #12\n"}, "names a plan or ticket"},

	{"skip", "no reason", map[string]string{"core/x/x_test.go": aHeader + "func TestX(t *testing.T) { t.Skip(\"flaky\") }\n"}, "core/x/x_test.go:3: a skip"},
	{"skip", "an operating system", map[string]string{"core/x/x_test.go": aHeader + "func TestX(t *testing.T) {\n\tif runtime.GOOS == \"x\" {\n\t\tt.SkipNow()\n\t}\n}\n"}, "a skip"},
	{"skip", "after short", map[string]string{"core/x/x_test.go": aHeader + "func TestX(t *testing.T) {\n\tif testing.Short() {\n\t}\n\tt.Skip(\"slow\")\n}\n"}, "a skip"},
	{"skip", "short", map[string]string{"core/x/x_test.go": aHeader + "func TestX(t *testing.T) {\n\tif testing.Short() {\n\t\tt.Skip(\"slow\")\n\t}\n}\n"}, ""},
	{"skip", "short among cases", map[string]string{"core/x/x_test.go": aHeader + "func TestX(t *testing.T) {\n\tswitch {\n\tcase testing.Short():\n\t\tt.Skip(\"slow\")\n\tcase x:\n\t}\n}\n"}, ""},
	{"skip", "beside short among cases", map[string]string{"core/x/x_test.go": aHeader + "func TestX(t *testing.T) {\n\tswitch {\n\tcase testing.Short():\n\tcase x:\n\t\tt.Skip(\"slow\")\n\t}\n}\n"}, "a skip"},
	{"skip", "a draw", map[string]string{"core/x/x_test.go": aHeader + "func pick(t *rapid.T) { t.Skip(\"none yet\") }\n"}, ""},
	{"skip", "a variable", map[string]string{"core/x/x_test.go": aHeader + "func TestX(tb testing.TB) { tb.Skip(\"YETT_DATA is not set\") }\n"}, ""},
	{"skip", "somebody's method", map[string]string{"core/x/x_test.go": aHeader + "func TestX(t *testing.T) { parser.Skip() }\n"}, ""},

	{"sleep", "in a test", map[string]string{"core/x/x_test.go": aHeader + "import \"time\"\n\nfunc TestX(t *testing.T) { time.Sleep(1) }\n"}, "a sleep does not synchronise"},
	{"sleep", "a timer", map[string]string{"core/x/x_test.go": aHeader + "import \"time\"\n\nfunc TestX(t *testing.T) { <-time.After(1) }\n"}, ""},
	{"written program", "by os", map[string]string{"core/x/x_test.go": aHeader + "var err = os.WriteFile(p, nil, 0o700)\n"}, "core/x/x_test.go:3: a process that starts meanwhile"},
	{"written program", "a file", map[string]string{"core/x/x_test.go": aHeader + "var err = os.WriteFile(p, nil, 0o600)\n"}, ""},
	{"written program", "by its door", map[string]string{"core/x/x_test.go": aHeader + "var err = testkit.WriteProgram(p, nil)\n"}, ""},

	{"secret", "a token", map[string]string{"a.md": "x\nkey: gh" + "p_" + strings.Repeat("aB3", 12) + "\n"}, "a.md:2: looks like a GitHub token"},
	{"secret", "in testdata", map[string]string{"core/x/testdata/a.txt": "AK" + "IA" + strings.Repeat("Q7", 8)}, "looks like an AWS key id"},
	{"secret", "ours", map[string]string{"README.md": "Bearer ye" + "tt_" + strings.Repeat("a", 12) + "_" + strings.Repeat("b", 49)}, "one of our keys"},
	{"secret", "a private key", map[string]string{"a.pem": "-----BEGIN EC PRIVATE" + " KEY-----\n" + strings.Repeat("MHcC", 8)}, "a private key"},
	{"secret", "a shape in words", map[string]string{"a.md": "gh" + "p_… and gh" + "p_ followed by 36 characters"}, ""},

	{"machine path", "in code", map[string]string{"core/x/x.go": aHeader + "const a = \"/wo" + "rk/main/x\"\n"}, "core/x/x.go:3: names a path of one machine"},
	{"machine path", "in a document", map[string]string{"README.md": "cd /ho" + "me/ada/yett\n"}, "names a path"},
	{"machine path", "part of a longer one", map[string]string{"README.md": "see core/wo" + "rk/x and https://example.com/ro" + "ot/x\n"}, ""},

	{"file name", "a phase", map[string]string{"core/x/pipeline_phase12.go": aHeader}, "named after a plan"},
	{"file name", "a part", map[string]string{"core/x/hooks_p5_test.go": aHeader}, "named after a plan"},
	{"file name", "a copy", map[string]string{"core/x/scan_old.go": aHeader}, "named after a plan"},
	{"file name", "capitals", map[string]string{"core/x/Scan.go": aHeader}, "an odd file name"},
	{"file name", "a noun", map[string]string{"core/x/renewal.go": aHeader, "core/x/privatedir_other.go": aHeader}, ""},

	{"error codes", "no status", map[string]string{"sdk/errors.go": "package sdk\n\nconst (\n\tCodeA Code = \"a\"\n\tCodeB Code = \"b\"\n)\n",
		"sdk/wire/errors.go": "package wire\n\nvar Statuses = map[sdk.Code]Status{sdk.CodeA: {400, \"A\"}}\n"},
		"sdk/errors.go:5: CodeB has no row"},
	{"error codes", "each has one", map[string]string{"sdk/errors.go": "package sdk\n\nconst CodeA Code = \"a\"\n",
		"sdk/wire/errors.go": "package wire\n\nvar Statuses = map[sdk.Code]Status{sdk.CodeA: {400, \"A\"}}\n"}, ""},

	{"settings", "one that nothing reads", map[string]string{"config/x.go": "package config\n\ntype X struct {\n\tIdle int `koanf:\"idle\"`\n}\n"},
		"config/x.go:4: Idle is a setting that nothing reads"},
	{"settings", "one that is read", map[string]string{"config/x.go": "package config\n\ntype X struct {\n\tIdle int `koanf:\"idle\"`\n}\n",
		"core/x/x.go": aHeader + "func f(c X) int { return c.Idle }\n"}, ""},

	{"key spaces", "a prefix twice", map[string]string{"core/store/keyspace.go": "package store\n\nconst (\n\tprefixA = 'a' // a → b\n\tprefixB = 'a' // a → c\n)\n"},
		"prefixB is 'a', as prefixA is"},
	{"key spaces", "no layout", map[string]string{"core/store/keyspace.go": "package store\n\nconst (\n\tprefixA = 'a'\n)\n"}, "prefixA does not say its layout"},
	{"key spaces", "never read", map[string]string{"core/store/keyspace.go": "package store\n\nconst (\n\tprefixA = 'a' // a → b\n)\n",
		"core/store/a.go": "package store\n\nfunc f() byte { return prefixA }\n"}, "prefixA is used less than twice"},
	{"key spaces", "written and read", map[string]string{"core/store/keyspace.go": "package store\n\nconst (\n\tprefixA = 'a' // a → b\n)\n",
		"core/store/a.go": "package store\n\nfunc f() byte { return prefixA }\nfunc g() byte { return prefixA }\n"}, ""},

	{"generated", "no line", map[string]string{"scanners/a/main.go": "package main\n", "scanners/builtin.go": "package scanners\n"}, "no go:generate line that builds a/a.wasm"},
	{"generated", "a line", map[string]string{"scanners/a/main.go": "package main\n", "scanners/builtin.go": "package scanners\n\n//go:generate go build -o a/a.wasm ./a\n"}, ""},

	{"scanner folder", "no README", map[string]string{"scanners/a/main.go": "package main\n"}, "scanners/a: has no README.md"},
	{"scanner folder", "no samples", map[string]string{"scanners/a/main.go": "package main\n"}, "scanners/a: has no testdata/hit"},
	{"scanner folder", "other sections", map[string]string{"scanners/a/README.md": "# a\n\n## Usage\n"}, "the sections are Usage"},
	{"scanner folder", "whole", map[string]string{"scanners/a/main.go": "package main\n", "scanners/a/a.wasm": "x", "scanners/a/a.wasm.gz": "x", "scanners/a/testdata/hit/x": "x", "scanners/a/testdata/clean/x": "x",
		"scanners/a/README.md": "# a\n## Name\n## Description\n## Config\n## Findings\n## Examples\n## Limits\n"}, ""},

	{"scanner folder", "what compares them", map[string]string{"scanners/testdata/a/run.sh": "x\n"}, ""},
	{"scanner folder", "a plugin without a README", map[string]string{"plugins/a/main.go": "package main\n"}, "plugins/a: has no README.md"},
	{"scanner folder", "what plugins share", map[string]string{"plugins/internal/a/a.go": "package a\n"}, ""},
	{"scanner folder", "a plugin", map[string]string{"plugins/a/main.go": "package main\n", "plugins/a/README.md": "# a\n## Name\n## Description\n## Config\n## Records\n## Examples\n## Limits\n"}, ""},

	{"English", "a turn in a message", map[string]string{"core/x/x.go": aHeader + "const a = `the key: one is wanted`\n"}, `core/x/x.go:3: "is wanted" is hard to read: write "expected`},
	{"English", "a turn in a document", map[string]string{"a.md": "x\nWhose it is, nobody knows.\n"}, `a.md:2: "whose it is" is hard to read`},
	{"English", "a turn in a test", map[string]string{"core/x/x_test.go": aHeader + "const a = `one is wanted`\n"}, ""},

	{"columns", "a long line", map[string]string{"core/x/x.go": aHeader + "var a = f(" + strings.Repeat("1, ", 40) + "1)\n"}, "core/x/x.go:3: 132 columns, at most 120"},
	{"columns", "a long comment", map[string]string{"core/x/x.go": aHeader + "// " + strings.Repeat("é", 118) + "\n"}, "121 columns"},
	{"columns", "120", map[string]string{"core/x/x.go": aHeader + "// " + strings.Repeat("é", 117) + "\n"}, ""},
	{"columns", "a row of a table", map[string]string{"core/x/x_test.go": aHeader + "var a = [][]int{\n\t{" + strings.Repeat("1, ", 40) + "1},\n}\n"}, ""},
	{"columns", "an address, a text, a tag", map[string]string{"core/x/x.go": aHeader + "// https://" + strings.Repeat("x", 120) + "\nvar a = `\n" + strings.Repeat("x", 130) + "`\n\ntype b struct {\n\tA int `doc:\"" + strings.Repeat("x", 120) + "\"`\n}\n"}, ""},

	{"documents", "no README", map[string]string{"a.md": "x"}, "README.md: missing"},
	{"documents", "a long README", map[string]string{"README.md": strings.Repeat("x\n", 201)}, "README.md: 201 lines, at most 200"},
	{"documents", "a broken link", map[string]string{"a.md": "[x](core/nowhere.md)"}, "links to core/nowhere.md"},
	{"documents", "an example without a test", map[string]string{"examples/a/main.go": "package main\n", "examples/a/README.md": "x"}, "examples/a: has no main_test.go"},
	{"documents", "an example without README", map[string]string{"examples/a/main.go": "package main\n"}, "examples/a: has no README.md"},
	{"documents", "all there", map[string]string{"README.md": "[a](core/) [b](core/RATIONALE.md#why) [c](https://example.com/x)", "core/ARCHITECTURE.md": "", "core/RATIONALE.md": ""}, ""},
}

// Each rule fails on what breaks it, and is silent on what looks alike and does not.
func TestRulesCatch(t *testing.T) {
	fails, passes := map[string]bool{}, map[string]bool{}
	for _, p := range planted {
		t.Run(strings.ReplaceAll(p.rule+"/"+p.what, " ", "_"), func(t *testing.T) {
			got := strings.Join(find(t, p.rule).check(plant(t, p.files)), "\n")
			switch {
			case p.want == "" && got != "":
				t.Errorf("should be silent, says: %s", got)
			case !strings.Contains(got, p.want):
				t.Errorf("should say %q, says: %s", p.want, got)
			}
		})
		fails[p.rule] = fails[p.rule] || p.want != ""
		passes[p.rule] = passes[p.rule] || p.want == ""
	}
	for _, r := range rules {
		if !fails[r.name] || !passes[r.name] {
			t.Errorf("the rule %q is not proven: plant a tree that breaks it and one that does not", r.name)
		}
	}
}

func find(t *testing.T, name string) rule {
	for _, r := range rules {
		if r.name == name {
			return r
		}
	}
	t.Fatalf("there is no rule %q", name)
	return rule{}
}

func plant(t *testing.T, files map[string]string) *tree {
	dir := t.TempDir()
	for name, src := range files {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(src), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tr, err := load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// The allow-list names what is there, each library in one place, and says why.
func TestAllowList(t *testing.T) {
	repo, err := load(root(t))
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, f := range repo.goFiles(true) {
		if r := rowOf(f.dir()); r != nil {
			used[r.pkg] = true
		}
	}
	knows := map[string]string{}
	for _, r := range allowed {
		if !used[r.pkg] {
			t.Errorf("%s has a row and is not there: delete the row", r.pkg)
		}
		if r.why == "" {
			t.Errorf("%s: say why the row is as it is", r.pkg)
		}
		for _, lib := range r.others {
			if other := knows[lib]; other != "" && !everywhere(lib) {
				t.Errorf("%s and %s both know %s: one library, one package", other, r.pkg, lib)
			}
			knows[lib] = r.pkg
		}
	}
	for place, why := range panics {
		if why == "" || !exists(repo, place) {
			t.Errorf("panics: %s is not there or has no reason", place)
		}
	}
	for place, why := range skips {
		if file, _, _ := strings.Cut(place, " "); why == "" || !exists(repo, file) {
			t.Errorf("skips: %s is not there or has no reason", place)
		}
	}
}

// everywhere says which libraries have no one place: the Go project's, YAML, commands, and what the plugin protocol is
// made of, which both of its ends speak.
func everywhere(lib string) bool {
	for _, prefix := range []string{"golang.org/x/", "go.yaml.in/", "github.com/spf13/cobra", "google.golang.org/",
		"github.com/hashicorp/go-"} {
		if strings.HasPrefix(lib, prefix) {
			return true
		}
	}
	return false
}

func exists(tr *tree, p string) bool {
	for _, f := range tr.files {
		if f.path == p {
			return true
		}
	}
	return false
}
