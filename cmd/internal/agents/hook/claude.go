package hook

import (
	"strconv"
	"strings"

	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// claude is Claude Code, as of 2.1.330.
type claude struct{}

var claudeNotices = map[string]bool{
	"PostToolUseFailure": true, "PermissionRequest": true, "PermissionDenied": true, "UserPromptExpansion": true,
	"SessionStart": true, "SessionEnd": true, "Stop": true, "StopFailure": true, "SubagentStart": true,
	"SubagentStop": true, "PreCompact": true, "PostCompact": true, "PreModelSwitch": true, "PostModelSwitch": true,
	"Notification": true, "Setup": true, "TeammateIdle": true, "TaskCreated": true, "TaskCompleted": true,
	"Elicitation": true, "ElicitationResult": true, "ConfigChange": true, "WorktreeCreate": true,
	"WorktreeRemove": true, "InstructionsLoaded": true, "CwdChanged": true, "FileChanged": true,
	"DirectoryAdded": true, "MessageDisplay": true,
}

func (c claude) read(in *fields, _ []string) (*Event, *Error) {
	in.alien("Claude Code", "hookEventName", "VS Code")
	in.alien("Claude Code", "cursor_version", "Cursor")
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
	case "PostToolBatch":
		e.Phase = AfterBatch
	case "UserPromptSubmit":
		e.Phase = Prompt
	default:
		e.Phase = Notice
		if !claudeNotices[name] {
			e = in.unknownEvent(name)
		}
		return e, in.err
	}
	in.phase = e.Phase
	e.SessionID = in.text("session_id")
	e.Context = in.stable("cwd", "mcp_server")
	if in.has("agent_id") {
		e.Subagent = in.maybe("agent_type")
	}
	switch e.Phase {
	case Prompt:
		e.Outputs = []Output{in.output("prompt", "")}
	case AfterBatch:
		c.batch(in, e)
	default:
		c.call(in, e)
	}
	e.Note = in.note(e.Note, "permission_mode")
	return e, in.err
}

func (c claude) call(in *fields, e *Event) {
	e.toolName = in.text("tool_name")
	e.CallID = callID(ClaudeCode, e.SessionID, in.text("tool_use_id"))
	e.Args, _ = in.args("tool_input", false)
	e.Asked, e.Note = narrated(ClaudeCode, e.toolName, e.Args)
	server := ""
	if in.has("mcp_server") {
		from := in.within("mcp_server")
		server, e.origin = from.maybe("name"), from.maybe("source")
	}
	var ok bool
	if e.Tool, e.mcp, ok = claudeTool(e.toolName, server); !ok {
		in.fail("the hook input: tool_name is not the name of a tool of mcp_server")
	}
	if e.Phase == After {
		e.Outputs = []Output{in.output("tool_response", e.Tool)}
	}
}

func (c claude) batch(in *fields, e *Event) {
	i := 0
	for v := range in.need("tool_calls", exact.Array).Elements() {
		call := &fields{v: v, path: "tool_calls.", phase: in.phase}
		if v.Kind() != exact.Object {
			in.fail("the hook input: tool_calls: expected objects, got %s", v.Kind())
			return
		}
		tool, _, _ := claudeTool(call.text("tool_name"), "")
		if call.err != nil {
			in.err = call.err
			return
		}
		for name, out := range v.Members() {
			switch name {
			case "tool_name", "tool_input", "tool_use_id": // what the model wrote itself
			default: // tool_response, and whatever else it may read
				e.Outputs = append(e.Outputs, outputOf("/tool_calls/"+strconv.Itoa(i)+"/"+name, tool, out))
			}
		}
		i++
	}
}

// claudeTool splits mcp__SERVER__TOOL as Claude Code does: at the server's name where the input has it, else at the
// first double underscore. In the joined name, a character that is no letter, digit, _ or - of the server is a _.
func claudeTool(name, server string) (tool string, mcp, ok bool) {
	joined, isMCP := strings.CutPrefix(name, "mcp__")
	if !isMCP {
		return name, false, server == ""
	}
	if server != "" {
		plain := strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
				return r
			}
			return '_'
		}, server)
		rest, is := strings.CutPrefix(joined, plain+"__")
		return mcpTool(plain, rest), true, is && rest != ""
	}
	s, t, ok := splitMCP(joined, "__", nil)
	return mcpTool(s, t), true, ok
}

func (claude) powers(*Event) powers { return powers{rewrite: replaces, ask: true, suspend: true} }

func (claude) decide(e *Event, d Decision) Reply {
	switch d.Effect {
	case Permit:
		if d.Args == nil && !d.Allow {
			return Reply{} // the user's own rules still apply
		}
		return Reply{Stdout: claudeSpecific("PreToolUse", func(o *wire.Writer) {
			if d.Allow {
				o.Str("permissionDecision", "allow")
			}
			if d.Args != nil {
				o.Raw("updatedInput", d.Args)
			}
		})}
	case Ask:
		return Reply{Stdout: claudeDecision("ask", d.Text)}
	case Suspend:
		return Reply{Stdout: claudeDecision("defer", d.Text)}
	}
	return Reply{Stdout: claudeDecision("deny", d.Text), Stderr: line(d.Text), Exit: 2}
}

func claudeSpecific(event string, fill func(o *wire.Writer)) []byte {
	o := wire.Object(nil)
	o.Object("hookSpecificOutput", func(o *wire.Writer) {
		o.Str("hookEventName", event)
		fill(o)
	})
	return o.Close()
}

func claudeDecision(word, text string) []byte {
	return claudeSpecific("PreToolUse", func(o *wire.Writer) {
		o.Str("permissionDecision", word)
		o.Str("permissionDecisionReason", text)
	})
}

// claudeStop ends the turn before the model sees anything more.
func claudeStop(p Phase, text string) []byte {
	o := wire.Object(nil)
	o.Bool("continue", false)
	o.Str("stopReason", text)
	if p == AfterBatch {
		o.Object("hookSpecificOutput", func(o *wire.Writer) { o.Str("hookEventName", "PostToolBatch") })
	}
	return o.Close()
}

// claudeFixed are members that hold words of Claude Code's own. An output in which one has changed is ignored, and the
// model reads the original.
var claudeFixed = map[string]bool{"type": true, "mode": true, "status": true, "action": true, "kind": true,
	"mimeType": true}

func (c claude) scanned(e *Event, worst Verdict, scans []Scan) Reply {
	if e.Phase == Prompt {
		if worst < Warned {
			return c.refuse(Prompt, noticeOf(scans, worst))
		}
		return c.warned("UserPromptSubmit", worst, scans)
	}
	if e.Phase == AfterBatch {
		if worst < Warned { // nothing can be replaced here
			return Reply{Stdout: claudeStop(AfterBatch, noticeOf(scans, worst))}
		}
		return c.warned("PostToolBatch", worst, scans)
	}
	if worst >= Warned {
		return c.warned("PostToolUse", worst, scans)
	}
	s, sent := scans[0], e.Outputs[0].JSON
	if s.Verdict == Redacted {
		if fitsShape(sent, s.JSON, claudeFixed) && !claudeImage(sent) {
			return Reply{Stdout: claudeSpecific("PostToolUse", func(o *wire.Writer) { o.Raw("updatedToolOutput", s.JSON) })}
		}
		s.Notice = notPutBack
	}
	withheld, ok := claudeWithheld(e, s.Notice)
	if !ok {
		return Reply{Stdout: claudeStop(After, s.Notice)}
	}
	o := wire.Object(nil)
	o.Str("decision", "block")
	o.Str("reason", s.Notice)
	o.Object("hookSpecificOutput", func(o *wire.Writer) {
		o.Str("hookEventName", "PostToolUse")
		o.Raw("updatedToolOutput", withheld)
	})
	return Reply{Stdout: o.Close()}
}

func (claude) warned(event string, worst Verdict, scans []Scan) Reply {
	if worst == Pass {
		return Reply{}
	}
	return Reply{Stdout: claudeSpecific(event, func(o *wire.Writer) {
		o.Str("additionalContext", noticeOf(scans, Warned))
	})}
}

// claudeWithheld is an output that holds the notice alone, for the tools whose shape is known: their own members, with
// the notice in place of every text. For all others the turn has to end: an output of a wrong shape is ignored, and the
// model reads the original.
func claudeWithheld(e *Event, notice string) ([]byte, bool) {
	var doc exact.Doc
	if doc.Parse(string(e.Outputs[0].JSON), exact.DefaultLimits) != nil {
		return nil, false
	}
	root := doc.Root()
	switch {
	case e.mcp && root.Kind() == exact.Array:
		o := wire.Object([]byte("["))
		o.Str("type", "text")
		o.Str("text", notice)
		return append(o.Close(), ']'), true
	case e.mcp:
		return exact.AppendString(nil, notice), true
	case e.toolName == "Bash" && !root.Get("isImage").Bool():
		return claudeSame(root, notice, exact.Bool, []string{"stdout", "stderr"},
			[]string{"interrupted", "isImage", "noOutputExpected"})
	case e.toolName == "Read" && root.Get("type").Str() == "text":
		file, ok := claudeSame(root.Get("file"), notice, exact.Number, []string{"filePath", "content"},
			[]string{"numLines", "startLine", "totalLines"})
		o := wire.Object(nil)
		o.Str("type", "text")
		o.Raw("file", file)
		return o.Close(), ok
	}
	return nil, false
}

// claudeSame writes the named members of v: the notice for each text, and the values of the others as they were. A text
// has to be there. Of the others the first does, and all are of one kind.
func claudeSame(v exact.Value, notice string, kind exact.Kind, texts, others []string) ([]byte, bool) {
	o := wire.Object(nil)
	for _, name := range texts {
		s := v.Get(name)
		if s.Kind() != exact.String {
			return nil, false
		}
		o.Str(name, notice)
	}
	for i, name := range others {
		switch val := v.Get(name); {
		case val.Kind() == kind:
			o.Raw(name, []byte(val.Raw()))
		case val.Exists() || i == 0:
			return nil, false
		}
	}
	return o.Close(), true
}

// claudeImage reports whether the output's strings are an image, which no text may replace.
func claudeImage(json []byte) bool {
	var doc exact.Doc
	return doc.Parse(string(json), exact.DefaultLimits) != nil || doc.Root().Get("isImage").Bool()
}

func (claude) refuse(p Phase, text string) Reply {
	switch p {
	case Before:
		return Reply{Stdout: claudeDecision("deny", text), Stderr: line(text), Exit: 2}
	case After, AfterBatch: // exit 2 would not hide the output
		return Reply{Stdout: claudeStop(p, text), Stderr: line(text)}
	case Prompt:
		o := wire.Object(nil)
		o.Str("decision", "block")
		o.Str("reason", text)
		return Reply{Stdout: o.Close(), Stderr: line(text), Exit: 2}
	}
	return Reply{Stdout: claudeStop(p, text), Stderr: line(text), Exit: 2}
}
