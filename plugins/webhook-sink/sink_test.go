package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.uber.org/goleak"

	"github.com/yett-dev/yett/plugins/internal/signedhttp"
	"github.com/yett-dev/yett/sdk/plugin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func secretText(fill string) string {
	return "wh" + "sec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(fill, 32)))
}

// receiver is a service that verifies all that comes with the published library.
type receiver struct {
	t      *testing.T
	verify []string
	answer func(n int, body string) (status int, retryAfter string)

	mu     sync.Mutex
	ids    []string
	bodies []string
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		r.t.Error(err)
	}
	for _, s := range r.verify {
		v, err := standardwebhooks.NewWebhook(s)
		if err != nil {
			r.t.Error(err)
			return
		}
		if err := v.Verify(body, req.Header); err != nil {
			r.t.Errorf("the published verifier refuses the request: %v", err)
		}
	}
	if len(r.verify) == 0 && req.Header.Get("webhook-signature") != "" {
		r.t.Error("an unsigned request is signed")
	}
	r.mu.Lock()
	r.ids, r.bodies = append(r.ids, req.Header.Get("webhook-id")), append(r.bodies, string(body))
	n := len(r.ids)
	r.mu.Unlock()
	if r.answer != nil {
		status, after := r.answer(n, string(body))
		if after != "" {
			w.Header().Set("Retry-After", after)
		}
		w.WriteHeader(status)
	}
}

type rig struct {
	*sink
	*receiver
	waits []time.Duration
}

func newRig(t *testing.T, more string, answer func(n int, body string) (int, string)) *rig {
	t.Helper()
	r := &rig{sink: newSink(), receiver: &receiver{t: t, verify: []string{secretText("a"), secretText("b")},
		answer: answer}}
	srv := httptest.NewServer(r.receiver)
	t.Cleanup(srv.Close)
	now := time.Now()
	r.clock.Now = func() time.Time { return now }
	r.clock.Wait = func(_ context.Context, d time.Duration) error {
		r.waits, now = append(r.waits, d), now.Add(d)
		return nil
	}
	in := plugin.Settings{Config: json.RawMessage(fmt.Sprintf(`{"url": %q%s}`, srv.URL, more)),
		Secrets: map[string]string{signedhttp.SecretSigning: secretText("a"), signedhttp.SecretSigningOther: secretText("b")},
		Log:     slog.New(slog.DiscardHandler)}
	if err := r.configure(in); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return r
}

func batch(first, last uint64) *plugin.Batch {
	b := &plugin.Batch{StoreID: "sto_A", First: first, Last: last, Root: [32]byte{1}}
	for seq := first; seq <= last; seq++ {
		b.Records = append(b.Records, plugin.Record{Seq: seq,
			JSON: json.RawMessage(fmt.Sprintf(`{"seq":%d,"timestamp":"2026-01-01T00:00:0%d.000000000Z","amount":1000004.10,"note":"<&>"}`, seq, seq%10))})
	}
	return b
}

func TestBatch(t *testing.T) {
	r := newRig(t, "", nil)
	b := batch(3, 5)
	b.Gap = &plugin.Gap{First: 1, Last: 2, Reason: "retention"}
	b.First = 1
	if err := r.consume(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	want := `{"type":"yett.audit.batch","timestamp":"2026-01-01T00:00:05.000000000Z","data":{"store_id":"sto_A","first_seq":1,"last_seq":5,"tree_root":"01` + strings.Repeat("00", 31) +
		`","gap":{"first_seq":1,"last_seq":2,"reason":"retention"},"records":[` + string(b.Records[0].JSON) + "," +
		string(b.Records[1].JSON) + "," + string(b.Records[2].JSON) + `]}}`
	if len(r.bodies) != 1 || r.bodies[0] != want || r.ids[0] != "sto_A-1-5" {
		t.Errorf("ids %v, body\n%s\nwant\n%s", r.ids, r.bodies, want)
	}
	if err := r.consume(context.Background(), &plugin.Batch{StoreID: "sto_A", First: 6, Last: 9}); err != nil ||
		len(r.ids) != 1 {
		t.Errorf("a batch of nothing: %v, %v", err, r.ids)
	}
	if err := r.consume(context.Background(), &plugin.Batch{StoreID: "a.b", First: 6, Last: 9}); err == nil {
		t.Error("a store id with a full stop was taken")
	}
}

func TestPerRecord(t *testing.T) {
	r := newRig(t, `, "per": "record"`, func(n int, _ string) (int, string) {
		if n == 3 {
			return 422, ""
		}
		return 200, ""
	})
	b := batch(1, 4)
	b.Records = slices.Delete(b.Records, 1, 2)
	b.Gap = &plugin.Gap{First: 2, Last: 2}
	err := r.consume(context.Background(), b)
	var bad *plugin.RecordError
	if !errors.As(err, &bad) || bad.Seq != 3 {
		t.Fatalf("error %v, want one about record 3", err)
	}
	b.Records, b.Gap, b.First = b.Records[1:], nil, 3
	if err := r.consume(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(r.ids, " "); got != "sto_A-1 sto_A-gap-2-2 sto_A-3 sto_A-3 sto_A-4" {
		t.Errorf("ids %s", got)
	}
}

// What is the fault of no record is no RecordError: the host would pass records over that are good, or pause for a
// service that is down for some minutes.
func TestAnswers(t *testing.T) {
	for _, tc := range []struct {
		name   string
		status []int
		after  string
		err    string // "": taken
		seq    uint64 // of the RecordError; 0: none
		tries  int
	}{
		{"taken", []int{202}, "", "", 0, 1},
		{"down for a moment", []int{503, 500, 429, 408, 409, 425, 200}, "", "", 0, 7},
		{"down for long", []int{503}, "", "not taken after", 0, 0},
		{"asks for a pause", []int{429, 200}, "7", "", 0, 2},
		{"asks for a pause beyond the window", []int{429}, "60", "asks to wait", 0, 1},
		{"unauthorized", []int{401}, "", "401", 0, 1},
		{"forbidden", []int{403}, "", "403", 0, 1},
		{"no such path", []int{404}, "", "404", 0, 1},
		{"gone", []int{410}, "", "410", 0, 1},
		{"redirects", []int{302}, "", "redirects are not followed", 0, 1},
		{"refuses the content", []int{400}, "", "400", 1, 1},
	} {
		r := newRig(t, "", func(n int, _ string) (int, string) { return tc.status[min(n, len(tc.status))-1], tc.after })
		err := r.consume(context.Background(), batch(1, 1))
		var bad *plugin.RecordError
		errors.As(err, &bad)
		if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) ||
			tc.tries != 0 && len(r.ids) != tc.tries {
			t.Errorf("%s: %v after %d tries, want %d", tc.name, err, len(r.ids), tc.tries)
		}
		if (bad != nil) != (tc.seq != 0) || bad != nil && bad.Seq != tc.seq {
			t.Errorf("%s: %#v, want a RecordError of record %d (0: none)", tc.name, err, tc.seq)
		}
		if one := slices.Compact(slices.Clone(r.ids)); len(one) != 1 || one[0] != "sto_A-1-1" {
			t.Errorf("%s: ids %v, want one for all tries", tc.name, r.ids)
		}
		if tc.after == "7" && r.waits[0] != 7*time.Second {
			t.Errorf("%s: waits %v", tc.name, r.waits)
		}
	}
}

// A service that goes away in the middle of a batch, also while a refused record is looked for, blames no record, and
// what it has taken is not posted again.
func TestOutageWithin(t *testing.T) {
	for _, more := range []string{"", `, "per": "record"`} {
		down := true
		r := newRig(t, more, func(n int, body string) (int, string) {
			if more == "" && strings.Count(body, `{"seq":`) > 2 {
				return 413, ""
			}
			if down && strings.Contains(body, `{"seq":3,`) {
				return 503, ""
			}
			return 200, ""
		})
		err := r.consume(context.Background(), batch(1, 4))
		var bad *plugin.RecordError
		var later *plugin.Later
		if err == nil || errors.As(err, &bad) || !errors.As(err, &later) || later.Seq != 3 {
			t.Fatalf("%s: %#v, want an error that blames no record, from 3 on", more, err)
		}
		down = false
		if err := r.consume(context.Background(), batch(later.Seq, 4)); err != nil {
			t.Fatal(err)
		}
		seen := map[uint64]int{}
		for i, body := range r.bodies {
			if more == "" && i == 0 || i > 0 && r.ids[i] == r.ids[i-1] {
				continue // refused for its size, or the same request once more
			}
			for seq := uint64(1); seq <= 4; seq++ {
				seen[seq] += strings.Count(body, fmt.Sprintf(`{"seq":%d,`, seq))
			}
		}
		if want := map[uint64]int{1: 1, 2: 1, 3: 1, 4: 1}; !maps.Equal(seen, want) {
			t.Errorf("%s: posted %v (ids %v), want each once", more, seen, r.ids)
		}
	}
}

// While nothing of a batch was taken it comes again as it is, under the same webhook-id: what was taken although the
// answer was lost must not come under another one.
func TestOutageFromTheBeginning(t *testing.T) {
	for _, more := range []string{"", `, "per": "record"`} {
		r := newRig(t, more, func(int, string) (int, string) { return 503, "" })
		b := batch(3, 5)
		b.First = 1 // two were filtered out
		err := r.consume(context.Background(), b)
		var later *plugin.Later
		if err == nil || errors.As(err, &later) {
			t.Errorf("%s: %#v, want an error for the whole batch", more, err)
		}
	}
}

// A service that asks for a long pause is left alone until it is over, also by the batches that come next.
func TestLongPause(t *testing.T) {
	r := newRig(t, "", func(n int, _ string) (int, string) {
		if n == 1 {
			return 503, "50"
		}
		return 200, ""
	})
	for i := range 2 {
		if err := r.consume(context.Background(), batch(1, 3)); err == nil || len(r.ids) != 1 {
			t.Fatalf("%d: %v after %d requests", i, err, len(r.ids))
		}
	}
	if err := r.clock.Wait(context.Background(), 40*time.Second); err != nil {
		t.Fatal(err)
	}
	if err := r.consume(context.Background(), batch(1, 3)); err != nil || len(r.ids) != 2 {
		t.Fatalf("%v after %d requests", err, len(r.ids))
	}
}

// A batch that is refused for its content is cut in halves: all before the record at fault arrive, and it is named.
func TestHalves(t *testing.T) {
	for bad := uint64(1); bad <= 9; bad++ {
		for _, gap := range []bool{false, true} {
			taken := map[string]bool{}
			r := newRig(t, "", func(_ int, body string) (int, string) {
				if strings.Contains(body, fmt.Sprintf(`{"seq":%d,`, bad)) {
					return 422, ""
				}
				for seq := uint64(1); seq <= 9; seq++ {
					if strings.Contains(body, fmt.Sprintf(`{"seq":%d,`, seq)) {
						taken[fmt.Sprint(seq)] = true
					}
				}
				if strings.Contains(body, `"gap"`) {
					taken["gap"] = true
				}
				return 200, ""
			})
			b := batch(1, 9)
			if gap {
				b.First, b.Last, b.Gap = 1, 20, &plugin.Gap{First: 10, Last: 20}
			}
			var e *plugin.RecordError
			if err := r.consume(context.Background(), b); !errors.As(err, &e) || e.Seq != bad {
				t.Fatalf("record %d: %v", bad, err)
			}
			for seq := uint64(1); seq < bad; seq++ {
				if !taken[fmt.Sprint(seq)] {
					t.Errorf("record %d is at fault: %d did not arrive", bad, seq)
				}
			}
		}
	}
}

func TestSettings(t *testing.T) {
	a, authorization := secretText("a"), "Bearer x"
	for _, tc := range []struct {
		config  string
		secrets map[string]string
		err     string
	}{
		{`{"demo": true}`, nil, ""},
		{`{"url": "https://x/", "unsigned": true}`, map[string]string{signedhttp.SecretAuthorization: authorization}, ""},
		{`{"url": "https://x/"}`, map[string]string{signedhttp.SecretSigning: a}, ""},
		{`{"url": "https://x/"}`, nil, "secrets.signing: this secret is required"},
		{`{"url": "https://x/"}`, map[string]string{signedhttp.SecretSigningOther: a}, "secrets.signing: this secret is required"},
		{`{"url": "https://x/"}`, map[string]string{signedhttp.SecretSigning: "abc"}, "secrets.signing"},
		{`{"demo": true}`, map[string]string{signedhttp.SecretAuthorization: "Bearer x\nX-Other: y"}, "secrets.authorization: must be"},
		{`{"demo": true}`, map[string]string{signedhttp.SecretAuthorization: ""}, "secrets.authorization: must be"},
		{`{"url": "https://x/", "unsigned": true}`, map[string]string{signedhttp.SecretSigning: a}, "/unsigned"},
		{`{}`, map[string]string{signedhttp.SecretSigning: a}, "/url: is required"},
		{`{"demo": true, "url": "https://x/"}`, nil, "/demo"},
		{`{"url": "http://example.com/"}`, map[string]string{signedhttp.SecretSigning: a}, "must be https"},
		{`{"demo": true, "per": "day"}`, nil, "/per"},
		{`{"demo": true, "timeout": "1m"}`, nil, "/timeout"},
		{`{"demo": true, "retry_for": "x"}`, nil, "/retry_for"},
		{`{"demo": true, "extra": 1}`, nil, "unknown member"},
	} {
		_, err := read(plugin.Settings{Config: json.RawMessage(tc.config), Secrets: tc.secrets})
		if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: %v, want %q", tc.config, err, tc.err)
		}
	}
}

// TestCheckpointIsHandedOn: only with the whole batch, whose root it has.
func TestCheckpointIsHandedOn(t *testing.T) {
	b := &plugin.Batch{StoreID: "sto_A", First: 1, Last: 2, Checkpoint: "a note\n",
		Records: []plugin.Record{{Seq: 1, JSON: []byte("{}")}, {Seq: 2, JSON: []byte("{}")}}}
	whole := parts(b, false)[0]
	half, _ := whole.halves()
	for want, p := range map[bool]part{true: whole, false: half} {
		body, err := p.body(b)
		if err != nil || strings.Contains(string(body), `"checkpoint":"a note\n"`) != want {
			t.Errorf("%s: %v", body, err)
		}
	}
}
