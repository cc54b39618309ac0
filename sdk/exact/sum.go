package exact

import (
	"errors"
	"math/big"
	"strings"
)

// MaxSumDigits bounds the digits of a sum, so that nobody can make an addition costly with a huge exponent.
const MaxSumDigits = 1000

// ErrSum is what Sum refuses.
var ErrSum = errors.New("a sum of more than 1000 digits")

// Sum is d + e, exactly; ErrSum if it would need more than MaxSumDigits digits.
func (d Decimal) Sum(e Decimal) (Decimal, error) {
	if d.IsZero() {
		return e, nil
	}
	if e.IsZero() {
		return d, nil
	}
	dn, dd, dx := d.Parts()
	en, ed, ex := e.Parts()
	low := min(dx-len(dd), ex-len(ed)) // the exponent of the last digit of either
	if max(dx, ex)-low > MaxSumDigits {
		return Decimal{}, ErrSum
	}
	a, b := scaled(dn, dd, dx-len(dd)-low), scaled(en, ed, ex-len(ed)-low)
	a.Add(a, b)
	digits := a.Text(10)
	neg := strings.HasPrefix(digits, "-")
	digits = strings.TrimPrefix(digits, "-")
	return FromParts(neg, digits, low+len(digits))
}

func scaled(neg bool, digits string, zeros int) *big.Int {
	n, _ := new(big.Int).SetString(digits+strings.Repeat("0", zeros), 10)
	if neg {
		n.Neg(n)
	}
	return n
}
