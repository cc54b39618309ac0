package main

import (
	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/agents/hookrun"
	"github.com/yett-dev/yett/cmd/internal/cli"
)

func hookCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "hook AGENT --config FILE",
		Short: "Answer one hook of a coding agent",
		Long: "Coding agents run this before and after each tool. It reads the event from stdin, asks the gateway,\n" +
			"and prints the answer that the agent understands. Whatever fails, the tool does not run and its output is\n" +
			"withheld.\n\n" +
			"FILE says where the gateway is and which key to use. It belongs to you or to root, and nobody else can\n" +
			"write it. Nothing is taken from the environment or from the project that the agent works in.\n\n" +
			"The program yett-hook is the same code without the gateway. It starts faster: `yett connect` uses it if it\n" +
			"lies beside yett.\n\n" +
			"Agents: claude-code, codex, gemini, copilot, cursor, vscode, opencode, cline, windsurf.",
		Example: "  yett hook claude-code --config /etc/yett/hooks/claude-code.json",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			code := hookrun.Run(cmd.Context(), args, file, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
			if code != 0 {
				return cli.Fail(code, nil)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "the hook's own file, as a clean absolute path")
	return cmd // a mistake in the flags ends in status 2 with a text, as every refusal does
}
