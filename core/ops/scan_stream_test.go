package ops_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
	"github.com/yett-dev/yett/sdk/wire"
)

// bang finds every '!'; wait, if it is set, stops a piece that holds a '?' until it is closed.
type bang struct{ entered, wait chan struct{} }

func (bang) About() chain.About { return chain.About{Version: "1"} }
func (b bang) Scan(_ context.Context, in *chain.Input) (found []sdk.Finding, _ error) {
	if b.wait != nil && strings.Contains(in.Text, "?") {
		b.entered <- struct{}{}
		<-b.wait
	}
	for i := range len(in.Text) {
		if in.Text[i] == '!' || in.Text[i] == '$' {
			found = append(found, sdk.Finding{Kind: map[byte]string{'!': "BANG", '$': "DROP"}[in.Text[i]], Scanner: "bang",
				Start: i, End: i + 1, Confidence: 1})
		}
	}
	return found, nil
}
func (b bang) ScanPiece(ctx context.Context, w *chain.Window) ([]sdk.Finding, []byte, error) {
	found, err := b.Scan(ctx, &w.Input)
	return found, nil, err
}

// failing is a store that can be told not to write.
type failing struct {
	ops.Store
	fail atomic.Bool
}

func (f *failing) Commit(ctx context.Context, cmd store.Command) error {
	_, scan := cmd.(*store.Scanned)
	note, is := cmd.(*store.Note)
	if (scan || is && note.Type == "tokens_revealed") && f.fail.Load() {
		return sdk.Errf(sdk.CodeAuditUnavailable, "nothing can be written")
	}
	return f.Store.Commit(ctx, cmd)
}

// scanBench is a bench whose chain redacts '!' and denies '$', and shows the rest at once: mode says how.
func scanBench(t testing.TB, mode string, wait bang) (*bench, *failing) {
	return scanBenchOf(t, usualRoom, mode, wait)
}

func scanBenchOf(t testing.TB, limits scanRoom, mode string, wait bang) (*bench, *failing) {
	var f *failing
	b := newBenchOf(t, limits, func(s ops.Store) ops.Store { f = &failing{Store: s}; return f })
	c := b.gen.Scan
	c.Steps = []chain.ScanStep{{Name: "bang", OnError: sdk.Deny, Scanner: wait,
		Stream: abi.Stream{Mode: mode, Lookbehind: map[string]int{abi.StreamWindow: 2}[mode]}},
		{Name: "pilot", Shadow: true, Scanner: bang{}, Stream: abi.Stream{Mode: abi.StreamNone}}}
	c.Actions = []chain.ActionRule{{Kinds: []string{"BANG"}, Action: sdk.Redact},
		{Kinds: []string{"DROP"}, Action: sdk.Drop}}
	return b, f
}

// say sends a piece and gives what came of it in short: outcome, released text and progress, or an error's code.
func (b *bench) say(key *ops.NewKey, id string, offset int, output string, more string) string {
	b.t.Helper()
	answer, err := b.run(key.Value, "scan_output",
		fmt.Sprintf(`{"tool_id":"t/x","agent_id":"a","session_id":"s","stream_id":%q,"offset":%d,"output":%q%s}`, id, offset,
			output, more))
	if err != nil {
		return code(err)
	}
	var r wire.ScanResponse
	if err := json.Unmarshal([]byte(answer), &r); err != nil {
		b.t.Fatal(err)
	}
	text := "-"
	if r.SanitizedOutput != nil {
		text = *r.SanitizedOutput
	}
	return fmt.Sprintf("%s %s next %d settled %d released %d ended %v", r.Outcome, text, r.Stream.NextOffset,
		r.Stream.Settled, r.Stream.Released, r.Stream.Ended)
}

const last = `,"final":true`

// Every rule of a stream, as a conversation: what is said, and what comes back.
func TestScanStreamRules(t *testing.T) {
	type line struct {
		id     string
		offset int
		text   string
		more   string
		want   string
	}
	for name, script := range map[string][]line{
		"pieces": {{"s", 0, "a!b", "", "REDACTED a[BANG]b next 3 settled 3 released 8 ended false"}, {"s", 3, "é", "", "PASS é next 5 settled 5 released 10 ended false"},
			{"s", 5, "", last, "PASS  next 5 settled 5 released 10 ended true"}},
		"one piece":       {{"s", 0, "a", last, "PASS a next 1 settled 1 released 1 ended true"}},
		"gap":             {{"s", 0, "abc", "", "PASS abc next 3 settled 3 released 3 ended false"}, {"s", 4, "d", "", "stream_offset"}, {"s", 3, "d", "", "PASS d next 4 settled 4 released 4 ended false"}},
		"again":           {{"s", 0, "abc", "", "PASS abc next 3 settled 3 released 3 ended false"}, {"s", 0, "abc", "", "PASS abc next 3 settled 3 released 3 ended false"}, {"s", 3, "d", "", "PASS d next 4 settled 4 released 4 ended false"}, {"s", 0, "abc", "", "stream_offset"}},
		"other text":      {{"s", 0, "abc", "", "PASS abc next 3 settled 3 released 3 ended false"}, {"s", 0, "abd", "", "stream_offset"}, {"s", 0, "ab", "", "stream_offset"}, {"s", 0, "abc", last, "stream_offset"}},
		"behind the end":  {{"s", 0, "a", last, "PASS a next 1 settled 1 released 1 ended true"}, {"s", 1, "b", "", "stream_ended"}, {"s", 0, "b", "", "stream_ended"}, {"s", 0, "a", last, "PASS a next 1 settled 1 released 1 ended true"}},
		"denied":          {{"s", 0, "ab!", "", "REDACTED ab[BANG] next 3 settled 3 released 8 ended false"}, {"s", 3, "c$", "", "DENIED - next 5 settled 3 released 8 ended true"}, {"s", 3, "c$", "", "DENIED - next 5 settled 3 released 8 ended true"}, {"s", 5, "d", "", "stream_ended"}},
		"unknown":         {{"s", 1, "b", "", "stream_unknown"}},
		"others":          {{"s", 0, "a", "", "PASS a next 1 settled 1 released 1 ended false"}, {"z", 1, "b", "", "stream_unknown"}, {"z", 0, "bc", "", "PASS bc next 2 settled 2 released 2 ended false"}, {"s", 1, "b", "", "PASS b next 2 settled 2 released 2 ended false"}},
		"other agent":     {{"s", 0, "a", "", "PASS a next 1 settled 1 released 1 ended false"}, {"s", 1, "b", `,"content_type":"text/plain"`, "invalid_field"}},
		"negative offset": {{"s", -1, "a", "", "invalid_field"}},
		"offset alone":    {{"", 1, "a", "", "invalid_field"}},
		"streams of a key": {{"1", 0, "a", "", "PASS a next 1 settled 1 released 1 ended false"}, {"2", 0, "a", "", "PASS a next 1 settled 1 released 1 ended false"}, {"3", 0, "a", "", "PASS a next 1 settled 1 released 1 ended false"},
			{"4", 0, "a", "", "PASS a next 1 settled 1 released 1 ended false"}, {"5", 0, "a", "", "too_many_requests"}, {"1", 1, "", last, "PASS  next 1 settled 1 released 1 ended true"}, {"5", 0, "a", "", "PASS a next 1 settled 1 released 1 ended false"}},
	} {
		t.Run(name, func(t *testing.T) {
			b, _ := scanBench(t, abi.StreamStateful, bang{})
			key := b.newKey("k", "agent")
			for _, l := range script {
				if got := b.say(key, l.id, l.offset, l.text, l.more); got != l.want {
					t.Errorf("%d %q%s: %s, want %s", l.offset, l.text, l.more, got, l.want)
				}
			}
		})
	}
}

// What a scanner that takes whole texts only holds back is bounded, one in shadow holds back nothing, and all streams
// together have a bound too.
func TestScanStreamMemory(t *testing.T) {
	b, _ := scanBench(t, abi.StreamNone, bang{})
	key := b.newKey("k", "agent")
	if got := b.say(key, "s", 0, strings.Repeat("a", 64), ""); got != "PASS  next 64 settled 0 released 0 ended false" {
		t.Error(got)
	}
	answer, err := b.run(key.Value, "scan_output",
		`{"tool_id":"t/x","agent_id":"a","session_id":"s","stream_id":"s","offset":64,"output":"b"}`)
	if err != nil || member(answer, "reason_code") != "OUTPUT_SIZE_EXCEEDED" ||
		!strings.Contains(answer, "scanner bang takes whole texts only") || strings.Contains(answer, "sanitized_output") {
		t.Errorf("%v %s", err, answer)
	}
	b, _ = scanBench(t, abi.StreamStateful, bang{})
	key = b.newKey("k", "agent")
	for i := range 5 { // the shadow step is done without
		if got, want := b.say(key, "s", 40*i, strings.Repeat("a", 40), ""),
			fmt.Sprintf("PASS %s next %d settled %d released %d ended false", strings.Repeat("a", 40), 40*i+40, 40*i+40,
				40*i+40); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := b.say(key, "big", 0, strings.Repeat("a", 600<<10), last); got != "too_many_requests" {
		t.Errorf("a piece that all streams together have no room for: %.60s", got)
	}
	big := strings.Repeat("a", 400<<10)
	for _, id := range []string{"big", "big2", "big3"} { // answers of what has ended make way
		if got := b.say(key, id, 0, big, last); !strings.HasPrefix(got, "PASS aaa") {
			t.Errorf("%.60s", got)
		}
	}
	for i := range 2 {
		if got := b.say(key, "open"+fmt.Sprint(i), 0, big, ""); (got == "too_many_requests") != (i == 1) {
			t.Errorf("%d: %.60s", i, got)
		}
	}
}

// One key takes its share and no more: what it has ended makes way for it, and another key has room.
func TestScanStreamShare(t *testing.T) {
	b, _ := scanBench(t, abi.StreamStateful, bang{})
	key, other := b.newKey("k", "agent"), b.newKey("o", "agent")
	big := strings.Repeat("a", 200<<10)
	for i, id := range []string{"one", "two", "three", "four"} {
		if got := b.say(key, id, 0, big, ""); (got == "too_many_requests") != (i == 3) {
			t.Errorf("%s: %.60s", id, got)
		}
	}
	if got := b.say(other, "open", 0, big, ""); !strings.HasPrefix(got, "PASS aaa") {
		t.Errorf("another key: %.60s", got)
	}
	if got := b.say(key, "three", 200<<10, "", last); !strings.HasPrefix(got, "PASS") {
		t.Errorf("the end of one: %.60s", got)
	}
	if got := b.say(key, "four", 0, big, ""); !strings.HasPrefix(got, "PASS aaa") {
		t.Errorf("in the place of one that has ended: %.60s", got)
	}
}

func TestScanStreamEnds(t *testing.T) {
	const first = "PASS a next 1 settled 1 released 1 ended false"
	for name, c := range map[string]struct {
		end  func(b *bench, key *ops.NewKey) error
		want string
	}{
		"idle":                       {func(b *bench, _ *ops.NewKey) error { b.offset.Add(int64(61 * time.Second)); return nil }, "stream_unknown"},
		"not yet idle":               {func(b *bench, _ *ops.NewKey) error { b.offset.Add(int64(59 * time.Second)); return nil }, "PASS b next 2 settled 2 released 2 ended false"},
		"revoked":                    {func(b *bench, key *ops.NewKey) error { return b.svc.RevokeKey(context.Background(), key.Key.ID, admin) }, "key_revoked"},
		"agent killed":               {kill("agent", "a", false), "DENIED - next 2 settled 1 released 1 ended true"},
		"session killed, and undone": {kill("session", "s", true), "DENIED - next 2 settled 1 released 1 ended true"},
		"tool killed":                {kill("tool", "t", false), "DENIED - next 2 settled 1 released 1 ended true"},
		"another agent killed":       {kill("agent", "z", false), "PASS b next 2 settled 2 released 2 ended false"},
	} {
		t.Run(name, func(t *testing.T) {
			b, _ := scanBench(t, abi.StreamStateful, bang{})
			key := b.newKey("k", "agent")
			if got := b.say(key, "s", 0, "a", ""); got != first {
				t.Fatal(got)
			}
			if err := c.end(b, key); err != nil {
				t.Fatal(err)
			}
			if got := b.say(key, "s", 1, "b", ""); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			if strings.HasPrefix(c.want, "DENIED") {
				if got := b.say(key, "s", 2, "c", ""); got != "stream_ended" {
					t.Errorf("behind the end: %s", got)
				}
			}
		})
	}
}

func kill(scope, target string, undo bool) func(b *bench, _ *ops.NewKey) error {
	return func(b *bench, _ *ops.NewKey) error {
		_, err := b.svc.Kill(context.Background(), admin, &wire.KillRequest{Scope: scope, Target: target})
		if undo && err == nil {
			_, err = b.svc.Kill(context.Background(), admin, &wire.KillRequest{Scope: scope, Target: target, Undo: true})
		}
		return err
	}
}

// A piece whose record could not be written has not happened, and one that was stopped neither.
func TestScanStreamFails(t *testing.T) {
	b, f := scanBench(t, abi.StreamStateful, bang{})
	key := b.newKey("k", "agent")
	f.fail.Store(true)
	if got := b.say(key, "s", 0, "a", ""); got != "audit_unavailable" {
		t.Error(got)
	}
	f.fail.Store(false)
	if got := b.say(key, "s", 1, "a", ""); got != "stream_unknown" {
		t.Error(got)
	}
	b.say(key, "s", 0, "a", "")
	f.fail.Store(true)
	if got := b.say(key, "s", 1, "b", ""); got != "audit_unavailable" {
		t.Error(got)
	}
	f.fail.Store(false)
	if got := b.say(key, "s", 1, "b", ""); got != "PASS b next 2 settled 2 released 2 ended false" {
		t.Error(got)
	}
}

// From the moment at which a kill is in effect no answer is given again, and what a revoked key's streams held is free.
func TestScanStreamLetsGo(t *testing.T) {
	b, _ := scanBench(t, abi.StreamStateful, bang{})
	key, other := b.newKey("k", "agent"), b.newKey("o", "agent")
	b.say(key, "s", 0, "a", "")
	held := b.store.Hold(store.Kill{Scope: store.KillAgent, Target: "a"})
	if got := b.say(key, "s", 0, "a", ""); got != "stream_offset" {
		t.Errorf("an answer again under a kill: %s", got)
	}
	b.store.Release(held)
	big := strings.Repeat("a", 400<<10)
	if got := b.say(key, "big", 0, big, ""); !strings.HasPrefix(got, "PASS") {
		t.Fatalf("%.60s", got)
	}
	if got := b.say(other, "big", 0, big, ""); got != "too_many_requests" {
		t.Fatalf("%.60s", got)
	}
	if err := b.svc.RevokeKey(context.Background(), key.Key.ID, admin); err != nil {
		t.Fatal(err)
	}
	if got := b.say(other, "big", 0, big, ""); !strings.HasPrefix(got, "PASS") {
		t.Errorf("after the other key was revoked: %.60s", got)
	}
}

// What a request's end did to a scanner is nobody's verdict: the piece has not happened.
func TestScanStreamCallerGone(t *testing.T) {
	b, _ := scanBench(t, abi.StreamStateful, bang{})
	key := b.newKey("k", "agent")
	b.say(key, "s", 0, "a", "")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if got := code(b.scanWith(ctx, key, &wire.ScanRequest{ToolID: "t/x", AgentID: "a", SessionID: "s", StreamID: "s",
		Offset: 1, Output: "b"})); got != "timeout" {
		t.Errorf("got %q", got)
	}
	if got := b.say(key, "s", 1, "b", ""); got != "PASS b next 2 settled 2 released 2 ended false" {
		t.Error(got)
	}
}

func (b *bench) scanWith(ctx context.Context, key *ops.NewKey, in *wire.ScanRequest) error {
	_, err := b.svc.Scan(&ops.Request{Ctx: ctx, Key: b.store.Key(key.Key.ID), Start: b.now()}, in)
	return err
}

// Of many pieces at once for one place in a stream one wins, and the others are told so; a kill that comes while a
// piece is scanned denies it.
func TestScanStreamRaces(t *testing.T) {
	wait := bang{entered: make(chan struct{}), wait: make(chan struct{})}
	b, _ := scanBench(t, abi.StreamStateful, wait)
	key := b.newKey("k", "agent")
	for round := range testkit.Rounds(full(10, 100), 2) {
		var wg sync.WaitGroup
		got := make([]string, 8)
		for i := range got {
			wg.Go(func() { got[i] = b.say(key, "s", round, string(rune('a'+i)), "") })
		}
		wg.Wait()
		won := 0
		for _, g := range got {
			switch {
			case strings.HasPrefix(g, "PASS"):
				won++
			case g != "stream_busy" && g != "stream_offset":
				t.Error(g)
			}
		}
		if won != 1 {
			t.Fatalf("%d pieces won: %q", won, got)
		}
	}
	b.say(key, "k", 0, "a", "")
	done := make(chan string)
	go func() { done <- b.say(key, "k", 1, "?", "") }()
	<-wait.entered
	if got := b.say(key, "k", 1, "?", ""); got != "stream_busy" {
		t.Error(got)
	}
	if err := kill("agent", "a", false)(b, nil); err != nil {
		t.Fatal(err)
	}
	close(wait.wait)
	if got := <-done; got != "DENIED - next 2 settled 1 released 1 ended true" {
		t.Errorf("overtaken by a kill: %s", got)
	}
}

// The record of each piece says where it belongs, and holds nothing of the text.
func TestScanStreamRecord(t *testing.T) {
	b, _ := scanBench(t, abi.StreamStateful, bang{})
	key := b.newKey("k", "agent")
	b.say(key, "s", 0, "plain!", "")
	b.say(key, "s", 6, "x!", last)
	var records []string
	err := b.store.Records(1, func(_ uint64, record []byte) error {
		if strings.Contains(string(record), `"type":"scan"`) {
			records = append(records, string(record))
		}
		return nil
	})
	if err != nil || len(records) != 2 {
		t.Fatalf("%v: %d records", err, len(records))
	}
	for i, want := range []string{`"bytes":6,"stream_id":"s","offset":0,"final":false,"settled":6,"released":11`,
		`"bytes":2,"stream_id":"s","offset":6,"final":true,"settled":8,"released":18`} {
		if !strings.Contains(records[i], want) || strings.Contains(records[i], "plain") {
			t.Errorf("%s lacks %s", records[i], want)
		}
	}
	hash := func(record string) string { return member(record, "hash") }
	if !strings.Contains(records[1], `"start":7,"end":8`) || hash(records[0]) == "" ||
		hash(records[0]) != hash(records[1]) {
		t.Errorf("the finding of the second piece: %s", records[1])
	}
}

var bangs = regexp.MustCompile("!+")

// FuzzScanStream drives the streams with random pieces, and checks them against the text that was taken.
func FuzzScanStream(f *testing.F) {
	for n := range uint64(6) {
		f.Add(n, 20)
	}
	f.Fuzz(func(t *testing.T, seed uint64, steps int) {
		rng := rand.New(rand.NewPCG(seed, 1))
		mode := []string{abi.StreamStateful, abi.StreamWindow, abi.StreamNone}[rng.IntN(3)]
		b, store := scanBench(t, mode, bang{})
		key := b.newKey("k", "agent")
		taken, released, ended := "", "", false
		for range min(max(steps, 0), 40) {
			offset := len(taken)
			if rng.IntN(4) == 0 {
				offset = rng.IntN(len(taken) + 3)
			}
			text, more := []string{"", "a", "b!", "!", "é!", "{", "\"", "long text"}[rng.IntN(8)], ""
			if rng.IntN(12) == 0 {
				more = last
			}
			store.fail.Store(rng.IntN(8) == 0)
			failed := store.fail.Load()
			got := b.say(key, "s", offset, text, more)
			outcome, rest, _ := strings.Cut(got, " ")
			switch outcome {
			case "PASS", "REDACTED":
				out, _, _ := strings.Cut(rest, " next ")
				again := offset != len(taken) || ended || failed && text == "" && more == "" ||
					!strings.Contains(got, fmt.Sprintf("released %d ", len(released)+len(out)))
				if failed && !again {
					t.Fatalf("%s although nothing can be written", got)
				}
				if again {
					if !strings.HasSuffix(taken, text) || !strings.HasSuffix(released, out) {
						t.Fatalf("%q at %d of %q: %s", text, offset, taken, got)
					}
					continue
				}
				taken, released, ended = taken+text, released+out, more != ""
			case "stream_offset", "stream_ended", "stream_unknown", "audit_unavailable":
			case "DENIED":
				if len(taken)+len(text) <= 64 {
					t.Fatalf("%q at %d of %q: %s", text, offset, taken, got)
				}
				return
			default:
				t.Fatal(got)
			}
			want := bangs.ReplaceAllString(taken, "[BANG]") // touching findings are one
			if ended && released != want || !strings.HasPrefix(want, released) {
				t.Fatalf("taken %q, released %q", taken, released)
			}
		}
	})
}

// A kill that came and was undone while a piece was scanned ends the stream all the same.
func TestScanStreamKillUndoneMeanwhile(t *testing.T) {
	wait := bang{entered: make(chan struct{}), wait: make(chan struct{})}
	b, _ := scanBench(t, abi.StreamStateful, wait)
	key := b.newKey("k", "agent")
	b.say(key, "s", 0, "ab", "")
	done := make(chan string)
	go func() { done <- b.say(key, "s", 2, "?", "") }()
	<-wait.entered
	for _, undo := range []bool{false, true} {
		if err := kill("agent", "a", undo)(b, nil); err != nil {
			t.Error(err)
		}
	}
	close(wait.wait)
	if got := <-done; got != "DENIED - next 3 settled 2 released 2 ended true" {
		t.Errorf("the piece in flight: %s", got)
	}
	if got := b.say(key, "s", 3, "d", ""); got != "stream_ended" {
		t.Errorf("the next piece: %s", got)
	}
}

// A text belongs to the tool that authorize would have asked for: what is for payments/pay looks at the text of
// payments with the operation pay, whole and in a stream, and a kill of payments/pay stops it.
func TestScanOfAnOperation(t *testing.T) {
	b, _ := scanBench(t, abi.StreamStateful, bang{})
	b.gen.Scan.Steps[0].Match.Tools = []string{"payments/pay"}
	key := b.newKey("k", "agent")
	scan := func(tool, more string) string {
		t.Helper()
		answer, err := b.run(key.Value, "scan_output", fmt.Sprintf(`{"tool_id":%q,"output":"a!b"%s}`, tool, more))
		if err != nil {
			return err.Error()
		}
		var r wire.ScanResponse
		if err := json.Unmarshal([]byte(answer), &r); err != nil {
			t.Fatal(err)
		}
		for _, by := range r.ScannedBy {
			r.Outcome += " " + by.Outcome
		}
		return r.Outcome
	}
	for _, c := range []struct{ tool, more, want string }{
		{"payments/pay", ``, "REDACTED ok"},
		{"payments", `,"operation":"pay"`, "REDACTED ok"},
		{"payments/pay", `,"operation":"other"`, "REDACTED ok"},
		{"payments", `,"operation":"pay","stream_id":"s","final":true`, "REDACTED ok"},
		{"payments", `,"operation":"refund"`, "DENIED skipped"}, // nobody looks at it
		{"payments", ``, "DENIED skipped"},
		{"payments", `,"operation":"` + strings.Repeat("o", 256) + `"`,
			"tool_id and operation together are 265 bytes long, more than the limit of 256 (limits.name)"},
		{"payments", `,"operation":"` + b.newKey("other", "agent").Value + `"`, "API key"},
	} {
		if got := scan(c.tool, c.more); !strings.Contains(got, c.want) {
			t.Errorf("%s%s: %s, want %s", c.tool, c.more, got, c.want)
		}
	}
	b.store.Hold(store.Kill{Scope: store.KillTool, Target: "payments/pay"})
	if got := scan("payments", `,"operation":"pay"`); got != "DENIED" {
		t.Errorf("under a kill: %s", got)
	}
}
