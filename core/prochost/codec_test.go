package prochost

import (
	"bufio"
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
	"google.golang.org/protobuf/proto"
)

// TestEncode holds the hand-written encoder against the generated decoder.
func TestEncode(t *testing.T) {
	full := benchCall(t)
	full.Context, full.Digest = object(t, `{"a":[1.0,"é"]}`), [32]byte{1, 31: 2}
	for _, r := range []*request{
		{id: 1, call: &chain.Call{}},
		{id: 1 << 63, deadline: time.Unix(5, 6), generation: "g", call: full},
		{id: 3, call: &chain.Call{ToolID: strings.Repeat("x", 70_000), Now: time.Unix(-1, 0)}},
	} {
		b := r.append(nil)
		if len(b) > r.size() {
			t.Errorf("%d bytes, %d were expected at most", len(b), r.size())
		}
		var got pluginv1.CheckRequest
		if err := proto.Unmarshal(b, &got); err != nil {
			t.Fatal(err)
		}
		c := r.call
		want := &pluginv1.CheckRequest{Id: r.id, DeadlineUnixNano: unixNano(r.deadline), Generation: r.generation,
			Call: &pluginv1.Call{
				KeyId: c.KeyID, KeyName: c.KeyName, AgentId: c.AgentID, SessionId: c.SessionID, ToolId: c.ToolID,
				Operation: c.Operation, CallId: c.CallID, Digest: c.Digest[:], TimeUnixNano: unixNano(c.Now)}}
		if c.Args.Exists() {
			want.Call.Args = []byte(c.Args.Raw())
		}
		if c.Context.Exists() {
			want.Call.Context = []byte(c.Context.Raw())
		}
		if !proto.Equal(&got, want) {
			t.Errorf("got %v\nwant %v", &got, want)
		}
	}
	if err := checkCall(&chain.Call{AgentID: "\xff"}); err == nil {
		t.Error("text that is not UTF-8 was let through")
	}
	if err := checkCall(&chain.Call{AgentID: strings.Repeat("x", maxMessage)}); err == nil {
		t.Error("a call beyond a message was let through")
	}
}

// FuzzAnswer holds the hand-written decoder against the generated one, and the judge against its own rules.
func FuzzAnswer(f *testing.F) {
	for _, a := range []*pluginv1.CheckResponse{
		{Id: 7, Effect: pluginv1.CheckResponse_EFFECT_PERMIT, Code: "OK", Reason: "é", RuleId: "r", Message: "m", TtlMs: 5},
		{Id: 8, Effect: pluginv1.CheckResponse_EFFECT_DEFER, Code: "D", Approvals: 2, Approvers: []string{"key:a"}, ExpiresMs: 9, Priority: "low"},
		{Id: 9, Error: "no"},
	} {
		b, err := proto.Marshal(a)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("\x0a\x02\xff\xfe"))
	f.Add([]byte("\x1a\x02\xff\xfe"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var a answer
		err := a.decode(b)
		if err != nil {
			return
		}
		v, err := a.verdict()
		if err != nil {
			wanted := v.Effect
			if v.Effect = 0; wanted == sdk.Permit || !reflect.DeepEqual(v, sdk.Verdict{}) {
				t.Errorf("beside %v stands %v, %+v", err, wanted, v)
			}
		} else if v.Effect != sdk.Abstain && !isCode(v.Code) || len(v.Reason) > maxReason || v.TTL < 0 {
			t.Errorf("let through: %+v", v)
		}
		var g pluginv1.CheckResponse
		if proto.Unmarshal(b, &g) != nil {
			return // it is stricter about what we skip
		}
		if a.id != g.Id || int32(a.effect) != int32(g.Effect) || a.code != g.Code || a.reason != g.Reason ||
			a.rule != g.RuleId ||
			a.message != g.Message || a.failure != g.Error || a.ttl != g.TtlMs || uint32(a.approvals) != g.Approvals ||
			fmt.Sprint(a.approvers) != fmt.Sprint(g.Approvers) || a.expires != g.ExpiresMs || a.priority != g.Priority {
			t.Errorf("%+v\n%v", a, &g)
		}
	})
}

// FuzzFindings: whatever a scanner says, what is let through lies within the text, on characters.
func FuzzFindings(f *testing.F) {
	b, err := proto.Marshal(&pluginv1.ScanResponse{Id: 1,
		Findings: []*pluginv1.Finding{{Kind: "K", Start: 1, End: 3, Confidence: 1, Severity: 2}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b, "aé b")
	f.Fuzz(func(t *testing.T, b []byte, text string) {
		var r pluginv1.ScanResponse
		if proto.Unmarshal(b, &r) != nil {
			return
		}
		found, err := findings(&r, "s", map[string]string{"K": "K"}, &chain.Input{Text: text})
		if err != nil && found != nil {
			t.Fatal("findings beside an error")
		}
		for _, x := range found {
			if x.Start < 0 || x.Start >= x.End || x.End > len(text) || x.Kind != "K" ||
				!(x.Confidence >= 0 && x.Confidence <= 1) || x.Severity > sdk.Critical {
				t.Errorf("let through: %+v", x)
			}
		}
	})
}

// FuzzHello: whatever a plugin prints, reading it ends, and a socket outside its directory is never tried.
func FuzzHello(f *testing.F) {
	f.Add([]byte("noise\n1|1|unix|/d/s|grpc|QUJD\n"))
	f.Add([]byte("1|1|unix|/d/../s|grpc|QUJD\n"))
	f.Add(bytes.Repeat([]byte("x"), maxHandshake+1))
	f.Fuzz(func(t *testing.T, b []byte) {
		line, err := findHello(bufio.NewReader(bytes.NewReader(b)), func(string) {})
		if err != nil {
			return
		}
		if h, err := parseHello(line, "/d"); err == nil &&
			(!strings.HasPrefix(h.path, "/d/") || strings.Contains(h.path, "..")) {
			t.Errorf("%q leads to %q", line, h.path)
		}
		if c, err := stdioData(b); err == nil && len(c) > len(b) {
			t.Error("more data than there is")
		}
	})
}

func TestCacheBounds(t *testing.T) {
	now := time.Unix(1000, 0)
	c := newCache(Cache{Entries: 3, MaxTTL: time.Minute})
	permit := sdk.Verdict{Effect: sdk.Permit, Code: "OK", TTL: time.Hour}
	for i := range 5 {
		c.put([]byte{byte(i)}, &permit, now, 0)
	}
	if len(c.entries) != 3 || len(c.order) != 3 {
		t.Errorf("%d entries, %d in order", len(c.entries), len(c.order))
	}
	for i, want := range []bool{false, false, true, true, true} {
		if _, _, ok := c.get([]byte{byte(i)}, now.Add(59*time.Second)); ok != want {
			t.Errorf("entry %d: %v", i, ok)
		}
	}
	if v, _, ok := c.get([]byte{4}, now.Add(59*time.Second)); !ok || v.TTL != time.Second {
		t.Errorf("what is left of the time: %v, %v", v.TTL, ok)
	}
	if _, _, ok := c.get([]byte{4}, now.Add(time.Minute)); ok {
		t.Error("kept beyond MaxTTL")
	}
	c.put([]byte{4}, &permit, now.Add(time.Hour), 0)
	if _, _, ok := c.get([]byte{4}, now.Add(time.Hour)); !ok {
		t.Error("not renewed")
	}
	for _, v := range []sdk.Verdict{{Effect: sdk.Defer, TTL: time.Hour}, {Effect: sdk.Abstain, TTL: time.Hour},
		{Effect: sdk.Permit}} {
		c.put([]byte("x"), &v, now, 0)
		if _, _, ok := c.get([]byte("x"), now); ok {
			t.Errorf("%+v was kept", v)
		}
	}
	_, epoch, _ := c.get([]byte("y"), now)
	c.drop()
	c.put([]byte("y"), &permit, now, epoch)
	if _, _, ok := c.get([]byte("y"), now); ok {
		t.Error("kept what was asked for before the plugin ended")
	}
	if _, _, ok := c.get([]byte{4}, now.Add(time.Hour)); ok {
		t.Error("kept beyond drop")
	}
}

// TestCacheKeys: fields run into each other in no way.
func TestCacheKeys(t *testing.T) {
	var fields []keyField
	for _, name := range []string{"key_id", "agent_id", "args", "context.a"} {
		f, ok := parseKeyField(name)
		if !ok {
			t.Fatal(name)
		}
		fields = append(fields, f)
	}
	seen := map[string]int{}
	for i, c := range []*chain.Call{
		{KeyID: "ab", AgentID: "c"}, {KeyID: "a", AgentID: "bc"}, {KeyID: "abc"}, {AgentID: "abc"},
		{Args: object(t, "{}")}, {Context: object(t, `{"a":{}}`)}, {Context: object(t, `{"a":null}`)}, {Context: object(t, `{"a":""}`)}, {},
	} {
		key := string(keyOf(fields, c, nil))
		if j, twice := seen[key]; twice {
			t.Errorf("calls %d and %d have one key", i, j)
		}
		seen[key] = i
	}
	if keyOf(fields, &chain.Call{KeyID: strings.Repeat("x", maxKey)}, nil) != nil {
		t.Error("a key without a bound")
	}
	for _, name := range []string{"", "call_id", "digest", "args.", "key_id.x", "time"} {
		if _, ok := parseKeyField(name); ok {
			t.Errorf("%q is taken for a field", name)
		}
	}
}
