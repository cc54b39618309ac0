package wasmgen

import "math"

// hoard is a guest that keeps something of a text and marks the whole of the next one if it finds it again. Where it is
// restored, or made anew, it finds nothing.
func hoard(name string, seen, keep []byte, edit func(*Module)) Hostile {
	return kept(name, Cat(seen, If, whole(), End, keep), edit)
}

// whole emits the whole text.
func whole() []byte {
	e := Sound
	return Cat(Host("emit", I32(e.Kind), I32(e.KindLen), I32(0), Get(1), F32(1), I32(e.Severity), I32(e.Action), I32(0),
		I32(0)), Drop)
}

// kept is an answering module that leaks unless it is restored.
func kept(name string, first []byte, edit func(*Module)) Hostile {
	g := Before(first)
	g.Extra = []Func{{Sig: Sig{"i", "i"}, Body: Get(0)}}
	g.Edit = edit
	return Hostile{Name: name, Want: Answers, Leaks: true, Module: g.Encode(), Twin: Before(nil).Encode()}
}

// hoards are places where a guest can keep what it read.
func hoards() []Hostile {
	// The first byte of the text, and a bit that says so.
	text := Cat(I32(BufferAt), Get(0), Add, Load8, I32(0x100), Or)
	global := func(name string, typ byte, zero, seen, value []byte) Hostile {
		return hoard("hoard-in-a-global-"+name, Cat(GetGlobal(0), seen), Cat(value, SetGlobal(0)), func(m *Module) {
			m.Globals = [][]byte{Global(typ, zero)}
			m.Elements = [][]byte{DeclaredElements(FirstExtra)}
		})
	}
	table := func(name string, seen, keep []byte) Hostile {
		return hoard("hoard-in-a-table-"+name, seen, keep, func(m *Module) {
			m.Tables = [][]byte{Table(2, 100)}
			m.Elements = [][]byte{PassiveElements(FirstExtra), DeclaredElements(FirstExtra),
				Cat([]byte{0}, I32(1), End, Vec(Leb(uint64(FirstExtra))))}
		})
	}
	held := Cat(I32(0), TableGet, RefIsNull, Eqz)
	return []Hostile{
		hoard("hoard-in-memory", LoadAt(ScratchAt), StoreAt(ScratchAt, text), nil),
		hoard("hoard-in-the-last-bytes", LoadAt(GuestPages<<16-4), StoreAt(GuestPages<<16-4, text), nil),
		hoard("hoard-in-a-grown-page", Cat(MemSize, I32(GuestPages), GtU),
			Cat(I32(1), MemGrow, Drop, StoreAt(GuestPages<<16, text)), nil), global("i32", I32Type, I32(0), nil, text),
		global("i64", I64Type, I64(0), Cat(I64(0), Ne64), I64(math.MinInt64)),
		global("f32", F32Type, F32(0), []byte{0xbc}, F32(math.Float32frombits(0x7fc00abc))),
		global("f64", F64Type, F64(0), Cat([]byte{0xbd}, I64(0), Ne64), F64(math.Float64frombits(0x7ff8000000000abc))),
		global("v128", V128Type, V128(0), []byte{0xfd, 0x53}, V128(1)),
		global("funcref", FuncrefType, RefNull, Cat(RefIsNull, Eqz), RefFunc(FirstExtra)),
		table("by-set", held, Cat(I32(0), RefFunc(FirstExtra), TableSet)),
		table("by-fill", held, Cat(I32(0), RefFunc(FirstExtra), I32(1), TableFill)),
		table("by-copy", held, Cat(I32(0), I32(1), I32(1), TableCopy)),
		table("by-init", held, Cat(I32(0), I32(0), I32(1), TableInit(0))),
		table("by-growth", Cat(TableSize, I32(2), GtU), Cat(RefNull, I32(1), TableGrow, Drop)),
		hoardInTime(),
	}
}

// hoardInTime asks the host's clock, which moves with every reading, how often it was asked.
func hoardInTime() Hostile {
	read := func(at int) []byte { return Cat(Host("clock_time_get", I32(1), I64(0), I32(at)), Drop) }
	g := Guest{Locals: 4}
	g.Init = Cat(read(ScratchAt), read(ScratchAt+8), I32(0))
	sub := []byte{0x7d} // i64
	step := Cat(I32(ScratchAt+8), Load64, I32(ScratchAt), Load64, sub)
	passed := Cat(I32(ScratchAt+16), Load64, I32(ScratchAt+8), Load64, sub)
	g.Scan = Cat(read(ScratchAt+16), passed, step, Ne64, If, whole(), End, FindBody())
	return Hostile{Name: "hoard-in-the-clock", Want: Answers, Leaks: true, Module: g.Encode(), Twin: Before(nil).Encode()}
}

// spoils are modules that are no good any more after one call.
func spoils() []Hostile {
	breakKind := StoreAt(KindAt, I32(0))
	at := func(name string, body []byte) Hostile { return fails(name, Cat(body, I32(0)), nil) }
	behind := func(name string, body []byte) Hostile {
		g := Guest{Locals: 4, Scan: Cat(FindBody(), body)}
		return Hostile{Name: name, Want: Answers, Leaks: true, Module: g.Encode(), Twin: Before(nil).Encode()}
	}
	grow := Cat(Loop, I32(16), MemGrow, I32(-1), Ne, BrIf(0), End)
	once := kept("spoils-itself-by-a-global", Cat(GetGlobal(0), If, Unreachable, End, I32(1), SetGlobal(0)),
		func(m *Module) {
			m.Globals = [][]byte{Global(I32Type, I32(0))}
		})
	data := func(m *Module) { m.Passive, m.DataCount = []string{"once"}, true }
	segment := 6 // behind the guest's own
	dropData := kept("spoils-itself-by-data-drop",
		Cat(I32(ScratchAt), I32(0), I32(4), MemInit(segment), DataDrop(segment)), data)
	dropElements := kept("spoils-itself-by-elem-drop", Cat(I32(0), I32(0), I32(1), TableInit(0), ElemDrop(0)),
		func(m *Module) {
			m.Tables = [][]byte{Table(2, 2)}
			m.Elements = [][]byte{PassiveElements(FirstExtra)}
		})
	return []Hostile{
		at("trap-then-call", Unreachable),
		at("trap-with-broken-memory", Cat(breakKind, Unreachable)),
		at("trap-with-all-memory-grown", Cat(grow, Unreachable)),
		at("trap-with-broken-memory-by-exit", Cat(breakKind, Host("proc_exit", I32(0)))),
		at("status-with-broken-memory", Cat(breakKind, I32(3), Return)),
		at("loop-with-broken-memory", Cat(breakKind, Forever())),
		behind("spoils-its-own-kind", breakKind),
		behind("spoils-all-its-memory", Cat(I32(0), I32(0xff), I32(GuestPages<<16), MemFill)),
		once, dropData, dropElements,
	}
}
