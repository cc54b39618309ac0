package ops

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	mrand "math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
)

type unobserved struct{}

func (unobserved) Operated(string, string, sdk.Code, time.Duration)  {}
func (unobserved) Asked(string, string, string, bool, time.Duration) {}
func (unobserved) Refused(string, sdk.Code)                          {}
func (unobserved) Kept(string, string, string)                       {}

// streamRig is a service on a real store, for its streams.
type streamRig struct {
	t      testing.TB
	store  *store.Store
	svc    *Service
	offset atomic.Int64 // how far the clock is ahead
}

var someone = store.Who{Principal: "system", Method: "system", Surface: "system"}

func newStreamRig(t testing.TB, streams int) *streamRig {
	t.Helper()
	r := &streamRig{t: t}
	var err error
	r.store, err = store.Open(store.Settings{Dir: t.TempDir(), Now: r.now, NewID: func() string {
		return "sto_test"
	}, Secret: []byte("secret"), Log: t.Logf, OnFatal: func(err error) { t.Errorf("fatal: %v", err) }, Stall: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	r.svc = New(Settings{Store: r.store, Log: r.store, Now: r.now, Random: func(p []byte) {
		_, _ = rand.Read(p)
	}, Limits: config.Limits{Name: 256, StreamsPerKey: streams}, Observer: unobserved{}})
	t.Cleanup(func() {
		r.svc.Close()
		if err := r.store.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *streamRig) now() time.Time { return time.Now().Add(time.Duration(r.offset.Load())) }

func (r *streamRig) commit(c store.Command) {
	r.t.Helper()
	if err := r.store.Commit(context.Background(), c); err != nil {
		r.t.Fatalf("%T: %v", c, err)
	}
}

// note writes one record; fields are name, value, name, value…
func (r *streamRig) note(typ string, fields ...string) {
	r.t.Helper()
	n := &store.Note{Type: typ, By: someone}
	for pair := range slices.Chunk(fields, 2) {
		n.Fields = append(n.Fields, [2]string{pair[0], pair[1]})
	}
	r.commit(n)
}

func (r *streamRig) kill(scope, target string) {
	r.t.Helper()
	r.commit(&store.KillSwitch{Kill: store.Kill{Scope: scope, Target: target}, By: someone})
}

func (r *streamRig) key(id string, scopes []string, agents ...string) *store.Key {
	r.t.Helper()
	r.commit(&store.CreateKey{Key: &store.Key{ID: id, Name: id, Scopes: scopes, Agents: agents, MAC: []byte(id),
		CreatedAt: r.now()}, By: someone})
	return r.store.Key(id)
}

func (r *streamRig) request(k *store.Key, body string) *Request {
	var doc exact.Doc
	if err := doc.Parse(body, exact.DefaultLimits); err != nil {
		r.t.Fatal(err)
	}
	return &Request{Ctx: context.Background(), Key: k, Start: r.now(), Body: doc.Root(), Raw: body}
}

func (r *streamRig) tryOpen(op string, req *Request) (Stream, error) {
	for i := range Table {
		if Table[i].Name == op {
			return r.svc.Open(&Table[i], req)
		}
	}
	return nil, fmt.Errorf("no operation %s", op)
}

func (r *streamRig) open(op string, k *store.Key, body string) Stream {
	r.t.Helper()
	st, err := r.tryOpen(op, r.request(k, body))
	if err != nil {
		r.t.Fatalf("%s %s: %v", op, body, err)
	}
	return st
}

// lines reads at least n lines, or to the end; closed says that the end was reached.
func (r *streamRig) lines(st Stream, n int) (out []string, closed bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for len(out) < n {
		chunk, err := st.Next(ctx)
		if len(chunk) > 0 {
			if chunk[len(chunk)-1] != '\n' {
				r.t.Fatalf("a chunk ends within a line: %q", chunk)
			}
			out = append(out, strings.Split(strings.TrimSuffix(string(chunk), "\n"), "\n")...)
		}
		if errors.Is(err, io.EOF) {
			return out, true
		}
		if err != nil {
			r.t.Fatalf("after %d of %d lines: %v", len(out), n, err)
		}
	}
	return out, false
}

// number is a number member of a line.
func number(line, name string) uint64 {
	_, rest, _ := strings.Cut(line, `"`+name+`":`)
	var n uint64
	_, _ = fmt.Sscan(strings.FieldsFunc(rest+" ", func(c rune) bool { return c < '0' || c > '9' })[0], &n)
	return n
}

const forever = 1 << 30 // more lines than there are: reads to the end

// TestMissesNothing lets readers come, stop, be given up on and resume at random while records are written. What each
// of them got, put together, is the log from its start: in order, nothing twice within a stream, nothing missing.
func TestMissesNothing(t *testing.T) {
	r := newStreamRig(t, 100)
	records, readers := testkit.Rounds(4000, 800), 12
	auditor := r.key("auditor", []string{"audit"})
	var end atomic.Uint64 // the log's last record, once it is known
	var writers, wg sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := range records / 4 {
				n := &store.Note{Type: "decision", By: someone,
					Fields: [][2]string{{"agent_id", fmt.Sprint("a", i%3)}, {"pad", strings.Repeat("p", 200*w)}}}
				if err := r.store.Commit(context.Background(), n); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range readers {
		wg.Go(func() { r.reader(auditor, i, &end) })
	}
	writers.Wait()
	r.note("last") // wakes whoever has it all but this one
	end.Store(r.store.Seq())
	wg.Wait()
}

// reader reads the log from its first record to its end, on as many streams as chance wants.
func (r *streamRig) reader(k *store.Key, seed int, end *atomic.Uint64) {
	rng := mrand.New(mrand.NewPCG(uint64(seed), 7))
	agent, body := "", ""
	if seed%3 == 0 {
		agent = fmt.Sprint("a", seed%9/3)
		body = fmt.Sprintf(`"agent_id":%q,`, agent)
	}
	got := uint64(0) // the last record that this reader has
	seen := map[uint64]bool{}
	for last := uint64(0); last == 0 || got < last; last = r.lastOf(agent, end) {
		st, err := r.tryOpen("audit_subscribe", r.request(k, fmt.Sprintf(`{%s"from_seq":%d}`, body, got+1)))
		if err != nil {
			r.t.Error(err)
			return
		}
		before := got
		for stop := rng.IntN(8) + 1; stop > 0; stop-- {
			ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond) // nothing may come any more
			chunk, err := st.Next(ctx)
			cancel()
			if err != nil {
				break
			}
			if stop == 1 && rng.IntN(2) == 0 { // this chunk is lost on its way: the closing line must not count it
				if n := number(string(st.Closing()), "last_seq"); n != before && n != got {
					r.t.Errorf("closing says %d, the reader has %d", n, got)
				}
				break
			}
			for line := range strings.Lines(string(chunk)) {
				n := number(line, "seq")
				if n <= got {
					r.t.Errorf("%d comes after %d", n, got)
				}
				got, seen[n] = n, true
			}
		}
		st.Close()
	}
	err := r.store.Records(1, func(seq uint64, rec []byte) error {
		if agent != "" && !strings.Contains(string(rec), fmt.Sprintf(`"agent_id":%q`, agent)) {
			if seen[seq] {
				r.t.Errorf("record %d is not about %s", seq, agent)
			}
			return nil
		}
		if !seen[seq] {
			return fmt.Errorf("reader %d never got record %d", seed, seq)
		}
		return nil
	})
	if err != nil {
		r.t.Error(err)
	}
}

// lastOf is the last record there will be for that agent, 0 while nobody knows.
func (r *streamRig) lastOf(agent string, end *atomic.Uint64) (last uint64) {
	if end.Load() == 0 {
		return 0
	}
	if agent == "" {
		return end.Load()
	}
	err := r.store.Records(1, func(seq uint64, rec []byte) error {
		if strings.Contains(string(rec), fmt.Sprintf(`"agent_id":%q`, agent)) {
			last = seq
		}
		return nil
	})
	if err != nil {
		r.t.Error(err)
	}
	return last
}

// TestStuckReader never reads while much is written; when it does, everything is there.
func TestStuckReader(t *testing.T) {
	r := newStreamRig(t, 3)
	k := r.key("auditor", []string{"audit"})
	stuck, awake := r.open("audit_subscribe", k, `{}`), r.open("audit_subscribe", k, `{}`)
	defer stuck.Close()
	defer awake.Close()
	from, n := r.store.Seq()+1, 3*streamLines
	for range n {
		r.note("decision", "agent_id", "a", "pad", strings.Repeat("p", 500))
	}
	r.lines(awake, n) // the pump has been everywhere
	u := stuck.(*subscriber)
	u.mu.Lock()
	if len(u.lines) > streamLines || len(u.buf) > streamBytes+4096 || !u.full {
		t.Errorf("a reader that does not read holds %d lines, %d bytes, full %v", len(u.lines), len(u.buf), u.full)
	}
	u.mu.Unlock()
	got, _ := r.lines(stuck, n)
	for i, line := range got {
		if seq := number(line, "seq"); seq != from+uint64(i) {
			t.Fatalf("line %d is record %d, want %d", i, seq, from+uint64(i))
		}
	}
}

// TestEnds shows what ends which stream, with what closing line, and that a key that has ended gets nothing more.
func TestEnds(t *testing.T) {
	agent, audit, both := []string{"authorize"}, []string{"audit"}, []string{"authorize", "audit"}
	for _, c := range []struct {
		name   string
		scopes []string
		op     string
		body   string
		do     func(r *streamRig, stopping chan struct{})
		reason string // "" = it goes on
		lines  int    // before the closing line
	}{
		{"revoked", audit, "audit_subscribe", `{}`, func(r *streamRig, _ chan struct{}) { r.commit(&store.RevokeKey{ID: "key", By: someone}) }, "key_revoked", 0},
		{"another key revoked", audit, "audit_subscribe", `{}`, func(r *streamRig, _ chan struct{}) { r.commit(&store.RevokeKey{ID: "other", By: someone}) }, "", 1},
		{"rolled with grace", audit, "callback_subscribe", `{}`, func(r *streamRig, _ chan struct{}) {
			r.commit(&store.RollKey{ID: "key", New: &store.Key{ID: "new", MAC: []byte("x")}, Grace: time.Hour, By: someone})
			r.offset.Add(int64(2 * time.Hour))
		}, "key_revoked", 0},
		{"draining", audit, "audit_subscribe", `{}`, func(_ *streamRig, stopping chan struct{}) { close(stopping) }, "draining", 0},
		{"closed", audit, "audit_subscribe", `{}`, func(r *streamRig, _ chan struct{}) { r.svc.Close() }, "draining", 0},
		{"kill of the key", audit, "audit_subscribe", `{}`, func(r *streamRig, _ chan struct{}) { r.kill(store.KillKey, "key") }, "killed", 1},
		{"kill of another key", audit, "audit_subscribe", `{}`, func(r *streamRig, _ chan struct{}) { r.note("kill", "scope", "key", "target", "other") }, "", 1},
		{"kill of everything, for an auditor", both, "callback_subscribe", `{}`, func(r *streamRig, _ chan struct{}) { r.note("kill", "scope", "global", "target", "") }, "", 1},
		{"kill of everything", agent, "callback_subscribe", `{}`, func(r *streamRig, _ chan struct{}) { r.kill(store.KillGlobal, "") }, "killed", 1},
		{"kill of its agent", agent, "callback_subscribe", `{"agent_id":"bot/1"}`, func(r *streamRig, _ chan struct{}) {
			r.note("decision", "agent_id", "bot/1")
			r.kill(store.KillAgent, "bot/1")
			r.note("decision", "agent_id", "bot/1")
		}, "killed", 2},
		{"kill of a pattern with its agent", agent, "callback_subscribe", `{"agent_id":"bot/1"}`, func(r *streamRig, _ chan struct{}) {
			r.kill(store.KillAgent, "bot/*")
		}, "killed", 1},
		{"kill of one of its agents", agent, "callback_subscribe", `{}`, func(r *streamRig, _ chan struct{}) {
			r.kill(store.KillAgent, "bot/1")
		}, "", 1},
		{"unkill", agent, "callback_subscribe", `{}`, func(r *streamRig, _ chan struct{}) { r.note("unkill", "scope", "global", "target", "") }, "", 1},
		{"a kill of the past", agent, "callback_subscribe", `{"from_seq":1}`, func(*streamRig, chan struct{}) {}, "", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newStreamRig(t, 2)
			r.key("other", agent)
			k := r.key("key", c.scopes)
			if strings.Contains(c.body, "from_seq") {
				r.note("kill", "scope", "global", "target", "")
			}
			req := r.request(k, c.body)
			stopping := make(chan struct{})
			req.Stopping = stopping
			st, err := r.tryOpen(c.op, req)
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			c.do(r, stopping)
			if c.reason == "" {
				if got, closed := r.lines(st, c.lines); closed || len(got) != c.lines {
					t.Fatalf("ended %v: %v", closed, got)
				}
				if st.(*subscriber).ended() {
					t.Fatal("it has ended")
				}
				return
			}
			got, closed := r.lines(st, forever)
			if !closed || len(got) != c.lines+1 {
				t.Fatalf("closed %v, %d lines, want %d and the closing one: %v", closed, len(got), c.lines, got)
			}
			last := got[len(got)-1]
			want := fmt.Sprintf(`{"type":"closing","reason":%q,"last_seq":%d}`, c.reason, st.(*subscriber).sent)
			if c.lines > 0 && number(got[c.lines-1], "seq") != number(last, "last_seq") || last != want {
				t.Fatalf("%s, want %s, after %v", last, want, got)
			}
			if chunk, err := st.Next(context.Background()); len(chunk) != 0 || !errors.Is(err, io.EOF) {
				t.Fatalf("behind the end: %q, %v", chunk, err)
			}
		})
	}
}

// TestRevokedGetsNothing revokes a key whose stream holds lines that nobody has taken yet.
func TestRevokedGetsNothing(t *testing.T) {
	r := newStreamRig(t, 2)
	k, other := r.key("key", []string{"audit"}), r.key("other", []string{"audit"})
	st, witness := r.open("audit_subscribe", k, `{}`), r.open("audit_subscribe", other, `{}`)
	defer st.Close()
	defer witness.Close()
	r.note("secret")
	r.lines(witness, 1) // the pump was there
	last := r.store.Seq() - 1
	r.commit(&store.RevokeKey{ID: "key", By: someone})
	if got, closed := r.lines(st, forever); !closed || len(got) != 1 || number(got[0], "last_seq") != last {
		t.Fatalf("closed %v: %v, want last_seq %d", closed, got, last)
	}
}

// TestExpires lets a key's time run out under its open stream.
func TestExpires(t *testing.T) {
	r := newStreamRig(t, 2)
	r.commit(&store.CreateKey{Key: &store.Key{ID: "key", Name: "key", Scopes: []string{"audit"},
		ExpiresAt: r.now().Add(time.Hour)}, By: someone})
	st := r.open("audit_subscribe", r.store.Key("key"), `{}`)
	defer st.Close()
	r.offset.Add(int64(2 * time.Hour))
	if got, closed := r.lines(st, forever); !closed || len(got) != 1 ||
		!strings.Contains(got[0], `"reason":"key_expired"`) {
		t.Fatalf("closed %v: %v", closed, got)
	}
}

// TestHeartbeat moves the clock under a quiet stream: the heartbeat says up to where nothing was missed.
func TestHeartbeat(t *testing.T) {
	r := newStreamRig(t, 2)
	st := r.open("audit_subscribe", r.key("key", []string{"audit"}), `{"heartbeat_seconds":300,"types":["kill"]}`)
	defer st.Close()
	for range 3 {
		r.note("decision", "agent_id", "a")
		size := r.store.Seq()
		r.offset.Add(int64(301 * time.Second))
		got, _ := r.lines(st, 1)
		if len(got) != 1 || !strings.HasPrefix(got[0], fmt.Sprintf(`{"type":"heartbeat","seq":%d,"timestamp":"`, size)) {
			t.Fatalf("%v, want a heartbeat at %d", got, size)
		}
	}
}

// TestStreamsPerKey reaches the limit, and gives a place back by closing.
func TestStreamsPerKey(t *testing.T) {
	r := newStreamRig(t, 2)
	k, other := r.key("key", []string{"audit"}), r.key("other", []string{"audit"})
	a, b := r.open("audit_subscribe", k, `{}`), r.open("callback_subscribe", k, `{}`)
	_, err := r.tryOpen("audit_subscribe", r.request(k, `{}`))
	if codeOf(err) != sdk.CodeTooManyRequests || !strings.Contains(err.Error(), "limits.streams_per_key") {
		t.Fatalf("a third stream: %v", err)
	}
	r.open("audit_subscribe", other, `{}`).Close()
	a.Close()
	a.Close()
	c := r.open("audit_subscribe", k, `{}`)
	if _, err := r.tryOpen("audit_subscribe", r.request(k, `{}`)); err == nil {
		t.Fatal("closing one stream twice gave two places back")
	}
	c.Close()
	b.Close()
}

// TestFollowsOnlyForStreams: without streams there is no goroutine, and after Close none is opened.
func TestFollowsOnlyForStreams(t *testing.T) {
	r := newStreamRig(t, 9)
	k := r.key("key", []string{"audit"})
	before := goleak.IgnoreCurrent()
	for range 3 {
		st := r.open("audit_subscribe", k, `{}`)
		r.note("decision")
		r.lines(st, 1)
		st.Close()
		goleak.VerifyNone(t, before) // it waits for the pump
	}
	st := r.open("audit_subscribe", k, `{}`)
	r.svc.Close()
	goleak.VerifyNone(t, before)
	st.Close()
	if _, err := r.tryOpen("audit_subscribe", r.request(k, `{}`)); codeOf(err) != sdk.CodeDraining {
		t.Fatalf("a stream of a closed service: %v", err)
	}
}

// TestNextEndsWithItsContext gives the caller's error back and stays open.
func TestNextEndsWithItsContext(t *testing.T) {
	r := newStreamRig(t, 9)
	st := r.open("audit_subscribe", r.key("key", []string{"audit"}), `{}`)
	defer st.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := st.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	r.note("decision")
	if got, closed := r.lines(st, 1); len(got) != 1 || closed {
		t.Fatalf("%v %v", got, closed)
	}
}

// brokenLog fails when it is read.
type brokenLog struct{ Log }

func (brokenLog) Records(uint64, func(uint64, []byte) error) error { return errors.New("disk") }

// badLog has a record that is none.
type badLog struct {
	Log
	bad string
}

func (l badLog) Records(from uint64, fn func(uint64, []byte) error) error {
	return l.Log.Records(from, func(seq uint64, rec []byte) error {
		if strings.Contains(string(rec), "BAD") {
			rec = []byte(l.bad)
		}
		return fn(seq, rec)
	})
}

// TestUnreadableLog: what cannot be read is not left out. The stream ends and says why.
func TestUnreadableLog(t *testing.T) {
	for _, c := range []struct {
		name string
		wrap func(Log) Log
		from string
		want int
	}{
		{"old records", func(l Log) Log { return brokenLog{l} }, `{"from_seq":1}`, 0},
		{"new records", func(l Log) Log { return brokenLog{l} }, `{}`, 0},
		{"a bad record, live", func(l Log) Log { return badLog{l, "{"} }, `{}`, 1},
		{"a bad record, from disk", func(l Log) Log { return badLog{l, "{"} }, `{"from_seq":1}`, 2},
		{"one that begins well", func(l Log) Log { return badLog{l, `{"seq":3,"type":"decision","agent_id":"a","x":nope}`} }, `{}`, 1},
		{"no type", func(l Log) Log { return badLog{l, `{"seq":3}`} }, `{}`, 1},
		{"no object", func(l Log) Log { return badLog{l, `[]`} }, `{}`, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newStreamRig(t, 9)
			r.svc.hub.log = c.wrap(r.store)
			st := r.open("audit_subscribe", r.key("key", []string{"audit"}), c.from)
			defer st.Close()
			r.note("decision")
			r.note("decision", "text", "BAD")
			r.note("decision")
			got, closed := r.lines(st, forever)
			if !closed || len(got) != c.want+1 || !strings.Contains(got[c.want], `"reason":"log_unreadable"`) {
				t.Fatalf("closed %v: %v", closed, got)
			}
		})
	}
}

// TestBacklog begins with the last wanted events that were there already.
func TestBacklog(t *testing.T) {
	r := newStreamRig(t, 9)
	k := r.key("key", []string{"audit"})
	for i := range 700 {
		r.note("decision", "agent_id", fmt.Sprint("a", i%100))
	}
	size := r.store.Seq()
	for _, c := range []struct {
		agent string
		n     int
		first uint64
		lines int
	}{
		{"a99", 3, size - 200, 3}, {"a99", 7, size - 600, 7}, {"a99", 100, size - 600, 7}, {"a0", 1, size - 99, 1}, {"nobody", 10, size + 1, 0}, {"a99", 0, size + 1, 0},
	} {
		want := func(e *event) bool { return e.AgentID == c.agent }
		st, err := r.svc.subscribe(r.request(k, `{}`), subOptions{backlog: c.n, want: want, format: auditFormat(k)})
		if err != nil {
			t.Fatal(err)
		}
		if got := st.(*subscriber).opt; got.first != nil || st.First() != nil {
			t.Error("an opening answer that nobody asked for")
		}
		if got, _ := r.lines(st, c.lines); len(got) != c.lines || c.lines > 0 && number(got[0], "seq") != c.first {
			t.Errorf("%s, %d: %d lines, want %d from %d: %v", c.agent, c.n, len(got), c.lines, c.first, got)
		}
		st.Close()
	}
}
