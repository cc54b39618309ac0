package connect

import (
	"regexp"
	"strings"
	"time"

	"github.com/yett-dev/yett/cmd/internal/agents/hook"
	"github.com/yett-dev/yett/cmd/internal/agents/jsontext"
)

// event is one event of an agent that gets a hook.
type event struct {
	name  string
	phase hook.Phase
}

// eventsOf are the events that get a hook. No matcher narrows them where none is needed: a tool that no name is known
// of would run.
var eventsOf = map[hook.Agent][]event{
	hook.ClaudeCode: {{"PreToolUse", hook.Before}, {"PostToolUse", hook.After}, {"PostToolBatch", hook.AfterBatch}},
	hook.Codex:      {{"PreToolUse", hook.Before}, {"PostToolUse", hook.After}},
	hook.Gemini:     {{"BeforeTool", hook.Before}, {"AfterTool", hook.After}},
	hook.Copilot:    {{"preToolUse", hook.Before}, {"postToolUse", hook.After}},
	hook.Cursor: {{"preToolUse", hook.Before}, {"beforeReadFile", hook.Before}, {"beforeSubmitPrompt", hook.Prompt},
		{"postToolUse", hook.After}},
	hook.VSCode: {{"PreToolUse", hook.Before}, {"PostToolUse", hook.After}},
	hook.Windsurf: {{"pre_run_command", hook.Before}, {"pre_mcp_tool_use", hook.Before}, {"pre_read_code", hook.Before},
		{"pre_write_code", hook.Before}},
	hook.Cline: {{"PreToolUse", hook.Before}, {"PostToolUse", hook.After}},
}

// geminiName is the name of Yett's hooks in Gemini's lists.
const geminiName = "yett"

// entry is the value that stands in an event's array.
func entry(agent hook.Agent, phase hook.Phase, line string) jsontext.Fields {
	type f = jsontext.Field
	limit := hook.TimingOf(agent, phase).Agent
	seconds := int(limit / time.Second)
	group := func(handler ...f) jsontext.Fields {
		return jsontext.Fields{{Name: "hooks", Value: jsontext.List{jsontext.Fields(handler)}}}
	}
	command := []f{{Name: "type", Value: "command"}, {Name: "command", Value: line}}
	switch agent {
	case hook.ClaudeCode:
		return group(append(command, f{Name: "timeout", Value: seconds}, f{Name: "onFailure", Value: "block"},
			f{Name: "statusMessage", Value: "Yett"})...)
	case hook.Codex:
		return group(append(command, f{Name: "timeout", Value: seconds})...)
	case hook.Gemini:
		return append(jsontext.Fields{{Name: "matcher", Value: "*"}}, group(f{Name: "type", Value: "command"},
			f{Name: "name", Value: geminiName}, command[1], f{Name: "timeout", Value: int(limit / time.Millisecond)})...)
	case hook.Copilot:
		return jsontext.Fields{command[0], {Name: "bash", Value: line}, {Name: "timeoutSec", Value: seconds}}
	case hook.Cursor:
		entry := jsontext.Fields{command[1], {Name: "timeout", Value: seconds}}
		if phase != hook.After { // what has run cannot be refused any more
			entry = append(entry, f{Name: "failClosed", Value: true})
		}
		return entry
	case hook.VSCode:
		return append(jsontext.Fields(command), f{Name: "timeout", Value: seconds})
	}
	return jsontext.Fields{command[1], {Name: "show_output", Value: true}} // Windsurf
}

// grouped says whether an agent's events hold groups with handlers in "hooks", and not handlers.
func grouped(agent hook.Agent) bool {
	return agent == hook.ClaudeCode || agent == hook.Codex || agent == hook.Gemini
}

// lineMembers are the members of a handler that hold what is run.
var lineMembers = []string{"command", "bash", "linux", "osx"}

// ours says whether a line runs Yett's hook for this agent: one that package hook made, with whatever path, or one that
// somebody wrote by hand. Two hooks of Yett would ask for each call twice.
func ours(agent hook.Agent, line string) bool {
	runs := regexp.MustCompile(`(^|[\s(/'])(yett|yett-hook)'? hook ` + string(agent) + `($|[\s)])`)
	return runs.MatchString(line) ||
		strings.Contains(line, " hook "+string(agent)+" ") && strings.Contains(line, "yett: ")
}

// off is a setting that switches hooks off.
type off struct {
	path  []string
	value string // as compact JSON; for a list: an element
}

// offsOf are the settings that switch an agent's hooks off from within the file that holds them.
func offsOf(agent hook.Agent, scope Scope) []off {
	switch {
	case agent == hook.Gemini:
		return []off{{[]string{"hooksConfig", "enabled"}, "false"},
			{[]string{"hooksConfig", "disabled"}, `"` + geminiName + `"`}}
	case agent == hook.Copilot, agent == hook.ClaudeCode && scope != Managed: // managed hooks run all the same
		return []off{{[]string{"disableAllHooks"}, "true"}}
	}
	return nil
}

// setting is a member that is written beside the hooks.
type setting struct {
	path  []string
	value any
	// other says what another value means: what to do about it, or, with a note, that it is left as it is.
	other string
	note  bool
}

// settingsOf are the settings of an agent's file.
func settingsOf(agent hook.Agent, scope Scope) []setting {
	switch {
	case agent == hook.Copilot, agent == hook.Cursor:
		return []setting{{path: []string{"version"}, value: 1,
			other: "expected version 1: this program's other versions are not known"}}
	case agent == hook.ClaudeCode && scope == Managed:
		return []setting{{path: []string{"allowManagedHooksOnly"}, value: true, note: true,
			other: "allowManagedHooksOnly is not true: hooks of users and projects run too"}}
	case agent == hook.Gemini && scope == Managed: // else a user's own "enabled": false wins
		return []setting{{path: []string{"hooksConfig", "enabled"}, value: true, other: "hooks are switched off here: set " +
			"hooksConfig.enabled to true"}}
	}
	return nil
}

// dialectOf is what an agent reads besides strict JSON. Claude Code, Codex and Copilot throw a file with a comment
// away, and the hooks in it, which was seen on them; nobody has run Windsurf and Cursor.
func dialectOf(agent hook.Agent) jsontext.Dialect {
	d := jsontext.Dialect{Reader: string(agent)}
	switch agent {
	case hook.ClaudeCode:
		d.BOM, d.Duplicates = true, true
	case hook.Gemini:
		d.Comments, d.Duplicates = true, true
	case hook.Cursor: // it cuts each line at two slashes
		d.Comments, d.LinesOnly = true, true
	case hook.VSCode:
		d.Comments, d.TrailingCommas, d.BOM, d.Duplicates = true, true, true, true
	}
	return d
}
