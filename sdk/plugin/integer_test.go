package plugin

import (
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/sdk/exact"
)

type whole64 struct {
	I    int64            `json:"i"`
	U    uint64           `json:"u"`
	B    int8             `json:"b"`
	P    *int64           `json:"p"`
	L    []uint16         `json:"l"`
	M    map[string]int32 `json:"m"`
	D    time.Duration    `json:"d"`
	Q    int64            `json:"q,string"`
	F    float64          `json:"f"`
	N    json.Number      `json:"n"`
	Raw  json.RawMessage  `json:"raw"`
	Any  any              `json:"any"`
	Deep []struct {
		Pair [2]int `json:"pair"`
	} `json:"deep"`
}

// TestDecodeIntegers wants each notation of an integer taken where an integer is wanted, as a schema's "integer" takes
// it.
func TestDecodeIntegers(t *testing.T) {
	var c whole64
	text := ` { "i": 1000.0, "u": 18446744073709551615.0, "b": -1.28e2, "p": 1E+3, "l": [1.0, 65535, 0.5e1], "m": {"<a/b~\u00e9>": 2e0},
		"d": 1e9, "q": "7", "f": 1e3, "n": 1000.0, "raw": {"x": 1e3 }, "any": 1.0, "deep": [{}, {"pair": [1.0, -0.0]}] } `
	if err := (Settings{Config: json.RawMessage(text)}).Decode(&c); err != nil {
		t.Fatal(err)
	}
	if c.I != 1000 || c.U != 1<<64-1 || c.B != -128 || c.P == nil || *c.P != 1000 || c.L[0] != 1 || c.L[1] != 65535 ||
		c.L[2] != 5 ||
		c.M["<a/b~é>"] != 2 || c.D != time.Second || c.Q != 7 || c.F != 1000 || c.Deep[1].Pair != [2]int{1, 0} {
		t.Errorf("%+v", c)
	}
	if c.N != "1000.0" || string(c.Raw) != `{"x": 1e3 }` || c.Any != 1.0 {
		t.Errorf("what is no integer of Go's changed: %s, %s, %v", c.N, c.Raw, c.Any)
	}
	for text, want := range map[string]string{
		`{"i": 1.5}`:                        "/i: a number 1.5 does not fit: expected int64",
		`{"i": 1e400}`:                      "/i: a number 1e400 does not fit: expected int64",
		`{"i": 1e999999999}`:                "/i: a number 1e999999999 does not fit: expected int64",
		`{"i": 1e-1}`:                       "/i: a number 1e-1 does not fit: expected int64",
		`{"i": 9223372036854775808.0}`:      "/i: a number 9223372036854775808.0 does not fit: expected int64",
		`{"u": -1.0}`:                       "/u: a number -1.0 does not fit: expected uint64",
		`{"b": 128.0}`:                      "/b: a number 128.0 does not fit: expected int8",
		`{"l": [1.0, 1.5]}`:                 "/l/1: a number 1.5 does not fit: expected uint16",
		`{"deep": [{"pair": [1e0, 2.50]}]}`: "/deep/0/pair/1: a number 2.50 does not fit: expected int",
		`{"i": "1000.0"}`:                   "/i: a string does not fit: expected int64",
		`{"q": "1.0"}`:                      "",
	} {
		err := Settings{Config: json.RawMessage(text)}.Decode(&whole64{})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// FuzzDecodeInteger holds what an int64, a uint64 and an int8 take against exact arithmetic.
func FuzzDecodeInteger(f *testing.F) {
	for _, s := range []string{"1000", "1000.0", "1e3", "-0", "-0.0", "0e999999999999", "1.5", "1e400", "1e999999999",
		"1e1000000001", "127.0", "-1280e-1", "9223372036854775807.00", "18446744073709551616", "100e-2", "null", "[1]",
		"0.00000000000000000001e20"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var into struct {
			I *int64  `json:"i"`
			U *uint64 `json:"u"`
			B *int8   `json:"b"`
		}
		d, bad := exact.ParseDecimal(strings.Trim(s, " \t\r\n"))
		for name, got := range map[string]func() string{
			"i": func() string { return strconv.FormatInt(*into.I, 10) }, "u": func() string {
				return strconv.FormatUint(*into.U, 10)
			}, "b": func() string { return strconv.Itoa(int(*into.B)) },
		} {
			bits, signed := 64, name != "u"
			if name == "b" {
				bits = 8
			}
			want, fits := "", false
			if bad == nil && d.IsInt() && !strings.Contains(d.String(), "e") {
				n, _ := new(big.Int).SetString(d.String(), 10)
				low, high := new(big.Int), new(big.Int).Lsh(big.NewInt(1), uint(bits))
				if signed {
					high.Rsh(high, 1)
					low.Neg(high)
				}
				want, fits = d.String(), n.Cmp(low) >= 0 && n.Cmp(high) < 0
			}
			into.I, into.U, into.B = nil, nil, nil
			err := Settings{Config: json.RawMessage(`{"` + name + `":` + s + `}`)}.Decode(&into)
			given := into.I != nil || into.U != nil || into.B != nil
			if fits != (err == nil && given) || fits && got() != want {
				if bad == nil || given { // what is no number is another test's
					t.Errorf("%s: %q: %v, fits is %t, want %s", name, s, err, fits, want)
				}
			}
		}
	})
}
