package author

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/author/kit"
	"github.com/yett-dev/yett/cmd/internal/cli"
)

func scannerCheck() *cobra.Command {
	var f authorFlags
	cmd := &cobra.Command{
		Use:   "check [DIR|FILE.wasm] [--vectors FILE…]",
		Short: "Say whether a module is fit for a gateway, and why not",
		Long: "Build the project in DIR (default: here) if that is what is given, admit the module as the gateway does, " +
			"then hold it to\n" +
			"the contract: two instances find the same, a text leaves nothing behind for the next, spans and kinds are " +
			"right, garbage\n" +
			"configurations are refused, empty, very large and broken texts are survived, what its triggers leave out it " +
			"does not\n" +
			"find, a stream gives what the whole text gives, and its vectors (testdata/*.yaml beside it, or --vectors) give " +
			"what they\n" +
			"want. It runs with --config, or with the config of the vectors, and each vector with its own. What neither the " +
			"built-in\n" +
			"texts nor the vectors make the module find is not checked; for the format of vectors see yett scanner test " +
			"--help. The\n" +
			"work of a call is limited as in a gateway by default, or by --fuel.\n" +
			"Exit 0: fit; 1: not, with the reason; 2: a mistake on the command line or in the vectors.",
		Example: "  yett scanner check\n  yett scanner check demo.wasm --vectors testdata/vectors.yaml -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := f.read(cmd, args)
			if err != nil {
				return err
			}
			if in.unread != nil {
				return printCheck(cmd, &f.out, kit.Unread(args[0], in.unread))
			}
			in.choose(cmd)
			rep, err := in.settings.Check(cmd.Context(), in.module, in.config, in.vectors)
			if err != nil {
				return err
			}
			return printCheck(cmd, &f.out, rep)
		},
	}
	f.bind(cmd)
	return cmd
}

func printCheck(cmd *cobra.Command, out *cli.Output, rep *kit.CheckReport) error {
	rows := []any{rep}
	if out.Format == "table" {
		rows = nil
		for i := range rep.Checks {
			rows = append(rows, &rep.Checks[i])
		}
	}
	err := out.PrintRows(cmd.OutOrStdout(), rows, out.Format != "table",
		[]cli.Column{cli.Whole("RESULT"), cli.Whole("CHECK"), cli.Wrap("DETAIL")}, func(row any) []string {
			r := row.(*kit.CheckResult)
			return []string{map[bool]string{true: "ok", false: "FAILED"}[r.OK], r.Name, r.Detail}
		})
	if err != nil {
		return err
	}
	if !rep.Fit {
		return cli.Fail(cli.ExitFailure, fmt.Errorf("%s is not fit: %s", rep.File, cli.Visible(rep.Reason)))
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s is fit\n%s\n", rep.File, rep.Digest)
	return nil
}
