package host

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk/abi"
)

// noop answers "nothing found" without reading.
func noop() guest { return guest{scan: i32(0)} }

// small is a guest whose memory is one page, as a C guest's.
func small(g guest) guest {
	g.edit = func(m *mod) { m.memories = [][]byte{{0, 1}} }
	return g
}

// TestScanAllocations keeps the hot path from growing: a call allocates nothing but the findings it returns.
func TestScanAllocations(t *testing.T) {
	in := &chain.Input{Text: strings.Repeat("x", 4<<10)}
	ctx := context.Background()
	for _, iso := range []Isolation{Reset, Pooled} {
		m := load(t, noop(), func(s *Spec) { s.Isolation = iso })
		const ceiling = 3
		if n := testing.AllocsPerRun(200, func() { _, _ = m.Scan(ctx, in) }); n > ceiling {
			t.Errorf("%v: %v allocations a scan: at most %d", iso, n, ceiling)
		}
	}
}

// secrets loads the built-in scanner as it is shipped.
func secrets(tb testing.TB, iso Isolation) *Module {
	tb.Helper()
	wasm, err := os.ReadFile("../../../scanners/secrets/secrets.wasm")
	if err != nil {
		tb.Fatal(err)
	}
	m, err := newHost(tb, Options{}).Load(context.Background(),
		Spec{Name: "secrets", Code: wasm, Start: time.Minute, Timeout: time.Minute, Isolation: iso})
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

func benchScan(b *testing.B, m *Module, w Window) {
	w.Flags = abi.FlagFirst | abi.FlagFinal
	b.SetBytes(int64(len(w.Text)))
	b.ReportAllocs()
	before := m.Stats().Fuel
	for b.Loop() {
		if _, err := m.ScanWindow(context.Background(), w); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(m.Stats().Fuel-before)/float64(b.N), "units/op")
}

// BenchmarkCall is what a call costs beside the guest's own work: noop does none, and secrets next to none when it is
// told that nothing triggered.
func BenchmarkCall(b *testing.B) {
	text := strings.Repeat("x", 4<<10)
	for _, iso := range []Isolation{Reset, Fresh, Pooled} {
		b.Run(fmt.Sprintf("noop/%v", iso), func(b *testing.B) {
			benchScan(b, load(b, small(noop()), func(s *Spec) { s.Isolation = iso }), Window{Text: text})
		})
		b.Run(fmt.Sprintf("secrets/%v", iso), func(b *testing.B) {
			benchScan(b, secrets(b, iso), Window{Text: text, Complete: true})
		})
	}
}

// BenchmarkReset is a reset alone, after a call that wrote its text and nothing else.
func BenchmarkReset(b *testing.B) {
	run := func(b *testing.B, m *Module) {
		in, err := m.instance(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		defer in.close()
		text := strings.Repeat("x", 4<<10)
		var spent time.Duration
		for b.Loop() {
			if _, err := m.scanOn(context.Background(), in, Window{Text: text, Complete: true}); err != nil {
				b.Fatal(err)
			}
			from := time.Now()
			if whole, err := m.snap.restore(in); !whole || err != nil {
				b.Fatal(whole, err)
			}
			spent += time.Since(from)
		}
		b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N), "ns/reset")
		b.ReportMetric(float64(m.size), "bytes")
	}
	b.Run("64KiB", func(b *testing.B) { run(b, load(b, small(noop()), nil)) })
	b.Run("secrets", func(b *testing.B) { run(b, secrets(b, Reset)) })
}

// BenchmarkTick is a guest that does nothing but count: what a unit takes, and what a slice's end costs beside it.
func BenchmarkTick(b *testing.B) {
	b.Run("loop", func(b *testing.B) {
		const n = 2_000_000
		m := load(b, guest{locals: 1, scan: cat(times(3, n, nil), i32(0))}, func(s *Spec) {
			s.Timeout, s.Fuel = time.Minute, MaxFuel
		})
		before := m.Stats().Fuel
		benchScan(b, m, Window{Text: "x"})
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(m.Stats().Fuel-before), "ns/unit")
	})
	b.Run("tick", func(b *testing.B) {
		m := load(b, noop(), nil)
		in, err := m.start(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		defer in.close()
		c := loose(in, scanning)
		defer c.leave()
		for b.Loop() {
			if c.used = 0; c.tick(0) == 0 {
				b.Fatal("no fuel")
			}
		}
	})
}

// BenchmarkSecrets is the built-in scanner on clean text, reading all of it and told that nothing triggered.
func BenchmarkSecrets(b *testing.B) {
	text := strings.Repeat("an ordinary line of a log with 12 numbers\n", 1600)[:64<<10]
	for _, iso := range []Isolation{Reset, Pooled} {
		m := secrets(b, iso)
		for _, complete := range []bool{false, true} {
			b.Run(fmt.Sprintf("64KiB/%v/complete=%v", iso, complete), func(b *testing.B) {
				benchScan(b, m, Window{Text: text, Complete: complete})
			})
		}
	}
}
