package wasmgen

import (
	"math"

	"github.com/yett-dev/yett/sdk/abi"
)

// floods are modules that ask the host for too much.
func floods() []Hostile {
	over := func(body []byte) []byte { return Cat(Loop, body, Br(0), End, FindBody()) }
	log := Host(abi.ImportLog, I32(1), I32(TextAt), I32(11))
	line := Host(abi.ImportLog, I32(1), I32(ZerosAt), I32(1<<15))
	yield := Cat(Host("sched_yield"), Drop)
	random := func(n int) []byte { return Cat(Host("random_get", I32(RoomAt), I32(n)), Drop) }
	clock := Cat(Host("clock_time_get", I32(1), I64(0), I32(ScratchAt)), Drop)
	write := func(n int) []byte { return Cat(Host("fd_write", I32(1), I32(ZerosAt), I32(n), I32(ScratchAt)), Drop) }
	// every vector is the whole of memory
	vectors := Cat(Times(spare1, 1024, Cat(I32(ZerosAt+4), Get(spare1), I32(8), Mul, Add, I32(bulkPages<<16), Store32)))
	written := func(b Guest) []byte {
		b.Pages = bulkPages
		return b.Encode()
	}
	emit := Cat(Sound.Code(), Drop)
	put := func(n int) []byte {
		return Cat(I32(RoomAt), I32(' '), I32(abi.MaxPut+1), MemFill, I32(RoomAt), I32('{'), Store8, I32(RoomAt+1), I32('}'),
			Store8, Host(abi.ImportPut, I32(abi.SlotAnnotations), I32(RoomAt), I32(n)), Drop)
	}
	replace := func(n int) []byte {
		return Cat(Spoilt(func(e *Emission) { e.Action, e.Repl, e.ReplLen = abi.ActionReplace, ZerosAt, n }), Drop)
	}
	return []Hostile{
		fails("flood-of-host-calls", over(yield), Times(spare1, 1000, yield)),
		fails("flood-of-100-001-host-calls", Cat(Times(spare1, abi.MaxHostCalls+1, yield), FindBody()),
			Times(spare1, 1000, yield)), fails("flood-of-log-lines", over(log), log),
		fails("flood-of-long-log-lines", over(line), line),
		fails("flood-of-clock-readings", over(clock), clock),
		fails("flood-of-randomness", over(random(64<<10)), random(32)),
		fails("flood-of-findings", over(emit), nil),
		fails("flood-of-257-findings", Cat(Times(spare1, abi.MaxFindings+1, emit), FindBody()), nil),
		{Name: "flood-of-output", Want: Fails, Module: written(Armed(Cat(vectors, over(write(1024))))), Twin: written(Before(Cat(vectors, write(0))))},
		fails("put-of-64-kib-and-one-byte", Cat(put(abi.MaxPut+1), FindBody()), put(abi.MaxPut)),
		fails("put-again-and-again", over(put(2)), put(2)),
		fails("replacement-of-4-kib-and-one-byte", Cat(replace(abi.MaxReplacement+1), FindBody()), nil),
		fails("replacements-beyond-twice-the-input", Cat(Times(spare1, 200, replace(abi.MaxReplacement)), FindBody()), nil),
	}
}

// malformed are results that no host may take, nor mend in silence. The text is shorter than 4 KiB.
func malformed() []Hostile {
	emission := func(name string, change func(*Emission)) Hostile {
		return fails("emit-"+name, Cat(Spoilt(change), Drop, FindBody()), nil)
	}
	first := func(name string, body []byte) Hostile { return fails(name, Cat(body, FindBody()), nil) }
	put := func(slot, at, n int) []byte { return Cat(Host(abi.ImportPut, I32(slot), I32(at), I32(n)), Drop) }
	decide := Host(abi.ImportDecide, I32(abi.EffectPermit), I32(KindAt), I32(KindLen), I32(0), I32(0), I32(0))
	nan := float32(math.NaN())
	return []Hostile{
		emission("kind-undeclared", func(e *Emission) { e.Kind, e.KindLen = UndeclaredAt, 10 }),
		emission("kind-cut", func(e *Emission) { e.KindLen-- }),
		emission("kind-empty", func(e *Emission) { e.KindLen = 0 }),
		emission("kind-outside", func(e *Emission) { e.Kind = -4 }),
		emission("kind-pointer-wraps", func(e *Emission) { e.KindLen = -1 }),
		emission("kind-ends-outside", func(e *Emission) { e.Kind = GuestPages<<16 - 4 }),
		emission("end-behind-the-window", func(e *Emission) { e.End = 4096 }),
		emission("end-negative", func(e *Emission) { e.End = -1 }),
		emission("start-negative", func(e *Emission) { e.Start = -1 }),
		emission("span-reversed", func(e *Emission) { e.Start, e.End = 1, 0 }),
		emission("confidence-nan", func(e *Emission) { e.Confidence = nan }),
		emission("confidence-infinite", func(e *Emission) { e.Confidence = float32(math.Inf(1)) }),
		emission("confidence-above-1", func(e *Emission) { e.Confidence = 1.01 }),
		emission("confidence-below-0", func(e *Emission) { e.Confidence = -0.01 }),
		emission("severity-9", func(e *Emission) { e.Severity = 9 }),
		emission("severity-negative", func(e *Emission) { e.Severity = -1 }),
		emission("action-9", func(e *Emission) { e.Action = 9 }),
		emission("action-negative", func(e *Emission) { e.Action = -1 }),
		emission("replacement-outside", func(e *Emission) { e.Action, e.Repl, e.ReplLen = abi.ActionReplace, -8, 8 }),
		emission("replacement-pointer-wraps", func(e *Emission) { e.Action, e.Repl, e.ReplLen = abi.ActionReplace, 8, -1 }),
		emission("replacement-not-utf-8", func(e *Emission) {
			e.Action, e.Repl, e.ReplLen = abi.ActionReplace, BadUTF8At, 2
		}),
		emission("replacement-without-replace", func(e *Emission) { e.Repl, e.ReplLen = TextAt, 4 }),
		first("decide-in-a-scan", Cat(decide, Drop)),
		first("decide-twice", Cat(decide, Drop, decide, Drop)),
		first("put-in-slot-4", put(4, TextAt, 2)),
		first("put-in-slot-minus-1", put(-1, TextAt, 2)),
		first("put-metadata-in-a-scan", put(abi.SlotMetadata, DocAt, 2)),
		first("put-state-outside-a-stream", put(abi.SlotState, TextAt, 2)),
		first("put-twice", Cat(put(abi.SlotError, TextAt, 2), put(abi.SlotError, TextAt, 2))),
		first("put-annotations-that-are-no-json", put(abi.SlotAnnotations, TextAt, 2)),
		first("put-outside", put(abi.SlotAnnotations, GuestPages<<16-1, 2)),
		first("put-pointer-wraps", put(abi.SlotAnnotations, 8, -1)),
		first("log-outside", Host(abi.ImportLog, I32(1), I32(-1), I32(2))),
		first("random-outside", Cat(Host("random_get", I32(-4), I32(8)), Drop)),
		first("clock-outside", Cat(Host("clock_time_get", I32(0), I64(0), I32(-4)), Drop)),
		first("print-vectors-outside", Cat(Host("fd_write", I32(1), I32(-4), I32(1), I32(0)), Drop)),
		first("print-from-outside", Cat(StoreAt(ScratchAt, I32(-4)), StoreAt(ScratchAt+4, I32(8)),
			Host("fd_write", I32(1), I32(ScratchAt), I32(1), I32(0)), Drop)),
		first("poll-outside", Cat(Host("poll_oneoff", I32(-4), I32(0), I32(1), I32(0)), Drop)),
	}
}

// pointers are buffers that the host must not write to. They come only when the instance has been started.
func pointers() []Hostile {
	late := func(name string, pointer int) Hostile {
		return lateBuffer("buffer-"+name, Cat(I32(pointer), Return), Cat(I32(BufferAt), Return))
	}
	return []Hostile{
		late("refused", 0),
		late("unaligned", BufferAt+1),
		late("aligned-to-4", BufferAt+4),
		late("behind-the-end", GuestPages<<16),
		late("across-the-end", GuestPages<<16-8),
		late("near-2-gib", math.MaxInt32&^7),
		late("near-4-gib", -8),
		lateBuffer("buffer-traps", Unreachable, Nop),
	}
}

// statuses are calls that end in another way than with status 0.
func statuses() []Hostile {
	status := func(name string, n int) Hostile {
		return fails("status-"+name, Cat(FindBody(), Drop, I32(n)), nil)
	}
	first := func(name string, body []byte) Hostile { return fails(name, Cat(body, FindBody()), nil) }
	h := []Hostile{
		status("bad-config", abi.StatusBadConfig),
		status("unsupported", abi.StatusUnsupported),
		status("internal", abi.StatusInternal),
		status("of-nobody", 4),
		status("of-the-author", abi.AuthorStatus),
		status("negative", -1),
		first("status-0-and-an-error", Cat(Host(abi.ImportPut, I32(abi.SlotError), I32(TextAt), I32(11)), Drop)),
		first("exit-with-0", Host("proc_exit", I32(0))),
		first("exit-with-1", Host("proc_exit", I32(1))),
		first("trap-unreachable", Unreachable),
		first("trap-division", Cat(I32(1), I32(0), DivS, Drop)),
		first("trap-overflow", Cat(I32(math.MinInt32), I32(-1), DivS, Drop)),
		first("trap-load", Cat(I32(-4), Load32, Drop)),
		first("trap-conversion", Cat(F32(float32(math.NaN())), []byte{0xa8}, Drop)),
		fails("trap-behind-its-findings", Cat(FindBody(), Drop, Unreachable), nil),
	}
	h = append(h, calling("trap-empty-entry", []Func{{Sig: Sig{"i", "i"}, Body: Get(0)}},
		Cat(I32(0), I32(1), CallIndirect(0), Drop),
		Cat(I32(0), I32(0), CallIndirect(0), Drop), func(m *Module) {
			indirect(m)
			m.Tables = [][]byte{Table(2, 2)}
		}))
	return append(h, calling("trap-wrong-type", []Func{{Sig: Sig{"i", "i"}, Body: Get(0)}}, Cat(I32(0), CallIndirect(1)),
		Cat(I32(0), I32(0), CallIndirect(0), Drop), func(m *Module) {
			indirect(m)
			m.Types = append(m.Types, Sig{"", ""})
		}))
}

// harmless are modules that do what looks wrong and is not: the host must answer rightly.
func harmless() []Hostile {
	emit := func(start, end []byte, confidence float32, severity int) []byte {
		return Cat(Host(abi.ImportEmit, I32(KindAt), I32(KindLen), start, end, F32(confidence), I32(severity),
			I32(abi.ActionRedact), I32(0), I32(0)), Drop)
	}
	at, next, after := Get(FindLocal), Cat(Get(FindLocal), I32(1), Add), Cat(Get(FindLocal), I32(2), Add)
	last := Cat(next, Get(1), GeU)
	isMark := Cat(I32(BufferAt), Get(0), Add, Get(FindLocal), Add, I32(1), Add, Load8, I32(int(Mark[0])), Eq)
	overlapping := find(Cat(
		last, Eqz, isMark, And, If, emit(at, after, 0.9, 1), End,
		emit(at, next, 0.5, 3), emit(at, next, 0.5, 3), emit(at, next, 1, 0)))
	// Every i32 comes from an i64 whose upper half is not zero.
	dirty := func(v []byte) []byte {
		return Cat(v, []byte{0xad}, I64(0x7eadbeef<<32), []byte{0x84}, Wrap64) // extend, or, wrap
	}
	unclean := find(Cat(Host(abi.ImportEmit, dirty(I32(KindAt)), dirty(I32(KindLen)), dirty(at), dirty(next), F32(0.5),
		dirty(I32(3)), dirty(I32(abi.ActionRedact)), dirty(I32(0)), dirty(I32(0))), Drop))
	answers := func(name string, scan []byte) Hostile {
		return Hostile{Name: name, Want: Answers, Module: Guest{Locals: 4, Scan: scan}.Encode(), Twin: Before(nil).Encode()}
	}
	log := func(at, n int) []byte { return Host(abi.ImportLog, I32(1), I32(at), I32(n)) }
	sub := ScratchAt
	sleep := Cat(StoreAt(sub+16, I32(1)), StoreAt(sub+24, I32(-1)), StoreAt(sub+28, I32(800_000)),
		Host("poll_oneoff", I32(sub), I32(sub+64), I32(1), I32(sub+128)), Drop)
	noise := Cat(StoreAt(ScratchAt, I32(BadUTF8At)), StoreAt(ScratchAt+4, I32(20_000)), Times(spare1, 100,
		Cat(Host("fd_write", I32(2), I32(ScratchAt), I32(1), I32(ScratchAt+8)), Drop)))
	grow := Cat(Loop, I32(16), MemGrow, I32(-1), Ne, BrIf(0), End)
	touch := Cat(I32(GuestPages<<16), I32(1), MemSize, I32(16), []byte{0x74}, I32(GuestPages<<16), Sub, MemFill) // shl
	return []Hostile{
		answers("findings-that-overlap", overlapping),
		answers("arguments-with-dirty-upper-halves", unclean),
		answers("log-of-1000-lines", Cat(Times(spare1, 1000, log(TextAt, 11)), FindBody())),
		answers("log-that-is-not-text", Cat(log(BadUTF8At, 2), log(ZerosAt, 4096), FindBody())),
		answers("log-of-an-unknown-level", Cat(Host(abi.ImportLog, I32(-1), I32(TextAt), I32(11)), FindBody())),
		answers("print-of-2-mb", Cat(noise, FindBody())),
		answers("sleep-for-a-month", Cat(sleep, FindBody())),
		answers("memory-grows-in-every-call", Cat(I32(16), MemGrow, Drop, FindBody())),
		answers("memory-grows-to-the-limit", Cat(grow, FindBody())),
		answers("memory-grows-and-is-touched", Cat(grow, touch, FindBody())),
		answers("memory-filled-behind-the-text", Cat(I32(RoomAt), I32(0x55), I32(60_000), MemFill, FindBody())),
	}
}
