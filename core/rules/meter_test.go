package rules

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/sdk"
)

// grows says of every function that a condition can call whether its value can be larger than what it was given. A new
// one needs an entry, and if it grows, the meter and a line in hostile.
var grows = map[string]bool{
	"!_": false, "-_": true, "@not_strictly_false": false, "__not_strictly_false__": false, "!=": false, "_!=_": false,
	"_%_": false, "_&&_": false, "_*_": true, "_+_": true,
	"_-_": true, "_/_": true, "_<=_": false, "_<_": false, "_==_": false, "_>=_": false, "_>_": false, "_?_:_": false,
	"_[_]": false, "_||_": false, "@in": false, "_in_": false, "in": false,
	"bool": false, "bytes": true, "contains": false, "double": true, "duration": false, "dyn": false, "endsWith": false,
	"int": false, "matches": false, "size": false, "startsWith": false, "string": true, "timestamp": false, "type": false,
	"uint": false,
	"@lt":  false, "@le": false, "@gt": false, "@ge": false, "@eq": false, "@ne": false, "@within": false, "@add": true,
	"@sub": true, "@mul": true, "@div": true, "@mod": false, "@neg": true,
	"@int": false, "@uint": false, "@double": true, "@string": true, "@bytes": true, "@made": true, "@index": false,
	"@short": false, "@type": false,
	"shell": false, "@shell": false, "file": false, "@file": false, "patch": false, "@patch": false, // charged by length
}

func TestEveryFunctionIsKnownToGrowOrNot(t *testing.T) {
	env, err := environment()
	if err != nil {
		t.Fatal(err)
	}
	for name := range env.Functions() {
		if _, known := grows[name]; !known && !strings.HasPrefix(name, "get") {
			t.Errorf("%s: can its value be larger than what it was given?", name)
		}
	}
	for name, grown := range replaced {
		if grows[grown] != grows[name] && name != "_in_" {
			t.Errorf("%s grows %v, %s grows %v", name, grows[name], grown, grows[grown])
		}
		if grows[grown] && !growing[grown] {
			t.Errorf("%s is not metered", grown)
		}
	}
	for name, grown := range grows {
		if grown && !strings.HasPrefix(name, "@") && !growing[replaced[name]] {
			t.Errorf("%s grows, and no metered operator takes its place", name)
		}
	}
}

// times writes an operand so often, with an operator between.
func times(operand, operator string, n int) string {
	return strings.Repeat(operand+operator, n-1) + operand
}

// hostile are conditions that would make far more than the call brings, each with every way to make a value.
func hostile() []string {
	texts := []string{`args.s`, `args.e`, `string(bytes(args.s))`, `string(args.n)`, `args.s + "x"`, `args.e + args.s`,
		`args.o.map(k, k)[0]`}
	numbers := []string{`args.n`, `args.d * args.d`, `args.d - 0.1`, `-args.d`, `double(args.ds)`, `args.d + 1e-900`,
		`args.d / 1024`}
	var out []string
	for _, v := range texts {
		out = append(out,
			times("("+v+")", " + ", 40)+` == ""`,
			"["+times("("+v+") + agent", ", ", 300)+`].size() == 0`,
			`args.l.map(x, `+v+` + agent).size() == 0`,
			`args.l.exists(x, [`+v+` + agent, "y"].size() == 0)`,
			`args.l.map(x, args.l.map(y, `+v+` + agent)).size() == 0`,
			`args.l.map(x, {"k": `+v+` + agent}).size() == 0`,
			"{"+times(`string(args.i) + "`+"k"+`": bytes(`+v+`)`, ", ", 1)+`}.size() == 7`,
			"["+times(`bytes(`+v+`)`, ", ", 300)+`].size() == 0`,
			`args.l.map(x, bytes(`+v+`)).size() == 0`,
			`args.l.filter(x, `+v+` + `+v+` == "").size() == 1`,
			`args.l.map(x, string(bytes(`+v+`))).size() == 0`)
	}
	for _, v := range numbers {
		out = append(out, "["+times(v, ", ", 500)+`].size() == 0`, `args.l.map(x, `+v+`).size() == 0`,
			`args.l.map(x, string(`+v+`)).size() == 0`, `args.l.map(x, args.l.map(y, `+v+`)).size() == 0`)
	}
	return append(out,
		`args.l.map(x, args.l).size() == 0`,
		`args.l.map(x, args.l + args.l).size() == 0`,
		`args.l.map(x, args.l.map(y, y)).size() == 0`,
		`args.l.map(x, args.l.map(y, args.l.map(z, z))).size() == 0`,
		`args.l.map(x, [x, x, x, x, x, x, x, x]).size() == 0`,
		`args.l.map(x, args.l.filter(y, true)).size() == 0`,
		`args.l.map(x, {"a": x, "b": [x]}).size() == 0`,
		`args.o.map(k, args.o.map(j, j + k)).size() == 0`,
		times(`args.l`, " + ", 90)+` == []`,
		`args.l.map(x, [args.l] + [args.l]).size() == 0`,
		`args.l.exists(x, args.l == args.l + [x])`)
}

// hostileArgs is close to the largest call there can be, for each kind of value.
func hostileArgs() map[string]string {
	list := `"l":[` + times("1", ",", 20_000) + `]`
	rest := `,"d":0.` + strings.Repeat("7", 4000) + `,"ds":"` + strings.Repeat("7", 4000) + `","i":1,"o":{"` +
		strings.Repeat("k", 1000) + `":1}`
	return map[string]string{
		"text": `{` + list + rest + `,"s":"` + strings.Repeat("x", 450_000) + `","e":"\u0041` +
			strings.Repeat("y", 450_000) + `","n":1}`,
		"digits":  `{` + list + rest + `,"s":"x","e":"\u0041","n":` + strings.Repeat("9", 900_000) + `}`,
		"members": `{` + list + `,"d":1,"ds":"1","i":1,"s":"x","e":"\u0041","n":1,"o":{` + manyNames(2_000, 400) + `}}`,
	}
}

func manyNames(n, length int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"\u0041%d%s":1,`, i, strings.Repeat("n", length))
	}
	return strings.TrimSuffix(b.String(), ",")
}

// No condition makes more than a small multiple of what an evaluation may make, garbage included, and what runs into
// the bound is an error: a permit does not hold, a denial does.
func TestNoConditionMakesMuch(t *testing.T) {
	const most = 16 * maxMade // what is made, what CEL makes of it beside, and the numbers of the call that are read
	failed := 0
	for i, when := range hostile() {
		if testkit.Quick() && i%5 != 0 {
			continue
		}
		c, faults := compileCondition(when)
		if len(faults) > 0 {
			t.Fatalf("%.100s: %s", when, faults[0].Msg)
		}
		for name, args := range hostileArgs() {
			if name != "text" && !testkit.Every(1, 2) {
				continue
			}
			sc := newScope(t.Context(), callWith(t, args))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := c.eval(sc)
			runtime.ReadMemStats(&after)
			sc.release()
			if made := after.TotalAlloc - before.TotalAlloc; made > most {
				t.Errorf("%s: %.100s: %d MiB were made (%v)", name, when, made>>20, err)
			}
			if err == errLarge {
				failed++
			}
		}
	}
	if failed < testkit.Rounds(10, 2) || failed < 40 && testkit.Every(1, 2) {
		t.Errorf("%d evaluations ran into the bound: the conditions are not hostile", failed)
	}
}

func TestTooLargeAValueFailsClosed(t *testing.T) {
	args := `{"s":"` + strings.Repeat("x", 900_000) + `"}`
	when := times("args.s", " + ", 90) + ` != "" || true` // an error that || would swallow
	for effect, want := range map[sdk.Effect]sdk.Effect{sdk.Permit: sdk.Abstain, sdk.Deny: sdk.Deny,
		sdk.Defer: sdk.Defer} {
		s := compileOne(t, Rule{Effect: effect, When: when})
		v, err := s.Check(t.Context(), callWith(t, args))
		if err != nil || v.Effect != want {
			t.Errorf("%v: %v %v, want %v", effect, v.Effect, err, want)
		}
		if want != sdk.Abstain && !strings.Contains(v.Reason, errLarge.Error()) {
			t.Errorf("%v: %s", effect, v.Reason)
		}
	}
	m, err := CompileMatch(times("args.s", " + ", 90) + ` != ""`)
	if err != nil {
		t.Fatal(err)
	}
	if m.Holds(t.Context(), callWith(t, args)) {
		t.Error("a grant's condition that makes too much holds")
	}
	s := compileOne(t, Rule{Effect: sdk.Deny, When: when})
	if e := s.Explain(t.Context(), callWith(t, args)); e.Lines[0].Error != errLarge.Error() ||
		e.Verdict.Effect != sdk.Deny {
		t.Errorf("%+v", e)
	}
	bounded := compileOne(t, Rule{Effect: sdk.Permit,
		Budgets: []Budget{{Amount: "size(" + times("args.s", " + ", 90) + ")", Limit: "1", Window: 3600e9, Per: "key"}}})
	if v, err := bounded.Check(t.Context(), callWith(t, args)); err != nil || v.Effect != sdk.Deny {
		t.Errorf("%v %v", v.Effect, err)
	}
}

// Everyday conditions over the largest calls are not in the way of the bound.
func TestTheBoundLeavesRoom(t *testing.T) {
	longList := `{"l":[` + times("1", ",", 40_000) + `],"s":"\u0041` + strings.Repeat("x", 400_000) + `"}`
	for _, when := range []string{
		`args.l.map(x, x + 1).size() == 40000`, `args.l.filter(x, x == 1).size() == 40000`, `1 in args.l && 1 in args.l`,
		`args.l == args.l || args.l[0] == 1`, `args.s.startsWith("Ax") && args.s.endsWith("x") && args.s.contains("xx") && args.s != "" && args.s + "y" != ""`, `args.l + [2] != []`,
	} {
		if got := outcome(t, when, longList); got != "true" {
			t.Errorf("%s: %s", when, got)
		}
	}
}
