package rules

import (
	"strconv"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/yett-dev/yett/sdk/exact"
)

// maxMatched is the longest text in bytes that matches() will look at.
const maxMatched = 64 << 10

// toInt is int(x): exact, so 1.5 and 1e400 are errors.
func toInt(v ref.Val) ref.Val {
	n, ok := v.(*number)
	if !ok {
		return v.ConvertToType(types.IntType)
	}
	if i, ok := n.int64(); ok {
		return types.Int(i)
	}
	return fail(errRange)
}

// toUint is uint(x).
func toUint(v ref.Val) ref.Val {
	n, ok := v.(*number)
	if !ok {
		return v.ConvertToType(types.UintType)
	}
	if i, ok := n.int64(); ok && i >= 0 {
		return types.Uint(i)
	}
	_, _, point := n.decimal().Parts()
	if point < 0 || point > 20 {
		return fail(errRange)
	}
	u, err := strconv.ParseUint(n.decimal().String(), 10, 64)
	if err != nil {
		return fail(errRange)
	}
	return types.Uint(u)
}

// toDouble is double(x). The result is an exact decimal, as every number with a fraction is here: rounding to binary
// would let 1000000.00000000001 pass for 1000000.
func toDouble(v ref.Val, m *meter) ref.Val {
	if n, ok := asNumber(v); ok {
		return n
	}
	if s, ok := v.(types.String); ok {
		if len(s) > longNumber && !m.takes(len(s)) {
			return fail(errLarge)
		}
		d, err := exact.ParseDecimal(string(s))
		if err != nil {
			return fail(errRange)
		}
		return numberOf(d)
	}
	return fail(errOverload)
}

// toString is string(x). Equal numbers give equal texts: 1, 1.0 and 1e0 are all "1".
func toString(v ref.Val, m *meter) ref.Val {
	switch v := v.(type) {
	case *number:
		_, digits, _ := v.decimal().Parts()
		if !m.takes(len(digits)) {
			return fail(errLarge)
		}
		return types.String(v.decimal().String())
	case types.Bytes:
		if !m.takes(len(v)) {
			return fail(errLarge)
		}
	}
	return v.ConvertToType(types.StringType)
}

// toBytes is bytes(x).
func toBytes(v ref.Val, m *meter) ref.Val {
	if s, ok := v.(types.String); ok && !m.takes(len(s)) {
		return fail(errLarge)
	}
	return v.ConvertToType(types.BytesType)
}

// toIndex makes a whole number fit where CEL wants an integer: list indexes, map keys, timestamp(x).
func toIndex(v ref.Val) ref.Val {
	n, ok := v.(*number)
	if !ok {
		return v
	}
	if i, ok := n.int64(); ok {
		return types.Int(i)
	}
	return fail(errRange)
}

// shortText passes a text that is short enough to run an expression over.
func shortText(v ref.Val) ref.Val {
	if s, ok := v.(types.String); ok && len(s) > maxMatched {
		return fail(errTooLong)
	}
	return v
}
