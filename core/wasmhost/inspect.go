package wasmhost

import (
	"bytes"
	"encoding/binary"

	"github.com/yett-dev/yett/sdk/abi"
)

// What the binary format calls things.
const (
	secCustom, secType, secImport, secFunction, secTable, secMemory      = 0, 1, 2, 3, 4, 5
	secGlobal, secExport, secStart, secElement, secCode, secData         = 6, 7, 8, 9, 10, 11
	secDataCount                                                         = 12
	externFunc, externTable, externMemory, externGlobal             byte = 0, 1, 2, 3
	valI32, valI64, valF32, valF64, valV128, valFuncref, valExtern       = 0x7f, 0x7e, 0x7d, 0x7c, 0x7b, 0x70, 0x6f
)

// Bounds on what a binary may hold. A Go guest has some 5 000 functions and one table of that size.
const (
	maxTypes, maxImports, maxFuncs, maxTables = 20_000, 256, 200_000, 16
	maxGlobals, maxExports, maxSegments       = 20_000, 4_000, 100_000
	maxTableMin                               = 200_000   // entries, and the most a table can grow to
	maxElements                               = 1_000_000 // in all element segments together
	maxParams, maxLocals                      = 1_000, 10_000
	maxExternName, maxCustoms                 = 1_000, 1_000
)

// signature is a function's type: one byte for each value.
type signature struct{ params, results string }

type imported struct {
	module, name string
	kind         byte
	typ          uint32 // of a function
}

type exported struct {
	name  string
	kind  byte
	index uint32
}

type limits struct {
	of     byte // element type of a table
	min    uint32
	max    uint32
	capped bool // max is given
	shared bool
	wide   bool // 64-bit
}

// shape is what can be read off a binary without running it.
type shape struct {
	types    []signature
	imports  []imported
	funcs    []uint32 // type of each own function
	tables   []limits
	memories []limits
	exports  []exported
	bodies   int
	start    bool
	meta     [][]byte // bodies of the custom sections abi.MetaSection
	code     []byte   // the module without its custom sections: what is compiled
}

var wasmMagic = []byte("\x00asm\x01\x00\x00\x00")

// inspect reads the sections of a core module, pure Go, before anything else sees the bytes: a count that lies is found
// here, not by an allocation. It checks structure, not types; wazero validates the rest. Custom sections (names, debug
// data) are left out of shape.code, so that no other parser meets them.
func inspect(wasm []byte) (*shape, error) {
	if len(wasm) > abi.MaxModule {
		return nil, refusef("%d bytes: at most %d are allowed", len(wasm), abi.MaxModule)
	}
	if !bytes.HasPrefix(wasm, wasmMagic) {
		if bytes.HasPrefix(wasm, wasmMagic[:4]) {
			return nil, refusef("not a core module of version 1 (components are not supported)")
		}
		return nil, refusef("not a WASM binary")
	}
	s := &shape{code: append(make([]byte, 0, len(wasm)), wasmMagic...)}
	c := &cursor{b: wasm, i: len(wasmMagic)}
	last, customs := 0, 0
	for c.left() > 0 && c.err == nil {
		from := c.i
		id := c.byte()
		body := c.take(c.uint())
		if c.err != nil {
			break
		}
		in := &cursor{b: body, base: c.i - len(body)}
		if id == secCustom {
			if customs++; customs > maxCustoms {
				return nil, refusef("more than %d custom sections", maxCustoms)
			}
			s.custom(in)
		} else {
			if rank(id) <= last {
				return nil, refusef("section %d at byte %d is unknown, repeated or out of order", id, from)
			}
			last = rank(id)
			s.section(id, in)
			in.end("a section")
			if id == secTable {
				s.code = append(s.code, s.boundedTables()...)
			} else {
				s.code = append(s.code, wasm[from:c.i]...)
			}
		}
		if in.err != nil {
			return nil, in.err
		}
	}
	if c.err != nil {
		return nil, c.err
	}
	if s.bodies != len(s.funcs) {
		return nil, refusef("%d functions declared, %d defined", len(s.funcs), s.bodies)
	}
	return s, nil
}

// rank is where a section belongs; 0 for one that does not exist.
func rank(id byte) int {
	return bytes.IndexByte([]byte{secCustom, secType, secImport, secFunction, secTable, secMemory, secGlobal, secExport,
		secStart, secElement, secDataCount, secCode, secData}, id)
}

func (s *shape) custom(c *cursor) {
	if name := c.name(); c.err == nil && name == abi.MetaSection {
		s.meta = append(s.meta, c.take(uint32(c.left())))
	}
}

func (s *shape) section(id byte, c *cursor) {
	switch id {
	case secType:
		s.readTypes(c)
	case secImport:
		s.readImports(c)
	case secFunction:
		for range c.count("functions", 1, maxFuncs) {
			s.funcs = append(s.funcs, s.typeIndex(c))
		}
	case secTable:
		for range c.count("tables", 3, maxTables) {
			s.tables = append(s.tables, readTable(c))
		}
	case secMemory:
		for range c.count("memories", 2, maxTables) {
			s.memories = append(s.memories, readLimits(c))
		}
	case secGlobal:
		for range c.count("globals", 4, maxGlobals) {
			readGlobalType(c)
			skipConst(c)
		}
	case secExport:
		s.readExports(c)
	case secStart:
		s.start = true
		c.uint()
	case secElement:
		readElements(c)
	case secDataCount:
		c.uint()
	case secCode:
		s.readBodies(c)
	case secData:
		readData(c)
	}
}

func (s *shape) readTypes(c *cursor) {
	for range c.count("types", 3, maxTypes) {
		if form := c.byte(); c.err == nil && form != 0x60 {
			c.fail("type form %#x is not a function type", form)
		}
		s.types = append(s.types, signature{readValues(c), readValues(c)})
	}
}

func readValues(c *cursor) string {
	b := c.take(uint32(c.count("values of a type", 1, maxParams)))
	for _, v := range b {
		if v < valV128 && v != valFuncref && v != valExtern || v > valI32 {
			c.fail("value type %#x is not known", v)
		}
	}
	return string(b)
}

func (s *shape) typeIndex(c *cursor) uint32 {
	i := c.uint()
	if c.err == nil && uint64(i) >= uint64(len(s.types)) {
		c.fail("type %d of %d", i, len(s.types))
	}
	return i
}

func (s *shape) readImports(c *cursor) {
	for range c.count("imports", 4, maxImports) {
		im := imported{module: externName(c), name: externName(c), kind: c.byte()}
		switch im.kind {
		case externFunc:
			im.typ = s.typeIndex(c)
		case externTable:
			readTable(c)
		case externMemory:
			readLimits(c)
		case externGlobal:
			readGlobalType(c)
		default:
			c.fail("import of kind %d", im.kind)
		}
		s.imports = append(s.imports, im)
	}
}

func externName(c *cursor) string {
	name := c.name()
	if len(name) > maxExternName {
		c.fail("name of %d bytes: at most %d are allowed", len(name), maxExternName)
	}
	return name
}

func (s *shape) readExports(c *cursor) {
	for range c.count("exports", 3, maxExports) {
		e := exported{name: externName(c), kind: c.byte(), index: c.uint()}
		if e.kind > externGlobal {
			c.fail("export of kind %d", e.kind)
		}
		s.exports = append(s.exports, e)
	}
}

func readTable(c *cursor) limits {
	of := c.byte()
	if c.err == nil && of != valFuncref && of != valExtern {
		c.fail("table of type %#x", of)
	}
	l := readLimits(c)
	l.of = of
	switch {
	case l.shared:
		c.fail("a table cannot be shared")
	case l.min > maxTableMin:
		c.fail("table of %d elements: at most %d are allowed", l.min, maxTableMin)
	case l.capped && l.max < l.min:
		c.fail("table of at least %d and at most %d elements", l.min, l.max)
	}
	return l
}

// boundedTables writes the table section anew with a maximum for every table: tables lie outside the runtime's memory
// limit, and without one a single table.grow takes gigabytes of ours. A guest sees a growth beyond it fail, as it must
// expect of any. The element type, the sizes and the order stay, so no index changes.
func (s *shape) boundedTables() []byte {
	body := binary.AppendUvarint(nil, uint64(len(s.tables)))
	for _, t := range s.tables {
		bound := uint32(maxTableMin)
		if t.capped {
			bound = min(bound, t.max)
		}
		body = append(body, t.of, 1)
		body = binary.AppendUvarint(body, uint64(t.min))
		body = binary.AppendUvarint(body, uint64(bound))
	}
	return append(binary.AppendUvarint([]byte{secTable}, uint64(len(body))), body...)
}

func readLimits(c *cursor) limits {
	flags := c.byte()
	if flags > 7 {
		c.fail("limits of kind %d", flags)
	}
	l := limits{capped: flags&1 != 0, shared: flags&2 != 0, wide: flags&4 != 0}
	if l.wide {
		c.fail("64-bit memories and tables are not supported")
		return l
	}
	l.min = c.uint()
	if l.capped {
		l.max = c.uint()
	}
	return l
}

func readGlobalType(c *cursor) {
	c.byte()
	if mutable := c.byte(); mutable > 1 {
		c.fail("global of mutability %d", mutable)
	}
}
