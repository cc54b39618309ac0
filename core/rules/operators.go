package rules

import (
	"iter"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// compare orders two values for < <= > >=. Numbers compare exactly whatever their kinds; a number and anything else
// have no order, which is an error and not false.
func compare(lhs, rhs ref.Val, holds func(cmp int) bool) ref.Val {
	if a, ok := asNumber(lhs); ok {
		b, ok := asNumber(rhs)
		if !ok {
			return fail(errOverload)
		}
		return types.Bool(holds(a.cmp(b)))
	}
	c, ok := lhs.(traits.Comparer)
	if !ok {
		return fail(errOverload)
	}
	order, ok := c.Compare(rhs).(types.Int)
	if !ok { // of another type
		return fail(errOverload)
	}
	return types.Bool(holds(int(order)))
}

func less(lhs, rhs ref.Val) ref.Val {
	return compare(lhs, rhs, func(c int) bool { return c < 0 })
}

func lessEqual(lhs, rhs ref.Val) ref.Val {
	return compare(lhs, rhs, func(c int) bool { return c <= 0 })
}

func greater(lhs, rhs ref.Val) ref.Val {
	return compare(lhs, rhs, func(c int) bool { return c > 0 })
}

func greaterEqual(lhs, rhs ref.Val) ref.Val {
	return compare(lhs, rhs, func(c int) bool { return c >= 0 })
}

// equal compares as CEL does across kinds: values of different kinds are unequal, all numbers are one kind, lists and
// maps compare by what is in them.
func equal(lhs, rhs ref.Val) ref.Val {
	if a, ok := asNumber(lhs); ok {
		b, ok := asNumber(rhs)
		return types.Bool(ok && a.cmp(b) == 0)
	}
	if _, ok := asNumber(rhs); ok {
		return types.False
	}
	switch a := lhs.(type) {
	case traits.Lister:
		if b, ok := rhs.(traits.Lister); ok {
			return equalLists(a, b)
		}
		return types.False
	case traits.Mapper:
		if b, ok := rhs.(traits.Mapper); ok {
			return equalMaps(a, b)
		}
		return types.False
	}
	return types.Equal(lhs, rhs)
}

func notEqual(lhs, rhs ref.Val) ref.Val {
	eq := equal(lhs, rhs)
	if b, ok := eq.(types.Bool); ok {
		return !b
	}
	return eq
}

func equalLists(a, b traits.Lister) ref.Val {
	if a.Size() != b.Size() {
		return types.False
	}
	x, stopX := elementsOf(a)
	defer stopX()
	y, stopY := elementsOf(b)
	defer stopY()
	for {
		v, more := x()
		w, both := y()
		if !more || !both {
			return types.True
		}
		if eq := equal(v, w); eq != types.True {
			return eq
		}
	}
}

// elementsOf gives the elements one by one. Those of the call are not made into a list.
func elementsOf(l traits.Lister) (next func() (ref.Val, bool), stop func()) {
	if a, ok := l.(*array); ok {
		return iter.Pull(a.all())
	}
	it := l.Iterator()
	return func() (ref.Val, bool) {
		if it.HasNext() != types.True {
			return nil, false
		}
		return it.Next(), true
	}, func() {}
}

func equalMaps(a, b traits.Mapper) ref.Val {
	if a.Size() != b.Size() {
		return types.False
	}
	for keys := a.Iterator(); keys.HasNext() == types.True; {
		key := keys.Next()
		mine, _ := a.Find(key)
		theirs, ok := b.Find(key)
		if !ok || mine == nil {
			return types.False
		}
		if eq := equal(mine, theirs); eq != types.True {
			return eq
		}
	}
	return types.True
}

// contains is the operator in.
func contains(v, in ref.Val) ref.Val {
	switch in := in.(type) {
	case *array:
		return in.holds(v)
	case traits.Lister:
		for it := in.Iterator(); it.HasNext() == types.True; {
			if eq := equal(v, it.Next()); eq != types.False {
				return eq
			}
		}
		return types.False
	case traits.Mapper:
		key := ref.Val(v)
		if n, ok := v.(*number); ok {
			i, whole := n.int64()
			if !whole {
				return fail(errOverload)
			}
			key = types.Int(i)
		}
		got, found := in.Find(key)
		if !found && got != nil {
			return got
		}
		return types.Bool(found)
	}
	return fail(errOverload)
}

// arith applies an operator to two numbers if either operand is a document's number or a decimal, and leaves integers,
// strings, lists, times and durations to CEL.
func arith(lhs, rhs ref.Val, exactly func(a, b *number) ref.Val, native func(lhs, rhs ref.Val) ref.Val) ref.Val {
	_, l := lhs.(*number)
	_, r := rhs.(*number)
	if !l && !r {
		return native(lhs, rhs)
	}
	a, aok := asNumber(lhs)
	b, bok := asNumber(rhs)
	if !aok || !bok {
		return fail(errOverload)
	}
	return exactly(a, b)
}

// add joins texts, bytes and lists too. What it will make is charged before it is made.
func add(lhs, rhs ref.Val, m *meter) ref.Val {
	sum := arith(lhs, rhs, (*number).add, func(lhs, rhs ref.Val) ref.Val {
		x, ok := lhs.(traits.Adder)
		if !ok {
			return fail(errOverload)
		}
		if !m.takes(joined(lhs, rhs)) {
			return fail(errLarge)
		}
		return x.Add(rhs)
	})
	return m.number(sum)
}

// joined is how many bytes the sum of two values takes. An accumulator takes the new elements, any other list refers to
// both.
func joined(lhs, rhs ref.Val) int {
	switch a := lhs.(type) {
	case types.String:
		b, _ := rhs.(types.String)
		return len(a) + len(b)
	case types.Bytes:
		b, _ := rhs.(types.Bytes)
		return len(a) + len(b)
	case traits.MutableLister:
		return sizeOf(rhs) * elementBytes
	case traits.Lister:
		return elementBytes
	}
	return 0
}

func subtract(lhs, rhs ref.Val, m *meter) ref.Val {
	exactly := func(a, b *number) ref.Val { return a.add(b.neg()) }
	return m.number(arith(lhs, rhs, exactly, func(lhs, rhs ref.Val) ref.Val {
		if x, ok := lhs.(traits.Subtractor); ok {
			return x.Subtract(rhs)
		}
		return fail(errOverload)
	}))
}

func multiply(lhs, rhs ref.Val, m *meter) ref.Val {
	return m.number(arith(lhs, rhs, (*number).mul, func(lhs, rhs ref.Val) ref.Val {
		if x, ok := lhs.(traits.Multiplier); ok {
			return x.Multiply(rhs)
		}
		return fail(errOverload)
	}))
}

// divide never rounds: a quotient that no decimal is equal to is an error. Two integers of the condition itself, such
// as sizes, are CEL's.
func divide(lhs, rhs ref.Val, m *meter) ref.Val {
	return m.number(arith(lhs, rhs, (*number).quo, func(lhs, rhs ref.Val) ref.Val {
		if x, ok := lhs.(traits.Divider); ok {
			return x.Divide(rhs)
		}
		return fail(errOverload)
	}))
}

// modulo is CEL's of two integers in int64's range. Anything else is an error.
func modulo(lhs, rhs ref.Val) ref.Val {
	return arith(lhs, rhs, (*number).rem, func(lhs, rhs ref.Val) ref.Val {
		if x, ok := lhs.(traits.Modder); ok {
			return x.Modulo(rhs)
		}
		return fail(errOverload)
	})
}

func negate(v ref.Val, m *meter) ref.Val {
	switch v := v.(type) {
	case *number:
		return m.number(v.neg())
	case types.Int:
		return v.Negate()
	case types.Duration:
		return v.Negate()
	}
	return fail(errOverload)
}

// typeOf is CEL's type of a value. The numbers of a call and those of the condition have one type, however CEL keeps
// them.
func typeOf(v ref.Val) ref.Val {
	if _, ok := asNumber(v); ok {
		return decimalType
	}
	return v.ConvertToType(types.TypeType)
}
