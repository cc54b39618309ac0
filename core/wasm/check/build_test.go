package check

import "encoding/binary"

// A small encoder for modules, so that each test can write the one it needs.

func cat(parts ...[]byte) (b []byte) {
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

func leb(v int) []byte { return binary.AppendUvarint(nil, uint64(v)) }

func list(items ...[]byte) []byte { return cat(leb(len(items)), cat(items...)) }

func repeat(n int, b []byte) (out []byte) {
	for range n {
		out = append(out, b...)
	}
	return out
}

func i32(v int) []byte        { return append([]byte{opI32Const}, sleb(int64(v))...) }
func op(o byte, v int) []byte { return append([]byte{o}, leb(v)...) }
func blk(b ...[]byte) []byte  { return cat([]byte{opBlock, 0x40}, cat(b...), []byte{opEnd}) }
func loop(b ...[]byte) []byte { return cat([]byte{opLoop, 0x40}, cat(b...), []byte{opEnd}) }

// fn is a function with locals of one type, i32 unless of says otherwise.
type fn struct {
	params, results string // letters of sig
	locals          int
	of              byte
	code            []byte // without the last end
}

// module is a module before it is encoded; its function n has type n.
type module struct {
	imports [][]byte
	funcs   []fn
	types   [][]byte // more of them, behind those of the functions
	tables  [][]byte
	memory  bool
	limits  []byte // of the memory; nil is one page without a maximum
	globals int    // mutable i32
	exports [][]byte
	elems   [][]byte
	more    []byte // sections behind the elements, before the code
	data    []byte // content of the data section
}

func funcType(params, results string) []byte {
	t := sig(params, results)
	return cat([]byte{0x60}, list1(t.params), list1(t.results))
}

func list1(s string) []byte { return sized([]byte(s)) }

func exportOf(name string, kind byte, index int) []byte {
	return cat(list1(name), []byte{kind}, leb(index))
}

func (m module) encode() []byte {
	var types, funcs, bodies, globals [][]byte
	for i, f := range m.funcs {
		types = append(types, funcType(f.params, f.results))
		funcs = append(funcs, leb(i))
		of := f.of
		if of == 0 {
			of = valI32
		}
		bodies = append(bodies, sized(cat(list(cat(leb(f.locals), []byte{of})), f.code, []byte{opEnd})))
	}
	for range m.globals {
		globals = append(globals, []byte{valI32, 1, opI32Const, 0, opEnd})
	}
	out := append([]byte{}, wasmMagic...)
	put := func(id byte, items ...[]byte) {
		if len(items) > 0 {
			out = cat(out, []byte{id}, sized(list(items...)))
		}
	}
	put(secType, append(types, m.types...)...)
	put(secImport, m.imports...)
	put(secFunction, funcs...)
	put(secTable, m.tables...)
	if m.memory {
		if m.limits == nil {
			m.limits = []byte{0, 1}
		}
		put(secMemory, m.limits)
	}
	put(secGlobal, globals...)
	put(secExport, m.exports...)
	put(secElement, m.elems...)
	out = append(out, m.more...)
	put(secCode, bodies...)
	if m.data != nil {
		out = cat(out, []byte{secData}, sized(m.data))
	}
	return out
}

// one is a module with one function, exported as "f".
func one(f fn) module {
	return module{memory: true, funcs: []fn{f}, exports: [][]byte{exportOf("f", externFunc, 0)}}
}
