package rules

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
)

var testNow = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func document(t testing.TB, src string) exact.Value {
	t.Helper()
	if src == "" {
		return exact.Value{}
	}
	var d exact.Doc
	if err := d.Parse(src, exact.DefaultLimits); err != nil {
		t.Fatalf("document %q: %v", src, err)
	}
	return d.Root()
}

func tryDocument(src string) (exact.Value, bool) {
	var d exact.Doc
	if err := d.Parse(src, exact.DefaultLimits); err != nil || d.Root().Kind() != exact.Object {
		return exact.Value{}, false
	}
	return d.Root(), true
}

func callWith(t testing.TB, args string) *chain.Call {
	t.Helper()
	return &chain.Call{
		KeyID: "k1", KeyName: "pay bot key", AgentID: "bot-7", SessionID: "s1", ToolID: "pay/refund", Operation: "refund",
		Args: document(t, args), Context: document(t, `{"region":"eu"}`), Now: testNow,
	}
}

func compileOne(t testing.TB, r Rule) *Set {
	t.Helper()
	if r.ID == "" {
		r.ID = "r"
	}
	s, err := Compile([]Rule{r})
	if err != nil {
		t.Fatalf("Compile: %v", err)
	}
	return s
}

// outcome evaluates a condition alone: "true", "false" or the class of its error.
func outcome(t testing.TB, when, args string) string {
	t.Helper()
	c, faults := compileCondition(when)
	if len(faults) > 0 {
		t.Fatalf("%s: does not compile: %s", when, faults[0].Msg)
	}
	sc := newScope(t.Context(), callWith(t, args))
	defer sc.release()
	ok, err := c.eval(sc)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(ok)
}

func TestFirstMatchSpeaks(t *testing.T) {
	rules := []Rule{
		{ID: "other tool", Tools: []string{"mail/*"}, Effect: sdk.Deny},
		{ID: "other agent", Tools: []string{"pay/*"}, Agents: []string{"cat-*"}, Effect: sdk.Deny},
		{ID: "not holding", Tools: []string{"**"}, When: "args.amount > 10", Effect: sdk.Deny},
		{ID: "defer", Tools: []string{"x", "pay/refund"}, Agents: []string{"bot-*"}, Effect: sdk.Defer, Code: "ASK",
			Reason: "why", Message: "wait", Approvals: 2, Expires: time.Minute},
		{ID: "late", Effect: sdk.Permit},
	}
	s, err := Compile(rules)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Check(t.Context(), callWith(t, `{"amount":1}`))
	want := sdk.Verdict{Effect: sdk.Defer, Code: "ASK", Reason: "why", RuleID: "defer", Message: "wait", Approvals: 2,
		Expires: time.Minute}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	got, _ = s.Check(t.Context(), callWith(t, `{"amount":11}`))
	if got.RuleID != "not holding" || got.Code != sdk.ReasonRuleDeny {
		t.Errorf("an earlier rule must speak first, got %+v", got)
	}
	other := callWith(t, `{"amount":1}`)
	other.ToolID = "calendar"
	if got, _ = s.Check(t.Context(), other); got.RuleID != "late" || got.Code != sdk.ReasonRulePermit {
		t.Errorf("no tools means all tools, got %+v", got)
	}
}

func TestNoMatchAbstains(t *testing.T) {
	s := compileOne(t, Rule{Tools: []string{"mail"}, Effect: sdk.Permit})
	got, err := s.Check(t.Context(), callWith(t, `{}`))
	if err != nil || !reflect.DeepEqual(got, sdk.Verdict{}) {
		t.Errorf("got %+v, %v; want the zero verdict", got, err)
	}
	empty, err := Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := empty.Check(t.Context(), callWith(t, `{}`)); err != nil || !reflect.DeepEqual(got, sdk.Verdict{}) {
		t.Errorf("no rules: got %+v, %v", got, err)
	}
}

// Each of these conditions fails on the call; none may help the caller.
func TestErrorsFailClosed(t *testing.T) {
	failing := []struct{ when, args, class string }{
		{`args.amount < 10`, `{}`, "no such key"},
		{`args.amount < 10`, ``, "no such key"},
		{`args.amount < 10`, `{"amount":"1"}`, "no such overload"},
		{`args.amount < 10`, `{"amount":null}`, "no such overload"},
		{`int(args.amount) < 10`, `{"amount":1.5}`, "number out of range"},
		{`args.amount / 0 < 10`, `{"amount":1}`, "division by zero"},
		{`args.l[9] < 10`, `{"l":[1]}`, "index out of bounds"},
		{`args.amount * args.amount < 10`, `{"amount":1e900000000}`, "number out of range"},
		{`args.l.all(x, args.l.all(y, args.l.all(z, x + y + z >= 0)))`, bigList(200), "cost limit exceeded"},
		{`args.s.matches("a+")`, `{"s":"` + strings.Repeat("a", maxMatched+1) + `"}`, "text too long for matches"},
		{`args.a.b.c == 1`, `{"a":{"b":7}}`, "no such key"},
		{`has(args.a.b)`, `{"a":7}`, "no such key"},
	}
	for _, tt := range failing {
		for _, effect := range []sdk.Effect{sdk.Permit, sdk.Deny, sdk.Defer} {
			if testkit.Quick() && effect == sdk.Defer {
				continue // as a denial
			}
			s := compileOne(t, Rule{When: tt.when, Effect: effect, Reason: "why"})
			got, err := s.Check(t.Context(), callWith(t, tt.args))
			if err != nil {
				t.Errorf("%s: %v", tt.when, err)
			}
			want := sdk.Verdict{}
			if effect != sdk.Permit {
				want = s.rules[0].verdict
				want.Reason = "why (its condition failed: " + tt.class + ")"
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%v when %s: got %+v, want %+v", effect, tt.when, got, want)
			}
		}
	}
}

func bigList(n int) string {
	return `{"l":[` + strings.TrimSuffix(strings.Repeat("1,", n), ",") + `]}`
}

func TestReasonsCarryNoValues(t *testing.T) {
	const secret = "hunter2hunter2"
	for _, when := range []string{
		`{"a": 1}[args.s] == 1`, `int(args.s) == 1`, `timestamp(args.s) == now`, `args.s > 3`, `args.o[args.s] == 1`,
		`duration(args.s) > duration("1s")`, `args.s.getHours() == 1`, `bool(args.s)`, `double(args.s) > 0.1`,
	} {
		s := compileOne(t, Rule{When: when, Effect: sdk.Deny})
		got, err := s.Check(t.Context(), callWith(t, `{"s":"`+secret+`","o":{}}`))
		if err != nil {
			t.Fatal(err)
		}
		if got.Effect != sdk.Deny || !strings.Contains(got.Reason, "condition failed") ||
			strings.Contains(got.Reason, secret) {
			t.Errorf("%s: got %+v", when, got)
		}
	}
}

func TestBudgetOfSteps(t *testing.T) {
	// Walking to the end of a long list each time is what CEL's own meter does not see.
	args := bigList(40_000)
	when := `args.l.exists(x, args.l[39999] != 1)`
	if got := outcome(t, when, args); got != errBudget.Error() {
		t.Errorf("got %s", got)
	}
	// A fold that stops early for lack of budget must not pass for a complete one.
	sc := newScope(t.Context(), callWith(t, bigList(100)))
	defer sc.release()
	c, _ := compileCondition(`args.l.all(x, x == 1)`)
	if ok, err := c.eval(sc); !ok || err != nil {
		t.Fatalf("got %v, %v", ok, err)
	}
	sc.steps = 50
	if v, _ := c.run(sc); !sc.spent() {
		t.Errorf("a fold over 100 elements fits in 50 steps: %v", v)
	}
}

func TestCancellation(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	call := callWith(t, bigList(300))
	const loop = `args.l.all(x, args.l.all(y, x + y == 2))`
	permit := compileOne(t, Rule{When: loop, Effect: sdk.Permit})
	if v, err := permit.Check(ctx, call); !errors.Is(err, context.Canceled) || !reflect.DeepEqual(v, sdk.Verdict{}) {
		t.Errorf("permit: got %+v, %v", v, err)
	}
	deny := compileOne(t, Rule{When: loop, Effect: sdk.Deny})
	if v, err := deny.Check(ctx, call); !errors.Is(err, context.Canceled) || v.Effect != sdk.Deny {
		t.Errorf("deny: got %+v, %v", v, err)
	}
	// In the middle of an evaluation: the condition starts with a live context and loses it.
	c, _ := compileCondition(loop)
	if !c.metered {
		t.Fatal("a loop inside a loop must be metered")
	}
	sc := newScope(ctx, call)
	defer sc.release()
	if _, err := c.eval(sc); !errors.Is(err, errInterrupted) {
		t.Errorf("got %v", err)
	}
}

func TestExplain(t *testing.T) {
	s, err := Compile([]Rule{
		{ID: "elsewhere", Tools: []string{"mail"}, Effect: sdk.Deny},
		{ID: "stranger", Agents: []string{"x"}, Effect: sdk.Deny},
		{ID: "small", When: "args.amount < 1", Effect: sdk.Deny},
		{ID: "broken", When: "args.nope < 1", Effect: sdk.Permit},
		{ID: "shut", When: `args["of"].deep < 1`, Effect: sdk.Defer},
		{ID: "never reached", Effect: sdk.Permit},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := s.Explain(t.Context(), callWith(t, `{"amount":5,"of":{}}`))
	want := []Considered{
		{"stranger", sdk.Deny, OtherAgent, ""},
		{"small", sdk.Deny, NotHolding, ""},
		{"broken", sdk.Permit, FailedApart, "no such key: nope"},
		{"shut", sdk.Defer, FailedShut, "no such key: deep"},
	}
	if got.Rules != 6 || got.Cut != 0 || got.Err != nil || got.Verdict.RuleID != "shut" ||
		!reflect.DeepEqual(got.Lines, want) {
		t.Errorf("got %+v, want %v", got, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := s.Explain(ctx, callWith(t, `{"amount":5}`)); !errors.Is(got.Err, context.Canceled) ||
		got.Verdict.Effect != sdk.Deny || got.Verdict.RuleID != "small" {
		t.Errorf("a context that is done: %+v", got)
	}
	permits := compileOne(t, Rule{When: "args.amount < 1", Effect: sdk.Permit})
	if got := permits.Explain(ctx, callWith(t, `{"amount":0}`)); !errors.Is(got.Err, context.Canceled) ||
		got.Verdict.Effect != sdk.Abstain {
		t.Errorf("a context that is done, a permit: %+v", got)
	}
}

// An explanation names the key that is missing only where the rule does: one that is worked out is a value of the call.
func TestExplainNamesNoValues(t *testing.T) {
	for when, want := range map[string]string{
		`args.amount > 1`:         "no such key: amount",
		`args["amount"] > 1`:      "no such key: amount",
		`context.user.id == "a"`:  "no such key: user",
		`args[args.secret] == 1`:  "no such key",
		`args.list[7] == 1`:       "index out of bounds",
		`args.secret.inner == 1`:  "no such key",
		`args.secret < 5`:         "no such overload",
		`args[args.secret + "x"]`: "",
	} {
		s, err := Compile([]Rule{{ID: "r", When: when, Effect: sdk.Deny, Pos: "p"}})
		if err != nil {
			if want != "" {
				t.Errorf("%s: %v", when, err)
			}
			continue
		}
		got := s.Explain(t.Context(), callWith(t, `{"secret":"hunter2","list":[]}`))
		if len(got.Lines) != 1 || !strings.HasPrefix(got.Lines[0].Error, want) ||
			strings.Contains(got.Lines[0].Error, "hunter2") {
			t.Errorf("%s: %+v, want %s", when, got.Lines, want)
		}
	}
}

// What is wrong with a condition is said in words that tell what to write, with its place.
func TestConditionMistakes(t *testing.T) {
	for when, want := range map[string]string{
		`args.amount = 5`:             "1:13: = is no operator; write ==",
		"args.a == 1 &&\n args.b = 2": "2:9: = is no operator; write ==",
		`args.a == 1 & args.b == 2`:   "1:13: & is no operator; write &&",
		`args.a == 1 | args.b == 2`:   "1:13: | is no operator; write ||",
		`args.a == 1 and args.b == 2`: "1:13: and is no operator; write &&",
		`args.a == 1 or args.b == 2`:  "1:13: or is no operator; write ||",
		`not args.a`:                  "1:5: \"args\" cannot stand here",
		`args.name == "bob`:           "1:14: a text has no closing quote",
		`args.amount >`:               "the condition ends too early",
		`(args.amount > 1`:            "the condition ends too early",
		`amount > 1`:                  `1:1: unknown name or function "amount": a condition knows agent,`,
		`args.ok == True`:             `unknown name "True"; write true`,
		`agent > 5`:                   "> does not take string and int",
		`args.a == 1; args.b == 2`:    `";`,
		`tool.startsWith(5)`:          "startsWith does not take",
		`args.amount > 1 ? true`:      "the condition ends too early",
	} {
		_, err := Compile([]Rule{{ID: "r", When: when, Effect: sdk.Deny}})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "token recognition") ||
			strings.Contains(err.Error(), "expecting {") {
			t.Errorf("%s\n got %v\nwant %s", when, err, want)
		}
	}
}

// A long explanation is cut, says so, and still ends with the rule that spoke.
func TestExplainIsBounded(t *testing.T) {
	rules := manyAgents(maxExplained + 50)
	s, err := Compile(rules)
	if err != nil {
		t.Fatal(err)
	}
	got := s.Explain(t.Context(), callWith(t, ""))
	if len(got.Lines) != maxExplained || got.Cut != 50 ||
		got.Lines[maxExplained-1] != (Considered{"it", sdk.Permit, Matched, ""}) || got.Verdict.RuleID != "it" {
		t.Errorf("%d lines, %d cut, verdict %+v", len(got.Lines), got.Cut, got.Verdict)
	}
}

func TestVariables(t *testing.T) {
	for _, when := range []string{
		`agent == "bot-7"`, `session == "s1"`, `tool == "pay/refund"`, `operation == "refund"`,
		`key.id == "k1" && key.name.startsWith("pay")`, `context.region in ["eu", "us"]`, `now.getFullYear() == 2026`,
		`now > timestamp("2026-01-01T00:00:00Z") && now - timestamp("2026-03-04T05:06:00Z") == duration("7s")`,
		`args.size() == 0 && !has(args.amount)`, `key["id"] == "k1"`, `context == {"region": "eu"}`,
	} {
		if got := outcome(t, when, ""); got != "true" {
			t.Errorf("%s: %s", when, got)
		}
	}
	call := callWith(t, `[1]`) // no object: the caller's mistake, nobody's advantage
	sc := newScope(t.Context(), call)
	defer sc.release()
	c, _ := compileCondition(`!has(args.amount)`)
	if ok, err := c.eval(sc); ok || !errors.Is(err, errShape) {
		t.Errorf("args that are no object: %v, %v", ok, err)
	}
}

func TestConcurrentUse(t *testing.T) {
	s := compileOne(t, Rule{When: `args.amount <= 0.5 && args.l.exists(x, x == args.amount) || args.nope == 1`,
		Effect: sdk.Permit})
	done := make(chan error, 8)
	for i := range cap(done) {
		go func() {
			call := callWith(t, fmt.Sprintf(`{"amount":0.%d,"l":[0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8]}`, i+1))
			for range 200 {
				v, err := s.Check(context.Background(), call)
				if err != nil || (v.Effect == sdk.Permit) != (i < 5) {
					done <- fmt.Errorf("amount 0.%d: %+v, %v", i+1, v, err)
					return
				}
			}
			done <- nil
		}()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// A lone star among a rule's agents is everybody, as in keys, steps, grants and kills. In another pattern it stays
// within a segment.
func TestLoneStarIsEveryAgent(t *testing.T) {
	for pattern, agents := range map[string]map[string]bool{
		"*":      {"bot": true, "team/bot": true, "a/b/c": true},
		"**":     {"bot": true, "team/bot": true},
		"team/*": {"bot": false, "team/bot": true, "team/a/b": false},
		"t*":     {"tim": true, "team/bot": false},
	} {
		s, err := Compile([]Rule{{ID: "nobody", Agents: []string{"x", pattern}, Tools: []string{"db/**"}, Effect: sdk.Deny},
			{ID: "db", Tools: []string{"db/**"}, Effect: sdk.Permit}})
		if err != nil {
			t.Fatal(err)
		}
		for agent, denied := range agents {
			call := callWith(t, `{}`)
			call.AgentID, call.ToolID = agent, "db/drop"
			v, err := s.Check(t.Context(), call)
			if err != nil {
				t.Fatal(err)
			}
			if got := v.Effect == sdk.Deny; got != denied {
				t.Errorf("agents [%s], agent %s: %v", pattern, agent, v)
			}
		}
	}
}
