package check

// region is a stretch of code that is entered only at its top: behind the entry of the function, a loop, an if, an else
// or an end. Metering charges at the top of some regions for themselves and for others that cannot run without them.
type region struct {
	cost uint32 // of a run through its live instructions
	dom  int    // the region around the block whose end or arm this one follows: whoever is here has been there
	must bool   // a function's entry or a loop's header: charges in any case
}

// foldLimit is up to which sum a charge takes in the regions that its own region dominates. A loop whose body is
// smaller charges once an iteration, whatever path it takes; a larger one, like the single loop around a switch that Go
// makes of a function, charges piece by piece, so that a short path through it does not pay for the whole.
const foldLimit = 64

// leastCharge is what an iteration of a loop and the entry of a function pay at least: to charge takes time too, and a
// turn of an empty loop as long as some instructions of a usual one.
const leastCharge = 4

// flow is what a function's instructions do, as far as the rewriter and the bounds have to know.
type flow struct {
	s      *shape
	typ    signature
	d      decoder
	blocks []block
	height int // values on the stack
	dead   bool

	regions []region
	cur     int
	row     row
	points  []uint32 // for each region what to charge at its top; 0: nothing

	highest  int      // height ever reached
	kept     uint64   // values that the compiler may have to keep over a call, each in a place of its own
	calls    []uint32 // functions called directly
	indirect []uint32 // types called indirectly
	refs     []uint32 // functions referred to
	bulk     bool     // there are instructions that charge by their length
	vectors  bool
	keeps    string
	work     work
	vars     variables
}

// block is a control frame.
type block struct {
	op     int
	height int // below its parameters
	bt     blockType
	region int // in which it began
	top    int // the region of a loop
	paths  int // that meet at its end, beside branches
	dead   bool
	join   join
}

// read goes through the instructions of one function. The flow can be used again; nothing of it is kept but what the
// caller copies.
func (f *flow) read(body *function, typ signature) error {
	f.d = decoder{cursor: cursor{b: body.code, base: body.at}, s: f.s, locals: body.locals + uint32(len(typ.params)),
		depth: 1, tab: f.d.tab}
	f.typ, f.height, f.highest, f.dead, f.bulk, f.vectors = typ, 0, 0, false, false, body.wide > 0
	f.blocks = append(f.blocks[:0], block{op: opBlock, bt: blockType{results: typ.results}, join: join{least: nowhere}})
	f.regions = append(f.regions[:0], region{must: true})
	f.cur = 0
	f.calls, f.indirect, f.refs, f.kept = f.calls[:0], f.indirect[:0], f.refs[:0], 0
	f.row = row{}
	f.vars.start(int(f.d.locals) + f.s.globalCount)
	f.work.reset()
	f.work.charge(f)
	for len(f.blocks) > 0 && f.d.err == nil {
		in := f.d.next()
		if f.d.err != nil {
			break
		}
		f.step(&in)
		f.highest = max(f.highest, f.height)
	}
	f.d.end("a function")
	if f.d.err != nil {
		return f.d.err
	}
	f.place()
	return nil
}

func (f *flow) step(in *instr) {
	if !f.dead {
		f.price(in)
	}
	f.work.instr(f, in)
	f.pop(int(in.eff.pop))
	f.height += int(in.eff.push)
	switch in.op {
	case opBlock, opLoop, opIf:
		f.open(in)
	case opElse:
		f.otherwise()
	case opEnd:
		f.endBlock()
	case opBr, opBrTable, opReturn, opUnreachable:
		f.dead = true
		f.work.depth = nowhere
		f.height = f.blocks[len(f.blocks)-1].height
	case opCall:
		f.calls = append(f.calls, in.a)
		t, _ := f.s.functionType(in.a)
		f.pop(len(t.params))
		f.called(t)
	case opRefFunc:
		f.refs = append(f.refs, in.a)
	case opCallIndirect:
		f.indirect = append(f.indirect, in.a)
		t := f.s.types[in.a]
		f.pop(len(t.params))
		f.called(t)
	case opLocalSet, opLocalTee:
		f.kept++
	case opMemoryInit, opMemoryCopy, opMemoryFill, opTableCopy, opTableInit, opTableFill, opTableGrow, opMemoryGrow:
		f.bulk = true
	}
	f.vectors = f.vectors || in.op>>8 == prefixVector
	f.row.behind = in.op == opEnd
	if f.keeps == "" {
		f.keeps = keeper(in.op)
	}
}

// called is behind a call.
func (f *flow) called(t signature) {
	f.kept += uint64(f.height)
	f.height += len(t.results)
}

// keeper names the instruction if it changes what is neither memory nor a global; "" for any other.
func keeper(op int) string {
	switch op {
	case opTableSet:
		return "table.set"
	case opTableInit:
		return "table.init"
	case opTableCopy:
		return "table.copy"
	case opTableGrow:
		return "table.grow"
	case opTableFill:
		return "table.fill"
	case opDataDrop:
		return "data.drop"
	case opElemDrop:
		return "elem.drop"
	}
	return ""
}

// pop takes values off the stack. Behind a branch there are as many as anybody wants.
func (f *flow) pop(n int) {
	floor := f.blocks[len(f.blocks)-1].height
	if f.height-n >= floor {
		f.height -= n
		return
	}
	if !f.dead {
		f.d.fail("%d values wanted, %d on the stack", n, f.height-floor)
	}
	f.height = floor
}

func (f *flow) open(in *instr) {
	f.pop(len(in.bt.params))
	f.blocks = append(f.blocks, block{op: in.op, height: f.height, bt: in.bt, region: f.cur, top: len(f.regions),
		dead: f.dead, join: f.work.join(in.op)})
	f.vars.begin()
	f.height += len(in.bt.params)
	f.d.depth++
	if len(f.blocks) > maxNesting {
		f.d.fail("blocks nested deeper than %d", maxNesting)
	}
	switch in.op {
	case opLoop:
		f.enter(f.cur, !f.dead)
	case opIf:
		f.enter(f.cur, false)
	}
}

func (f *flow) otherwise() {
	b := &f.blocks[len(f.blocks)-1]
	if b.op != opIf {
		f.d.fail("else without if")
		return
	}
	b.op = opElse
	b.paths = f.falls()
	f.work.arm(&b.join)
	f.height, f.dead = b.height+len(b.bt.params), b.dead
	f.enter(b.region, false)
}

func (f *flow) endBlock() {
	b := f.blocks[len(f.blocks)-1]
	f.blocks = f.blocks[:len(f.blocks)-1]
	f.d.depth--
	b.paths += f.falls() + int(b.join.preds)
	if b.op == opIf {
		b.paths++ // around it
	}
	f.height, f.dead = b.height+len(b.bt.results), b.dead
	f.work.end(f, &b)
	wrote := f.vars.end()
	if b.op == opLoop && b.join.preds > 0 {
		f.regions[b.top].cost += moved(wrote, b.bt.params)
	}
	if len(f.blocks) > 0 {
		f.enter(b.region, false)
		f.label(&b, wrote)
	}
}

// falls is 1 where an arm's end can be reached.
func (f *flow) falls() int {
	if f.dead {
		return 0
	}
	return 1
}

// enter begins a region.
func (f *flow) enter(dom int, must bool) {
	f.regions = append(f.regions, region{dom: dom, must: must})
	f.cur = len(f.regions) - 1
	f.work.charge(f)
}

// place decides where charges go. What a region folded into paid for is run at most once for each charge: a fold goes
// to the region in which the block began, and never over a loop's header.
func (f *flow) place() {
	f.points = append(f.points[:0], make([]uint32, len(f.regions))...)
	payer := make([]int, len(f.regions))
	for i, r := range f.regions {
		p := i
		if !r.must {
			p = payer[r.dom]
		}
		switch {
		case p == i:
			f.points[i] = max(r.cost, leastCharge)
		case f.points[p]+r.cost <= foldLimit || r.cost == 0:
			f.points[p] += r.cost
		default:
			p = i
			f.points[i] = max(r.cost, leastCharge)
		}
		payer[i] = p
	}
}
