package main

import (
	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/agents/hookrun"
	"github.com/yett-dev/yett/cmd/internal/cli"
)

func hookCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "hook AGENT --config FILE",
		Short: "Answer one hook of a coding agent",
		Long: "Coding agents run this before and after each tool. It reads the event from stdin, asks the gateway,\n" +
			"and prints the answer that the agent understands. Whatever fails, the tool does not run and its output is\n" +
			"withheld.\n\n" +
			"FILE is a clean absolute path. It says where the gateway is and which key to use. It belongs to you or\n" +
			"to root, and nobody else can write it. Nothing is taken from the environment or from the project that the\n" +
			"agent works in.\n\n" +
			"The program yett-hook is the same code without the gateway. It starts faster: `yett connect` uses it if it\n" +
			"lies beside yett.\n\n" +
			"Agents: claude-code, codex, gemini, copilot, cursor, vscode, opencode, cline, windsurf.",
		Example: "  yett hook claude-code --config /etc/yett/hooks/claude-code.json",
		// an agent takes status 0 for consent, so help is given to nobody but who asks for it alone
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && (args[0] == "--help" || args[0] == "-h") {
				return cmd.Help()
			}
			code := hookrun.Main(cmd.Context(), args, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
			if code != 0 {
				return cli.Fail(code, nil)
			}
			return nil
		},
	}
}
