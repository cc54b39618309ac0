package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/sdk/plugin"
)

const console = "https://yett.example.com:8422"

func hookConfig(url, more string) string {
	return fmt.Sprintf(`{"console_url": %q, "targets": [{"name": "hook", "kind": "webhook", "unsigned": true, "url": %q%s}]}`, console, url, more)
}

// told shows what a webhook was told: the type and the calls of each event.
func told(t *testing.T, w *web) string {
	t.Helper()
	var out []string
	for _, r := range w.requests() {
		var e struct {
			Type string
			Data json.RawMessage
		}
		var call hookCall
		var many hookDigest
		if err := json.Unmarshal([]byte(r.body), &e); err != nil {
			t.Fatalf("%s: %v", r.body, err)
		}
		if err := errors.Join(json.Unmarshal(e.Data, &call), json.Unmarshal(e.Data, &many)); err != nil {
			t.Fatalf("%s: %v", r.body, err)
		}
		kind := strings.TrimPrefix(e.Type, "yett.approval.")
		if kind != "digest" {
			out = append(out, kind+":"+call.ID+":"+call.Status)
			continue
		}
		out = append(out, fmt.Sprintf("digest:%d+%d:%d+%d", len(many.Opened), many.MoreOpened, len(many.Settled),
			many.MoreSettled))
	}
	return strings.Join(out, " ")
}

func TestCalls(t *testing.T) {
	for _, tc := range []struct {
		name, more string
		batches    []*plugin.Batch
		want       string
	}{
		{"a call and its end", "", []*plugin.Batch{batch(1, created(1)), batch(2, resolved(1, "approved"))}, "requested:dec_1:pending settled:dec_1:approved"},
		{"denied", "", []*plugin.Batch{batch(1, created(1)), batch(2, resolved(1, "denied"))}, "requested:dec_1:pending settled:dec_1:denied"},
		{"expired", "", []*plugin.Batch{batch(1, created(1)), batch(2, expired(1))}, "requested:dec_1:pending settled:dec_1:expired"},
		{"approved and then expired", "", []*plugin.Batch{batch(1, created(1)), batch(2, resolved(1, "approved")), batch(3, expired(1))}, "requested:dec_1:pending settled:dec_1:approved settled:dec_1:expired"},
		{"an unknown end is no approval", "", []*plugin.Batch{batch(1, created(1)), batch(2, resolved(1, "whatever"))}, "requested:dec_1:pending settled:dec_1:denied"},
		{"asks again", "", []*plugin.Batch{batch(1, created(1)), batch(2, resolved(1, "approved")), batch(3, created(1, rec{"reason": "more approvals are needed"}))}, "requested:dec_1:pending settled:dec_1:approved requested:dec_1:pending"},
		{"began and ended at once", "", []*plugin.Batch{batch(1, created(1), resolved(1, "approved"), created(2))}, "requested:dec_2:pending"},
		{"over long ago", "", []*plugin.Batch{batch(1, created(1, rec{"expires_at": "2025-01-01T00:00:00Z"})), batch(2, resolved(1, "denied"))}, ""},
		{"twice", "", []*plugin.Batch{batch(1, created(1)), batch(1, created(1)), batch(1, created(1), resolved(1, "denied")), batch(2, resolved(1, "denied"))}, "requested:dec_1:pending settled:dec_1:denied"},
		{"only some tools", `, "tools": ["db/**"]`, []*plugin.Batch{batch(1, created(1), created(2, rec{"tool_id": "db/x/drop"})), batch(3, resolved(1, "denied"), resolved(2, "denied"))}, "requested:dec_2:pending settled:dec_2:denied"},
		{"only some agents", `, "agents": ["team/*"]`, []*plugin.Batch{batch(1, created(1), created(2, rec{"agent_id": "team/a"}))}, "requested:dec_2:pending"},
		{"only some priorities", `, "priorities": ["high", "none"]`, []*plugin.Batch{batch(1, created(1, rec{"priority": "low"}), created(2, rec{"priority": "high"}), created(3))}, "requested:dec_2:pending requested:dec_3:pending"},
		{"other records", "", []*plugin.Batch{batch(1, rec{"type": "decision"}, rec{"type": "kill"}, rec{})}, ""},
		{"many", "", []*plugin.Batch{many(1, 30, created), many(31, 30, func(n int, _ ...rec) rec { return resolved(n, "denied") })},
			"requested:dec_1:pending requested:dec_2:pending requested:dec_3:pending requested:dec_4:pending " +
				"requested:dec_5:pending digest:10+15:0+0 " +
				"settled:dec_1:denied settled:dec_2:denied settled:dec_3:denied settled:dec_4:denied digest:0+0:10+16"},
		{"all in a digest", `, "digest_over": 0`, []*plugin.Batch{many(1, 3, created)}, "digest:3+0:0+0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWeb(t, nil)
			n := clockwork(t, hookConfig(w.URL, tc.more), nil)
			consume(t, n, tc.batches...)
			if got := told(t, w); got != tc.want {
				t.Errorf("told\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}

func many(first uint64, count int, make func(n int, more ...rec) rec) *plugin.Batch {
	var all []rec
	for i := range count {
		all = append(all, make(i+1))
	}
	return batch(first, all...)
}

// A flood costs a bounded number of messages, and every call of it is counted in one.
func TestFlood(t *testing.T) {
	w := newWeb(t, nil)
	n := clockwork(t, hookConfig(w.URL, `, "per_minute": 10`), nil)
	began := n.clock.Now()
	for i := range 20 {
		all := []rec{}
		for k := range 100 {
			all = append(all, created(i*100+k, rec{"expires_at": "2027-01-01T00:00:00Z"}))
		}
		consume(t, n, batch(uint64(i*100+1), all...))
	}
	calls := 0
	for _, word := range strings.Fields(told(t, w)) {
		var a, b int
		if _, err := fmt.Sscanf(word, "digest:%d+%d:0+0", &a, &b); err == nil {
			calls += a + b
		} else {
			calls++
		}
	}
	minutes := n.clock.Now().Sub(began).Minutes()
	if got := len(w.requests()); calls != 2000 || float64(got) > 10+10*minutes+1 {
		t.Errorf("%d calls told in %d messages within %.1f minutes", calls, got, minutes)
	}
}

// What was sent survives a restart, so that the end of a call still reaches those who were told of its beginning.
func TestRestart(t *testing.T) {
	w, dir := newWeb(t, nil), t.TempDir()
	config := strings.Replace(hookConfig(w.URL, ""), "{", fmt.Sprintf(`{"state": %q, `, dir), 1)
	n := clockwork(t, config, nil)
	consume(t, n, batch(1, created(1)))
	info, err := os.Stat(filepath.Join(dir, stateName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the state: %v, %v", info, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, stateName))
	if err != nil || strings.Contains(string(text), "dfr_") {
		t.Fatalf("the state holds a token: %s, %v", text, err)
	}
	next := clockwork(t, config, nil)
	if err := next.consume(context.Background(), batch(2, resolved(1, "denied"))); err == nil {
		t.Fatal("two processes use one state")
	}
	if err := n.close(); err != nil {
		t.Fatal(err)
	}
	consume(t, next, batch(1, created(1)), batch(2, resolved(1, "denied")))
	if got := told(t, w); got != "requested:dec_1:pending settled:dec_1:denied" {
		t.Errorf("told %s", got)
	}
	if err := next.close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, stateName), []byte(`{"x": {}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := clockwork(t, config, nil)
	if err := broken.consume(context.Background(), batch(3, created(2))); err == nil ||
		!strings.Contains(err.Error(), "move the file away") {
		t.Errorf("a broken state: %v", err)
	}
}

// A target that is down fails the batch at the first call that it was not told of, and holds the others up no longer
// than that; with drop it is given up and the batch is taken.
func TestFailure(t *testing.T) {
	for _, tc := range []struct {
		policy string
		status int
		fails  bool
		seq    uint64 // of the RecordError; 0: no record is to blame
	}{{"retry", 503, true, 0}, {"retry", 404, true, 0}, {"retry", 422, true, 2}, {"drop", 503, false, 0},
		{"drop", 404, false, 0}, {"drop", 422, false, 0}} {
		good := newWeb(t, nil)
		down := newWeb(t, func(n int, _ request) (int, string) {
			if n == 1 {
				return 200, ""
			}
			return tc.status, ""
		})
		n := clockwork(t, fmt.Sprintf(`{"console_url": %q, "targets": [{"name": "good", "kind": "webhook", "unsigned": true, "url": %q}, {"name": "down", "kind": "webhook", "unsigned": true, "url": %q, "on_failure": %q}]}`,
			console, good.URL, down.URL, tc.policy), nil)
		b := batch(1, created(1), created(2), created(3))
		for range 2 {
			err := n.consume(context.Background(), b)
			var bad *plugin.RecordError
			errors.As(err, &bad)
			if (err != nil) != tc.fails || (bad != nil) != (tc.seq != 0) || bad != nil && bad.Seq != tc.seq {
				t.Fatalf("%s %d: %#v, want record %d (0: none)", tc.policy, tc.status, err, tc.seq)
			}
		}
		if got := told(t, good); got != "requested:dec_1:pending requested:dec_2:pending requested:dec_3:pending" {
			t.Errorf("%s %d: the other target was told %s", tc.policy, tc.status, got)
		}
	}
}

// What comes before a record that cannot be read is told before the record is complained of.
func TestBadRecord(t *testing.T) {
	for _, bad := range []rec{{"type": 5}, {"type": "defer_created", "decision_id": "../x",
		"expires_at": "2026-01-01T00:00:00Z"}, {"type": "defer_expired", "decision_id": "dec_1"},
		created(1, rec{"approvals": "x"})} {
		w := newWeb(t, nil)
		n := clockwork(t, hookConfig(w.URL, ""), nil)
		err := n.consume(context.Background(), batch(1, created(1), bad, created(3)))
		var e *plugin.RecordError
		if !errors.As(err, &e) || e.Seq != 2 || told(t, w) != "requested:dec_1:pending" {
			t.Errorf("%v: %v, told %s", bad, err, told(t, w))
		}
	}
}

// A settled call that was not told does not get lost when a later one fails first.
func TestEarliestFailure(t *testing.T) {
	w := newWeb(t, func(_ int, r request) (int, string) {
		if strings.Contains(r.body, "dec_2") {
			return 422, ""
		}
		return 200, ""
	})
	n := clockwork(t, hookConfig(w.URL, ""), nil)
	consume(t, n, batch(1, created(1)))
	err := n.consume(context.Background(), batch(2, resolved(1, "denied"), created(2)))
	var e *plugin.RecordError
	if !errors.As(err, &e) || e.Seq != 2 {
		t.Fatalf("%v, want record 2: its end was not told, although record 3 failed", err)
	}
}

// Calls that retention took away are announced to nobody. That is said.
func TestGap(t *testing.T) {
	n := clockwork(t, hookConfig(newWeb(t, nil).URL, ""), nil)
	var out bytes.Buffer
	n.state.log = slog.New(slog.NewTextHandler(&out, nil))
	b := batch(10, created(1))
	b.First, b.Gap = 3, &plugin.Gap{First: 3, Last: 9, Reason: "retention"}
	consume(t, n, b)
	if !strings.Contains(out.String(), "first_seq=3 last_seq=9") {
		t.Errorf("the log says nothing of it: %q", out.String())
	}
}

// A record is blamed only when nothing in front of it waits for a target that is down.
func TestEarliest(t *testing.T) {
	down, refused := errors.New("down"), errors.New("refused")
	for _, tc := range []struct {
		name    string
		results []*failed
		bad     *plugin.RecordError
		err     error
		seq     uint64
		later   uint64 // of the first record that comes again; 0: all do
	}{
		{"nothing", []*failed{nil, nil}, nil, nil, 0, 0},
		{"down", []*failed{nil, {seq: 6, err: down}}, nil, down, 0, 4},
		{"down at once", []*failed{nil, {seq: 3, err: down}}, nil, down, 0, 0},
		{"refused", []*failed{{seq: 6, err: refused, content: true}}, nil, refused, 6, 0},
		{"down before refused", []*failed{{seq: 6, err: refused, content: true}, {seq: 3, err: down}}, nil, down, 0, 0},
		{"refused before down", []*failed{{seq: 3, err: refused, content: true}, {seq: 6, err: down}}, nil, refused, 3, 0},
		{"both at one", []*failed{{seq: 6, err: refused, content: true}, {seq: 6, err: down}}, nil, down, 0, 4},
		{"unreadable", nil, &plugin.RecordError{Seq: 9, Err: refused}, refused, 9, 0},
		{"unreadable behind down", []*failed{{seq: 8, err: down}}, &plugin.RecordError{Seq: 9, Err: refused}, down, 0, 7},
	} {
		err := behind([]*event{{Seq: 3}, {Seq: 6}, {Seq: 8}}, earliest(tc.results, tc.bad))
		var bad *plugin.RecordError
		var later *plugin.Later
		errors.As(err, &bad)
		errors.As(err, &later)
		if !errors.Is(err, tc.err) || (bad != nil) != (tc.seq != 0) || bad != nil && bad.Seq != tc.seq ||
			(later != nil) != (tc.later != 0) || later != nil && later.Seq != tc.later {
			t.Errorf("%s: %#v, want %v at record %d (0: none)", tc.name, err, tc.err, tc.seq)
		}
	}
}

func TestStateLimits(t *testing.T) {
	s := &state{log: clocklessLog(), calls: map[string]*callState{}}
	now := start
	marks := map[*event]mark{}
	for i := range maxCalls + 10 {
		marks[&event{ID: fmt.Sprint("dec_", i), Expires: now.Add(time.Duration(i) * time.Second)}] = mark{Seq: 1}
	}
	if err := s.tell("t", now, marks); err != nil || len(s.calls) != maxCalls {
		t.Fatalf("%d calls, %v, want %d", len(s.calls), err, maxCalls)
	}
	if _, known := s.told("dec_3", "t"); known {
		t.Error("one of the newest was forgotten instead of the oldest")
	}
	if err := s.tell("t", now.Add(keepCalls+time.Hour*24*365), nil); err != nil || len(s.calls) != 0 {
		t.Errorf("%d calls that ended long ago are kept", len(s.calls))
	}
}

func FuzzState(f *testing.F) {
	f.Add([]byte(`{"dec_1":{"expires":"2026-01-01T00:00:00Z","targets":{"a":{"seq":4,"ref":{"ts":"1"}}}}}`))
	f.Add([]byte(`{"dec_1":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		calls, err := parseState(text)
		if err != nil {
			return
		}
		s := &state{log: clocklessLog(), calls: calls}
		for id := range calls {
			_, _ = s.told(id, "a")
		}
		s.trim(start)
	})
}

// No record, whatever is in it, stops the plugin or makes a message with more lines than ours.
func FuzzEvent(f *testing.F) {
	text, err := json.Marshal(created(1))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"type":"defer_created","decision_id":"d","expires_at":"2026-01-01T00:00:00Z","tool_id":"<!channel>\n*x* @here ` + "`" + `"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		all, _ := events(&plugin.Batch{StoreID: "s", First: 1, Last: 1, Records: []plugin.Record{{Seq: 1, JSON: text}}}, true)
		for _, e := range all {
			m := mrkdwn(e, "https://x/approvals/"+e.ID)
			lines := strings.Split(m, "\n")
			if len(lines) != len(e.fields())+2 {
				t.Errorf("%q: %d lines", m, len(lines))
			}
			for i, l := range lines[1 : len(lines)-1] {
				if strings.ContainsAny(l, "<>") || strings.Count(l, "`") != 2 || slices.Contains(strings.Split(l, ""), "@here") {
					t.Errorf("line %d is %q", i+1, l)
				}
			}
		}
	})
}
