package wasmgen

import (
	"encoding/binary"
	"math"
)

// Instructions without immediates, or with the only ones that tests need.
var (
	Unreachable = []byte{0x00}
	Nop         = []byte{0x01}
	Block       = []byte{0x02, 0x40}
	Loop        = []byte{0x03, 0x40}
	If          = []byte{0x04, 0x40}
	Else        = []byte{0x05}
	End         = []byte{0x0b}
	Return      = []byte{0x0f}
	Drop        = []byte{0x1a}

	Load8   = []byte{0x2d, 0, 0}
	Load32  = []byte{0x28, 2, 0}
	Load64  = []byte{0x29, 3, 0}
	Store8  = []byte{0x3a, 0, 0}
	Store32 = []byte{0x36, 2, 0}
	MemSize = []byte{0x3f, 0}
	MemGrow = []byte{0x40, 0}

	Eqz    = []byte{0x45}
	Eq     = []byte{0x46}
	Ne     = []byte{0x47}
	LtU    = []byte{0x49}
	GtU    = []byte{0x4b}
	GeU    = []byte{0x4f}
	Add    = []byte{0x6a}
	Sub    = []byte{0x6b}
	Mul    = []byte{0x6c}
	DivS   = []byte{0x6d}
	And    = []byte{0x71}
	Or     = []byte{0x72}
	Ne64   = []byte{0x52}
	Wrap64 = []byte{0xa7} // i64 to i32

	MemCopy = []byte{0xfc, 0x0a, 0, 0}
	MemFill = []byte{0xfc, 0x0b, 0}

	TableGet  = []byte{0x25, 0}
	TableSet  = []byte{0x26, 0}
	TableCopy = []byte{0xfc, 0x0e, 0, 0}
	TableGrow = []byte{0xfc, 0x0f, 0}
	TableSize = []byte{0xfc, 0x10, 0}
	TableFill = []byte{0xfc, 0x11, 0}
	RefNull   = []byte{0xd0, FuncrefType}
	RefIsNull = []byte{0xd1}
)

// I32 pushes an i32; a value beyond int32 wraps.
func I32(v int) []byte { return Cat([]byte{0x41}, Sleb(int64(int32(v)))) }

// I64 pushes an i64.
func I64(v int64) []byte { return Cat([]byte{0x42}, Sleb(v)) }

// F32 pushes an f32, NaNs bit by bit.
func F32(v float32) []byte {
	return binary.LittleEndian.AppendUint32([]byte{0x43}, math.Float32bits(v))
}

// F64 pushes an f64, NaNs bit by bit.
func F64(v float64) []byte {
	return binary.LittleEndian.AppendUint64([]byte{0x44}, math.Float64bits(v))
}

// V128 pushes a vector whose 16 bytes are all b.
func V128(b byte) []byte {
	out := []byte{0xfd, 12}
	for range 16 {
		out = append(out, b)
	}
	return out
}

func indexed(op byte, i int) []byte { return Cat([]byte{op}, Leb(uint64(i))) }

// Get pushes a local; parameters come first.
func Get(i int) []byte { return indexed(0x20, i) }

// Set pops a local.
func Set(i int) []byte { return indexed(0x21, i) }

// Tee sets a local and leaves the value.
func Tee(i int) []byte { return indexed(0x22, i) }

// GetGlobal pushes a global.
func GetGlobal(i int) []byte { return indexed(0x23, i) }

// SetGlobal pops a global.
func SetGlobal(i int) []byte { return indexed(0x24, i) }

// Br goes to the label that many blocks out.
func Br(i int) []byte { return indexed(0x0c, i) }

// BrIf does so when the popped i32 is not 0.
func BrIf(i int) []byte { return indexed(0x0d, i) }

// BrTable pops an index into the labels; the last one is for all others.
func BrTable(labels ...int) []byte {
	out := Cat([]byte{0x0e}, Leb(uint64(len(labels)-1)))
	for _, l := range labels {
		out = append(out, Leb(uint64(l))...)
	}
	return out
}

// CallTo calls a function by its index; imports count first.
func CallTo(i int) []byte { return indexed(0x10, i) }

// CallIndirect calls the entry of table 0 that is popped, as a function of that type index.
func CallIndirect(typ int) []byte { return Cat(indexed(0x11, typ), []byte{0}) }

// RefFunc pushes a reference to a function.
func RefFunc(i int) []byte { return indexed(0xd2, i) }

// MemInit copies from a passive data segment: destination, source and length are popped.
func MemInit(segment int) []byte { return Cat([]byte{0xfc, 0x08}, Leb(uint64(segment)), []byte{0}) }

// DataDrop drops a data segment.
func DataDrop(segment int) []byte { return Cat([]byte{0xfc, 0x09}, Leb(uint64(segment))) }

// TableInit copies from a passive element segment to table 0.
func TableInit(segment int) []byte { return Cat([]byte{0xfc, 0x0c}, Leb(uint64(segment)), []byte{0}) }

// ElemDrop drops an element segment.
func ElemDrop(segment int) []byte { return Cat([]byte{0xfc, 0x0d}, Leb(uint64(segment))) }

// ActiveElements puts functions into table 0 from its first entry.
func ActiveElements(funcs ...int) []byte {
	return Cat([]byte{0}, I32(0), End, Vec(indexes(funcs)...))
}

// PassiveElements waits for TableInit.
func PassiveElements(funcs ...int) []byte { return Cat([]byte{1, 0}, Vec(indexes(funcs)...)) }

// DeclaredElements only makes RefFunc of these functions valid.
func DeclaredElements(funcs ...int) []byte { return Cat([]byte{3, 0}, Vec(indexes(funcs)...)) }

func indexes(of []int) (out [][]byte) {
	for _, i := range of {
		out = append(out, Leb(uint64(i)))
	}
	return out
}

// LoadAt pushes the i32 at an address.
func LoadAt(at int) []byte { return Cat(I32(at), Load32) }

// StoreAt stores an i32 at an address.
func StoreAt(at int, value []byte) []byte { return Cat(I32(at), value, Store32) }

// Forever never ends.
func Forever() []byte { return Cat(Loop, Br(0), End) }

// Times runs body n times, n ≥ 1, counting in a local.
func Times(local, n int, body []byte) []byte {
	return Cat(I32(0), Set(local), Loop, body, Get(local), I32(1), Add, Tee(local), I32(n), Ne, BrIf(0), End)
}

// Repeat writes a piece n times, one after the other.
func Repeat(n int, piece []byte) []byte {
	out := make([]byte, 0, n*len(piece))
	for range n {
		out = append(out, piece...)
	}
	return out
}
