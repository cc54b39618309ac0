package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	collogspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"

	"github.com/yett-dev/yett/plugins/internal/remote"
	"github.com/yett-dev/yett/sdk/plugin"
)

// scripted is a receiver that answers as told. It keeps the numbers it took in, and when it was asked.
type scripted struct {
	answer func(seqs []uint64) (rejected int64, err *failure)
	taken  []uint64
	asked  []time.Time
}

func (s *scripted) send(_ context.Context, req *collogspb.ExportLogsServiceRequest) (int64, string, *failure) {
	s.asked = append(s.asked, time.Now())
	var seqs []uint64
	for _, r := range req.ResourceLogs[0].ScopeLogs[0].LogRecords {
		seqs = append(seqs, uint64(r.Attributes[0].Value.GetIntValue()))
	}
	rejected, err := s.answer(seqs)
	if err == nil && rejected == 0 {
		s.taken = append(s.taken, seqs...)
	}
	return rejected, "said so", err
}

func (s *scripted) close() error { return nil }

func numbered(n int) []item {
	out := make([]item, n)
	for i := range out {
		out[i] = item{uint64(i + 1), &logspb.LogRecord{Attributes: []*commonpb.KeyValue{attr("yett.seq",
			count(uint64(i+1)))}}}
	}
	return out
}

func push(t *testing.T, to *scripted, o *options, n int) error {
	t.Helper()
	d := delivery{o: o, to: to, store: "s", until: time.Now().Add(o.retryFor), warn: func(string) {}}
	return d.push(t.Context(), numbered(n))
}

func fast() *options {
	return &options{timeout: time.Second, retryFor: 10 * time.Second, maxRequest: 4_000_000}
}

func firstCopies(seqs []uint64) []uint64 {
	var out []uint64
	for _, s := range seqs {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// Whatever a receiver refuses, the record at fault is named, everything before it is in, and the order is the log's.
func TestTheRecordAtFaultIsFound(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7, 256} {
		for _, bad := range []int{1, n / 2, n} {
			for _, how := range []string{"rejects", "rejects all", "refuses"} {
				if bad == 0 {
					continue
				}
				to := &scripted{}
				to.answer = func(seqs []uint64) (int64, *failure) {
					switch {
					case !slices.Contains(seqs, uint64(bad)):
						return 0, nil
					case how == "refuses":
						return 0, &failure{verdict: refuse, err: errors.New("bad data")}
					case how == "rejects all" && seqs[0] == uint64(bad):
						return int64(len(seqs)), nil
					}
					return 1, nil
				}
				err := push(t, to, fast(), n)
				var record *plugin.RecordError
				if !errors.As(err, &record) || record.Seq != uint64(bad) {
					t.Fatalf("%s %d of %d: %v", how, bad, n, err)
				}
				want := numbered(bad - 1)
				if got := firstCopies(to.taken); len(got) != len(want) || !slices.IsSorted(got) {
					t.Fatalf("%s %d of %d: %v are in", how, bad, n, got)
				}
				if len(to.asked) > 20 {
					t.Errorf("%s %d of %d: %d requests", how, bad, n, len(to.asked))
				}
			}
		}
	}
}

// A receiver that goes away between two parts of a batch blames no record, and what it took in is not sent again.
func TestOutageBetweenParts(t *testing.T) {
	for at := uint64(1); at <= 8; at++ {
		synctest.Test(t, func(t *testing.T) {
			to := &scripted{answer: func(seqs []uint64) (int64, *failure) {
				switch {
				case len(seqs) > 2:
					return 0, &failure{verdict: refuse, err: errors.New("too much")}
				case slices.Contains(seqs, at):
					return 0, &failure{verdict: later, err: errors.New("down")}
				}
				return 0, nil
			}}
			err := push(t, to, fast(), 8)
			var record *plugin.RecordError
			var part *plugin.Later
			var f *failure
			from := (at-1)/2*2 + 1 // the first of the part that was not taken in
			if err == nil || errors.As(err, &record) || !errors.As(err, &f) || errors.As(err, &part) != (from > 1) ||
				part != nil && part.Seq != from {
				t.Errorf("%d: %#v, want one from %d on", at, err, from)
			}
			if len(to.taken) != int(from-1) {
				t.Errorf("%d: took in %v", at, to.taken)
			}
		})
	}
}

func TestRequestsStayBelowTheirLimit(t *testing.T) {
	o := fast()
	o.maxRequest = 200
	to := &scripted{}
	to.answer = func(seqs []uint64) (int64, *failure) {
		if len(seqs) > 16 {
			t.Errorf("a request of %d records", len(seqs))
		}
		return 0, nil
	}
	if err := push(t, to, o, 100); err != nil || len(to.taken) != 100 || !slices.IsSorted(to.taken) {
		t.Errorf("%v: %v", err, to.taken)
	}
}

func TestRetries(t *testing.T) {
	busy := func(after time.Duration) *failure {
		return &failure{verdict: later, after: after, err: errors.New("busy")}
	}
	for _, c := range []struct {
		name      string
		fail      []*failure // of the first requests; the last one repeats if forever
		forever   bool
		ok        bool
		low, high time.Duration // between first and last request
		requests  int           // 0: any
	}{
		{"at once", nil, false, true, 0, 0, 1},
		{"twice busy", []*failure{busy(0), busy(0)}, false, true, 300 * time.Millisecond, 600 * time.Millisecond, 3},
		{"asks for 3 s", []*failure{busy(3 * time.Second)}, false, true, 3 * time.Second, 3 * time.Second, 2},
		{"asks for more than there is", []*failure{busy(time.Hour)}, true, false, 0, 0, 1},
		{"always busy", []*failure{busy(0)}, true, false, 4 * time.Second, 10 * time.Second, 0},
		{"broken", []*failure{{verdict: broken, err: errors.New("401")}}, true, false, 0, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				to := &scripted{}
				to.answer = func([]uint64) (int64, *failure) {
					i := len(to.asked) - 1
					if c.forever {
						i = min(i, len(c.fail)-1)
					}
					if i < len(c.fail) {
						return 0, c.fail[i]
					}
					return 0, nil
				}
				err := push(t, to, fast(), 5)
				var record *plugin.RecordError
				if (err == nil) != c.ok || errors.As(err, &record) {
					t.Fatalf("got %v", err)
				}
				took := to.asked[len(to.asked)-1].Sub(to.asked[0])
				if took < c.low || took > c.high || c.requests != 0 && len(to.asked) != c.requests {
					t.Errorf("%d requests within %v", len(to.asked), took)
				}
			})
		})
	}
}

// A receiver that asks for an hour is asked again after five minutes, not before, and not by the next batch either.
func TestReceiverIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &scripted{answer: func([]uint64) (int64, *failure) {
			return 0, &failure{verdict: later, after: time.Hour, err: errors.New("busy")}
		}}
		e := &exporter{o: fast(), to: to}
		e.probe = remote.StartProbe(func(context.Context) error { return errors.New("still away") })
		defer e.probe.Stop()
		b := &plugin.Batch{StoreID: "s", First: 1, Last: 1, Records: []plugin.Record{{Seq: 1, JSON: []byte("{}")}}}
		if err := e.consume(t.Context(), b); err == nil || e.health() == nil {
			t.Fatal("a busy receiver is no success")
		}
		if err := e.consume(t.Context(), b); err == nil || !strings.Contains(err.Error(), "left alone for another 5m0s") ||
			len(to.asked) != 1 {
			t.Fatalf("asked %d times: %v", len(to.asked), err)
		}
		if err := e.ask(t.Context()); err == nil || len(to.asked) != 1 {
			t.Fatalf("the probe asked too: %v", err)
		}
		time.Sleep(5 * time.Minute) // of the bubble's clock
		if _ = e.consume(t.Context(), b); len(to.asked) != 2 {
			t.Errorf("asked %d times", len(to.asked))
		}
	})
}

// slow takes everything in, after a while.
type slow struct{ takes time.Duration }

func (s slow) send(ctx context.Context, _ *collogspb.ExportLogsServiceRequest) (int64, string, *failure) {
	if !remote.Sleep(ctx, s.takes) {
		return 0, "", &failure{verdict: later, err: ctx.Err()}
	}
	return 0, "", nil
}

func (slow) close() error { return nil }

// A receiver that is slow with each of many parts does not keep the host waiting for longer than it waits.
func TestManySlowParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := fast()
		o.timeout, o.retryFor, o.maxRequest = 20*time.Second, 8*time.Second, 1
		e := &exporter{o: o, to: slow{9 * time.Second}}
		e.probe = remote.StartProbe(func(context.Context) error { return nil })
		defer e.probe.Stop()
		b := &plugin.Batch{StoreID: "s", First: 1, Last: 8}
		for seq := uint64(1); seq <= 8; seq++ {
			b.Records = append(b.Records, plugin.Record{Seq: seq, JSON: []byte("{}")})
		}
		began := time.Now()
		err := e.consume(t.Context(), b)
		var bad *plugin.RecordError
		if took := time.Since(began); err == nil || errors.As(err, &bad) || took > maxWait {
			t.Errorf("%v after %v, want an error that blames no record within %v", err, took, maxWait)
		}
	})
}
