package connect

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/yett-dev/yett/cmd/internal/agents/hook"
)

// ways are the ways past the hooks of a site: those of its place first, then those of the agent.
func ways(s site) []Way {
	var out []Way
	managed := noManaged(s.agent) == ""
	switch {
	case s.scope != Managed && managed:
		out = append(out, Way{"These hooks are advisory: the agent runs as their owner, and can take them out.",
			"Install them with --managed, and run the agent as a user who cannot reach the gateway's admin socket."})
	case s.scope != Managed:
		out = append(out, Way{"These hooks are advisory: the agent runs as their owner, and can take them out.",
			"Give the agent a user of its own, and let another user own this file."})
	case s.agent == hook.Gemini: // the first was seen on 0.61.0, the second is documented
		out = append(out, Way{`A user can still switch these hooks off with "hooksConfig": {"disabled": ["` + geminiName +
			`"]} in settings of their own.`, "Make the user's and the project's settings files read-only for the agent."},
			Way{"GEMINI_CLI_SYSTEM_SETTINGS_PATH leads Gemini to another system settings file.",
				"Start Gemini with an environment that the agent does not choose."})
	}
	if name := elsewhere[s.agent]; name != "" && s.scope == User {
		out = append(out, Way{fmt.Sprintf("With %s set, %s reads another folder, where there are no hooks.", name, s.agent),
			"Keep it unset."})
	}
	if s.agent == hook.Codex && s.scope == Project {
		out = append(out, Way{"Codex does not load hooks of a project that is not trusted, and runs every tool there.",
			"Trust the project, or use --user."})
	}
	if s.agent == hook.Copilot && s.scope != Managed {
		out = append(out, Way{"VS Code reads this folder too. Yett refuses the calls of VS Code that reach these hooks.",
			"Connect VS Code by itself, and take the folder out of chat.hookFilesLocations there."})
	}
	for _, g := range hook.Gaps(s.agent) {
		if s.scope == Managed && closedHere(g) {
			continue
		}
		out = append(out, Way{g.What, g.Do})
	}
	return out
}

// gateWays are the ways past the hooks that entries of MCP servers open.
func gateWays(s site, names []string) []Way {
	if len(names) == 0 || s.agent == hook.ClaudeCode || s.agent == hook.Gemini { // these say where a server comes from
		return nil
	}
	return []Way{{fmt.Sprintf("%s tells hooks the name of an MCP server alone. Whoever writes another server called %s "+
		"into a configuration that it reads gets past the hooks with its tools.", s.agent, strings.Join(names, " or ")),
		"Let the agent change no configuration, and trust no project that brings one."}}
}

// WrapWay is what wrapping shell commands opens. Users of Claude Code have seen it (anthropics/claude-code 65393).
var WrapWay = Way{"The agent matches its user's own rules against the wrapped command, so rules about shell commands " +
	"match nothing. In a sandbox of the agent's own, a wrapped command may not reach the gateway: its output is " +
	"withheld. A command that is written to print past the scanners can.",
	"Write what they deny into the gateway's rules. Connect with --wrap=false if you need them."}

// closedHere says whether managed hooks close a gap.
func closedHere(g hook.Gap) bool { return strings.HasPrefix(g.Do, "Install the hooks in ") }

// elsewhere are the variables that lead agents to another folder than the one in the home directory.
var elsewhere = map[hook.Agent]string{hook.ClaudeCode: "CLAUDE_CONFIG_DIR", hook.Codex: "CODEX_HOME",
	hook.Copilot: "COPILOT_HOME", hook.OpenCode: "XDG_CONFIG_HOME", hook.VSCode: "XDG_CONFIG_HOME"}

// usual are the folders in the home directory that these variables stand for when they are not set.
var usual = map[string]string{"CLAUDE_CONFIG_DIR": ".claude", "CODEX_HOME": ".codex", "COPILOT_HOME": ".copilot",
	"XDG_CONFIG_HOME": ".config"}

// leadsAway says whether a variable is set to another folder than the usual one.
func leadsAway(name, home string) bool {
	value := os.Getenv(name)
	return name != "" && value != "" && filepath.Clean(value) != filepath.Join(home, usual[name])
}

// Text writes a result for people. undone says that it is an undo's, and proves that doctor comes next, which names the
// ways that stay open.
func (r *Result) Text(w io.Writer, undone, print, proves bool) error {
	b := &lineWriter{w: w}
	for _, f := range r.Files {
		if print && f.Diff != "" {
			b.raw(f.Diff)
			continue
		}
		b.line("%s: %s", f.Path, f.Change)
	}
	switch {
	case print && r.Hook != "unchanged":
		b.line("The hook's own file %s would be %s. A key in it is not shown.", r.HookFile, r.Hook)
	case r.Hook == "removed":
		b.line("%s: removed", r.HookFile)
	case !undone:
		b.line("%s: %s (where the gateway is, and the key; readable by %s)", r.HookFile, r.Hook, r.Reader)
	}
	if r.Key != "" {
		b.line("The key %s.", r.Key)
	}
	for _, n := range r.Notes {
		b.line("%s", n)
	}
	if undone && len(r.Files) == 0 && r.Hook != "removed" {
		b.line("%s is not connected here: nothing to undo.", r.Agent)
	}
	if undone || print || proves {
		return b.err
	}
	b.line("")
	b.line("What stays open:")
	for _, way := range r.Open {
		b.line("- %s", way.What)
		if way.Do != "" {
			b.line("  %s", way.Do)
		}
	}
	b.line("")
	b.line("%s", next(r))
	return b.err
}

// next is what the user does now.
func next(r *Result) string {
	switch {
	case r.Agent == string(hook.Codex) && r.Scope != Managed:
		return "Next: start codex and review the hooks with /hooks. Until then, and after every change of them, codex " +
			"skips them and runs every tool."
	case r.Scope == Project:
		return fmt.Sprintf("Next: restart %s in this project. Keep the files out of version control: they name paths of "+
			"this machine.", r.Agent)
	}
	return fmt.Sprintf("Next: restart each %s that runs already.", r.Agent)
}

// lineWriter keeps the first error.
type lineWriter struct {
	w   io.Writer
	err error
}

func (b *lineWriter) raw(s string) {
	if b.err == nil {
		_, b.err = io.WriteString(b.w, s)
	}
}

func (b *lineWriter) line(format string, args ...any) { b.raw(fmt.Sprintf(format, args...) + "\n") }
