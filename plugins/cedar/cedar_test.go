package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

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

// with is config for one policy text and members as in "nulls", "omit".
func with(policy string, members ...any) map[string]any {
	m := map[string]any{"policy": policy}
	for i := 0; i+1 < len(members); i += 2 {
		m[members[i].(string)] = members[i+1]
	}
	return m
}

func call(args string) *plugin.Call { return policytest.Call(args) }

func TestDecisions(t *testing.T) {
	const all = "permit(principal, action, resource);\n"
	for _, c := range []struct {
		name   string
		config map[string]any
		want   sdk.Verdict
	}{
		{"permit", with(all), sdk.Verdict{Effect: sdk.Permit, Code: "RULE_PERMIT", RuleID: "policy0", Reason: "permitted by policy0"}},
		{"default mapping", with(`permit(principal == Agent::"agent-1", action == Action::"payments/refund", resource == Tool::"payments/refund");`),
			sdk.Verdict{Effect: sdk.Permit, Code: "RULE_PERMIT", RuleID: "policy0", Reason: "permitted by policy0"}},
		{"the whole call", with(`permit(principal, action, resource) when { context.operation == "refund" && context.session_id == "s1" && context.key_id == "k1"
			&& context.key_name == "key" && context.context.env == "prod" && context.args.list.contains("b") && context.time == datetime("2026-01-02T03:04:05Z") };`),
			sdk.Verdict{Effect: sdk.Permit, Code: "RULE_PERMIT", RuleID: "policy0", Reason: "permitted by policy0"}},
		{"no permit", with(`permit(principal == Agent::"other", action, resource);`),
			sdk.Verdict{Effect: sdk.Deny, Code: codeNoPermit, Reason: "no policy permits this call"}},
		{"no permit abstains", with(`permit(principal == Agent::"other", action, resource);`, "on_no_permit", "abstain"),
			sdk.Verdict{Reason: "no policy permits this call"}},
		{"forbid wins", with(all + `@id("stop") @message("Ask a person.") forbid(principal, action, resource) when { context.args.amount > 10 };`),
			sdk.Verdict{Effect: sdk.Deny, Code: "RULE_DENY", RuleID: "stop", Reason: "forbidden by stop",
				Message: "Ask a person."}},
		{"forbid wins over abstention", with(`@id("stop") forbid(principal, action, resource);`, "on_no_permit", "abstain"),
			sdk.Verdict{Effect: sdk.Deny, Code: "RULE_DENY", RuleID: "stop", Reason: "forbidden by stop"}},
		{"two permits", with(all + all), sdk.Verdict{Effect: sdk.Permit, Code: "RULE_PERMIT", RuleID: "policy0", Reason: "permitted by policy0, policy1"}},
		{"failing forbid", with(all + `@id("stop") forbid(principal, action, resource) when { context.args.none > 10 };`),
			sdk.Verdict{Effect: sdk.Deny, Code: codePolicyError, RuleID: "stop",
				Reason: "could not be evaluated, and would forbid: stop"}},
		{"failing forbid abstains", with(`@id("stop") forbid(principal, action, resource) when { context.args.none > 10 };`, "on_no_permit", "abstain"),
			sdk.Verdict{Effect: sdk.Deny, Code: codePolicyError, RuleID: "stop",
				Reason: "could not be evaluated, and would forbid: stop"}},
		{"failing forbid skipped", with(all+`@id("stop") forbid(principal, action, resource) when { context.args.none > 10 };`, "on_policy_error", "skip"),
			sdk.Verdict{Effect: sdk.Permit, Code: "RULE_PERMIT", RuleID: "policy0",
				Reason: "permitted by policy0; could not be evaluated: stop"}},
		{"failing permit", with(`@id("if-small") permit(principal, action, resource) when { context.args.none < 10 };`),
			sdk.Verdict{Effect: sdk.Deny, Code: codeNoPermit,
				Reason: "no policy permits this call; could not be evaluated: if-small"}},
		{"failing permit beside another", with(all + `@id("if-small") permit(principal, action, resource) when { context.args.none < 10 };`),
			sdk.Verdict{Effect: sdk.Permit, Code: "RULE_PERMIT", RuleID: "policy0",
				Reason: "permitted by policy0; could not be evaluated: if-small"}},
		{"id from args", with(`permit(principal, action, resource == Account::"a-1");`, "resource", part{Type: "Account", ID: "/args/account"}),
			sdk.Verdict{Effect: sdk.Permit, Code: "RULE_PERMIT", RuleID: "policy0", Reason: "permitted by policy0"}},
		{"operation as action", with(`permit(principal, action == Bank::Action::"refund", resource);`, "action", part{Type: "Bank::Action", ID: "operation"}),
			sdk.Verdict{Effect: sdk.Permit, Code: "RULE_PERMIT", RuleID: "policy0", Reason: "permitted by policy0"}},
		{"uid from args", with(`permit(principal == User::"ann", action, resource);`, "principal", part{UID: "/args/who", Types: []string{"User"}}),
			sdk.Verdict{Effect: sdk.Permit, Code: "RULE_PERMIT", RuleID: "policy0", Reason: "permitted by policy0"}},
		{"args as context", with(`permit(principal, action, resource) when { context.amount == 11 && !(context has env) };`, "context_from", "/args"),
			sdk.Verdict{Effect: sdk.Permit, Code: "RULE_PERMIT", RuleID: "policy0", Reason: "permitted by policy0"}},
		{"own context", with(`permit(principal, action, resource) when { context == {"x": 1} };`, "context_from", "/args/sub"),
			sdk.Verdict{Effect: sdk.Permit, Code: "RULE_PERMIT", RuleID: "policy0", Reason: "permitted by policy0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := configured(t, c.config).Check(t.Context(),
				call(`{"amount":11,"list":["a","b"],"account":"a-1","who":{"type":"User","id":"ann"},"sub":{"x":1}}`))
			if err != nil {
				t.Fatal(err)
			}
			if fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", c.want) {
				t.Fatalf("got  %#v\nwant %#v", got, c.want)
			}
		})
	}
}

// What cannot be handed to Cedar as it is, is denied or an error (malformed), in words that quote no value.
func TestCallsThatDoNotFit(t *testing.T) {
	permit := "permit(principal, action, resource);"
	user := part{UID: "/args/who", Types: []string{"User"}}
	for _, c := range []struct {
		name   string
		config map[string]any
		args   string
		want   string
	}{
		{"fraction", with(permit), `{"a":0.5}`, `context: args: "a": a number that is not whole`},
		{"beyond 64 bits", with(permit), `{"a":9223372036854775808}`, "beyond 64 bits"},
		{"far beyond", with(permit), `{"a":1e400}`, "beyond 64 bits"},
		{"null", with(permit), `{"a":null}`, "null, which Cedar has not"},
		{"null in a list", with(permit, "nulls", "omit"), `{"a":[null]}`, "null, which Cedar has not"},
		{"five places", with(permit, "decimals", []string{"/args/a"}), `{"a":0.00001}`, "does not fit a decimal"},
		{"large decimal", with(permit, "decimals", []string{"/args/a"}), `{"a":922337203685477.5808}`, "does not fit a decimal"},
		{"huge decimal", with(permit, "decimals", []string{"/args/a"}), `{"a":1e999999999}`, "does not fit a decimal"},
		{"long names", with(permit), strings.Repeat(`{"`+strings.Repeat("x", 64)+`":`, 60) + "0.5" + strings.Repeat("}", 60), " (cut)"},
		{"no JSON", with(permit), `{`, "args:"},
		{"a list", with(permit), `[]`, "args: an array, not an object"},
		{"twice", with(permit), `{"a":1,"a":2}`, "args:"},
		{"deep", with(permit), `{"a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, "args:"},
		{"no id", with(permit, "resource", part{Type: "Account", ID: "/args/account"}), `{}`, "resource: no string at /args/account"},
		{"id of another type", with(permit, "resource", part{Type: "Account", ID: "/args/account"}), `{"account":1}`, "resource: no string at"},
		{"no uid", with(permit, "principal", user), `{}`, "principal: no object with the strings"},
		{"uid of a type that is not listed", with(permit, "principal", user), `{"who":{"type":"Admin","id":"ann"}}`, "not one of types"},
		{"uid with more", with(permit, "principal", user), `{"who":{"type":"User","id":"ann","x":1}}`, "principal: no object with the strings"},
		{"no context", with(permit, "context_from", "/args/sub"), `{}`, "context: no object at /args/sub"},
		{"bad Cedar JSON", with(permit, "context_from", "/args/sub", "context_values", "cedar"), `{"sub":{"ip":{"__extn":{"fn":"ip","arg":"secret-word"}}}}`, "context: not in Cedar's JSON form"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, err := configured(t, c.config).Check(t.Context(), call(c.args))
			why := v.Reason
			if malformed := strings.HasPrefix(c.want, "args:"); malformed {
				why = fmt.Sprint(err)
			} else if err != nil || v.Effect != sdk.Deny || v.Code != codeUnfit {
				t.Fatalf("%+v, %v; want a denial", v, err)
			}
			if !strings.Contains(why, c.want) || strings.Contains(why, "secret-word") || v.Effect == sdk.Permit {
				t.Fatalf("%+v, %v; want %q", v, err, c.want)
			}
		})
	}
	t.Run("no operation", func(t *testing.T) {
		a := configured(t, with(permit, "action", part{Type: "Action", ID: "operation"}))
		if v, err := a.Check(t.Context(), &plugin.Call{AgentID: "a", ToolID: "t"}); err != nil || v.Effect != sdk.Deny ||
			v.Code != codeUnfit {
			t.Errorf("%+v, %v; want DENY", v, err)
		}
	})
	t.Run("not configured", func(t *testing.T) {
		if v, err := newAuthorizer().Check(t.Context(), call(`{}`)); err == nil || v.Effect == sdk.Permit {
			t.Errorf("%+v, %v; want an error", v, err)
		}
	})
	t.Run("past the deadline", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if v, err := configured(t, with(permit)).Check(ctx, call(`{}`)); err == nil || v.Effect == sdk.Permit {
			t.Errorf("%+v, %v; want an error", v, err)
		}
	})
}

// One number is one value however it is written, and decimals are exact.
func TestNumbers(t *testing.T) {
	for _, c := range []struct {
		args, when string
		want       sdk.Effect
	}{
		{`{"a":9223372036854775807}`, `context.args.a == 9223372036854775807`, sdk.Permit},
		{`{"a":-9223372036854775808}`, `context.args.a < -9223372036854775807`, sdk.Permit},
		{`{"a":9007199254740993}`, `context.args.a == 9007199254740992`, sdk.Deny},
		{`{"a":1.0}`, `context.args.a == 1`, sdk.Permit},
		{`{"a":1e2}`, `context.args.a == 100`, sdk.Permit},
		{`{"d":1}`, `context.args.d == decimal("1.0")`, sdk.Permit},
		{`{"d":922337203685477.5807}`, `context.args.d == decimal("922337203685477.5807")`, sdk.Permit},
		{`{"d":-922337203685477.5808}`, `context.args.d == decimal("-922337203685477.5808")`, sdk.Permit},
		{`{"d":-0.0001}`, `context.args.d.lessThan(decimal("0.0"))`, sdk.Permit},
		{`{"list":[{"d":0.1},{"d":0.2}]}`, `context.args.list.contains({"d": decimal("0.2")})`, sdk.Permit},
		{`{"none":null}`, `context.args has none`, sdk.Deny},
	} {
		a := configured(t, with("permit(principal, action, resource) when { "+c.when+" };", "decimals",
			[]string{"/args/d", "/args/list/*/d"}, "nulls", "omit"))
		if v, err := a.Check(t.Context(), call(c.args)); err != nil || v.Effect != c.want {
			t.Errorf("%s with %s: %+v, %v; want %v", c.when, c.args, v, err, c.want)
		}
	}
}

// The caller's words name no entity and no extension value unless the operator wants it so.
func TestEscapesAreOff(t *testing.T) {
	const policy = `permit(principal, action, resource) when { context.who == User::"ann" };`
	const args = `{"sub":{"who":{"__entity":{"type":"User","id":"ann"}}}}`
	plain := configured(t, with(policy, "context_from", "/args/sub"))
	if v, err := plain.Check(t.Context(), call(args)); err != nil || v.Effect != sdk.Deny {
		t.Errorf("plain: %+v, %v; want DENY", v, err)
	}
	cedar := configured(t, with(policy, "context_from", "/args/sub", "context_values", "cedar"))
	if v, err := cedar.Check(t.Context(), call(args)); err != nil || v.Effect != sdk.Permit {
		t.Errorf("cedar: %+v, %v; want PERMIT", v, err)
	}
}

func TestFilesAndSchema(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		t.Helper()
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	put("p/a.cedar", `permit(principal in Team::"ops", action in Action::"money", resource) when { principal.level > 2 };`)
	put("p/sub/b.cedar", `@id("not-prod") forbid(principal, action, resource) when { context.context.env == "test" };`)
	put("p/notes.md", "is of no account")
	entities := put("entities.json", `[{"uid":{"type":"Agent","id":"agent-1"},"attrs":{"level":3},"parents":[{"type":"Team","id":"ops"}]},
		{"uid":{"type":"Team","id":"ops"},"attrs":{},"parents":[]},{"uid":{"type":"Tool","id":"payments/refund"},"attrs":{},"parents":[]}]`)
	const context = `{agent_id: String, session_id: String, tool_id: String, operation: String, key_id: String, key_name: String, time: datetime,
		args: {amount?: Long}, context: {env: String}}`
	schema := put("s.cedarschema", `entity Team; entity Agent in [Team] {level: Long}; entity Tool; action "money";
		action "payments/refund" in ["money"] appliesTo {principal: [Agent], resource: [Tool], context: `+context+`};`)
	if err := os.Symlink("p", filepath.Join(dir, "current")); err != nil {
		t.Fatal(err)
	}
	config := map[string]any{"policies": []string{filepath.Join(dir, "current")}, "entities": entities, "schema": schema}
	a := configured(t, config)
	v, err := a.Check(t.Context(), call(`{"amount":1}`))
	if err != nil || v.Effect != sdk.Permit || v.RuleID != "a.cedar:policy0" {
		t.Errorf("%+v, %v; want PERMIT by a.cedar:policy0", v, err)
	}
	if v, err := a.Check(t.Context(), call(`{"amount":"much"}`)); err != nil || v.Effect != sdk.Deny ||
		v.Code != codeUnfit {
		t.Errorf("against the schema: %+v, %v; want DENY", v, err)
	}
	for name, c := range map[string]struct{ file, text, want string }{
		"policy against the schema": {"p/a.cedar", `permit(principal, action, resource) when { principal.levle > 2 };`, "does not hold to the schema"},
		"entity against the schema": {"entities.json", `[{"uid":{"type":"Agent","id":"agent-1"},"attrs":{},"parents":[]}]`, "entities:"},
		"entity with a slip":        {"entities.json", `[{"uid":{"type":"Agent","id":"agent-1"},"attrs":{},"parents":[],"Parents":[{"type":"Team","id":"ops"}]}]`, `/0: unknown member "Parents"`},
		"entities null":             {"entities.json", `null`, "not a JSON array"},
		"entities twice":            {"entities.json", `[{"uid":{"type":"Tool","id":"t"},"attrs":{},"parents":[]},{"uid":{"type":"Tool","id":"t"},"attrs":{},"parents":[]}]`, "duplicate"},
		"bad schema":                {"s.cedarschema", `entity`, "schema:"},
		"same id twice":             {"p/c.cedar", `@id("not-prod") permit(principal, action, resource);`, `two policies have the id "not-prod"`},
		"a template":                {"p/c.cedar", `permit(principal == ?principal, action, resource);`, "c.cedar"},
		"long id":                   {"p/c.cedar", `@id("` + strings.Repeat("x", 257) + `") permit(principal, action, resource);`, "257 bytes; at most 256"},
		"long message":              {"p/c.cedar", `@message("` + strings.Repeat("x", 1025) + `") permit(principal, action, resource);`, "1025 bytes; at most 1024"},
	} {
		t.Run(name, func(t *testing.T) {
			p := filepath.Join(dir, c.file)
			before, readErr := os.ReadFile(p)
			put(c.file, c.text)
			defer func() {
				if readErr != nil {
					_ = os.Remove(p)
				} else {
					put(c.file, string(before))
				}
			}()
			if err := newAuthorizer().Validate(t.Context(), policytest.Settings(t, config)); err == nil ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %q", err, c.want)
			}
		})
	}
}

func TestConcurrency(t *testing.T) {
	a := configured(t, with(`permit(principal, action, resource) when { context.args.n > 100 };`))
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range 200 {
				want := sdk.Deny
				if g+i > 100 {
					want = sdk.Permit
				}
				if v, err := a.Check(context.Background(), call(fmt.Sprintf(`{"n":%d}`, g+i))); err != nil || v.Effect != want {
					t.Errorf("%d: %v, %v; want %v", g+i, v.Effect, err, want)
					return
				}
			}
		}()
	}
	wg.Wait()
}
