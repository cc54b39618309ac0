package rules

import (
	"math/big"
	"strings"
	"testing"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"pgregory.net/rapid"

	"github.com/yett-dev/yett/sdk/exact"
)

// Every comparison is asked from both sides.
func TestNumbersCompareExactly(t *testing.T) {
	const overload = "no such overload"
	tests := []struct{ args, literal, le, lt, eq, ge string }{
		{`1000000`, `1000000`, "true", "false", "true", "true"},
		{`1000000.01`, `1000000`, "false", "false", "false", "true"},
		{`999999.999999999999999999999999`, `1000000`, "true", "true", "false", "false"},
		{`1000000.000000000000000000000001`, `1000000`, "false", "false", "false", "true"},
		{`1e6`, `1000000`, "true", "false", "true", "true"},
		{`1000000.0`, `1000000`, "true", "false", "true", "true"},
		{`1000004`, `1000000`, "false", "false", "false", "true"},
		{`1e400`, `1000000`, "false", "false", "false", "true"},
		{`-1e400`, `1000000`, "true", "true", "false", "false"},
		{`1e-400`, `0`, "false", "false", "false", "true"},
		{`-0`, `0`, "true", "false", "true", "true"},
		{`"1000000"`, `1000000`, overload, overload, "false", overload},
		{`null`, `1000000`, overload, overload, "false", overload},
		{`true`, `1`, overload, overload, "false", overload},
		{`[1]`, `1`, overload, overload, "false", overload},
		{`{}`, `1`, overload, overload, "false", overload},
		{`0.1`, `0.1`, "true", "false", "true", "true"},
		{`0.1000000000000000055511151231257827`, `0.1`, "false", "false", "false", "true"},
		{`1000000.01`, `1000000.01`, "true", "false", "true", "true"},
		{`9007199254740993`, `9007199254740992.0`, "false", "false", "false", "true"},
		{`9007199254740993`, `9007199254740993.0`, "true", "false", "true", "true"},
		{`-0.5`, `-0.5`, "true", "false", "true", "true"},
		{`-0.5`, `- 0.5`, "true", "false", "true", "true"},
		{`1.5e3`, `1.5E+3`, "true", "false", "true", "true"},
		{`0.5`, `.5`, "true", "false", "true", "true"},
		{`7`, `7u`, "true", "false", "true", "true"},
		{`18446744073709551615`, `18446744073709551615u`, "true", "false", "true", "true"},
		{`18446744073709551616`, `18446744073709551615u`, "false", "false", "false", "true"},
		{`9223372036854775808`, `9223372036854775807`, "false", "false", "false", "true"},
		{`-9223372036854775808`, `-9223372036854775808`, "true", "false", "true", "true"},
		{`123456789012345678901234567890`, `123456789012345678901234567890.0`, "true", "false", "true", "true"},
		{`255`, `0xff`, "true", "false", "true", "true"},
	}
	for _, tt := range tests {
		args := `{"n":` + tt.args + `}`
		not := map[string]string{"true": "false", "false": "true"}
		for _, c := range []struct{ when, want string }{
			{`args.n <= ` + tt.literal, tt.le},
			{tt.literal + ` >= args.n`, tt.le},
			{`args.n < ` + tt.literal, tt.lt},
			{tt.literal + ` > args.n`, tt.lt},
			{`args.n >= ` + tt.literal, tt.ge},
			{tt.literal + ` <= args.n`, tt.ge},
			{`args.n == ` + tt.literal, tt.eq},
			{tt.literal + ` == args.n`, tt.eq},
			{`args.n != ` + tt.literal, not[tt.eq]},
			{tt.literal + ` != args.n`, not[tt.eq]},
			{`args.n in [` + tt.literal + `]`, tt.eq},
			{`args.n in [[], ` + tt.literal + `, "x"]`, tt.eq},
			{`[` + tt.literal + `].exists(x, x == args.n)`, tt.eq},
			{`[args.n].exists(x, ` + tt.literal + ` == x)`, tt.eq},
			{`{"a": ` + tt.literal + `}["a"] == args.n`, tt.eq},
			{`{"a": ` + tt.literal + `} == {"a": args.n}`, tt.eq},
			{`[` + tt.literal + `] == [args.n]`, tt.eq},
			{`(true ? args.n : 3) <= (false ? dyn("x") : dyn(` + tt.literal + `))`, tt.le},
		} {
			if got := outcome(t, c.when, args); got != c.want {
				t.Errorf("n=%s: %s: got %s, want %s", tt.args, c.when, got, c.want)
			}
		}
	}
}

func TestArithmetic(t *testing.T) {
	const args = `{"n":3,"f":0.1,"g":0.2,"big":9223372036854775807,"huge":1e400,"l":[1,2.5,3],"s":"x","i":1,
		"o":{"a":{"b":[10,20.5]}},"nil":null,"t":true,"m":-1}`
	tests := []struct{ when, want string }{
		{`args.f + args.g == 0.3`, "true"},
		{`0.1 + 0.2 == 0.3`, "true"},
		{`args.n * 2 + 0.5 == 6.5`, "true"},
		{`2 * args.n + 0.5 == 6.5`, "true"},
		{`args.n * args.f == 0.3`, "true"},
		{`args.n - 4 == -1`, "true"},
		{`4 - args.n == 1 && 4.0 - args.n == 1`, "true"},
		{`-args.f == -0.1 && -args.n == -3 && -(-args.f) == args.f`, "true"},
		{`args.big + 1 == 9223372036854775808.0`, "true"},
		{`args.big + 1 > 9223372036854775807`, "true"},
		{`9223372036854775807 + 1 > 0`, "number out of range"},
		{`args.huge + 1 > args.huge`, "true"},
		{`args.huge * args.huge > args.huge && args.huge * 1e-300 == 1e100 && 1e-400 * args.huge == 1`, "true"},
		{`args.n / 2 == 1.5 && args.n % 2 == 1 && 12 / args.n == 4 && args.n / args.n == 1`, "true"},
		{`7 / args.n == 2`, "no exact quotient"},
		{`7 / 2 == 3 && size(args.l) / 2 == 1 && args.l[size(args.l) / 2] == 2.5`, "true"},
		{`args.n / 100 == 0.03 && args.n / 0.5 == 6 && 0.75 / args.n == 0.25 && -args.n / 8 == -0.375`, "true"},
		{`args.n / 1e300 * 1e300 == 3 && args.f / args.g == 0.5 && args.g / args.n == 0`, "no exact quotient"},
		{`args.big / 1024 * 1024 == args.big && args.huge / args.huge == 1 && 0 / args.n == 0`, "true"},
		{`type(args.n) == type(1.5) && type(args.f) == type(args.n) && type(args.s) == string`, "true"},
		{`type(5) == type(args.n) && type(dyn(1)) == type(args.n) && type(size(args.l)) == type(5u)`, "true"},
		{`type(args.s) == type(1) || type(args.l) == type(1) || type(args.o) == type(args.l)`, "false"},
		{`type(args.l) == list && type(args.o) == map && type(args.t) == bool && type(args.nil) == null_type`, "true"},
		{`args.n / 0 == 1`, "division by zero"},
		{`args.n % 0 == 1`, "division by zero"},
		{`args.f / 2 == 0.05 && 2 / args.f == 20`, "true"},
		{`args.f / 0 == 0`, "division by zero"},
		{`-9223372036854775808 / args.m == 9223372036854775808.0`, "true"},
		{`args.f % 2 == 0`, "no such overload"},
		{`args.huge / 2 * 2 == args.huge && args.huge / 2 < args.huge`, "true"},
		{`args.s + 1 == args.s`, "no such overload"},
		{`args.n + args.s == args.s`, "no such overload"},
		{`args.s + "y" == "xy" && "y" + args.s == "yx"`, "true"},
		{`args.n + args.nil == 1`, "no such overload"},
		{`-args.s == 1`, "no such overload"},
		{`-args.t == 1`, "no such overload"},
		{`args.n > "2"`, "no such overload"},
		{`args.t > args.n`, "no such overload"},
		{`int(args.n) == 3 && int(1e3) == 1000 && int("12") == 12`, "true"},
		{`int(args.f) == 0`, "number out of range"},
		{`int(args.huge) == 0`, "number out of range"},
		{`int(args.big) == 9223372036854775807`, "true"},
		{`uint(args.n) == 3u && uint(18446744073709551615.0) == 18446744073709551615u`, "true"},
		{`uint(-1.0) == 1u`, "number out of range"},
		{`uint(args.f) == 1u`, "number out of range"},
		{`double(args.f) == 0.1 && double("0.1") == 0.1 && double(3) == args.n && double(3u) == 3.0`, "true"},
		{`double(1000000.00000000000000001) <= 1000000.0`, "false"},
		{`double("NaN") == 1.0`, "number out of range"},
		{`double("Infinity") > 1.0`, "number out of range"},
		{`double(args.t) > 1.0`, "no such overload"},
		{`string(args.f) == "0.1" && string(1.50) == "1.5" && string(args.n) == "3" && string(3) == "3"`, "true"},
		{`string(args.huge) == "1" + "` + strings.Repeat("0", 400) + `"`, "false"},
		{`type(args.n) == decimal && type(0.5) == decimal && type(args.s) == string && type(args.l) == list && type(args.o) == map`, "true"},
		{`size(args.l) > 2.5 && size(args.l) == args.n && size(args.l) <= args.n && args.l.size() >= 3`, "true"},
		{`args.l[0] == 1 && args.l[args.i] == 2.5 && [5, 6][args.i] == 6 && args.l[int(args.i)] == 2.5`, "true"},
		{`args.l[args.f] == 1`, "number out of range"},
		{`args.l == [1, 2.5, 3] && [1, 2.5, 3] == args.l && args.l != [1, 2.5] && args.l == args.l`, "true"},
		{`2.5 in args.l && !(2 in args.l) && args.n in args.l && args.n in {3: "x"} && !(args.n in {4: "x"})`, "true"},
		{`{3: "x"}[args.n] == "x" && {args.n: "y"}[3] == "y"`, "true"},
		{`args.l.all(x, x > 0) && args.l.exists(x, x == 2.5) && args.l.exists_one(x, x > 2.9)`, "true"},
		{`args.l.filter(x, x > 1) == [2.5, 3] && args.l.map(x, x * 2) == [2, 5, 6]`, "true"},
		{`args.l + [4] == [1, 2.5, 3, 4] && [0] + args.l == [0, 1, 2.5, 3]`, "true"},
		{`args.o == {"a": {"b": [10, 20.5]}} && args.o.a.b[1] == 20.5 && has(args.o.a) && !has(args.o.z)`, "true"},
		{`"a" in args.o && !("z" in args.o) && args.o.exists(k, args.o[k].b[0] == 10)`, "true"},
		{`args.nil == null && has(args.nil) && args.n != null && null != args.s`, "true"},
		{`1 in args.o`, "no such overload"},
		{`args.n.startsWith("3")`, "no such overload"},
		{`args.s in ["x", "y"] && !(args.n in ["x", "y"]) && !(args.l in ["x"]) && !(args.o in ["x"])`, "true"},
		{"\"größe 😀\" == args.s ||\r\n\t-  0.1 == -args.f && 0.1 == args.f", "true"},
		{`now.getHours("+02:00") == 7 && now.getHours() == 5`, "true"},
		{`timestamp(args.n) == timestamp(3)`, "true"},
		{`timestamp(args.f) == now`, "number out of range"},
		{`duration(args.n) == duration("3s")`, "no such overload"},
	}
	for _, tt := range tests {
		if got := outcome(t, tt.when, args); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.when, got, tt.want)
		}
	}
}

func TestArithmeticIsBounded(t *testing.T) {
	long := strings.Repeat("7", maxDigits+1)
	for _, tt := range []struct{ when, n, want string }{
		{`args.n + 1 > 0`, long, "too many digits"},
		{`args.n * 1 > 0`, long, "too many digits"},
		{`args.n * 0 == 0`, long, "too many digits"},
		{`args.n + 1 > 0`, "1e900000000", "too many digits"},
		{`args.n > 0 && args.n == args.n`, long, "true"},
		{`args.n * args.n > 0`, strings.Repeat("7", maxDigits/2+1), "too many digits"},
		{`args.n * args.n > 0`, strings.Repeat("7", maxDigits/2), "true"},
		{`args.n + 1 > 0`, "1e5000", "too many digits"},
		{`args.n + 1 > 0`, "1e-5000", "too many digits"},
		{`args.n * args.n > 0`, "1e-900000000", "number out of range"},
	} {
		if got := outcome(t, tt.when, `{"n":`+tt.n+`}`); got != tt.want {
			t.Errorf("%s with %.20s…: got %s, want %s", tt.when, tt.n, got, tt.want)
		}
	}
}

// Sums, differences, products, quotients and order agree with math/big's rationals.
func TestArithmeticAgainstRationals(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringMatching(`-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,20})?(e-?[0-9]{1,2})?`)
		a, b := text.Draw(rt, "a"), text.Draw(rt, "b")
		x, y := literal(rt, a), literal(rt, b)
		rx, _ := new(big.Rat).SetString(a)
		ry, _ := new(big.Rat).SetString(b)
		for _, op := range []struct {
			name string
			got  any
			want *big.Rat
		}{
			{"+", add(x, y, full()), new(big.Rat).Add(rx, ry)},
			{"-", subtract(x, y, full()), new(big.Rat).Sub(rx, ry)},
			{"*", multiply(x, y, full()), new(big.Rat).Mul(rx, ry)},
		} {
			n, ok := op.got.(*number)
			if !ok {
				rt.Fatalf("%s %s %s: %v", a, op.name, b, op.got)
			}
			got, ok := new(big.Rat).SetString(n.decimal().String())
			if !ok || got.Cmp(op.want) != 0 {
				rt.Errorf("%s %s %s: got %v, want %v", a, op.name, b, got, op.want)
			}
		}
		by := y
		if rapid.Bool().Draw(rt, "a divisor that ends") {
			by = literal(rt, rapid.SampledFrom([]string{"8", "-0.05", "1e3", "1024", "6.25", "3.2e-7", "15625"}).Draw(rt, "by"))
		}
		rby, _ := new(big.Rat).SetString(by.decimal().String())
		checkQuotient(rt, divide(x, by, full()), rx, rby)
		if rby.Sign() != 0 {
			product := multiply(x, by, full()).(*number)
			checkQuotient(rt, divide(product, by, full()), new(big.Rat).Mul(rx, rby), rby)
		}
		if got := x.cmp(y); got != rx.Cmp(ry) {
			rt.Errorf("%s cmp %s: got %d", a, b, got)
		}
	})
}

// checkQuotient wants a ÷ b if that is a decimal, and an error otherwise.
func checkQuotient(t *rapid.T, got ref.Val, a, b *big.Rat) {
	if b.Sign() == 0 {
		if !types.IsError(got) || got.(*types.Err).Error() != errZero.Error() {
			t.Errorf("%v / 0: %v", a, got)
		}
		return
	}
	want := new(big.Rat).Quo(a, b)
	rest := new(big.Int).Set(want.Denom())
	for _, p := range []int64{2, 5} {
		for q, r := new(big.Int), new(big.Int); ; {
			if q.QuoRem(rest, big.NewInt(p), r); r.Sign() != 0 {
				break
			}
			rest.Set(q)
		}
	}
	if rest.IsInt64() && rest.Int64() == 1 {
		n, ok := got.(*number)
		if !ok {
			t.Fatalf("%v / %v: %v", a, b, got)
		}
		if q, ok := new(big.Rat).SetString(n.decimal().String()); !ok || q.Cmp(want) != 0 {
			t.Errorf("%v / %v: got %v", a, b, q)
		}
		return
	}
	if !types.IsError(got) || got.(*types.Err).Error() != errInexact.Error() {
		t.Errorf("%v / %v is no decimal: %v", a, b, got)
	}
}

func literal(t *rapid.T, text string) *number {
	var d exact.Doc
	if err := d.Parse(text, exact.DefaultLimits); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return adaptNumber(d.Root())
}

func full() *meter { return &meter{left: maxMade} }
