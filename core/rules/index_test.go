package rules

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

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
		rules := make([]Rule, rapid.IntRange(0, 3*crowded).Draw(rt, "rules"))
		// few make crowded buckets
		some := rapid.SliceOfN(pattern, 1, rapid.IntRange(1, 20).Draw(rt, "patterns")).Draw(rt, "some")
		for i := range rules {
			rules[i] = Rule{ID: fmt.Sprint(i), Effect: sdk.Deny,
				Tools:  rapid.SliceOfN(rapid.SampledFrom(some), 0, 4).Draw(rt, "tools"),
				Agents: rapid.SliceOfN(rapid.OneOf(pattern, rapid.Just("*")), 0, 3).Draw(rt, "agents")}
		}
		s, err := Compile(rules)
		if err != nil {
			rt.Fatal(err)
		}
		name := rapid.StringMatching(`[ab/]{0,8}`)
		tool, agent := name.Draw(rt, "tool"), name.Draw(rt, "agent")
		forAgent := func(i int) bool { return sdk.MatchAgent(rules[i].Agents, agent) }
		var c candidates
		walk := func(keep func(i int) bool) (out []int) {
			for i := c.next(tool); i >= 0; i = c.next(tool) {
				if keep(i) {
					out = append(out, i)
				}
			}
			return out
		}
		var want, covering []int
		for i, r := range rules {
			if len(r.Tools) == 0 || matchAny(s.rules[i].tools, tool) {
				covering = append(covering, i)
				if forAgent(i) {
					want = append(want, i)
				}
			}
		}
		s.index.start(&c, tool, agent)
		if got := walk(forAgent); fmt.Sprint(got) != fmt.Sprint(want) {
			rt.Errorf("tool %q, agent %q: got %v, want %v", tool, agent, got, want)
		}
		s.index.startAll(&c, tool)
		if got := walk(func(int) bool { return true }); fmt.Sprint(got) != fmt.Sprint(covering) {
			rt.Errorf("tool %q: got %v, want %v", tool, got, covering)
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
	for name, rules := range map[string][]Rule{"tools": manyRules(10_000, ""), "agents": manyAgents(10_000)} {
		s, err := Compile(rules)
		if err != nil {
			t.Fatal(err)
		}
		var c candidates
		s.index.start(&c, "pay/refund", "bot-7")
		looked := 0
		for _, list := range c.lists {
			looked += len(list)
		}
		if looked != 1 {
			t.Errorf("%s: a call looks at %d rules, want 1", name, looked)
		}
	}
}

// manyAgents has n rules for one tool, each for other agents; the last is bot-7's.
func manyAgents(n int) []Rule {
	rules := make([]Rule, n)
	for i := range rules {
		agents := []string{fmt.Sprintf("agent%d", i), fmt.Sprintf("team%d/*", i), fmt.Sprintf("**-of-%d", i)}
		rules[i] = Rule{ID: fmt.Sprint(i), Tools: []string{"pay/*"}, Agents: agents[i%3 : i%3+1], Effect: sdk.Deny}
	}
	rules[n-1] = Rule{ID: "it", Tools: []string{"pay/*"}, Agents: []string{"bot-7"}, Effect: sdk.Permit}
	return rules
}

func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector empties pools at random")
	}
	rate := Rule{Rates: []Rate{{Limit: 10, Window: time.Minute, Per: "agent"}},
		Loops: []Loop{{Limit: 3, Window: time.Minute}}}
	budget := Rule{Budgets: []Budget{{Amount: "args.amount", Limit: "1000", Window: time.Hour, Per: "session"},
		{Amount: "args.amount", Limit: "5000", Window: time.Hour, Per: "agent"}}}
	for _, tt := range []struct {
		when   string
		limits Rule
		most   float64
	}{{"", Rule{}, 0}, {`args.amount <= 1000000`, Rule{}, 1}, {"", rate, 0}, {"", budget, 6}} {
		rules := manyRules(1_000, tt.when)
		last := &rules[len(rules)-1]
		last.Rates, last.Loops, last.Budgets = tt.limits.Rates, tt.limits.Loops, tt.limits.Budgets
		s, err := Compile(rules)
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
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				run(b, s, callWith(b, `{"amount":250000.75,"to":"acc-1"}`))
			})
		}
		s, err := Compile(manyAgents(n))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("agents/%d", n), func(b *testing.B) { run(b, s, callWith(b, `{}`)) })
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
