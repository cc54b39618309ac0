package wrap

import (
	"errors"
	"fmt"

	"github.com/yett-dev/yett/cmd/internal/agents/hook"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// Call is a permitted call of an agent's shell.
type Call struct {
	Agent     hook.Agent
	Tool      string // as the gateway was asked about it
	Args      []byte // what the call runs with: the hook's Decision.Args, or the event's Args if that is nil
	AgentID   string
	SessionID string
	Dir       string // where the shell will be; "" if the agent does not say for sure
	Shell     string // the agent's shell; "" for one that is not known, see Wrap
	Yett      string // this binary, as a clean absolute path
	HookFile  string // the hook's own file
}

// Runs reports whether a call of this tool runs a shell command that Rewrite can wrap.
func Runs(agent hook.Agent, tool string) bool {
	for _, name := range hook.Shells(agent) {
		if name == tool {
			return true
		}
	}
	return false
}

// Rewrite gives the arguments with which a permitted call runs so that its output is let through the gateway, and
// issues a ticket for each of its commands. All members but the command keep their bytes. An error says that the call
// must not run, because its output could not be kept apart. Give the result to the agent as Decision.Args.
//
// An agent that matches its user's own rules against the arguments matches them against these. Users of Claude Code
// 2.1.162 have seen it (anthropics/claude-code 65393). A rule that allows Bash(npm test:*) then matches no command, and
// the user is asked. A rule that denies Bash(rm:*) matches none either, and the user is asked in place of a refusal.
// With the hook file's allow nobody is asked at all: what the user's own rules deny, the gateway's rules have to deny.
func Rewrite(c Call) ([]byte, error) {
	if !Runs(c.Agent, c.Tool) {
		return nil, fmt.Errorf("%s is no tool of %s whose commands can be wrapped", c.Tool, c.Agent)
	}
	var doc exact.Doc
	if err := doc.Parse(string(c.Args), exact.DefaultLimits); err != nil {
		return nil, fmt.Errorf("the call's arguments: %w", err)
	}
	root := doc.Root()
	if root.Kind() != exact.Object || root.Get("command").Exists() == root.Get("commands").Exists() {
		return nil, errors.New("the call's arguments: expected either command or commands")
	}
	o := wire.Object(nil)
	for name, v := range root.Members() {
		switch name {
		case "command":
			line, err := c.wrap(v)
			if err != nil {
				return nil, err
			}
			o.Str(name, line)
		case "commands":
			lines, err := c.wrapEach(v)
			if err != nil {
				return nil, err
			}
			o.Strs(name, lines)
		default:
			o.Raw(name, []byte(v.Raw()))
		}
	}
	return o.Close(), nil
}

func (c *Call) wrapEach(v exact.Value) ([]string, error) {
	if v.Kind() != exact.Array || v.Len() == 0 {
		return nil, fmt.Errorf("the call's commands: expected a list, got %s", v.Kind())
	}
	var out []string
	for each := range v.Elements() {
		line, err := c.wrap(each)
		if err != nil {
			return nil, err
		}
		out = append(out, line)
	}
	return out, nil
}

func (c *Call) wrap(v exact.Value) (string, error) {
	if v.Kind() != exact.String {
		return "", fmt.Errorf("the call's command: expected a string, got %s", v.Kind())
	}
	command := v.Str()
	// what cannot be wrapped costs no ticket
	if _, err := Wrap(command, c.Shell, Line{Yett: c.Yett, Config: c.HookFile, Ticket: "0"}); err != nil {
		return "", err
	}
	id, err := Issue(c.HookFile, Ticket{Command: command, Shell: "sh", Tool: c.Tool, AgentID: c.AgentID,
		SessionID: c.SessionID, Dir: c.Dir})
	if err != nil {
		return "", err
	}
	return Wrap(command, c.Shell, Line{Yett: c.Yett, Config: c.HookFile, Ticket: id})
}
