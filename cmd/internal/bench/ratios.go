//go:build linux

package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/yett-dev/yett/cmd/internal/cli"
)

// ratioRun is one `yett bench ratios`: the echo and the gateways, driven by turns.
type ratioRun struct {
	rounds  int
	seconds time.Duration
	conns   []int
	rows    *regexp.Regexp // which rows; nil for all
	plugin  string         // the program of the plugins; "" to build it if a row needs it
	large   bool           // also the rows that need 100 000 rules
	raw     io.Writer      // one line of JSON a run; nil for none
	show    func(format string, args ...any)

	goals    []*ratioGoal // of the rows
	loads    []load
	needed   map[rateKey]bool // what the rows are made of
	built    string           // the directory of the plugin that was built, "" for none
	echo     *child
	gateways map[string]*child
	rates    map[rateKey]float64 // the highest so far
	paced    map[rateKey]float64 // the first: what open loops go by in every round
	redeemed int                 // approvals made so far
	granted  int                 // agents that have a grant
}

// rateKey is a load in the rows for so many connections.
type rateKey struct {
	load  string
	conns int
}

// sample is one run of one load; the raw results are these, one a line.
type sample struct {
	Load          string  `json:"load"`
	Connections   int     `json:"connections"`
	InFlight      int     `json:"in_flight,omitempty"`        // on each connection, when it is more than one
	Rate          float64 `json:"asked_per_second,omitempty"` // of a load whose requests are sent when they are due
	Round         int     `json:"round"`
	Seconds       float64 `json:"seconds"`    // measured
	PerSecond     float64 `json:"per_second"` // of a load of this process: MB
	Good          int     `json:"good"`
	Bad           int     `json:"bad"`
	FirstBad      string  `json:"first_bad,omitempty"`
	P50           float64 `json:"p50_us"`
	P99           float64 `json:"p99_us"`
	Generator     float64 `json:"generator_cpu"` // cores
	BytesEach     float64 `json:"alloc_bytes_each,omitempty"`
	ObjectsEach   float64 `json:"alloc_objects_each,omitempty"`
	DiskBytesEach float64 `json:"disk_bytes_each,omitempty"`
	CPUEach       float64 `json:"cpu_us_each,omitempty"` // of the gateway's process, without its plugins
	Unrecorded    int     `json:"unrecorded,omitempty"`  // good answers beyond the records that the log grew by
	Late          int     `json:"unanswered,omitempty"`  // of those that were due
	Disturbed     string  `json:"disturbed,omitempty"`   // what was not as it has to be around the load
}

// run measures and gives the rows.
func (r *ratioRun) run(ctx context.Context) (rows []ratioRow, err error) {
	if r.loads, err = benchLoads(); err != nil {
		return nil, err
	}
	if err := r.choose(); err != nil {
		return nil, err
	}
	if err := r.header(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	if err := r.start(ctx); err != nil {
		return nil, err
	}
	var all []sample
	for round := range r.rounds {
		for _, conns := range r.conns {
			order := slices.Clone(r.loads)
			if round%2 == 1 {
				slices.Reverse(order) // so that a machine that slows down or warms up favours nobody
			}
			for i := range order {
				l := &order[i]
				if !r.needed[rateKey{l.name, conns}] {
					continue
				}
				s, err := r.measure(ctx, l, conns, round+1)
				if err != nil {
					return nil, fmt.Errorf("%s with %d connections: %w", l.name, conns, err)
				}
				all = append(all, s)
			}
		}
	}
	rows = r.judge(all)
	for _, row := range rows {
		if err := r.write(row); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// choose finds out which rows there are to be, and what has to be measured for them.
func (r *ratioRun) choose() error {
	r.needed, r.rates, r.paced = map[rateKey]bool{}, map[rateKey]float64{}, map[rateKey]float64{}
	var need func(name string, conns int)
	need = func(name string, conns int) {
		r.needed[rateKey{name, conns}] = true
		if l := r.load(name); l.after != "" {
			need(l.after, conns)
		}
	}
	for i := range ratioGoals {
		t := &ratioGoals[i]
		if !slices.Contains(r.conns, t.conns) || t.large && !r.large || r.rows != nil && !r.rows.MatchString(t.id) {
			continue
		}
		r.goals = append(r.goals, t)
		need(t.load, t.conns)
		need(t.base, t.conns)
	}
	if len(r.goals) == 0 {
		return cli.Usage("no row has an id that --rows matches, with these --connections")
	}
	return nil
}

// load is the load of that name; goals name no other ones.
func (r *ratioRun) load(name string) *load {
	i := slices.IndexFunc(r.loads, func(l load) bool { return l.name == name })
	return &r.loads[i]
}

func (r *ratioRun) start(ctx context.Context) (err error) {
	r.show("starting what is measured")
	r.gateways = map[string]*child{}
	for _, l := range r.loads {
		if !slices.ContainsFunc(r.conns, func(n int) bool { return r.needed[rateKey{l.name, n}] }) {
			continue
		}
		if l.needsPlugin() && r.plugin == "" {
			if r.built, err = os.MkdirTemp("", "yett-bench-"); err != nil {
				return err
			}
			if r.plugin, err = buildPlugin(ctx, r.built); err != nil {
				return err
			}
		}
		switch {
		case l.work != nil:
		case l.gateway == "" && r.echo == nil:
			if r.echo, err = startChild(ctx, "echo"); err != nil {
				return err
			}
		case l.gateway != "" && r.gateways[l.gateway] == nil:
			g, err := startChild(ctx, slices.Concat([]string{"gateway", "--plugin", r.plugin}, gatewayFlags[l.gateway])...)
			if err != nil {
				return err
			}
			r.gateways[l.gateway] = g
		}
	}
	return nil
}

func (r *ratioRun) stop() error {
	var errs []error
	if r.echo != nil {
		errs = append(errs, r.echo.stop())
	}
	for _, g := range r.gateways {
		errs = append(errs, g.stop())
	}
	if r.built != "" {
		errs = append(errs, os.RemoveAll(r.built))
	}
	return errors.Join(errs...)
}

// measure runs one load once.
func (r *ratioRun) measure(ctx context.Context, l *load, conns, round int) (_ sample, err error) {
	if l.work != nil {
		return r.worked(ctx, l, conns, round)
	}
	d := &drive{path: l.path, bodies: l.bodies, expect: l.expect, conns: conns, warm: min(r.seconds/3, time.Second),
		duration: r.seconds}
	if l.share > 0 {
		d.duration = min(d.duration, stuckFor)
		if d.rate = l.share * r.paced[rateKey{l.after, conns}]; d.rate <= 0 {
			return sample{}, fmt.Errorf("%s answered nothing, so there is no rate to send at", l.after)
		}
	}
	g := r.gateways[l.gateway]
	if g == nil {
		d.addr = r.echo.addr
		out, err := d.run(ctx)
		if err != nil {
			return sample{}, err
		}
		return r.noted(l, conns, round, d.rate, out, sample{})
	}
	d.addr, d.headers = g.addr, bearer(g.keys.Agent)
	var done func() string
	if l.prepare != nil {
		if done, err = l.prepare(ctx, r, g, d); err != nil && ctx.Err() == nil {
			return r.noted(l, conns, round, d.rate, &driven{}, sample{Disturbed: err.Error()}) // the other rows need not suffer
		} else if err != nil {
			return sample{}, err
		}
	}
	out, s, err := g.counted(ctx, l, d)
	if done != nil {
		s.Disturbed = done()
	}
	if err != nil {
		return sample{}, err
	}
	return r.noted(l, conns, round, d.rate, out, s)
}

// counted drives a gateway, over HTTP or the socket, and holds what it was answered against what it counted.
func (c *child) counted(ctx context.Context, l *load, d *drive) (out *driven, s sample, err error) {
	before, err := c.counters(ctx)
	if err != nil {
		return nil, s, err
	}
	if l.depth > 0 {
		out, err = (&pipeDrive{path: c.socket, key: c.keys.Agent, bodies: d.bodies, expect: d.expect, conns: pipeConns,
			depth: l.depth, warm: d.warm, duration: d.duration}).run(ctx)
	} else {
		out, err = d.run(ctx)
	}
	if err != nil {
		return nil, s, err
	}
	after, err := c.counters(ctx)
	if err != nil {
		return nil, s, err
	}
	n := max(float64(out.all), 1)
	s.BytesEach, s.ObjectsEach, s.DiskBytesEach = (after.bytes-before.bytes)/n, (after.objects-before.objects)/n,
		(after.written-before.written)/n
	s.CPUEach = (after.cpu - before.cpu) / n
	s.Unrecorded = max(out.all-int(after.records-before.records), 0)
	return out, s, nil
}

// noted completes a sample, keeps its rate for loads that go by it, and writes it down.
func (r *ratioRun) noted(l *load, conns, round int, rate float64, out *driven, s sample) (sample, error) {
	s.Load, s.Connections, s.InFlight, s.Round, s.Rate = l.name, l.at(conns), l.depth, round, rate
	s.Seconds, s.PerSecond, s.Good, s.Bad, s.FirstBad, s.Late = out.elapsed.Seconds(), out.perSecond(), out.good, out.bad,
		out.firstBad, out.late
	s.P50, s.P99 = micros(out.latency.at(0.5)), micros(out.latency.at(0.99))
	if s.Seconds > 0 {
		s.Generator = out.cpu.Seconds() / s.Seconds
	}
	key := rateKey{l.name, conns}
	r.rates[key] = max(r.rates[key], s.PerSecond)
	if _, has := r.paced[key]; !has {
		r.paced[key] = s.PerSecond
	}
	in := ""
	if l.depth > 0 {
		in = fmt.Sprintf(" × %d in flight", l.depth)
	}
	r.show("round %d of %d: %-18s %3d connections%s %8.0f/s, p99 %.0f µs", round, r.rounds, s.Load, s.Connections, in,
		s.PerSecond, s.P99)
	return s, r.write(s)
}

func (r *ratioRun) write(v any) error {
	if r.raw == nil {
		return nil
	}
	return json.NewEncoder(r.raw).Encode(v)
}

// header says on what the raw results were measured.
func (r *ratioRun) header() error {
	if r.raw == nil {
		return nil
	}
	cpu := "unknown"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, after, found := strings.Cut(string(text), "model name\t: "); found {
			cpu, _, _ = strings.Cut(after, "\n")
		}
	}
	busy, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return err
	}
	return r.write(map[string]any{"time": time.Now().UTC().Format(time.RFC3339), "version": cli.Version(),
		"go": runtime.Version(), "cpu": cpu, "cores": runtime.NumCPU(), "loadavg_before": strings.TrimSpace(string(busy)),
		"rounds": r.rounds, "seconds": r.seconds.Seconds()})
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
