// Package author holds the commands for authors: scanner, rules, and those of plugin that check, run and scaffold one.
// They run an author's work on the hosts that a gateway runs it on, offline and without a data directory. They never
// change a configuration but by plugin lock.
package author

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/author/kit"
	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/prefilter"
	"github.com/yett-dev/yett/core/wasm/host"
	"github.com/yett-dev/yett/scanners"
	"github.com/yett-dev/yett/sdk/abi"
)

func Scanner() *cobra.Command {
	return cli.Group("scanner", "Write, test and measure scanners",
		scannerScaffold(), scannerTrial(), scannerRun(), scannerBench(), scannerCheck(), scannerPackage(), scannerEval())
}

// evalFlags are the flags of `scanner eval`.
type evalFlags struct {
	sets, without       []string
	builtin, wasm       string
	config, by          string
	worst               int
	minRecall, minWhole float64
	maxFPR              float64
	out                 cli.Output
}

func scannerEval() *cobra.Command {
	var f evalFlags
	cmd := &cobra.Command{
		Use:   "eval --set FILE… [--scanner NAME | --wasm FILE]",
		Short: "Measure a scanner on labelled texts, in the sandbox that production uses",
		Long: "Run every text of labelled sets through a scanner, as the gateway would, and count. A set is JSON lines, " +
			"plain or\n" +
			".gz, one row a line: text, and what it holds: secret, pii or injection (true or false), or label (T, F; rows " +
			"with X\n" +
			"are left out). A row with none of them holds nothing. spans are strings, or objects with start and end " +
			"(characters)\n" +
			"and value; rule, entity or source is its class; group_half (dev or held) splits the set.\n" +
			"--by adds a line for each class of a field; rows without the field count under (none), and a message says " +
			"how many.\n\n" +
			"  recall  rows that hold something with a finding that touches a listed span (any finding if none is listed)\n" +
			"  whole   of these, rows in which each listed span that occurs in the text is covered by one finding\n" +
			"  fpr     rows that hold nothing with a finding; where rows are about one entity, fpr_entity counts only " +
			"findings\n" +
			"          whose kind names that entity\n" +
			"  span_f1 where spans name entities: findings whose kind names one, against its spans; more than half of " +
			"the\n" +
			"          longer must be common\n\n" +
			"--worst N lists the N rules with the most misses and false alarms, and which kinds were found instead. A\n" +
			"miss without any finding counts as (nothing). OTHER KIND counts rows that were found, but as no kind that\n" +
			"names their entity. In a row about one entity, only a kind that names the entity is a false alarm.\n\n" +
			"Every text is scanned on two instances, the second time from the last row to the first: different findings " +
			"are an\n" +
			"error, and so is a scan that fails. Exit 1 after any error, or when a bound is not met.",
		Example: "  yett scanner eval --set secrets.jsonl.gz --scanner secrets --by rule -o json --min-recall 0.8 " +
			"--max-fpr 0.08\n" +
			"  yett scanner eval --set pii.jsonl.gz --scanner pii --by group --worst 10",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fs := cmd.Flags()
	fs.StringArrayVar(&f.sets, "set", nil, "labelled set, .jsonl or .jsonl.gz; may be given more than once")
	fs.StringVar(&f.builtin, "scanner", "", "a built-in scanner")
	fs.StringVar(&f.wasm, "wasm", "", "a module's file")
	fs.StringVar(&f.config, "config", "", configHelp)
	fs.StringVar(&f.by, "by", "", "add a line for each source, rule, group or label; set adds none")
	fs.IntVar(&f.worst, "worst", 0, "list this many of the worst rules, with the kinds found instead")
	fs.StringSliceVar(&f.without, "without", nil,
		"classes to leave out (of a rule such as API:Token, any part; of spans, the entity)")
	fs.Float64Var(&f.minRecall, "min-recall", 0, "least recall of each set that has positive rows, 0 to 1")
	fs.Float64Var(&f.minWhole, "min-whole", 0, "least whole-span recall of each set that has positive rows, 0 to 1")
	fs.Float64Var(&f.maxFPR, "max-fpr", 1, "largest false-positive rate of each set that has negative rows, 0 to 1")
	f.out.Bind(cmd)
	return cmd
}

func (f *evalFlags) check() error {
	if err := f.out.Check(); err != nil {
		return err
	}
	switch {
	case len(f.sets) == 0:
		return cli.Usage("--set FILE is required")
	case (f.builtin == "") == (f.wasm == ""):
		return cli.Usage("give --scanner NAME (one of %v) or --wasm FILE", scanners.Names())
	case f.by != "" && !slices.Contains(evalFields, f.by):
		return cli.Usage("--by %s: must be one of %s", f.by, strings.Join(evalFields, ", "))
	case f.worst < 0:
		return cli.Usage("--worst %d: must be 0 or more", f.worst)
	}
	for name, v := range map[string]float64{"min-recall": f.minRecall, "min-whole": f.minWhole, "max-fpr": f.maxFPR} {
		if !(v >= 0 && v <= 1) {
			return cli.Usage("--%s %v: want 0 to 1", name, v)
		}
	}
	return nil
}

func (f *evalFlags) run(cmd *cobra.Command) (err error) {
	if err := f.check(); err != nil {
		return err
	}
	code, name, err := f.module()
	if err != nil {
		return err
	}
	var settings json.RawMessage
	if f.config != "" {
		if settings, err = kit.ReadSettings(cmd.Context(), f.config); err != nil {
			return cli.Fail(cli.ExitUsage, fmt.Errorf("--config: %w", err))
		}
	}
	pair, err := loadPair(cmd.Context(), name, code, settings, f.wasm != "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pair.close(context.WithoutCancel(cmd.Context()))) }()
	about := pair.first.About()
	rep := &evalReport{Scanner: name, Version: about.Version, Digest: about.Digest, Without: f.without, By: f.by}
	for _, path := range f.sets {
		rows, err := readSet(cmd.Context(), path)
		if err != nil {
			return err
		}
		if err := rep.measure(cmd.Context(), filepath.Base(path), rows, pair, f); err != nil {
			return err
		}
	}
	rep.rank(f.worst)
	if err := f.print(cmd.OutOrStdout(), cmd.ErrOrStderr(), rep); err != nil {
		return err
	}
	return f.judge(rep)
}

func (f *evalFlags) module() (code []byte, name string, err error) {
	if f.wasm != "" {
		m, err := kit.ReadModule(f.wasm)
		return m.Code, "eval", err
	}
	code, ok := scanners.Builtin(f.builtin)
	if !ok {
		return nil, "", cli.Usage("--scanner %s: no such scanner is built in; there are %v", f.builtin, scanners.Names())
	}
	return code, f.builtin, nil
}

// modulePair is one module loaded twice. Nothing is shared between the two but the compiled code.
type modulePair struct {
	host          *host.Host
	first, second *host.Module

	pass *prefilter.Automaton // nil when the module has no triggers
	hits prefilter.Found
}

// evalTimeout is far above any limit in production: how fast this machine is must not change what is found.
const evalTimeout = time.Minute

func loadPair(ctx context.Context, name string, code []byte, settings json.RawMessage, foreign bool) (p *modulePair,
	err error) {
	p = &modulePair{}
	if p.host, err = host.New(ctx, host.Options{CacheDir: cli.ModuleCache(), CheckConfig: config.CheckModule}); err !=
		nil {
		return nil, err
	}
	spec := host.Spec{Name: name, Code: code, Config: settings, Instances: 1, Timeout: evalTimeout, Start: evalTimeout}
	if foreign {
		if _, err = host.Admit(ctx, host.AdmitOptions{CheckConfig: config.CheckModule}, spec); err != nil {
			return nil, errors.Join(err, p.close(context.WithoutCancel(ctx)))
		}
	}
	for _, m := range []**host.Module{&p.first, &p.second} {
		if *m, err = p.host.Load(ctx, spec); err != nil {
			break
		}
		if !(*m).Scans() {
			err = errors.New("the module has no yett_scan, so it is no scanner")
			break
		}
	}
	if err == nil && len(p.first.Triggers()) > 0 {
		p.pass, err = prefilter.Compile([][]abi.Trigger{p.first.Triggers()})
	}
	if err != nil {
		return nil, errors.Join(err, p.close(context.WithoutCancel(ctx)))
	}
	return p, nil
}

func (p *modulePair) close(ctx context.Context) error { return p.host.Close(ctx) }

func (f *evalFlags) print(out, msgs io.Writer, rep *evalReport) error {
	for _, e := range rep.Failed[:min(len(rep.Failed), 20)] {
		fmt.Fprintf(msgs, "%s:%d (%s): %s\n", e.Set, e.Line, e.ID, e.Error)
	}
	rep.sayNone(msgs)
	if f.out.Format != "table" {
		return f.out.Print(out, []any{rep}, true, nil, nil)
	}
	var rows []any
	for i := range rep.Rows {
		rows = append(rows, &rep.Rows[i])
	}
	field := "RULE"
	if f.by != "" && f.by != "set" {
		field = strings.ToUpper(f.by)
	}
	err := f.out.Print(out, rows, false,
		[]string{"SET", "HALF", field, "ROWS", "POSITIVE", "RECALL", "WHOLE", "NEGATIVE", "FALSE", "FPR", "FPR ENTITY",
			"SPAN F1", "ERRORS"},
		func(row any) []string {
			r := row.(*evalRow)
			n := strconv.Itoa
			return []string{r.Set, cmp.Or(r.Half, "all"), cmp.Or(r.class, "all"), n(r.Count), n(r.Positive), share(r.Recall),
				share(r.Whole), n(r.Negative), n(r.False), share(r.FPR), share(r.FPREntity),
				share(r.SpanF1), n(r.Errors)}
		})
	if err != nil || f.worst == 0 {
		return err
	}
	return rep.printWorst(&f.out, out)
}

// share is a rate as a table shows it.
func share(v *float64) string {
	if v == nil {
		return "-"
	}
	return strconv.FormatFloat(*v, 'f', 4, 64)
}

// judge compares the line of each whole set with the bounds that were given.
func (f *evalFlags) judge(rep *evalReport) error {
	var errs []error
	if n := len(rep.Failed); n > 0 {
		errs = append(errs, fmt.Errorf("%d rows could not be scanned", n))
	}
	recalls, rates := 0, 0
	for i := range rep.Rows {
		r := &rep.Rows[i]
		if r.Half != "" || r.class != "" {
			continue
		}
		if r.Recall != nil {
			recalls++
			errs = append(errs, below(r.Set, "recall", *r.Recall, f.minRecall),
				below(r.Set, "whole-span recall", *r.Whole, f.minWhole))
		}
		if r.FPR != nil {
			rates++
			if *r.FPR > f.maxFPR {
				errs = append(errs, fmt.Errorf("%s: false-positive rate %.4f is above %v", r.Set, *r.FPR, f.maxFPR))
			}
		}
	}
	if recalls == 0 && max(f.minRecall, f.minWhole) > 0 {
		errs = append(errs, errors.New("no set has a positive row, so there is no recall to judge"))
	}
	if rates == 0 && f.maxFPR < 1 {
		errs = append(errs, errors.New("no set has a negative row, so there is no false-positive rate to judge"))
	}
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) == 0 {
		return nil
	}
	return cli.Fail(cli.ExitFailure, errors.Join(errs...))
}

func below(set, what string, got, want float64) error {
	if got >= want {
		return nil
	}
	return fmt.Errorf("%s: %s %.4f is below %v", set, what, got, want)
}
