package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core"
	"github.com/yett-dev/yett/core/loaded"
	"github.com/yett-dev/yett/scanners"
)

func configCommand() *cobra.Command {
	return cli.Group("config", "Check, print and explain the configuration", configCheck(), configPrint(), configExplain(),
		configSchema())
}

// configVerdict is what `config check` found.
type configVerdict struct {
	File     string         `json:"file"`
	OK       bool           `json:"ok"`
	Policy   string         `json:"policy_version,omitempty"`
	Problems []checkProblem `json:"problems"`
	Warnings []string       `json:"warnings,omitempty"` // what a server would take, and leaves something open
}

type checkProblem struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Key     string `json:"key,omitempty"`
	Message string `json:"message"`
}

func (c *configVerdict) add(problems ...config.Problem) {
	for _, p := range problems {
		c.Problems = append(c.Problems, checkProblem{p.Pos.File, p.Pos.Line, p.Pos.Column, p.Key, p.Msg})
	}
}

func configCheck() *cobra.Command {
	var file cli.ConfigFile
	var out cli.Output
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Check a configuration without side effects: exit 0 if a server would take it, 1 if not",
		Example: "  yett config check yett.yaml\n  yett config check --config yett.yaml -o json | jq -r " +
			"'.problems[].message'",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := file.Required(args, "config check", "FILE")
			if err != nil {
				return err
			}
			return checkConfig(cmd, &out, path)
		},
	}
	file.Bind(cmd)
	out.Bind(cmd)
	return cmd
}

func checkConfig(cmd *cobra.Command, out *cli.Output, path string) error {
	row := configVerdict{File: path, Problems: []checkProblem{}}
	cfg, err := config.Load(config.Sources{File: path, Env: os.Environ(), Builtins: scanners.Names()})
	var list []config.Problem
	var bad *config.Error
	switch {
	case err == nil:
		list = cfg.Check()
		err = core.Check(cmd.Context(), cfg)
		row.Policy, row.Warnings = cfg.Hash(), slices.Concat(loaded.Warnings(cfg), core.DiskWarnings(cfg))
	case errors.As(err, &bad):
		row.add(bad.Problems...)
	}
	row.add(list...)
	if err != nil && bad == nil {
		row.Problems = append(row.Problems, checkProblem{Message: err.Error()})
	}
	row.OK = len(row.Problems) == 0
	if !out.Table() {
		if err := out.PrintData(cmd.OutOrStdout(), []any{row}, true); err != nil {
			return err
		}
		if !row.OK {
			return cli.Fail(cli.ExitFailure, nil)
		}
		return nil
	}
	for _, p := range list {
		fmt.Fprintln(cmd.ErrOrStderr(), cli.Visible(p.String()))
	}
	for _, w := range row.Warnings {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning: "+cli.Visible(w))
	}
	switch {
	case err != nil:
		return cli.Fail(cli.ExitFailure, err)
	case len(list) > 0:
		return cli.Fail(cli.ExitFailure, fmt.Errorf("%s has %s", path, cli.Count(len(list), "problem")))
	}
	_, err = fmt.Fprintf(cmd.ErrOrStderr(), "%s is good (policy_version %s)\n", path, row.Policy)
	return err
}

func configPrint() *cobra.Command {
	var defaults bool
	var file cli.ConfigFile
	var out cli.Output
	cmd := &cobra.Command{
		Use:   "print [FILE] [--defaults]",
		Short: "Print the effective configuration, secrets masked; --defaults prints the reference with comments",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := file.Of(args)
			if err != nil {
				return err
			}
			cfg := config.Default()
			if !defaults {
				if cfg, err = cli.LoadConfig(path, nil, false); err != nil {
					return err
				}
			}
			if out.Table() {
				return cfg.Print(cmd.OutOrStdout(), defaults)
			}
			var text bytes.Buffer
			if err := cfg.Print(&text, defaults); err != nil {
				return err
			}
			return printDocument(cmd.OutOrStdout(), &out, text.Bytes())
		},
	}
	file.Bind(cmd)
	out.Bind(cmd)
	cmd.Flags().BoolVar(&defaults, "defaults", false, "the reference file")
	return cmd
}

// printDocument prints a document that is YAML or JSON already as -o asks for it.
func printDocument(w io.Writer, out *cli.Output, text []byte) error {
	var v any
	if err := yaml.Unmarshal(text, &v); err != nil {
		return err
	}
	return out.PrintData(w, []any{v}, true)
}

func configExplain() *cobra.Command {
	var file cli.ConfigFile
	var out cli.Output
	cmd := &cobra.Command{
		Use:   "explain KEY [FILE]",
		Short: "Print the value of a key and where it comes from",
		Example: "  yett config explain limits.depth --config yett.yaml\n  yett config explain chains.authorize " +
			"yett.yaml -o json",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := file.Of(args[1:])
			if err != nil {
				return err
			}
			cfg, err := cli.LoadConfig(path, nil, false)
			if err != nil {
				return err
			}
			value, origin, err := cfg.Explain(args[0])
			if err != nil {
				return err
			}
			row := struct {
				Key   string `json:"key"`
				Value string `json:"value"`
				From  string `json:"from"`
			}{args[0], value, origin}
			return out.PrintOr(cmd.OutOrStdout(), row, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "%s = %s\n  from %s\n", row.Key, row.Value, row.From)
				return err
			})
		},
	}
	file.Bind(cmd)
	out.Bind(cmd)
	return cmd
}

func configSchema() *cobra.Command {
	var out cli.Output
	cmd := &cobra.Command{Use: "schema", Short: "Print the JSON Schema of the configuration, for editors",
		Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			if out.Table() {
				_, err := cmd.OutOrStdout().Write(config.Schema())
				return err
			}
			return printDocument(cmd.OutOrStdout(), &out, config.Schema())
		}}
	out.Bind(cmd)
	return cmd
}
