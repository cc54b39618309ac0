package exact

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// MaxExponent bounds the decimal exponent of a number, so that no arithmetic on exponents can overflow.
const MaxExponent = 1_000_000_000

// plainDigits is the largest decimal exponent (either sign) that is written out in zeros in the canonical form.
const plainDigits = 400

// ErrNotNumber and ErrExponent are what ParseDecimal refuses.
var (
	ErrNotNumber = errors.New("a malformed number")
	ErrExponent  = errors.New("a number with an exponent beyond 10^9")
)

// Decimal is an exact decimal number, ±0.DIGITS × 10^exp. The zero Decimal is 0. It is comparable with Cmp only: two
// Decimals of one value are equal structs, since both are normalised.
type Decimal struct {
	neg  bool
	coef uint64 // the significant digits as a number when there are at most 19 of them
	big  string // the significant digits when there are more
	exp  int32  // position of the point: value = 0.DIGITS × 10^exp
}

// ParseDecimal reads a number in JSON syntax.
func ParseDecimal(s string) (Decimal, error) {
	if s == "" || scanNumber(s) != len(s) {
		return Decimal{}, ErrNotNumber
	}
	neg := s[0] == '-'
	if neg {
		s = s[1:]
	}
	mant, exp := s, 0
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		var err error
		if exp, err = strconv.Atoi(s[i+1:]); err != nil || exp > MaxExponent || exp < -MaxExponent {
			exp = math.MaxInt32 // settled below: zero is zero whatever its exponent
		}
		mant = s[:i]
	}
	whole, frac, _ := strings.Cut(mant, ".")
	return assemble(neg, whole, frac, exp)
}

func assemble(neg bool, whole, frac string, exp int) (Decimal, error) {
	whole = strings.TrimLeft(whole, "0")
	frac = strings.TrimRight(frac, "0")
	point := len(whole)
	if whole == "" {
		trimmed := strings.TrimLeft(frac, "0")
		point = len(trimmed) - len(frac)
		frac = trimmed
	}
	if frac == "" {
		whole = strings.TrimRight(whole, "0")
	}
	n := len(whole) + len(frac)
	if n == 0 {
		return Decimal{}, nil
	}
	if exp == math.MaxInt32 || exp+point > MaxExponent || exp+point < -MaxExponent {
		return Decimal{}, ErrExponent
	}
	d := Decimal{neg: neg, exp: int32(exp + point)}
	if n > 19 {
		d.big = whole + frac
		return d, nil
	}
	for _, part := range [2]string{whole, frac} {
		for i := range len(part) {
			d.coef = d.coef*10 + uint64(part[i]-'0')
		}
	}
	return d, nil
}

// FromInt64 is the exact decimal of n.
func FromInt64(n int64) Decimal {
	d, _ := ParseDecimal(strconv.FormatInt(n, 10))
	return d
}

// FromParts is ±0.digits × 10^exp; digits are ASCII digits and need not be trimmed.
func FromParts(neg bool, digits string, exp int) (Decimal, error) {
	if scan := len(digits); scan == 0 {
		return Decimal{}, nil
	}
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return Decimal{}, ErrNotNumber
		}
	}
	return assemble(neg, "", digits, exp)
}

// Parts gives ±0.digits × 10^exp with digits trimmed of zeros on both sides; "" for zero.
func (d Decimal) Parts() (neg bool, digits string, exp int) {
	if d.IsZero() {
		return false, "", 0
	}
	if d.big != "" {
		return d.neg, d.big, int(d.exp)
	}
	return d.neg, strconv.FormatUint(d.coef, 10), int(d.exp)
}

// IsZero reports whether the number is 0.
func (d Decimal) IsZero() bool { return d.coef == 0 && d.big == "" }

// Sign is -1, 0 or 1.
func (d Decimal) Sign() int {
	switch {
	case d.IsZero():
		return 0
	case d.neg:
		return -1
	}
	return 1
}

// Cmp is -1, 0 or 1 as d is less than, equal to or greater than e, exactly.
func (d Decimal) Cmp(e Decimal) int {
	if ds, es := d.Sign(), e.Sign(); ds != es || ds == 0 {
		return cmpInt(ds, es)
	}
	c := d.cmpAbs(e)
	if d.neg {
		return -c
	}
	return c
}

func (d Decimal) cmpAbs(e Decimal) int {
	if d.exp != e.exp {
		return cmpInt(int(d.exp), int(e.exp))
	}
	if d.big != "" || e.big != "" {
		_, dd, _ := d.Parts()
		_, ed, _ := e.Parts()
		return strings.Compare(dd, ed) // fractions: digit strings compare from the left
	}
	a, b := d.coef, e.coef
	for na, nb := width(a), width(b); na < nb; na++ {
		a *= 10
	}
	for na, nb := width(a), width(b); nb < na; nb++ {
		b *= 10
	}
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func width(u uint64) int {
	n := 0
	for ; u > 0; u /= 10 {
		n++
	}
	return n
}

func cmpInt(a, b int) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// Int64 is the number as an int64; ok is false when it has a fraction or does not fit.
func (d Decimal) Int64() (n int64, ok bool) {
	if d.IsZero() {
		return 0, true
	}
	_, digits, _ := d.Parts()
	if int(d.exp) < len(digits) || d.exp > 19 {
		return 0, false
	}
	n, err := strconv.ParseInt(d.String(), 10, 64)
	return n, err == nil
}

// IsInt reports whether the number is whole, however large it is and however it was written: 1000.0 and 1e3 are.
func (d Decimal) IsInt() bool {
	n := len(d.big)
	if d.big == "" {
		n = width(d.coef)
	}
	return int(d.exp) >= n // both are 0 for zero
}

// String is the canonical text: no exponent and no needless zeros up to 400 places either side of the point, and
// D.DDDeN beyond, so that a short text cannot make a long one. Equal numbers have equal texts.
func (d Decimal) String() string { return string(d.Append(nil)) }

// Append appends the canonical text to dst.
func (d Decimal) Append(dst []byte) []byte {
	if d.IsZero() {
		return append(dst, '0')
	}
	if d.neg {
		dst = append(dst, '-')
	}
	var small [20]byte
	digits := []byte(d.big)
	if d.big == "" {
		digits = strconv.AppendUint(small[:0], d.coef, 10)
	}
	exp := int(d.exp)
	switch {
	case exp > plainDigits || exp < -plainDigits:
		dst = append(dst, digits[0])
		if len(digits) > 1 {
			dst = append(append(dst, '.'), digits[1:]...)
		}
		return strconv.AppendInt(append(dst, 'e'), int64(exp-1), 10)
	case exp <= 0:
		dst = append(dst, '0', '.')
		for range -exp {
			dst = append(dst, '0')
		}
		return append(dst, digits...)
	case exp >= len(digits):
		dst = append(dst, digits...)
		for range exp - len(digits) {
			dst = append(dst, '0')
		}
		return dst
	}
	dst = append(append(dst, digits[:exp]...), '.')
	return append(dst, digits[exp:]...)
}
