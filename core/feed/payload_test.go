package feed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/yett-dev/yett/core/log"
)

// masker replaces "secret" and refuses "broken".
func masker(_ context.Context, t Text) (string, error) {
	if strings.Contains(t.Text, "broken") {
		return "", errors.New("no scanner")
	}
	if strings.Contains(t.Text, "torn") {
		return strings.Replace(t.Text, "torn", `"`, 1), nil
	}
	return strings.ReplaceAll(t.Text, "secret", "[MASKED]"), nil
}

func TestPayload(t *testing.T) {
	rec := `{"v":1,"seq":7,"type":"decision","tool_id":"t","n":1.50e3,"args":{"a":"secret","n":1.0},"context":{"c":"secret"},"reason":"a secret \u0041","checks":[{"name":"secret","error":"secret"}],"x":{"args":{"y":"secret"}},"e":[]}`
	for _, c := range []struct{ name, kind, in, want string }{
		{"full", PayloadFull, rec, rec},
		{"digest", PayloadDigest, rec, `{"v":1,"seq":7,"type":"decision","tool_id":"t","n":1.50e3,"reason":"a secret \u0041","checks":[{"name":"secret","error":"secret"}],"x":{"args":{"y":"secret"}},"e":[]}`},
		{"redacted", PayloadRedacted, rec, `{"v":1,"seq":7,"type":"decision","tool_id":"t","n":1.50e3,"args":{"a":"[MASKED]","n":1.0},"context":{"c":"[MASKED]"},"reason":"a [MASKED] A","checks":[{"name":"secret","error":"[MASKED]"}],"x":{"args":{"y":"secret"}},"e":[]}`},
		{"only args", PayloadDigest, `{"args":{"a":1}}`, `{}`},
		{"modified", PayloadDigest, `{"modified_args":{},"v":1}`, `{"v":1}`},
		{"a note, digest", PayloadDigest, `{"agent_note":"a secret","v":1}`, `{"v":1}`},
		{"a note", PayloadRedacted, `{"agent_note":"a secret","v":1}`, `{"agent_note":"a [MASKED]","v":1}`},
		{"a note, parsed", PayloadRedacted, `{"agent_note":"a secret","v":1,"x":{"reason":""}}`, `{"agent_note":"a [MASKED]","v":1,"x":{"reason":""}}`},
		{"a note that cannot be masked", PayloadRedacted, `{"agent_note":"broken"}`, `{"agent_note":"[withheld: error]"}`},
		{"nothing to mask", PayloadRedacted, `{"args":{},"reason":"","message":"fine \u0041"}`, `{"args":{},"reason":"","message":"fine \u0041"}`},
		{"mask fails", PayloadRedacted, `{"args":{"a":"broken"},"reason":"broken"}`, `{"args":{"withheld":"mask_failed","cause":"error"},"reason":"[withheld: error]"}`},
		{"mask breaks the JSON", PayloadRedacted, `{"args":{"a":"torn"},"reason":"torn"}`, `{"args":{"withheld":"mask_failed","cause":"malformed"},"reason":"\""}`},
		{"unreadable", PayloadDigest, `{"args":`, `{"seq":7,"withheld":"unreadable"}`},
		{"unreadable in full", PayloadFull, `{"args":`, `{"args":`},
	} {
		p := payload{kind: c.kind, mask: masker}
		for range 2 { // the second time texts are remembered
			if got := string(p.of(context.Background(), 7, []byte(c.in))); got != c.want {
				t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
			}
		}
	}
}

// A record that no plugin could take in comes without what an agent has put into it, and says so.
func TestLargePayload(t *testing.T) {
	long := strings.Repeat("y", maxDelivered)
	marked := `,"withheld":"too_large"}`
	for _, c := range []struct{ name, kind, in, want string }{
		{"full", PayloadFull, `{"v":1,"context":{"c":"` + long + `"},"tool_id":"t"}`, `{"v":1,"tool_id":"t"` + marked},
		{"redacted", PayloadRedacted, `{"v":1,"args":{"c":"` + long + `"},"tool_id":"t"}`, `{"v":1,"tool_id":"t"` + marked},
		{"longer when masked", PayloadRedacted, `{"v":1,"args":{"c":"` + strings.Repeat("secret", maxDelivered/7) + `"}}`, `{"v":1` + marked},
		{"digest", PayloadDigest, `{"v":1,"args":{"c":"` + long + `"}}`, `{"v":1}`},
		{"nothing but that", PayloadFull, `{"args":"` + long + `"}`, `{"seq":7` + marked},
		{"another member", PayloadFull, `{"v":1,"odd":"` + long + `"}`, `{"seq":7` + marked},
		{"another member, digest", PayloadDigest, `{"v":1,"odd":"` + long + `"}`, `{"seq":7` + marked},
		{"unreadable", PayloadFull, `{"v":1,"odd":"` + long, `{"seq":7,"withheld":"unreadable"}`},
		{"its texts", PayloadRedacted, `{"v":1,"args":{"c":"` + long + `"},"reason":"a secret","checks":[{"error":"broken"}]}`, `{"v":1,"reason":"a [MASKED]","checks":[{"error":"[withheld: error]"}]` + marked},
		{"its texts in full", PayloadFull, `{"v":1,"args":{"c":"` + long + `"},"reason":"a secret"}`, `{"v":1,"reason":"a secret"` + marked},
		{"not so long", PayloadFull, `{"v":1,"odd":"` + long[:maxDelivered-16] + `"}`, `{"v":1,"odd":"` + long[:maxDelivered-16] + `"}`},
	} {
		p := payload{kind: c.kind, mask: masker}
		if got := string(p.of(context.Background(), 7, []byte(c.in))); got != c.want {
			t.Errorf("%s:\n got %.100s… (%d bytes)\nwant %.100s…", c.name, got, len(got), c.want)
		}
	}
}

// What a batch holds is what it counts: an agent's large args are not in memory for a subscriber that does not get
// them.
func TestPayloadHoldsLittle(t *testing.T) {
	rec := []byte(`{"v":1,"args":{"c":"` + strings.Repeat("y", 1<<20) + `"},"reason":"x"}`)
	for _, kind := range []string{PayloadDigest, PayloadRedacted} {
		p := payload{kind: kind, mask: func(context.Context, Text) (string, error) { return "", errors.New("too large") }}
		huge := fmt.Appendf(nil, `{"v":1,"args":{"c":"%s"}}`, strings.Repeat("y", maxDelivered))
		if out := p.of(context.Background(), 7, huge); cap(out) > 4<<10 {
			t.Errorf("%s: %d bytes of a huge record take %d", kind, len(out), cap(out))
		}
		for _, rec := range [][]byte{rec, bytes.Replace(rec, []byte(`"v":1`), []byte(`"v":1e0`), 1)} { // quick and parsed
			if out := p.of(context.Background(), 7, rec); cap(out) > 4<<10 {
				t.Errorf("%s: %d bytes take %d", kind, len(out), cap(out))
			}
		}
	}
}

// What is remembered of a text is the text, not the record that it was in.
func TestPayloadRemembersLittle(t *testing.T) {
	long := strings.Repeat("y", 1<<20)
	held := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	p := payload{kind: PayloadRedacted, mask: func(_ context.Context, t Text) (string, error) { return t.Text, nil }}
	before := held()
	for i := range 64 {
		p.of(context.Background(), 7, fmt.Appendf(nil,
			`{"n":1e0,"tool_id":"tool-%d","agent_id":"a","args":{"c":"%s"},"reason":"x"}`, i, long))
	}
	if after := held(); len(p.seen) != 64 || after > before+16<<20 {
		t.Errorf("%d texts take %d KiB", len(p.seen), (after-before)>>10)
	}
	runtime.KeepAlive(&p)
}

// What masking made of a text is remembered for the same tool and agent only, and not without end.
func TestPayloadRemembers(t *testing.T) {
	asked := 0
	p := payload{kind: PayloadRedacted, mask: func(_ context.Context, t Text) (string, error) {
		asked++
		return t.ToolID + t.Text, nil
	}}
	for i := range 2 * maskedKept {
		for _, tool := range []string{"a", "b"} {
			for range 2 {
				rec := fmt.Sprintf(`{"tool_id":"%s","reason":"%d"}`, tool, i)
				if got, want := string(p.of(context.Background(), 1, []byte(rec))),
					fmt.Sprintf(`{"tool_id":"%s","reason":"%s%d"}`, tool, tool, i); got != want {
					t.Fatalf("got %s, want %s", got, want)
				}
			}
		}
	}
	if asked != 4*maskedKept || len(p.seen) > maskedKept {
		t.Errorf("asked %d times, %d kept", asked, len(p.seen))
	}
}

// A text that was let through is looked at again when the scanners may know more: with other settings at once, and else
// soon.
func TestPayloadForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy, word := "one", "nothing"
		p := payload{kind: PayloadRedacted, policy: func() string {
			return policy
		}, mask: func(_ context.Context, t Text) (string, error) {
			return strings.ReplaceAll(t.Text, word, "[MASKED]"), nil
		}}
		reason := func() string { return string(p.of(context.Background(), 1, []byte(`{"reason":"a code name"}`))) }
		expect(t, "nothing is known", reason(), `{"reason":"a code name"}`)
		policy, word = "two", "code name"
		expect(t, "another policy", reason(), `{"reason":"a [MASKED]"}`)
		word = "nothing"
		expect(t, "remembered", reason(), `{"reason":"a [MASKED]"}`)
		time.Sleep(maskedFor)
		expect(t, "a scanner that has changed by itself", reason(), `{"reason":"a code name"}`)
	})
}

func TestWants(t *testing.T) {
	of := func(s Settings) *Settings { return &s }
	decision := `{"seq":1,"type":"decision","agent_id":"billing-1","tool_id":"stripe/refund"}`
	for _, c := range []struct {
		name string
		set  *Settings
		rec  string
		want bool
	}{
		{"no filter", of(Settings{}), `nonsense`, true},
		{"type", of(Settings{Types: []string{"kill", "decision"}}), decision, true},
		{"other type", of(Settings{Types: []string{"kill"}}), decision, false},
		{"agent", of(Settings{Agents: []string{"billing-*"}}), decision, true},
		{"other agent", of(Settings{Agents: []string{"support-*"}}), decision, false},
		{"no agent", of(Settings{Agents: []string{"support-*"}}), `{"type":"key_created"}`, true},
		{"pattern of agents", of(Settings{Agents: []string{"support-*"}}), `{"type":"kill","agent_id":"b*"}`, true},
		{"tool", of(Settings{Tools: []string{"x", "stripe/*"}}), decision, true},
		{"other tool", of(Settings{Tools: []string{"x"}}), decision, false},
		{"no tool", of(Settings{Tools: []string{"x"}}), `{"type":"kill"}`, true},
		{"all of them", of(Settings{Types: []string{"decision"}, Agents: []string{"*"}, Tools: []string{"other"}}), decision, false},
		{"escaped", of(Settings{Agents: []string{"A"}}), `{"type":"x","agent_id":"\u0041"}`, true},
		{"escaped other", of(Settings{Agents: []string{"A"}}), `{"type":"x","agent_id":"\u0042"}`, false},
		{"unreadable", of(Settings{Types: []string{"kill"}}), `{"type":"deci`, true},
		{"type inside only", of(Settings{Types: []string{"kill"}}), `{"x":{"type":"kill"},"type":"scan"}`, false},
	} {
		if got := c.set.wants([]byte(c.rec)); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// Whatever a record holds, what is delivered is JSON, and digest holds none of the contents.
func FuzzPayload(f *testing.F) {
	f.Add([]byte(`{"v":1,"seq":7,"type":"decision","args":{"a":"secret"},"reason":"secret"}`), `{"x":1}`)
	f.Add([]byte(`{"args":{"a":"torn"},"checks":[{"error":"broken"}]}`), `"`)
	f.Fuzz(func(t *testing.T, rec []byte, masked string) {
		for _, kind := range []string{PayloadDigest, PayloadRedacted} {
			p := payload{kind: kind, mask: func(context.Context, Text) (string, error) { return masked, nil }}
			out := p.of(context.Background(), 1, rec)
			if !json.Valid(out) {
				t.Fatalf("%s of %q: %q is no JSON", kind, rec, out)
			}
			var m map[string]json.RawMessage
			if err := json.Unmarshal(out, &m); err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
			if _, there := m["args"]; there && kind == PayloadDigest {
				t.Fatalf("args are in %q", out)
			}
		}
		var h log.Head
		ok := h.Read(rec)
		if ok && json.Valid(rec) && utf8.Valid(rec) && !bytes.ContainsAny(rec, " \t\r\n\\") {
			var m struct {
				Type string `json:"type"`
			}
			if json.Unmarshal(rec, &m) == nil && strings.Count(strings.ToLower(string(rec)), `"type":`) == 1 &&
				m.Type != string(h.Type) {
				t.Fatalf("type %q of %s", h.Type, rec)
			}
		}
	})
}
