package exact_test

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/yett-dev/yett/sdk/exact"
)

func parse(t testing.TB, s string) exact.Value {
	t.Helper()
	var d exact.Doc
	if err := d.Parse(s, exact.DefaultLimits); err != nil {
		t.Fatalf("Parse(%q): %v", s, err)
	}
	return d.Root()
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ name, text, reason string }{
		{"empty", ``, "unexpected end"},
		{"duplicate", `{"a":1,"a":2}`, "twice"},
		{"duplicate by escape", `{"a":1,"\u0061":2}`, "twice"},
		{"duplicate among many", `{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"a":1}`, "twice"},
		{"duplicate nested", `{"x":[{"k":1,"k":1}]}`, "twice"},
		{"trailing", `{} {}`, "after the end"},
		{"trailing comma", `[1,]`, "unexpected character"},
		{"trailing comma in object", `{"a":1,}`, "member name"},
		{"only comma", `[,]`, "unexpected character"},
		{"bom", "\ufeff{}", "unexpected character"},
		{"bad utf8", "\"\xff\"", "UTF-8"},
		{"overlong", "\"\xc0\xaf\"", "UTF-8"},
		{"surrogate bytes", "\"\xed\xa0\x80\"", "UTF-8"},
		{"lone high", `"\ud800"`, "surrogate"},
		{"lone low", `"\udc00"`, "surrogate"},
		{"high high", `"\ud800\ud800"`, "surrogate"},
		{"nul escape", `"\u0000"`, "NUL"},
		{"nul raw", "\"\x00\"", "control"},
		{"newline raw", "\"\n\"", "control"},
		{"bad escape", `"\x"`, "escape"},
		{"short unicode", `"\u12"`, "hex"},
		{"open string", `"abc`, "without an end"},
		{"open escape", `"abc\`, "without an end"},
		{"leading zero", `01`, "malformed"},
		{"plus", `+1`, "unexpected"},
		{"dot", `1.`, "malformed"},
		{"exponent", `1e`, "malformed"},
		{"minus", `-`, "malformed"},
		{"huge exponent", `1e99999999999`, "exponent"},
		{"nan", `NaN`, "unexpected"},
		{"word", `nul`, "unexpected"},
		{"open array", `[1`, "comma or the end"},
		{"no colon", `{"a" 1}`, "colon"},
		{"name not string", `{a:1}`, "member name"},
		{"deep", strings.Repeat("[", 65) + strings.Repeat("]", 65), "limit of 64"},
		{"tokens", "[" + strings.Repeat("1,", 100_000) + "1]", "limit of 100000 tokens"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d exact.Doc
			err := d.Parse(c.text, exact.DefaultLimits)
			if err == nil || !strings.Contains(err.Error(), c.reason) {
				t.Fatalf("got %v, want an error with %q", err, c.reason)
			}
			if d.Root().Exists() {
				t.Fatal("a refused document has a root")
			}
		})
	}
}

func TestLimitsAreReached(t *testing.T) {
	parse(t, strings.Repeat("[", 64)+strings.Repeat("]", 64))
	parse(t, "["+strings.Repeat("1,", 99_998)+"1]")
}

func TestValue(t *testing.T) {
	v := parse(t, ` {"s":"a\n\u00e9\ud83d\ude00","n":-1.50,"t":true,"f":false,"z":null,"a":[1,[2],{"k":"v"}],"o":{"x":{"y":1}}} `)
	if got := v.Get("s").Str(); got != "a\né😀" {
		t.Errorf("s = %q", got)
	}
	if got := v.Get("n").Decimal().String(); got != "-1.5" {
		t.Errorf("n = %s", got)
	}
	if !v.Get("t").Bool() || v.Get("f").Bool() {
		t.Error("booleans")
	}
	if v.Get("z").Kind() != exact.Null || !v.Get("z").Exists() || v.Get("nope").Exists() {
		t.Error("null and absent")
	}
	if got := v.Get("a").Index(2).Get("k").Str(); got != "v" {
		t.Errorf("a[2].k = %q", got)
	}
	if v.Get("a").Index(3).Exists() || v.Get("a").Index(-1).Exists() || v.Get("s").Index(0).Exists() {
		t.Error("elements that are not there")
	}
	if got := v.Get("o").Get("x").Get("y").Decimal().String(); got != "1" {
		t.Errorf("o.x.y = %s", got)
	}
	var names []string
	for name := range v.Members() {
		names = append(names, name)
	}
	if got := strings.Join(names, ""); got != "sntfzao" {
		t.Errorf("members %q", got)
	}
	sum := 0
	for e := range v.Get("a").Elements() {
		sum += int(e.Kind())
	}
	if sum != int(exact.Number)+int(exact.Array)+int(exact.Object) {
		t.Errorf("elements: %d", sum)
	}
}

func TestCanonical(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`1.0`, `1`}, {`1e0`, `1`}, {`-0.0`, `0`}, {`0e99999999999`, `0`}, {`1000004`, `1000004`}, {`1e21`, `1000000000000000000000`},
		{`1e-7`, `0.0000001`}, {`123456789012345678901234567890.10`, `123456789012345678901234567890.1`}, {`1e399`, "1" + strings.Repeat("0", 399)}, {`1e400`, `1e400`},
		{`12e-1`, `1.2`}, {`0.00120`, `0.0012`}, {`1.5e500`, `1.5e500`}, {`15e499`, `1.5e500`}, {`-1e-500`, `-1e-500`},
		{`{"b":1,"a":[true,null,"x"]}`, `{"a":[true,null,"x"],"b":1}`},
		{`"\u007f\u2028\u0001\b\/"`, "\"\u007f\u2028\\u0001\\b/\""},
		// RFC 8785 section 3.2.3
		{`{"\ufb33":1,"\ud83d\ude00":2,"1":3,"\u20ac":4}`, "{\"1\":3,\"€\":4,\"😀\":2,\"\ufb33\":1}"},
	} {
		if got := string(parse(t, c.in).AppendCanonical(nil)); got != c.want {
			t.Errorf("%s → %s, want %s", c.in, got, c.want)
		}
	}
}

func TestDecimalCompares(t *testing.T) {
	texts := []string{"0", "-0", "1", "1.0", "1e0", "10", "1e1", "-1", "-1.5", "1000000", "1000000.01", "1e6", "1000004",
		"999999.99", "0.1", "0.10", "0.01", "1e-7", "9223372036854775807", "9223372036854775808", "9999999999999999999",
		"99999999999999999999", "99999999999999999998.5", "18446744073709551616", "1e400", "-1e400", "1e-400",
		"0.30000000000000004", "0.3", "123456789012345678901234567890.1", "1844674407370955161.5"}
	for _, a := range texts {
		for _, b := range texts {
			da, err := exact.ParseDecimal(a)
			db, err2 := exact.ParseDecimal(b)
			if err != nil || err2 != nil {
				t.Fatal(err, err2)
			}
			ra, _ := new(big.Rat).SetString(a)
			rb, _ := new(big.Rat).SetString(b)
			if got, want := da.Cmp(db), ra.Cmp(rb); got != want {
				t.Errorf("%s cmp %s = %d, want %d", a, b, got, want)
			}
			if (da == db) != (ra.Cmp(rb) == 0) {
				t.Errorf("%s == %s as structs: %v", a, b, da == db)
			}
		}
	}
}

func TestInt64(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int64
		ok   bool
	}{{"0", 0, true}, {"-12e2", -1200, true}, {"9223372036854775807", 9223372036854775807, true},
		{"-9223372036854775808", -9223372036854775808, true},
		{"9223372036854775808", 0, false}, {"1.5", 0, false}, {"1e300", 0, false}, {"120e-1", 12, true}} {
		d, _ := exact.ParseDecimal(c.text)
		if n, ok := d.Int64(); ok != c.ok || ok && n != c.n {
			t.Errorf("%s: %d %v", c.text, n, ok)
		}
		if c.ok && exact.FromInt64(c.n) != d {
			t.Errorf("FromInt64(%d) is not %s", c.n, c.text)
		}
	}
}

// FuzzParse holds the strict parser against encoding/json: what we accept it accepts, with the same strings, and the
// canonical form is a fixed point.
func FuzzParse(f *testing.F) {
	for _, s := range []string{`{}`, `[1,2.5e-3,"x\u00e9",{"a":null}]`, `"\ud83d\ude00"`, `{"a":{"b":[true,false]}}`,
		`1e400`, "\"\xff\"", `{"a":1,"a":1}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var d exact.Doc
		if d.Parse(s, exact.DefaultLimits) != nil {
			return
		}
		if !json.Valid([]byte(s)) {
			t.Fatalf("accepted what encoding/json refuses: %q", s)
		}
		c1 := string(d.Root().AppendCanonical(nil))
		var d2 exact.Doc
		if err := d2.Parse(c1, exact.DefaultLimits); err != nil {
			t.Fatalf("canonical form %q of %q: %v", c1, s, err)
		}
		if c2 := string(d2.Root().AppendCanonical(nil)); c2 != c1 {
			t.Fatalf("canonical form is no fixed point: %q then %q", c1, c2)
		}
		if d.Root().Kind() == exact.String {
			var want string
			if err := json.Unmarshal([]byte(s), &want); err != nil || want != d.Root().Str() {
				t.Fatalf("%q decodes to %q, encoding/json says %q %v", s, d.Root().Str(), want, err)
			}
		}
	})
}

func BenchmarkParse(b *testing.B) {
	body := `{"agent_id":"gpt-4o/airline-support","tool_id":"search_direct_flight","session_id":"tau-airline-0-0","args":{"origin":"JFK","destination":"SEA","date":"2024-05-20","passengers":[{"first_name":"Mia","last_name":"Li","dob":"1990-04-05"}],"amount":152.25,"note":"` + strings.Repeat("some words ", 30) + `"},"context":{"trace":"abc"}}`
	var d exact.Doc
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if err := d.Parse(body, exact.DefaultLimits); err != nil {
			b.Fatal(err)
		}
	}
	buf := make([]byte, 0, 4096)
	b.Run("canonical", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buf = d.Root().AppendCanonical(buf[:0])
		}
	})
}

func TestIsInt(t *testing.T) {
	for text, want := range map[string]bool{
		"0": true, "-0": true, "0.0": true, "0e999999999999": true, "-0e-5": true, "1": true, "-17": true, "100": true,
		"1000.0": true, "1e3": true, "1.5e1": true, "15e-1": false, "150e-1": true, "1.5": false, "-0.5": false, "0.1": false,
		"1e-1": false, "1e999999999": true, "1e-999999999": false, "12345678901234567890123": true,
		"12345678901234567890123.4": false, "1234567890123456789.5": false, "12345678901234567890.1234e4": true,
		"12345678901234567890.1234e3": false, "9223372036854775808": true,
	} {
		d, err := exact.ParseDecimal(text)
		if err != nil || d.IsInt() != want {
			t.Errorf("%s: %t, %v; want %t", text, d.IsInt(), err, want)
		}
		if n, ok := d.Int64(); ok && !want {
			t.Errorf("%s is %d, and no integer", text, n)
		}
	}
	if !(exact.Decimal{}).IsInt() {
		t.Error("the zero Decimal is no integer")
	}
}

// FuzzIsInt holds it against math/big.
func FuzzIsInt(f *testing.F) {
	for _, s := range []string{"0", "-10.00", "1e3", "15e-1", "12345678901234567890.1234e4", "1e300"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := exact.ParseDecimal(s)
		if err != nil {
			return
		}
		if _, _, exp := d.Parts(); exp > 2000 || exp < -2000 {
			return // math/big writes it out
		}
		r, ok := new(big.Rat).SetString(s)
		if !ok && !d.IsZero() || ok && r.IsInt() != d.IsInt() { // it refuses some exponents of zero
			t.Errorf("%q: %t, %t", s, d.IsInt(), ok)
		}
	})
}
