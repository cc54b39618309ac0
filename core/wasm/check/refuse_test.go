package check

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/yett-dev/yett/sdk/abi"
)

// golden compares with a file of testdata, or writes it when GOLDEN=write.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if os.Getenv("GOLDEN") == "write" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs:\n%s", file, got)
	}
}

// guest is the smallest module that is let in.
func guest() module {
	m := module{memory: true, globals: 1, exports: [][]byte{exportOf(abi.ExportMemory, externMemory, 0)},
		imports: [][]byte{cat(list1(abi.ImportModule), list1(abi.ImportPut), []byte{externFunc, 5})},
		types:   [][]byte{funcType("iii", "i")}}
	for i, f := range []struct {
		name string
		fn
	}{
		{abi.ExportMarker, fn{}},
		{abi.ExportBuffer, fn{params: "i", results: "i", code: i32(1024)}},
		{abi.ExportInit, fn{params: "i", results: "i", code: i32(0)}},
		{abi.ExportScan, fn{params: "iii", results: "i", code: i32(0)}},
		{abi.ExportDescribe, fn{results: "i", code: i32(0)}},
	} {
		m.funcs = append(m.funcs, f.fn)
		m.exports = append(m.exports, exportOf(f.name, externFunc, i+1))
	}
	return m
}

func without(i int) func(*module) {
	return func(m *module) { m.exports = slices.Delete(m.exports, i, i+1) }
}

// importing changes the one import; importing something that is not a function adds one, so that no index changes.
func importing(from, name string, rest ...byte) func(*module) {
	return func(m *module) {
		im := cat(list1(from), list1(name), rest)
		if rest[0] != externFunc {
			m.imports = append(m.imports, im)
			return
		}
		m.imports[0] = im
	}
}

func exporting(name string, kind byte, index int) func(*module) {
	return func(m *module) { m.exports = append(m.exports, exportOf(name, kind, index)) }
}

// scanning gives the scan function another body.
func scanning(code ...[]byte) func(*module) {
	return func(m *module) { m.funcs[3].code = cat(cat(code...), i32(0)) }
}

// Changes to a sound module, each with a twin that is let in where the limit is what matters.
var refusals = []struct {
	name string
	edit func(*module)
	twin func(*module)
}{
	{"no memory export", without(0), nil},
	{"no marker", without(1), nil},
	{"no buffer", without(2), nil},
	{"no init", without(3), nil},
	{"neither scan nor check", without(4), nil},
	{"no metadata", without(5), nil},
	{"export of the host's", exporting(ExportFuel, externGlobal, 0), exporting("yetu.fuel", externGlobal, 0)},
	{"export of a metering global", exporting("x", externGlobal, 1), exporting("x", externGlobal, 0)},
	{"export of a function that is added", exporting("x", externFunc, 6), exporting("x", externFunc, 5)},
	{"unknown export", exporting("yett_scn", externFunc, 1), exporting("yetu_scn", externFunc, 1)},
	{"double export", exporting(abi.ExportMemory, externMemory, 0), nil},
	{"program", exporting("_start", externFunc, 1), exporting("_starter", externFunc, 1)},
	{"check of the wrong type", exporting(abi.ExportCheck, externFunc, 1), nil},
	{"initialize is a memory", exporting(abi.ExportInitialize, externMemory, 0), exporting(abi.ExportInitialize, externFunc, 1)},
	{"start section", func(m *module) { m.elems, m.more = nil, nil; m.exports = append(m.exports, nil); *m = started(*m) }, nil},
	{"import from env", importing("env", "put", externFunc, 5), nil},
	{"import from the metering host", importing(HostModule, ImportTick, externFunc, 5), nil},
	{"unknown import", importing(abi.ImportModule, "putt", externFunc, 5), nil},
	{"import of files", importing(abi.WASIModule, "path_open", externFunc, 5), nil},
	{"import with another type", importing(abi.ImportModule, abi.ImportLog, externFunc, 5), nil},
	{"import of a memory", importing(abi.ImportModule, "memory", externMemory, 0, 1), nil},
	{"import of a table", importing(abi.ImportModule, abi.ImportPut, externTable, valFuncref, 0, 1), nil},
	{"import of a mutable global", importing(abi.ImportModule, abi.ImportPut, externGlobal, valI32, 1), nil},
	{"global.set of the fuel", scanning(i32(9), op(opGlobalSet, 1)), scanning(i32(9), op(opGlobalSet, 0))},
	{"global.get of the stack", scanning(op(opGlobalGet, 2), []byte{opDrop}), scanning(op(opGlobalGet, 0), []byte{opDrop})},
	{"call of an added function", scanning(op(opCall, 6)), scanning(op(opCall, 1))},
	{"reference to an added function", scanning(op(opRefFunc, 6), []byte{opDrop}), scanning(op(opRefFunc, 1), []byte{opDrop})},
	{"local that is not there", scanning(op(opLocalGet, 3), []byte{opDrop}), scanning(op(opLocalGet, 2), []byte{opDrop})},
	{"branch out of the function", scanning(blk(op(opBr, 2))), scanning(blk(op(opBr, 0)))},
	{"branch table out of the function", scanning(blk(i32(0), []byte{opBrTable, 1, 0, 2})), scanning(blk(i32(0), []byte{opBrTable, 1, 0, 0}))},
	{"branch table of 2^28 targets", scanning(blk(i32(0), []byte{opBrTable, 0x80, 0x80, 0x80, 0x80, 0x01})), nil},
	{"block of a type that is not there", scanning([]byte{opBlock, 60, opEnd}), scanning([]byte{opBlock, 0, opEnd})},
	{"block of a negative type", scanning([]byte{opBlock, 0xc0, 0x7f, opEnd}), nil},
	{"stack underflow", scanning([]byte{opDrop}), scanning(i32(0), []byte{opDrop})},
	{"else without if", scanning(blk([]byte{opElse})), nil},
	{"atomic instruction", scanning([]byte{0xfe, 0x03, 0x00}), nil},
	{"tail call", scanning([]byte{0x12, 0x01}), nil},
	{"exception", scanning([]byte{0x08, 0x00}), nil},
	{"vector opcode in three bytes", scanning([]byte{0xfd, 0x8c, 0x80, 0x00}), nil},
	{"vector opcode that is padded", scanning([]byte{0xfd, 0x8c, 0x00}), nil},
	{"vector opcode above 255", scanning([]byte{0xfd, 0x80, 0x02}), nil},
	{"vector opcode that is not assigned", scanning([]byte{0xfd, 0x9a, 0x01}), nil},
	{"instruction cut short", func(m *module) { m.funcs[3].code = []byte{opI32Const, 0x80} }, nil},
	{"code behind the end", scanning([]byte{opEnd}), nil},
	{"nested too deep", scanning(repeat(maxNesting, []byte{opBlock, 0x40}), repeat(maxNesting, []byte{opEnd})),
		scanning(repeat(maxNesting-1, []byte{opBlock, 0x40}), toAll(maxNesting-1), repeat(maxNesting-1, []byte{opEnd}))},
	{"body too long", scanning(repeat(maxBody, []byte{opNop})), scanning(repeat(maxBody-10, []byte{opNop}))},
	{"too many locals", func(m *module) { m.funcs[3].locals = maxLocals + 1 }, func(m *module) { m.funcs[3].locals = maxLocals }},
	{"table too large", func(m *module) { m.tables = [][]byte{cat([]byte{valFuncref, 0}, leb(maxTableMin+1))} },
		func(m *module) { m.tables = [][]byte{cat([]byte{valFuncref, 0}, leb(maxTableMin))} }},
	{"memory that starts above its maximum", memoryOf(1, 1, 0), memoryOf(1, 1, 1)},
	{"memory that starts above the limit", memoryOf(0, 2), memoryOf(0, 1)},
	{"memory with a maximum above 4 GiB", memoryOf(1, 1, 0x81, 0x80, 4), memoryOf(1, 1, 0x80, 0x80, 4)},
	{"memory of 64 bits", memoryOf(4, 1), nil},
	{"memory that is shared", memoryOf(3, 1, 1), nil},
	{"memory that is shared without a maximum", memoryOf(2, 1), nil},
	{"memory of an unknown kind", memoryOf(8, 1), nil},
	{"two memories", func(m *module) { m.limits = []byte{0, 1, 0, 1} }, nil},
	{"table that starts above its maximum", func(m *module) { m.tables = [][]byte{{valFuncref, 1, 2, 1}} },
		func(m *module) { m.tables = [][]byte{{valFuncref, 1, 2, 2}} }},
	{"table that is shared", func(m *module) { m.tables = [][]byte{{valFuncref, 3, 1, 1}} }, nil},
	{"table of 64 bits", func(m *module) { m.tables = [][]byte{{valFuncref, 4, 1}} }, nil},
	{"element of an added function", withElement(6), withElement(5)},
	{"data.drop without a count", scanning([]byte{0xfc, 9, 0}), nil},
	{"memory other than the first", scanning([]byte{opMemorySize, 1, opDrop}), scanning([]byte{opMemorySize, 0, opDrop})},
}

// toAll is a table of the n labels around it, as Go's compiler writes it.
func toAll(n int) []byte {
	b := cat(i32(0), []byte{opBrTable}, leb(n-1))
	for i := range n {
		b = append(b, leb(i)...)
	}
	return b
}

func memoryOf(limits ...byte) func(*module) {
	return func(m *module) { m.limits = limits }
}

func withElement(i int) func(*module) {
	return func(m *module) {
		m.tables = [][]byte{{valFuncref, 0, 1}}
		m.elems = [][]byte{cat([]byte{0, opI32Const, 0, opEnd, 1}, leb(i))}
	}
}

// started has a start section, which the encoder puts where the elements end: there are none here.
func started(m module) module {
	m.exports = m.exports[:len(m.exports)-1]
	m.elems = nil
	m.more = []byte{secStart, 1, 1}
	return m
}

func TestRefusals(t *testing.T) {
	if _, err := Check(guest().encode(), Limits{Pages: 1}); err != nil {
		t.Fatalf("the sound module: %v", err)
	}
	var out strings.Builder
	for _, r := range refusals {
		m := guest()
		r.edit(&m)
		_, err := Check(m.encode(), Limits{Pages: 1})
		var refused *Refusal
		if !errors.As(err, &refused) {
			t.Errorf("%s: got %v", r.name, err)
			continue
		}
		fmt.Fprintf(&out, "%s:\n  %s\n", r.name, refused.Reason)
		if r.twin != nil {
			m := guest()
			r.twin(&m)
			if _, err := Check(m.encode(), Limits{Pages: 1}); err != nil {
				t.Errorf("%s: the twin: %v", r.name, err)
			}
		}
	}
	golden(t, "refused.txt", out.String())
}

// section makes a binary of one section whose length may lie.
func section(id byte, size int, body ...byte) []byte {
	return cat(wasmMagic, []byte{id}, leb(size), body)
}

// TestHostileBytes offers what no encoder writes. The first two end a process that believes their counts.
func TestHostileBytes(t *testing.T) {
	huge := []byte{0xff, 0xff, 0xff, 0xff, 0x0f}
	locals := cat(wasmMagic, []byte{secType, 4, 1, 0x60, 0, 0, secFunction, 2, 1, 0}, []byte{secCode, 10, 1, 8, 1}, huge,
		[]byte{valI32, opEnd})
	var out strings.Builder
	for _, c := range []struct {
		name string
		wasm []byte
	}{
		{"2^28 imports in 15 bytes", section(secImport, 5, 0x80, 0x80, 0x80, 0x80, 0x01)},
		{"2^32-1 locals", locals},
		{"nothing", nil},
		{"text", []byte("(module)")},
		{"component", []byte("\x00asm\x0d\x00\x01\x00")},
		{"2^32-1 types", section(secType, 5, huge...)},
		{"2^32-1 functions", section(secFunction, 5, huge...)},
		{"2^32-1 elements", section(secElement, 10, cat([]byte{1, 0, opI32Const, 0, opEnd}, huge)...)},
		{"2^32-1 data segments", section(secData, 5, huge...)},
		{"2^32-1 bytes of data", section(secData, 10, cat([]byte{1, 0, opI32Const, 0, opEnd}, huge)...)},
		{"2^32-1 exports", section(secExport, 5, huge...)},
		{"2^32-1 groups of locals", cat(wasmMagic, []byte{secType, 4, 1, 0x60, 0, 0, secFunction, 2, 1, 0, secCode, 7, 1, 5}, huge)},
		{"2^32-1 parameters", section(secType, 7, cat([]byte{1, 0x60}, huge)...)},
		{"table of 2^32-1 elements", section(secTable, 8, cat([]byte{1, valFuncref, 0}, huge)...)},
		{"tables with more in all than one may have", section(secTable, 11, cat([]byte{2}, repeat(2, cat([]byte{valFuncref, 0}, leb(150_000))))...)},
		{"section longer than the file", section(secType, 100, 0)},
		{"section shorter than its content", section(secType, 3, 0, 0, 0)},
		{"section twice", cat(section(secType, 1, 0), []byte{secType, 1, 0})},
		{"sections out of order", cat(section(secFunction, 1, 0), []byte{secType, 1, 0})},
		{"unknown section", section(13, 1, 0)},
		{"number too long", section(secType, 6, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01)},
		{"number too large", section(secType, 5, 0xff, 0xff, 0xff, 0xff, 0x1f)},
		{"type that is not there", section(secFunction, 2, 1, 0)},
		{"function without a body", cat(section(secType, 4, 1, 0x60, 0, 0), []byte{secFunction, 2, 1, 0})},
		{"body without an end", cat(section(secType, 4, 1, 0x60, 0, 0), []byte{secFunction, 2, 1, 0}, []byte{secCode, 5, 1, 3, 0, 0, 0})},
		{"name that is not UTF-8", section(secImport, 6, 1, 1, 0xff, 0, 0, 0)},
		{"type of a struct", section(secType, 4, 1, 0x5f, 0, 0)},
		{"call in a constant", section(secGlobal, 6, 1, valI32, 0, opCall, 0, opEnd)},
		{"constant of two instructions", section(secGlobal, 8, 1, valI32, 0, opI32Const, 0, opI32Const, 0, opEnd)},
		{"64-bit memory", section(secMemory, 3, 1, 4, 1)},
		{"more data segments declared than there are", section(secDataCount, 1, 3)},
	} {
		_, err := checkCore(c.wasm)
		var refused *Refusal
		if !errors.As(err, &refused) {
			t.Errorf("%s: got %v", c.name, err)
			continue
		}
		fmt.Fprintf(&out, "%s:\n  %s\n", c.name, refused.Reason)
	}
	golden(t, "hostile.txt", out.String())
	if _, err := Check(make([]byte, abi.MaxModule+1), Limits{}); err == nil ||
		!strings.Contains(err.Error(), "16777217 bytes") {
		t.Errorf("a module that is too large: %v", err)
	}
}
