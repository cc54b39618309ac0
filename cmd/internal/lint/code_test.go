package lint

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/token"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// The hard limits. Aim for 300 and 40.
const (
	maxFileLines     = 400
	maxTestLines     = 600
	maxFunctionLines = 80
)

// pure are the packages that get the time and randomness handed in.
var pure = []string{"core/ops", "core/chain", "core/store", "core/log", "core/rules"}

// panics are the places in core where a panic is right, by file, each with the reason.
var panics = map[string]string{
	"core/admin/admin.go":       "http.ErrAbortHandler cuts an answer that would look whole",
	"core/admin/backup.go":      "as admin.go",
	"core/doors/front/front.go": "http.ErrAbortHandler cuts an answer that would look whole",
	"core/httpd/openapi.go":     "the document is made of constants: a programmer's mistake, seen by the first test",
	"core/wasm/check/body.go": "a function that was read once cannot be unreadable: a programmer's mistake, which " +
		"the fuzz target would find",
	"core/wasm/check/meter.go":  "what panicked on another goroutine is handed to the caller",
	"core/wasm/host/fuel.go":    "the way of wazero's host functions to stop a guest; the call recovers it",
	"core/wasm/host/call.go":    "the way of wazero's host functions to stop a guest; the call recovers it",
	"core/wasm/host/imports.go": "the way of wazero's host functions to stop a guest; the call recovers it",
}

// makesKeys are the files of pure packages that may read randomness, each with the reason.
var makesKeys = map[string]string{
	"core/log/signer.go": "makes the signing key, once, on an empty data directory",
}

// skips are the tests that may skip for another reason than -short or a missing variable, by file and function.
var skips = map[string]string{
	"core/wasm/host/slice_linux_test.go TestLongCallsStandBack": "a kernel before Linux 6.12 gives threads no slices " +
		"of their own",
	"core/prochost/peer_test.go TestPeerInContainer": "a machine may refuse its users PID namespaces; what it " +
		"shows is the kernel's answer there",
	"core/supervise/confine_test.go TestConfined": "a kernel may lack Landlock or filters; what is missing is told",
	"core/supervise/confine_test.go TestConfinedNetwork": "a kernel may lack a version of Landlock; what is " +
		"missing is told",
	"core/supervise/confine_test.go TestConfinedPaths": "a kernel may lack Landlock or filters; what is missing is told",
	"core/supervise/confine_test.go TestHidden": "root of a container may look into everything and not become " +
		"another user",
	"core/wasm/host/sealed_test.go TestWorkerSealed":     "a kernel may lack Landlock or filters; what is missing is told",
	"core/wasm/host/sealed_test.go TestModulesRunSealed": "a kernel may lack Landlock or filters; what is missing is told",
	"core/rules/glob_test.go FuzzGlob":                   "the reference implementation is exponential in the input",
	"core/store/faults_test.go TestFaultProcess": "the body of a child process, which the test after it starts " +
		"and judges",
	"cmd/yett/faults_test.go mayTrace": "a container may refuse to trace a process; core/store has faults " +
		"without that",
	"cmd/yett/diskfull_test.go smallDisk":      "to mount a disk takes root; core/store tests the same without one",
	"core/rules/index_test.go TestAllocations": "the race detector empties pools at random, so there is nothing to count",
}

func gofmt(tr *tree) []string {
	var out []string
	for _, f := range tr.goFiles(true) {
		if want, err := format.Source(f.src); err != nil || !bytes.Equal(want, f.src) {
			out = append(out, f.path+": not gofmt-ed: run gofmt -w "+f.path)
		}
	}
	return out
}

// packageComments wants one "// Package x …" (or "// Command x …") of two to ten lines in each package.
func packageComments(tr *tree) []string {
	has, name := map[string]int{}, map[string]string{}
	for _, f := range tr.goFiles(true) {
		if _, seen := has[f.dir()]; !seen || !f.test() {
			name[f.dir()] = strings.TrimSuffix(f.ast.Name.Name, "_test")
		}
		has[f.dir()] += 0
		if doc := f.ast.Doc.Text(); strings.HasPrefix(doc, "Package ") || strings.HasPrefix(doc, "Command ") {
			has[f.dir()] = max(has[f.dir()], len(f.ast.Doc.List))
		}
	}
	var out []string
	for dir, lines := range has {
		if lines < 2 || lines > 10 {
			out = append(out, fmt.Sprintf("%s: the package comment has %d lines: write two to ten, // Package %s …: what it "+
				"owns, what it must never do, where data comes from and goes", dir, lines, name[dir]))
		}
	}
	return out
}

var vagueNames = regexp.MustCompile(`^(util|utils|common|helper|helpers|type|types|manager|managers|misc|shared|base|lib)$`)

func packageNames(tr *tree) []string {
	var out []string
	for _, f := range tr.goFiles(true) {
		name := strings.TrimSuffix(f.ast.Name.Name, "_test")
		if vagueNames.MatchString(name) || vagueNames.MatchString(path.Base(f.dir())) || name != strings.ToLower(name) ||
			strings.Contains(name, "_") {
			out = append(out, f.path+": package "+name+" says nothing: name it after the one noun it owns, in lower case")
		}
	}
	return out
}

func sizes(tr *tree) []string {
	var out []string
	for _, f := range tr.goFiles(true) {
		if f.generated() {
			continue
		}
		most := maxFileLines
		if f.test() {
			most = maxTestLines
		}
		if n := bytes.Count(f.src, []byte("\n")); n > most {
			out = append(out, fmt.Sprintf("%s: %d lines, at most %d: split it by what it is about", f.path, n, most))
		}
		if f.test() {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			name := "a function"
			switch d := n.(type) {
			case *ast.FuncDecl:
				name = d.Name.Name
			case *ast.FuncLit:
			default:
				return true
			}
			if lines := tr.fset.Position(n.End()).Line - tr.fset.Position(n.Pos()).Line + 1; lines > maxFunctionLines {
				out = append(out, fmt.Sprintf("%s%s has %d lines, at most %d: name its parts", tr.at(n), name, lines,
					maxFunctionLines))
			}
			return true
		})
	}
	return out
}

func noInit(tr *tree) []string {
	var out []string
	for _, f := range tr.goFiles(false) {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" && f.in("core", "config", "cmd") {
				out = append(out, tr.at(fn)+"no init(): make it in a constructor, so that order and failure can be seen")
			}
		}
	}
	return out
}

func noPanic(tr *tree) []string {
	var out []string
	for _, f := range tr.goFiles(false) {
		if !f.in("core") || panics[f.path] != "" {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if id, ok := call.Fun.(*ast.Ident); ok && id.Name == "panic" {
					out = append(out, tr.at(n)+"no panic in core: return an error that ends in a refusal, or list the file with "+
						"its reason in code_test.go")
				}
			}
			return true
		})
	}
	return out
}

func noClock(tr *tree) []string {
	var out []string
	for _, f := range tr.goFiles(false) {
		if !f.in(pure...) {
			continue
		}
		for _, n := range calls(f, "time", "Now", "Since", "Until") {
			out = append(out, tr.at(n)+"no clock here: the time comes in with Settings or the command")
		}
		for _, im := range f.ast.Imports {
			switch strings.Trim(im.Path.Value, `"`) {
			case "math/rand", "math/rand/v2", "crypto/rand":
				if makesKeys[f.path] != "" {
					continue
				}
				out = append(out, tr.at(im)+"no randomness here: it comes in with Settings or the command")
			}
		}
	}
	return out
}

func noPrint(tr *tree) []string {
	var out []string
	for _, f := range tr.goFiles(false) {
		if !f.in("core", "config", "sdk") {
			continue
		}
		for _, n := range calls(f, "fmt", "Print", "Println", "Printf") {
			out = append(out, tr.at(n)+"no printing to stdout here: return it, or log it where the error stops")
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if id, ok := call.Fun.(*ast.Ident); ok && (id.Name == "print" || id.Name == "println") {
					out = append(out, tr.at(n)+"no print left from debugging: remove it")
				}
			}
			return true
		})
	}
	return out
}

// Written in halves, so that this file keeps the rule.
var (
	openEnd = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME)\b`)
	signed  = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME)\([^)]+\)`)
	tickets = regexp.MustCompile(`(?i)\b(phase|ticket|milestone|sprint) ?#?[0-9]+\b|\bissue #?[0-9]+\b`)
)

func noTodo(tr *tree) []string {
	var out []string
	for _, f := range tr.goFiles(true) {
		for _, group := range f.ast.Comments {
			for _, c := range group.List {
				if openEnd.MatchString(c.Text) && !signed.MatchString(c.Text) {
					out = append(out, tr.at(c)+"an open end without a name: do it, delete it, or sign it as TO"+"DO(name)")
				}
				if tickets.MatchString(c.Text) {
					out = append(out, tr.at(c)+"a comment names a plan or ticket: say what is so and why instead")
				}
			}
		}
	}
	return out
}

// noSkip lets a test skip for -short and for a variable that names data; anything else hides a failure.
func noSkip(tr *tree) []string {
	var out []string
	for _, f := range tr.goFiles(true) {
		if !f.test() {
			continue
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || skips[f.path+" "+fn.Name.Name] != "" {
				continue
			}
			for _, n := range badSkips(fn) {
				out = append(out, tr.at(n)+"a skip that is neither for testing.Short() nor for an unset variable YETT_… hides a "+
					"failure: make the test run, or list it with its reason in code_test.go")
			}
		}
	}
	return out
}

func badSkips(fn *ast.FuncDecl) []ast.Node {
	var bad []ast.Node
	var fine []ast.Node // what runs only with -short, and what draws at random: there a skip throws one draw away
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if draws(n.Type) {
				fine = append(fine, n.Body)
			}
		case *ast.FuncLit:
			if draws(n.Type) {
				fine = append(fine, n.Body)
			}
		case *ast.IfStmt:
			if asksShort(n.Cond) {
				fine = append(fine, n.Body)
			}
		case *ast.CaseClause:
			if len(n.List) == 1 && asksShort(n.List[0]) {
				fine = append(fine, n)
			}
		case *ast.CallExpr:
			sel, ok := n.Fun.(*ast.SelectorExpr)
			if !ok || sel.Sel.Name != "Skip" && sel.Sel.Name != "Skipf" && sel.Sel.Name != "SkipNow" {
				return true
			}
			if id, ok := sel.X.(*ast.Ident); !ok || len(id.Name) > 2 && id.Name != "tb" {
				return true // not a test's: t, b, f or tb
			}
			if !inside(fine, n) && !namesVariable(n) {
				bad = append(bad, n)
			}
		}
		return true
	})
	return bad
}

// draws says whether a function takes a *rapid.T.
func draws(fn *ast.FuncType) bool {
	for _, p := range fn.Params.List {
		if star, ok := p.Type.(*ast.StarExpr); ok {
			if sel, ok := star.X.(*ast.SelectorExpr); ok {
				if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "rapid" {
					return true
				}
			}
		}
	}
	return false
}

func asksShort(cond ast.Expr) bool {
	found := false
	ast.Inspect(cond, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Short" {
			found = true
		}
		return true
	})
	return found
}

func inside(blocks []ast.Node, n ast.Node) bool {
	for _, b := range blocks {
		if b.Pos() <= n.Pos() && n.End() <= b.End() {
			return true
		}
	}
	return false
}

// namesVariable says whether a skip's message names the variable to set.
func namesVariable(call *ast.CallExpr) bool {
	found := false
	for _, arg := range call.Args {
		ast.Inspect(arg, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && strings.Contains(lit.Value, "YETT_") {
				found = true
			}
			return true
		})
	}
	return found
}

func imported(f *file, name string) bool {
	for _, im := range f.ast.Imports {
		if strings.Trim(im.Path.Value, `"`) == name {
			return true
		}
	}
	return false
}

func noSleep(tr *tree) []string {
	var out []string
	for _, f := range tr.goFiles(true) {
		if !f.test() {
			continue
		}
		if imported(f, "testing/synctest") {
			continue // there a sleep moves a clock of the test's own
		}
		for _, n := range calls(f, "time", "Sleep") {
			out = append(out, tr.at(n)+"a sleep does not synchronise: wait on a channel, or poll with a deadline and a ticker")
		}
	}
	return out
}

// writtenPrograms has tests write what they run by the one door that does so while no process starts.
func writtenPrograms(tr *tree) []string {
	var out []string
	for _, f := range tr.goFiles(true) {
		if top, _, _ := strings.Cut(f.path, "/"); !f.test() || top == "examples" || top == "config" {
			continue // an example cannot import core, and config runs nothing
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 3 {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if mode, lit := call.Args[2].(*ast.BasicLit); ok && sel.Sel.Name == "WriteFile" && lit && runs(mode.Value) {
				out = append(out, tr.at(n)+"a process that starts meanwhile keeps the program open for writing, and the system "+
					"does not run it (\"text file busy\"): use testkit.WriteProgram")
			}
			return true
		})
	}
	return out
}

// runs says whether a mode, as a source has it, lets anybody execute the file.
func runs(mode string) bool {
	m, err := strconv.ParseUint(mode, 0, 32)
	return err == nil && m&0o111 != 0
}
