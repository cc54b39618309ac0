package hook

import (
	"strings"

	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// copilot is the GitHub Copilot CLI, as of 1.0.102, and the cloud agent. Its input does not name the event: what has a
// toolResult comes after a tool, what has toolArgs before one.
type copilot struct{}

func (copilot) read(in *fields, servers []string) (*Event, *Error) {
	in.alien("Copilot", "hookEventName", "VS Code")
	if in.v.Get("hook_event_name").Exists() {
		in.fail("the hook input has hook_event_name: name Copilot's events in camelCase in its hook files")
	}
	e := &Event{Phase: Notice, Name: "notification"}
	switch {
	case in.v.Get("toolResult").Exists():
		e.Phase, e.Name = After, "postToolUse"
	case in.v.Get("toolName").Exists() || in.v.Get("toolArgs").Exists():
		e.Phase, e.Name = Before, "preToolUse"
	default:
		in.text("sessionId")
		return in.unknownEvent(e.Name), in.err
	}
	in.phase = e.Phase
	for name := range in.v.Members() {
		switch name {
		case "toolName", "toolArgs", "toolResult", "toolCallId":
		default:
			if strings.HasPrefix(name, "tool") { // it may be an output under another name
				in.fail("the hook input: unknown member %s", cut(clean(name), 64))
			}
		}
	}
	e.SessionID = in.text("sessionId")
	e.Context = in.stable("cwd")
	e.toolName = in.text("toolName")
	e.Args, e.wrapped = in.args("toolArgs", true)
	e.Asked, e.Note = narrated(Copilot, e.toolName, e.Args)
	stamp := in.v.Get("timestamp")
	if k := stamp.Kind(); k != exact.Number && k != exact.String {
		in.fail("the hook input: timestamp: expected a number, got %s", k)
	}
	if e.CallID = hashID(Copilot, e.SessionID, stamp.Raw(), e.toolName, string(e.Args)); in.has("toolCallId") {
		e.CallID = callID(Copilot, e.SessionID, in.text("toolCallId"))
	}
	e.Tool = e.toolName
	if server, tool, is := splitMCP(e.toolName, "-", servers); is {
		e.Tool, e.mcp = mcpTool(server, tool), true
	}
	if e.Phase == After {
		e.Outputs = []Output{in.output("toolResult", e.Tool)}
	}
	return e, in.err
}

func (copilot) powers(*Event) powers { return powers{rewrite: replaces, ask: true, quiet: "{}"} }

func (c copilot) decide(_ *Event, d Decision) Reply {
	o := wire.Object(nil)
	switch d.Effect {
	case Permit:
		if d.Args != nil {
			o.Raw("modifiedArgs", d.Args)
		}
		return Reply{Stdout: o.Close()}
	case Ask:
		return Reply{Stdout: copilotDecision("ask", d.Text)}
	}
	return c.refuse(Before, d.Text)
}

func copilotDecision(word, text string) []byte {
	o := wire.Object(nil)
	o.Str("permissionDecision", word)
	o.Str("permissionDecisionReason", text)
	return o.Close()
}

func (c copilot) scanned(e *Event, worst Verdict, scans []Scan) Reply {
	switch worst {
	case Pass:
		return Reply{Stdout: []byte("{}")}
	case Warned:
		o := wire.Object(nil)
		o.Str("additionalContext", noticeOf(scans, Warned))
		return Reply{Stdout: o.Close()}
	case Redacted:
		return Reply{Stdout: copilotResult(orWithheld(copilotText(scans[0].JSON)))}
	}
	return Reply{Stdout: copilotResult(noticeOf(scans, Denied))}
}

// copilotText is what the model reads of a result.
func copilotText(json []byte) string {
	var doc exact.Doc
	if doc.Parse(string(json), exact.DefaultLimits) != nil {
		return notPutBack
	}
	if text := doc.Root().Get("textResultForLlm"); text.Kind() == exact.String {
		return text.Str()
	}
	return plainText(json)
}

// copilotResult replaces the output. The type is always success: a failure takes its text from another member.
func copilotResult(text string) []byte {
	o := wire.Object(nil)
	o.Object("modifiedResult", func(o *wire.Writer) {
		o.Str("resultType", "success")
		o.Str("textResultForLlm", text)
	})
	return o.Close()
}

func (copilot) refuse(p Phase, text string) Reply {
	if p == After { // a status that is not 0 would not hide the output
		return Reply{Stdout: copilotResult(text), Stderr: line(text)}
	}
	return Reply{Stdout: copilotDecision("deny", text), Stderr: line(text), Exit: 2}
}
