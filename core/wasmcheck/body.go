package wasmcheck

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
	depth   uint32 // blocks around the instruction
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
	w.charge(f.points[0])
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
	case opMemoryInit, opMemoryCopy, opMemoryFill, opMemoryGrow, opTableCopy, opTableInit, opTableFill, opTableGrow:
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

// The most that a bulk instruction is charged: with what is left never below zero before a charge, no sum wraps.
const (
	maxElementCharge = 1 << 28
	pageCharge       = pageSize / 8
)

// chargeLength charges the length on top of the stack: an eighth of a byte, one for an element of a table.
func (w *bodyWriter) chargeLength(op int) {
	w.op(opLocalSet, w.length)
	w.op(opGlobalGet, w.r.fuel)
	switch op {
	case opMemoryInit, opMemoryCopy, opMemoryFill:
		w.op(opLocalGet, w.length)
		w.b = append(w.b, opI32Const, 3, opI32Shr)
	case opMemoryGrow:
		w.atMost(w.r.m.pages)
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

// enter takes the frame off the stack that is left.
func (w *bodyWriter) enter() {
	w.op(opGlobalGet, w.r.stack)
	w.constant(w.frame)
	w.b = append(w.b, opI32Sub)
	w.op(opGlobalSet, w.r.stack)
	w.op(opGlobalGet, w.r.stack)
	w.b = append(w.b, opI32Const, 0, opI32LtS, opIf, 0x40, opCall, funcOverflow, opUnreachable, opEnd)
}

// leave ends the block around the body and gives the frame back.
func (w *bodyWriter) leave() {
	w.b = append(w.b, opEnd)
	w.op(opGlobalGet, w.r.stack)
	w.constant(w.frame)
	w.b = append(w.b, opI32Add)
	w.op(opGlobalSet, w.r.stack)
}
