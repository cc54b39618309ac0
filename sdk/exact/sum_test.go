package exact

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func TestSum(t *testing.T) {
	for _, c := range []struct{ a, b, want string }{
		{"0", "0", "0"}, {"1", "0", "1"}, {"0.1", "0.2", "0.3"}, {"1000000", "0.01", "1000000.01"}, {"1e3", "-1e3", "0"}, {"99999999999999999999", "1", "100000000000000000000"},
		{"-5", "3", "-2"}, {"1e-7", "1", "1.0000001"},
	} {
		a, _ := ParseDecimal(c.a)
		b, _ := ParseDecimal(c.b)
		want, _ := ParseDecimal(c.want)
		if got, err := a.Sum(b); err != nil || got != want {
			t.Errorf("%s + %s = %v, %v", c.a, c.b, got, err)
		}
	}
	a, _ := ParseDecimal("1e900")
	b, _ := ParseDecimal("1e-900")
	if _, err := a.Sum(b); err != ErrSum {
		t.Errorf("a sum of 1800 digits: %v", err)
	}
}

func TestSumIsThatOfRationals(t *testing.T) {
	number := rapid.StringMatching(`-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,12})?(e-?[0-9]{1,2})?`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := number.Draw(t, "a"), number.Draw(t, "b")
		da, err1 := ParseDecimal(a)
		db, err2 := ParseDecimal(b)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		got, err := da.Sum(db)
		if err != nil {
			t.Fatal(err)
		}
		ra, _ := new(big.Rat).SetString(a)
		rb, _ := new(big.Rat).SetString(b)
		rg, ok := new(big.Rat).SetString(got.String())
		if !ok || rg.Cmp(ra.Add(ra, rb)) != 0 {
			t.Fatalf("%s + %s = %s", a, b, got)
		}
	})
}
