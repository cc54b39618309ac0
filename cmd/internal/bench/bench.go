//go:build linux

// Package bench holds yett bench: loads, throw-away gateways, raw servers to compare with, and the ratios that are
// promised. It measures a gateway from outside, as its clients see it, and judges a run only when the generator itself
// kept up. It must not share code with what it measures beyond what makes the load.
package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/yett-dev/yett/cmd/internal/cli"
)

// Command is `yett bench`. run runs the gateways that it measures.
func Command(run gatewayRun) *cobra.Command {
	return cli.Group("bench", "Measure a gateway", benchRatiosCommand(), benchLoadCommand(), benchHookCommand(),
		benchEchoCommand(), benchGatewayCommand(run))
}

// Limits of the flags.
const (
	maxBenchConns   = 4096
	maxBenchSeconds = 600
	maxBenchRate    = 1_000_000
)

func benchRatiosCommand() *cobra.Command {
	var r ratioRun
	var seconds float64
	var asJSON bool
	var out cli.Output
	var file, rows string
	cmd := &cobra.Command{
		Use:   "ratios",
		Short: "Compare a throw-away gateway with a raw echo on this machine",
		Long: "Start a raw fasthttp echo and throw-away gateways (every answer recorded and synced, 100 rules), drive " +
			"them by turns and\n" +
			"print how the gateway's rate compares in the same round with the echo's, or with that of plain authorize calls: " +
			"medians,\n" +
			"with the least and the most. Every answer is checked; one wrong answer, or one without a record, makes its row " +
			"missed.\n" +
			"The load generator runs here too. Data goes to a directory under TMPDIR: it must be on a real disk. Goals " +
			"that this\n" +
			"version cannot measure have no row. --rows picks rows by their ids, as go test -run picks tests.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if r.rounds < 1 || r.rounds > 100 {
				return cli.Usage("--rounds %d: want 1 to 100", r.rounds)
			}
			if r.seconds, err = benchSeconds(seconds); err != nil {
				return err
			}
			for _, c := range r.conns {
				if c != 1 && c != 64 && c != 256 {
					return cli.Usage("--connections %d: the goals are for 1, 64 and 256", c)
				}
			}
			if rows != "" {
				if r.rows, err = regexp.Compile(rows); err != nil {
					return cli.Usage("--rows: %v", err)
				}
			}
			if r.plugin != "" { // each gateway has a directory of its own
				if r.plugin, err = filepath.Abs(r.plugin); err != nil {
					return err
				}
			}
			r.show = func(format string, args ...any) { fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...) }
			var raw bytes.Buffer
			if file != "" {
				r.raw = &raw
			}
			result, err := r.run(cmd.Context())
			if file != "" {
				err = errors.Join(err, os.WriteFile(file, raw.Bytes(), 0o644))
			}
			if err != nil {
				return err
			}
			if asJSON {
				out.Format = "json"
			}
			var rows []any
			for _, r := range result {
				rows = append(rows, r)
			}
			if !out.Table() {
				return out.PrintData(cmd.OutOrStdout(), rows, false)
			}
			return printRatios(cmd.OutOrStdout(), result)
		},
	}
	out.Bind(cmd)
	fs := cmd.Flags()
	fs.IntVar(&r.rounds, "rounds", 5, "rounds, each with every load in turn")
	fs.Float64Var(&seconds, "seconds", 3, "measured seconds of each load in each round")
	fs.IntSliceVar(&r.conns, "connections", []int{1, 64, 256}, "connections: some of 1, 64 and 256")
	fs.StringVar(&rows, "rows", "", "regular expression for the ids of the rows to measure (default: all)")
	fs.StringVar(&r.plugin, "plugin", "", "program of the plugins that some rows measure, as built from "+pluginSource+
		" (default: build it)")
	fs.BoolVar(&r.large, "rules-100000", false, "also compare 100 000 rules with 10; loading them takes some seconds")
	fs.BoolVar(&asJSON, "json", false, "the same as -o json")
	fs.StringVar(&file, "out", "", "file for the raw results, one line of JSON for each run")
	return cmd
}

func benchSeconds(s float64) (time.Duration, error) {
	if !(s >= 0.1 && s <= maxBenchSeconds) {
		return 0, cli.Usage("--seconds %g: want 0.1 to %d", s, maxBenchSeconds)
	}
	return time.Duration(s * float64(time.Second)), nil
}

func printRatios(w io.Writer, rows []ratioRow) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "ID\tWHAT\tGOAL\tMEASURED\tSPREAD\tYETT/s\tOF/s\tVERDICT\tWHY")
	for _, r := range rows {
		sign, digits := "≥", 2
		if r.Better == "lower" {
			sign = "≤"
		}
		if r.Goal >= 10 {
			digits = 0
		}
		fmt.Fprintf(tw, "%s\t%s\t%s %g\t%.*f\t%.*f–%.*f\t%.0f\t%.0f\t%s\t%s\n", r.ID, r.What, sign, r.Goal, digits,
			r.Measured, digits, r.Spread[0], digits, r.Spread[1], r.Yett, r.Echo+r.Base, r.Verdict, r.Why)
	}
	return tw.Flush()
}

// loadResult is what `yett bench load` prints. Times are in microseconds.
type loadResult struct {
	Rate     float64 `json:"rate"`
	Seconds  float64 `json:"seconds"`
	Conns    int     `json:"connections"`
	Achieved float64 `json:"achieved"`
	Good     int     `json:"good"`
	Bad      int     `json:"bad"`
	FirstBad string  `json:"first_bad,omitempty"`
	Late     int     `json:"unanswered"`
	P50      float64 `json:"p50_us"`
	P90      float64 `json:"p90_us"`
	P99      float64 `json:"p99_us"`
	P999     float64 `json:"p999_us"`
	Max      float64 `json:"max_us"`
}

// loadFlags are load's flags.
type loadFlags struct {
	url, key      string
	out           cli.Output
	rate, seconds float64
	conns         int
}

func benchLoadCommand() *cobra.Command {
	var f loadFlags
	cmd := &cobra.Command{
		Use:   "load --url URL --rate R",
		Short: "Send authorize calls at a steady rate and print latencies",
		Long: "Send R calls a second to a running gateway's /v1/authorize, each when it is due, whether or not earlier " +
			"ones have been\n" +
			"answered. Latencies count from when a call was due, so a gateway that stalls shows it. The key comes from " +
			"--key or\n" +
			"YETT_API_KEY. The exit code is 1 when an answer was wrong or did not come.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := f.drive()
			if err != nil {
				return err
			}
			out, err := d.run(cmd.Context())
			if err != nil {
				return err
			}
			return f.print(cmd.OutOrStdout(), out)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.url, "url", "", "the gateway, such as http://127.0.0.1:8420")
	fs.StringVar(&f.key, "key", "", "API key with scope authorize (default: YETT_API_KEY)")
	fs.Float64Var(&f.rate, "rate", 0, "calls a second")
	fs.IntVar(&f.conns, "connections", 64, "connections, each with one call at a time")
	fs.Float64Var(&f.seconds, "seconds", 10, "measured seconds, after a second to warm up")
	f.out.Bind(cmd)
	return cmd
}

func (f *loadFlags) drive() (*drive, error) {
	u, err := url.Parse(f.url)
	switch {
	case err != nil || u.Scheme != "http" || u.Host == "" || u.Port() == "":
		return nil, cli.Usage("--url %q: want http://HOST:PORT; TLS would measure the generator", f.url)
	case !(f.rate > 0 && f.rate <= maxBenchRate):
		return nil, cli.Usage("--rate %g: want more than 0 and at most %d", f.rate, maxBenchRate)
	case f.conns < 1 || f.conns > maxBenchConns:
		return nil, cli.Usage("--connections %d: want 1 to %d", f.conns, maxBenchConns)
	}
	if f.key == "" {
		f.key = os.Getenv("YETT_API_KEY")
	}
	if f.key == "" || slices.ContainsFunc([]byte(f.key), func(c byte) bool { return c <= ' ' || c > '~' }) {
		return nil, cli.Usage("load needs an API key: --key or YETT_API_KEY")
	}
	length, err := benchSeconds(f.seconds)
	if err != nil {
		return nil, err
	}
	bodies, err := authorizeBodies()
	if err != nil {
		return nil, err
	}
	return &drive{addr: u.Host, path: "/v1/authorize", headers: "Authorization: Bearer " + f.key + "\r\n", bodies: bodies,
		expect: `"decision_id":"`, conns: f.conns, rate: f.rate, warm: time.Second, duration: length}, nil
}

func (f *loadFlags) print(w io.Writer, out *driven) error {
	r := loadResult{Rate: f.rate, Seconds: f.seconds, Conns: f.conns, Achieved: float64(out.inTime) / f.seconds,
		Good: out.good, Bad: out.bad, FirstBad: out.firstBad, Late: out.late,
		P50: micros(out.latency.at(0.5)), P90: micros(out.latency.at(0.9)), P99: micros(out.latency.at(0.99)),
		P999: micros(out.latency.at(0.999)), Max: micros(out.latency.max)}
	err := f.out.PrintOr(w, r, func(w io.Writer) error {
		tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
		fmt.Fprintf(tw, "RATE\tACHIEVED\tGOOD\tBAD\tUNANSWERED\tP50\tP90\tP99\tP99.9\tMAX\n%g/s\t%.0f/s\t%d\t%d\t%d\t%.0f "+
			"µs\t%.0f µs\t%.0f µs\t%.0f µs\t%.0f µs\n",
			r.Rate, r.Achieved, r.Good, r.Bad, r.Late, r.P50, r.P90, r.P99, r.P999, r.Max)
		return tw.Flush()
	})
	if err == nil && (r.Bad > 0 || r.Late > 0) {
		err = fmt.Errorf("%d answers were wrong and %d calls were not answered in time; the first wrong answer: %q", r.Bad,
			r.Late, r.FirstBad)
	}
	return err
}
