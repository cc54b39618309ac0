package rules

import (
	"reflect"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

const (
	// maxMade is how many bytes of values one evaluation may make: texts, bytes, numbers and lists that were not in the
	// call. A list with one element for each of a call's largest list fits.
	maxMade = 8 << 20

	// elementBytes is what an element of a list or a map counts, and longNumber up to how many digits a number is one.
	elementBytes = 64
	longNumber   = 64
)

// meterName is the variable that rewrite hands to every operator which can make a value that grows. No source can spell
// it.
const meterName = "@meter"

// meter bounds what one evaluation makes. It is a value only so that CEL hands it on.
type meter struct {
	left int // bytes; negative once more was asked for
}

// takes takes n bytes and says whether they were left. Once they were not, nothing more is: the evaluation is an error.
func (m *meter) takes(n int) bool {
	if m.left >= 0 {
		m.left -= n
	}
	return m.left >= 0
}

// number charges a number with many digits, which is made already and is bounded by itself.
func (m *meter) number(v ref.Val) ref.Val {
	n, ok := v.(*number)
	if !ok || n.small {
		return v
	}
	if _, digits, _ := n.decimal().Parts(); len(digits) > longNumber && !m.takes(len(digits)) {
		return fail(errLarge)
	}
	return v
}

// madeInLoop charges a list or a map that is written in a loop, and so is made at every turn.
func madeInLoop(v ref.Val, m *meter) ref.Val {
	if !m.takes((1 + sizeOf(v)) * elementBytes) {
		return fail(errLarge)
	}
	return v
}

// sizeOf is the number of elements or members.
func sizeOf(v ref.Val) int {
	if s, ok := v.(traits.Sizer); ok {
		if n, ok := s.Size().(types.Int); ok {
			return int(n)
		}
	}
	return 0
}

// ConvertToNative refuses.
func (m *meter) ConvertToNative(reflect.Type) (any, error) { return nil, errOverload }

// ConvertToType refuses.
func (m *meter) ConvertToType(ref.Type) ref.Val { return fail(errOverload) }

// Equal is true for the same meter.
func (m *meter) Equal(other ref.Val) ref.Val { return types.Bool(other == ref.Val(m)) }

// Type is that of no other value.
func (m *meter) Type() ref.Type { return meterType }

// Value is the meter.
func (m *meter) Value() any { return m }

var meterType = types.NewOpaqueType(meterName)

// metered is an operator with two operands as CEL calls it.
func metered(fn func(a, b ref.Val, m *meter) ref.Val) func(...ref.Val) ref.Val {
	return func(args ...ref.Val) ref.Val {
		m, ok := args[2].(*meter)
		if !ok {
			return fail(errOverload)
		}
		return fn(args[0], args[1], m)
	}
}

// meteredOne is an operator with one operand as CEL calls it.
func meteredOne(fn func(v ref.Val, m *meter) ref.Val) func(a, b ref.Val) ref.Val {
	return func(v, b ref.Val) ref.Val {
		m, ok := b.(*meter)
		if !ok {
			return fail(errOverload)
		}
		return fn(v, m)
	}
}
