package check

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// Original gives the module as it was written, without its custom sections and with a maximum for every table.
func (m *Module) Original() []byte { return m.shape.encode(nil) }

// Metered gives the module rewritten: it pays for what it runs from ExportFuel and for nested calls from ExportStack,
// and exports its mutable globals. The added imports come in front of its own, the added types, functions and globals
// behind.
func (m *Module) Metered() []byte { return m.shape.encode(newRewriter(m)) }

// rewriter holds what is added to a module.
type rewriter struct {
	m       *Module
	f       flow
	shift   uint32 // functions imported in front
	types   [][]byte
	tick    uint32            // type of it
	void    uint32            // type without parameters and results
	results map[string][]byte // block types of functions with several results
	three   uint32            // type of the next two
	refill  uint32            // the added functions
	fill    uint32
	move    uint32
	fuel    uint32 // the added globals
	stack   uint32
}

func newRewriter(m *Module) *rewriter {
	s := m.shape
	r := &rewriter{m: m, f: flow{s: s}, shift: 2, results: map[string][]byte{}}
	r.tick = r.addType(signature{string([]byte{valI32}), string([]byte{valI32})})
	r.void = r.addType(signature{})
	r.three = r.addType(signature{params: string([]byte{valI32, valI32, valI32})})
	for i, recurs := range m.recurs {
		res := s.types[s.funcs[i]].results
		if _, ok := r.results[res]; ok || !recurs {
			continue
		}
		switch len(res) {
		case 0:
			r.results[res] = []byte{0x40}
		case 1:
			r.results[res] = []byte(res)
		default:
			r.results[res] = sleb(int64(r.addType(signature{"", res})))
		}
	}
	r.refill = r.shift + uint32(s.funcCount())
	r.fill, r.move = r.refill+1, r.refill+2
	r.fuel = uint32(s.globalCount)
	r.stack = r.fuel + 1
	return r
}

func (r *rewriter) addType(t signature) uint32 {
	b := append([]byte{0x60}, sized([]byte(t.params))...)
	r.types = append(r.types, append(b, sized([]byte(t.results))...))
	return uint32(len(r.m.shape.types) + len(r.types) - 1)
}

func sized(b []byte) []byte { return append(binary.AppendUvarint(nil, uint64(len(b))), b...) }

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

// vec is a vector under construction.
type vec struct {
	n int
	b []byte
}

func (v *vec) add(parts ...[]byte) {
	v.n++
	for _, p := range parts {
		v.b = append(v.b, p...)
	}
}

// encode writes the module anew: rewritten by r, or as it is if that is nil.
func (s *shape) encode(r *rewriter) []byte {
	out := append([]byte{}, wasmMagic...)
	section := func(id byte, v vec) {
		if !s.has[id] && v.n == 0 {
			return
		}
		n := binary.AppendUvarint(nil, uint64(v.n))
		out = binary.AppendUvarint(append(out, id), uint64(len(n)+len(v.b)))
		out = append(append(out, n...), v.b...)
	}
	plain := func(id byte, body []byte) {
		if s.has[id] {
			out = append(binary.AppendUvarint(append(out, id), uint64(len(body))), body...)
		}
	}
	section(secType, r.typeSection(s))
	section(secImport, r.importSection(s))
	section(secFunction, r.functionSection(s))
	plain(secTable, s.boundedTables())
	plain(secMemory, s.rawMemories)
	section(secGlobal, r.globalSection(s))
	section(secExport, r.exportSection(s))
	plain(secStart, binary.AppendUvarint(nil, uint64(s.start+r.shifted())))
	if r == nil {
		plain(secElement, s.rawElements)
	} else if s.has[secElement] {
		plain(secElement, s.elements(&cursor{b: s.rawElements}, r.shift))
	}
	plain(secDataCount, binary.AppendUvarint(nil, uint64(max(s.dataCount, 0))))
	section(secCode, r.codeSection(s))
	plain(secData, s.rawData)
	return out
}

func (r *rewriter) shifted() uint32 {
	if r == nil {
		return 0
	}
	return r.shift
}

func (r *rewriter) typeSection(s *shape) vec {
	v := vec{len(s.types), s.rawTypes}
	if r != nil {
		v.b = append([]byte{}, s.rawTypes...)
		for _, t := range r.types {
			v.add(t)
		}
	}
	return v
}

func (r *rewriter) importSection(s *shape) (v vec) {
	if r != nil {
		v.add(sized([]byte(HostModule)), sized([]byte(ImportTick)), []byte{externFunc},
			binary.AppendUvarint(nil, uint64(r.tick)))
		v.add(sized([]byte(HostModule)), sized([]byte(ImportOverflow)), []byte{externFunc},
			binary.AppendUvarint(nil, uint64(r.void)))
	}
	v.n += len(s.imports)
	v.b = append(v.b, s.rawImports...)
	return v
}

func (r *rewriter) functionSection(s *shape) vec {
	v := vec{len(s.funcs), s.rawFuncs}
	if r != nil {
		v.b = append([]byte{}, s.rawFuncs...)
		v.add(binary.AppendUvarint(nil, uint64(r.void)))
		if s.hasMemory() {
			v.add(binary.AppendUvarint(nil, uint64(r.three)))
			v.add(binary.AppendUvarint(nil, uint64(r.three)))
		}
	}
	return v
}

func (r *rewriter) globalSection(s *shape) (v vec) {
	for _, g := range s.globals {
		mutable := byte(0)
		if g.mutable {
			mutable = 1
		}
		v.add([]byte{g.of, mutable}, s.shiftedConstant(&cursor{b: g.init}, r.shifted()))
	}
	if r != nil {
		v.add([]byte{valI32, 1, opI32Const, 0, opEnd})
		v.add([]byte{valI32, 1, opI32Const}, sleb(StackBudget), []byte{opEnd})
	}
	return v
}

func (r *rewriter) exportSection(s *shape) (v vec) {
	add := func(name string, kind byte, index uint32) {
		v.add(sized([]byte(name)), []byte{kind}, binary.AppendUvarint(nil, uint64(index)))
	}
	for _, e := range s.exports {
		if e.kind == externFunc {
			e.index += r.shifted()
		}
		add(e.name, e.kind, e.index)
	}
	if r == nil {
		return v
	}
	first := s.globalCount - len(s.globals)
	for i, g := range s.globals {
		if g.resettable() {
			add(fmt.Sprint(ExportGlobal, i), externGlobal, uint32(first+i))
		}
	}
	add(ExportFuel, externGlobal, r.fuel)
	add(ExportStack, externGlobal, r.stack)
	return v
}

// batch is how many functions one processor rewrites at a time.
const batch = 64

// bodies rewrites all functions. They do not depend on each other, and a start waits for them: each processor takes the
// next batch.
func (r *rewriter) bodies() (v vec) {
	n := len(r.m.shape.bodies)
	parts := make([]vec, (n+batch-1)/batch)
	var next atomic.Int64
	var broken atomic.Pointer[string]
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(parts)) {
		wg.Go(func() {
			defer func() {
				if cause := recover(); cause != nil { // it is the caller's, as if it had done the work itself
					text := fmt.Sprint(cause)
					broken.Store(&text)
				}
			}()
			own := *r
			own.f = flow{s: r.m.shape}
			for {
				p := int(next.Add(1)) - 1
				if p >= len(parts) {
					return
				}
				for i := p * batch; i < min(n, (p+1)*batch); i++ {
					parts[p].add(sized(own.body(i)))
				}
			}
		})
	}
	wg.Wait()
	if text := broken.Load(); text != nil {
		panic(*text)
	}
	all := make([][]byte, len(parts))
	for p := range parts {
		v.n, all[p] = v.n+parts[p].n, parts[p].b
	}
	v.b = slices.Concat(all...)
	return v
}

func (r *rewriter) codeSection(s *shape) (v vec) {
	if r == nil {
		for i := range s.bodies {
			b := &s.bodies[i]
			n := binary.AppendUvarint(nil, uint64(b.ngroup))
			v.add(binary.AppendUvarint(nil, uint64(len(n)+len(b.groups)+len(b.code))), n, b.groups, b.code)
		}
	} else {
		v = r.bodies()
		code := append([]byte{0}, opGlobalGet)
		code = binary.AppendUvarint(code, uint64(r.fuel))
		code = append(code, opCall, 0, opGlobalSet)
		code = binary.AppendUvarint(code, uint64(r.fuel))
		v.add(sized(append(code, opEnd)))
		if s.hasMemory() {
			fill, move := r.bulkFunctions()
			v.add(sized(fill))
			v.add(sized(move))
		}
	}
	return v
}
