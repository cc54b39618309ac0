package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// ratioRun is one `yett bench ratios`: the echo and two gateways, driven by turns.
type ratioRun struct {
	rounds  int
	seconds time.Duration
	conns   []int
	raw     io.Writer // one line of JSON a run; nil for none
	show    func(format string, args ...any)

	loads    []load
	echo     *child
	gateways map[string]*child // by audit.args
}

// load is what is sent where.
type load struct {
	name   string // "echo" for the echo
	args   string // which gateway, by audit.args; "" for the echo
	path   string
	bodies [][]byte
	expect string
	echo   string // the load it is compared with; "" for the echo's own
}

// sample is one run of one load; the raw results are these, one a line.
type sample struct {
	Load          string  `json:"load"`
	Connections   int     `json:"connections"`
	Round         int     `json:"round"`
	PerSecond     float64 `json:"per_second"`
	Good          int     `json:"good"`
	Bad           int     `json:"bad"`
	FirstBad      string  `json:"first_bad,omitempty"`
	P50           float64 `json:"p50_us"`
	P99           float64 `json:"p99_us"`
	Generator     float64 `json:"generator_cpu"` // cores
	BytesEach     float64 `json:"alloc_bytes_each,omitempty"`
	ObjectsEach   float64 `json:"alloc_objects_each,omitempty"`
	DiskBytesEach float64 `json:"disk_bytes_each,omitempty"`
	Unrecorded    int     `json:"unrecorded,omitempty"` // good answers beyond the records that the log grew by
}

func benchLoads() ([]load, error) {
	calls, err1 := authorizeBodies()
	clean, err2 := scanBodies(false)
	dirty, err3 := scanBodies(true)
	const auth, scan = "/v1/authorize", "/v1/scan_output"
	return []load{
		{name: "echo-authorize", path: auth, bodies: calls, expect: `"agent_id":"support-`},
		{name: "authorize-digest", args: "digest", path: auth, bodies: calls, expect: `"effect":"PERMIT"`, echo: "echo-authorize"},
		{name: "authorize-redacted", args: "redacted", path: auth, bodies: calls, expect: `"effect":"PERMIT"`, echo: "echo-authorize"},
		{name: "echo-scan", path: scan, bodies: clean, expect: `"output":"`},
		{name: "scan-clean", args: "digest", path: scan, bodies: clean, expect: `"outcome":"PASS"`, echo: "echo-scan"},
		{name: "scan-dirty", args: "digest", path: scan, bodies: dirty, expect: `"outcome":"REDACTED"`, echo: "echo-scan"},
	}, errors.Join(err1, err2, err3)
}

// run measures and gives the rows.
func (r *ratioRun) run(ctx context.Context) (rows []ratioRow, err error) {
	if r.loads, err = benchLoads(); err != nil {
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
			for _, l := range order {
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

func (r *ratioRun) start(ctx context.Context) (err error) {
	r.show("starting a raw echo and two throw-away gateways")
	if r.echo, err = startChild(ctx, "echo"); err != nil {
		return err
	}
	r.gateways = map[string]*child{}
	for _, args := range []string{"digest", "redacted"} {
		if r.gateways[args], err = startChild(ctx, "gateway", "--args", args); err != nil {
			delete(r.gateways, args)
			return err
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
	return errors.Join(errs...)
}

// measure runs one load once.
func (r *ratioRun) measure(ctx context.Context, l load, conns, round int) (sample, error) {
	d := &drive{addr: r.echo.addr, path: l.path, bodies: l.bodies, expect: l.expect, conns: conns, warm: min(r.seconds/3, time.Second), duration: r.seconds}
	g := r.gateways[l.args]
	var before, after counters
	var err error
	if g != nil {
		d.addr, d.headers = g.addr, "Authorization: Bearer "+g.key+"\r\n"
		if before, err = g.counters(ctx); err != nil {
			return sample{}, err
		}
	}
	out, err := d.run(ctx)
	if err != nil {
		return sample{}, err
	}
	s := sample{Load: l.name, Connections: conns, Round: round, PerSecond: out.perSecond(), Good: out.good, Bad: out.bad, FirstBad: out.firstBad,
		P50: micros(out.latency.at(0.5)), P99: micros(out.latency.at(0.99)), Generator: out.cpu.Seconds() / out.elapsed.Seconds()}
	if g != nil {
		if after, err = g.counters(ctx); err != nil {
			return sample{}, err
		}
		n := max(float64(out.all), 1)
		s.BytesEach, s.ObjectsEach, s.DiskBytesEach = (after.bytes-before.bytes)/n, (after.objects-before.objects)/n, (after.written-before.written)/n
		s.Unrecorded = max(out.all-int(after.records-before.records), 0)
	}
	r.show("round %d of %d: %-18s %3d connections %8.0f/s", round, r.rounds, s.Load, conns, s.PerSecond)
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
	return r.write(map[string]any{"time": time.Now().UTC().Format(time.RFC3339), "version": version(), "go": runtime.Version(), "cpu": cpu, "cores": runtime.NumCPU(),
		"loadavg_before": strings.TrimSpace(string(busy)), "rounds": r.rounds, "seconds": r.seconds.Seconds()})
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
