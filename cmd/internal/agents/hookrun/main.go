package hookrun

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/yett-dev/yett/cmd/internal/agents/hook"
)

// Run answers one hook with its surroundings handed in, and returns the exit status. args are what names the agent,
// file is the hook's own file. If stdout is the process's own, it is moved away first.
func Run(ctx context.Context, args []string, file string, stdin io.Reader, stdout, stderr io.Writer) int {
	out, err := apart(stdout)
	if err != nil {
		return refuseUsage(stderr, "Yett's hook could not keep its stdout apart, so nothing runs.")
	}
	if len(args) != 1 {
		return refuseUsage(stderr, "yett hook: expected one agent. See yett hook --help.")
	}
	agent, err := hook.ParseAgent(args[0])
	if err != nil {
		return refuseUsage(stderr, "yett hook: "+err.Error())
	}
	h := &Hook{Agent: agent, File: file}
	return print(out, stderr, h.Reply(ctx, stdin))
}

// Main is Run for a program that is nothing but the hook: its arguments are those of `yett hook`, with or without the
// word hook.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "hook" {
		args = args[1:]
	}
	file, rest := "", []string(nil)
	for len(args) > 0 {
		word := args[0]
		args = args[1:]
		value, given := strings.CutPrefix(word, "--config=")
		switch {
		case given:
			file = value
		case word == "--config" && len(args) > 0:
			file, args = args[0], args[1:]
		case strings.HasPrefix(word, "-"):
			return refuseUsage(stderr, "yett-hook: expected AGENT --config FILE, got "+word+". See yett hook --help.")
		default:
			rest = append(rest, word)
		}
	}
	return Run(ctx, rest, file, stdin, stdout, stderr)
}

// refuseUsage ends a call that no agent's answer fits: status 2 with a text refuses in most agents, and the guard line
// does the rest.
func refuseUsage(stderr io.Writer, text string) int {
	fmt.Fprintln(stderr, text)
	return 2
}

// print writes an answer whole, and makes a refusal of one that could not be written. An answer that was cut may look
// like a permit to some agents, so the status has to refuse.
func print(stdout, stderr io.Writer, r hook.Reply) int {
	if len(r.Stdout) > 0 {
		if n, err := stdout.Write(r.Stdout); err != nil || n != len(r.Stdout) {
			return refuseUsage(stderr, "Yett's hook could not write its answer, so nothing runs.")
		}
	}
	if _, err := stderr.Write(r.Stderr); err != nil && r.Exit == 2 {
		return 1 // a 2 without a text runs the tool in some agents; the guard line has a text
	}
	if r.Exit == 0 && r.Uncovered != "" {
		fmt.Fprintln(stderr, "yett: "+r.Uncovered)
	}
	return r.Exit
}

// apart moves the process's stdout to another descriptor, so that nothing but the answer is ever written to it.
func apart(out io.Writer) (io.Writer, error) {
	if f, ok := out.(*os.File); ok && f == os.Stdout {
		return moveStdout()
	}
	return out, nil
}
