package wasmcheck

// What compiling costs. wazero's compiler has no bound of its own and grows with products, not sums: a function of 100 KB
// whose 10 000 blocks each follow a load took 2.5 GB and 11 s, one of 50 KB with 5 000 of them 0.7 GB and 2 s, 1 000 locals
// over 1 000 branches 0.2 GB, 1 000 calls with 1 000 arguments and results 0.8 GB, 10 000 calls in a module of 100 mutable
// globals 0.2 GB, and 18 000 functions of 18 000 types 6 s. The weights below are fitted to such modules, in bytes of the
// compiler's memory at its peak; a byte went with 2 to 5 ns. The largest function of a 6 MB Go guest (fmt, regexp, json,
// templates) comes to half of maxFuncCost, all of it to a third of maxModuleCost.
const (
	maxNesting    = 10_000
	maxFuncCost   = 512 << 20
	maxModuleCost = 12 << 30

	costFunction  = 5_000
	costLocal     = 10
	costValue     = 120   // made by an instruction
	costOperand   = 400   // of a call or a block type
	costMemory    = 5_000 // instruction that accesses memory
	costBulk      = 15_000
	costLocalEdge = 80  // each local in use at each edge
	costBoundEdge = 16  // each memory access at each edge
	costCarried   = 32  // each value on the stack at each edge
	costGlobal    = 200 // each mutable global at each call
	costTypeFunc  = 8   // each type for each function
)

// work counts what makes a function dear.
type work struct {
	touched  []uint32 // stamp of each local that an instruction names
	stamp    uint32
	locals   int64 // how many that are
	values   int64
	operands int64
	edges    int64 // of control flow
	carried  int64 // values on the stack at each edge, summed up
	calls    int64
	memory   int64
	bulk     int64
}

func (w *work) reset() {
	if w.touched == nil {
		w.touched = make([]uint32, maxLocals+maxParams)
	}
	*w = work{touched: w.touched, stamp: w.stamp + 1}
}

func (w *work) instr(f *flow, in *instr) {
	w.values += int64(1 + in.eff.push)
	switch in.eff.imm {
	case immMemory, immMemLane:
		w.memory++
	case immLocal:
		if w.touched[in.a] != w.stamp {
			w.touched[in.a] = w.stamp
			w.locals++
		}
	}
	switch in.op {
	case opBlock, opLoop, opIf:
		w.operands += int64(len(in.bt.params) + len(in.bt.results))
		w.edge(f, 1)
	case opElse, opEnd, opBr, opBrIf:
		w.edge(f, 1)
	case opBrTable:
		w.edge(f, int64(len(in.tab)))
	case opCall:
		t, _ := f.s.functionType(in.a)
		w.call(t)
	case opCallIndirect:
		w.call(f.s.types[in.a])
	case opMemoryInit, opMemoryCopy, opMemoryFill, opMemoryGrow, opTableCopy, opTableInit, opTableFill, opTableGrow:
		w.bulk++
		w.edge(f, 2) // the charge
	}
}

func (w *work) edge(f *flow, n int64) {
	w.edges += n
	w.carried += n * int64(f.height)
}

func (w *work) call(t signature) {
	w.calls++
	w.operands += int64(len(t.params) + len(t.results))
}

// cost is that of the function that was read, metered. No product of two counts of a body overflows.
func (f *flow) cost(mutable int64) int64 {
	w := &f.work
	edges := w.edges
	for _, p := range f.points {
		if p > 0 {
			edges += 2
		}
	}
	return costFunction + costLocal*int64(f.d.locals) + costValue*w.values + costOperand*w.operands + costMemory*w.memory +
		costBulk*w.bulk + edges*(costLocalEdge*w.locals+costBoundEdge*(w.memory+3*w.bulk)) + costCarried*w.carried +
		costGlobal*w.calls*mutable
}

// mutable counts the globals that the compiler reads anew behind each call, with the two that are added.
func (s *shape) mutable() int64 {
	n := int64(2)
	for _, g := range s.globals {
		if g.mutable {
			n++
		}
	}
	return n
}

// frame estimates the bytes that a call of the function takes of the stack: its locals and what it has on the stack at
// most. The compiler keeps copies of a value and gives each a slot of its own, so the true frame can be several times
// larger; StackBudget leaves room for that below the compiler's own limit.
func (f *flow) frame() uint32 {
	size := 8
	if f.vectors {
		size = 16
	}
	spilled := int(f.work.calls+f.work.edges) / 4
	return uint32(64 + size*(int(f.d.locals)+f.highest+len(f.typ.results)+spilled))
}
