package hook

import (
	"strings"

	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// cline is the Cline CLI, as of 3.0.65. Only valid JSON at status 0 that cancels the run or changes the call keeps a
// tool from running: every other end, also status 2, runs it.
type cline struct{}

var clineNotices = map[string]bool{
	"agent_start": true, "agent_resume": true, "agent_abort": true, "agent_end": true, "agent_error": true,
	"pre_compact": true, "session_shutdown": true,
}

func (c cline) read(in *fields, servers []string) (*Event, *Error) {
	name := in.text("hookName")
	if in.err != nil {
		return nil, in.err
	}
	e := &Event{Name: name}
	switch name {
	case "tool_call":
		e.Phase = Before
	case "tool_result":
		e.Phase = After
	case "prompt_submit":
		e.Phase = Prompt
	default:
		e.Phase = Notice
		if !clineNotices[name] {
			e = in.unknownEvent(name)
		}
		return e, in.err
	}
	in.phase = e.Phase
	e.SessionID = in.text("taskId")
	e.Context = in.stable("workspaceRoots")
	if e.Phase == Prompt {
		submit := in.within("userPromptSubmit")
		e.Outputs = []Output{submit.output("prompt", "")}
		return e, submit.err
	}
	call := in.within(name)
	e.toolName = call.text("name")
	e.CallID = callID(Cline, e.SessionID, call.text("id"))
	e.Tool = e.toolName
	if server, tool, is := splitMCP(e.toolName, "__", servers); is {
		e.Tool, e.mcp = mcpTool(server, tool), true
	}
	if e.Phase == After {
		e.Outputs = c.outputs(in, call, e.Tool)
		return e, call.err
	}
	e.Args, _ = call.args("input", false)
	e.Asked, e.Note = narrated(Cline, e.toolName, e.Args)
	return e, call.err
}

func (cline) outputs(in, call *fields, tool string) []Output {
	var out []Output
	for _, member := range []string{"output", "error"} {
		if call.has(member) {
			out = append(out, call.output(member, tool))
		}
	}
	if v := in.v.Get("postToolUse").Get("result"); v.Exists() {
		out = append(out, outputOf("/postToolUse/result", tool, v))
	}
	if len(out) == 0 {
		call.fail("the hook input has no tool_result.output")
	}
	return out
}

func (cline) powers(*Event) powers { return powers{rewrite: merges, quiet: "{}"} }

func (c cline) decide(e *Event, d Decision) Reply {
	if d.Effect == Permit {
		o := wire.Object(nil)
		if d.Args != nil {
			o.Raw("overrideInput", d.Args)
		}
		return Reply{Stdout: o.Close()}
	}
	if harmless := clineHarmless(e, d.Text); harmless != nil {
		o := wire.Object(nil)
		o.Raw("overrideInput", harmless)
		return Reply{Stdout: o.Close(), Stderr: line(d.Text)}
	}
	return c.refuse(Before, d.Text)
}

// clineShells are the tools whose call can be turned into one that prints the reason, so that the run goes on.
var clineShells = map[string]bool{"execute_command": true, "run_commands": true, "bash": true}

// clineHarmless is the input of a shell call with a command that prints the text, nil if the call is of another kind.
func clineHarmless(e *Event, text string) []byte {
	var doc exact.Doc
	if !clineShells[e.toolName] || doc.Parse(string(e.Args), exact.DefaultLimits) != nil {
		return nil
	}
	// No character of the text means anything to a shell inside single quotes, whichever shell it is.
	command := "echo '" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(" .,:;_/()=-", r) {
			return r
		}
		return ' '
	}, cut(text, maxText/4)) + "'"
	o := wire.Object(nil)
	replaced := false
	for name, v := range doc.Root().Members() {
		switch {
		case name == "command" && v.Kind() == exact.String:
			o.Str(name, command)
			replaced = true
		case name == "commands" && v.Kind() == exact.Array && v.Len() > 0 && v.Index(0).Kind() == exact.String:
			o.Strs(name, []string{command})
			replaced = true
		case name == "command" || name == "commands":
			return nil
		default:
			o.Raw(name, []byte(v.Raw()))
		}
	}
	if !replaced {
		return nil
	}
	return o.Close()
}

func (c cline) scanned(e *Event, worst Verdict, scans []Scan) Reply {
	switch worst {
	case Pass:
		return Reply{Stdout: []byte("{}")}
	case Warned:
		o := wire.Object(nil)
		o.Str("contextModification", noticeOf(scans, Warned))
		return Reply{Stdout: o.Close()}
	}
	return c.refuse(e.Phase, noticeOf(scans, worst))
}

// refuse aborts the run: at any other status than 0 the tool would run, and its output be read.
func (cline) refuse(_ Phase, text string) Reply {
	o := wire.Object(nil)
	o.Bool("cancel", true)
	o.Str("errorMessage", text)
	return Reply{Stdout: o.Close(), Stderr: line(text)}
}
