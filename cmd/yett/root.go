package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/admin"
	"github.com/yett-dev/yett/cmd/internal/agents/connect"
	"github.com/yett-dev/yett/cmd/internal/agents/doctor"
	"github.com/yett-dev/yett/cmd/internal/agents/execrun"
	"github.com/yett-dev/yett/cmd/internal/agents/mcpbridge"
	"github.com/yett-dev/yett/cmd/internal/author"
	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/cmd/internal/scan"
)

// run is the whole program with its surroundings handed in. It returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return cli.Run(ctx, newRoot(), args, stdin, stdout, stderr)
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "yett",
		Short: "A governance gateway for software agents: yes, no, not yet",
		Long: "Before an agent acts it asks Yett: PERMIT, DENY, or DEFER to a human. What a tool or model puts " +
			"out\ngoes through Yett too. `yett dev` shows all of it in a minute.",
		Args: cobra.NoArgs,
	}
	// cobra's own flag would execute a template, and keep every exported method of every type in the binary
	version := root.Flags().BoolP("version", "v", false, "version for yett")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if !*version {
			return cmd.Help()
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "yett %s\n", cli.Version())
		return err
	}
	root.AddCommand(devCommand(), serveCommand(), admin.Keys(), admin.Audit(), admin.Store(), admin.Backup(),
		admin.Restore(), configCommand(), author.Init(), author.Rules(), versionCommand())
	root.AddCommand(admin.Approvals(), admin.Grants(), admin.Kill(), admin.Unkill(), admin.Reveal(), admin.Reload(),
		admin.Clock(), author.Scanner(), scan.Command(), hookCommand(),
		connect.Command(connect.Options{Gateway: localGateway, Doctor: doctor.Prove}), doctor.Command(), execrun.Command(),
		mcpCommand())
	root.AddCommand(benchCommands()...)
	root.AddCommand(cli.Group("plugin", "Pin, watch and help on the plugins of a configuration",
		append(admin.Plugins(), author.Plugins()...)...))
	return root
}

// mcpCommand is a bridge for clients, and holds what operators do about the tools of MCP servers.
func mcpCommand() *cobra.Command {
	cmd := mcpbridge.Command()
	cmd.AddCommand(admin.MCP()...)
	return cmd
}

// localGateway is the gateway on this machine that makes the keys of coding agents.
func localGateway(data, config string) (connect.Gateway, error) {
	return admin.OpenAgentKeys(data, config)
}

func versionCommand() *cobra.Command {
	var out cli.Output
	cmd := &cobra.Command{Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			row := struct {
				Version string `json:"version"`
			}{cli.Version()}
			return out.PrintOr(cmd.OutOrStdout(), row, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "yett %s\n", row.Version)
				return err
			})
		}}
	out.Bind(cmd)
	return cmd
}
