package rules

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
)

// The index finds what a look at every rule finds, in the same order and each once.
func TestIndexEqualsScan(t *testing.T) {
	pattern := rapid.StringMatching(`(a|b|/|\*|\*\*a|\*/){0,6}`).Filter(func(s string) bool {
		_, err := ParseGlob(s)
		return err == nil
	})
	rapid.Check(t, func(rt *rapid.T) {
		rules := make([]Rule, rapid.IntRange(0, 40).Draw(rt, "rules"))
		for i := range rules {
			rules[i] = Rule{ID: fmt.Sprint(i), Effect: sdk.Deny, Tools: rapid.SliceOfN(pattern, 0, 4).Draw(rt, "tools")}
		}
		s, err := Compile(rules)
		if err != nil {
			rt.Fatal(err)
		}
		tool := rapid.StringMatching(`[ab/]{0,8}`).Draw(rt, "tool")
		var got, want []int
		var c candidates
		s.index.start(&c, tool)
		for i := c.next(tool); i >= 0; i = c.next(tool) {
			got = append(got, i)
		}
		for i, r := range rules {
			if len(r.Tools) == 0 || matchAny(s.rules[i].tools, tool) {
				want = append(want, i)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			rt.Errorf("tool %q: got %v, want %v", tool, got, want)
		}
	})
}

// manyRules has one rule in n that covers pay/refund, the last, and others of all shapes of pattern.
func manyRules(n int, when string) []Rule {
	rules := make([]Rule, n)
	for i := range rules {
		tools := []string{fmt.Sprintf("tool%d/run", i), fmt.Sprintf("area%d/*", i), fmt.Sprintf("**/verb%d", i)}
		rules[i] = Rule{ID: fmt.Sprint(i), Tools: tools[i%3 : i%3+1], When: `args.amount > 5`, Effect: sdk.Deny}
	}
	rules[n-1] = Rule{ID: "it", Tools: []string{"pay/*"}, When: when, Effect: sdk.Permit}
	return rules
}

// A call looks only at the rules that can match it, however many others there are.
func TestLooksAtFewRules(t *testing.T) {
	s, err := Compile(manyRules(10_000, ""))
	if err != nil {
		t.Fatal(err)
	}
	var c candidates
	s.index.start(&c, "pay/refund")
	looked := 0
	for _, list := range c.lists {
		looked += len(list)
	}
	if looked != 1 {
		t.Errorf("a call looks at %d rules, want 1", looked)
	}
}

func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector empties pools at random")
	}
	for _, tt := range []struct {
		when string
		most float64
	}{{"", 0}, {`args.amount <= 1000000`, 1}} {
		s, err := Compile(manyRules(1_000, tt.when))
		if err != nil {
			t.Fatal(err)
		}
		call, ctx := callWith(t, `{"amount":250000.75,"to":"acc-1"}`), context.Background()
		got := testing.AllocsPerRun(200, func() {
			if v, err := s.Check(ctx, call); err != nil || v.Effect != sdk.Permit {
				t.Fatalf("%+v, %v", v, err)
			}
		})
		if got > tt.most {
			t.Errorf("when %q: %v allocations, the ceiling is %v", tt.when, got, tt.most)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	for _, n := range []int{10, 1_000, 100_000} {
		for name, when := range map[string]string{"plain": "", "amount": `args.amount <= 1000000`} {
			s, err := Compile(manyRules(n, when))
			if err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) { run(b, s, callWith(b, `{"amount":250000.75,"to":"acc-1"}`)) })
		}
	}
}

func BenchmarkCondition(b *testing.B) {
	for _, c := range []struct{ name, when string }{
		{"list", `args.l.all(x, x > 0)`},
		{"strings", `args.to.startsWith("acc-") && agent in ["bot-7", "bot-8"]`},
		{"matches", `args.to.matches("^acc-[0-9]+$")`},
		{"arith", `args.amount * 1.19 + 0.5 <= 1000000`},
	} {
		s := compileOne(b, Rule{When: c.when, Effect: sdk.Permit})
		b.Run(c.name, func(b *testing.B) {
			run(b, s, callWith(b, `{"amount":250000.75,"to":"acc-1","l":[1,2,3,4,5,6,7,8,9,10]}`))
		})
	}
}

func run(b *testing.B, s *Set, call *chain.Call) {
	b.ReportAllocs()
	ctx := context.Background()
	for b.Loop() {
		if v, err := s.Check(ctx, call); err != nil || v.Effect != sdk.Permit {
			b.Fatalf("%+v, %v", v, err)
		}
	}
}

func BenchmarkGlob(b *testing.B) {
	g, err := ParseGlob("a*b*c**d*e")
	if err != nil {
		b.Fatal(err)
	}
	name := strings.Repeat("ab/c", 60) + "x"
	for b.Loop() {
		g.Match(name)
	}
}
