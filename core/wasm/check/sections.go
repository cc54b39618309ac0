package check

import (
	"bytes"
	"slices"

	"github.com/yett-dev/yett/core/quote"
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
	maxTableMin                               = 200_000 // entries of all tables, and the most they can grow to
	maxElements                               = 200_000 // in all element segments together
	maxParams, maxLocals                      = 1_000, 10_000
	maxBody                                   = 256 << 10 // bytes of one function
	maxExternName, maxCustoms                 = 1_000, 1_000
)

type imported struct {
	module, name string
	kind         byte
	typ          uint32 // of a function
	global       global // of a global
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

type global struct {
	of      byte
	mutable bool
	init    []byte // constant expression
}

// function is one body: its locals and its instructions, up to and with the last end.
type function struct {
	groups []byte // of locals, without their number
	ngroup uint32
	locals uint32 // declared, so without the parameters
	wide   uint32 // of these, vectors
	code   []byte
	at     int // offset of code in the file, for messages
}

// shape is what can be read off a binary without running it. The slices of bytes are parts of the file.
type shape struct {
	types       []signature
	rawTypes    []byte // without their number, and so on
	imports     []imported
	importFuncs []uint32 // type of each imported function
	rawImports  []byte
	funcs       []uint32 // type of each own function
	rawFuncs    []byte
	tables      []limits
	tableCount  int // with imported ones
	memories    []limits
	memoryCount int // with imported ones
	rawMemories []byte
	globals     []global
	globalCount int // with imported ones
	exports     []exported
	hasStart    bool
	start       uint32
	rawElements []byte // with their number
	elementN    int
	dataCount   int // -1 without the section
	bodies      []function
	rawData     []byte // with its number
	dataN       int
	declared    []uint32 // functions that something can call indirectly: those in segments and constants
	meta        [][]byte // bodies of the custom sections abi.MetaSection
	has         [13]bool // which sections are there
}

var wasmMagic = []byte("\x00asm\x01\x00\x00\x00")

// inspect reads the sections of a core module, before anything else sees the bytes: a count that lies is found here,
// not by an allocation.
func inspect(wasm []byte) (*shape, error) {
	if !bytes.HasPrefix(wasm, wasmMagic) {
		if bytes.HasPrefix(wasm, wasmMagic[:4]) {
			return nil, refusef("not a core module of version 1 (components are not supported)")
		}
		return nil, refusef("not a WASM binary")
	}
	s := &shape{dataCount: -1}
	c := &cursor{b: wasm, i: len(wasmMagic)}
	last, customs := 0, 0
	for c.left() > 0 && c.err == nil {
		from := c.i
		id := c.byte()
		body := c.nextBytes(c.uint())
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
			s.has[id] = true
			s.section(id, in)
			in.end("a section")
		}
		if in.err != nil {
			return nil, in.err
		}
	}
	if c.err != nil {
		return nil, c.err
	}
	return s, s.consistent()
}

// consistent looks at what no section can tell alone.
func (s *shape) consistent() error {
	switch {
	case len(s.bodies) != len(s.funcs):
		return refusef("%d functions declared, %d defined", len(s.funcs), len(s.bodies))
	case s.dataCount >= 0 && s.dataCount != s.dataN:
		return refusef("%d data segments declared, %d defined", s.dataCount, s.dataN)
	}
	return nil
}

// rank is where a section belongs; 0 for one that does not exist. It is never secCustom.
func rank(id byte) int {
	return max(bytes.IndexByte([]byte{secCustom, secType, secImport, secFunction, secTable, secMemory, secGlobal,
		secExport, secStart, secElement, secDataCount, secCode, secData}, id), 0)
}

func (s *shape) custom(c *cursor) {
	if name := c.name(); c.err == nil && name == abi.MetaSection {
		s.meta = append(s.meta, c.nextBytes(uint32(c.left())))
	}
}

func (s *shape) section(id byte, c *cursor) {
	switch id {
	case secType:
		s.readTypes(c)
	case secImport:
		s.readImports(c)
	case secFunction:
		n := c.count("functions", 1, maxFuncs)
		s.rawFuncs = c.b[c.i:]
		for range n {
			s.funcs = append(s.funcs, s.typeIndex(c))
		}
	case secTable:
		for range c.count("tables", 3, maxTables) {
			s.tables = append(s.tables, readTable(c))
			s.tableCount++
		}
		s.boundTables(c)
	case secMemory:
		s.rawMemories = c.b[c.i:]
		for range c.count("memories", 2, maxTables) {
			s.memories = append(s.memories, readMemory(c))
			s.memoryCount++
		}
	case secGlobal:
		for range c.count("globals", 4, maxGlobals) {
			g := readGlobalType(c)
			g.init = s.constant(c)
			s.globals = append(s.globals, g)
			s.globalCount++
		}
	case secExport:
		s.readExports(c)
	case secStart:
		s.hasStart, s.start = true, c.uint()
		s.funcIndex(c, s.start)
	case secElement:
		s.rawElements = c.b[c.i:]
		s.elements(c, 0)
	case secDataCount:
		s.dataCount = int(c.uint())
	case secCode:
		s.readBodies(c)
	case secData:
		s.rawData = c.b[c.i:]
		s.readData(c)
	}
}

func (s *shape) readTypes(c *cursor) {
	n := c.count("types", 3, maxTypes)
	s.rawTypes = c.b[c.i:]
	for range n {
		if form := c.byte(); c.err == nil && form != 0x60 {
			c.fail("type form %#x is not a function type", form)
		}
		s.types = append(s.types, signature{readValues(c), readValues(c)})
	}
}

func isValue(v byte) bool { return v >= valV128 && v <= valI32 || v == valFuncref || v == valExtern }

func readValues(c *cursor) string {
	b := c.nextBytes(uint32(c.count("values of a type", 1, maxParams)))
	for _, v := range b {
		if !isValue(v) {
			c.fail("value type %#x is not known", v)
		}
	}
	return string(b)
}

func (s *shape) typeIndex(c *cursor) uint32 {
	i := c.uint()
	if c.err == nil && uint64(i) >= uint64(len(s.types)) {
		c.fail("type %d of %d", i, len(s.types))
		return 0
	}
	return i
}

func (s *shape) funcIndex(c *cursor, i uint32) {
	if c.err == nil && uint64(i) >= uint64(s.funcCount()) {
		c.fail("function %d of %d", i, s.funcCount())
	}
}

func (s *shape) readImports(c *cursor) {
	n := c.count("imports", 4, maxImports)
	s.rawImports = c.b[c.i:]
	for range n {
		im := imported{module: externName(c), name: externName(c), kind: c.byte()}
		switch im.kind {
		case externFunc:
			im.typ = s.typeIndex(c)
			s.importFuncs = append(s.importFuncs, im.typ)
		case externTable:
			readTable(c)
			s.tableCount++
		case externMemory:
			readMemory(c)
			s.memoryCount++
		case externGlobal:
			im.global = readGlobalType(c)
			s.globalCount++
		default:
			c.fail("import of kind %d", im.kind)
		}
		if im.module == HostModule {
			c.fail("import from %s, which is the host's own", HostModule)
		}
		s.imports = append(s.imports, im)
		if c.err != nil {
			return
		}
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
		switch {
		case e.kind > externGlobal:
			c.fail("export of kind %d", e.kind)
		case len(e.name) >= len(reserved) && e.name[:len(reserved)] == reserved:
			c.fail("export %q: names that begin with %q are the host's own", quote.Short(e.name, 64), reserved)
		case c.err == nil && uint64(e.index) >= uint64(s.countOf(e.kind)):
			// Metered adds functions and globals behind the module's own: without this, an export could name one of them.
			c.fail("export %q: there is no %s %d", quote.Short(e.name, 64), externKinds[e.kind], e.index)
		}
		s.exports = append(s.exports, e)
		if c.err != nil {
			return
		}
	}
}

func (s *shape) countOf(kind byte) int {
	return [...]int{s.funcCount(), s.tableCount, s.memoryCount, s.globalCount}[kind]
}

// hasMemory says whether there is a memory, of the module's own or imported.
func (s *shape) hasMemory() bool {
	return len(s.memories) > 0 || slices.ContainsFunc(s.imports, func(i imported) bool { return i.kind == externMemory })
}
