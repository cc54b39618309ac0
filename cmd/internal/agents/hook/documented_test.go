package hook

import (
	"encoding/json"
	"slices"
	"testing"
)

// TestDocumentedAnswers holds the answers that were seen to work in the agents, or stand in their documents, byte for
// byte.
func TestDocumentedAnswers(t *testing.T) {
	const shell = `{"command":"ls"}`
	deny, link := Decision{Text: "Denied by rule refunds."}, "Waits for approval: https://gw.example/a/1"
	for name, row := range map[string]struct {
		agent Agent
		give  Reply
		exit  int
		want  string
	}{
		"claude deny": {ClaudeCode, answerTo(t, ClaudeCode, shell, deny), 2, `{"hookSpecificOutput":` +
			`{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"Denied by rule refunds."}}`},
		"claude ask": {ClaudeCode, answerTo(t, ClaudeCode, shell, Decision{Effect: Ask, Text: link}), 0,
			`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"ask","permissionDecisionReason":"` +
				link + `"}}`},
		"claude defer": {ClaudeCode, answerTo(t, ClaudeCode, shell, Decision{Effect: Suspend, Text: link}), 0,
			`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"defer","permissionDecisionReason":"` +
				link + `"}}`},
		"claude permit": {ClaudeCode, answerTo(t, ClaudeCode, shell, Decision{Effect: Permit}), 0, ""},
		"claude rewrite": {ClaudeCode, answerTo(t, ClaudeCode, shell, Decision{Effect: Permit, Allow: true,
			Args: []byte(`{"command":"ls -l"}`)}), 0, `{"hookSpecificOutput":{"hookEventName":"PreToolUse",` +
			`"permissionDecision":"allow","updatedInput":{"command":"ls -l"}}}`},
		"claude batch": {ClaudeCode, Refusal(ClaudeCode, AfterBatch, "Output of a failed command was withheld."), 0,
			`{"continue":false,"stopReason":"Output of a failed command was withheld.","hookSpecificOutput":` +
				`{"hookEventName":"PostToolBatch"}}`},
		"claude not scanned": {ClaudeCode, Refusal(ClaudeCode, After, "Yett could not scan the output"), 0,
			`{"continue":false,"stopReason":"Yett could not scan the output"}`},
		"codex deny": {Codex, answerTo(t, Codex, shell, deny), 2, `{"hookSpecificOutput":{"hookEventName":"PreToolUse",` +
			`"permissionDecision":"deny","permissionDecisionReason":"Denied by rule refunds."}}`},
		"codex permit": {Codex, answerTo(t, Codex, shell, Decision{Effect: Permit, Allow: true}), 0, ""},
		"codex rewrite": {Codex, answerTo(t, Codex, shell, Decision{Effect: Permit, Args: []byte(`{"command":"ls -l"}`)}),
			0, `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","updatedInput":` +
				`{"command":"ls -l"}}}`},
		"codex redact": {Codex, scanOf(t, Codex, `"token=SECRET"`, `"token=[SECRET]"`), 0,
			`{"decision":"block","reason":"token=[SECRET]"}`},
		"gemini deny":   {Gemini, answerTo(t, Gemini, shell, deny), 2, `{"decision":"deny","reason":"Denied by rule refunds."}`},
		"gemini permit": {Gemini, answerTo(t, Gemini, shell, Decision{Effect: Permit}), 0, `{}`},
		"gemini rewrite": {Gemini, answerTo(t, Gemini, shell, Decision{Effect: Permit, Args: []byte(`{"command":"ls -l"}`)}),
			0, `{"hookSpecificOutput":{"hookEventName":"BeforeTool","tool_input":{"command":"ls -l"}}}`},
		"gemini redact": {Gemini, scanOf(t, Gemini, `"token=SECRET"`, `"token=[SECRET]"`), 0,
			`{"decision":"deny","reason":"token=[SECRET]"}`},
		"copilot deny": {Copilot, answerTo(t, Copilot, shell, deny), 2,
			`{"permissionDecision":"deny","permissionDecisionReason":"Denied by rule refunds."}`},
		"copilot rewrite": {Copilot, answerTo(t, Copilot, shell, Decision{Effect: Permit, Args: []byte(`{"command":"l"}`)}),
			0, `{"modifiedArgs":{"command":"l"}}`},
		"copilot not scanned": {Copilot, Refusal(Copilot, After, "[output withheld: not scanned]"), 0,
			`{"modifiedResult":{"resultType":"success","textResultForLlm":"[output withheld: not scanned]"}}`},
		"cursor permit": {Cursor, answerTo(t, Cursor, shell, Decision{Effect: Permit}), 0, `{"permission":"allow"}`},
		"cursor deny": {Cursor, answerTo(t, Cursor, shell, deny), 2, `{"permission":"deny","user_message":` +
			`"Denied by rule refunds.","agent_message":"Denied by rule refunds."}`},
		"cursor prompt": {Cursor, Refusal(Cursor, Prompt, "no"), 2, `{"continue":false,"user_message":"no"}`},
		"cline permit":  {Cline, answerTo(t, Cline, shell, Decision{Effect: Permit}), 0, `{}`},
		"cline rewrite": {Cline, answerTo(t, Cline, shell, Decision{Effect: Permit, Args: []byte(`{"command":"ls -l"}`)}),
			0, `{"overrideInput":{"command":"ls -l"}}`},
		"cline not scanned": {Cline, Refusal(Cline, After, "no decision"), 0,
			`{"cancel":true,"errorMessage":"no decision"}`},
		"windsurf deny":   {Windsurf, answerTo(t, Windsurf, shell, deny), 2, ""},
		"windsurf permit": {Windsurf, answerTo(t, Windsurf, shell, Decision{Effect: Permit}), 0, ""},
	} {
		if got := string(row.give.Stdout); got != row.want || row.give.Exit != row.exit {
			t.Errorf("%s, %s: got status %d and %s\nwant %d and %s", row.agent, name, row.give.Exit, got, row.exit, row.want)
		}
	}
}

func answerTo(t *testing.T, agent Agent, args string, d Decision) Reply {
	return mustRead(t, agent, call(agent, Before, args, "")).Answer(d)
}

func scanOf(t *testing.T, agent Agent, output, redacted string) Reply {
	return mustRead(t, agent, call(agent, After, `{}`, output)).
		Scanned([]Scan{{Verdict: Redacted, JSON: []byte(redacted)}})
}

// TestCodexKnowsEveryMember holds that no answer to Codex has a member that it does not know: it would drop the answer
// and run the tool.
func TestCodexKnowsEveryMember(t *testing.T) {
	known := map[string][]string{
		"": {"decision", "reason", "hookSpecificOutput"},
		"hookSpecificOutput": {"hookEventName", "permissionDecision", "permissionDecisionReason", "updatedInput",
			"additionalContext"},
	}
	check := func(what string, r Reply) {
		if len(r.Stdout) == 0 {
			return
		}
		var top, inner map[string]json.RawMessage
		if err := json.Unmarshal(r.Stdout, &top); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		for name := range top {
			if !slices.Contains(known[""], name) {
				t.Errorf("%s: unknown member %s in %s", what, name, r.Stdout)
			}
		}
		if raw, is := top["hookSpecificOutput"]; is && json.Unmarshal(raw, &inner) == nil {
			for name := range inner {
				if !slices.Contains(known["hookSpecificOutput"], name) {
					t.Errorf("%s: unknown member %s in %s", what, name, r.Stdout)
				}
			}
			if string(inner["permissionDecision"]) == `"allow"` && inner["updatedInput"] == nil {
				t.Errorf("%s: allow alone is rejected: %s", what, r.Stdout)
			}
		}
	}
	for _, phase := range []Phase{Before, After} {
		e := mustRead(t, Codex, call(Codex, phase, `{"command":"ls"}`, `"SECRET"`))
		for _, s := range scenes(e, []byte(`{"command":"pwd"}`)) {
			check(s.name, s.reply)
		}
		check("refusal", Refusal(Codex, phase, "no"))
	}
}

// TestEveryEvent holds that each event of an agent's documents is known, and that what comes before a tool is not taken
// for a notice.
func TestEveryEvent(t *testing.T) {
	for agent, events := range map[Agent]map[Phase][]string{
		ClaudeCode: {Before: {"PreToolUse"}, After: {"PostToolUse"}, AfterBatch: {"PostToolBatch"},
			Prompt: {"UserPromptSubmit"}, Notice: {"PostToolUseFailure", "PermissionRequest", "PermissionDenied",
				"UserPromptExpansion", "SessionStart", "SessionEnd", "Stop", "StopFailure", "SubagentStart", "SubagentStop",
				"PreCompact", "PostCompact", "PreModelSwitch", "PostModelSwitch", "Notification", "Setup", "TeammateIdle",
				"TaskCreated", "TaskCompleted", "Elicitation", "ElicitationResult", "ConfigChange", "WorktreeCreate",
				"WorktreeRemove", "InstructionsLoaded", "CwdChanged", "FileChanged", "DirectoryAdded", "MessageDisplay"}},
		Codex: {Before: {"PreToolUse"}, After: {"PostToolUse"}, Prompt: {"UserPromptSubmit"}, Notice: {
			"PermissionRequest", "PreCompact", "PostCompact", "SessionStart", "SubagentStart", "SubagentStop", "Stop",
			"StopFailure", "SessionEnd", "Interrupt"}},
		Gemini: {Before: {"BeforeTool"}, After: {"AfterTool"}, Prompt: {"BeforeAgent"}, Notice: {"AfterAgent",
			"BeforeModel", "AfterModel", "BeforeToolSelection", "SessionStart", "SessionEnd", "Notification", "PreCompress"}},
		Cursor: {Before: {"preToolUse", "beforeShellExecution", "beforeMCPExecution", "beforeReadFile",
			"beforeTabFileRead", "subagentStart"}, After: {"postToolUse", "postToolUseFailure"},
			Prompt: {"beforeSubmitPrompt"}, Notice: {"afterShellExecution", "afterMCPExecution", "afterFileEdit",
				"afterTabFileEdit", "stop", "afterAgentResponse", "afterAgentThought", "sessionStart", "sessionEnd",
				"preCompact", "subagentStop", "workspaceOpen"}},
		Windsurf: {Before: {"pre_read_code", "pre_write_code", "pre_run_command", "pre_mcp_tool_use"},
			After: {"post_mcp_tool_use"}, Prompt: {"pre_user_prompt"}, Notice: {"post_read_code", "post_write_code",
				"post_run_command", "post_cascade_response", "post_cascade_response_with_transcript", "post_setup_worktree"}},
		Cline: {Before: {"tool_call"}, After: {"tool_result"}, Prompt: {"prompt_submit"}, Notice: {"agent_start",
			"agent_resume", "agent_abort", "agent_end", "agent_error", "pre_compact", "session_shutdown"}},
		OpenCode: {Before: {"tool.execute.before"}, After: {"tool.execute.after"}},
	} {
		member := map[Agent]string{Windsurf: "agent_action_name", Cline: "hookName", OpenCode: "event"}[agent]
		if member == "" {
			member = "hook_event_name"
		}
		for phase, names := range events {
			for _, name := range names {
				everyEvent(t, agent, phase, name, `{"`+member+`":"`+name+`"}`)
			}
		}
	}
	for name, phase := range map[string]Phase{"PreToolUse": Before, "PostToolUse": After, "UserPromptSubmit": Prompt,
		"SessionStart": Notice, "SubagentStart": Notice, "SubagentStop": Notice, "PreCompact": Notice, "Stop": Notice} {
		everyEvent(t, VSCode, phase, name, `{"hookEventName":"`+name+`"}`)
	}
}

// everyEvent reads an event without anything but its name: a notice is read, and the others say in which phase they
// lack what they need.
func everyEvent(t *testing.T, agent Agent, phase Phase, name, stdin string) {
	e, err := Read(agent, []byte(stdin))
	switch {
	case phase == Notice && (err != nil || e.Phase != Notice):
		t.Errorf("%s %s: expected a notice, got %v", agent, name, err)
	case phase == Notice && e.Quiet().Exit != 0:
		t.Errorf("%s %s: a notice is answered with %s", agent, name, show(e.Quiet()))
	case phase != Notice && (err == nil || err.(*Error).Phase != phase):
		t.Errorf("%s %s: expected a mistake in phase %s, got %v", agent, name, phase, err)
	}
}
