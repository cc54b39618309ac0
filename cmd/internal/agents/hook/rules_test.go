package hook

import (
	"encoding/json"
	"strings"
	"testing"
)

// closed says why an agent would run the tool, or show the output, after this answer. "" means that it does not.
func closed(agent Agent, phase Phase, r Reply) string {
	var m map[string]any
	if len(r.Stdout) > 0 {
		dec := json.NewDecoder(strings.NewReader(string(r.Stdout)))
		dec.UseNumber()
		if err := dec.Decode(&m); err != nil || dec.More() {
			return "stdout is not one JSON object"
		}
	}
	switch {
	case agent == Cline:
		if r.Exit != 0 || m["cancel"] != true && m["overrideInput"] == nil {
			return "Cline runs everything but a cancel or an override at status 0"
		}
		return ""
	case phase == After && (agent == Cursor || agent == VSCode || agent == Windsurf):
		hides := agent == Cursor && m["updated_mcp_tool_output"] != nil
		if r.Uncovered == "" && !hides {
			return "the answer does not say that the output is not hidden"
		}
		return ""
	case agent == ClaudeCode && (phase == After || phase == AfterBatch):
		specific, _ := m["hookSpecificOutput"].(map[string]any)
		if r.Exit != 0 || m["continue"] != false && specific["updatedToolOutput"] == nil {
			return "Claude Code shows the output"
		}
		return ""
	case agent == Copilot && phase == After:
		if r.Exit != 0 || m["modifiedResult"] == nil {
			return "Copilot shows the output"
		}
		return ""
	case agent == OpenCode && phase == After && r.Exit == 0:
		if m["effect"] != "withhold" && m["effect"] != "replace" {
			return "OpenCode shows the output"
		}
		return ""
	}
	if r.Exit != 2 || strings.TrimSpace(string(r.Stderr)) == "" {
		return "no status 2 with a text on stderr"
	}
	return ""
}

// reasonless says where a refusal has no words. Codex runs the tool then.
func reasonless(r Reply) bool {
	var m struct {
		Reason   *string `json:"reason"`
		Specific struct {
			Decision string  `json:"permissionDecision"`
			Reason   *string `json:"permissionDecisionReason"`
		} `json:"hookSpecificOutput"`
	}
	if len(r.Stdout) == 0 || json.Unmarshal(r.Stdout, &m) != nil {
		return false
	}
	empty := func(s *string) bool { return s != nil && strings.TrimSpace(*s) == "" }
	return empty(m.Reason) || empty(m.Specific.Reason) || m.Specific.Decision == "deny" && m.Specific.Reason == nil
}

func TestRefusals(t *testing.T) {
	for _, agent := range Agents() {
		for _, phase := range []Phase{Unknown, Before, After, Prompt} {
			for _, text := range []string{"no", "", " \n", "\x00\x01\x7f", "\xff\xfe", strings.Repeat("é", 5000)} {
				r := Refusal(agent, phase, text)
				if why := closed(agent, phase, r); why != "" {
					t.Errorf("%s %s %.10q: %s: %s", agent, phase, text, why, show(r))
				}
				if reasonless(r) {
					t.Errorf("%s %s %.10q: no reason: %s", agent, phase, text, show(r))
				}
			}
		}
	}
	if r := Refusal(ClaudeCode, AfterBatch, ""); closed(ClaudeCode, AfterBatch, r) != "" {
		t.Errorf("batch: %s", show(r))
	}
	if r := Refusal("nobody", Before, ""); r.Exit != 2 || len(r.Stderr) == 0 {
		t.Errorf("an unknown agent: %s", show(r))
	}
}

// TestTextsAreText holds that no control character reaches a terminal or a model, and that nothing is cut inside a
// letter.
func TestTextsAreText(t *testing.T) {
	for in, want := range map[string]string{
		"a\x1b[31mb\x00\r\nc\td ": "a[31mb\nc\td",
		"\u009bx":                 "x",
		"a\xffb":                  "a\uFFFDb",
		"":                        "instead",
		" \x07\n":                 "instead",
	} {
		if got := said(in, "instead"); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	for n := 3; n < 12; n++ {
		if got := cut("ééé𝄞é", n); len(got) > n || strings.ToValidUTF8(got, "?") != got {
			t.Errorf("cut to %d bytes: %q", n, got)
		}
	}
}

// call is one call of each agent, with arguments and an output where the phase has one.
func call(agent Agent, phase Phase, args, output string) string {
	after := phase == After
	pick := func(before, behind string) string {
		if after {
			return behind
		}
		return before
	}
	out := func(member string) string {
		if after {
			return `,"` + member + `":` + output
		}
		return ""
	}
	switch agent {
	case ClaudeCode, Codex:
		return `{"session_id":"s","cwd":"/r","hook_event_name":"` + pick("PreToolUse", "PostToolUse") +
			`","tool_name":"mcp__t__x","tool_input":` + args + `,"tool_use_id":"u"` + out("tool_response") + `}`
	case Gemini:
		return `{"session_id":"s","timestamp":"1","hook_event_name":"` + pick("BeforeTool", "AfterTool") +
			`","tool_name":"x","tool_input":` + args + out("tool_response") + `}`
	case Copilot:
		return `{"sessionId":"s","timestamp":1,"toolName":"x","toolArgs":` + args + out("toolResult") + `}`
	case Cursor:
		return `{"conversation_id":"s","hook_event_name":"` + pick("preToolUse", "postToolUse") +
			`","tool_name":"MCP:x","tool_input":` + args + `,"tool_use_id":"u"` + out("tool_output") + `}`
	case VSCode:
		return `{"sessionId":"s","hookEventName":"` + pick("PreToolUse", "PostToolUse") +
			`","tool_name":"x","tool_input":` + args + `,"tool_use_id":"u"` + out("tool_response") + `}`
	case OpenCode:
		return `{"event":"tool.execute.` + pick("before", "after") + `","sessionID":"s","callID":"u","tool":"x","args":` +
			args + out("output") + `}`
	case Cline:
		return `{"taskId":"s","hookName":"` + pick("tool_call", "tool_result") + `","` +
			pick("tool_call", "tool_result") + `":{"id":"u","name":"x","input":` + args + out("output") + `}}`
	}
	return `{"agent_action_name":"` + pick("pre", "post") + `_mcp_tool_use","trajectory_id":"s","execution_id":"e",` +
		`"timestamp":"t","tool_info":{"mcp_server_name":"t","mcp_tool_name":"x","mcp_tool_arguments":` + args +
		out("mcp_result") + `}}`
}

// shellCall is a call of the agent's own shell.
func shellCall(agent Agent, args string) string {
	in := call(agent, Before, args, "")
	for _, name := range []string{`"mcp__t__x"`, `"MCP:x"`, `"x"`} {
		if strings.Contains(in, name) {
			return strings.Replace(in, name, `"`+Shells(agent)[0]+`"`, 1)
		}
	}
	panic("the call names no tool: " + in)
}

func mustRead(t testing.TB, agent Agent, stdin string) *Event {
	t.Helper()
	e, err := Read(agent, []byte(stdin))
	if err != nil {
		t.Fatalf("%s: %v\n%s", agent, err, stdin)
	}
	return e
}

// TestBrokenInput holds that what is not strict JSON, or not what an agent sends, is refused in the agent's closed
// form.
func TestBrokenInput(t *testing.T) {
	for _, agent := range Agents() {
		good := call(agent, Before, `{"a":"b"}`, "")
		mustRead(t, agent, good)
		for name, bad := range map[string]string{
			"empty":             "",
			"null":              "null",
			"a list":            "[" + good + "]",
			"a string":          `"x"`,
			"no event":          "{}",
			"cut off":           good[:len(good)-1],
			"two values":        good + good,
			"trailing bytes":    good + "x",
			"a log line":        "log\n" + good,
			"a byte order mark": "\xef\xbb\xbf" + good,
			"a name twice":      `{"session_id":"z",` + strings.Replace(good, "{", `"session_id":"z",`, 1),
			"a deep name twice": strings.Replace(good, `"a":"b"`, `"a":"b","a":"c"`, 1),
			"a lone surrogate":  strings.Replace(good, `"b"`, `"\ud83d"`, 1),
			"NUL":               strings.Replace(good, `"b"`, `"\u0000"`, 1),
			"bad UTF-8":         strings.Replace(good, `"b"`, "\"\xff\"", 1),
			"a bad number":      strings.Replace(good, `"b"`, "01", 1),
			"not a number":      strings.Replace(good, `"b"`, "NaN", 1),
			"deep":              strings.Replace(good, `"b"`, strings.Repeat("[", 70)+strings.Repeat("]", 70), 1),
			"args are a list":   strings.Replace(good, `{"a":"b"}`, `["b"]`, 1),
			"args are null":     strings.Replace(good, `{"a":"b"}`, "null", 1),
			"args are text":     strings.Replace(good, `{"a":"b"}`, `"ls"`, 1),
			"session is 1":      strings.Replace(good, `"s"`, "1", 1),
			"session is empty":  strings.Replace(good, `"s"`, `""`, 1),
			"tool is null":      strings.NewReplacer(`"x"`, "null", `"mcp__t__x"`, "null", `"MCP:x"`, "null").Replace(good),
		} {
			e, err := Read(agent, []byte(bad))
			if err == nil {
				t.Errorf("%s: %s was read as %s", agent, name, showEvent(e))
				continue
			}
			if why := closed(agent, Unknown, RefusalOf(agent, err)); why != "" {
				t.Errorf("%s: %s: %s: %s", agent, name, why, show(RefusalOf(agent, err)))
			}
		}
	}
}

func TestSizeLimit(t *testing.T) {
	for _, agent := range Agents() {
		empty := call(agent, Before, `{"a":""}`, "")
		full := strings.Replace(empty, `"a":""`, `"a":"`+strings.Repeat("x", 5*1024*1024-len(empty))+`"`, 1)
		if e := mustRead(t, agent, full); len(full) != 5*1024*1024 || len(e.Args) < 5*1024*1024-len(empty) {
			t.Errorf("%s: %d of %d bytes of arguments", agent, len(e.Args), len(full))
		}
		_, err := Read(agent, []byte(full+" "))
		if err == nil || !strings.Contains(err.Error(), "5 MiB") {
			t.Errorf("%s: one byte too many: %v", agent, err)
		}
	}
}

// TestOnlyPermitRuns holds that no decision but a Permit lets a call run.
func TestOnlyPermitRuns(t *testing.T) {
	for _, agent := range Agents() {
		e := mustRead(t, agent, call(agent, Before, `{"command":"ls"}`, ""))
		for effect := Deny; effect < 9; effect++ {
			for _, text := range []string{"", "no", "\x00", "\xff"} {
				r := e.Answer(Decision{Effect: effect, Text: text, Allow: true, Args: []byte(`{"command":"poison"}`)})
				if effect == Permit || r.Exit == 0 && asks(agent, r) && (effect == Ask || effect == Suspend) {
					continue
				}
				if why := closed(agent, Before, r); why != "" || reasonless(r) {
					t.Errorf("%s: effect %d: %s: %s", agent, effect, why, show(r))
				}
				if strings.Contains(string(r.Stdout), "poison") || strings.Contains(string(r.Stdout), "allow") {
					t.Errorf("%s: effect %d: a refusal that permits: %s", agent, effect, show(r))
				}
			}
		}
		if closed(agent, Before, e.Scanned(nil)) != "" {
			t.Errorf("%s: a scan of a call is no refusal: %s", agent, show(e.Scanned(nil)))
		}
		if closed(agent, Before, e.Quiet()) != "" {
			t.Errorf("%s: a call that is taken for a notice runs: %s", agent, show(e.Quiet()))
		}
		after := mustRead(t, agent, call(agent, After, `{}`, `"x"`))
		if r := after.Answer(Decision{Effect: Permit}); closed(agent, After, r) != "" {
			t.Errorf("%s: a permit shows an output: %s", agent, show(r))
		}
	}
}

// asks reports whether the answer leaves the call to a person, or ends the run, in words that the agent has.
func asks(agent Agent, r Reply) bool {
	s := string(r.Stdout)
	switch agent {
	case ClaudeCode:
		return strings.Contains(s, `"permissionDecision":"ask"`) || strings.Contains(s, `"permissionDecision":"defer"`)
	case Copilot, VSCode:
		return strings.Contains(s, `"permissionDecision":"ask"`)
	}
	return false // Codex and Gemini would run or hang
}

// TestUnscannedOutputIsHidden holds that no wrong set of scans shows an output.
func TestUnscannedOutputIsHidden(t *testing.T) {
	for _, agent := range Agents() {
		e := mustRead(t, agent, call(agent, After, `{}`, `[{"type":"text","text":"SECRET","n":1,"b":true}]`))
		same := e.Outputs[0].JSON
		for name, scans := range map[string][]Scan{
			"none":            nil,
			"zero":            {{}},
			"too many":        {{Verdict: Pass}, {Verdict: Pass}},
			"unknown verdict": {{Verdict: 9}},
			"no JSON":         {{Verdict: Redacted}},
			"unchanged":       {{Verdict: Redacted, JSON: same}},
			"broken":          {{Verdict: Redacted, JSON: []byte(`[{"type":"text"`)}},
			"another length":  {{Verdict: Redacted, JSON: []byte(`[{"type":"text","text":"left"},1]`)}},
			"one member less": {{Verdict: Redacted, JSON: []byte(`[{"type":"text","text":"left","n":1}]`)}},
			"another kind":    {{Verdict: Redacted, JSON: []byte(`[{"type":"text","text":"left","n":"1","b":true}]`)}},
			"another number":  {{Verdict: Redacted, JSON: []byte(`[{"type":"text","text":"left","n":1.0,"b":true}]`)}},
			"another boolean": {{Verdict: Redacted, JSON: []byte(`[{"type":"text","text":"left","n":1,"b":false}]`)}},
			"two values":      {{Verdict: Redacted, JSON: []byte(`[{"type":"text","text":"left","n":1,"b":true}] 1`)}},
		} {
			r := e.Scanned(scans)
			shown := strings.Contains(string(r.Stdout), "SECRET") || strings.Contains(string(r.Stdout), "left")
			if why := closed(agent, After, r); why != "" || shown {
				t.Errorf("%s: %s: %s: %s", agent, name, why, show(r))
			}
		}
	}
}

// TestBatchReadsEveryMember holds that a text of a batch is scanned under whatever name it comes.
func TestBatchReadsEveryMember(t *testing.T) {
	e := mustRead(t, ClaudeCode, `{"session_id":"s","hook_event_name":"PostToolBatch","tool_calls":[{"tool_name":"Bash",`+
		`"tool_input":{"command":"x"},"tool_use_id":"t1","error":"SECRET"},{"tool_name":"Bash","tool_input":{},`+
		`"tool_use_id":"t2","tool_response":"a"}]}`)
	if len(e.Outputs) != 2 || string(e.Outputs[0].JSON) != `"SECRET"` || e.Outputs[0].At != "/tool_calls/0/error" {
		t.Errorf("%+v", e.Outputs)
	}
}
