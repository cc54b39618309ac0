package wasmgen

import (
	"math"

	"github.com/yett-dev/yett/sdk/abi"
)

// Imports are all functions that ABI v1 has for a module, in the order in which every Guest imports them.
var Imports = []Import{
	{Module: abi.ImportModule, Name: abi.ImportEmit, Sig: Sig{"iiiifiiii", "i"}},
	{Module: abi.ImportModule, Name: abi.ImportDecide, Sig: Sig{"iiiiii", "i"}},
	{Module: abi.ImportModule, Name: abi.ImportPut, Sig: Sig{"iii", "i"}},
	{Module: abi.ImportModule, Name: abi.ImportLog, Sig: Sig{"iii", ""}},
	wasi("args_get", "ii"), wasi("args_sizes_get", "ii"), wasi("clock_time_get", "ili"), wasi("environ_get", "ii"),
	wasi("environ_sizes_get", "ii"), wasi("fd_close", "i"), wasi("fd_fdstat_get", "ii"), wasi("fd_fdstat_set_flags", "ii"),
	wasi("fd_prestat_dir_name", "iii"), wasi("fd_prestat_get", "ii"), wasi("fd_write", "iiii"),
	wasi("poll_oneoff", "iiii"),
	{Module: abi.WASIModule, Name: "proc_exit", Sig: Sig{"i", ""}},
	wasi("random_get", "ii"), wasi("sched_yield", ""),
}

func wasi(name, params string) Import {
	return Import{Module: abi.WASIModule, Name: name, Sig: Sig{params, "i"}}
}

// Exports are the functions of ABI v1 that a module exports.
var Exports = map[string]Sig{
	abi.ExportMarker:     {"", ""},
	abi.ExportInitialize: {"", ""},
	abi.ExportBuffer:     {"i", "i"},
	abi.ExportInit:       {"i", "i"},
	abi.ExportScan:       {"iii", "i"},
	abi.ExportCheck:      {"ii", "i"},
	abi.ExportDescribe:   {"", "i"},
}

// Host calls an imported function of a Guest by name. An unknown name gives a call that no module may hold.
func Host(name string, args ...[]byte) []byte {
	for i, f := range Imports {
		if f.Name == name {
			return Cat(Cat(args...), CallTo(i))
		}
	}
	return CallTo(math.MaxUint32)
}

// Where things are in a Guest's memory, bytes.
const (
	KindAt, KindLen   = 16, 9 // TEST_KIND
	OtherAt, OtherLen = 32, 10
	UndeclaredAt      = 48 // NOT_A_KIND, 10 bytes
	TextAt            = 64 // "replacement", 11 bytes
	BadUTF8At         = 80 // 2 bytes
	ScratchAt         = 512
	DocAt             = 2048 // Guest.Doc
	BufferAt          = 8192
	BufferMax         = 128 << 10
	RoomAt            = 140_000 // 64 KiB and a little
	ZerosAt           = 210_000
	GuestPages        = 4
)

// GuestMeta is the metadata of a Guest. Without triggers the module is called for every text.
const GuestMeta = `{"name":"test","version":"1.2.3","abi":1,"kinds":[{"name":"TEST_KIND","severity":3},{"name":"OTHER_KIND","severity":1}],` +
	`"stream":{"mode":"none"},"needs":{}}`

// Guest is a module of ABI v1. Bodies that are nil are not exported, except that init and buffer have working defaults.
type Guest struct {
	Scan, Check, Describe, Initialize, Init, Buffer []byte

	Locals int    // of type i32 in each of these functions, behind the parameters
	Meta   string // "" is GuestMeta, "-" none
	Doc    string // in memory at DocAt
	Pages  int    // of memory at first; 0 is GuestPages
	Extra  []Func // functions of its own; the first is at FirstExtra
	Edit   func(*Module)
}

// FirstExtra is the index of a Guest's first Extra function.
var FirstExtra = len(Imports)

// GoodBuffer is the body of yett_buffer of a Guest that has no other.
func GoodBuffer() []byte {
	return Cat(Get(0), I32(BufferMax), GtU, If, I32(0), Return, End, I32(BufferAt))
}

// Module lays the guest out.
func (g Guest) Module() *Module {
	m := &Module{Imports: append([]Import(nil), Imports...), Funcs: append([]Func(nil), g.Extra...),
		Memories: [][]byte{Limits(max(g.Pages, GuestPages), -1)}}
	m.Exports = []Export{{abi.ExportMemory, ExternMemory, 0}}
	export := func(name string, body []byte) {
		if body != nil {
			m.Exports = append(m.Exports, Export{name, ExternFunc, len(m.Imports) + len(m.Funcs)})
			m.Funcs = append(m.Funcs, Func{Sig: Exports[name], Locals: g.Locals, Body: body})
		}
	}
	if g.Buffer == nil {
		g.Buffer = GoodBuffer()
	}
	if g.Init == nil {
		g.Init = I32(0)
	}
	export(abi.ExportMarker, []byte{})
	export(abi.ExportBuffer, g.Buffer)
	export(abi.ExportInit, g.Init)
	export(abi.ExportInitialize, g.Initialize)
	export(abi.ExportScan, g.Scan)
	export(abi.ExportCheck, g.Check)
	export(abi.ExportDescribe, g.Describe)
	m.Datas = []Data{{KindAt, "TEST_KIND"}, {OtherAt, "OTHER_KIND"}, {UndeclaredAt, "NOT_A_KIND"}, {TextAt, "replacement"},
		{BadUTF8At, "\xff\xfe"}, {DocAt, g.Doc}}
	switch g.Meta {
	case "":
		m.Customs = []Custom{{abi.MetaSection, GuestMeta}}
	case "-":
	default:
		m.Customs = []Custom{{abi.MetaSection, g.Meta}}
	}
	if g.Edit != nil {
		g.Edit(m)
	}
	return m
}

// Encode writes the guest.
func (g Guest) Encode() []byte { return g.Module().Encode() }

// Emission is a call of emit; Sound is one that every host takes.
type Emission struct {
	Kind, KindLen, Start, End int
	Confidence                float32
	Severity, Action          int
	Repl, ReplLen             int
}

// Sound marks the first byte of the text.
var Sound = Emission{Kind: KindAt, KindLen: KindLen, End: 1, Confidence: 0.5, Severity: 3, Action: abi.ActionRedact}

// Code is the call; it leaves the answer on the stack.
func (e Emission) Code() []byte {
	return Host(abi.ImportEmit, I32(e.Kind), I32(e.KindLen), I32(e.Start), I32(e.End), F32(e.Confidence), I32(e.Severity),
		I32(e.Action), I32(e.Repl), I32(e.ReplLen))
}

// Spoilt is the sound emission after a change.
func Spoilt(change func(*Emission)) []byte {
	e := Sound
	change(&e)
	return e.Code()
}

// Mark is what FindBody finds as TEST_KIND.
const Mark = "!"

// FindLocal is the local that FindBody counts in: the first one of yett_scan.
const FindLocal = 3

// FindBody is an honest yett_scan of a guest with one local or more: it emits TEST_KIND for every Mark.
func FindBody() []byte { return find(EmitMark()) }

// EmitMark emits the byte that FindBody looks at.
func EmitMark() []byte {
	return Cat(Host(abi.ImportEmit, I32(KindAt), I32(KindLen), Get(FindLocal), Cat(Get(FindLocal), I32(1), Add), F32(0.5),
		I32(3), I32(abi.ActionRedact), I32(0), I32(0)), Drop)
}

// ByteAt pushes the byte that FindBody looks at.
func ByteAt() []byte { return Cat(I32(BufferAt), Get(0), Add, Get(FindLocal), Add, Load8) }

// find looks at every byte and runs found where a Mark is.
func find(found []byte) []byte {
	return Cat(I32(0), Set(FindLocal), Block, Loop, Get(FindLocal), Get(1), GeU, BrIf(1),
		ByteAt(), I32(int(Mark[0])), Eq, If, found, End,
		Get(FindLocal), I32(1), Add, Set(FindLocal), Br(0), End, End, I32(0))
}

// Before is an honest scanner that runs something first; spare locals begin at FindLocal+1.
func Before(first []byte) Guest { return Guest{Locals: 4, Scan: Cat(first, FindBody())} }

// Finder is an honest scanner.
func Finder() Guest { return Before(nil) }

// Trigger begins a text that an armed scanner waits for. No text that admission tries begins with it.
const Trigger = "%^&~"

// Armed is an honest scanner until a text begins with Trigger: then it runs body, which leaves a status.
func Armed(body []byte) Guest {
	word := Cat(I32(BufferAt), Get(0), Add, Load32,
		I32(int(Trigger[0])|int(Trigger[1])<<8|int(Trigger[2])<<16|int(Trigger[3])<<24), Eq)
	return Before(Cat(Get(1), I32(len(Trigger)), GeU, word, And, If, body, Return, End))
}
