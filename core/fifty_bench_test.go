package core

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/testkit/wasmgen"
	"github.com/yett-dev/yett/core/wasm/host"
	"github.com/yett-dev/yett/sdk"
)

// manyScanners is a chain of n modules, each with a trigger of its own.
func manyScanners(tb testing.TB, modules *host.Host, n int) *chain.ScanChain {
	tb.Helper()
	c := &chain.ScanChain{Budget: time.Minute, Now: time.Now}
	for i := range n {
		g := wasmgen.Finder()
		g.Meta = strings.Replace(wasmgen.GuestMeta, `"needs":{}`,
			fmt.Sprintf(`"needs":{},"triggers":[{"literal":"marker-%02d:","fold":true},{"literal":"tok%d_"}]`, i, i), 1)
		m, err := modules.Load(context.Background(), host.Spec{Name: fmt.Sprintf("s%d", i), Code: g.Encode()})
		if err != nil {
			tb.Fatal(err)
		}
		c.Steps = append(c.Steps, chain.ScanStep{Name: fmt.Sprintf("s%d", i), OnError: sdk.Deny, Scanner: m,
			Triggers: m.Triggers()})
	}
	if err := c.Prepare(); err != nil {
		tb.Fatal(err)
	}
	return c
}

// BenchmarkFiftyScanners is what fifty scanners with distinct triggers cost on 64 KiB that trip nothing, of what one
// costs: the two run by turns, and the ratio is that of the medians.
func BenchmarkFiftyScanners(b *testing.B) {
	modules, err := host.New(context.Background(), host.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := modules.Close(context.Background()); err != nil {
			b.Error(err)
		}
	}()
	in := &chain.Input{Text: strings.Repeat(scanText(false), 16)}
	took := map[int][]time.Duration{}
	chains := map[int]*chain.ScanChain{1: manyScanners(b, modules, 1), 50: manyScanners(b, modules, 50)}
	for b.Loop() {
		for n, c := range chains {
			start := time.Now()
			res := c.Run(context.Background(), in)
			took[n] = append(took[n], time.Since(start))
			if res.Outcome != chain.Pass || !res.Receipts[n-1].Prefiltered {
				b.Fatalf("%d scanners: %s %s", n, res.Outcome, res.Reason)
			}
		}
	}
	middle := func(n int) float64 {
		slices.Sort(took[n])
		return float64(took[n][len(took[n])/2].Nanoseconds())
	}
	b.ReportMetric(0, "ns/op") // of both together: says nothing
	b.ReportMetric(middle(1), "ns/one")
	b.ReportMetric(middle(50), "ns/fifty")
	b.ReportMetric(middle(50)/middle(1), "ratio")
}
