package wasmgen

import "github.com/yett-dev/yett/sdk/abi"

// huge is 2^32-1, the largest count that can be written.
var huge = []byte{0xff, 0xff, 0xff, 0xff, 0x0f}

// ImportBomb is 15 bytes that claim 2^28 imports.
func ImportBomb() []byte {
	return Cat([]byte(Magic), Sec(SecImport, []byte{0x80, 0x80, 0x80, 0x80, 0x01}))
}

// LocalsBomb is 41 bytes with a function of 2^32-1 locals.
func LocalsBomb() []byte {
	m := &Module{Funcs: []Func{{Groups: Vec(Cat(huge, []byte{I32Type}))}}, Memories: [][]byte{Limits(1, -1)},
		Customs: []Custom{{"abc", ""}}}
	return m.Encode()
}

// full is an honest guest that has every section there is.
func full() *Module {
	g := Finder()
	g.Extra = []Func{{Sig: Sig{"i", "i"}, Body: Cat(Block, Block, Get(0), BrTable(0, 1, 0), End, End, I32(7))}}
	m := g.Module()
	m.Tables = [][]byte{Table(2, 4)}
	m.Globals = [][]byte{Global(I32Type, I32(1))}
	m.Elements = [][]byte{ActiveElements(FirstExtra)}
	m.DataCount = true
	return m
}

// lie is a full module one of whose sections is written by somebody else.
func lie(name string, id byte, body ...[]byte) Hostile {
	m := full()
	m.Replace = map[byte][]byte{id: Cat(body...)}
	return Hostile{Name: name, Want: Refused, Static: true, Module: m.Encode(), Twin: full().Encode()}
}

// lies is a lie about one function's body.
func lies(name string, body ...[]byte) Hostile {
	m := full()
	m.Funcs[0] = Func{Sig: m.Funcs[0].Sig, Raw: Cat(body...)}
	return Hostile{Name: name, Want: Refused, Static: true, Module: m.Encode(), Twin: full().Encode()}
}

// liars are counts and lengths that are not true: each makes a decoder that believes it allocate or read past an end.
func liars() []Hostile {
	name := Sized([]byte("a"))
	function := []byte{0x60}
	return []Hostile{
		bad("count-of-imports-in-15-bytes", ImportBomb()),
		bad("count-of-locals-in-41-bytes", LocalsBomb()),
		lie("count-of-types", SecType, huge),
		lie("count-of-parameters", SecType, Leb(1), function, huge),
		lie("count-of-results", SecType, Leb(1), function, Leb(0), huge),
		lie("count-of-imports", SecImport, huge),
		lie("length-of-import-module", SecImport, Leb(1), huge),
		lie("length-of-import-name", SecImport, Leb(1), name, huge),
		lie("count-of-functions", SecFunction, huge),
		lie("count-of-tables", SecTable, huge),
		lie("count-of-memories", SecMemory, huge),
		lie("count-of-globals", SecGlobal, huge),
		lie("count-of-exports", SecExport, huge),
		lie("length-of-export-name", SecExport, Leb(1), huge),
		lie("count-of-element-segments", SecElement, huge),
		lie("count-of-elements", SecElement, Leb(1), Leb(0), I32(0), End, huge),
		lie("count-of-passive-elements", SecElement, Leb(1), []byte{1, 0}, huge),
		lie("count-of-element-expressions", SecElement, Leb(1), []byte{5, FuncrefType}, huge),
		lie("count-of-bodies", SecCode, huge),
		lie("length-of-a-body", SecCode, Leb(1), huge),
		lie("count-of-data-segments", SecData, huge),
		lie("length-of-data", SecData, Leb(1), Leb(0), I32(0), End, huge),
		lie("data-count-that-differs", SecDataCount, huge),
		lie("more-functions-than-bodies", SecFunction, Leb(2), Leb(0), Leb(0)),
		lies("count-of-groups-of-locals", huge),
		lies("count-of-labels", Vec(), Block, Get(0), []byte{0x0e}, huge, End, I32(0), End),
		lies("locals-that-wrap-to-2", Vec(Cat(huge, []byte{I32Type}), Cat(Leb(3), []byte{I32Type})), I32(0), End),
		lies("locals-in-many-groups", Vec(group(5_000), group(5_000), group(5_000)), I32(0), End),
		lies("body-without-an-end", Vec(), I32(0)),
		lies("instruction-cut-off", Vec(), []byte{0x41}),
		tail("length-of-a-section", Cat([]byte{SecCustom}, huge)),
		tail("length-of-a-custom-name", Sec(SecCustom, huge)),
		tail("number-that-does-not-end", []byte{SecCustom, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80}),
		tail("garbage-behind-the-end", []byte("garbage")),
		tail("section-that-does-not-exist", Sec(99, []byte{0})),
		tail("section-twice", Sec(SecType, Vec())),
		tail("section-out-of-order", Sec(SecStart, Leb(uint64(FirstExtra)))),
	}
}

func group(n int) []byte { return Cat(Leb(uint64(n)), []byte{I32Type}) }

// tail is a full module with bytes behind it.
func tail(name string, bytes []byte) Hostile {
	m := full()
	m.Tail = bytes
	return Hostile{Name: name, Want: Refused, Static: true, Module: m.Encode(), Twin: full().Encode()}
}

// sizedModule is an honest guest of n bytes.
func sizedModule(n int) []byte {
	g := Finder()
	pad := func(k int) []byte {
		g.Edit = func(m *Module) { m.Customs = append(m.Customs, Custom{"pad", string(make([]byte, k))}) }
		return g.Encode()
	}
	return pad(n - (len(pad(n)) - n)) // the length of the length stays the same
}

// shapes are files that are no module, or not one that a scanner may be.
func shapes() []Hostile {
	memories := func(limits ...[]byte) []byte { return edited(func(m *Module) { m.Memories = limits }) }
	body := func(code ...[]byte) []byte { return Before(Cat(code...)).Encode() }
	return []Hostile{
		bad("empty-file", nil),
		bad("text", []byte("(module)")),
		bad("header-cut-off", []byte(Magic[:6])),
		bad("component", []byte("\x00asm\x0d\x00\x01\x00")),
		bad("nothing-but-a-header", []byte(Magic)),
		{Name: "16-mib-and-one-byte", Want: Refused, Static: true, Module: sizedModule(abi.MaxModule + 1), Twin: sizedModule(abi.MaxModule)},
		{Name: "start-section", Want: Refused, Static: true, Module: edited(func(m *Module) { m.Start = len(m.Imports) })},
		{Name: "no-memory", Want: Refused, Static: true, Module: memories()},
		{Name: "two-memories", Want: Refused, Static: true, Module: memories(Limits(4, -1), Limits(4, -1))},
		{Name: "shared-memory", Want: Refused, Static: true, Module: memories([]byte{3, 4, 4})},
		{Name: "64-bit-memory", Want: Refused, Static: true, Module: memories([]byte{4, 4})},
		{Name: "memory-of-4-gib", Want: Refused, Static: true, Module: memories(Limits(1<<16, -1)), Twin: memories(Limits(4, 1<<16))},
		{Name: "memory-beyond-4-gib", Want: Refused, Static: true, Module: memories(Limits(1<<32-1, -1))},
		{Name: "memory-that-shrinks", Want: Refused, Module: memories(Limits(4, 3)), Twin: memories(Limits(4, 4))},
		{Name: "table-of-4-billion", Want: Refused, Static: true, Module: tabled(Table(1<<32-1, -1)), Twin: tabled(Table(1000, -1))},
		{Name: "table-of-10-million", Want: Refused, Static: true, Module: tabled(Table(10_000_000, 10_000_000)), Twin: tabled(Table(1000, 10_000_000))},
		{Name: "many-tables-of-100-000", Want: Refused, Static: true, Module: edited(func(m *Module) {
			for range 1000 {
				m.Tables = append(m.Tables, Table(100_000, -1))
			}
		}), Twin: tabled(Table(1000, -1))},
		{Name: "instruction-of-threads", Want: Refused, Static: true, Module: body([]byte{0xfe, 0x03, 0x00})},
		{Name: "tail-call", Want: Refused, Static: true, Module: body(I32(0), Return, I32(0), I32(0), I32(0), []byte{0x12}, Leb(uint64(len(Imports)+3)))},
		{Name: "exception", Want: Refused, Static: true, Module: body([]byte{0x06, 0x40}, End)},
		{Name: "unknown-instruction", Want: Refused, Static: true, Module: body([]byte{0xff})},
		{Name: "call-of-no-function", Want: Refused, Static: true, Module: body(CallTo(len(Imports) + 4))},
		{Name: "global-of-the-host", Want: Refused, Static: true, Module: body(I32(1<<30), SetGlobal(0))},
		{Name: "local-that-is-not-there", Want: Refused, Module: body(Get(1<<20), Drop)},
		{Name: "label-that-is-not-there", Want: Refused, Module: body(Br(9))},
		{Name: "stack-that-is-empty", Want: Refused, Module: body(Add, Drop)},
		{Name: "types-that-do-not-fit", Want: Refused, Module: body(I64(1), I32(1), Add, Drop), Twin: body(I32(1), I32(1), Add, Drop)},
	}
}

func tabled(table []byte) []byte {
	return edited(func(m *Module) { m.Tables = [][]byte{table} })
}
