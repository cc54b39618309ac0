package connect

import (
	"fmt"
	"io"

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
	case s.agent == hook.Gemini: // seen on 0.61.0
		out = append(out, Way{`A user can still switch these hooks off with "hooksConfig": {"disabled": ["` + geminiName +
			`"]} in settings of their own.`, "Make the user's settings file read-only for the agent."})
	}
	if s.agent == hook.Copilot && s.scope != Managed {
		out = append(out, Way{"VS Code reads this folder too. Yett refuses the calls of VS Code that reach these hooks.",
			"Connect VS Code by itself, and take the folder out of chat.hookFilesLocations there."})
	}
	for _, g := range hook.Gaps(s.agent) {
		out = append(out, Way{g.What, g.Do})
	}
	return out
}

// Text writes a result for people. undone says that it is an undo's.
func (r *Result) Text(w io.Writer, undone, print bool) error {
	b := &lineWriter{w: w}
	for _, f := range r.Files {
		if print && f.Diff != "" {
			b.raw(f.Diff)
			continue
		}
		b.line("%s: %s", f.Path, f.Change)
	}
	whose := "readable by you alone"
	if r.Scope == Managed {
		whose = "readable by root and the group given"
	}
	switch {
	case print && r.Hook != "unchanged":
		b.line("The hook's own file %s would be %s; it holds the key, which is not shown.", r.HookFile, r.Hook)
	case r.Hook == "removed":
		b.line("%s: removed, with the key in it", r.HookFile)
	case !undone:
		b.line("%s: %s (where the gateway is, and the key; %s)", r.HookFile, r.Hook, whose)
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
	if undone || print {
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
	return fmt.Sprintf("Next: restart %s.", r.Agent)
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
