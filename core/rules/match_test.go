package rules

import (
	"context"
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	for _, tt := range []struct {
		expr, args string
		want       bool
	}{
		{`args.amount <= 1000000`, `{"amount":1e6}`, true},
		{`args.amount <= 1000000`, `{"amount":1000000.01}`, false},
		{`args.amount <= 1000000`, `{"amount":"1"}`, false},
		{`args.amount <= 1000000`, `{"amount":null}`, false},
		{`args.amount <= 1000000`, `{}`, false},
		{`args.amount <= 1000000`, ``, false},
		{`!(args.amount > 1000000)`, `{}`, false}, // an error is no match, on whichever side of a negation
		{`agent == "bot-7" && tool == "pay/refund" && session == "s1" && operation == "refund"`, `{}`, true},
		{`key.id == "k1" && key.name == "pay bot key" && context.region == "eu" && now.getFullYear() == 2026`, `{}`, true},
		{`args.l.all(x, args.l.all(y, args.l.all(z, x + y + z >= 0)))`, bigList(200), false}, // costs too much
		{strings.Repeat(" ", maxMatch-4) + "true", `{}`, true},
	} {
		m, err := CompileMatch(tt.expr)
		if err != nil {
			t.Errorf("%s: %v", tt.expr, err)
			continue
		}
		if got := m.Holds(t.Context(), callWith(t, tt.args)); got != tt.want || m.String() != tt.expr {
			t.Errorf("%s of %.40s: got %v", m, tt.args, got)
		}
	}
}

func TestMatchRefuses(t *testing.T) {
	for expr, want := range map[string]string{
		"":                                       "an empty condition",
		strings.Repeat(" ", maxMatch-3) + "true": "a condition of 2049 bytes, the limit is 2048",
		"args.amount": "1:1: the condition is a dyn, not a bool; compare it with something, as " +
			"in x == true",
		"true &&\n amount > 1":   "2:2: unknown name or function \"amount\"",
		"args.amount >":          "1:14: the condition ends too early",
		`args.s.matches(args.p)`: "matches() needs a literal expression",
	} {
		if m, err := CompileMatch(expr); err == nil || m != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: got %v, want %s", expr, err, want)
		}
	}
}

func TestMatchOfACallThatIsGivenUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m, err := CompileMatch("true")
	if err != nil || m.Holds(ctx, callWith(t, "")) {
		t.Errorf("it holds, or %v", err)
	}
}

// Whatever the expression, compiling and asking it ends, and it holds only if it does so every time.
func FuzzMatch(f *testing.F) {
	for _, expr := range []string{`args.a <= 0.1`, `has(args.l) && args.l[0] == 1`,
		`tool.startsWith("pay/") && args.o.a[0] in [1]`, `!(args.a > 3)`} {
		f.Add(expr, `{"a":3,"l":[1,2.5],"o":{"a":[1,null]}}`)
	}
	f.Fuzz(func(t *testing.T, expr, args string) {
		if len(expr) > 200 {
			return
		}
		m, err := CompileMatch(expr)
		if err != nil {
			if err.Error() == "" {
				t.Errorf("%q: an error without a text", expr)
			}
			return
		}
		call := callWith(t, "")
		if v, ok := tryDocument(args); ok {
			call.Args = v
		}
		first := m.Holds(t.Context(), call)
		if m.Holds(t.Context(), call) != first {
			t.Errorf("%q holds only sometimes", expr)
		}
		done, cancel := context.WithCancel(t.Context())
		cancel()
		if m.Holds(done, call) {
			t.Errorf("%q holds for a call that was given up", expr)
		}
	})
}
