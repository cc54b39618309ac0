package check

// What compiling costs. wazero's compiler has no bound of its own and grows with products, not sums: it walks from
// every edge of control flow up the tree of dominators (40 000 ifs one behind the other, 240 KB, took 29 s; 20
// functions of 20 000 empty blocks 22 s), compares the edges that meet in one place pair by pair (a table of 60 000
// labels read three times: 2 s and 420 MiB), keeps every local and every address it has checked at every edge (10 000
// blocks that each follow a load: 2.5 GB and 11 s), looks through all types for each function (20 000 of each: 3 s),
// and writes out every function's locals (5 000 functions of 10 000: 0.4 GB). So there are bounds in bytes at the peak
// and in nanoseconds of one core, and the weights below are fitted to such modules, metered, from above: the largest
// that are let in took up to 5.8 s (a million loads whose addresses all differ) and 377 MiB, most of them far less
// (BenchmarkCompileAtTheBound). The built-in secrets, a Go guest of 2.4 MB, took 0.9 s and 57 MiB and counts as 1.2 s
// and 18 MiB; a Go guest of 6 MB (fmt, regexp, json, net/url, templates) took 2.6 s and 130 MiB and counts as 3.0 s and
// 156 MiB for its dearest function.
const (
	maxNesting      = 10_000
	maxFuncMemory   = 400 << 20
	maxModuleMemory = 400 << 20
	maxModuleTime   = 6_200_000_000

	costFunction  = 5_000
	costValue     = 120   // made by an instruction
	costOperand   = 400   // of a call or a block type
	costMemory    = 6_500 // instruction that accesses memory
	costTrap      = 9_500 // instruction with a way out of its own
	costBulk      = 15_000
	costEdge      = 2_000
	costLabel     = 600 // in a table, beside its edge
	costLocalEdge = 30  // each local in use at each edge
	costBoundEdge = 4   // each memory access at each edge
	costCarried   = 32  // each value on the stack at each edge
	costGlobal    = 200 // each mutable global at each call

	costKeptLocal    = 9   // for each local of the module
	costKeptFunction = 500 // for each function of the module

	timeFunction   = 8_000
	timeValue      = 150
	timeOperand    = 300
	timeMemory     = 6_000
	timeTrap       = 8_500
	timeBulk       = 80_000
	timeEdge       = 600
	timeLabel      = 1_000
	timeLocalEdge  = 30
	timeBoundEdges = 8 // memory accesses at an edge for one nanosecond
	timeCarried    = 20
	timeStep       = 44 // of the walks up the tree of dominators: there are three, and the tree seldom stays in the cache
	timePairs      = 2  // edges to one place, pairs of them for one nanosecond
	timeGlobal     = 140
	timeLocal      = 12
	timeTypeFunc   = 10 // each type for each function
)

// work counts what makes a function dear.
type work struct {
	touched  []uint32 // stamp of each local that an instruction names
	stamp    uint32
	locals   int64 // how many that are
	values   int64
	operands int64
	edges    int64 // of control flow
	labels   int64 // of tables, among the edges
	carried  int64 // values on the stack at each edge, summed up
	steps    int64 // from each edge up to the entry, summed up
	pairs    int64 // of edges to one place, summed up
	calls    int64
	memory   int64
	traps    int64
	bulk     int64
	depth    int64 // of the place in the tree of dominators, at most; nowhere if it cannot be reached
}

// nowhere is the depth of what cannot be reached.
const nowhere = 1 << 40

// join is where the edges to a block's label meet.
type join struct {
	least int64 // depth of the shallowest edge that leads there
	entry int64 // of the place where the block begins
	preds int64
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
	case immTable, immCallInd:
		w.traps++
	case immLocal:
		if w.touched[in.a] != w.stamp {
			w.touched[in.a] = w.stamp
			w.locals++
		}
	}
	switch in.op {
	case opBlock, opLoop, opIf:
		w.operands += int64(len(in.bt.params) + len(in.bt.results))
	case opBr, opBrIf:
		w.branch(f, in.a)
	case opReturn:
		w.branch(f, uint32(len(f.blocks)-1))
	case opBrTable:
		w.labels += int64(len(in.tab))
		for _, l := range in.tab {
			w.branch(f, l)
		}
	case opCall:
		t, _ := f.s.functionType(in.a)
		w.call(t)
	case opCallIndirect:
		w.call(f.s.types[in.a])
	case opMemoryInit, opMemoryCopy, opMemoryFill, opMemoryGrow, opTableCopy, opTableInit, opTableFill, opTableGrow:
		w.bulk++
		w.charge(f) // for its length
		w.charge(f) // about as much as the loop that it becomes
	default:
		if traps(in.op) {
			w.traps++
		}
	}
	if in.op == opBrIf {
		w.deeper(1)
	}
}

// traps tells of the instructions that are compiled with a way out each.
func traps(op int) bool {
	return op >= 0x6d && op <= 0x70 || op >= 0x7f && op <= 0x82 || // division
		op >= 0xa8 && op <= 0xab || op >= 0xae && op <= 0xb1 // float to integer
}

func (w *work) edge(f *flow, n int64) {
	if w.depth == nowhere {
		return
	}
	w.edges += n
	w.carried += n * int64(f.height)
	w.steps += n * w.depth
}

func (w *work) deeper(n int64) {
	if w.depth != nowhere {
		w.depth += n
	}
}

// charge is what metering adds where it charges.
func (w *work) charge(f *flow) {
	w.edge(f, 3)
	w.deeper(1)
}

// branch goes to a label.
func (w *work) branch(f *flow, label uint32) {
	j := &f.blocks[len(f.blocks)-1-int(label)].join
	w.edge(f, 1)
	j.least = min(j.least, w.depth)
	w.pairs += j.preds
	j.preds++
}

// join begins a block.
func (w *work) join(op int) join {
	j := join{least: nowhere, entry: w.depth}
	if op == opLoop || op == opIf {
		w.deeper(1)
	}
	return j
}

// arm begins the else of an if.
func (w *work) arm(j *join) {
	j.least = min(j.least, w.depth)
	if w.depth = j.entry; w.depth != nowhere {
		w.depth++
	}
}

// end is where a block's edges meet: no deeper than one below the shallowest of them.
func (w *work) end(f *flow, b *block) {
	w.edge(f, 1)
	least := min(b.join.least, w.depth)
	switch b.op {
	case opIf:
		least = min(least, b.join.entry)
	case opLoop:
		least = w.depth // the label is its beginning
	}
	w.depth = least
	w.deeper(1)
	w.edge(f, 1)
}

func (w *work) call(t signature) {
	w.calls++
	w.operands += int64(len(t.params) + len(t.results))
}

// cost is that of the function that was read, metered, in bytes and in nanoseconds. No sum overflows: a body holds
// fewer than 2^19 of anything, and of pairs fewer than 2^38.
func (f *flow) cost(mutable int64) (memory, time int64) {
	w := &f.work
	memory = costFunction + costValue*w.values + costOperand*w.operands + costMemory*w.memory +
		costTrap*w.traps + costBulk*w.bulk + costEdge*w.edges + costLabel*w.labels +
		w.edges*(costLocalEdge*w.locals+costBoundEdge*(w.memory+3*w.bulk)) + costCarried*w.carried + costGlobal*w.calls*
		mutable
	time = timeFunction + timeLocal*int64(f.d.locals) + timeValue*w.values + timeOperand*w.operands + timeMemory*w.memory +
		timeTrap*w.traps + timeBulk*w.bulk +
		timeEdge*w.edges + timeLabel*w.labels + w.edges*(timeLocalEdge*w.locals+(w.memory+3*w.bulk)/timeBoundEdges) +
		timeCarried*w.carried +
		timeStep*w.steps + w.pairs/timePairs + timeGlobal*w.calls*mutable
	return memory, time
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

// frame estimates the bytes that a call of the function takes of the stack: its locals, what it has on the stack at
// most, and what it keeps over calls. The compiler gives each value that it has to keep a slot of its own, so those on
// the stack at a call count at each call, and every value that a local ever gets counts.
func (f *flow) frame() uint32 {
	size := uint64(8)
	if f.vectors {
		size = 16
	}
	values := uint64(f.d.locals) + uint64(f.highest) + uint64(len(f.typ.results)) + f.kept
	return uint32(min(64+size*values, StackBudget))
}
