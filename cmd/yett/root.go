package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/sdk"
)

// Exit codes that scripts rely on.
const (
	exitOK              = 0
	exitError           = 1
	exitUsage           = 2
	exitDenied          = 3
	exitUnauthenticated = 4
	exitIO              = 74 // EX_IOERR: the store has failed
	exitConfig          = 78 // EX_CONFIG: the configuration is bad
)

// exitCode is an error that carries its exit code. Silent ones have said all there is to say.
type exitCode struct {
	code int
	err  error
}

func (e *exitCode) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}
func (e *exitCode) Unwrap() error { return e.err }

func usage(format string, args ...any) error {
	return &exitCode{exitUsage, fmt.Errorf(format, args...)}
}

// run is the whole program with its surroundings handed in. It returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if msg := err.Error(); msg != "" {
		fmt.Fprintf(stderr, "yett: %s\n", msg)
	}
	return codeFor(err)
}

// codeFor is the one place where an error becomes an exit code.
func codeFor(err error) int {
	var coded *exitCode
	var refused *sdk.Error
	var bad *config.Error
	switch {
	case errors.As(err, &coded):
		return coded.code
	case errors.As(err, &bad):
		return exitConfig
	case errors.As(err, &refused) && (refused.Code == sdk.CodeUnauthenticated || refused.Code == sdk.CodeKeyRevoked || refused.Code == sdk.CodeKeyExpired):
		return exitUnauthenticated
	case strings.HasPrefix(err.Error(), "unknown command"):
		return exitUsage
	}
	return exitError
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "yett",
		Short:         "A governance gateway for software agents: yes, no, not yet",
		Long:          "Before an agent acts it asks Yett: PERMIT, DENY, or DEFER to a human. What a tool or model puts out\ngoes through Yett too. `yett dev` shows all of it in a minute.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		Version:       version(),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("yett {{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage("%w (see %s --help)", err, cmd.CommandPath())
	})
	root.AddCommand(devCommand(), serveCommand(), keysCommand(), auditCommand(), configCommand(), rulesCommand(), versionCommand())
	root.AddCommand(approvalsCommand(), grantsCommand(), killCommand(), unkillCommand(), pluginCommand(), reloadCommand())
	root.AddCommand(toolCommands()...)
	eachCommand(root, func(c *cobra.Command) {
		if args := c.Args; args != nil {
			c.Args = func(cmd *cobra.Command, given []string) error {
				if err := args(cmd, given); err != nil {
					return usage("%w (see %s --help)", err, cmd.CommandPath())
				}
				return nil
			}
		}
	})
	return root
}

func eachCommand(c *cobra.Command, fn func(*cobra.Command)) {
	fn(c)
	for _, sub := range c.Commands() {
		eachCommand(sub, fn)
	}
}

// group makes a command that only holds others: without one of them it is a usage error.
func group(use, short string, subs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs, RunE: func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usage("unknown command %q for %q (see %s --help)", args[0], cmd.CommandPath(), cmd.CommandPath())
		}
		return errors.Join(cmd.Help(), &exitCode{code: exitUsage})
	}}
	c.AddCommand(subs...)
	return c
}

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

func versionCommand() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print the version", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "yett %s\n", version())
		return err
	}}
}

// output is the -o flag: how a command prints data.
type output struct{ format string }

func (o *output) bind(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.format, "output", "o", "table", "output format: table, json, jsonl or yaml")
}

func (o *output) check() error {
	switch o.format {
	case "table", "json", "jsonl", "yaml":
		return nil
	}
	return usage("-o %s: want table, json, jsonl or yaml", o.format)
}

// print writes rows. one is true when the command is about a single thing: then json is an object, not a list.
func (o *output) print(w io.Writer, rows []any, one bool, header []string, cells func(row any) []string) error {
	switch o.format {
	case "json":
		if one {
			return json.NewEncoder(w).Encode(rows[0])
		}
		if rows == nil {
			rows = []any{}
		}
		return json.NewEncoder(w).Encode(rows)
	case "jsonl":
		enc := json.NewEncoder(w)
		for _, r := range rows {
			if err := enc.Encode(r); err != nil {
				return err
			}
		}
		return nil
	case "yaml":
		return printYAML(w, rows, one)
	}
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, strings.Join(header, "\t"))
	for _, r := range rows {
		fmt.Fprintln(tw, strings.Join(cells(r), "\t"))
	}
	return tw.Flush()
}

// printYAML goes through JSON, so that both formats have the same names.
func printYAML(w io.Writer, rows []any, one bool) error {
	var v any = rows
	if one {
		v = rows[0]
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var plain any
	if err := yaml.Unmarshal(text, &plain); err != nil {
		return err
	}
	return yaml.NewEncoder(w).Encode(plain)
}
