package hook

import (
	_ "embed"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/yett-dev/yett/sdk/exact"
)

// Timing is how long a hook may take, from the inside out. Each limit must end before the next one.
type Timing struct {
	Watchdog time.Duration // the command refuses by itself
	Guard    time.Duration // the guard line ends the command
	Agent    time.Duration // to be set in the agent's configuration, which runs the tool when it is over; 0 where none
}

// TimingOf is the Timing of a hook.
func TimingOf(agent Agent, phase Phase) Timing {
	switch {
	case agent == Cline: // its limit of about a minute is fixed
		return Timing{Watchdog: 45 * time.Second, Guard: 50 * time.Second, Agent: 60 * time.Second}
	case agent == OpenCode: // it has no limit
		return Timing{Watchdog: 50 * time.Second, Guard: 55 * time.Second}
	case agent == Windsurf: // its limit is not written down
		return Timing{Watchdog: 20 * time.Second, Guard: 25 * time.Second}
	case phase != Before, agent == Copilot, agent == Cursor, agent == VSCode:
		return Timing{Watchdog: 20 * time.Second, Guard: 25 * time.Second, Agent: 30 * time.Second}
	}
	return Timing{Watchdog: 50 * time.Second, Guard: 55 * time.Second, Agent: 60 * time.Second}
}

// Command is what a guard line runs, by clean absolute paths: an agent decides neither what is found nor what is read.
type Command struct {
	Yett    string // the binary
	Config  string // the hook's own file: where the gateway is, and the key
	Timeout string // timeout(1); "" if the system has none, as macOS: only the watchdog ends a hang there
}

// Guard is what an agent runs for a hook: the command, and around it what refuses when the command is missing, killed,
// hangs or ends in any way that is not its own. It is one line of sh; for Cline it is a whole script, and for OpenCode
// the source of a plugin. Nobody has run a line without timeout(1).
func Guard(agent Agent, phase Phase, c Command) (string, error) {
	if of(agent) == nil {
		return "", fmt.Errorf("unknown agent %q", string(agent))
	}
	if phase == Unknown || phase == Notice {
		return "", fmt.Errorf("no hook is needed for phase %s", phase)
	}
	if err := errors.Join(absolute("yett", c.Yett), absolute("the hook's file", c.Config)); err != nil {
		return "", err
	}
	limit := TimingOf(agent, phase).Guard
	if agent == OpenCode {
		return pluginSource(c, limit), nil
	}
	command := quoted(c.Yett) + " hook " + string(agent) + " --config " + quoted(c.Config)
	if c.Timeout != "" {
		if err := absolute("timeout", c.Timeout); err != nil {
			return "", err
		}
		command = fmt.Sprintf("%s -k 1 %d %s", quoted(c.Timeout), int(limit/time.Second), command)
	}
	switch {
	case agent == Cline:
		return "#!/bin/sh\n" + answered(command, string(cline{}.refuse(phase, noDecision).Stdout), true) + "\n", nil
	case agent == Gemini && (phase == After || phase == AfterBatch):
		return heldGuard(command, notScanned), nil
	case agent == Gemini:
		return heldGuard(command, noDecision), nil
	case phase == After || phase == AfterBatch:
		return outputGuard(agent, phase, command), nil
	}
	return exitGuard(command, noDecision), nil
}

const (
	noDecision = "yett: no decision, call refused"
	notScanned = "yett: output not scanned, withheld"
)

// outputGuard is the guard of a hook that scans. Where status 2 does not hide an output, the fallback has to be an
// answer, and the command's own answer is held back until it is complete.
func outputGuard(agent Agent, phase Phase, command string) string {
	fallback := string(of(agent).refuse(phase, notScanned).Stdout)
	switch agent {
	case ClaudeCode:
		return answered(command, fallback, false)
	case Copilot, VSCode, Cursor:
		return answered(command, fallback, true)
	}
	return exitGuard(command, notScanned)
}

// exitGuard lets status 0 through, and makes of every other status a 2 with a text on stderr.
func exitGuard(command, text string) string {
	return command + ` || { [ $? -eq 2 ] || echo "` + text + `" >&2; exit 2; }`
}

// heldGuard is exitGuard for an agent that believes what was printed whatever the status is: nothing is printed unless
// the command has ended with status 0.
func heldGuard(command, text string) string {
	return "if o=$(" + command + `); then printf %s "$o"; else [ $? -eq 2 ] || echo "` + text + `" >&2; exit 2; fi`
}

// answered prints what the command printed, once it has ended with status 0, and the fallback otherwise. An agent that
// takes an empty answer for consent where ours is never empty gets the fallback for it too.
func answered(command, fallback string, neverEmpty bool) string {
	whole := ""
	if neverEmpty {
		whole = ` && [ -n "$o" ]`
	}
	return "if o=$(" + command + ")" + whole + "; then printf %s \"$o\"; else printf %s '" + fallback + "'; fi"
}

// absolute says why a path cannot stand in a guard line. Cursor cuts lines of its file at two slashes.
func absolute(what, p string) error {
	switch {
	case !path.IsAbs(p) || path.Clean(p) != p:
		return fmt.Errorf("%s: expected a clean absolute path, got %q", what, p)
	case strings.ContainsFunc(p, func(r rune) bool { return r < 0x20 || r == 0x7f }):
		return fmt.Errorf("%s: the path has a control character", what)
	}
	return nil
}

// quoted is a path for sh.
func quoted(p string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+@", r)
	}
	if strings.ContainsFunc(p, func(r rune) bool { return !plain(r) }) {
		return "'" + strings.ReplaceAll(p, "'", `'\''`) + "'"
	}
	return p
}

//go:embed opencode.js
var plugin string

func pluginSource(c Command, limit time.Duration) string {
	return strings.NewReplacer(`"{{yett}}"`, script(c.Yett), `"{{config}}"`, script(c.Config), `"{{limit}}"`,
		fmt.Sprint(limit.Milliseconds())).Replace(plugin)
}

// script is a string for a JavaScript source.
func script(s string) string { return string(exact.AppendString(nil, s)) }
