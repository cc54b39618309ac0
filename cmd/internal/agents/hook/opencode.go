package hook

import (
	"github.com/yett-dev/yett/sdk/wire"
)

// opencode is OpenCode, as of 1.18.33. It has no hook commands: Plugin, which is ours, runs the command for each call
// and carries its answers out. Both sides are strict: the plugin throws at any answer but the words below, and OpenCode
// does not run a tool whose plugin throws.
//
//	stdin   {"event": "tool.execute.before", "sessionID", "callID", "tool", "args", "directory"}
//	        {"event": "tool.execute.after", …, "output": {"output": "…"} or {"content": […], "structuredContent"?}}
//	stdout  {"effect": "permit", "args"?} or {"effect": "deny", "message"}
//	        {"effect": "pass"}, {"effect": "replace", "output"}, {"effect": "warn" or "withhold", "message"}
type opencode struct{}

// opencodeBuiltIn are the tools with an underscore that belong to no MCP server.
var opencodeBuiltIn = map[string]bool{"apply_patch": true, "plan_enter": true, "plan_exit": true}

func (opencode) read(in *fields, servers []string) (*Event, *Error) {
	name := in.text("event")
	e := &Event{Name: name}
	switch name {
	case "tool.execute.before":
		e.Phase = Before
	case "tool.execute.after":
		e.Phase = After
	default:
		in.fail("unknown event %q: run `yett connect opencode` to get the plugin of this version", cut(clean(name), 64))
		return nil, in.err
	}
	in.phase = e.Phase
	e.SessionID = in.text("sessionID")
	e.CallID = callID(OpenCode, e.SessionID, in.text("callID"))
	e.toolName = in.text("tool")
	e.Args, _ = in.args("args", false)
	e.Asked, e.Note = narrated(OpenCode, e.toolName, e.Args)
	e.Context = in.stable("directory")
	e.Tool = e.toolName
	if !opencodeBuiltIn[e.toolName] {
		if server, tool, is := splitMCP(e.toolName, "_", servers); is {
			e.Tool, e.mcp = mcpTool(server, tool), true
		}
	}
	if e.Phase == After {
		e.Outputs = []Output{in.output("output", e.Tool)}
	}
	return e, in.err
}

func (opencode) powers(*Event) powers { return powers{rewrite: replaces} }

func (c opencode) decide(_ *Event, d Decision) Reply {
	if d.Effect != Permit {
		return c.refuse(Before, d.Text)
	}
	o := wire.Object(nil)
	o.Str("effect", "permit")
	if d.Args != nil {
		o.Raw("args", d.Args)
	}
	return Reply{Stdout: o.Close()}
}

func opencodeSays(effect, message string) []byte {
	o := wire.Object(nil)
	o.Str("effect", effect)
	o.Str("message", message)
	return o.Close()
}

func (opencode) scanned(e *Event, worst Verdict, scans []Scan) Reply {
	o := wire.Object(nil)
	switch worst {
	case Pass:
		o.Str("effect", "pass")
		return Reply{Stdout: o.Close()}
	case Warned:
		return Reply{Stdout: opencodeSays("warn", noticeOf(scans, Warned))}
	case Redacted:
		if fitsShape(e.Outputs[0].JSON, scans[0].JSON, map[string]bool{"type": true, "mimeType": true}) {
			o.Str("effect", "replace")
			o.Raw("output", scans[0].JSON)
			return Reply{Stdout: o.Close()}
		}
		return Reply{Stdout: opencodeSays("withhold", notPutBack)}
	}
	return Reply{Stdout: opencodeSays("withhold", noticeOf(scans, Denied))}
}

func (opencode) refuse(p Phase, text string) Reply {
	effect := "deny"
	if p == After {
		effect = "withhold"
	}
	return Reply{Stdout: opencodeSays(effect, text), Stderr: line(text), Exit: 2}
}
