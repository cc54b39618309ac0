package rules

import (
	"errors"
	"math/big"
	"reflect"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/yett-dev/yett/sdk/exact"
)

// maxDigits bounds the significant digits that arithmetic takes in and gives back, so that a short request cannot
// ask for a long multiplication.
const maxDigits = 4096

// What goes wrong while a condition is evaluated. The texts are the error classes that verdicts and explanations
// show, so none of them may carry a value.
var (
	errOverload = errors.New("no such overload")
	errRange    = errors.New("number out of range")
	errDigits   = errors.New("too many digits")
	errInexact  = errors.New("no exact quotient")
	errLarge    = errors.New("the values made are too large")
	errBudget   = errors.New("cost limit exceeded")
	errTooLong  = errors.New("text too long for matches")
	errNotBool  = errors.New("not a boolean")
	errNotNum   = errors.New("not a number")
	errNegative = errors.New("a negative number")
	errShape    = errors.New("args or context is not an object")
)

// fail makes a fresh error value: CEL writes the node's id into it, so one must never be shared.
func fail(err error) ref.Val { return types.WrapErr(err) }

// decimalType is what type(x) says of every number of a document and of every literal with a point or an exponent.
var decimalType = types.NewOpaqueType("decimal")

// number is an exact decimal inside a CEL evaluation. Numbers of up to 18 digits without point or exponent, nearly
// all there are, are kept as an int64. It is used by pointer only, so that CEL may use it as a map key, and never
// changes, so that literals can be shared.
type number struct {
	small bool // i holds the value
	long  bool // d holds the value
	i     int64
	d     exact.Decimal
}

func numberOf(d exact.Decimal) *number { return &number{long: true, d: d} }

func smallNumber(i int64) *number { return &number{small: true, i: i} }

// literalNumber has both forms, since it is compared with many numbers.
func literalNumber(i int64) *number {
	return &number{small: true, long: true, i: i, d: exact.FromInt64(i)}
}

// adaptNumber reads a number of a document.
func adaptNumber(v exact.Value) *number {
	if i, ok := plainInt(v.Raw()); ok {
		return smallNumber(i)
	}
	return numberOf(v.Decimal())
}

// plainInt reads up to 18 characters of sign and digits. Unlike strconv it makes no error for what is something else.
func plainInt(raw string) (int64, bool) {
	if len(raw) > 18 {
		return 0, false
	}
	i, digits := int64(0), strings.TrimPrefix(raw, "-")
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return 0, false
		}
		i = i*10 + int64(c-'0')
	}
	if len(digits) < len(raw) {
		i = -i
	}
	return i, true
}

func (n *number) decimal() exact.Decimal {
	if n.long {
		return n.d
	}
	return exact.FromInt64(n.i)
}

// int64 is the value when it is an integer in int64's range.
func (n *number) int64() (int64, bool) {
	if n.small {
		return n.i, true
	}
	return n.d.Int64()
}

func (n *number) cmp(m *number) int {
	if n.small && m.small {
		switch {
		case n.i < m.i:
			return -1
		case n.i > m.i:
			return 1
		}
		return 0
	}
	return n.decimal().Cmp(m.decimal())
}

// asNumber sees a document's number or a CEL integer as an exact number. A binary double has no way into a
// condition (see rewrite), so there is none here either: should one appear, it is not a number to compare with.
func asNumber(v ref.Val) (*number, bool) {
	switch v := v.(type) {
	case *number:
		return v, true
	case types.Int:
		return smallNumber(int64(v)), true
	case types.Uint:
		d, err := exact.ParseDecimal(strconv.FormatUint(uint64(v), 10))
		return numberOf(d), err == nil
	}
	return nil, false
}

// scaled gives the value as coef × 10^exp.
func (n *number) scaled() (coef *big.Int, exp int, err error) {
	neg, digits, point := n.decimal().Parts()
	if len(digits) > maxDigits {
		return nil, 0, errDigits
	}
	if digits == "" {
		return new(big.Int), 0, nil
	}
	coef, _ = new(big.Int).SetString(digits, 10)
	if neg {
		coef.Neg(coef)
	}
	return coef, point - len(digits), nil
}

// scaledBoth gives n and m as scaled does.
func scaledBoth(n, m *number) (a *big.Int, ae int, b *big.Int, be int, err error) {
	if a, ae, err = n.scaled(); err == nil {
		b, be, err = m.scaled()
	}
	return a, ae, b, be, err
}

func fromScaled(coef *big.Int, exp int) ref.Val {
	digits := new(big.Int).Abs(coef).String()
	d, err := exact.FromParts(coef.Sign() < 0, digits, exp+len(digits))
	if err != nil {
		return fail(errRange)
	}
	if _, kept, _ := d.Parts(); len(kept) > maxDigits {
		return fail(errDigits)
	}
	return numberOf(d)
}

// add gives n + m, exactly or not at all.
func (n *number) add(m *number) ref.Val {
	a, ae, b, be, err := scaledBoth(n, m)
	if err != nil {
		return fail(err)
	}
	if a.Sign() == 0 {
		return m
	}
	if b.Sign() == 0 {
		return n
	}
	if ae < be {
		a, ae, b, be = b, be, a, ae
	}
	if ae-be > maxDigits { // 1e400000000 + 1 has too many digits between its ends
		return fail(errDigits)
	}
	shift := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(ae-be)), nil)
	a.Mul(a, shift)
	return fromScaled(a.Add(a, b), be)
}

// mul gives n × m, exactly or not at all.
func (n *number) mul(m *number) ref.Val {
	a, ae, b, be, err := scaledBoth(n, m)
	if err != nil {
		return fail(err)
	}
	return fromScaled(a.Mul(a, b), ae+be)
}

// quo gives n ÷ m, exactly or not at all.
func (n *number) quo(m *number) ref.Val {
	if n.small && m.small && m.i > 0 && n.i%m.i == 0 { // the least int64 has no opposite
		return smallNumber(n.i / m.i)
	}
	a, ae, b, be, err := scaledBoth(n, m)
	if err != nil {
		return fail(err)
	}
	if b.Sign() == 0 {
		return fail(errZero)
	}
	// A decimal is equal to a ÷ b if b, without what it shares with a, has no prime factors but 2 and 5. b holds 2 so
	// often as it ends in zero bits, and 5 less than once in two of the bits that are left. So b divides a × 10^k then.
	twos := int(b.TrailingZeroBits())
	k := max(twos, (b.BitLen()-twos)/2+1)
	a.Mul(a, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(k)), nil))
	q, r := a.QuoRem(a, b, new(big.Int))
	if r.Sign() != 0 {
		return fail(errInexact)
	}
	return fromScaled(q, ae-be-k)
}

// rem is the remainder of integers in int64's range.
func (n *number) rem(m *number) ref.Val {
	x, xok := n.int64()
	y, yok := m.int64()
	if !xok || !yok {
		return fail(errOverload)
	}
	return types.Int(x).Modulo(types.Int(y))
}

func (n *number) neg() *number {
	neg, digits, exp := n.decimal().Parts()
	d, _ := exact.FromParts(!neg, digits, exp) // the parts of a number make a number
	return numberOf(d)
}

// The rest makes *number a CEL value.

// ConvertToNative is not needed by conditions and refuses.
func (n *number) ConvertToNative(reflect.Type) (any, error) { return nil, errOverload }

// ConvertToType answers type(x); the other conversions are in convert.go.
func (n *number) ConvertToType(t ref.Type) ref.Val {
	if t == types.TypeType {
		return decimalType
	}
	return fail(errOverload)
}

// Equal compares exactly with any kind of number.
func (n *number) Equal(other ref.Val) ref.Val { return equal(n, other) }

// Type is decimal.
func (n *number) Type() ref.Type { return decimalType }

// Value is the exact.Decimal.
func (n *number) Value() any { return n.decimal() }
