// Package cli is what all commands of yett share: how a command is run, how it fails with an exit code, how it prints
// data (-o) and tables, how it finds its configuration, and how text that is shown on a terminal is made harmless. It
// knows no command, opens no store and starts nothing.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

func Each(c *cobra.Command, fn func(*cobra.Command)) {
	fn(c)
	for _, sub := range c.Commands() {
		Each(sub, fn)
	}
}

// Group makes a command that only holds others: without one of them it is a usage error.
func Group(use, short string, subs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return Usage("unknown command %q for %q (see %s --help)", args[0], cmd.CommandPath(), cmd.CommandPath())
			}
			return errors.Join(cmd.Help(), Fail(ExitUsage, nil))
		}}
	c.AddCommand(subs...)
	return c
}

// Run runs a command with its surroundings handed in, and prints its error. It returns the exit code.
func Run(ctx context.Context, root *cobra.Command, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	prepare(root)
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
			lines[i] = Visible(lines[i])
		}
		fmt.Fprintf(stderr, "yett: %s\n", strings.Join(lines, "\n"))
	}
	return CodeFor(err)
}

// unknownCommand finds a word that names no command where one must. Without it the flags behind the word would be
// blamed.
func unknownCommand(root *cobra.Command, args []string) error {
	cmd, rest, _ := root.Find(args)
	if !cmd.HasAvailableSubCommands() || len(rest) == 0 || strings.HasPrefix(rest[0], "-") || rest[0] == "help" ||
		rest[0] == "completion" || strings.HasPrefix(rest[0], "__") {
		return nil
	}
	hint := ""
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(rest[0]); len(near) > 0 {
		hint = "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return Usage("unknown command %q for %q%s (see %s --help)", rest[0], cmd.CommandPath(), hint, cmd.CommandPath())
}

// prepare makes a mistake in the flags or the arguments of root and of every command below a usage error.
func prepare(root *cobra.Command) {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return Usage("%w (see %s --help)", err, cmd.CommandPath())
	})
	Each(root, func(c *cobra.Command) {
		if args := c.Args; args != nil {
			c.Args = func(cmd *cobra.Command, given []string) error {
				if err := args(cmd, given); err != nil {
					return Usage("%w; usage: %s (see %s --help)", err, cmd.UseLine(), cmd.CommandPath())
				}
				return nil
			}
		}
	})
}
