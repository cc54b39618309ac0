package log

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"
	"unicode/utf8"
)

const headed = `{"v":1,"seq":7,"store_id":"sto_1","epoch":2,"timestamp":"2026-11-21T10:00:00.000000001Z","type":"decision",` +
	`"subscriber":"siem","agent_id":"a\"b","tool_id":"x\/y","args":{"type":"kill","agent_id":"no"},"n":[1.5e3,null]}`

func TestHead(t *testing.T) {
	var h Head
	if !h.Read([]byte(headed)) {
		t.Fatal("it is not read")
	}
	for _, c := range []struct{ name, got, want string }{
		{"seq", string(h.Seq), "7"}, {"store", string(h.StoreID), "sto_1"},
		{"type", string(h.Type), "decision"}, {"agent", string(h.AgentID), `a"b`}, {"tool", string(h.ToolID), "x/y"},
		{"subscriber", string(h.Subscriber), "siem"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", c.name, c.got, c.want)
		}
	}
	if want := time.Date(2026, 11, 21, 10, 0, 0, 1, time.UTC); !h.Time().Equal(want) {
		t.Errorf("time %v", h.Time())
	}
	usual := []byte(`{"v":1,"seq":7,"type":"kill","agent_id":"a","n":{}}`)
	if n := testing.AllocsPerRun(100, func() { h.Read(usual) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	for _, c := range []struct {
		rec        string
		read, peek bool
	}{
		{`{"type":"a","agent_id":"b","x":nope}`, false, true},
		{`{"type":"a","agent_id":"b"} `, false, true},
		{`{"agent_id":"b","type":"a","agent_id":"c"}`, true, true},
		{`{"type":"a","agent_id":1}`, true, true},
		{`{"type":"a","agent_id":"\ud800"}`, false, false},
		{`{"type":"a","agent_id":"\x"}`, false, false},
		{`{"type":"","agent_id":"b"}`, false, false},
		{`{"type":1}`, false, false},
		{`{"agent_id":"b"}`, false, false},
		{`{ "type":"a"}`, false, false},
		{`["type"]`, false, false},
		{``, false, false},
	} {
		if read, peek := h.Read([]byte(c.rec)), h.Peek([]byte(c.rec)); read != c.read || peek != c.peek {
			t.Errorf("%s: read %v, peek %v", c.rec, read, peek)
		}
	}
}

// FuzzHead holds what is taken from a record against encoding/json.
func FuzzHead(f *testing.F) {
	for _, s := range []string{headed, `{"type":"a","agent_id":"\u00e9\ud83d\ude00"}`, `{"type":1,"tool_id":null}`,
		`{"a":{"type":"x"},"type":"y"}`, `{"type":"a","agent_id":"b","x":nope}`, `{"type":"a","type":"b"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, rec []byte) {
		var h, peeked Head
		ok := h.Read(rec)
		once := bytes.Count(rec, []byte(`"type":`)) == 1 && bytes.Count(rec, []byte(`"agent_id":`)) <= 1
		if p := peeked.Peek(rec); ok && once && !p {
			t.Fatalf("%q is read and not peeked at", rec)
		}
		var want map[string]json.RawMessage
		if json.Unmarshal(rec, &want) != nil || !utf8.Valid(rec) {
			if ok && utf8.Valid(rec) {
				t.Fatalf("%q is read, and no object", rec)
			}
			return
		}
		text := func(name string) (s string) {
			_ = json.Unmarshal(want[name], &s) // anything else is no text
			return s
		}
		if !ok {
			if text("type") != "" && !bytes.ContainsAny(rec, " \t\r\n\\") {
				t.Fatalf("%q is a record", rec)
			}
			return
		}
		for name, got := range map[string][]byte{"store_id": h.StoreID, "timestamp": h.Timestamp, "type": h.Type,
			"agent_id": h.AgentID, "tool_id": h.ToolID, "subscriber": h.Subscriber} {
			if string(got) != text(name) {
				t.Errorf("%q: %s is %q, want %q", rec, name, got, text(name))
			}
		}
		if !bytes.Equal(h.Seq, bytes.TrimSpace(want["seq"])) {
			t.Errorf("%q: seq is %q, want %q", rec, h.Seq, want["seq"])
		}
		if once && (!bytes.Equal(peeked.Type, h.Type) || !bytes.Equal(peeked.AgentID, h.AgentID)) {
			t.Errorf("%q: %q and %q peeked, %q and %q read", rec, peeked.Type, peeked.AgentID, h.Type, h.AgentID)
		}
	})
}

func BenchmarkHead(b *testing.B) {
	rec := []byte(`{"v":1,"seq":7,"store_id":"sto_01","timestamp":"2026-11-21T10:00:00.000000001Z","type":"decision",` +
		`"principal_id":"key_01","principal_method":"api_key","surface":"http","decision_id":"dec_01","call_id":"c-1",` +
		`"agent_id":"support-1","session_id":"s-1","tool_id":"stripe/refund","effect":"DENY","reason_code":"RULE",` +
		`"reason":"no rule permits it","policy_version":"p1","latency_us":12,"digest":"00ff","args":{"a":[1,{"b":"c"}]}}`)
	var h Head
	for name, read := range map[string]func([]byte) bool{"read": h.Read, "peek": h.Peek} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !read(rec) {
					b.Fatal("it is not read")
				}
			}
		})
	}
}
