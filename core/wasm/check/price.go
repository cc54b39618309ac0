package check

// What a run costs beyond one unit for an instruction. An instruction of a usual program takes 0.05 to 0.5 ns; what is
// charged here is what some take beside that, so that no unit takes much more than others.
const (
	// usualMoved is how many values are moved, where paths meet or at a call, at no charge: the machine has registers for
	// them. Each further one goes through memory, in 0.4 to 1.5 ns.
	usualMoved = 12
	// rowLabels is how many labels with nothing in between are charged at once, and rowCost what they may cost together:
	// to charge takes longer than to pass a label, and who comes in at the last of them pays for all.
	rowLabels, rowCost = 8, 64
	// nearLabels is how many blocks may be open behind a label for the usual price. The code of more of them is longer
	// than what the processor remembers of jumps, and each takes 5 to 10 ns.
	nearLabels = 1024
)

// over is how many values are moved beyond the usual ones.
func over(n uint32) uint32 { return max(n, usualMoved) - usualMoved }

// price charges what a live instruction costs to the region that it is in, with the labels in front of it.
func (f *flow) price(in *instr) {
	r := &f.regions[f.cur]
	r.cost += uint32(in.eff.cost)
	if in.op != opEnd {
		f.row.charge(r)
	}
	switch in.op {
	case opLocalSet, opLocalTee:
		f.vars.write(in.a)
	case opGlobalSet:
		f.vars.write(f.d.locals + in.a)
	case opCall:
		t, _ := f.s.functionType(in.a)
		r.cost += handed(t)
	case opCallIndirect:
		r.cost += handed(f.s.types[in.a])
	}
}

// handed is what the values that a call hands over and gives back cost: nobody need push or use them one by one.
func handed(t signature) uint32 { return over(uint32(len(t.params) + len(t.results))) }

// row is what the labels cost that follow one another up to here and are not charged yet.
type row struct {
	labels int
	cost   uint32
	behind bool // the instruction before was an end
}

func (l *row) charge(r *region) {
	r.cost += l.cost
	l.labels, l.cost = 0, 0
}

// label is passed at the end of a block. One that instructions follow, or that nothing branches to, costs no jump; of
// those in a row each is one.
func (f *flow) label(b *block, wrote uint32) {
	if b.op == opLoop || b.dead {
		return
	}
	r, l := &f.regions[f.cur], &f.row
	if b.join.preds > 0 {
		l.cost += uint32(len(f.blocks) / nearLabels)
		if l.behind {
			l.cost++
		}
	}
	if b.paths > 1 {
		l.cost += moved(wrote, b.bt.results)
	}
	if l.labels++; l.labels >= rowLabels || l.cost >= rowCost {
		l.charge(r)
	}
}

// moved is what to move takes where the paths out of a block meet, or those to its beginning: what was written in it,
// and the values that it hands on.
func moved(wrote uint32, values string) uint32 { return over(wrote+uint32(len(values))) / 2 }
