package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core"
	"github.com/yett-dev/yett/scanners"
)

func configCommand() *cobra.Command {
	return group("config", "Check, print and explain the configuration", configCheck(), configPrint(), configExplain(), configSchema())
}

func configCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Check a configuration without side effects: exit 0 if a server would take it, 1 if not",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := config.Load(config.Sources{File: args[0], Env: os.Environ(), Builtins: scanners.Names()})
			if err != nil {
				return &exitCode{exitError, err}
			}
			bad := cfg.Check()
			for _, p := range bad {
				fmt.Fprintln(cmd.ErrOrStderr(), p.String())
			}
			if err := core.Check(cmd.Context(), cfg); err != nil {
				return &exitCode{exitError, err}
			}
			if len(bad) > 0 {
				return &exitCode{exitError, fmt.Errorf("%d problems in %s", len(bad), args[0])}
			}
			_, err = fmt.Fprintf(cmd.ErrOrStderr(), "%s is good (policy_version %s)\n", args[0], cfg.Hash())
			return err
		},
	}
}

func configPrint() *cobra.Command {
	var defaults bool
	var file string
	cmd := &cobra.Command{
		Use:   "print [--config FILE] [--defaults]",
		Short: "Print the effective configuration, secrets masked; --defaults prints the reference with comments",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg := config.Default()
			if !defaults {
				var err error
				if cfg, err = loadConfig(file, nil, false); err != nil {
					return err
				}
			}
			return cfg.Print(cmd.OutOrStdout(), defaults)
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration file")
	cmd.Flags().BoolVar(&defaults, "defaults", false, "the reference file")
	return cmd
}

func configExplain() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "explain KEY",
		Short: "Print the value of a key and where it comes from",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := loadConfig(file, nil, false)
			if err != nil {
				return err
			}
			value, origin, err := cfg.Explain(args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s = %s\n  from %s\n", args[0], value, origin)
			return err
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration file")
	return cmd
}

func configSchema() *cobra.Command {
	return &cobra.Command{Use: "schema", Short: "Print the JSON Schema of the configuration, for editors", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		_, err := cmd.OutOrStdout().Write(config.Schema())
		return err
	}}
}
