package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/yett-dev/yett/plugins/internal/policyfiles/policytest"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/plugin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// configured is a plugin in force, closed with the test.
func configured(t testing.TB, config any) *authorizer {
	t.Helper()
	return policytest.Configured(t, newAuthorizer(), config)
}

// authz is a module of package yett.authz.
func authz(rules string) map[string]any {
	return map[string]any{"policy": "package yett.authz\n\n" + rules}
}

func call(args string) *plugin.Call { return policytest.Call(args) }

func TestDecisions(t *testing.T) {
	long := strings.Repeat("x", maxText+1)
	for _, c := range []struct {
		name, rules string
		want        sdk.Verdict
		err         string
	}{
		{name: "true", rules: `decision := true`, want: sdk.Verdict{Effect: sdk.Permit, Code: "RULE_PERMIT"}},
		{name: "false", rules: `decision := false`, want: sdk.Verdict{Effect: sdk.Deny, Code: "RULE_DENY"}},
		{name: "undefined", rules: `decision := true if input.agent_id == "nobody"`,
			want: sdk.Verdict{Effect: sdk.Deny, Code: codeUndefined,
				Reason: "data.yett.authz.decision is undefined for this call"}},
		{name: "abstain", rules: `decision := {"effect": "ABSTAIN"}`, want: sdk.Verdict{}},
		{name: "lower case", rules: `decision := {"effect": "permit"}`, want: sdk.Verdict{Effect: sdk.Permit, Code: "RULE_PERMIT"}},
		{name: "all of permit", rules: `decision := {"effect": "PERMIT", "code": "OK_1", "reason": "r", "rule_id": "i", "message": "m", "ttl": "2s"}`,
			want: sdk.Verdict{Effect: sdk.Permit, Code: "OK_1", Reason: "r", RuleID: "i", Message: "m", TTL: 2 * time.Second}},
		{name: "all of defer", rules: `decision := {"effect": "DEFER", "approvals": 2, "approvers": ["role:operator", "key:ann"], "expires": "5m", "priority": "high"}`,
			want: sdk.Verdict{Effect: sdk.Defer, Code: "RULE_DEFER", Approvals: 2, From: []string{"role:operator", "key:ann"},
				Expires: 5 * time.Minute, Priority: sdk.PriorityHigh}},
		{name: "mixed case", rules: `decision := {"effect": "Permit"}`, err: "effect is not one of"},
		{name: "no effect", rules: `decision := {"allow": true}`, err: "effect is not one of"},
		{name: "effect of another type", rules: `decision := {"effect": true}`, err: "effect is not one of"},
		{name: "a string", rules: `decision := "PERMIT"`, err: "neither a boolean nor an object"},
		{name: "a number", rules: `decision := 1`, err: "neither a boolean nor an object"},
		{name: "null", rules: `decision := null`, err: "neither a boolean nor an object"},
		{name: "a set", rules: `decision contains true`, err: "neither a boolean nor an object"},
		{name: "a list", rules: `decision := [true]`, err: "neither a boolean nor an object"},
		{name: "unknown member", rules: `decision := {"effect": "PERMIT", "resaon": "r"}`, err: `unknown member "resaon"`},
		{name: "approvals of a permit", rules: `decision := {"effect": "PERMIT", "approvals": 2}`, err: "approvals without the effect DEFER"},
		{name: "code of an abstention", rules: `decision := {"effect": "ABSTAIN", "code": "X"}`, err: "code with the effect ABSTAIN"},
		{name: "bad code", rules: `decision := {"effect": "DENY", "code": "no"}`, err: "code is not"},
		{name: "long reason", rules: `decision := {"effect": "DENY", "reason": "` + long + `"}`, err: "reason has 1025 bytes; at most 1024"},
		{name: "reason of another type", rules: `decision := {"effect": "DENY", "reason": 1}`, err: "reason is not a string"},
		{name: "long rule id", rules: `decision := {"effect": "DENY", "rule_id": "` + long[:257] + `"}`, err: "rule_id has 257 bytes; at most 256"},
		{name: "ttl without a unit", rules: `decision := {"effect": "PERMIT", "ttl": 5}`, err: "ttl is not a duration"},
		{name: "negative ttl", rules: `decision := {"effect": "PERMIT", "ttl": "-5s"}`, err: "ttl is not a duration"},
		{name: "no approvals", rules: `decision := {"effect": "DEFER", "approvals": 0}`, err: "approvals is not a whole number"},
		{name: "half an approval", rules: `decision := {"effect": "DEFER", "approvals": 1.5}`, err: "approvals is not a whole number"},
		{name: "no approvers", rules: `decision := {"effect": "DEFER", "approvers": []}`, err: "approvers is not a list of 1 to 100"},
		{name: "an approver of nobody", rules: `decision := {"effect": "DEFER", "approvers": ["ann"]}`, err: "approvers has an entry"},
		{name: "bad priority", rules: `decision := {"effect": "DEFER", "priority": "urgent"}`, err: "priority is not one of"},
		{name: "two values", rules: "decision := true if input.agent_id\ndecision := false if input.tool_id", err: "eval_conflict_error"},
		{name: "failing built-in", rules: `decision := true if to_number(input.args.word) > 0`, err: "eval_builtin_error at /policy.rego:3: to_number"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := configured(t, authz(c.rules)).Check(t.Context(), call(`{"word":"secret-word"}`))
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("got %+v, %v; want the error %q", got, err, c.err)
				}
				if got.Effect == sdk.Permit || strings.Contains(err.Error(), "secret-word") {
					t.Fatalf("an error with effect %v and text %q", got.Effect, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", c.want) {
				t.Fatalf("got  %#v\nwant %#v", got, c.want)
			}
		})
	}
}

// A policy that a call's words make fail must not fall back on what a permit without the failing rule would say.
func TestBuiltinErrors(t *testing.T) {
	const rules = "default decision := true\n\ndecision := false if to_number(input.args.amount) > 100"
	strict := configured(t, authz(rules))
	if v, err := strict.Check(t.Context(), call(`{"amount":"much"}`)); err == nil || v.Effect == sdk.Permit {
		t.Fatalf("%+v, %v; want an error", v, err)
	}
	m := authz(rules)
	m["builtin_errors"] = "undefined"
	if v, err := configured(t, m).Check(t.Context(), call(`{"amount":"much"}`)); err != nil || v.Effect != sdk.Permit {
		t.Fatalf("%+v, %v; want what Rego says without strict errors", v, err)
	}
}

func TestInput(t *testing.T) {
	a := configured(t, authz(`decision := {"effect": "DENY", "reason": json.marshal(input)}`))
	got, err := a.Check(t.Context(), call(`{"n":12345678901234567890123,"f":1.10,"e":1e2,"list":[null,true,"x"],"o":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"agent_id":"agent-1","args":{"e":100,"f":1.1,"list":[null,true,"x"],"n":12345678901234567890123,"o":{}},"call_id":"c1",` +
		`"context":{"env":"prod"},"key_id":"k1","key_name":"key","operation":"refund","session_id":"s1","time":"2026-01-02T03:04:05.000000678Z","tool_id":"payments/refund"}`
	if got.Reason != want {
		t.Errorf("got  %s\nwant %s", got.Reason, want)
	}
	empty, err := a.Check(t.Context(), &plugin.Call{AgentID: "a"})
	if err != nil || !strings.Contains(empty.Reason, `"args":{}`) || !strings.Contains(empty.Reason, `"context":{}`) {
		t.Errorf("without args: %+v, %v", empty, err)
	}
}

// Numbers are compared by their value, beyond what a float keeps.
func TestNumbersAreExact(t *testing.T) {
	a := configured(t, authz(`decision if input.args.a > input.args.b`+"\n"))
	for _, c := range []struct {
		a, b string
		want sdk.Effect
	}{
		{"9007199254740993", "9007199254740992", sdk.Permit},
		{"100000000000000000000000001", "100000000000000000000000000", sdk.Permit},
		{"100000000000000000000000000", "100000000000000000000000001", sdk.Deny},
		{"0.1000000000000000000000002", "0.1000000000000000000000001", sdk.Permit},
		{"1.0", "1", sdk.Deny},
		{"9007199254740992.90", "9007199254740992.50", sdk.Permit},
		{"9007199254740992.50", "9007199254740992.90", sdk.Deny},
		{"1.00000000000000000000000000000010e30", "1000000000000000000000000000000.10", sdk.Deny},
		{"1.00000000000000000000000000000020e30", "1000000000000000000000000000000.10", sdk.Permit},
		{"-9007199254740992.50", "-9007199254740992.90", sdk.Permit},
		{"1e400", "1e399", sdk.Permit},
	} {
		v, err := a.Check(t.Context(), call(`{"a":`+c.a+`,"b":`+c.b+`}`))
		if err != nil || v.Effect != c.want {
			t.Errorf("%s > %s: %v, %v; want %v", c.a, c.b, v.Effect, err, c.want)
		}
	}
}

func TestBadCalls(t *testing.T) {
	a := configured(t, authz(`decision := true`))
	for name, args := range map[string]string{
		"no JSON":        `{`,
		"a list":         `[]`,
		"twice":          `{"a":1,"a":2}`,
		"bad UTF-8":      "{\"a\":\"\xff\"}",
		"deep":           `{"a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`,
		"many":           `{"a":[` + strings.Repeat("1,", 200_000) + `1]}`,
		"large exponent": `{"a":1e999999}`,
		"small exponent": `{"a":1e-999999}`,
		"many digits":    `{"a":` + strings.Repeat("7", maxDigits+1) + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			if v, err := a.Check(t.Context(), call(args)); err == nil || v.Effect == sdk.Permit {
				t.Errorf("%+v, %v; want an error", v, err)
			}
		})
	}
	if v, err := a.Check(t.Context(), call(`{"a":"`+strings.Repeat("x", 8<<20)+`"}`)); err != nil ||
		v.Effect != sdk.Permit {
		t.Errorf("8 MiB of text: %+v, %v", v, err)
	}
	if v, err := newAuthorizer().Check(t.Context(), call(`{}`)); err == nil || v.Effect == sdk.Permit {
		t.Errorf("before Configure: %+v, %v; want an error", v, err)
	}
}

// An evaluation that would not end is cut off with the check's context.
func TestDeadline(t *testing.T) {
	a := configured(t, authz("decision if {\n\tsome i in numbers.range(1, 1000000000)\n\tsome j in numbers.range(1, "+
		"1000000000)\n\ti * j == -1\n}"))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	v, err := a.Check(ctx, call(`{}`))
	if !errors.Is(err, context.DeadlineExceeded) || v.Effect == sdk.Permit {
		t.Fatalf("%+v, %v; want the deadline", v, err)
	}
}

func TestConcurrency(t *testing.T) {
	dir := t.TempDir()
	writeBundle(t, dir, map[string]string{"p.rego": "package yett.authz\n\ndecision := input.args.n % 2 == 0\n"})
	a := configured(t, map[string]any{"bundle": dir, "reload": "100ms"})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range 200 {
				want := sdk.Deny
				if (g+i)%2 == 0 {
					want = sdk.Permit
				}
				v, err := a.Check(context.Background(), call(fmt.Sprintf(`{"n":%d}`, g+i)))
				if err != nil || v.Effect != want {
					t.Errorf("%d: %v, %v; want %v", g+i, v.Effect, err, want)
					return
				}
			}
		}()
	}
	wg.Wait()
}

func writeBundle(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		tmp := p + ".new"
		if err := os.WriteFile(tmp, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(tmp, p); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOnUndefinedAbstains(t *testing.T) {
	m := authz(`decision := true if input.agent_id == "nobody"`)
	m["on_undefined"] = "abstain"
	if v, err := configured(t, m).Check(t.Context(), call(`{}`)); err != nil || v.Effect != sdk.Abstain || v.Code != "" {
		t.Fatalf("%+v, %v; want ABSTAIN", v, err)
	}
}
