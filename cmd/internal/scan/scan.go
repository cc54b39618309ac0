// Package scan is the command yett scan: it runs scanners over files, folders, standard input or what is staged for a
// commit, and reports where they found something. It owns the choice of files, the forms of the report and the
// baseline. Scanners run in the production host, in the chain that a gateway runs. It must never count as clean what it
// did not scan, print a value unless asked to, follow a link out of a folder, or write anything but a baseline.
package scan

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/config/strict"
	"github.com/yett-dev/yett/core/wasm/host"
	"github.com/yett-dev/yett/scanners"
	"github.com/yett-dev/yett/sdk"
)

// Exit codes that pipelines rely on.
const (
	ExitFound     = 1 // there are findings
	ExitUnscanned = 3 // something could not be scanned, whatever else was found
)

// options are the flags.
type options struct {
	scanners, wasm, configs, sets []string
	minSeverity, format, maxSize  string
	baseline, key                 string
	writeBaseline, redact, staged bool
	all, show, verbose, noAllow   bool
	jobs                          int

	least sdk.Severity
	most  int64
}

// errEnough ends a run that has more findings than anybody reads.
var errEnough = errors.New("too many findings")

const long = `Run scanners over files and folders, and report what they find: credentials first of all. No gateway is
needed, and nothing is sent anywhere. Scanners run in the sandbox that a gateway runs them in. "-" is
standard input.

In a folder, yett scan honours .gitignore (also of the folders above in the same repository, and
.git/info/exclude). It skips .git, links, pipes, binary files, UTF-16 and files above --max-size. It says
on stderr what it skipped; --verbose lists each. A file that you name is never skipped: if it cannot be
scanned, the exit code is 3. Large files are scanned piece by piece.

A report has file:line:column, severity, kind and length of each finding. It never has the value, unless
you give --show.

  yett:allow KIND reason    in a comment on the line of a finding allows this kind there. The reason is
                            required, and the summary counts what was allowed.
  --baseline FILE           leaves out findings that FILE knows by file, kind and value, so that lines may
                            move. It holds no value: 16 bits of a slow, salted hash, which fit one in
                            65 536 other values too. A value of which there are few, such as a PIN, can be
                            narrowed down from that; with --baseline-key nothing can.
  --staged                  scans what the next commit would change, from the index of git, for a
                            pre-commit hook. The working tree is not read.
  --redact                  prints standard input with [KIND] in place of what is found. Comments and
                            baselines do not count there.

Exit codes: 0 nothing found; 1 findings; 2 usage; 3 something could not be scanned (stderr says what),
even if there are findings too.`

const examples = `  yett scan .
  yett scan --format sarif src config > yett.sarif
  yett scan --baseline .yett-baseline.json --write-baseline .
  yett scan --baseline .yett-baseline.json .
  yett scan --staged
  kubectl logs job/import | yett scan --redact -`

// Command is `yett scan`.
func Command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:     "scan FILE... | DIR... | - | --staged",
		Short:   "Scan files for secrets and other findings, for people and CI",
		Long:    long,
		Example: examples,
		RunE:    func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	fs := cmd.Flags()
	fs.StringArrayVar(&o.scanners, "scanner", nil, fmt.Sprintf("a built-in scanner to run, one of %s; may be given more "+
		"than once (default: all of them)", strings.Join(scanners.Names(), ", ")))
	fs.StringArrayVar(&o.wasm, "wasm", nil, "file of a module to run; may be given more than once")
	fs.StringArrayVar(&o.configs, "config", nil, "NAME=SETTINGS of a scanner: a JSON object, or a file that holds one "+
		"in JSON or YAML; NAME= is not needed with one scanner")
	fs.StringArrayVar(&o.sets, "set", nil, "NAME.KEY=VALUE, one setting of a scanner; VALUE is JSON, or else a text")
	fs.StringVar(&o.minSeverity, "min-severity", "medium", "least severity that counts: info, low, medium, high or "+
		"critical")
	fs.StringVar(&o.format, "format", "text", "format of the report: text, json or sarif (2.1.0)")
	fs.StringVar(&o.baseline, "baseline", "", "file with known findings, which are not reported again")
	fs.BoolVar(&o.writeBaseline, "write-baseline", false, "write all findings to --baseline")
	fs.StringVar(&o.key, "baseline-key", "", "file with a secret of 16 bytes or more that the baseline is keyed with; "+
		"do not commit it")
	fs.BoolVar(&o.redact, "redact", false, "print standard input without what is found")
	fs.BoolVar(&o.staged, "staged", false, "scan what is staged for the next commit")
	fs.BoolVar(&o.all, "no-ignore", false, "scan what .gitignore ignores too")
	fs.BoolVar(&o.noAllow, "no-allow", false, "report what comments allow too, for texts that others have written")
	fs.StringVar(&o.maxSize, "max-size", "256MiB", "largest file that is scanned")
	fs.IntVar(&o.jobs, "jobs", runtime.GOMAXPROCS(0), "files that are scanned at the same time")
	fs.BoolVar(&o.show, "show", false, "show what was found; do not use it where others read the log")
	fs.BoolVar(&o.verbose, "verbose", false, "list what is skipped, allowed and known")
	return cmd
}

// check reads the flags.
func (o *options) check(args []string) error {
	size, err := strict.ParseSize(o.maxSize)
	if err != nil {
		return cli.Usage("--max-size: %w", err)
	}
	o.most = int64(size)
	known := false
	o.least, known = sdk.ParseSeverity(o.minSeverity)
	switch {
	case !known:
		return cli.Usage("--min-severity %s: must be one of info, low, medium, high, critical", o.minSeverity)
	case !slices.Contains([]string{"text", "json", "sarif"}, o.format):
		return cli.Usage("--format %s: must be one of text, json, sarif", o.format)
	case o.most < 1:
		return cli.Usage("--max-size %s: must be at least 1B", o.maxSize)
	case o.jobs < 1 || o.jobs > host.MaxInstances:
		return cli.Usage("--jobs %d: must be 1 to %d", o.jobs, host.MaxInstances)
	case o.staged && len(args) > 0:
		return cli.Usage("--staged scans all that is staged: leave out %s", args[0])
	case !o.staged && len(args) == 0:
		return cli.Usage("nothing to scan: give files, folders, - for standard input, or --staged")
	case (o.writeBaseline || o.key != "") && o.baseline == "":
		return cli.Usage("--write-baseline and --baseline-key need --baseline FILE")
	case o.redact && (len(args) != 1 || args[0] != "-"):
		return cli.Usage("--redact needs - as the only text")
	case o.redact && (o.format != "text" || o.baseline != ""):
		return cli.Usage("--redact prints the text, and knows neither --format nor --baseline")
	case o.show && o.format == "sarif":
		return cli.Usage("--format sarif never shows values: leave out --show")
	}
	return nil
}

func (o *options) run(cmd *cobra.Command, args []string) (err error) {
	if err := o.check(args); err != nil {
		return err
	}
	ctx := cmd.Context()
	all, err := o.choose(ctx)
	if err != nil {
		return err
	}
	readers, folders := newBlobs(ctx, o.jobs), new(opened)
	texts, base, err := o.texts(ctx, cmd.InOrStdin(), args, readers, folders)
	if err != nil {
		return err
	}
	var known *baseline
	if o.baseline != "" {
		if known, err = openBaseline(ctx, o.baseline, o.key, base, o.writeBaseline); err != nil {
			return cli.Fail(cli.ExitUsage, err)
		}
	}
	action := sdk.Flag
	if o.redact {
		action = sdk.Redact
	}
	e, err := start(ctx, all, o.jobs, action, o.least)
	if err != nil {
		if host.IsConfig(err) {
			return cli.Fail(cli.ExitUsage, err)
		}
		return cli.Fail(ExitUnscanned, err)
	}
	defer func() {
		if cerr := errors.Join(readers.close(), folders.close(), e.close(ctx)); cerr != nil && err == nil {
			err = cli.Fail(ExitUnscanned, cerr)
		}
	}()
	if o.redact {
		return o.redactText(cmd, e)
	}
	e.noAllow = o.noAllow
	return o.report(cmd, e, texts, known)
}

// texts gives what is to be scanned, and the folder that its names are relative to.
func (o *options) texts(ctx context.Context, in io.Reader, args []string, readers *blobs,
	folders *opened) (items, string, error) {
	if o.staged {
		top, err := topOfTree(ctx)
		if err != nil {
			return nil, "", cli.Fail(ExitUnscanned, fmt.Errorf("--staged: %w", err))
		}
		all, err := staged(ctx, readers)
		return all, top, err
	}
	if n := len(args) - len(slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "-" })); n > 1 {
		return nil, "", cli.Usage("standard input can be read once: give - once")
	}
	return func(yield func(item) bool) {
		for _, arg := range args {
			one := func(yield func(item) bool) { yield(file(arg)) }
			if arg == "-" {
				one = func(yield func(item) bool) { yield(stdin(in)) }
			} else if info, err := os.Stat(arg); err == nil && info.IsDir() {
				one = folder(ctx, arg, o.all, folders)
			}
			for it := range one {
				if ctx.Err() != nil || !yield(it) {
					return
				}
			}
		}
	}, ".", nil
}

// report scans everything and prints what came of it.
func (o *options) report(cmd *cobra.Command, e *engine, texts items, known *baseline) error {
	r := &Report{Version: cli.Version(), Skipped: map[string]int{}}
	out, show := cmd.OutOrStdout(), newProgress(cmd.ErrOrStderr())
	cut, err := e.each(cmd.Context(), texts, o.jobs, o.least, o.most, func(res result) error {
		before := len(r.Findings)
		err := r.fold(&res, known, o)
		if len(r.Findings) > before {
			show.hide()
		}
		for i := before; i < len(r.Findings) && o.format == "text"; i++ {
			if _, perr := fmt.Fprintln(out, line(&r.Findings[i])); perr != nil {
				return errors.Join(err, perr)
			}
		}
		show.at(r.Files, r.Bytes)
		return err
	})
	show.hide()
	if err != nil && !errors.Is(err, errEnough) {
		return cli.Fail(ExitUnscanned, err)
	}
	r.Interrupted = cmd.Context().Err() != nil && (cut || len(r.Unscanned) > 0)
	r.Complete = !r.Interrupted && len(r.Unscanned) == 0
	if known != nil && !o.writeBaseline && r.Complete {
		r.Gone = known.gone()
	}
	switch o.format {
	case "json":
		err = r.json(out)
	case "sarif":
		err = r.sarif(out, o)
	default:
		err = nil
	}
	if err != nil {
		return cli.Fail(ExitUnscanned, err)
	}
	r.summary(cmd.ErrOrStderr(), o)
	if o.writeBaseline {
		if !r.Complete {
			return cli.Fail(ExitUnscanned, fmt.Errorf("%s was not written: not everything could be scanned", o.baseline))
		}
		if err := known.write(); err != nil {
			return cli.Fail(ExitUnscanned, fmt.Errorf("write the baseline: %w", err))
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "wrote %s to %s\n", cli.Count(len(r.Known), "finding"), cli.Visible(o.baseline))
	}
	if code := r.code(); code != 0 {
		return cli.Fail(code, nil)
	}
	return nil
}
