package author

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/config"
)

// runHere runs a command in this process.
func runHere(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

func writeHere(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Every way to send an amount behaves in a file of cases as it does on the wire: permit, deny and defer rules, literal
// on either side.
func TestCasesKeepThresholdsExact(t *testing.T) {
	dir := t.TempDir()
	var rules, cases strings.Builder
	rules.WriteString("rules:\n")
	cases.WriteString("rules: house.yaml\ncases:\n")
	for i, when := range []string{"args.amount <= 1000000", "1000000 >= args.amount"} {
		fmt.Fprintf(&rules, "  - {id: permit%d, tools: [permit%d], when: %q, effect: permit}\n", i, i, when)
	}
	for i, when := range []string{"args.amount > 1000000", "1000000 < args.amount"} {
		fmt.Fprintf(&rules, "  - {id: deny%d, tools: [deny%d], when: %q, effect: deny}\n  - {id: after-deny%d, tools: "+
			"[deny%d], effect: permit}\n", i, i, when, i, i)
		fmt.Fprintf(&rules, "  - {id: defer%d, tools: [defer%d], when: %q, effect: defer}\n  - {id: after-defer%d, tools: "+
			"[defer%d], effect: permit}\n", i, i, when, i, i)
	}
	n := 0
	for args, within := range map[string]bool{
		"{amount: 1000000}": true, "{amount: 1e6}": true, "{amount: 1000000.0}": true,
		"{amount: 999999.99999999999999999999}": true, "{amount: -1e400}": true,
		"{amount: 1000000.01}": false, "{amount: 1000000.00000000000000000001}": false, "{amount: 1000004}": false,
		"{amount: 1e400}": false, `{amount: "1000000"}`: false, "{amount: null}": false, "{}": false, "{amount: [1]}": false,
		"{amount: true}": false,
	} {
		for i := range 2 {
			for effect, want := range map[string]string{"permit": "deny", "deny": "deny", "defer": "defer"} {
				if within {
					want = "permit"
				}
				n++
				fmt.Fprintf(&cases, "  - {name: case %d, call: {agent_id: a, tool_id: %s%d, args: %s}, want: {effect: %s}}\n", n,
					effect, i, args, want)
			}
		}
	}
	writeHere(t, dir, "house.yaml", rules.String())
	path := writeHere(t, dir, "cases.yaml", cases.String())
	code, stdout, stderr := runHere(t, "", "rules", "test", path)
	if code != 0 || !strings.Contains(stderr, fmt.Sprintf("%d of %d cases pass", n, n)) ||
		strings.Count(stdout, "\npass ") != n {
		t.Errorf("exit %d\n%s%s", code, stdout, stderr)
	}
}

func TestCasesSeeEveryVariable(t *testing.T) {
	dir := t.TempDir()
	writeHere(t, dir, "house.yaml", `rules:
  - id: all
    tools: ["**"]
    when: >-
      agent == "a" && session == "s" && tool == "t/o" && operation == "o" && args.n == 1.50 && context.region == "eu" &&
      key.id == "k1" && key.name == "bot" && now == timestamp("2026-03-04T05:06:07Z")
    effect: permit
  - {id: default, tools: ["**"], when: "key.name == \"bot\" && now == timestamp(\"2026-01-01T00:00:00Z\") && !has(args.n)", effect: permit}
`)
	path := writeHere(t, dir, "cases.yaml", `rules: house.yaml
cases:
  - name: all
    call: {agent_id: a, session_id: s, tool_id: t, operation: o, args: {n: 1.5}, context: {region: eu}, key: {id: k1, name: bot}, now: 2026-03-04T06:06:07+01:00}
    want: {effect: permit, rule: all}
  - {name: least, call: {agent_id: a, tool_id: t, key: bot}, want: {effect: permit, rule: default}}
`)
	if code, stdout, stderr := runHere(t, "", "rules", "test", path); code != 0 {
		t.Errorf("exit %d\n%s%s", code, stdout, stderr)
	}
}

func TestJUnitIsXML(t *testing.T) {
	dir := t.TempDir()
	writeHere(t, dir, "house.yaml", "rules:\n  - {id: r, tools: [\"**\"], effect: deny, reason: \"<&]]>\\\" no\"}\n")
	path := writeHere(t, dir, "cases.yaml", "rules: house.yaml\ncases:\n  - {name: \"a <b> & \\\"c\\\"\", call: "+
		"{agent_id: a, tool_id: t}, want: {effect: permit}}\n")
	report := filepath.Join(dir, "report.xml")
	if code, _, stderr := runHere(t, "", "rules", "test", path, "--junit", report); code != 1 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	var got junitSuites
	if err := xml.Unmarshal(text, &got); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if got.Tests != 1 || got.Failures != 1 || got.Suites[0].Cases[0].Name != `a <b> & "c"` ||
		got.Suites[0].Cases[0].Failure.Text != `<&]]>" no` {
		t.Errorf("got %+v", got.Suites[0].Cases[0])
	}
}

// A call may have a time of its own; without one, it is the one handed in. Documents are read as strictly as on the
// wire.
func TestCallOf(t *testing.T) {
	now := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	call, err := callOf(&config.Call{AgentID: "a", ToolID: "t/x", Operation: "o"}, now)
	if err != nil || call.ToolID != "t/x" || !call.Now.Equal(now) || call.Args.Exists() {
		t.Errorf("got %+v, %v", call, err)
	}
	for _, bad := range []config.Call{
		{Args: `{"a":"\u0000"}`}, {Context: `{"a":1,"a":2}`}, {Now: "today"}, {Args: config.Document(strings.Repeat(`{"a":`, 65) + "1" + strings.Repeat("}", 65))},
	} {
		if call, err := callOf(&bad, now); err == nil {
			t.Errorf("%+v gives %+v", bad, call)
		}
	}
}

// The verdict that is explained is the one that rules give in a test of the same call.
func TestExplainAgreesWithTest(t *testing.T) {
	dir := t.TempDir()
	house := writeHere(t, dir, "house.yaml", `rules:
  - {id: broken, tools: ["**"], when: "args.nope == 1", effect: permit}
  - {id: stop, tools: ["a/**"], when: "args.n > 5", effect: deny}
  - {id: ask, tools: ["a/*"], agents: ["x"], effect: defer, approvals: {n: 1, from: ["role:approver"]}}
  - {id: count, tools: ["a/*"], effect: permit, budget: {amount: args.n, limit: 9, window: 1h, per: agent}}
`)
	for call, want := range map[string]string{
		`{agent_id: x, tool_id: a/b, args: {n: 6}}`:  "DENY RULE_DENY stop",
		`{agent_id: x, tool_id: a/b, args: {n: 5}}`:  "DEFER RULE_DEFER ask",
		`{agent_id: y, tool_id: a/b, args: {n: 5}}`:  "PERMIT RULE_PERMIT count",
		`{agent_id: y, tool_id: a/b, args: {n: -1}}`: "DENY SCHEMA_INVALID count",
		`{agent_id: y, tool_id: c}`:                  "DENY UNMATCHED_DENY ",
	} {
		code, stdout, stderr := runHere(t, call, "rules", "explain", "--rules", house, "--call", "-", "-o", "json")
		var e explanation
		if err := json.Unmarshal([]byte(stdout), &e); err != nil || code != 0 {
			t.Fatalf("%s: exit %d, %v: %s", call, code, err, stderr)
		}
		got := e.Verdict.Effect + " " + e.Verdict.ReasonCode + " " + e.Verdict.Rule
		f := strings.Fields(want)
		cases := writeHere(t, dir, "cases.yaml", fmt.Sprintf("rules: house.yaml\ncases:\n  - {name: a, call: %s, want: "+
			"{effect: %s, reason_code: %s}}\n", call, f[0], f[1]))
		code, _, stderr = runHere(t, "", "rules", "test", cases)
		if got != want || code != 0 {
			t.Errorf("%s: explained as %q, want %q; test: exit %d %s", call, got, want, code, stderr)
		}
	}
}
