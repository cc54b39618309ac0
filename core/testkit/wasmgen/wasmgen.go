// Package wasmgen makes WASM modules for tests, byte by byte: an encoder for the binary format, a Guest that is a
// complete scanner of ABI v1 unless a test spoils it, and the table of hostile modules that every host of modules is
// tested with. It judges nothing and runs nothing. Its bytes go to the tests of core/wasm/check, core/wasm/host and the
// real binary; no program may import it.
package wasmgen

import (
	"encoding/binary"
)

// The section ids of the binary format.
const (
	SecCustom byte = iota
	SecType
	SecImport
	SecFunction
	SecTable
	SecMemory
	SecGlobal
	SecExport
	SecStart
	SecElement
	SecCode
	SecData
	SecDataCount
)

// The kinds of imports and exports.
const (
	ExternFunc byte = iota
	ExternTable
	ExternMemory
	ExternGlobal
)

// Value types.
const (
	I32Type     byte = 0x7f
	I64Type     byte = 0x7e
	F32Type     byte = 0x7d
	F64Type     byte = 0x7c
	V128Type    byte = 0x7b
	FuncrefType byte = 0x70
	ExternType  byte = 0x6f
)

// Magic begins every core module.
const Magic = "\x00asm\x01\x00\x00\x00"

// Leb is an unsigned number of the format.
func Leb(v uint64) []byte { return binary.AppendUvarint(nil, v) }

// Sleb is a signed number of the format.
func Sleb(v int64) (b []byte) {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

// Cat joins pieces of code or of a binary.
func Cat(parts ...[]byte) []byte {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	b := make([]byte, 0, n)
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

// Sized puts the length in front.
func Sized(b []byte) []byte { return Cat(Leb(uint64(len(b))), b) }

// Vec is a vector: the number of items, then the items.
func Vec(items ...[]byte) []byte { return Cat(Leb(uint64(len(items))), Cat(items...)) }

// Sec is one section with an honest length.
func Sec(id byte, body ...[]byte) []byte { return Cat([]byte{id}, Sized(Cat(body...))) }

// Sig is a function's type, one letter a value: i i32, l i64, f f32, d f64, v v128, r funcref, x externref.
type Sig struct{ Params, Results string }

var letters = map[rune]byte{'i': I32Type, 'l': I64Type, 'f': F32Type, 'd': F64Type, 'v': V128Type, 'r': FuncrefType,
	'x': ExternType}

func (s Sig) encode() []byte {
	list := func(of string) (b []byte) {
		for _, c := range of {
			b = append(b, letters[c])
		}
		return Sized(b)
	}
	return Cat([]byte{0x60}, list(s.Params), list(s.Results))
}

// Func is one function of a module.
type Func struct {
	Sig    Sig
	Locals int    // of type i32
	Groups []byte // instead of Locals: the vector of groups as it is written
	Body   []byte // without its last end
	Raw    []byte // instead of all of these but Sig: the body as it is written, without its length
}

func (f Func) encode() []byte {
	switch {
	case f.Raw != nil:
		return Sized(f.Raw)
	case f.Groups != nil:
		return Sized(Cat(f.Groups, f.Body, End))
	case f.Locals > 0:
		return Sized(Cat(Vec(Cat(Leb(uint64(f.Locals)), []byte{I32Type})), f.Body, End))
	}
	return Sized(Cat(Vec(), f.Body, End))
}

// Import is one import: a function of type Sig unless Desc, as it is written, says otherwise.
type Import struct {
	Module, Name string
	Kind         byte
	Desc         []byte
	Sig          Sig
}

// Export is one export.
type Export struct {
	Name  string
	Kind  byte
	Index int
}

// Data is an active data segment of memory 0.
type Data struct {
	At    int
	Bytes string
}

// Custom is a custom section; all of them stand at the end.
type Custom struct{ Name, Body string }

// Module is a module before it is encoded. Items of type []byte are written as they are.
type Module struct {
	Types     []Sig // in front of those that functions and imports add
	Imports   []Import
	Funcs     []Func
	Tables    [][]byte // type and limits: Table
	Memories  [][]byte // limits: Limits
	Globals   [][]byte // type, mutability, value: Global
	Exports   []Export
	Start     int // a function; 0 none
	Elements  [][]byte
	Datas     []Data
	Passive   []string // passive data segments, behind Datas
	DataCount bool     // write that section
	Customs   []Custom

	Replace map[byte][]byte // bodies of sections that are written instead of what the fields give
	Tail    []byte          // bytes behind the last section
}

// Limits are those of a table or memory; max < 0 is none.
func Limits(minimum, maximum int) []byte {
	if maximum < 0 {
		return Cat([]byte{0}, Leb(uint64(minimum)))
	}
	return Cat([]byte{1}, Leb(uint64(minimum)), Leb(uint64(maximum)))
}

// Table is a table of functions.
func Table(minimum, maximum int) []byte { return Cat([]byte{FuncrefType}, Limits(minimum, maximum)) }

// Global is a mutable global with a constant for its value.
func Global(typ byte, value []byte) []byte { return Cat([]byte{typ, 1}, value, End) }

// Encode writes the module.
func (m *Module) Encode() []byte {
	var types [][]byte
	index := map[Sig]int{}
	add := func(s Sig) {
		index[s] = len(types)
		types = append(types, s.encode())
	}
	for _, s := range m.Types {
		add(s)
	}
	typ := func(s Sig) []byte {
		if _, ok := index[s]; !ok {
			add(s)
		}
		return Leb(uint64(index[s]))
	}
	bodies := map[byte][]byte{}
	put := func(id byte, items [][]byte) {
		if len(items) > 0 {
			bodies[id] = Vec(items...)
		}
	}
	put(SecImport, m.imports(typ))
	var funcs, codes, exports [][]byte
	for _, f := range m.Funcs {
		funcs = append(funcs, typ(f.Sig))
		codes = append(codes, f.encode())
	}
	for _, e := range m.Exports {
		exports = append(exports, Cat(Sized([]byte(e.Name)), []byte{e.Kind}, Leb(uint64(e.Index))))
	}
	put(SecType, types)
	put(SecFunction, funcs)
	put(SecTable, m.Tables)
	put(SecMemory, m.Memories)
	put(SecGlobal, m.Globals)
	put(SecExport, exports)
	if m.Start > 0 {
		bodies[SecStart] = Leb(uint64(m.Start))
	}
	put(SecElement, m.Elements)
	put(SecCode, codes)
	put(SecData, m.datas())
	if m.DataCount {
		bodies[SecDataCount] = Leb(uint64(len(m.Datas) + len(m.Passive)))
	}
	return m.write(bodies)
}

func (m *Module) imports(typ func(Sig) []byte) (out [][]byte) {
	for _, i := range m.Imports {
		desc := i.Desc
		if desc == nil {
			desc = typ(i.Sig)
		}
		out = append(out, Cat(Sized([]byte(i.Module)), Sized([]byte(i.Name)), []byte{i.Kind}, desc))
	}
	return out
}

func (m *Module) datas() (out [][]byte) {
	for _, d := range m.Datas {
		out = append(out, Cat(Leb(0), I32(d.At), End, Sized([]byte(d.Bytes))))
	}
	for _, p := range m.Passive {
		out = append(out, Cat(Leb(1), Sized([]byte(p))))
	}
	return out
}

// order is how sections follow each other.
var order = []byte{SecType, SecImport, SecFunction, SecTable, SecMemory, SecGlobal, SecExport, SecStart, SecElement,
	SecDataCount, SecCode, SecData}

func (m *Module) write(bodies map[byte][]byte) []byte {
	out := [][]byte{[]byte(Magic)}
	for _, id := range order {
		body, ok := m.Replace[id]
		if !ok {
			body = bodies[id]
		}
		if body != nil {
			out = append(out, Sec(id, body))
		}
	}
	for _, c := range m.Customs {
		out = append(out, Sec(SecCustom, Sized([]byte(c.Name)), []byte(c.Body)))
	}
	return Cat(append(out, m.Tail)...)
}
