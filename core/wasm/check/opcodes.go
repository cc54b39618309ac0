package check

// The opcodes that need attention beyond their immediates and their effect on the stack.
const (
	opUnreachable, opNop, opBlock, opLoop, opIf, opElse, opEnd = 0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x0b
	opBr, opBrIf, opBrTable, opReturn, opCall, opCallIndirect  = 0x0c, 0x0d, 0x0e, 0x0f, 0x10, 0x11
	opDrop, opSelect, opSelectTyped                            = 0x1a, 0x1b, 0x1c
	opLocalGet, opLocalSet, opLocalTee                         = 0x20, 0x21, 0x22
	opGlobalGet, opGlobalSet, opTableGet, opTableSet           = 0x23, 0x24, 0x25, 0x26
	opMemorySize, opMemoryGrow                                 = 0x3f, 0x40
	opI32Const, opI64Const, opF32Const, opF64Const             = 0x41, 0x42, 0x43, 0x44
	opI32LtS, opI32LtU, opI32LeU                               = 0x48, 0x49, 0x4d
	opI32Add, opI32Sub, opI32Mul, opI32Shr                     = 0x6a, 0x6b, 0x6c, 0x76
	opRefNull, opRefIsNull, opRefFunc                          = 0xd0, 0xd1, 0xd2

	prefixMisc, prefixVector = 0xfc, 0xfd

	opMemoryInit, opDataDrop, opMemoryCopy, opMemoryFill = 0xfc08, 0xfc09, 0xfc0a, 0xfc0b
	opTableInit, opElemDrop, opTableCopy, opTableGrow    = 0xfc0c, 0xfc0d, 0xfc0e, 0xfc0f
	opTableSize, opTableFill                             = 0xfc10, 0xfc11
)

// What follows an opcode.
const (
	immNone    = iota
	immBlock   // block type
	immLabel   // depth
	immLabels  // br_table
	immFunc    // function
	immCallInd // type, table
	immTypes   // select's
	immLocal   //
	immGlobal  //
	immTable   //
	immMemory  // alignment and offset
	immZero    // one byte, the memory's index
	immZeros   // two of them
	immI32     //
	immI64     //
	immBytes4  //
	immBytes8  //
	immBytes16 //
	immLane    // one byte
	immMemLane // alignment, offset and a lane
	immHeap    // type of a null reference
	immData    // data segment
	immDataMem // data segment and memory
	immElem    // element segment
	immElemTab // element segment and table
	immTables  // two tables
)

// effect is what an instruction reads behind its opcode, takes off the stack and puts on it, and what a run of it
// costs.
type effect struct {
	known     bool
	imm       byte
	pop, push uint8
	cost      uint16
}

// The tables of effects: for plain opcodes and for those behind the two prefixes. Control instructions and calls have
// their effect in flow.go.
var plain, misc, vector = plainEffects(), miscEffects(), vectorEffects()

func put(t *[256]effect, from, to int, imm byte, pop, push uint8, cost uint16) {
	for i := from; i <= to; i++ {
		t[i] = effect{true, imm, pop, push, cost}
	}
}

func plainEffects() (t [256]effect) {
	put(&t, opUnreachable, opUnreachable, immNone, 0, 0, 1)
	put(&t, opNop, opNop, immNone, 0, 0, 1)
	put(&t, opBlock, opLoop, immBlock, 0, 0, 0)
	put(&t, opIf, opIf, immBlock, 1, 0, 1)
	put(&t, opElse, opElse, immNone, 0, 0, 0)
	put(&t, opEnd, opEnd, immNone, 0, 0, 0)
	put(&t, opBr, opBr, immLabel, 0, 0, 1)
	put(&t, opBrIf, opBrIf, immLabel, 1, 0, 1)
	put(&t, opBrTable, opBrTable, immLabels, 1, 0, 2)
	put(&t, opReturn, opReturn, immNone, 0, 0, 1)
	put(&t, opCall, opCall, immFunc, 0, 0, 3)
	put(&t, opCallIndirect, opCallIndirect, immCallInd, 1, 0, 6)
	put(&t, opDrop, opDrop, immNone, 1, 0, 1)
	put(&t, opSelect, opSelect, immNone, 3, 1, 1)
	put(&t, opSelectTyped, opSelectTyped, immTypes, 3, 1, 1)
	put(&t, opLocalGet, opLocalGet, immLocal, 0, 1, 1)
	put(&t, opLocalSet, opLocalSet, immLocal, 1, 0, 1)
	put(&t, opLocalTee, opLocalTee, immLocal, 1, 1, 1)
	put(&t, opGlobalGet, opGlobalGet, immGlobal, 0, 1, 1)
	put(&t, opGlobalSet, opGlobalSet, immGlobal, 1, 0, 1)
	put(&t, opTableGet, opTableGet, immTable, 1, 1, 2)
	put(&t, opTableSet, opTableSet, immTable, 2, 0, 2)
	put(&t, 0x28, 0x35, immMemory, 1, 1, 1) // loads
	put(&t, 0x36, 0x3e, immMemory, 2, 0, 1) // stores
	put(&t, opMemorySize, opMemorySize, immZero, 0, 1, 1)
	put(&t, opMemoryGrow, opMemoryGrow, immZero, 1, 1, hostCost)
	put(&t, opI32Const, opI32Const, immI32, 0, 1, 1)
	put(&t, opI64Const, opI64Const, immI64, 0, 1, 1)
	put(&t, opF32Const, opF32Const, immBytes4, 0, 1, 1)
	put(&t, opF64Const, opF64Const, immBytes8, 0, 1, 1)
	put(&t, 0x45, 0xc4, immNone, 2, 1, 1) // arithmetic takes two, but for:
	for _, r := range [][2]int{{0x45, 0x45}, {0x50, 0x50}, {0x67, 0x69}, {0x79, 0x7b}, {0x8b, 0x91}, {0x99, 0x9f},
		{0xa7, 0xc4}} {
		put(&t, r[0], r[1], immNone, 1, 1, 1)
	}
	// division, roots
	for _, r := range [][2]int{{0x6d, 0x70}, {0x7f, 0x82}, {0x91, 0x91}, {0x95, 0x95}, {0x9f, 0x9f}, {0xa3, 0xa3}} {
		for i := r[0]; i <= r[1]; i++ {
			t[i].cost = 8
		}
	}
	put(&t, opRefNull, opRefNull, immHeap, 0, 1, 1)
	put(&t, opRefIsNull, opRefIsNull, immNone, 1, 1, 1)
	put(&t, opRefFunc, opRefFunc, immFunc, 0, 1, refFuncCost)
	return t
}

// hostCost is for instructions that leave the compiled code, and refFuncCost for the one that takes longest of them:
// 100 to 250 ns.
const hostCost, refFuncCost = 64, 256

func miscEffects() (t [256]effect) {
	put(&t, 0, 7, immNone, 1, 1, 2) // saturating conversions
	put(&t, opMemoryInit&0xff, 8, immDataMem, 3, 0, 8)
	put(&t, opDataDrop&0xff, 9, immData, 0, 0, 2)
	put(&t, opMemoryCopy&0xff, 10, immZeros, 3, 0, 8)
	put(&t, opMemoryFill&0xff, 11, immZero, 3, 0, 8)
	put(&t, opTableInit&0xff, 12, immElemTab, 3, 0, 8)
	put(&t, opElemDrop&0xff, 13, immElem, 0, 0, 2)
	put(&t, opTableCopy&0xff, 14, immTables, 3, 0, 8)
	put(&t, opTableGrow&0xff, 15, immTable, 2, 1, hostCost)
	put(&t, opTableSize&0xff, 16, immTable, 0, 1, 2)
	put(&t, opTableFill&0xff, 17, immTable, 3, 0, 8)
	return t
}

func vectorEffects() (t [256]effect) {
	put(&t, 0, 255, immNone, 2, 1, 2) // most take two
	put(&t, 0, 10, immMemory, 1, 1, 2)
	put(&t, 11, 11, immMemory, 2, 0, 2)
	put(&t, 12, 12, immBytes16, 0, 1, 1)
	put(&t, 13, 13, immBytes16, 2, 1, 2) // shuffle
	for i := 21; i <= 34; i++ {          // lanes: the ones that replace take two
		put(&t, i, i, immLane, 1, 1, 2)
	}
	for _, i := range []int{23, 26, 28, 30, 32, 34} {
		t[i].pop = 2
	}
	put(&t, 82, 82, immNone, 3, 1, 2) // bitselect
	put(&t, 84, 87, immMemLane, 2, 1, 2)
	put(&t, 88, 91, immMemLane, 2, 0, 2)
	put(&t, 92, 93, immMemory, 1, 1, 2)
	for _, r := range [][2]int{{15, 20}, {77, 77}, {83, 83}, {94, 100}, {103, 106}, {116, 117}, {122, 122}, {124, 129},
		{131, 132},
		{135, 138}, {148, 148}, {160, 161}, {163, 164}, {167, 170}, {192, 193}, {195, 196}, {199, 202}, {224, 225}, {227, 227},
		{236, 237}, {239, 239}, {248, 255}} {
		put(&t, r[0], r[1], immNone, 1, 1, 2)
	}
	for _, i := range []int{154, 162, 165, 166, 175, 176, 178, 179, 180, 187, 194, 197, 198, 207, 208, 210, 211, 212, 226,
		238} {
		t[i] = effect{}
	}
	return t
}
