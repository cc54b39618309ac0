package ops_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
)

// The conditions of all standing grants have one bound of time: what was not looked at permits nothing, and the answer
// says so.
func TestConditionsOfGrantsHaveABound(t *testing.T) {
	b := newBench(t, nil)
	bot, boss := b.newKey("bot", "agent"), b.newKey("boss", "operator")
	for range 3 {
		b.must(boss.Value, "standing_grant_add", `{"agent_id":"bot","tool_pattern":"defer","ttl_seconds":60,"args_match":"slow"}`)
	}
	b.must(boss.Value, "standing_grant_add", `{"agent_id":"bot","tool_pattern":"*","ttl_seconds":60,"args_match":"{\"n\":1}"}`)
	got := b.must(bot.Value, "authorize", `{"agent_id":"bot","tool_id":"defer","args":{"n":1}}`)
	if member(got, "effect") != "PERMIT" { // by the one that needs no time
		t.Errorf("got %s", got)
	}
	got = b.must(bot.Value, "authorize", `{"agent_id":"bot","tool_id":"defer","args":{"n":2}}`)
	if member(got, "effect") != "DEFER" || !strings.Contains(got,
		"4 standing grants were left out: their args_match took longer than 50ms") {
		t.Errorf("got %s", got)
	}
}

// asking is a step that defers everything by a rule, or by none.
func asking(rule string, expires time.Duration) chain.Step {
	return chain.Step{Name: "asks-" + rule, Inline: true, OnError: sdk.Deny,
		Checker: fixed{sdk.Verdict{Effect: sdk.Defer, Code: sdk.ReasonRuleDefer, RuleID: rule, Expires: expires}}}
}

type fixed struct{ v sdk.Verdict }

func (f fixed) Check(context.Context, *chain.Call) (sdk.Verdict, error) { return f.v, nil }

// Where several steps defer a call, a grant for the rule of one of them leaves the others' to people, in whatever order
// they stand, and the call waits no longer than each of them lets it.
func TestGrantForOneRuleLeavesTheOthers(t *testing.T) {
	long, short := asking("long", time.Hour), asking("short", 10*time.Second)
	for _, steps := range [][]chain.Step{{long, short}, {short, long}} {
		t.Run(steps[0].Name, func(t *testing.T) {
			b := newBench(t, nil)
			bot, boss := b.newKey("bot", "agent"), b.newKey("boss", "operator")
			b.swap(&chain.Authorizer{Budget: time.Hour, Now: b.now, Default: sdk.Deny, Steps: steps})
			for _, rule := range []string{"long", "short"} {
				b.must(boss.Value, "standing_grant_add",
					`{"agent_id":"bot","tool_pattern":"**","ttl_seconds":60,"rule_id":"`+rule+`"}`)
			}
			got := b.must(bot.Value, "authorize", `{"agent_id":"bot","tool_id":"x","args":{"n":1}}`)
			if member(got, "effect") != "DEFER" {
				t.Fatalf("got %s", got)
			}
			ends, err := time.Parse(time.RFC3339Nano, member(got, "defer_expires_at"))
			if err != nil || ends.After(b.now().Add(10*time.Second)) { // the default is a minute
				t.Errorf("it waits until %v (%v): longer than the shortest of its steps lets it", ends, err)
			}
			b.must(boss.Value, "approve_defer", `{"defer_token":"`+member(got, "defer_token")+
				`","approved":true,"grant":{"ttl_seconds":60}}`)
			if got = b.must(bot.Value, "authorize", `{"agent_id":"bot","tool_id":"x","args":{"n":2}}`); member(got,
				"reason_code") != sdk.ReasonStandingConsumed {
				t.Errorf("the grant of an approval of both: %s", got)
			}
		})
	}
}

// whenArgs is a step without a rule that defers where the args have n, and says nothing else.
type whenArgs struct{ n string }

func (w whenArgs) Check(_ context.Context, c *chain.Call) (sdk.Verdict, error) {
	if c.Args.Get(w.n).Exists() {
		return sdk.Verdict{Effect: sdk.Defer, Code: sdk.ReasonRuleDefer}, nil
	}
	return sdk.Verdict{}, nil
}

// The grant of an approval stands against the steps that had deferred the call, also where these name no rule.
func TestGrantOfAnApprovalKnowsStepsWithoutRules(t *testing.T) {
	b := newBench(t, nil)
	bot, boss := b.newKey("bot", "agent"), b.newKey("boss", "operator")
	asks := func(name string) chain.Step {
		return chain.Step{Name: name, Inline: true, OnError: sdk.Deny, Checker: whenArgs{name}}
	}
	b.swap(&chain.Authorizer{Budget: time.Hour, Now: b.now, Default: sdk.Defer,
		Steps: []chain.Step{asks("risk"), asks("office")}})
	ask := func(args string) string {
		return b.must(bot.Value, "authorize", `{"agent_id":"bot","tool_id":"x","args":{`+args+`}}`)
	}
	token := member(ask(`"risk":1`), "defer_token")
	b.must(boss.Value, "approve_defer", `{"defer_token":"`+token+`","approved":true,"grant":{"ttl_seconds":60}}`)
	for args, want := range map[string]string{`"risk":2`: "PERMIT", `"office":1`: "DEFER", `"risk":3,"office":2`: "DEFER",
		``: "DEFER"} {
		if got := ask(args); member(got, "effect") != want {
			t.Errorf("{%s}: %s, want %s", args, got, want)
		}
	}
}

// namesRule defers a call that has an argument of that name, under a rule of that name, and fails at one that has the
// argument "fail".
type namesRule struct{ arg, rule string }

func (c namesRule) Check(_ context.Context, call *chain.Call) (sdk.Verdict, error) {
	switch {
	case call.Args.Get("fail").Exists():
		return sdk.Verdict{}, errors.New("it does not work")
	case !call.Args.Get(c.arg).Exists():
		return sdk.Verdict{}, nil
	}
	return sdk.Verdict{Effect: sdk.Defer, Code: "RULE_DEFER", Reason: c.arg, RuleID: c.rule}, nil
}

// The grant of an approval stands against a rule of the step that named it: not against another step's rule of that
// name, nor against what the step says when it works, where it had failed, nor against a rule that the approver took
// the call out of.
func TestGrantsOfApprovalsAreForTheirSteps(t *testing.T) {
	const money, risk, both, fails = `"money":1`, `"risk":1`, `"money":1,"risk":1`, `"fail":1`
	for name, c := range map[string]struct {
		asked, changed string
		rules          [2]string // of the steps money and risk
		want           map[string]string
	}{
		"rules of one name":      {money, "", [2]string{"big", "big"}, map[string]string{money: "PERMIT", risk: "DEFER", both: "DEFER"}},
		"both of them":           {both, "", [2]string{"big", "big"}, map[string]string{money: "PERMIT", risk: "PERMIT", both: "PERMIT"}},
		"named like a step":      {money, "", [2]string{"step risk", ""}, map[string]string{money: "PERMIT", risk: "DEFER"}},
		"named like a failure":   {money, "", [2]string{"failure of step risk", ""}, map[string]string{money: "PERMIT", fails: "DEFER"}},
		"a failure":              {fails, "", [2]string{"", "big"}, map[string]string{fails: "PERMIT", money: "DEFER", risk: "DEFER"}},
		"changed to another one": {money, risk, [2]string{"a", "b"}, map[string]string{money: "DEFER", risk: "PERMIT"}},
		"changed to none":        {money, `"little":1`, [2]string{"a", "b"}, map[string]string{money: "DEFER", risk: "DEFER"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			bot, boss := b.newKey("bot", "agent"), b.newKey("boss", "operator")
			step := func(name, rule string) chain.Step {
				return chain.Step{Name: name, Inline: true, OnError: sdk.Defer, Checker: namesRule{name, rule}}
			}
			b.swap(&chain.Authorizer{Budget: time.Hour, Now: b.now, Default: sdk.Permit,
				Steps: []chain.Step{step("money", c.rules[0]), step("risk", c.rules[1])}})
			ask := func(args string) string {
				return b.must(bot.Value, "authorize", `{"agent_id":"bot","tool_id":"x","args":{`+args+`}}`)
			}
			changed := ""
			if c.changed != "" {
				changed = `,"modified_args":{` + c.changed + `}`
			}
			got := b.must(boss.Value, "approve_defer",
				`{"defer_token":"`+member(ask(c.asked), "defer_token")+`","approved":true,"grant":{"ttl_seconds":60}`+changed+`}`)
			if none := name == "changed to none"; none != (member(got, "grant_id") == "") ||
				none != strings.Contains(got, "no rule defers the call with the changed arguments") {
				t.Errorf("approved: %s", got)
			}
			for args, want := range c.want {
				if got := ask(args); member(got, "effect") != want {
					t.Errorf("{%s}: %s, want %s", args, got, want)
				}
			}
		})
	}
}

// Where a redemption finds that today's rules ask for more, who answers the changed call reads of all of them, and a
// grant that comes with that answer stands against all of them.
func TestGrantsOfChangedCallsKnowTheRulesOfToday(t *testing.T) {
	for name, arg := range map[string]string{"a rule deferred the changed call": "a", "none did": "nothing"} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			bot, first, second := b.newKey("bot", "agent"), b.newKey("first", "operator"), b.newKey("second", "operator")
			var steps []chain.Step
			adds := func(arg string) {
				steps = append(steps, chain.Step{Name: "of " + arg, Inline: true, OnError: sdk.Deny,
					Checker: namesRule{arg, "rule " + arg}})
				b.swap(&chain.Authorizer{Budget: time.Hour, Now: b.now, Default: sdk.Permit, Steps: steps})
			}
			adds("big")
			adds(arg)
			token := member(b.must(bot.Value, "authorize", `{"agent_id":"bot","tool_id":"x","args":{"big":1}}`), "defer_token")
			b.must(first.Value, "approve_defer", `{"defer_token":"`+token+`","approved":true,"modified_args":{"a":1,"b":1}}`)
			adds("b")
			if err := b.svc.RevokeKey(context.Background(), first.Key.ID, admin); err != nil {
				t.Fatal(err)
			}
			changed := `{"agent_id":"bot","tool_id":"x","args":{"a":1,"b":1}`
			if got := b.must(bot.Value, "authorize", changed+`,"defer_token":"`+token+`"}`); member(got, "effect") != "DEFER" {
				t.Fatalf("redeemed: %s", got)
			}
			view := b.must(second.Value, "approval_get", `{"defer_token":"`+token+`"}`)
			rules := `"rules":["rule b"],"steps":["of b"]`
			if arg == "a" {
				rules = `"rules":["rule a","rule b"],"steps":["of a","of b"]`
			}
			if !strings.Contains(view, rules) {
				t.Errorf("the view: %s", view)
			}
			got := b.must(second.Value, "approve_defer",
				`{"defer_token":"`+token+`","approved":true,"digest":"`+member(view, "digest")+`","grant":{"ttl_seconds":60}}`)
			if member(got, "grant_id") == "" {
				t.Errorf("approved: %s", got)
			}
			if got := b.must(bot.Value, "authorize", changed+`,"call_id":"another"}`); member(got, "effect") != "PERMIT" {
				t.Errorf("with the grant: %s", got)
			}
		})
	}
}

// needs defers a call that has an argument of that name until two approve it.
type needs struct{ arg string }

func (n needs) Check(_ context.Context, call *chain.Call) (sdk.Verdict, error) {
	if !call.Args.Get(n.arg).Exists() {
		return sdk.Verdict{}, nil
	}
	return sdk.Verdict{Effect: sdk.Defer, Code: "RULE_DEFER", RuleID: "rule " + n.arg, Approvals: 2}, nil
}

// Who asked for a grant when fewer rules deferred the call has not asked for one against those that defer it since.
func TestNobodyGrantsAgainstRulesThatCameLater(t *testing.T) {
	for _, later := range []bool{false, true} {
		b := newBench(t, nil)
		bot := b.newKey("bot", "agent")
		one, two, three := b.newKey("one", "operator"), b.newKey("two", "operator"), b.newKey("three", "operator")
		steps := []chain.Step{{Name: "of a", Inline: true, OnError: sdk.Deny, Checker: needs{"a"}}}
		b.swap(&chain.Authorizer{Budget: time.Hour, Now: b.now, Default: sdk.Permit, Steps: steps})
		const call = `{"agent_id":"bot","tool_id":"x","args":{"a":1,"b":1}`
		token := member(b.must(bot.Value, "authorize", call+"}"), "defer_token")
		approve := func(key, rest string) string {
			return b.must(key, "approve_defer", `{"defer_token":"`+token+`","approved":true`+rest+`}`)
		}
		const grant = `,"grant":{"ttl_seconds":60}`
		approve(one.Value, grant)
		approve(two.Value, "")
		if err := b.svc.RevokeKey(context.Background(), two.Key.ID, admin); err != nil {
			t.Fatal(err)
		}
		if later {
			steps = append(steps, chain.Step{Name: "of b", Inline: true, OnError: sdk.Deny, Checker: needs{"b"}})
			b.swap(&chain.Authorizer{Budget: time.Hour, Now: b.now, Default: sdk.Permit, Steps: steps})
		}
		if got := b.must(bot.Value, "authorize", call+`,"defer_token":"`+token+`"}`); member(got, "effect") != "DEFER" {
			t.Fatalf("redeemed: %s", got)
		}
		got := approve(three.Value, grant)
		if member(got, "status") != "approved" || (member(got, "grant_id") == "") != later {
			t.Errorf("with a later rule %t: %s", later, got)
		}
	}
}

// saysOf is a step that defers a call under the rule that the args name for it, if they name one, and fails at one that
// has "fail".
type saysOf struct{ step string }

func (c saysOf) Check(_ context.Context, call *chain.Call) (sdk.Verdict, error) {
	rule := call.Args.Get(c.step)
	switch {
	case call.Args.Get("fail").Exists():
		return sdk.Verdict{}, errors.New("it does not work")
	case !rule.Exists():
		return sdk.Verdict{}, nil
	}
	return sdk.Verdict{Effect: sdk.Defer, Code: "RULE_DEFER", RuleID: rule.Str()}, nil
}

// A grant that names a rule, and not its step, permits a call that one step alone defers, by a rule of that name. Where
// two steps defer a call by rules of that name, nobody can say which of them the grant is for. One that names the step
// too is for that step's rule.
func TestGrantsByHandAreForOneRule(t *testing.T) {
	const alone, other, both, apart, fails = `"house":"money"`, `"risk":"money"`, `"house":"money","risk":"money"`,
		`"house":"money","risk":"x"`, `"fail":1`
	for name, c := range map[string]struct {
		grant string
		want  map[string]string
	}{
		"a rule":               {`"rule_id":"money"`, map[string]string{alone: "PERMIT", other: "PERMIT", both: "DEFER", apart: "DEFER", fails: "DEFER"}},
		"a rule of a step":     {`"rule_id":"money","step":"house"`, map[string]string{alone: "PERMIT", other: "DEFER", both: "DEFER", apart: "DEFER", fails: "DEFER"}},
		"of the other one":     {`"rule_id":"money","step":"risk"`, map[string]string{alone: "DEFER", other: "PERMIT", both: "DEFER", apart: "DEFER"}},
		"of an unknown one":    {`"rule_id":"money","step":"none"`, map[string]string{alone: "DEFER", other: "DEFER", both: "DEFER"}},
		"a step without rules": {`"rule_id":"step house","step":"house"`, map[string]string{`"house":""`: "PERMIT", `"house":"","risk":""`: "DEFER", alone: "DEFER"}},
		"no rule":              {`"note":"all"`, map[string]string{alone: "PERMIT", other: "PERMIT", both: "PERMIT", apart: "PERMIT"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			bot, boss := b.newKey("bot", "agent"), b.newKey("boss", "operator")
			step := func(name string) chain.Step {
				return chain.Step{Name: name, Inline: true, OnError: sdk.Defer, Checker: saysOf{name}}
			}
			b.swap(&chain.Authorizer{Budget: time.Hour, Now: b.now, Default: sdk.Permit,
				Steps: []chain.Step{step("house"), step("risk")}})
			b.must(boss.Value, "standing_grant_add", `{"agent_id":"bot","tool_pattern":"**","ttl_seconds":60,`+c.grant+`}`)
			for args, want := range c.want {
				if got := b.must(bot.Value, "authorize", `{"agent_id":"bot","tool_id":"x","args":{`+args+`}}`); member(got,
					"effect") != want {
					t.Errorf("{%s}: %s, want %s", args, got, want)
				}
			}
		})
	}
}

// down is a scanner that cannot look.
type down struct{ finds }

func (down) Scan(context.Context, *chain.Input) ([]sdk.Finding, error) {
	return nil, errors.New("down")
}

// A plugin cannot call its rule what the gateway calls a step that failed, or one that named no rule: a grant for the
// one does not stand against the other, whoever made it, and whether or not the name can be masked.
func TestPluginsCannotTakeNamesOfTheGateway(t *testing.T) {
	const fails, nameless = `"fail":1`, `"plug":""`
	says := func(rule string) string { return `"plug":` + strconv.Quote(rule) }
	failure, step := says("failure of step plug"), says("step plug")
	for name, c := range map[string]struct {
		asked, grant string // by an approval of such a call, or by hand
		down         bool   // the scanners, when the grant is used
		want         map[string]string
	}{
		"an approval of a false failure": {asked: failure, want: map[string]string{failure: "PERMIT", fails: "DEFER", says(`"failure of step plug"`): "DEFER"}},
		"of a true one":                  {asked: fails, want: map[string]string{fails: "PERMIT", failure: "DEFER"}},
		"of a true one, masked later":    {asked: fails, down: true, want: map[string]string{fails: "PERMIT", failure: "DEFER"}},
		"of a false name of the step":    {asked: step, want: map[string]string{step: "PERMIT", nameless: "DEFER", says(`"step plug"`): "DEFER"}},
		"of the name in quotes":          {asked: says(`"step plug"`), want: map[string]string{step: "DEFER", says(`"step plug"`): "PERMIT"}},
		"of the true one":                {asked: nameless, want: map[string]string{nameless: "PERMIT", step: "DEFER"}},
		"of a name that begins alike":    {asked: says("steps"), want: map[string]string{says("steps"): "PERMIT", says("failure of steps"): "DEFER"}},
		"a failure by hand":              {grant: "failure of step plug", want: map[string]string{fails: "PERMIT", failure: "DEFER"}},
		"by hand, masked later":          {grant: "failure of step plug", down: true, want: map[string]string{fails: "PERMIT", failure: "DEFER"}},
		"no rule by hand":                {grant: "step plug", want: map[string]string{nameless: "PERMIT", step: "DEFER"}},
		"and its step":                   {grant: `step plug","step":"plug`, down: true, want: map[string]string{nameless: "PERMIT", step: "DEFER"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			bot, boss := b.newKey("bot", "agent"), b.newKey("boss", "operator")
			mask := func(s chain.Scanner) {
				b.swap(&chain.Authorizer{Budget: time.Hour, Now: b.now, Default: sdk.Permit,
					Steps: []chain.Step{{Name: "plug", OnError: sdk.Defer, Checker: saysOf{"plug"}}},
					Said: &chain.ScanChain{Budget: time.Hour, Now: b.now,
						Steps: []chain.ScanStep{{Name: "scanner", Scanner: s, OnError: sdk.Deny}}}})
			}
			n := 0
			ask := func(args string) string {
				n++
				return b.must(bot.Value, "authorize", fmt.Sprintf(`{"agent_id":"bot","tool_id":"x","args":{%s,"n":%d}}`, args, n))
			}
			mask(finds{})
			if c.asked != "" {
				b.must(boss.Value, "approve_defer", `{"defer_token":"`+member(ask(c.asked), "defer_token")+
					`","approved":true,"grant":{"ttl_seconds":60}}`)
			} else {
				b.must(boss.Value, "standing_grant_add",
					`{"agent_id":"bot","tool_pattern":"**","ttl_seconds":60,"rule_id":"`+c.grant+`"}`)
			}
			if c.down {
				mask(down{})
			}
			for args, want := range c.want {
				if got := ask(args); member(got, "effect") != want {
					t.Errorf("{%s}: %s, want %s", args, got, want)
				}
			}
		})
	}
}

// What a plugin calls so is shown in quotes, to whoever reads the answer and to approvers.
func TestFalseNamesOfTheGatewayAreQuoted(t *testing.T) {
	b := newBench(t, nil)
	bot, boss := b.newKey("bot", "agent"), b.newKey("boss", "operator")
	b.swap(&chain.Authorizer{Budget: time.Hour, Now: b.now, Default: sdk.Permit,
		Steps: []chain.Step{{Name: "plug", OnError: sdk.Defer, Checker: saysOf{"plug"}}}})
	for _, name := range []string{"failure of step plug", "step plug", "[SECRET_X] #0123456789abcdef"} {
		got := b.must(bot.Value, "authorize", `{"agent_id":"bot","tool_id":"x","args":{"plug":"`+name+`"}}`)
		if !strings.Contains(got, `"rule_id":"\"`+name+`\""`) {
			t.Errorf("answered %s", got)
		}
		view := b.must(boss.Value, "approval_get", `{"defer_token":"`+member(got, "defer_token")+`"}`)
		if !strings.Contains(view, `"rules":["\"`+name+`\" #`) || !strings.Contains(view, `"rule_id":"\"`+name+`\""`) {
			t.Errorf("approvers see %s", view)
		}
	}
}
