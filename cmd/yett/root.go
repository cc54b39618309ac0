package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

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
	err := unknownCommand(root, args)
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	if err == nil {
		return exitOK
	}
	if msg := err.Error(); msg != "" {
		lines := strings.Split(msg, "\n")
		for i := range lines {
			lines[i] = visible(lines[i])
		}
		fmt.Fprintf(stderr, "yett: %s\n", strings.Join(lines, "\n"))
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
					return usage("%w; usage: %s (see %s --help)", err, cmd.UseLine(), cmd.CommandPath())
				}
				return nil
			}
		}
	})
	return root
}

// unknownCommand finds a word that names no command where one must. Without it the flags behind the word would be blamed.
func unknownCommand(root *cobra.Command, args []string) error {
	cmd, rest, _ := root.Find(args)
	if !cmd.HasAvailableSubCommands() || len(rest) == 0 || strings.HasPrefix(rest[0], "-") || rest[0] == "help" || rest[0] == "completion" || strings.HasPrefix(rest[0], "__") {
		return nil
	}
	hint := ""
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(rest[0]); len(near) > 0 {
		hint = "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return usage("unknown command %q for %q%s (see %s --help)", rest[0], cmd.CommandPath(), hint, cmd.CommandPath())
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
	var out output
	cmd := &cobra.Command{Use: "version", Short: "Print the version", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		row := struct {
			Version string `json:"version"`
		}{version()}
		return out.printOr(cmd.OutOrStdout(), row, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "yett %s\n", row.Version)
			return err
		})
	}}
	out.bind(cmd)
	return cmd
}
