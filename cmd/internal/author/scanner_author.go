package author

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/author/kit"
	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/core/regular"
)

func scannerScaffold() *cobra.Command {
	var lang, dir string
	var out cli.Output
	cmd := &cobra.Command{
		Use:   "new NAME --lang go|rust|c|assemblyscript",
		Short: "Write a scanner project that builds and passes its own vectors",
		Long: "Write a project for a scanner to a folder of its own. All it needs is in this program: nothing is " +
			"downloaded, and no\n" +
			"file is overwritten. The compiler of the language must be installed: Go 1.24, rustc with the target\n" +
			"wasm32-unknown-unknown, clang with lld, or asc of AssemblyScript.",
		Example: "  yett scanner new demo --lang go && cd demo && yett scanner test",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if dir == "" {
				dir = args[0]
			}
			files, err := kit.Scaffold(args[0], lang, dir)
			if err != nil {
				return err
			}
			if err := printWritten(cmd, &out, dir, files); err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "next: yett scanner test %s\n", dir)
			return nil
		},
	}
	out.Bind(cmd)
	cmd.Flags().StringVar(&lang, "lang", "go", "language: "+strings.Join(kit.Languages, ", "))
	cmd.Flags().StringVar(&dir, "dir", "", "folder to write to (default ./NAME)")
	return cmd
}

// vectorsHelp is the format of the vectors in short, for whoever has the program only.
const vectorsHelp = `A file of vectors says what the module makes of inputs:

  config: {min_digits: 6}            # for every vector without one of its own; {} if there is none
  vectors:
    - {name: one, text: "see ACME-1234", findings: [{kind: TICKET_ID, start: 4, end: 13, text: ACME-1234, severity: medium}]}
    - {name: not UTF-8, base64: /w==, findings: []}
    - {name: long, repeat: {text: "no ", times: 1000}, findings: []}
    - {name: a typo, config: {min_digit: 6}, error: refused}
    - {name: payment, call: {tool_id: pay, args: {amount: 5000}}, decision: {effect: deny, code: TOO_LARGE}}

Each has a name, one input (text; base64, for any bytes; repeat, the text so many times in a row; call) and one outcome:
findings are all of them, in any order ([] for none). kind, start and end (bytes, end excluded) must be given, text is held
against the input, and confidence, severity (name or 0 to 4), action (flag, redact, replace, deny) and replacement are compared
where they are given. decision has effect (abstain, permit, deny, defer), and code, reason and ttl_ms where they matter.
error is refused (the configuration is not taken; no input needed) or status (the answer is a status other than 0).`

func scannerTrial() *cobra.Command {
	var f authorFlags
	cmd := &cobra.Command{
		Use:   "test [DIR|FILE.wasm] [--vectors FILE…]",
		Short: "Run a scanner's vectors in the gateway's sandbox",
		Long: "Build the project in DIR (default: here) if that is what is given, and run vectors: testdata/*.yaml beside " +
			"it, or the\n" +
			"files named. Each is run whole, with and without the host's hits, on two instances, after another vector, and, " +
			"if the\n" +
			"module works on streams, cut at every byte. A module built elsewhere, in any language: test FILE.wasm " +
			"--vectors FILE.\n" +
			"A call may do the work that a gateway allows it by default; --fuel allows more or less. Exit 1 when one " +
			"fails.\n\n" + vectorsHelp,
		Example: "  yett scanner test\n  yett scanner test my.wasm --vectors vectors.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := f.read(cmd, args)
			if err != nil {
				return err
			}
			if len(in.vectors) == 0 {
				return cli.Usage("no vectors: %s has no *.yaml, name a file with --vectors", filepath.Join(in.dir, "testdata"))
			}
			if in.unread != nil {
				return in.unread
			}
			rep, err := in.settings.Test(cmd.Context(), in.module, in.vectors)
			if err != nil {
				return err
			}
			return printTrial(cmd, &f.out, rep)
		},
	}
	f.bind(cmd)
	return cmd
}

func printTrial(cmd *cobra.Command, out *cli.Output, rep *kit.TestReport) error {
	failed := 0
	for i := range rep.Results {
		if !rep.Results[i].OK {
			failed++
		}
	}
	if out.Format != "table" {
		if err := out.PrintRows(cmd.OutOrStdout(), []any{rep}, true, nil, nil); err != nil {
			return err
		}
	} else if err := printTrialLines(cmd, rep); err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%d of %d vectors pass\n", len(rep.Results)-failed, len(rep.Results))
	if failed > 0 {
		return cli.Fail(cli.ExitFailure, fmt.Errorf("%d of %d vectors fail", failed, len(rep.Results)))
	}
	return nil
}

func printTrialLines(cmd *cobra.Command, rep *kit.TestReport) error {
	var b strings.Builder
	for i := range rep.Results {
		r := &rep.Results[i]
		word := "ok    "
		if !r.OK {
			word = "FAILED"
		}
		fmt.Fprintf(&b, "%s  %s:%d  %s\n", word, cli.Visible(r.File), r.Line, cli.Visible(r.Name))
		for _, p := range r.Problems {
			fmt.Fprintf(&b, "          %s\n", cli.Visible(p.Run))
			for _, line := range p.Diff {
				fmt.Fprintf(&b, "            %s\n", cli.Visible(line))
			}
		}
		for _, note := range r.Notes {
			fmt.Fprintf(&b, "          (%s)\n", cli.Visible(note))
		}
	}
	_, err := fmt.Fprint(cmd.OutOrStdout(), b.String())
	return err
}

const maxPassphraseFile = 64 << 10 // bytes

// passphraseFrom reads the first line of a file.
func passphraseFrom(ctx context.Context, file string) func() (string, error) {
	return func() (string, error) {
		if file == "" {
			return "", errors.New("the key is encrypted: give its passphrase with --passphrase-file FILE")
		}
		text, err := regular.ReadNamed(ctx, file, maxPassphraseFile)
		if err != nil {
			return "", fmt.Errorf("read the passphrase: %w", err)
		}
		line, _, _ := strings.Cut(string(text), "\n")
		return strings.TrimSuffix(line, "\r"), nil
	}
}
