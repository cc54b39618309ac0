package hook

import "github.com/yett-dev/yett/sdk/exact"

// windsurf is Windsurf's Cascade, from its documents. It has not been run. Status 2 of a hook before an action is all
// that it understands: it reads no stdout, changes no arguments, asks nobody and hides no output.
type windsurf struct{}

var windsurfNotices = map[string]bool{
	"post_read_code": true, "post_write_code": true, "post_run_command": true, "post_cascade_response": true,
	"post_cascade_response_with_transcript": true, "post_setup_worktree": true,
}

func (w windsurf) read(in *fields, _ []string) (*Event, *Error) {
	name := in.text("agent_action_name")
	if in.err != nil {
		return nil, in.err
	}
	e := &Event{Name: name}
	switch name {
	case "pre_read_code", "pre_write_code", "pre_run_command", "pre_mcp_tool_use":
		e.Phase = Before
	case "post_mcp_tool_use":
		e.Phase = After
	case "pre_user_prompt":
		e.Phase = Prompt
	default:
		e.Phase = Notice
		if !windsurfNotices[name] {
			e = in.unknownEvent(name)
		}
		return e, in.err
	}
	in.phase = e.Phase
	e.SessionID = in.text("trajectory_id")
	info := in.within("tool_info")
	switch {
	case e.Phase == Prompt:
		e.Outputs = []Output{info.output("user_prompt", "")}
	case name == "pre_mcp_tool_use" || name == "post_mcp_tool_use":
		e.toolName, e.mcp = info.text("mcp_tool_name"), true
		e.Tool = mcpTool(info.text("mcp_server_name"), e.toolName)
		e.Args, _ = info.args("mcp_tool_arguments", false)
	default:
		e.toolName = map[string]string{"pre_read_code": "read_code", "pre_write_code": "write_code",
			"pre_run_command": "run_command"}[name]
		e.Tool = e.toolName
		info.text(map[string]string{"pre_read_code": "file_path", "pre_write_code": "file_path",
			"pre_run_command": "command_line"}[name])
		e.Args = []byte(in.need("tool_info", exact.Object).Raw())
		e.Context = info.stable("cwd")
	}
	if e.Phase != Prompt {
		e.CallID = hashID(Windsurf, e.SessionID, in.text("execution_id"), in.text("timestamp"), e.Tool, string(e.Args))
	}
	if e.Phase == After {
		e.Outputs = []Output{info.output("mcp_result", e.Tool)}
	}
	if in.err == nil {
		in.err = info.err
	}
	e.Note = in.note("", "execution_id")
	return e, in.err
}

func (windsurf) powers(*Event) powers { return powers{} }

func (w windsurf) decide(_ *Event, d Decision) Reply {
	if d.Effect == Permit {
		return Reply{}
	}
	return w.refuse(Before, d.Text)
}

const windsurfShows = "Windsurf has no way to hide an output: the model has read it"

func (w windsurf) scanned(e *Event, worst Verdict, scans []Scan) Reply {
	switch worst {
	case Pass:
		return Reply{}
	case Warned:
		return Reply{Stderr: line(noticeOf(scans, Warned))}
	}
	return w.refuse(e.Phase, noticeOf(scans, worst))
}

func (windsurf) refuse(p Phase, text string) Reply {
	r := Reply{Stderr: line(text), Exit: 2}
	if p == After {
		r.Uncovered = windsurfShows
	}
	return r
}
