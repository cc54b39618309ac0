package main

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/core/testkit/wasmgen"
	"github.com/yett-dev/yett/core/wasm/check"
	"github.com/yett-dev/yett/core/wasm/host"
	"github.com/yett-dev/yett/sdk/abi"
)

// abiDocument is the document of the module ABI. What it says about constants is tested beside it; here it is held
// against the host.
func abiDocument(t *testing.T) string {
	t.Helper()
	doc, err := os.ReadFile("../../sdk/abi/README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(doc)
}

func abiBlock(t *testing.T, kind string) string {
	t.Helper()
	m := regexp.MustCompile("(?ms)^```" + kind + "\n(.*?)^```$").FindStringSubmatch(abiDocument(t))
	if m == nil {
		t.Fatalf("the document has no block %q", kind)
	}
	return m[1]
}

var valueNames = map[byte]string{wasmgen.I32Type: "i32", wasmgen.I64Type: "i64", wasmgen.F32Type: "f32",
	wasmgen.F64Type: "f64"}

// signatureText writes value types, a byte each, as the document does.
func signatureText(params, results string) string {
	list := func(of string) string {
		names := make([]string, len(of))
		for i := range names {
			names[i] = valueNames[of[i]]
		}
		return "(" + strings.Join(names, ", ") + ")"
	}
	return list(params) + "->" + list(results)
}

// TestABIDocumentSignatures wants a row with the signature for everything that a module may import, and no other.
func TestABIDocumentSignatures(t *testing.T) {
	rows := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|(?: function \\|)? "+
		"`(\\([^`]*)` \\|").FindAllStringSubmatch(abiDocument(t), -1) {
		if rows[m[1]] != "" {
			t.Errorf("%s has two rows", m[1])
		}
		rows[m[1]] = m[2]
	}
	want := map[string]string{}
	for _, im := range check.Imports() {
		want[im.Name] = signatureText(im.Params, im.Results)
	}
	letters := strings.NewReplacer("i", string(wasmgen.I32Type), "f", string(wasmgen.F32Type))
	for name, sig := range wasmgen.Exports { // TestTable sees that the host takes these
		want[name] = signatureText(letters.Replace(sig.Params), letters.Replace(sig.Results))
	}
	for name, sig := range want {
		if rows[name] != sig {
			t.Errorf("%s is %s, the document says %q", name, sig, rows[name])
		}
	}
	for name := range rows {
		if want[name] == "" {
			t.Errorf("the document has %s, the host has not", name)
		}
	}
}

// abiLimit is one row of the table of static limits: item makes a module with n of something.
type abiLimit struct {
	name string
	item func(m *wasmgen.Module, n int)
}

var abiLimits = []abiLimit{
	{"bytes of one function's body", func(m *wasmgen.Module, n int) {
		m.Funcs[0] = wasmgen.Func{Sig: m.Funcs[0].Sig, Raw: append(append([]byte{0}, make([]byte, n-4)...), 0x41, 0, 0x0b)}
		for i := range n - 4 {
			m.Funcs[0].Raw[1+i] = 0x01 // nop
		}
	}},
	{"locals of one function", func(m *wasmgen.Module, n int) { m.Funcs[0].Locals = n }},
	{"parameters or results of one type", func(m *wasmgen.Module, n int) { m.Types = []wasmgen.Sig{{Params: strings.Repeat("i", n)}} }},
	{"types", func(m *wasmgen.Module, n int) {
		own := map[wasmgen.Sig]bool{}
		for _, im := range m.Imports {
			own[im.Sig] = true
		}
		for _, f := range m.Funcs {
			own[f.Sig] = true
		}
		for i := range n - len(own) {
			bits := strings.NewReplacer("0", "i", "1", "f").Replace(strconv.FormatInt(int64(i)+1<<16, 2))
			m.Types = append(m.Types, wasmgen.Sig{Params: bits})
		}
	}},
	{"imports", func(m *wasmgen.Module, n int) {
		extra := make([]wasmgen.Import, n-len(m.Imports))
		for i := range extra {
			extra[i] = m.Imports[0]
		}
		for i := range m.Exports[1:] {
			m.Exports[1+i].Index += len(extra)
		}
		m.Imports = append(m.Imports, extra...)
	}},
	{"globals", func(m *wasmgen.Module, n int) {
		for range n {
			m.Globals = append(m.Globals, wasmgen.Global(wasmgen.I32Type, wasmgen.I32(0)))
		}
	}},
	{"exports", func(m *wasmgen.Module, n int) {
		for i := len(m.Exports); i < n; i++ {
			m.Exports = append(m.Exports, wasmgen.Export{Name: "e" + strconv.Itoa(i), Kind: wasmgen.ExternMemory})
		}
	}},
	{"tables", func(m *wasmgen.Module, n int) {
		for range n {
			m.Tables = append(m.Tables, wasmgen.Table(1, 1))
		}
	}},
	{"entries that a table begins with", func(m *wasmgen.Module, n int) { m.Tables = [][]byte{wasmgen.Table(n, -1)} }},
	{"custom sections", func(m *wasmgen.Module, n int) {
		for range n - len(m.Customs) {
			m.Customs = append(m.Customs, wasmgen.Custom{Name: "x"})
		}
	}},
}

// TestABIDocumentLimits offers static admission a module at each limit that the document gives, and one beyond it.
func TestABIDocumentLimits(t *testing.T) {
	given := map[string]int{}
	_, section, _ := strings.Cut(abiDocument(t), "\n## What the host does to a module\n")
	for _, m := range regexp.MustCompile(`(?m)^\| ([a-z' ]+) \| (\d+) \|$`).FindAllStringSubmatch(section, -1) {
		given[m[1]], _ = strconv.Atoi(m[2])
	}
	if given["bytes of the file"] != abi.MaxModule || len(given) != len(abiLimits)+1 {
		t.Errorf("the table of limits: %v", given)
	}
	for _, said := range []string{fmt.Sprint(host.FuelPerMillisecond, " units for each millisecond"),
		fmt.Sprint(check.StackBudget, " bytes of stack")} {
		if !strings.Contains(abiDocument(t), said) {
			t.Errorf("the document does not say %q", said)
		}
	}
	for _, l := range abiLimits {
		t.Run(l.name, func(t *testing.T) {
			check := func(n int) error {
				g := wasmgen.Guest{Scan: wasmgen.I32(0)}
				g.Extra = []wasmgen.Func{{Sig: wasmgen.Sig{Results: "i"}, Body: wasmgen.I32(0)}}
				g.Edit = func(m *wasmgen.Module) { l.item(m, n) }
				_, err := check.Check(g.Encode(), check.Limits{Pages: 1024})
				return err
			}
			n := given[l.name]
			if err := check(n); err != nil {
				t.Errorf("%d: %v", n, err)
			}
			if err := check(n + 1); err == nil {
				t.Errorf("%d are let in", n+1)
			}
		})
	}
}

// TestABIDocumentModule runs the module that the document gives: its bytes are what its text says, it is fit for a
// gateway, and it answers.
func TestABIDocumentModule(t *testing.T) {
	testkit.Slow(t, "builds a module")
	code, err := hex.DecodeString(strings.Join(strings.Fields(abiBlock(t, "hex-module")), ""))
	if err != nil {
		t.Fatal(err)
	}
	source := abiBlock(t, "wat")
	m := regexp.MustCompile(`\(data \(i32\.const 64\) "(.*)"\)`).FindStringSubmatch(source)
	if m == nil {
		t.Fatal("the text has no metadata")
	}
	meta := strings.ReplaceAll(m[1], `\"`, `"`)
	if !strings.Contains(string(code), meta) || !strings.Contains(source, "(i32.const "+strconv.Itoa(len(meta))+")") {
		t.Errorf("the metadata of %d bytes are not what the module has and says", len(meta))
	}
	for _, name := range regexp.MustCompile(`\((?:export|import) "(\w+)"(?: "(\w+)")?`).FindAllStringSubmatch(source, -1) {
		if !strings.Contains(string(code), name[1]) || !strings.Contains(string(code), name[2]) {
			t.Errorf("the bytes have no %v", name[1:])
		}
	}
	s := startDev(t, nil, "--config", offering(t, offered{name: "bang", code: code, timeout: patientTimeout}))
	for output, want := range map[string]string{"a! b": "a[BANG] b", "!": "[BANG]", "nothing": "nothing", "": ""} {
		a, _, err := s.scanned("bang", output)
		if err != nil || a.status != 200 || a.str("sanitized_output") != want {
			t.Errorf("%q: %v, status %d, want %q: %s", output, err, a.status, want, a.body)
		}
	}
	file := filepath.Join(t.TempDir(), "bang.wasm")
	if err := os.WriteFile(file, code, 0o600); err != nil {
		t.Fatal(err)
	}
	if e := runBinary(t, "scanner", "check", file); e.code != 0 {
		t.Errorf("yett scanner check: exit %d: %s", e.code, e.stderr)
	}
}
