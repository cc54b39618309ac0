package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/core/kit"
)

func scannerCheck() *cobra.Command {
	var given string
	var files []string
	var fuel fuelFlag
	var out output
	cmd := &cobra.Command{
		Use:   "check FILE.wasm",
		Short: "Say whether a module is fit for a gateway, and why not",
		Long: "Admit a module as the gateway does, then hold it to the contract: two instances find the same, a text leaves nothing\n" +
			"behind for the next, spans and kinds are right, garbage configurations are refused, empty, very large and broken texts\n" +
			"are survived, what its triggers leave out it does not find, and a stream gives what the whole text gives.\n" +
			"What the built-in texts do not make the module find is not checked: without --vectors (for the format see yett scanner\n" +
			"test --help) little is shown about findings. The work of a call is limited as in a gateway by default, or by --fuel.\n" +
			"Exit 0: fit; 1: not, with the reason; 2: a mistake on the command line.",
		Example: "  yett scanner check demo.wasm --vectors testdata/vectors.yaml -o json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			config, err := configFlag(given)
			if err != nil {
				return err
			}
			settings := authorSettings(cmd, false)
			if err := fuel.put(cmd, &settings); err != nil {
				return err
			}
			if info, err := os.Stat(args[0]); err != nil {
				return &exitCode{exitUsage, err}
			} else if info.IsDir() {
				return usage("%s is a folder: check takes a module's file", args[0])
			}
			m, err := kit.ReadModule(args[0])
			if err != nil {
				return printCheck(cmd, &out, kit.Unread(args[0], err))
			}
			t := authorInput{module: m}
			var vectors []*kit.Vectors
			if len(files) > 0 {
				if vectors, err = t.readVectors(files); err != nil {
					return err
				}
			}
			rep, err := settings.Check(cmd.Context(), m, config, vectors)
			if err != nil {
				return err
			}
			return printCheck(cmd, &out, rep)
		},
	}
	cmd.Flags().StringVar(&given, "config", "", "the module's configuration, a JSON object")
	cmd.Flags().StringArrayVar(&files, "vectors", nil, "vectors whose texts are checked too; may be given more than once")
	fuel.bind(cmd)
	out.bind(cmd)
	return cmd
}

func printCheck(cmd *cobra.Command, out *output, rep *kit.CheckReport) error {
	rows := []any{rep}
	if out.format == "table" {
		rows = nil
		for i := range rep.Checks {
			rows = append(rows, &rep.Checks[i])
		}
	}
	err := out.printRows(cmd.OutOrStdout(), rows, out.format != "table", []column{{"RESULT", whole}, {"CHECK", whole}, {"DETAIL", wrap}}, func(row any) []string {
		r := row.(*kit.CheckResult)
		return []string{map[bool]string{true: "ok", false: "FAILED"}[r.OK], r.Name, r.Detail}
	})
	if err != nil {
		return err
	}
	if !rep.Fit {
		return &exitCode{exitError, fmt.Errorf("%s is not fit: %s", rep.File, visible(rep.Reason))}
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s is fit\n%s\n", rep.File, rep.Digest)
	return nil
}
