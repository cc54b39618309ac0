package rules

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/sdk"
)

// badRules are what an operator can get wrong, one thing each; the messages are in testdata/errors.golden.
var badRules = []Rule{
	{Effect: sdk.Deny},
	{ID: strings.Repeat("x", maxID+1), Effect: sdk.Deny},
	{ID: "twice", Effect: sdk.Deny},
	{ID: "twice", Effect: sdk.Deny},
	{ID: "no effect"},
	{ID: "abstain", Effect: sdk.Abstain},
	{ID: "bad effect", Effect: 9},
	{ID: "approvals without defer", Effect: sdk.Permit, Approvals: 1},
	{ID: "approvals", Effect: sdk.Defer, Approvals: -1},
	{ID: "many approvals", Effect: sdk.Defer, Approvals: maxApprovals + 1},
	{ID: "expires without defer", Effect: sdk.Deny, Expires: time.Second},
	{ID: "expires", Effect: sdk.Defer, Expires: -time.Second},
	{ID: "from without defer", Effect: sdk.Permit, From: []string{"key:a"}},
	{ID: "from", Effect: sdk.Defer, From: []string{"alice", "key:", "role:agent", "role:auditor", "role:nobody", "key:a", "key:a"}},
	{ID: "too few", Effect: sdk.Defer, Approvals: 3, From: []string{"key:a", "key:b"}},
	{ID: "many from", Effect: sdk.Defer, From: make([]string, maxFrom+1)},
	{ID: "priority", Effect: sdk.Deny, Priority: "urgent"},
	{ID: "deny with limits", Effect: sdk.Deny, Rates: []Rate{{1, time.Second, "key"}}, Budgets: []Budget{{"1", "1", time.Second, "key"}}, Loops: []Loop{{1, time.Second}}},
	{ID: "rate", Effect: sdk.Permit, Rates: []Rate{{}, {maxCount + 1, time.Second + 1, "agents"}, {1, maxWindow + time.Second, "agent"}}},
	{ID: "many rates", Effect: sdk.Permit, Rates: make([]Rate, maxLimits+1)},
	{ID: "one counter", Effect: sdk.Permit, Rates: []Rate{{1, time.Minute, "key"}, {2, time.Hour, "key"}, {2, time.Minute, "agent"}, {3, time.Minute, "key"}}},
	{ID: "loop", Effect: sdk.Defer, Loops: []Loop{{-1, -time.Second}, {1, time.Minute}, {2, time.Minute}}},
	{ID: "budget limit", Effect: sdk.Permit, Budgets: []Budget{{"1", "", time.Second, "key"}, {"1", "-1", time.Minute, "key"}, {"1", "0.0", time.Hour, "key"},
		{"1", "1e30", 2 * time.Hour, "key"}, {"1", "1e-19", 3 * time.Hour, "key"}, {"1", "0x10", 4 * time.Hour, "key"}}},
	{ID: "budget amount", Effect: sdk.Permit, Budgets: []Budget{{" ", "1", time.Second, "key"}, {"args.amount > 1", "1", time.Minute, "key"}, {`"1"`, "1", time.Hour, "key"},
		{"null", "1", 2 * time.Hour, "key"}, {"amount", "1", 3 * time.Hour, "key"}, {"1 +", "1", 4 * time.Hour, "key"}, {"now", "1", 5 * time.Hour, "key"},
		{strings.Repeat("1+", maxAmount) + "1", "1", 6 * time.Hour, "key"}}},
	{ID: "reason", Effect: sdk.Deny, Reason: strings.Repeat("x", maxText+1)},
	{ID: "message", Effect: sdk.Deny, Message: "\xff"},
	{ID: "patterns", Effect: sdk.Deny, Tools: []string{"", "a***b", "a?"}, Agents: []string{"{a,b}"}},
	{ID: "many patterns", Effect: sdk.Deny, Tools: make([]string, maxPatterns+1)},
	{ID: "syntax", Effect: sdk.Deny, When: "args.amount <\n  "},
	{ID: "unknown name", Effect: sdk.Deny, When: "true &&\n  arg.amount < 1 && amount > 2"},
	{ID: "unknown function", Effect: sdk.Deny, When: `args.s.lower() == "x"`},
	{ID: "hidden function", Effect: sdk.Deny, When: `@eq(1, 1)`},
	{ID: "not a bool", Effect: sdk.Deny, When: "args.amount"},
	{ID: "a number", Effect: sdk.Deny, When: "1 + 1"},
	{ID: "types", Effect: sdk.Deny, When: `agent < 1`},
	{ID: "decimal and int", Effect: sdk.Deny, When: `size(args) == 1.0`},
	{ID: "key field", Effect: sdk.Deny, When: `key.nam == "x" || has(key.colour)`},
	{ID: "shadow", Effect: sdk.Deny, When: `[1].exists(args, args == 1)`},
	{ID: "pattern of the call", Effect: sdk.Deny, When: `args.s.matches(args.pattern)`},
	{ID: "bad expression", Effect: sdk.Deny, When: `args.s.matches("(")`},
	{ID: "large expression", Effect: sdk.Deny, When: `args.s.matches("((a{50}){10}){2}")`},
	{ID: "bad time", Effect: sdk.Deny, When: `now > timestamp("yesterday")`},
	{ID: "bad duration", Effect: sdk.Deny, When: `duration("1 week") > duration("1s")`},
	{ID: "zone of the call", Effect: sdk.Deny, When: `now.getHours(args.zone) < 6`},
	{ID: "decimal quotient", Effect: sdk.Deny, When: `args.n / 0.3 == 1 || 5 / args.n == 1 && args.n / 12 > 0`},
	{ID: "types of numbers", Effect: sdk.Deny, When: `type(args.n) == int || type(args.n) == double`},
	{ID: "decimal key", Effect: sdk.Deny, When: `{0.5: 1}[0.5] == 1`},
	{ID: "large integer", Effect: sdk.Deny, When: `args.n < 99999999999999999999`},
	{ID: "large decimal", Effect: sdk.Deny, When: `args.n < 1e999`},
	{ID: "deep loops", Effect: sdk.Deny, When: `[1].all(a, [1].all(b, [1].all(c, [1].all(d, true))))`},
	{ID: "long", Effect: sdk.Deny, When: strings.Repeat(" ", maxWhen) + "true"},
	{ID: "nested", Effect: sdk.Deny, When: strings.Repeat("(", 2*maxDepth) + "true" + strings.Repeat(")", 2*maxDepth)},
	{ID: "many nodes", Effect: sdk.Deny, When: "true" + strings.Repeat("||true", maxNodes/2)},
}

func TestCompileErrors(t *testing.T) {
	var b strings.Builder
	for i := range badRules {
		badRules[i].Pos = "rules.yaml:" + string(rune('a'+i%26)) + ":3"
	}
	_, err := Compile(badRules)
	if err == nil {
		t.Fatal("the bad rules compile")
	}
	var one *Error
	if !errors.As(err, &one) || one.Pos != badRules[0].Pos {
		t.Errorf("the first error is %+v", one)
	}
	for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
		if errors.As(e, &one) && (badRules[one.Rule].ID != one.RuleID || badRules[one.Rule].Pos != one.Pos) {
			t.Errorf("rule %d is %q, not %q", one.Rule, badRules[one.Rule].ID, one.RuleID)
		}
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if len(line) > 400 {
			line = line[:40] + "…" + line[len(line)-120:]
		}
		b.WriteString(line + "\n")
	}
	for _, r := range badRules[3:] {
		if r.ID != "" && !strings.Contains(err.Error(), `"`+r.ID+`"`) {
			t.Errorf("rule %q compiles", r.ID)
		}
	}
	golden(t, "testdata/errors.golden", b.String())
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if os.Getenv("GOLDEN") == "write" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; write it with GOLDEN=write go test", err)
	}
	if got != string(want) {
		t.Errorf("%s is out of date; look at the difference, then GOLDEN=write go test:\n%s", path, got)
	}
}

func TestTooManyRules(t *testing.T) {
	if _, err := Compile(make([]Rule, MaxRules+1)); err == nil || !strings.Contains(err.Error(), "the limit is 1000000") {
		t.Errorf("got %v", err)
	}
}

// Everyday conditions must not pay for the meter, and those whose cost a call controls must not go without.
func TestMeter(t *testing.T) {
	for when, want := range map[string]bool{
		`args.amount <= 1000000`:                          false,
		`has(args.a) && args.a.b.c in ["x", "y"]`:         false,
		`args.path.startsWith("/tmp/") && agent == "x"`:   false,
		`[1, 2, 3].exists(x, x == args.n)`:                false,
		`args.l.all(x, x > 0)`:                            true,
		`args.exists(k, args[k] == 1)`:                    true,
		`args.s.matches("^[a-z]+(-[a-z]+)*@example.com")`: true,
	} {
		c, faults := compileCondition(when)
		if len(faults) > 0 {
			t.Fatalf("%s: %s", when, faults[0].Msg)
		}
		if c.metered != want {
			t.Errorf("%s: metered %v, want %v", when, c.metered, want)
		}
	}
}

// A source that compiles must be safe to run, whatever the call.
func FuzzCondition(f *testing.F) {
	for _, when := range []string{
		`args.a <= 0.1`, `[1, 2.5].map(x, x * args.a) == args.l`, `{args.a: 1}[3] in [args.l[0]]`, `-args.a + 1e3 > .5`,
		`args.l.filter(x, x > 1).size() % 2 == 1`, `string(args.a) + "x" in ["1x"]`, `args.o == {"a": [1, null]}`,
		`- 0.5 < 1`,
	} {
		f.Add(when, `{"a":3,"l":[1,2.5],"o":{"a":[1,null]}}`)
	}
	f.Fuzz(func(t *testing.T, when, args string) {
		if len(when) > 200 {
			return
		}
		c, faults := compileCondition(when)
		if len(faults) > 0 {
			if faults[0].Msg == "" {
				t.Errorf("%q: an error without a text", when)
			}
			return
		}
		call := callWith(t, "")
		if v, ok := tryDocument(args); ok {
			call.Args = v
		}
		sc := newScope(t.Context(), call)
		defer sc.release()
		first, err := c.eval(sc)
		second, again := c.eval(sc)
		if first != second || !errors.Is(again, err) {
			t.Errorf("%q: %v %v, then %v %v", when, first, err, second, again)
		}
		if err != nil && first {
			t.Errorf("%q holds and fails", when)
		}
	})
}

// TestLargeExpressions: what would take gigabytes once compiled is refused before CEL compiles it.
func TestLargeExpressions(t *testing.T) {
	for _, when := range []string{
		`args.s.matches("(` + strings.Repeat("abcdefghij", 390) + `){800}")`,
		`matches(args.s, "(` + strings.Repeat("abcdefghij", 390) + `){800}")`,
		`[1].exists(x, args.s.matches("(` + strings.Repeat("abcdefghij", 150) + `){800}"))`,
		strings.Repeat(`args.s.matches("(abcdefghijabcdefghij){999}")||`, 100) + "true",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Compile([]Rule{{ID: "x", Effect: sdk.Deny, When: when}})
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), "limit is 500 for one and 100000 for all") {
			t.Errorf("%.60s: %v", when, err)
		}
		if made := (after.TotalAlloc - before.TotalAlloc) >> 20; made > 50 {
			t.Errorf("%.60s: %d MiB", when, made)
		}
	}
}
