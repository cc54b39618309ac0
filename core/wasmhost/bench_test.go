package wasmhost

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

// TestScanAllocations keeps the hot path from growing: what is left is the call, its deadline (two contexts and a timer)
// and what the runtime's watcher takes for each of the two exports that a scan calls.
func TestScanAllocations(t *testing.T) {
	m := load(t, noop(), nil)
	in := &chain.Input{Text: strings.Repeat("x", 4<<10)}
	ctx := context.Background()
	const ceiling = 14
	if n := testing.AllocsPerRun(200, func() { _, _ = m.Scan(ctx, in) }); n > ceiling {
		t.Errorf("%v allocations a scan: at most %d", n, ceiling)
	}
}

func BenchmarkScan4KiB(b *testing.B) {
	for name, g := range map[string]guest{"noop": noop(), "reads": finder()} {
		for _, iso := range []Isolation{Pooled, Fresh} {
			b.Run(fmt.Sprintf("%s/%v", name, iso), func(b *testing.B) {
				m := load(b, g, func(s *Spec) { s.Isolation = iso })
				in := &chain.Input{Text: strings.Repeat("x", 4<<10)}
				ctx := context.Background()
				b.SetBytes(4 << 10)
				b.ReportAllocs()
				for b.Loop() {
					if _, err := m.Scan(ctx, in); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkSecrets is the built-in scanner on clean text, reading all of it and told that nothing triggered.
func BenchmarkSecrets(b *testing.B) {
	wasm, err := os.ReadFile("../../scanners/secrets/secrets.wasm")
	if err != nil {
		b.Fatal(err)
	}
	h := newHost(b, Options{})
	m, err := h.Load(context.Background(), Spec{Name: "secrets", Code: wasm, Start: time.Minute, Timeout: time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	text := strings.Repeat("an ordinary line of a log with 12 numbers\n", 1600)[:64<<10]
	for _, complete := range []bool{false, true} {
		b.Run(fmt.Sprintf("64KiB/complete=%v", complete), func(b *testing.B) {
			b.SetBytes(64 << 10)
			for b.Loop() {
				if _, err := m.ScanWindow(context.Background(), Window{Text: text, Complete: complete, Flags: abi.FlagFirst | abi.FlagFinal}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
