package check

import "slices"

// variables tells what the compiler has to move where paths meet: the locals and globals that a block may have given a
// new value. Each has a place of its own on each path, and one for all behind the label. No instruction shows these
// moves, so the label is charged for them: 2 000 labels in a row, with 64 locals that may each have one value or
// another, take 56 µs.
type variables struct {
	written []uint32 // for each local when it was written last, and for each global behind them
	now     uint32   // counts up with each write and each block, over all functions
	open    []scope
}

// scope is an open block.
type scope struct {
	began  uint32
	wrote  uint32 // variables written in it
	shared uint32 // of them, those that the block around it counts already
}

// start begins a function with so many variables.
func (v *variables) start(n int) {
	if n > len(v.written) {
		v.written = append(v.written, make([]uint32, n-len(v.written))...)
	}
	v.open = v.open[:0]
	v.begin()
}

func (v *variables) begin() {
	v.now++
	v.open = append(v.open, scope{began: v.now})
}

// end gives how many variables were written in the block that ends.
func (v *variables) end() uint32 {
	last := len(v.open) - 1
	b := v.open[last]
	if v.open = v.open[:last]; last > 0 {
		v.open[last-1].wrote += b.wrote - b.shared
	}
	return b.wrote
}

// write counts a variable in the innermost block, unless it counts there, and in those around it that it does not.
func (v *variables) write(variable uint32) {
	before := v.written[variable]
	v.now++
	v.written[variable] = v.now
	first, _ := slices.BinarySearchFunc(v.open, before, func(s scope, at uint32) int {
		if s.began > at {
			return 1
		}
		return -1
	})
	if first == len(v.open) {
		return
	}
	v.open[len(v.open)-1].wrote++
	if first > 0 {
		v.open[first].shared++
	}
}
