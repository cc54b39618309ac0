package check

// instr is one decoded instruction.
type instr struct {
	op   int // prefixed ones as prefix<<8 | opcode
	at   int // where it begins in the code
	eff  effect
	a, b uint32 // immediates: indices, a depth
	bt   blockType
	tab  []uint32 // br_table's depths, the default last; only valid until the next instruction
}

type blockType struct {
	params, results string
	raw             []byte
}

// decoder reads the instructions of one function and checks that all indices are in range. What it lets through is
// canonical where the compiler is lax: vector opcodes have one encoding only, because the compiler reads them as a byte
// and takes the rest for an instruction of its own.
type decoder struct {
	cursor
	s      *shape
	locals uint32 // with the parameters
	depth  uint32 // labels that there are
	tab    []uint32
}

func (d *decoder) next() instr {
	in := instr{at: d.i}
	b := d.byte()
	in.op, in.eff = int(b), plain[b]
	if b == prefixMisc || b == prefixVector {
		in.op, in.eff = d.prefixed(b)
	}
	if d.err != nil {
		return in
	}
	if !in.eff.known {
		d.i = in.at
		d.fail("instruction %#x is not known", in.op)
		return in
	}
	d.immediates(&in)
	return in
}

func (d *decoder) prefixed(prefix byte) (op int, e effect) {
	if prefix == prefixMisc {
		sub := min(d.uint(), 0xff) // a number of up to five bytes, which the compiler reads as one too
		return int(prefix)<<8 | int(sub), misc[sub]
	}
	sub := d.byte()
	if sub >= 0x80 {
		if d.byte() != 1 {
			d.fail("vector instruction with an opcode that is too long")
		}
	}
	return int(prefix)<<8 | int(sub), vector[sub]
}

func (d *decoder) immediates(in *instr) {
	switch in.eff.imm {
	case immNone:
	case immBlock:
		in.bt = d.blockType()
	case immLabel:
		in.a = d.label()
	case immLabels:
		n := d.count("targets", 1, maxBody)
		d.tab = d.tab[:0]
		for range n + 1 {
			d.tab = append(d.tab, d.label())
		}
		in.tab = d.tab
	case immFunc:
		in.a = d.index("function", d.s.funcCount())
	case immCallInd:
		in.a = d.index("type", len(d.s.types))
		in.b = d.index("table", d.s.tableCount)
	case immTypes:
		if n, t := d.byte(), d.byte(); n != 1 || !isValue(t) {
			d.fail("select of %d values of type %#x", n, t)
		}
	case immLocal:
		in.a = d.index("local", int(d.locals))
	case immGlobal:
		in.a = d.index("global", d.s.globalCount)
	case immTable:
		in.a = d.index("table", d.s.tableCount)
	case immTables:
		in.a = d.index("table", d.s.tableCount)
		in.b = d.index("table", d.s.tableCount)
	case immElem:
		in.a = d.index("element segment", d.s.elementN)
	case immElemTab:
		in.a = d.index("element segment", d.s.elementN)
		in.b = d.index("table", d.s.tableCount)
	default:
		d.flat(in)
	}
}

// flat reads immediates that name nothing but memory, or nothing at all.
func (d *decoder) flat(in *instr) {
	switch in.eff.imm {
	case immMemory, immMemLane:
		if align := d.uint(); align > 4 {
			d.fail("alignment of 2^%d", align)
		}
		d.uint()
		if in.eff.imm == immMemLane {
			d.byte()
		}
		d.memory()
	case immZero:
		d.zero()
	case immZeros:
		d.zero()
		d.zero()
	case immData:
		in.a = d.index("data segment", max(d.s.dataCount, 0))
	case immDataMem:
		in.a = d.index("data segment", max(d.s.dataCount, 0))
		d.zero()
	case immI32:
		d.skipInt(5)
	case immI64:
		d.skipInt(10)
	case immBytes4:
		d.nextBytes(4)
	case immBytes8:
		d.nextBytes(8)
	case immBytes16:
		d.nextBytes(16)
	case immLane:
		d.byte()
	case immHeap:
		if t := d.byte(); d.err == nil && t != valFuncref && t != valExtern {
			d.fail("null reference of type %#x", t)
		}
	}
}

func (d *decoder) zero() {
	if d.byte() != 0 {
		d.fail("a memory other than the first")
	}
	d.memory()
}

func (d *decoder) memory() {
	if d.err == nil && d.s.memoryCount == 0 {
		d.fail("there is no memory")
	}
}

func (d *decoder) index(what string, n int) uint32 {
	i := d.uint()
	if d.err == nil && uint64(i) >= uint64(n) {
		d.fail("%s %d of %d", what, i, n)
		return 0
	}
	return i
}

func (d *decoder) label() uint32 {
	i := d.uint()
	if d.err == nil && i >= d.depth {
		d.fail("branch to label %d of %d", i, d.depth)
		return 0
	}
	return i
}

var valueStrings = map[byte]string{valI32: "\x7f", valI64: "\x7e", valF32: "\x7d", valF64: "\x7c", valV128: "\x7b",
	valFuncref: "\x70", valExtern: "\x6f"}

func (d *decoder) blockType() blockType {
	from := d.i
	if b := d.byte(); b == 0x40 {
		return blockType{raw: d.b[from:d.i]}
	} else if one, ok := valueStrings[b]; ok {
		return blockType{"", one, d.b[from:d.i]}
	} else if b >= 0x40 && b < 0x80 {
		d.fail("block of type %#x", b)
		return blockType{}
	}
	if d.err != nil {
		return blockType{}
	}
	d.i = from
	i := d.uint()
	// A signed number: its sixth bit must not be set where it ends, or the compiler reads a negative one.
	if d.err == nil && d.b[d.i-1]&0x40 != 0 {
		d.fail("block of a negative type")
	}
	if d.err == nil && uint64(i) >= uint64(len(d.s.types)) {
		d.fail("type %d of %d", i, len(d.s.types))
	}
	if d.err != nil {
		return blockType{}
	}
	t := d.s.types[i]
	return blockType{t.params, t.results, d.b[from:d.i]}
}
