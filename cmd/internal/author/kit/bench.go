package kit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/yett-dev/yett/core/wasm/host"
	"github.com/yett-dev/yett/sdk/abi"
)

// BenchReport is what a module costs on this machine, on one core.
type BenchReport struct {
	Module  string     `json:"module"`
	Version string     `json:"version"`
	Digest  string     `json:"digest"`
	Bytes   int        `json:"bytes"`
	Start   BenchStart `json:"start"`
	Rows    []BenchRow `json:"rows"`
}

// BenchStart is what it takes until a module answers. Times are medians, in microseconds.
type BenchStart struct {
	CompileUS   float64 `json:"compile_us"`   // checked, compiled and started, with no cache
	CachedUS    float64 `json:"cached_us"`    // the same with compiled code at hand; 0 without a cache
	InstanceUS  float64 `json:"instance_us"`  // a new instance
	MemoryBytes uint64  `json:"memory_bytes"` // linear memory of an instance after its start
}

// BenchRow is one text scanned over and over.
type BenchRow struct {
	Text      string  `json:"text"`       // clean or dirty
	Way       string  `json:"way"`        // gateway: prefiltered; module: the module reads all of it
	Bytes     int     `json:"bytes"`      // of the text
	Findings  int     `json:"findings"`   // in the text
	Called    bool    `json:"called"`     // false: nothing in the text trips a trigger
	CallUS    float64 `json:"call_us"`    // one scan
	USPerKiB  float64 `json:"us_per_kib"` //
	Slowest   float64 `json:"slowest_us"` // median of the slowest round
	Fastest   float64 `json:"fastest_us"` // median of the fastest round
	HostCalls int     `json:"host_calls"` // of one scan
	Fuel      uint64  `json:"fuel"`       // of one scan: about one unit an instruction
}

// Measurements are made in rounds, the texts in turn in each, so that a busy moment of the machine does not fall on one
// row.
const (
	benchRounds = 5
	benchSlice  = 40 * time.Millisecond // of one row in one round
	benchStarts = 5
)

// Bench measures a module on clean and dirty texts. dirty is a text that it finds things in; "" makes one of the
// module's triggers and of what tools put out. now is the clock.
func (s Settings) Bench(ctx context.Context, m Module, config json.RawMessage, dirty string,
	now func() time.Time) (rep *BenchReport, err error) {
	st, err := s.stage(ctx, m)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.close(ctx)) }()
	sub, err := st.with(ctx, config)
	if err != nil {
		return nil, unset(config, err)
	}
	if !sub.first.Scans() {
		return nil, fmt.Errorf("the module has no %s, and there is nothing to measure", abi.ExportScan)
	}
	about := sub.first.About()
	rep = &BenchReport{Module: m.Name, Version: about.Version, Digest: about.Digest, Bytes: len(m.Code)}
	if err := s.benchStart(ctx, st, config, rep, now); err != nil {
		return nil, err
	}
	b := &bench{sub: sub, now: now}
	for _, text := range benchTexts(sub.first.Triggers(), dirty) {
		if err := b.prepare(ctx, text); err != nil {
			return nil, err
		}
	}
	for range benchRounds {
		for i := range b.rows {
			if err := b.round(ctx, &b.rows[i]); err != nil {
				return nil, err
			}
		}
	}
	rep.Start.MemoryBytes = sub.first.Stats().Memory
	for i := range b.rows {
		rep.Rows = append(rep.Rows, b.rows[i].result())
	}
	return rep, nil
}

func (s *Settings) benchStart(ctx context.Context, st *stage, config json.RawMessage, rep *BenchReport,
	now func() time.Time) error {
	spec := st.spec(config)
	load := func(host *host.Host) (us float64, err error) {
		start := now()
		m, err := host.Load(ctx, spec)
		us = micros(now().Sub(start))
		if err != nil {
			return 0, err
		}
		return us, m.Close(ctx)
	}
	bare := *s
	bare.CacheDir = ""
	cold, err := bare.host(ctx)
	if err != nil {
		return err
	}
	rep.Start.CompileUS, err = load(cold)
	if err = errors.Join(err, cold.Close(ctx)); err != nil {
		return err
	}
	if s.CacheDir != "" {
		var times []float64
		for range benchStarts {
			us, err := load(st.host)
			if err != nil {
				return err
			}
			times = append(times, us)
		}
		rep.Start.CachedUS = median(times)
	}
	spec.Isolation = host.Fresh
	fresh, err := st.host.Load(ctx, spec)
	if err != nil {
		return err
	}
	var times []float64
	for range benchStarts {
		start := now()
		if err := whole(ctx, fresh, "").err; err != nil {
			return errors.Join(fmt.Errorf("scan of an empty text: %w", err), fresh.Close(ctx))
		}
		times = append(times, micros(now().Sub(start)))
	}
	rep.Start.InstanceUS = median(times)
	return fresh.Close(ctx)
}

type benchText struct{ name, text string }

// benchTexts are clean and dirty texts of two sizes. Clean ones hold no trigger, as far as that can be had.
func benchTexts(triggers []abi.Trigger, dirty string) []benchText {
	clean := strings.Repeat("All work and no play makes for a long and quiet text.\n", largeSample/54)
	if dirty == "" {
		var b strings.Builder
		for _, t := range triggers[:min(len(triggers), maxTriggerSamples)] {
			b.WriteString("see " + occurrence(t) + " there\n")
		}
		dirty = b.String() + everyday() + "\n"
	}
	dirty = strings.Repeat(dirty, max(1, largeSample/len(dirty)))
	return []benchText{{"clean", clean[:4<<10]}, {"clean", clean}, {"dirty", dirty[:min(len(dirty), 4<<10)]},
		{"dirty", dirty}}
}

type bench struct {
	sub  *subject
	now  func() time.Time
	rows []benchRow
}

type benchRow struct {
	BenchRow
	run    func(ctx context.Context) outcome
	rounds []float64 // medians, µs
}

func (b *bench) prepare(ctx context.Context, t benchText) error {
	ways := []struct {
		name string
		run  func(ctx context.Context) outcome
	}{
		{"gateway", func(ctx context.Context) outcome { return b.sub.filtered(ctx, t.text) }},
		{"module", func(ctx context.Context) outcome { return whole(ctx, b.sub.first, t.text) }},
	}
	for _, way := range ways {
		o := way.run(ctx)
		if o.err != nil {
			return fmt.Errorf("%s text of %d bytes: %w", t.name, len(t.text), o.err)
		}
		b.rows = append(b.rows, benchRow{run: way.run, BenchRow: BenchRow{Text: t.name, Way: way.name, Bytes: len(t.text),
			Findings: len(o.findings), Called: !o.skipped, HostCalls: o.hostCalls, Fuel: o.fuel}})
	}
	return nil
}

// round scans one row for a while and notes the median.
func (b *bench) round(ctx context.Context, r *benchRow) error {
	var times []float64
	for begin := b.now(); ; {
		start := b.now()
		o := r.run(ctx)
		end := b.now()
		if o.err != nil {
			return fmt.Errorf("%s text of %d bytes: %w", r.Text, r.Bytes, o.err)
		}
		times = append(times, micros(end.Sub(start)))
		if end.Sub(begin) >= benchSlice {
			break
		}
	}
	r.rounds = append(r.rounds, median(times))
	return nil
}

func (r *benchRow) result() BenchRow {
	r.CallUS, r.Slowest, r.Fastest = median(r.rounds), slices.Max(r.rounds), slices.Min(r.rounds)
	r.USPerKiB = r.CallUS / (float64(r.Bytes) / 1024)
	return r.BenchRow
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}
