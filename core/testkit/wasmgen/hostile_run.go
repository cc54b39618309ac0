package wasmgen

import "github.com/yett-dev/yett/sdk/abi"

// Locals of a guest's yett_scan that FindBody leaves alone.
const (
	spare1 = FindLocal + 1
	spare2 = FindLocal + 2
)

// calling is a guest whose yett_scan runs something with functions of its own; less is the same, harmless.
func calling(name string, extra []Func, much, less []byte, edit func(*Module)) Hostile {
	g := func(b Guest) []byte {
		b.Extra, b.Edit = extra, edit
		return b.Encode()
	}
	return Hostile{Name: name, Want: Fails, Module: g(Armed(Cat(much, FindBody()))), Twin: g(Before(less))}
}

// doubling is a function without loops that calls itself twice with one less: 2^n calls.
func doubling(self int) Func {
	return twice(self, Cat(Get(0), Eqz, If, I32(1), Return, End))
}

func twice(to int, first []byte) Func {
	one := Cat(Get(0), I32(1), Sub, CallTo(to))
	return Func{Sig: Sig{"i", "i"}, Body: Cat(first, one, one, Add)}
}

// stairs are functions without loops and without recursion: the first runs something, each other one calls that below
// twice.
func stairs(n int, bottom []byte) []Func {
	out := []Func{{Sig: Sig{"i", "i"}, Body: Cat(bottom, Get(0))}}
	for i := 1; i < n; i++ {
		out = append(out, twice(FirstExtra+i-1, nil))
	}
	return out
}

// indirect puts the first extra function into a table.
func indirect(m *Module) {
	m.Types = []Sig{{"i", "i"}}
	m.Tables = [][]byte{Table(1, 1)}
	m.Elements = [][]byte{ActiveElements(FirstExtra)}
}

// endless are modules that keep the processor: with loops, and without.
func endless() []Hostile {
	call := func(n int) []byte { return Cat(I32(n), CallTo(FirstExtra), Drop) }
	top := func(n, arg int) []byte { return Cat(I32(arg), CallTo(FirstExtra+n), Drop) }
	nested := func(n int) []byte { return Times(spare1, n, Times(spare2, n, Nop)) }
	byIndex := Func{Sig: Sig{"i", "i"}, Body: Cat(Get(0), Eqz, If, I32(1), Return, End,
		Repeat(2, Cat(Get(0), I32(1), Sub, I32(0), CallIndirect(0))), Add)}
	return []Hostile{
		fails("loop-without-end", Cat(Forever(), FindBody()), Times(spare1, 1000, Nop)),
		fails("loop-by-a-condition", Cat(Loop, I32(1), BrIf(0), End, FindBody()), Cat(Loop, I32(0), BrIf(0), End)),
		fails("loop-by-a-table", Cat(Loop, I32(9), BrTable(0, 0), End, FindBody()), Cat(Block, I32(9), BrTable(0, 0), End)),
		fails("loop-in-a-loop", Cat(nested(1<<30), FindBody()), nested(20)),
		calling("recursion-without-loops", []Func{doubling(FirstExtra)}, call(60), call(5), nil),
		calling("stairs-without-loops", stairs(60, nil), top(59, 0), top(5, 0), nil),
		calling("recursion-by-a-table", []Func{byIndex}, call(60), call(5), indirect),
		lateBuffer("buffer-that-takes-for-ever", Forever(), Times(1, 1000, Nop)),
	}
}

// lateSize is the size of a buffer that only the texts of this table ask for, bytes.
const lateSize = 777

// lateBuffer is a guest whose yett_buffer does something when it is asked for lateSize; twin is the same, harmless.
func lateBuffer(name string, late, twin []byte) Hostile {
	g := func(late []byte) []byte {
		b := Before(nil)
		b.Buffer = Cat(Get(0), I32(lateSize), Eq, If, late, End, GoodBuffer())
		return b.Encode()
	}
	return Hostile{Name: name, Want: Fails, Size: lateSize, Module: g(late), Twin: g(twin)}
}

const bulkPages = 256 // 16 MiB

// bulk are instructions that do much at once.
func bulk() []Hostile {
	fill := func(n int) []byte { return Cat(I32(ZerosAt), I32(0), I32(n), MemFill) }
	move := func(n int) []byte { return Cat(I32(ZerosAt), I32(ZerosAt+8), I32(n), MemCopy) }
	all := bulkPages<<16 - ZerosAt - 8
	memory := func(name string, much, less []byte, extra ...Func) Hostile {
		g := func(b Guest) []byte {
			b.Pages, b.Extra = bulkPages, extra
			return b.Encode()
		}
		return Hostile{Name: name, Want: Fails, Module: g(Armed(Cat(much, FindBody()))), Twin: g(Before(less))}
	}
	table := func(name string, much, less []byte, extra ...Func) Hostile {
		return calling(name, extra, much, less, func(m *Module) { m.Tables = [][]byte{Table(100_000, -1)} })
	}
	const steps = 16 // 2^15 times the bottom
	top := Cat(I32(0), CallTo(FirstExtra+steps-1), Drop)
	fillTable := func(n int) []byte { return Cat(I32(0), RefNull, I32(n), TableFill) }
	copyTable := func(n int) []byte { return Cat(I32(0), I32(0), I32(n), TableCopy) }
	grow := func(n int) []byte { return Cat(RefNull, I32(n), TableGrow, Drop) }
	over := func(body []byte) []byte { return Cat(Loop, body, Br(0), End) }
	return []Hostile{
		memory("memory-fill-in-a-loop", over(fill(all)), fill(1<<16)),
		memory("memory-copy-in-a-loop", over(move(all)), move(1<<16)),
		memory("memory-fill-without-loops", top, fill(1<<10), stairs(steps, fill(all))...),
		memory("memory-copy-without-loops", top, move(1<<10), stairs(steps, move(all))...),
		memory("memory-fill-beyond-the-end", fill(-1), fill(1<<16)),
		table("table-fill-in-a-loop", over(fillTable(100_000)), fillTable(100)),
		table("table-fill-without-loops", top, fillTable(100), stairs(steps, fillTable(100_000))...),
		table("table-copy-without-loops", top, copyTable(100), stairs(steps, copyTable(100_000))...),
		table("table-grow-in-a-loop", over(grow(1<<16)), grow(1)),
		memory("memory-grow-in-a-loop", over(Cat(I32(1), MemGrow, Drop)), Cat(I32(0), MemGrow, Drop)),
	}
}

// deep are modules that use up a stack.
func deep() []Hostile {
	down := func(locals int, params string) Func {
		pass := make([][]byte, len(params))
		for i := range pass {
			pass[i] = Get(i)
		}
		pass[0] = Cat(Get(0), I32(1), Sub)
		return Func{Sig: Sig{params, "i"}, Locals: locals,
			Body: Cat(Get(0), Eqz, If, I32(1), Return, End, Cat(pass...), CallTo(FirstExtra), I32(1), Add)}
	}
	wideParams := "iiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiii"
	call := func(n, params int) []byte { return Cat(I32(n), Repeat(params-1, I32(0)), CallTo(FirstExtra), Drop) }
	byIndex := Func{Sig: Sig{"i", "i"}, Body: Cat(Get(0), Eqz, If, I32(1), Return, End, Get(0), I32(1), Sub, I32(0),
		CallIndirect(0), I32(1), Add)}
	chain := func(n, locals int) []Func {
		out := []Func{{Sig: Sig{"i", "i"}, Body: Get(0)}}
		for i := 1; i < n; i++ {
			out = append(out, Func{Sig: Sig{"i", "i"}, Locals: locals,
				Body: Cat(Get(0), CallTo(FirstExtra+i-1), Get(locals), Add)})
		}
		return out
	}
	chained := func(n, locals int) []byte {
		b := Before(Cat(I32(0), CallTo(FirstExtra+n-1), Drop))
		b.Extra = chain(n, locals)
		return b.Encode()
	}
	return []Hostile{
		calling("stack-of-small-frames", []Func{down(0, "i")}, call(1<<30, 1), call(20, 1), nil),
		calling("stack-of-large-frames", []Func{down(5_000, "i")}, call(1<<30, 1), call(3, 1), nil),
		calling("stack-of-parameters", []Func{down(0, wideParams)}, call(1<<30, len(wideParams)), call(5, len(wideParams)),
			nil), calling("stack-by-a-table", []Func{byIndex}, call(1<<30, 1), call(20, 1), indirect),
		{Name: "stack-without-recursion", Want: Bounded, Module: chained(3_000, 2_000), Twin: chained(20, 20)},
	}
}

// starting is a guest that does something hostile before its first call.
func starting(name string, hostile, twin Guest) Hostile {
	encode := func(g Guest) []byte {
		if g.Scan == nil {
			g.Scan = FindBody()
		}
		g.Locals = 4
		return g.Encode()
	}
	return Hostile{Name: name, Want: Refused, Module: encode(hostile), Twin: encode(twin)}
}

// starts are modules that no call should ever meet: they fail while they are compiled, started or described.
func starts() []Hostile {
	put := func(slot, n int) []byte { return Host(abi.ImportPut, I32(slot), I32(DocAt), I32(n)) }
	initialize := func(name string, body, twin []byte) Hostile {
		return starting("initialize-"+name, Guest{Initialize: body}, Guest{Initialize: twin})
	}
	init := func(name string, body, twin []byte) Hostile {
		return starting("init-"+name, Guest{Init: Cat(body, I32(0))}, Guest{Init: Cat(twin, I32(0))})
	}
	status := func(name string, n int) Hostile {
		return starting("init-"+name, Guest{Init: I32(n)}, Guest{Init: I32(0)})
	}
	buffer := func(name string, body []byte) Hostile {
		return starting("init-buffer-"+name, Guest{Buffer: body}, Guest{})
	}
	describe := func(name, doc string, body []byte) Hostile {
		return starting("describe-"+name, Guest{Describe: body, Doc: doc, Meta: "-"},
			Guest{Describe: Cat(put(abi.SlotMetadata, len(GuestMeta)), Drop, I32(0)), Doc: GuestMeta})
	}
	always := func(name string, scan []byte) Hostile { return starting("always-"+name, Guest{Scan: scan}, Guest{}) }
	grow := Cat(Loop, I32(1), MemGrow, Drop, Br(0), End)
	good := Cat(put(abi.SlotMetadata, len(GuestMeta)), Drop)
	other := GuestMeta[:len(GuestMeta)-1] + ` ,"triggers":[{"literal":"x"}]}`
	differs := starting("describe-differs-from-the-section",
		Guest{Describe: Cat(put(abi.SlotMetadata, len(other)), Drop, I32(0)), Doc: other},
		Guest{Describe: Cat(good, I32(0)), Doc: GuestMeta})
	return []Hostile{
		initialize("without-end", Forever(), Times(0, 1000, Nop)),
		initialize("traps", Unreachable, Nop),
		initialize("exits", Host("proc_exit", I32(0)), Cat(Host("sched_yield"), Drop)),
		initialize("emits", Cat(Sound.Code(), Drop), Nop),
		initialize("grows-without-end", grow, Cat(I32(1), MemGrow, Drop)),
		initialize("floods", Cat(Loop, Host("sched_yield"), Drop, Br(0), End), Times(0, 100, Cat(Host("sched_yield"), Drop))),
		init("without-end", Forever(), Times(1, 1000, Nop)),
		init("traps", Unreachable, nil),
		init("exits", Host("proc_exit", I32(0)), nil),
		init("emits", Cat(Sound.Code(), Drop), nil),
		init("decides", Cat(Host(abi.ImportDecide, I32(1), I32(KindAt), I32(KindLen), I32(0), I32(0), I32(0)), Drop), nil),
		init("puts-metadata", good, nil),
		init("puts-an-error", Cat(put(abi.SlotError, 5), Drop), nil),
		status("refuses-its-config", abi.StatusBadConfig),
		status("fails", abi.StatusInternal),
		status("gives-the-authors-status", abi.AuthorStatus),
		buffer("is-refused", I32(0)),
		buffer("is-not-aligned", I32(BufferAt+4)),
		buffer("is-outside", I32(GuestPages<<16)),
		buffer("ends-outside", I32(GuestPages<<16-8)),
		buffer("is-near-4-gib", I32(-8)),
		buffer("takes-for-ever", Cat(Forever(), GoodBuffer())),
		describe("without-end", "", Cat(Forever(), I32(0))),
		describe("traps", "", Cat(Unreachable, I32(0))),
		describe("puts-nothing", "", I32(0)),
		describe("puts-twice", GuestMeta, Cat(good, good, I32(0))),
		describe("puts-garbage", "{]", Cat(put(abi.SlotMetadata, 2), Drop, I32(0))),
		describe("puts-too-much", "", Cat(put(abi.SlotMetadata, abi.MaxPut+1), Drop, I32(0))),
		describe("fails", GuestMeta, Cat(good, I32(abi.StatusInternal))),
		describe("emits", GuestMeta, Cat(good, Sound.Code(), Drop, I32(0))),
		differs,
		always("loops", Cat(Forever(), I32(0))),
		always("traps", Cat(Unreachable, I32(0))),
		always("emits-garbage", Cat(Spoilt(func(e *Emission) { e.Start, e.End = 1, 0 }), Drop, I32(0))),
	}
}
