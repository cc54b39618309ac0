package ops

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
)

// crowdOf opens streams: idle ones wait for an agent that does nothing, stuck ones want everything and never read, busy
// ones read everything. close ends them all.
func (r *streamRig) crowdOf(k *store.Key, idle, stuck, busy int) (end func()) {
	var wg sync.WaitGroup
	var open []Stream
	ctx, cancel := context.WithCancel(context.Background())
	read := func(body string) {
		st := r.open("audit_subscribe", k, body)
		open = append(open, st)
		wg.Go(func() {
			for {
				if _, err := st.Next(ctx); err != nil {
					return
				}
			}
		})
	}
	for i := range idle {
		read(fmt.Sprintf(`{"agent_id":"idle%d","heartbeat_seconds":30}`, i))
	}
	for range busy {
		read(`{}`)
	}
	for range stuck {
		open = append(open, r.open("audit_subscribe", k, `{}`))
	}
	return func() {
		cancel()
		wg.Wait()
		for _, st := range open {
			st.Close()
		}
	}
}

// commits writes n decisions from 64 callers and gives how long each waited.
func (r *streamRig) commits(k *store.Key, n int) []time.Duration {
	const callers = 64
	took := make([]time.Duration, n)
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := c; i < n; i += callers {
				start := time.Now()
				err := r.store.Commit(context.Background(),
					&store.Decide{DecideCall: store.DecideCall{ID: "dec",
						Call: store.Call{Key: k, By: store.Who{Principal: k.ID, Method: "api_key", Surface: "http"}, AgentID: "agent",
							SessionID: "session", ToolID: "tool/op", Operation: "op", CallID: "call"},
						Policy: store.PolicyOutcome{Version: "p",
							Verdict: sdk.Verdict{Effect: sdk.Permit, Code: "RULE_PERMIT", RuleID: "rule"}}}})
				if err != nil {
					r.t.Error(err)
				}
				took[i] = time.Since(start)
			}
		})
	}
	wg.Wait()
	slices.Sort(took)
	return took
}

// cpu is the processor time that the process has used.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkCommitBesideStreams compares durable decisions without streams and beside them, in turns on one store, so
// that what the machine does otherwise falls on both. x-p50, x-p99, x-time and x-cpu are how many times more it takes
// with them.
func BenchmarkCommitBesideStreams(b *testing.B) {
	for _, c := range []struct {
		name              string
		idle, stuck, busy int
	}{{"256idle,50stuck", 256, 50, 0}, {"256idle", 256, 0, 0}, {"50stuck", 0, 50, 0}, {"4busy", 0, 0, 4},
		{"none", 0, 0, 0}} {
		b.Run(c.name, func(b *testing.B) {
			r := newStreamRig(b, 1000)
			k := r.key("key", []string{"audit", "authorize"})
			const n = 10_000
			r.commits(k, n) // the first ones fill caches
			ratios := map[string][]float64{}
			for b.Loop() {
				t0, c0 := time.Now(), cpu(b)
				without := r.commits(k, n)
				t1, c1 := time.Now(), cpu(b)
				end := r.crowdOf(k, c.idle, c.stuck, c.busy)
				r.commits(k, 2*streamLines) // now those that are to be stuck are
				t2, c2 := time.Now(), cpu(b)
				with := r.commits(k, n)
				t3, c3 := time.Now(), cpu(b)
				end()
				ratios["x-cpu"] = append(ratios["x-cpu"], float64(c3-c2)/float64(c1-c0))
				ratios["cpu-us"] = append(ratios["cpu-us"], float64((c1-c0).Microseconds())/n)
				ratios["x-p50"] = append(ratios["x-p50"], float64(with[n/2])/float64(without[n/2]))
				ratios["x-p99"] = append(ratios["x-p99"], float64(with[n*99/100])/float64(without[n*99/100]))
				ratios["x-time"] = append(ratios["x-time"], float64(t3.Sub(t2))/float64(t1.Sub(t0)))
				ratios["p99-us"] = append(ratios["p99-us"], float64(without[n*99/100].Microseconds()))
			}
			for name, list := range ratios {
				slices.Sort(list)
				b.ReportMetric(list[len(list)/2], name)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkEvent is what one record costs the pump: once for those that no stream looks at, and once for those that any
// number of streams gets.
func BenchmarkEvent(b *testing.B) {
	rec := []byte(records(b)[1])
	var e event
	var dst []byte
	b.Run("peek", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := e.peek(2, rec); err != nil {
				b.Fatal(err)
			}
		}
	})
	format := auditFormat(&store.Key{})
	b.Run("format", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := e.read(2, rec); err != nil {
				b.Fatal(err)
			}
			dst = format(dst[:0], &e)
		}
	})
}
