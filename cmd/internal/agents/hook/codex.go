package hook

import (
	"strings"

	"github.com/yett-dev/yett/sdk/wire"
)

// codex is the OpenAI Codex CLI, as of 0.169.0. One member too many in an answer, or a refusal without a reason, makes
// it run the tool.
type codex struct{}

var codexNotices = map[string]bool{
	"PermissionRequest": true, "PreCompact": true, "PostCompact": true, "SessionStart": true, "SubagentStart": true,
	"SubagentStop": true, "Stop": true, "StopFailure": true, "SessionEnd": true, "Interrupt": true,
}

func (codex) read(in *fields, servers []string) (*Event, *Error) {
	name := in.text("hook_event_name")
	if in.err != nil {
		return nil, in.err
	}
	e := &Event{Name: name}
	switch name {
	case "PreToolUse":
		e.Phase = Before
	case "PostToolUse":
		e.Phase = After
	case "UserPromptSubmit":
		e.Phase = Prompt
	default:
		e.Phase = Notice
		if !codexNotices[name] {
			e = in.unknownEvent(name)
		}
		return e, in.err
	}
	in.phase = e.Phase
	e.SessionID = in.text("session_id")
	e.Context = in.stable("cwd")
	if e.Phase == Prompt {
		e.Outputs = []Output{in.output("prompt", "")}
		return e, in.err
	}
	e.toolName = in.text("tool_name")
	e.CallID = callID(Codex, e.SessionID, in.text("tool_use_id"))
	e.Args, _ = in.args("tool_input", false)
	var about string
	e.Asked, about = narrated(Codex, e.toolName, e.Args)
	e.Note = in.note(about, "permission_mode", "model", "turn_id")
	e.Tool = e.toolName
	if joined, is := strings.CutPrefix(e.toolName, "mcp__"); is {
		server, tool, ok := splitMCP(joined, "__", servers)
		if !ok {
			in.fail("the hook input: tool_name: expected mcp__SERVER__TOOL")
		}
		e.Tool, e.mcp = mcpTool(server, tool), true
	}
	if e.Phase == After {
		e.Outputs = []Output{in.output("tool_response", e.Tool)}
	}
	return e, in.err
}

func (codex) powers(*Event) powers { return powers{rewrite: replaces} }

func (codex) decide(_ *Event, d Decision) Reply {
	switch {
	case d.Effect == Permit && d.Args == nil:
		return Reply{} // "allow" alone is unsupported
	case d.Effect == Permit:
		o := wire.Object(nil)
		o.Object("hookSpecificOutput", func(o *wire.Writer) {
			o.Str("hookEventName", "PreToolUse")
			o.Str("permissionDecision", "allow")
			o.Raw("updatedInput", d.Args)
		})
		return Reply{Stdout: o.Close()}
	}
	return codex{}.refuse(Before, d.Text)
}

// scanned answers with a reason, which replaces the output.
func (c codex) scanned(e *Event, worst Verdict, scans []Scan) Reply {
	switch {
	case worst == Pass:
		return Reply{}
	case worst == Warned:
		o := wire.Object(nil)
		o.Object("hookSpecificOutput", func(o *wire.Writer) {
			o.Str("hookEventName", e.Name)
			o.Str("additionalContext", noticeOf(scans, Warned))
		})
		return Reply{Stdout: o.Close()}
	case worst == Redacted && e.Phase == After:
		return Reply{Stdout: codexBlock(orWithheld(plainText(scans[0].JSON)))}
	}
	return c.refuse(e.Phase, noticeOf(scans, worst))
}

// orWithheld gives the text, or a notice if the text is empty: an agent may take an empty text for no answer.
func orWithheld(text string) string {
	if strings.TrimSpace(text) == "" {
		return "[output withheld by Yett]"
	}
	return text
}

func codexBlock(reason string) []byte {
	o := wire.Object(nil)
	o.Str("decision", "block")
	o.Str("reason", reason)
	return o.Close()
}

func (codex) refuse(p Phase, text string) Reply {
	r := Reply{Stderr: line(text), Exit: 2}
	switch p {
	case Before:
		o := wire.Object(nil)
		o.Object("hookSpecificOutput", func(o *wire.Writer) {
			o.Str("hookEventName", "PreToolUse")
			o.Str("permissionDecision", "deny")
			o.Str("permissionDecisionReason", text)
		})
		r.Stdout = o.Close()
	case After, Prompt:
		r.Stdout = codexBlock(text)
	}
	return r
}
