// Package wrap writes the command line that a hook puts in place of an agent's own, so that `yett exec` lets the output
// of a permitted shell command through the gateway, and owns the tickets that let each such command run once. It must
// never let a command run for another's ticket, or twice, and must never write a line in which a command can leave its
// quotes. Commands come from what the gateway has permitted; package execrun runs the line.
package wrap

import (
	_ "embed"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// Line is what a wrapped command line runs, by clean absolute paths: an agent decides neither what is found nor what
// is read.
type Line struct {
	Yett   string // the binary
	Config string // the hook's own file
	Ticket string // the id that Issue gave
}

// How bash and zsh run a wrapped command.
var (
	//go:embed wrap.bash
	inBash string
	//go:embed wrap.zsh
	inZsh string
)

// Wrap gives the command line that runs original in the agent's shell with its output let through the gateway. In bash
// and zsh the command runs in the shell itself: cd, export, options, functions and $? act as they would alone. In sh,
// dash, ash and ksh it runs in a child. An empty shell is any of these: the line looks for itself. A shell of another
// kind is an error: nothing is known to keep its output apart.
//
// A command that is written to print past the scanners can: with functions of the names that the line uses, or by
// writing its output in another form. What keeps an agent from that is the decision about the command.
//
// What the command leaves behind in the shell is not its output. Traps that it sets are muted once it is over, because
// their output would come unscanned. A function, an alias or a PROMPT_COMMAND that it leaves behind is scanned when a
// wrapped command calls it, and not when the agent's own lines do. A command that replaces the shell (exec) is scanned,
// and what it prints last may come after the shell's end. In the agent's shell the command prints to pipes, also at a
// terminal.
//
// In zsh the command runs inside of a function: typeset and declare without -g are local to it, a trap for EXIT runs at
// its end, traps for ZERR and DEBUG end with it, and traps for signals stay as they are.
func Wrap(original, shell string, c Line) (string, error) {
	switch {
	case original == "":
		return "", errors.New("there is no command")
	case strings.ContainsRune(original, 0) || !utf8.ValidString(original):
		return "", errors.New("the command is not UTF-8 text, or holds a NUL")
	case !clean(c.Yett) || !clean(c.Config):
		return "", errors.New("a wrapped command line needs clean absolute paths of yett and of the hook's file")
	case c.Ticket == "" || strings.Trim(c.Ticket, "0123456789abcdef") != "":
		return "", errors.New("a wrapped command line needs a ticket's id")
	}
	exec := Quote(c.Yett) + " exec --config " + Quote(c.Config) + " --ticket " + c.Ticket
	switch filepath.Base(shell) {
	case "sh", "dash", "ash", "ksh":
		return exec + " -- sh -c " + Quote(original), nil
	case "bash", "zsh":
	default:
		if shell != "" {
			return "", fmt.Errorf("the shell %q is not one whose commands can be wrapped: "+
				"expected bash, zsh, sh, dash, ash or ksh", shell)
		}
	}
	// the command stands here once, quoted: whatever it holds, it cannot end the line
	return "__yett_c=" + Quote(original) + "; __yett_s=126; __yett_d=" + Quote(Pipes(c.Config, c.Ticket)) +
		`; __yett_exec() { ` + exec + ` "$@"; }; if [ -n "${BASH_VERSION-}" ]; then eval ` + Quote(script(inBash)) +
		`; elif [ -n "${ZSH_VERSION-}" ]; then eval ` + Quote(script(inZsh)) +
		`; else __yett_exec -- sh -c "$__yett_c"; __yett_s=$?; fi
unset -f __yett_exec __yett_old __yett_end __yett_run __yett_mute 2>/dev/null || :
eval "unset __yett_c __yett_d __yett_x __yett_o __yett_n __yett_r __yett_g __yett_s; (exit $__yett_s)"`, nil
}

// script is a script without its comments.
func script(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if line = strings.TrimLeft(line, "\t"); line != "\n" && !strings.HasPrefix(line, "#") {
			b.WriteString(line)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func clean(path string) bool { return filepath.IsAbs(path) && filepath.Clean(path) == path }

// Quote writes one word of sh.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
