package hookrun

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/agents/hook"
	"github.com/yett-dev/yett/cmd/internal/cli"
)

// Command is `yett hook`.
func Command() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "hook AGENT --config FILE",
		Short: "Answer one hook of a coding agent",
		Long: "Coding agents run this before and after each tool. It reads the event from stdin, asks the gateway,\n" +
			"and prints the answer that the agent understands. Whatever fails, the tool does not run and its output is\n" +
			"withheld.\n\n" +
			"FILE says where the gateway is and which key to use. It belongs to you or to root, and nobody else can\n" +
			"write it. Nothing is taken from the environment or from the project that the agent works in.\n\n" +
			"Agents: claude-code, codex, gemini, copilot, cursor, vscode, opencode, cline, windsurf.",
		Example: "  yett hook claude-code --config /etc/yett/hooks/claude-code.json",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			out, err := apart(cmd.OutOrStdout())
			if err != nil {
				return refuseUsage(cmd, "Yett's hook could not keep its stdout apart, so nothing runs.")
			}
			if len(args) != 1 {
				return refuseUsage(cmd, "yett hook: expected one agent. See yett hook --help.")
			}
			agent, err := hook.ParseAgent(args[0])
			if err != nil {
				return refuseUsage(cmd, "yett hook: "+err.Error())
			}
			h := &Hook{Agent: agent, File: file}
			return print(out, cmd.ErrOrStderr(), agent, h.Reply(cmd.Context(), cmd.InOrStdin()))
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "the hook's own file, as a clean absolute path")
	// an agent runs the tool when a hook ends in a status of its own choice: every mistake is a refusal
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return refuseUsage(cmd, "yett hook: "+err.Error())
	})
	return cmd
}

// refuseUsage ends a call that names no agent: no answer is known to be understood, but status 2 with a text refuses in
// most agents, and the guard line does the rest.
func refuseUsage(cmd *cobra.Command, text string) error {
	fmt.Fprintln(cmd.ErrOrStderr(), text)
	return cli.Fail(2, nil)
}

// print writes an answer whole, and makes a refusal of one that could not be written. An answer that was cut may look
// like a permit to some agents, so the status has to refuse.
func print(stdout, stderr io.Writer, agent hook.Agent, r hook.Reply) error {
	if len(r.Stdout) > 0 {
		if n, err := stdout.Write(r.Stdout); err != nil || n != len(r.Stdout) {
			fmt.Fprintln(stderr, "Yett's hook could not write its answer, so nothing runs.")
			return cli.Fail(2, nil)
		}
	}
	if _, err := stderr.Write(r.Stderr); err != nil && r.Exit == 2 {
		return cli.Fail(1, nil) // a 2 without a text runs the tool in some agents; the guard line has a text
	}
	if r.Exit == 0 && r.Uncovered != "" {
		fmt.Fprintln(stderr, "yett: "+r.Uncovered)
	}
	if r.Exit != 0 {
		return cli.Fail(r.Exit, nil)
	}
	return nil
}

// apart moves the process's stdout to another descriptor, so that nothing but the answer is ever written to it.
func apart(out io.Writer) (io.Writer, error) {
	if f, ok := out.(*os.File); ok && f == os.Stdout {
		return moveStdout()
	}
	return out, nil
}
