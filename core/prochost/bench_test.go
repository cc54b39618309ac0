package prochost

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/plugin"
)

const benchArgs = `{"amount":1250.50,"currency":"EUR","to":"DE89370400440532013000","memo":"invoice 2026-11-4711, second half, as agreed","tags":["supplier","recurring"]}`

// trivial is an authorizer written as a vendor would write it.
func trivial() plugin.Authorizer {
	return plugin.Authorizer{
		Info: plugin.Info{Name: "trivial", Version: "1.0.0", CacheKeyFields: []string{"tool_id"}},
		Check: func(context.Context, *plugin.Call) (sdk.Verdict, error) {
			return sdk.Verdict{Effect: sdk.Permit, Code: "RULE_PERMIT", Reason: "bench"}, nil
		},
	}
}

func benchCall(tb testing.TB) *chain.Call {
	var doc exact.Doc
	if err := doc.Parse(benchArgs, exact.DefaultLimits); err != nil {
		tb.Fatal(err)
	}
	return &chain.Call{KeyID: "key_01", KeyName: "agent", AgentID: "billing-agent", SessionID: "s-1",
		ToolID: "payments/transfer", Operation: "transfer", CallID: "c-1", Args: doc.Root(), Now: time.Now()}
}

func benchPlugin(b *testing.B, mode string) *Plugin {
	return loaded(b, guestSpec(mode), Options{}, func(s *Spec) {
		s.Timeout, s.MaxInFlight = time.Second, 256
		if n := os.Getenv("PROCHOST_BENCH_PROCS"); n != "" {
			s.Env["GOMAXPROCS"] = n
		}
	})
}

func benchOne(b *testing.B, p *Plugin) {
	c := benchCall(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Check(context.Background(), c); err != nil {
			b.Fatal(err)
		}
	}
}

func benchMany(b *testing.B, p *Plugin, callers int) {
	c := benchCall(b)
	b.ReportAllocs()
	var all sync.WaitGroup
	b.ResetTimer()
	for i := range callers {
		n := b.N / callers
		if i < b.N%callers {
			n++
		}
		all.Go(func() {
			for range n {
				if _, err := p.Check(context.Background(), c); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "checks/s")
}

func BenchmarkCheck(b *testing.B) {
	for _, mode := range []string{"trivial", "stock", "stock-unary"} {
		b.Run(mode, func(b *testing.B) { benchOne(b, benchPlugin(b, mode)) })
	}
}

func BenchmarkCheckParallel64(b *testing.B) {
	for _, mode := range []string{"trivial", "stock", "stock-unary"} {
		b.Run(mode, func(b *testing.B) { benchMany(b, benchPlugin(b, mode), 64) })
	}
}

// BenchmarkCheckSideBySide asks several plugins at once, as a chain does, for one caller.
func BenchmarkCheckSideBySide(b *testing.B) {
	for _, n := range []int{1, 4} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var plugins []*Plugin
			for range n {
				plugins = append(plugins, benchPlugin(b, "trivial"))
			}
			c := benchCall(b)
			b.ReportAllocs()
			for b.Loop() {
				var all sync.WaitGroup
				for _, p := range plugins {
					all.Go(func() {
						if _, err := p.Check(context.Background(), c); err != nil {
							b.Error(err)
						}
					})
				}
				all.Wait()
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	r := &request{id: 7, deadline: time.Now(), generation: "g1", call: benchCall(b)}
	buf := make([]byte, 0, r.size())
	b.ReportAllocs()
	for b.Loop() {
		buf = r.append(buf[:0])
	}
}
