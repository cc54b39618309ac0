package author

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/author/kit"
	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/core/regular"
	"github.com/yett-dev/yett/core/trust"
	"github.com/yett-dev/yett/sdk"
)

// scanStdin bounds the text that `scanner run` reads, bytes.
const scanStdin = 64 << 20

// scanFinding is one line of `scanner run`.
type scanFinding struct {
	Kind        string  `json:"kind"`
	Start       int     `json:"start"`
	End         int     `json:"end"`
	Text        string  `json:"text"` // made printable and cut
	Confidence  float32 `json:"confidence"`
	Severity    string  `json:"severity"`
	Action      string  `json:"action"`
	Replacement string  `json:"replacement,omitempty"`
}

func scannerRun() *cobra.Command {
	var f authorFlags
	cmd := &cobra.Command{
		Use:   "run [DIR|FILE.wasm] < TEXT",
		Short: "Scan standard input with a module, as the gateway would",
		Long: "Build the project in DIR (default: here) if that is what is given, scan standard input in the gateway's " +
			"sandbox and\n" +
			"print the findings with what they found: this is for the author's own texts. The work of the call is limited " +
			"as in a\n" +
			"gateway by default, or by --fuel.",
		Example: "  echo \"ask Bluebird\" | yett scanner run -o jsonl",
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := f.read(cmd, args)
			if err = cmp.Or(err, in.unread); err != nil {
				return err
			}
			in.choose(cmd)
			text, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), scanStdin+1))
			if err != nil {
				return fmt.Errorf("read standard input: %w", err)
			}
			if len(text) > scanStdin {
				return fmt.Errorf("standard input has more than %d bytes", scanStdin)
			}
			found, called, err := in.settings.Run(cmd.Context(), in.module, in.config, string(text))
			if err != nil {
				return err
			}
			return printFound(cmd, &f.out, text, found, called)
		},
	}
	f.bind(cmd)
	return cmd
}

func printFound(cmd *cobra.Command, out *cli.Output, text []byte, found []sdk.Finding, called bool) error {
	rows := make([]any, 0, len(found))
	for _, f := range found {
		rows = append(rows, &scanFinding{f.Kind, f.Start, f.End, kit.Printable(string(text[f.Start:f.End]), 60), f.Confidence,
			f.Severity.String(), f.Suggested.String(), f.Replacement})
	}
	err := out.PrintRows(cmd.OutOrStdout(), rows, false,
		[]cli.Column{cli.Whole("KIND"), cli.Whole("START"), cli.Whole("END"), cli.Whole("SEVERITY"), cli.Whole("ACTION"),
			cli.Whole("CONFIDENCE"), cli.Cut("TEXT")},
		func(row any) []string {
			f := row.(*scanFinding)
			return []string{f.Kind, strconv.Itoa(f.Start), strconv.Itoa(f.End), f.Severity, f.Action,
				strconv.FormatFloat(float64(f.Confidence), 'g', 3, 32), f.Text}
		})
	if err != nil {
		return err
	}
	why := ""
	if !called {
		why = ": no trigger is in the text, so the module was not called"
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "found %d in %d bytes%s\n", len(found), len(text), why)
	return nil
}

const maxBenchText = 64 << 20 // bytes of --text

func scannerBench() *cobra.Command {
	var f authorFlags
	var file string
	cmd := &cobra.Command{
		Use:   "bench [DIR|FILE.wasm] [--text FILE]",
		Short: "Measure what a module costs",
		Long: "Measure start-up, memory and scans on one core: of clean text, which holds nothing to find, and of dirty " +
			"text (made of\n" +
			"the module's triggers, or --text). The way \"gateway\" is with the host's search for triggers in front, " +
			"\"module\" without.\n" +
			"Times are medians of five rounds. Fuel is what the gateway meters: about one unit an instruction, the same " +
			"everywhere.",
		RunE: func(cmd *cobra.Command, args []string) error {
			var dirty []byte
			if file != "" {
				var err error
				if dirty, err = regular.ReadNamed(cmd.Context(), file, maxBenchText); err != nil {
					return cli.Fail(cli.ExitUsage, fmt.Errorf("--text: %w", err))
				}
				if len(dirty) == 0 {
					return cli.Usage("--text %s: the file is empty", file)
				}
			}
			in, err := f.read(cmd, args)
			if err = cmp.Or(err, in.unread); err != nil {
				return err
			}
			in.choose(cmd)
			rep, err := in.settings.Bench(cmd.Context(), in.module, in.config, string(dirty), time.Now)
			if err != nil {
				return err
			}
			return printBench(cmd, &f.out, rep)
		},
	}
	cmd.Flags().StringVar(&file, "text", "", "file with a dirty text")
	f.bind(cmd)
	return cmd
}

func printBench(cmd *cobra.Command, out *cli.Output, rep *kit.BenchReport) error {
	if out.Format != "table" {
		return out.PrintRows(cmd.OutOrStdout(), []any{rep}, true, nil, nil)
	}
	s := &rep.Start
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s, %d bytes: compiled in %.1f ms (%.1f from the cache), a new "+
		"instance in %.0f µs, %d KiB of memory\n",
		rep.Module, cli.Visible(rep.Version), rep.Bytes, s.CompileUS/1000, s.CachedUS/1000, s.InstanceUS, s.MemoryBytes>>10)
	if err != nil {
		return err
	}
	rows := make([]any, 0, len(rep.Rows))
	for i := range rep.Rows {
		rows = append(rows, &rep.Rows[i])
	}
	var cols []cli.Column
	for _, name := range []string{"TEXT", "KIB", "WAY", "FINDINGS", "µS/SCAN", "µS/KIB", "MB/S", "HOST CALLS",
		"FUEL/KIB"} {
		cols = append(cols, cli.Whole(name))
	}
	return out.PrintRows(cmd.OutOrStdout(), rows, false, cols, func(row any) []string {
		r := row.(*kit.BenchRow)
		kib := float64(r.Bytes) / 1024
		fixed := func(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }
		return []string{r.Text, strconv.FormatFloat(kib, 'f', 0, 64), r.Way, strconv.Itoa(r.Findings), fixed(r.CallUS),
			fixed(r.USPerKiB), fixed(float64(r.Bytes) / r.CallUS), strconv.Itoa(r.HostCalls),
			strconv.FormatFloat(float64(r.Fuel)/kib, 'f', 0, 64)}
	})
}

func scannerPackage() *cobra.Command {
	var f authorFlags
	var path, key, passphrase string
	cmd := &cobra.Command{
		Use:   "package [DIR|FILE.wasm] [--out FILE] [--sign KEYFILE]",
		Short: "Make the file to hand out: metadata embedded, the rest of the custom sections gone, signed",
		Long: "Build the project in DIR (default: here) if that is what is given, and write FILE.packaged.wasm (or " +
			"--out): the module\n" +
			"with its metadata as the section yett.meta, which says what it is without running it. The same module gives " +
			"the same\n" +
			"bytes. It is started once, with --config or the config of its vectors; these settings are not part of the " +
			"package.\n" +
			"--sign writes a minisign signature beside it. Prints the digest that goes into a gateway's configuration.",
		Example: "  yett scanner package\n  yett scanner package demo.wasm --config settings.json --sign minisign.key",
		RunE: func(cmd *cobra.Command, args []string) error {
			if passphrase != "" && key == "" {
				return cli.Usage("--passphrase-file needs --sign")
			}
			in, err := f.read(cmd, args)
			if err = cmp.Or(err, in.unread); err != nil {
				return err
			}
			in.choose(cmd)
			if path == "" {
				path = filepath.Join(in.dir, strings.TrimSuffix(filepath.Base(in.module.Path), ".wasm")+".packaged.wasm")
			}
			p, err := in.settings.Package(cmd.Context(), in.module, in.config)
			if err != nil {
				return err
			}
			var signature []byte
			if key != "" {
				comment := "yett module " + p.Metadata.Name + " " + p.Metadata.Version + " " + p.Digest
				if signature, err = trust.Sign(key, passphraseFrom(cmd.Context(), passphrase), p.Code, comment); err != nil {
					return fmt.Errorf("sign: %w", err)
				}
			}
			return writePackage(cmd, &f.out, path, p, signature)
		},
	}
	cmd.Flags().StringVar(&path, "out", "", "file to write (default: FILE.packaged.wasm)")
	cmd.Flags().StringVar(&key, "sign", "", "file with a minisign secret key")
	cmd.Flags().StringVar(&passphrase, "passphrase-file", "", "file whose first line is the key's passphrase")
	f.bind(cmd)
	return cmd
}

// packaged is what `scanner package` prints.
type packaged struct {
	File      string `json:"file"`
	Digest    string `json:"digest"`
	Bytes     int    `json:"bytes"`
	Signature string `json:"signature,omitempty"` // the file
	Name      string `json:"name"`
	Version   string `json:"version"`
}

// writePackage writes the module and its signature. A signature of another package must not stay beside this one.
func writePackage(cmd *cobra.Command, out *cli.Output, path string, p *kit.Package, signature []byte) error {
	row := packaged{File: path, Digest: p.Digest, Bytes: p.Bytes, Name: p.Metadata.Name, Version: p.Metadata.Version}
	beside := path + trust.SignatureSuffix
	if err := os.Remove(beside); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := writeWhole(cmd.Context(), path, p.Code); err != nil {
		return err
	}
	if signature != nil {
		row.Signature = filepath.ToSlash(beside)
		if err := writeWhole(cmd.Context(), beside, signature); err != nil {
			return err
		}
	}
	return out.PrintRows(cmd.OutOrStdout(), []any{&row}, true,
		[]cli.Column{cli.Whole("FILE"), cli.Whole("BYTES"), cli.Whole("DIGEST")}, func(row any) []string {
			r := row.(*packaged)
			return []string{r.File, strconv.Itoa(r.Bytes), r.Digest}
		})
}
