package check

import "encoding/binary"

// The order of the added imports.
const funcTick, funcOverflow = 0, 1

// body rewrites one function. It has been read before, so nothing can be wrong with it any more.
func (r *rewriter) body(i int) []byte {
	s, f := r.m.shape, &r.f
	from := &s.bodies[i]
	typ := s.types[s.funcs[i]]
	if err := f.read(from, typ); err != nil {
		panic("a function that was accepted is not readable: " + err.Error())
	}
	w := bodyWriter{r: r, b: make([]byte, 0, 2*len(from.code)+64)}
	groups := from.ngroup
	if f.bulk {
		groups++
		w.length = f.d.locals
	}
	w.uint(groups)
	w.b = append(w.b, from.groups...)
	if f.bulk {
		w.b = append(w.b, 1, valI32)
	}
	if w.wrapped = r.m.recurs[i]; w.wrapped {
		w.frame = f.frame()
		w.enter()
		w.b = append(append(w.b, opBlock), r.results[typ.results]...)
	}
	w.instructions(f, from)
	return w.b
}

// bodyWriter writes one function's instructions.
type bodyWriter struct {
	r       *rewriter
	b       []byte
	length  uint32 // local for the length of bulk instructions
	wrapped bool   // the body is a block, behind which the stack is given back
	frame   uint32
}

// entryCharge is what counting the depth of calls takes: about as many instructions as that are added to the function,
// and returning from a deep nest waits for memory.
const entryCharge = 4

// entry is what entering the function costs beside its own instructions.
func (w *bodyWriter) entry() uint32 {
	if w.wrapped {
		return entryCharge
	}
	return 0
}

func (w *bodyWriter) uint(v uint32) { w.b = binary.AppendUvarint(w.b, uint64(v)) }
func (w *bodyWriter) op(op byte, v uint32) {
	w.b = append(w.b, op)
	w.uint(v)
}
func (w *bodyWriter) constant(v uint32) { w.b = append(append(w.b, opI32Const), sleb(int64(v))...) }

func (w *bodyWriter) instructions(f *flow, from *function) {
	d := &decoder{cursor: cursor{b: from.code}, s: f.s, locals: f.d.locals, depth: 1, tab: f.d.tab}
	region := 0
	w.charge(f.points[0] + w.entry())
	for d.depth > 0 {
		in := d.next()
		top := false // of a region
		switch in.op {
		case opBlock:
			d.depth++
		case opLoop, opIf:
			d.depth++
			top = true
		case opElse:
			top = true
		case opEnd:
			d.depth--
			if d.depth == 0 && w.wrapped {
				w.leave()
			}
			top = d.depth > 0
		}
		w.instr(&in, d)
		if top {
			region++
			w.charge(f.points[region])
		}
	}
}

func (w *bodyWriter) instr(in *instr, d *decoder) {
	switch in.op {
	case opCall, opRefFunc:
		w.op(byte(in.op), in.a+w.r.shift)
		return
	case opReturn:
		if w.wrapped {
			w.op(opBr, d.depth-1)
			return
		}
	case opMemoryFill:
		w.op(opCall, w.r.fill)
		return
	case opMemoryCopy:
		w.op(opCall, w.r.move)
		return
	case opMemoryInit, opMemoryGrow, opTableCopy, opTableInit, opTableFill, opTableGrow:
		w.chargeLength(in.op)
	}
	w.b = append(w.b, d.b[in.at:d.i]...)
}

// charge takes cost off the fuel and asks for more when that ends below zero.
func (w *bodyWriter) charge(cost uint32) {
	if cost == 0 {
		return
	}
	w.op(opGlobalGet, w.r.fuel)
	w.constant(cost)
	w.pay()
}

// pay takes what is on the stack off the fuel below it.
func (w *bodyWriter) pay() {
	w.b = append(w.b, opI32Sub)
	w.op(opGlobalSet, w.r.fuel)
	w.op(opGlobalGet, w.r.fuel)
	w.b = append(w.b, opI32Const, 0, opI32LtS, opIf, 0x40)
	w.op(opCall, w.r.refill)
	w.b = append(w.b, opEnd)
}

// Bulk instructions pay a unit for four bytes: a copy to pages that nobody touched before takes 0.1 to 0.3 ns a byte.
// The most that one of them is charged at once leaves room: with what is left never below zero before a charge, no sum
// wraps.
const (
	bulkShift        = 2
	bulkBytes        = 1 << bulkShift
	maxElementCharge = 1 << 28
	pageCharge       = pageSize // a unit a byte: it is new, and the first touch of 4 KiB takes 1 to 3 µs
	mostGrowth       = 1 << 14  // pages that are paid for; no memory has more
)

// chargeLength charges the length on top of the stack: a quarter for a byte, one for an element of a table.
func (w *bodyWriter) chargeLength(op int) {
	w.op(opLocalSet, w.length)
	w.op(opGlobalGet, w.r.fuel)
	switch op {
	case opMemoryInit:
		w.op(opLocalGet, w.length)
		w.b = append(w.b, opI32Const, bulkShift, opI32Shr)
	case opMemoryGrow:
		w.atMost(min(w.r.m.pages, mostGrowth))
		w.constant(pageCharge)
		w.b = append(w.b, opI32Mul)
	default:
		w.atMost(maxElementCharge)
	}
	w.pay()
	w.op(opLocalGet, w.length)
}

// atMost puts the length on the stack, or limit if that is less.
func (w *bodyWriter) atMost(limit uint32) {
	w.op(opLocalGet, w.length)
	w.constant(limit)
	w.op(opLocalGet, w.length)
	w.constant(limit)
	w.b = append(w.b, opI32LtU, opSelect)
}

// bulkChunk is how many bytes one bulk instruction moves at most: a thousandth of a second where every page is new. An
// engine does not stop within an instruction, however long it runs, and no collection ends before it.
const bulkChunk = 1 << 20

// memory.fill and memory.copy are calls of two added functions that do the same in chunks and pay for each. What is out
// of bounds traps as before; that some of it may have been written by then nobody sees, since a trap ends the instance.
func (r *rewriter) bulkFunctions() (fill, move []byte) {
	const to, from, n = 0, 1, 2 // parameters; from is the byte of a fill
	up := func(w *bodyWriter, local uint32, op byte) {
		w.op(opLocalGet, local)
		w.constant(bulkChunk)
		w.b = append(w.b, op)
		w.op(opLocalSet, local)
	}
	// chunks runs body while there is more than one chunk, and pays for each.
	chunks := func(w *bodyWriter, body func()) {
		w.b = append(w.b, opBlock, 0x40, opLoop, 0x40)
		w.op(opLocalGet, n)
		w.constant(bulkChunk)
		w.b = append(w.b, opI32LeU, opBrIf, 1)
		w.charge(bulkChunk / bulkBytes)
		body()
		w.b = append(w.b, opBr, 0, opEnd, opEnd)
	}
	rest := func(w *bodyWriter, bulk []byte) {
		w.op(opGlobalGet, r.fuel)
		w.op(opLocalGet, n)
		w.b = append(w.b, opI32Const, bulkShift, opI32Shr)
		w.pay()
		w.b = append(w.b, opLocalGet, to, opLocalGet, from, opLocalGet, n)
		w.b = append(append(w.b, bulk...), opEnd)
	}
	memoryFill, memoryCopy := []byte{prefixMisc, 0x0b, 0}, []byte{prefixMisc, 0x0a, 0, 0}
	f := &bodyWriter{r: r, b: []byte{0}}
	chunks(f, func() {
		f.b = append(f.b, opLocalGet, to, opLocalGet, from)
		f.constant(bulkChunk)
		f.b = append(f.b, memoryFill...)
		up(f, to, opI32Add)
		up(f, n, opI32Sub)
	})
	rest(f, memoryFill)

	c := &bodyWriter{r: r, b: []byte{0}}
	// Where the two overlap, the end that would be overwritten first is moved first.
	c.b = append(c.b, opLocalGet, to, opLocalGet, from, opI32LeU, opIf, 0x40)
	chunks(c, func() {
		c.b = append(c.b, opLocalGet, to, opLocalGet, from)
		c.constant(bulkChunk)
		c.b = append(c.b, memoryCopy...)
		up(c, to, opI32Add)
		up(c, from, opI32Add)
		up(c, n, opI32Sub)
	})
	c.b = append(c.b, opElse)
	chunks(c, func() {
		up(c, n, opI32Sub)
		c.b = append(c.b, opLocalGet, to, opLocalGet, n, opI32Add, opLocalGet, from, opLocalGet, n, opI32Add)
		c.constant(bulkChunk)
		c.b = append(c.b, memoryCopy...)
	})
	c.b = append(c.b, opEnd)
	rest(c, memoryCopy)
	return f.b, c.b
}

// enter takes the frame off the stack that is left.
func (w *bodyWriter) enter() {
	w.op(opGlobalGet, w.r.stack)
	w.constant(w.frame)
	w.b = append(w.b, opI32Sub)
	w.op(opGlobalSet, w.r.stack)
	w.op(opGlobalGet, w.r.stack)
	w.b = append(w.b, opI32Const, 0, opI32LtS, opIf, 0x40, opCall, funcOverflow, opEnd)
}

// leave ends the block around the body and gives the frame back.
func (w *bodyWriter) leave() {
	w.b = append(w.b, opEnd)
	w.op(opGlobalGet, w.r.stack)
	w.constant(w.frame)
	w.b = append(w.b, opI32Add)
	w.op(opGlobalSet, w.r.stack)
}
