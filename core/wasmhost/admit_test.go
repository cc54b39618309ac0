package wasmhost

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/yett-dev/yett/sdk/abi"
)

// without drops an export.
func without(name string) func(*mod) {
	return func(m *mod) {
		m.exports = slices.DeleteFunc(m.exports, func(e exp) bool { return e.name == name })
	}
}

func retyped(name, params, results string, body []byte) func(*mod) {
	return func(m *mod) {
		for _, e := range m.exports {
			if e.name == name {
				m.funcs[e.index-len(m.imports)] = fn{sig(params, results), 0, body}
			}
		}
	}
}

func importing(i imp) func(*mod) { return func(m *mod) { m.imports[0] = i } }

// refusals are changes to a sound module that must keep it out.
var refusals = []struct {
	name string
	edit func(*mod)
}{
	{"no memory export", without(abi.ExportMemory)},
	{"no marker", without(abi.ExportMarker)},
	{"no buffer", without(abi.ExportBuffer)},
	{"no init", without(abi.ExportInit)},
	{"neither scan nor check", without(abi.ExportScan)},
	{"marker with a result", retyped(abi.ExportMarker, "", "i", i32(0))},
	{"buffer without a result", retyped(abi.ExportBuffer, "i", "", nil)},
	{"init of i64", retyped(abi.ExportInit, "l", "i", i32(0))},
	{"scan of two", retyped(abi.ExportScan, "ii", "i", i32(0))},
	{"check of three", func(m *mod) {
		m.exports = append(m.exports, exp{abi.ExportCheck, externFunc, len(m.imports) + len(m.funcs) - 1})
	}},
	{"initialize with a result", func(m *mod) {
		m.exports = append(m.exports, exp{abi.ExportInitialize, externFunc, len(m.imports) + len(m.funcs) - 2})
	}},
	{"scan is an import", func(m *mod) { m.exports[len(m.exports)-1].index = 0 }},
	{"function that is not there", func(m *mod) { m.exports[len(m.exports)-1].index = 999 }},
	{"scan is a memory", func(m *mod) { m.exports[len(m.exports)-1] = exp{abi.ExportScan, externMemory, 0} }},
	{"memory is a function", func(m *mod) { m.exports[0] = exp{abi.ExportMemory, externFunc, 30} }},
	{"unknown export", func(m *mod) { m.exports = append(m.exports, exp{"yett_scn", externFunc, 30}) }},
	{"double export", func(m *mod) { m.exports = append(m.exports, m.exports[0]) }},
	{"program", func(m *mod) { m.exports = append(m.exports, exp{"_start", externFunc, len(m.imports)}) }},
	{"start section", func(m *mod) { m.start = len(m.imports) }},
	{"two memories", func(m *mod) { m.memories = append(m.memories, m.memories[0]) }},
	{"no memory", func(m *mod) { m.memories = nil }},
	{"shared memory", func(m *mod) { m.memories = [][]byte{{3, 1, 1}} }},
	{"64-bit memory", func(m *mod) { m.memories = [][]byte{{4, 1}} }},
	{"large memory", func(m *mod) { m.memories = [][]byte{cat([]byte{0}, leb(1025))} }},
	{"memory imported", importing(imp{module: abi.ImportModule, name: "memory", kind: externMemory, desc: []byte{0, 1}})},
	{"table imported", importing(imp{module: abi.ImportModule, name: "emit", kind: externTable, desc: []byte{0x70, 0, 1}})},
	{"global imported", importing(imp{module: abi.WASIModule, name: "fd_write", kind: externGlobal, desc: []byte{0x7f, 0}})},
	{"import from env", importing(imp{module: "env", name: "emit", sig: hostFuncs[0].sig})},
	{"unknown import", importing(imp{module: abi.ImportModule, name: "emitt", sig: hostFuncs[0].sig})},
	{"import of files", importing(imp{module: abi.WASIModule, name: "path_open", sig: sig("iiiiiilli", "i")})},
	{"import in the wrong module", importing(imp{module: abi.WASIModule, name: "emit", sig: hostFuncs[0].sig})},
	{"import with another type", importing(imp{module: abi.ImportModule, name: "emit", sig: sig("iiiiiiiii", "i")})},
	{"import without a result", importing(imp{module: abi.ImportModule, name: "put", sig: sig("iii", "")})},
	{"import with control characters", importing(imp{module: "\x1b[2J", name: "x\n", sig: sig("", "")})},
	{"no metadata", func(m *mod) { m.customs = nil }},
	{"two sections of metadata", func(m *mod) { m.customs = append(m.customs, m.customs[0]) }},
	{"metadata is not JSON", func(m *mod) { m.customs[0].body = "{" }},
	{"body that does not validate", func(m *mod) { m.funcs[len(m.funcs)-1].body = []byte{0x6a} }},
}

func TestRefusals(t *testing.T) {
	h := newHost(t, Options{})
	var out strings.Builder
	for _, r := range refusals {
		g := finder()
		g.edit = r.edit
		_, err := h.Load(context.Background(), Spec{Name: "mod", Code: g.wasm()})
		var refused *RefusedError
		if !errors.As(err, &refused) {
			t.Errorf("%s: got %v", r.name, err)
			continue
		}
		fmt.Fprintf(&out, "%s:\n  %s\n", r.name, refused.Reason)
	}
	golden(t, "refused.txt", []byte(out.String()))
}

// section makes a binary of one section whose length may lie.
func section(id byte, size int, body ...byte) []byte {
	return cat(wasmMagic, []byte{id}, leb(uint64(size)), body)
}

// TestHostileBinaries are bytes that make decoders allocate by a number, or read past an end.
func TestHostileBinaries(t *testing.T) {
	huge := []byte{0xff, 0xff, 0xff, 0xff, 0x0f}
	var out strings.Builder
	for _, c := range []struct {
		name string
		wasm []byte
	}{
		{"empty", nil},
		{"text", []byte("(module)")},
		{"component", []byte("\x00asm\x0d\x00\x01\x00")},
		{"too large", make([]byte, abi.MaxModule+1)},
		{"2^28 imports", section(secImport, 5, 0x80, 0x80, 0x80, 0x80, 0x01)},
		{"2^32-1 types", section(secType, 5, huge...)},
		{"2^32-1 parameters", section(secType, 7, cat([]byte{1, 0x60}, huge)...)},
		{"2^32-1 functions", section(secFunction, 5, huge...)},
		{"2^32-1 exports", section(secExport, 5, huge...)},
		{"2^32-1 elements", section(secElement, 11, cat([]byte{1, 1, 0}, huge, []byte{0, 0, 0})...)},
		{"2^32-1 data", section(secData, 5, huge...)},
		{"2^32-1 bytes of data", section(secData, 7, cat([]byte{1, 1}, huge)...)},
		{"2^32-1 locals", cat(section(secType, 4, 1, 0x60, 0, 0), []byte{secFunction, 2, 1, 0},
			[]byte{secCode, 10, 1, 8, 1}, huge, []byte{valI32, 0x0b})},
		{"locals in two groups", cat(section(secType, 4, 1, 0x60, 0, 0), []byte{secFunction, 2, 1, 0},
			[]byte{secCode, 10, 1, 8, 2, 0xf0, 0x2e, valI32, 0xf0, 0x2e, valI32, 0x0b})},
		{"2^32-1 table", section(secTable, 8, cat([]byte{1, valFuncref, 0}, huge)...)},
		{"section longer than the file", section(secType, 100, 0)},
		{"section shorter than its content", section(secType, 3, 0, 0, 0)},
		{"section twice", cat(section(secType, 1, 0), []byte{secType, 1, 0})},
		{"sections out of order", cat(section(secFunction, 1, 0), []byte{secType, 1, 0})},
		{"unknown section", section(13, 1, 0)},
		{"number too long", section(secType, 6, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01)},
		{"number too large", section(secType, 5, 0xff, 0xff, 0xff, 0xff, 0x1f)},
		{"type that is not there", section(secFunction, 2, 1, 0)},
		{"function without a body", cat(section(secType, 4, 1, 0x60, 0, 0), []byte{secFunction, 2, 1, 0})},
		{"body without an end", cat(section(secType, 4, 1, 0x60, 0, 0), []byte{secFunction, 2, 1, 0}, []byte{secCode, 5, 1, 2, 0, 0, 0})},
		{"name that is not UTF-8", section(secImport, 6, 1, 1, 0xff, 0, 0, 0)},
		{"vector type of a struct", section(secType, 2, 1, 0x5f)},
		{"call in a constant", section(secGlobal, 6, 1, valI32, 0, 0x10, 0, 0x0b)},
	} {
		_, err := inspect(c.wasm)
		var refused *RefusedError
		if !errors.As(err, &refused) {
			t.Errorf("%s: got %v", c.name, err)
			continue
		}
		fmt.Fprintf(&out, "%s:\n  %s\n", c.name, refused.Reason)
	}
	golden(t, "hostile.txt", []byte(out.String()))
}

func TestCustomSectionsAreNotCompiled(t *testing.T) {
	g := finder()
	// A name section whose function map claims 2^32-1 entries.
	g.edit = func(m *mod) {
		m.customs = append(m.customs, custom{"name", "\x01\x05\xff\xff\xff\xff\x0f"}, custom{".debug_info", "x"})
	}
	a, err := admit(g.wasm(), 16)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"\x04name", ".debug_info", abi.MetaSection} {
		if strings.Contains(string(a.code), s) {
			t.Errorf("section %q is still there", s)
		}
	}
	if _, err := scan(load(t, g, nil), "!"); err != nil {
		t.Error(err)
	}
}

func FuzzInspect(f *testing.F) {
	f.Add(finder().wasm())
	f.Add(guest{check: i32(0)}.wasm())
	f.Add(section(secImport, 5, 0x80, 0x80, 0x80, 0x80, 0x01))
	f.Add(section(secElement, 14, 2, 0, 0x41, 0, 0x0b, 1, 0, 7, 0x70, 1, 0xd2, 0, 0x0b, 0))
	f.Add(section(secData, 9, 2, 0, 0x41, 0, 0x0b, 1, 'x', 1, 0))
	f.Fuzz(func(t *testing.T, wasm []byte) {
		s, err := inspect(wasm)
		if err != nil {
			var refused *RefusedError
			if !errors.As(err, &refused) {
				t.Fatalf("error of another type: %v", err)
			}
			return
		}
		for _, e := range s.exports {
			s.functionType(e.index)
		}
		again, err := inspect(s.code)
		if err != nil {
			t.Fatalf("what is compiled is refused: %v", err)
		}
		if string(again.code) != string(s.code) || len(again.exports) != len(s.exports) || len(again.meta) != 0 {
			t.Fatal("what is compiled is another module")
		}
		if _, err := admit(wasm, 16); err == nil && len(s.memories) != 1 {
			t.Fatal("admitted without a memory")
		}
	})
}
