package host

import (
	"encoding/binary"
	"math"
	"strings"

	"github.com/yett-dev/yett/core/wasm/check"
	"github.com/yett-dev/yett/sdk/abi"
)

// What the binary format calls things.
const (
	secCustom, secType, secImport, secFunction, secTable, secMemory byte = 0, 1, 2, 3, 4, 5
	secGlobal, secExport, secStart, secElement, secCode, secData    byte = 6, 7, 8, 9, 10, 11
	externFunc, externTable, externMemory, externGlobal             byte = 0, 1, 2, 3
	valI32, valI64, valF32, valF64, valV128, valFuncref, valExtern  byte = 0x7f, 0x7e, 0x7d, 0x7c, 0x7b, 0x70, 0x6f
)

var wasmMagic = []byte("\x00asm\x01\x00\x00\x00")

// signature is a function's type: one byte for each value.
type signature struct{ params, results string }

// sig writes a signature with one letter a value: i, l, f for i32, i64, f32.
func sig(params, results string) signature {
	r := strings.NewReplacer("i", "\x7f", "l", "\x7e", "f", "\x7d")
	return signature{r.Replace(params), r.Replace(results)}
}

func importSig(f hostFunc) signature {
	params, results, ok := check.ImportSignature(f.module, f.name)
	if !ok {
		panic(f.name + " cannot be imported")
	}
	return signature{params, results}
}

var exportSignatures = map[string]signature{
	abi.ExportMarker: sig("", ""), abi.ExportInitialize: sig("", ""), abi.ExportBuffer: sig("i", "i"),
	abi.ExportInit: sig("i", "i"), abi.ExportScan: sig("iii", "i"), abi.ExportCheck: sig("ii", "i"),
	abi.ExportDescribe: sig("", "i"),
}

// A small encoder for WASM binaries, so that each test can write the guest it needs.

func leb(v uint64) []byte { return binary.AppendUvarint(nil, v) }

func sleb(v int64) (b []byte) {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

func cat(parts ...[]byte) (b []byte) {
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

func sized(b []byte) []byte { return cat(leb(uint64(len(b))), b) }
func vec(items ...[]byte) []byte {
	return cat(leb(uint64(len(items))), cat(items...))
}

// Instructions.
var (
	end, loop, block, drop, ret = []byte{0x0b}, []byte{0x03, 0x40}, []byte{0x02, 0x40}, []byte{0x1a}, []byte{0x0f}
	ifThen, unreachable         = []byte{0x04, 0x40}, []byte{0x00}
	add, sub, eq, ne, geU       = []byte{0x6a}, []byte{0x6b}, []byte{0x46}, []byte{0x47}, []byte{0x4f}
	load8, load32, store32      = []byte{0x2d, 0, 0}, []byte{0x28, 0, 0}, []byte{0x36, 0, 0}
	memGrow                     = []byte{0x40, 0}
)

func i32(v int) []byte    { return cat([]byte{0x41}, sleb(int64(int32(v)))) }
func i64(v int64) []byte  { return cat([]byte{0x42}, sleb(v)) }
func get(i int) []byte    { return cat([]byte{0x20}, leb(uint64(i))) }
func set(i int) []byte    { return cat([]byte{0x21}, leb(uint64(i))) }
func br(i int) []byte     { return cat([]byte{0x0c}, leb(uint64(i))) }
func brIf(i int) []byte   { return cat([]byte{0x0d}, leb(uint64(i))) }
func callTo(i int) []byte { return cat([]byte{0x10}, leb(uint64(i))) }
func loadAt(a int) []byte { return cat(i32(a), load32) }
func forever() []byte     { return cat(loop, br(0), end) }
func f32(v float32) []byte {
	return binary.LittleEndian.AppendUint32([]byte{0x43}, math.Float32bits(v))
}

// host calls the host function of that name; every guest imports all of them, in the order of hostFuncs.
func host(name string, args ...[]byte) []byte {
	for i, f := range hostFuncs {
		if f.name == name {
			return cat(cat(args...), callTo(i))
		}
	}
	panic("no host function " + name)
}

type fn struct {
	sig    signature
	locals int // i32
	body   []byte
}

type imp struct {
	module, name string
	kind         byte
	desc         []byte // nil: the type of sig
	sig          signature
}

type exp struct {
	name  string
	kind  byte
	index int
}

type data struct {
	at    int
	bytes string
}

type custom struct{ name, body string }

// mod is a module before it is encoded.
type mod struct {
	imports  []imp
	funcs    []fn
	tables   [][]byte // type and limits
	memories [][]byte // limits
	globals  [][]byte
	exports  []exp
	start    int // function; 0 none
	datas    []data
	customs  []custom
}

func (m *mod) encode() []byte {
	var types [][]byte
	index := map[signature]int{}
	typ := func(s signature) []byte {
		if _, ok := index[s]; !ok {
			index[s] = len(types)
			types = append(types, cat([]byte{0x60}, sized([]byte(s.params)), sized([]byte(s.results))))
		}
		return leb(uint64(index[s]))
	}
	var imports, funcs, exports, bodies, datas [][]byte
	for _, i := range m.imports {
		desc := i.desc
		if desc == nil {
			desc = typ(i.sig)
		}
		imports = append(imports, cat(sized([]byte(i.module)), sized([]byte(i.name)), []byte{i.kind}, desc))
	}
	for _, f := range m.funcs {
		funcs = append(funcs, typ(f.sig))
		locals := vec()
		if f.locals > 0 {
			locals = vec(cat(leb(uint64(f.locals)), []byte{valI32}))
		}
		bodies = append(bodies, sized(cat(locals, f.body, end)))
	}
	for _, e := range m.exports {
		exports = append(exports, cat(sized([]byte(e.name)), []byte{e.kind}, leb(uint64(e.index))))
	}
	for _, d := range m.datas {
		datas = append(datas, cat(leb(0), i32(d.at), end, sized([]byte(d.bytes))))
	}
	out := append([]byte{}, wasmMagic...)
	section := func(id byte, items [][]byte) {
		if len(items) > 0 {
			out = cat(out, []byte{id}, sized(vec(items...)))
		}
	}
	section(secType, types)
	section(secImport, imports)
	section(secFunction, funcs)
	section(secTable, m.tables)
	section(secMemory, m.memories)
	section(secGlobal, m.globals)
	section(secExport, exports)
	if m.start > 0 {
		out = cat(out, []byte{secStart}, sized(leb(uint64(m.start))))
	}
	section(secCode, bodies)
	section(secData, datas)
	for _, c := range m.customs {
		out = cat(out, []byte{secCustom}, sized(cat(sized([]byte(c.name)), []byte(c.body))))
	}
	return out
}

// Where things are in a test guest's memory.
const (
	kindAt, kindLen   = 16, 9 // TEST_KIND
	otherAt, otherLen = 32, 10
	undeclaredAt      = 48 // NOT_A_KIND, 10 bytes
	textAt            = 64 // "replacement", 11 bytes
	badUTF8At         = 80
	scratchAt         = 512
	docAt             = 2048
	bufferAt          = 8192
	bufferMax         = 128 << 10
	zerosAt           = 200_000
)

const testMeta = `{"name":"test","version":"1.2.3","abi":1,"kinds":[{"name":"TEST_KIND","severity":3},{"name":"OTHER_KIND","severity":1}],` +
	`"stream":{"mode":"stateful"},"needs":{},"triggers":[{"literal":"!"},{"class":"digits","min":4}]}`

// guest is a test module: nil bodies are not exported, except that init and buffer have working defaults.
type guest struct {
	scan, check, describe, initialize, init, buffer []byte
	locals                                          int
	meta                                            string // "" is testMeta, "-" none
	doc                                             string // in memory at docAt, for describe
	edit                                            func(*mod)
}

func (g guest) module() *mod {
	m := &mod{memories: [][]byte{{0, 4}}}
	for _, f := range hostFuncs {
		m.imports = append(m.imports, imp{module: f.module, name: f.name, sig: importSig(f)})
	}
	export := func(name string, body []byte) {
		if body != nil {
			m.exports = append(m.exports, exp{name, externFunc, len(m.imports) + len(m.funcs)})
			m.funcs = append(m.funcs, fn{exportSignatures[name], g.locals, body})
		}
	}
	m.exports = append(m.exports, exp{abi.ExportMemory, externMemory, 0})
	export(abi.ExportMarker, []byte{})
	if g.buffer == nil {
		g.buffer = cat(get(0), i32(bufferMax), geU, ifThen, i32(0), ret, end, i32(bufferAt))
	}
	export(abi.ExportBuffer, g.buffer)
	if g.init == nil {
		g.init = i32(0)
	}
	export(abi.ExportInit, g.init)
	export(abi.ExportInitialize, g.initialize)
	export(abi.ExportScan, g.scan)
	export(abi.ExportCheck, g.check)
	export(abi.ExportDescribe, g.describe)
	m.datas = []data{{kindAt, "TEST_KIND"}, {otherAt, "OTHER_KIND"}, {undeclaredAt, "NOT_A_KIND"}, {textAt, "replacement"},
		{badUTF8At, "\xff\xfe"}, {docAt, g.doc}}
	switch g.meta {
	case "":
		m.customs = []custom{{abi.MetaSection, testMeta}}
	case "-":
	default:
		m.customs = []custom{{abi.MetaSection, g.meta}}
	}
	if g.edit != nil {
		g.edit(m)
	}
	return m
}

func (g guest) wasm() []byte { return g.module().encode() }

// emission is a call of emit with sound arguments, to be spoilt one by one.
type emission struct {
	kind, kindLen, start, end int
	confidence                float32
	severity, action          int
	repl, replLen             int
}

var soundEmission = emission{kind: kindAt, kindLen: kindLen, end: 1, confidence: 0.5, severity: 3,
	action: abi.ActionRedact}

func (e emission) code() []byte {
	return host("emit", i32(e.kind), i32(e.kindLen), i32(e.start), i32(e.end), f32(e.confidence), i32(e.severity),
		i32(e.action), i32(e.repl), i32(e.replLen))
}

// spoilt is a scan that emits one finding after change.
func spoilt(change func(*emission)) []byte {
	e := soundEmission
	change(&e)
	return cat(e.code())
}

// finder emits TEST_KIND for every '!' of the window; it traps at '~' and loops for ever at '@'. It has one local, 3.
func finder() guest {
	at := cat(get(3), i32(bufferAt), add, get(0), add, load8)
	return guest{locals: 1, scan: cat(
		block, loop, get(3), get(1), geU, brIf(1),
		at, i32('~'), eq, ifThen, unreachable, end,
		at, i32('@'), eq, ifThen, forever(), end,
		at, i32('!'), eq, ifThen,
		host("emit", i32(kindAt), i32(kindLen), get(3), cat(get(3), i32(1), add), f32(0.5), i32(3), i32(abi.ActionRedact),
			i32(0), i32(0)), drop, end,
		get(3), i32(1), add, set(3), br(0), end, end, i32(0))}
}

// times runs body n times in a guest with one local after params parameters.
func times(local, n int, body []byte) []byte {
	return cat(i32(0), set(local), loop, body, get(local), i32(1), add, set(local), get(local), i32(n), ne, brIf(0), end)
}
