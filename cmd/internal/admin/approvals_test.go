package admin

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/sdk/client"
	"github.com/yett-dev/yett/sdk/wire"
)

// What could not be masked is said beside the args, where an approver looks.
func TestListedArgsSayWhatIsWithheld(t *testing.T) {
	for call, want := range map[string]string{
		`{"args":{"a":1}}`: `{"a":1}`,
		`{}`:               `{}`,
		`{"args":{"withheld":"timeout","scanner":"s"},"args_withheld":{"cause":"timeout","scanner":"s"}}`: `{"withheld":"timeout","scanner":"s"} (args withheld: timeout, scanner s)`,
		`{"args":{"a":1},"context_withheld":{"cause":"api_key"}}`:                                         `{"a":1} (context withheld: api_key)`,
	} {
		if got := argsOf(&client.Pending{Call: json.RawMessage(call)}); got != want {
			t.Errorf("%s is listed as %s, want %s", call, got, want)
		}
	}
	long := &client.Pending{Call: json.RawMessage(`{"agent_id":"a"}`), Omitted: []string{"args"}, Bytes: 900_000}
	if got := argsOf(long); got != "(long: 900000 bytes, see yett approvals show)" {
		t.Errorf("args that a list leaves out are listed as %s", got)
	}
}

// A call is listed with every rule that defers it. Once its arguments were changed, these are the rules of today.
func TestListedCallsSayWhichRulesDeferThem(t *testing.T) {
	for want, p := range map[string]client.Pending{
		"money: why":             {RuleID: "money", Reason: "why", Rules: []string{"money"}},
		"money and step risk":    {RuleID: "money", Rules: []string{"money", "step risk"}},
		"RULE_DEFER":             {ReasonCode: "RULE_DEFER", Rules: []string{"step risk"}},
		"high: risk":             {RuleID: "money", Priority: "high", Modified: true, Rules: []string{"risk"}},
		"changed":                {RuleID: "money", Reason: "changed", Modified: true},
		"an older server's rule": {RuleID: "an older server's rule"},
	} {
		if got := why(&p); got != want {
			t.Errorf("%+v is listed as %q, want %q", p, got, want)
		}
	}
}

// TestToolOf: two calls that rules tell apart do not look alike.
func TestToolOf(t *testing.T) {
	for call, want := range map[string]string{
		`{"tool_id":"op/x","operation":"wire"}`: "op/x (operation wire)",
		`{"tool_id":"op/x","operation":"x"}`:    "op/x",
		`{"tool_id":"op/x"}`:                    "op/x",
	} {
		if got := toolOf(&client.Pending{ToolID: "op/x", Call: []byte(call)}); got != want {
			t.Errorf("%s: %q, want %q", call, got, want)
		}
	}
}

// What an agent says is shown as its words, behind everything else, in one line, whatever it holds.
func TestAgentSays(t *testing.T) {
	for want, p := range map[string]client.Pending{
		"":                                  {},
		"the agent says: it is needed":      {AgentNote: "it is needed"},
		"the agent says: \\n\\u{1b}[2Jdone": {AgentNote: "\n\x1b[2Jdone"},
		"the agent's note is withheld: timeout, scanner s": {
			AgentNoteWithheld: &wire.Withheld{Cause: "timeout", Scanner: "s"}},
	} {
		if got := cli.Visible(agentSays(&p)); got != want {
			t.Errorf("%+v: %q, want %q", p, got, want)
		}
	}
	cols, table := withNotes([]cli.Column{cli.Whole("AGENT")}, [][]string{{"a"}, {"b"}}, make([]client.Pending, 2))
	if len(cols) != 1 || len(table[0]) != 1 {
		t.Errorf("a column for notes that there are not: %v", table)
	}
	cols, table = withNotes(cols, table, []client.Pending{{AgentNote: "it\nis"},
		{AgentNoteWithheld: &wire.Withheld{Cause: "error"}}})
	var out strings.Builder
	if err := cli.PrintTable(&out, 80, cols, table); err != nil ||
		out.String() != "AGENT  AGENT SAYS\na      it\\nis\nb      (withheld: error)\n" {
		t.Errorf("%v\n%s", err, out.String())
	}
}
