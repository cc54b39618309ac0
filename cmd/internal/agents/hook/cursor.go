package hook

import (
	"strings"

	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// cursor is Cursor, from its documents and from the executor in its SDK 1.1.0. It has not been run.
type cursor struct{}

// cursorUnnamed stands for the server of an MCP tool where Cursor does not say it. A tool's own name is never taken
// for a server: a server could name its tool after another server.
const cursorUnnamed = "-"

var cursorNotices = map[string]bool{
	"afterShellExecution": true, "afterMCPExecution": true, "afterFileEdit": true, "afterTabFileEdit": true,
	"stop": true, "afterAgentResponse": true, "afterAgentThought": true, "sessionStart": true, "sessionEnd": true,
	"preCompact": true, "subagentStop": true, "workspaceOpen": true,
}

func (c cursor) read(in *fields, _ []string) (*Event, *Error) {
	name := in.text("hook_event_name")
	if in.err != nil {
		return nil, in.err
	}
	e := &Event{Name: name}
	switch name {
	case "preToolUse", "beforeShellExecution", "beforeMCPExecution", "beforeReadFile", "beforeTabFileRead":
		e.Phase = Before
	case "postToolUse", "postToolUseFailure":
		e.Phase = After
	case "beforeSubmitPrompt":
		e.Phase = Prompt
	case "subagentStart":
		in.phase = Before
		in.fail("Yett does not decide about subagentStart: take it out of Cursor's hooks.json")
		return nil, in.err
	default:
		e.Phase = Notice
		if !cursorNotices[name] {
			e = in.unknownEvent(name)
		}
		return e, in.err
	}
	in.phase = e.Phase
	e.SessionID = in.text("conversation_id")
	e.Context = in.stable("cwd", "workspace_roots")
	if in.has("tool_use_id") {
		e.CallID = callID(Cursor, e.SessionID, in.text("tool_use_id"))
	}
	switch e.Phase {
	case Before:
		c.before(in, e)
	case After:
		c.after(in, e)
	default:
		e.Outputs = []Output{in.output("prompt", "")}
		if in.has("attachments") {
			e.Outputs = append(e.Outputs, in.output("attachments", ""))
		}
	}
	e.Note = in.note(e.Note, "model", "generation_id")
	return e, in.err
}

func (c cursor) before(in *fields, e *Event) {
	one := func(member string) []byte {
		o := wire.Object(nil)
		o.Raw(member, []byte(in.need(member, exact.String).Raw()))
		return o.Close()
	}
	switch e.Name {
	case "preToolUse":
		c.tool(in, e)
		if e.CallID == "" {
			in.text("tool_use_id")
		}
	case "beforeMCPExecution":
		c.tool(in, e)
		server := in.maybe("mcp_server_name")
		if server == "" {
			server = cursorUnnamed
		}
		e.Tool, e.mcp = mcpTool(server, e.toolName), true
		e.Context = in.stable("cwd", "workspace_roots", "mcp_server_name", "mcp_server_url", "url", "command")
	case "beforeShellExecution":
		e.toolName, e.Tool, e.Args = "Shell", "Shell", one("command")
	default:
		e.toolName = map[string]string{"beforeReadFile": "Read", "beforeTabFileRead": "TabRead"}[e.Name]
		e.Tool, e.Args = e.toolName, one("file_path")
		e.Outputs = []Output{in.output("content", e.Tool)}
		if in.has("attachments") {
			e.Outputs = append(e.Outputs, in.output("attachments", e.Tool))
		}
	}
}

// tool reads tool_name and tool_input, which may be a string with an object in it.
func (cursor) tool(in *fields, e *Event) {
	e.toolName = in.text("tool_name")
	e.Tool = e.toolName
	if tool, is := strings.CutPrefix(e.toolName, "MCP:"); is {
		e.Tool, e.mcp = mcpTool(cursorUnnamed, tool), true
		if tool == "" {
			in.fail("the hook input: tool_name: expected MCP:TOOL")
		}
	}
	e.Args, e.wrapped = in.args("tool_input", true)
	e.Asked, e.Note = narrated(Cursor, e.toolName, e.Args)
}

func (c cursor) after(in *fields, e *Event) {
	c.tool(in, e)
	member := "tool_output"
	if e.Name == "postToolUseFailure" {
		member = "error_message"
	}
	out := in.output(member, e.Tool)
	if v := in.v.Get(member); v.Kind() == exact.String { // JSON in a string
		var doc exact.Doc
		if doc.Parse(v.Str(), exact.DefaultLimits) == nil {
			out.JSON = []byte(doc.Root().Raw())
		}
	}
	e.Outputs = []Output{out}
}

func (cursor) powers(e *Event) powers {
	p := powers{quiet: "{}"}
	switch e.Name {
	case "preToolUse":
		p.rewrite = merges // whether it merges or replaces is not written down
	case "beforeShellExecution", "beforeMCPExecution":
		p.ask = true
	}
	return p
}

func (c cursor) decide(e *Event, d Decision) Reply {
	switch d.Effect {
	case Permit:
		o := wire.Object(nil)
		o.Str("permission", "allow")
		if d.Args != nil {
			o.Raw("updated_input", d.Args)
		}
		return Reply{Stdout: o.Close()}
	case Ask:
		return Reply{Stdout: cursorDecision("ask", d.Text)}
	}
	return c.refuse(Before, d.Text)
}

func cursorDecision(word, text string) []byte {
	o := wire.Object(nil)
	o.Str("permission", word)
	o.Str("user_message", text)
	o.Str("agent_message", text)
	return o.Close()
}

const cursorShows = "Cursor has no way to hide the output of this tool: the model has read it"

func (c cursor) scanned(e *Event, worst Verdict, scans []Scan) Reply {
	switch {
	case worst == Pass:
		return Reply{Stdout: []byte("{}")}
	case worst < Warned && e.Phase == Prompt:
		return c.refuse(Prompt, noticeOf(scans, worst))
	case worst < Warned && e.mcp && e.Name == "postToolUse":
		s := scans[0]
		if s.Verdict == Denied {
			s.JSON = exact.AppendString(nil, s.Notice)
		}
		o := wire.Object(nil)
		o.Raw("updated_mcp_tool_output", s.JSON)
		return Reply{Stdout: o.Close()}
	}
	o := wire.Object(nil)
	o.Str("additional_context", noticeOf(scans, worst))
	r := Reply{Stdout: o.Close()}
	if worst < Warned {
		r.Stderr, r.Uncovered = line(noticeOf(scans, worst)), cursorShows
	}
	return r
}

func (cursor) refuse(p Phase, text string) Reply {
	o := wire.Object(nil)
	switch p {
	case After: // Cursor looks at the second member for tools of MCP servers only
		o.Str("additional_context", text)
		o.Str("updated_mcp_tool_output", text)
		return Reply{Stdout: o.Close(), Stderr: line(text),
			Uncovered: "Cursor hides the output of tools of MCP servers only: the model has read any other"}
	case Prompt:
		o.Bool("continue", false)
		o.Str("user_message", text)
		return Reply{Stdout: o.Close(), Stderr: line(text), Exit: 2}
	}
	return Reply{Stdout: cursorDecision("deny", text), Stderr: line(text), Exit: 2}
}
