package hook

import (
	"strings"

	"github.com/yett-dev/yett/sdk/wire"
)

// vscode is the agent of VS Code, from its documents of 2026-06. It has not been run. It also runs the hook files of
// Claude Code and Copilot, and no matcher holds it back.
type vscode struct{}

var vscodeNotices = map[string]bool{
	"SessionStart": true, "SubagentStart": true, "SubagentStop": true, "PreCompact": true, "Stop": true,
}

func (vscode) read(in *fields, servers []string) (*Event, *Error) {
	in.alien("VS Code", "hook_event_name", "another agent")
	name := in.text("hookEventName")
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
		if !vscodeNotices[name] {
			e = in.unknownEvent(name)
		}
		return e, in.err
	}
	in.phase = e.Phase
	e.SessionID = in.text("sessionId")
	e.Context = in.stable("cwd")
	if e.Phase == Prompt {
		e.Outputs = []Output{in.output("prompt", "")}
		return e, in.err
	}
	e.toolName = in.text("tool_name")
	e.CallID = callID(VSCode, e.SessionID, in.text("tool_use_id"))
	e.Args, _ = in.args("tool_input", false)
	e.Asked, e.Note = narrated(VSCode, e.toolName, e.Args)
	e.Tool = e.toolName
	if joined, is := strings.CutPrefix(e.toolName, "mcp_"); is {
		server, tool, ok := splitMCP(joined, "_", servers)
		if !ok {
			in.fail("the hook input: tool_name: expected mcp_SERVER_TOOL")
		}
		e.Tool, e.mcp = mcpTool(server, tool), true
	}
	if e.Phase == After {
		e.Outputs = []Output{in.output("tool_response", e.Tool)}
	}
	return e, in.err
}

func (vscode) powers(*Event) powers { return powers{rewrite: fits, ask: true, quiet: "{}"} }

func (v vscode) decide(_ *Event, d Decision) Reply {
	switch d.Effect {
	case Permit:
		if d.Args == nil && !d.Allow {
			return Reply{Stdout: []byte("{}")}
		}
		return Reply{Stdout: vscodeSpecific("PreToolUse", func(o *wire.Writer) {
			if d.Allow {
				o.Str("permissionDecision", "allow")
			}
			if d.Args != nil {
				o.Raw("updatedInput", d.Args)
			}
		})}
	case Ask:
		return Reply{Stdout: vscodeDecision("ask", d.Text)}
	}
	return v.refuse(Before, d.Text)
}

func vscodeSpecific(event string, fill func(o *wire.Writer)) []byte {
	o := wire.Object(nil)
	o.Object("hookSpecificOutput", func(o *wire.Writer) {
		o.Str("hookEventName", event)
		fill(o)
	})
	return o.Close()
}

func vscodeDecision(word, text string) []byte {
	return vscodeSpecific("PreToolUse", func(o *wire.Writer) {
		o.Str("permissionDecision", word)
		o.Str("permissionDecisionReason", text)
	})
}

const vscodeShows = "VS Code has no way to replace an output: whether ending the session hides it has not been seen"

func (v vscode) scanned(e *Event, worst Verdict, scans []Scan) Reply {
	switch {
	case worst == Pass:
		return Reply{Stdout: []byte("{}")}
	case worst < Warned:
		return v.refuse(e.Phase, noticeOf(scans, worst))
	case e.Phase == Prompt: // only the common members exist here
		o := wire.Object(nil)
		o.Str("systemMessage", noticeOf(scans, Warned))
		return Reply{Stdout: o.Close()}
	}
	return Reply{Stdout: vscodeSpecific(e.Name, func(o *wire.Writer) {
		o.Str("additionalContext", noticeOf(scans, Warned))
	})}
}

func (vscode) refuse(p Phase, text string) Reply {
	switch p {
	case Before:
		return Reply{Stdout: vscodeDecision("deny", text), Stderr: line(text), Exit: 2}
	case After: // the members are read at status 0 only
		o := wire.Object(nil)
		o.Bool("continue", false)
		o.Str("stopReason", text)
		o.Str("decision", "block")
		o.Str("reason", text)
		return Reply{Stdout: o.Close(), Stderr: line(text), Uncovered: vscodeShows}
	}
	o := wire.Object(nil)
	o.Bool("continue", false)
	o.Str("stopReason", text)
	return Reply{Stdout: o.Close(), Stderr: line(text), Exit: 2}
}
