package hook

import (
	"strings"

	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// gemini is the Gemini CLI, as of 0.61.0. It merges new arguments into the old ones, and a question without a person at
// the terminal hangs for ever, so it is never asked.
type gemini struct{}

var geminiNotices = map[string]bool{
	"AfterAgent": true, "BeforeModel": true, "AfterModel": true, "BeforeToolSelection": true, "SessionStart": true,
	"SessionEnd": true, "Notification": true, "PreCompress": true,
}

func (g gemini) read(in *fields, _ []string) (*Event, *Error) {
	name := in.text("hook_event_name")
	if in.err != nil {
		return nil, in.err
	}
	e := &Event{Name: name}
	switch name {
	case "BeforeTool":
		e.Phase = Before
	case "AfterTool":
		e.Phase = After
	case "BeforeAgent":
		e.Phase = Prompt
	default:
		e.Phase = Notice
		if !geminiNotices[name] {
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
	e.Args, _ = in.args("tool_input", false)
	e.CallID = hashID(Gemini, e.SessionID, in.text("timestamp"), e.toolName, string(e.Args))
	e.Asked, e.Note = narrated(Gemini, e.toolName, e.Args)
	g.name(in, e)
	if e.Phase == After {
		e.Outputs = g.outputs(in, e.Tool)
	}
	return e, in.err
}

// name takes server and tool from mcp_context: the joined name does not say where one ends.
func (gemini) name(in *fields, e *Event) {
	e.Tool = e.toolName
	if !in.has("mcp_context") {
		if strings.HasPrefix(e.toolName, "mcp_") {
			in.fail("the hook input: a tool of an MCP server without mcp_context")
		}
		return
	}
	mcp := in.within("mcp_context")
	e.Tool, e.mcp = mcpTool(mcp.text("server_name"), mcp.text("tool_name")), true
	if mcp.err != nil {
		in.err = mcp.err
	}
	var args []string
	for v := range mcp.v.Get("args").Elements() {
		args = append(args, v.Str())
	}
	e.origin = originOf(mcp.v.Get("command").Str(), args)
	o := wire.Object(nil)
	if in.has("cwd") {
		o.Raw("cwd", []byte(in.v.Get("cwd").Raw()))
	}
	o.Raw("mcp_server", mcp.stable("server_name", "command", "args", "url"))
	e.Context = o.Close()
}

// outputs are what the model reads; returnDisplay is for the person.
func (gemini) outputs(in *fields, tool string) []Output {
	whole := in.output("tool_response", tool)
	response := in.v.Get("tool_response")
	if response.Kind() != exact.Object || !response.Get("llmContent").Exists() {
		return []Output{whole}
	}
	out := []Output{outputOf("/tool_response/llmContent", tool, response.Get("llmContent"))}
	if failure := response.Get("error"); failure.Exists() && failure.Kind() != exact.Null {
		out = append(out, outputOf("/tool_response/error", tool, failure))
	}
	return out
}

func (gemini) powers(*Event) powers { return powers{rewrite: merges, quiet: "{}"} }

func (g gemini) decide(_ *Event, d Decision) Reply {
	switch {
	case d.Effect == Permit && d.Args == nil:
		return Reply{Stdout: []byte("{}")}
	case d.Effect == Permit:
		o := wire.Object(nil)
		o.Object("hookSpecificOutput", func(o *wire.Writer) {
			o.Str("hookEventName", "BeforeTool")
			o.Raw("tool_input", d.Args)
		})
		return Reply{Stdout: o.Close()}
	}
	return g.refuse(Before, d.Text)
}

// scanned answers with a denial whose reason replaces the result.
func (g gemini) scanned(e *Event, worst Verdict, scans []Scan) Reply {
	switch {
	case worst == Pass:
		return Reply{Stdout: []byte("{}")}
	case worst == Warned:
		o := wire.Object(nil)
		o.Object("hookSpecificOutput", func(o *wire.Writer) {
			o.Str("hookEventName", e.Name)
			o.Str("additionalContext", noticeOf(scans, Warned))
		})
		return Reply{Stdout: o.Close()}
	case worst == Redacted && e.Phase == After:
		var texts []string
		for i, s := range scans {
			text := e.Outputs[i].JSON
			if s.Verdict == Redacted {
				text = s.JSON
			}
			texts = append(texts, plainText(text))
		}
		return Reply{Stdout: geminiDeny(orWithheld(strings.Join(texts, "\n")))}
	}
	return g.refuse(e.Phase, noticeOf(scans, worst))
}

func geminiDeny(reason string) []byte {
	o := wire.Object(nil)
	o.Str("decision", "deny")
	o.Str("reason", reason)
	return o.Close()
}

func (gemini) refuse(_ Phase, text string) Reply {
	return Reply{Stdout: geminiDeny(text), Stderr: line(text), Exit: 2}
}
