package ops

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
)

// records are one of each type, as the store writes them.
func records(t testing.TB) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "records.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

func readEvent(t testing.TB, e *event, record string) {
	t.Helper()
	if err := e.read(number(record, "seq"), []byte(record)); err != nil {
		t.Fatal(err)
	}
}

// compareGolden compares with testdata/name, or writes it with GOLDEN=write.
func compareGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("GOLDEN") == "write" {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (GOLDEN=write rewrites it):\n%s", name, got)
	}
}

// TestLines shows every record type as both streams send it.
func TestLines(t *testing.T) {
	var audit, callbacks, own []byte
	asker, other, auditor := callbackFormat(&store.Key{ID: "agent"}), callbackFormat(&store.Key{ID: "somebody"}),
		auditFormat(&store.Key{})
	var e event
	for _, rec := range records(t) {
		readEvent(t, &e, rec)
		audit = auditor(audit, &e)
		if !slices.Contains(callbackEvents, e.Type) {
			continue
		}
		n := len(callbacks)
		callbacks = other(callbacks, &e)
		if e.Get("modified_args").Exists() {
			own = asker(own, &e)
		} else if got := asker(nil, &e); !bytes.Equal(got, callbacks[n:]) {
			t.Errorf("the asking key gets another line: %s", got)
		}
	}
	compareGolden(t, "audit_lines.golden", audit)
	compareGolden(t, "callback_lines.golden", append(callbacks, own...))
	if bytes.Count(callbacks, []byte("modified_args")) != 0 || bytes.Count(own, []byte("modified_args")) != 1 {
		t.Error("modified_args are for the key that asked, and for nobody else")
	}
}

// TestLinesHaveTheirMembers holds the lines against the list of the wire contract: all there, nothing twice, nothing of
// the record lost.
func TestLinesHaveTheirMembers(t *testing.T) {
	listed := strings.Fields("seq type timestamp record_id call_id agent_id session_id tool_id tool_name operation " +
		"effect reason_code reason rule_id defer_token policy_version latency_ms principal_id principal_method args " +
		"blast_radius reversibility incident_category incident_severity")
	var e event
	for _, rec := range records(t) {
		readEvent(t, &e, rec)
		for _, line := range []string{string(auditLine(nil, &e)), string(ownOrNot(&e))} {
			var doc exact.Doc
			if err := doc.Parse(strings.TrimSuffix(line, "\n"), recordLimits); err != nil || !strings.HasSuffix(line, "}\n") {
				t.Fatalf("%v: %q", err, line) // a member twice is an error too
			}
			for name, v := range e.Body.Members() {
				if got := doc.Root().Get(name); got.Raw() != v.Raw() && name != "modified_args" {
					t.Errorf("%s: %s is %s, in the record %s", e.Type, name, got.Raw(), v.Raw())
				}
			}
		}
		var m map[string]any
		if err := json.Unmarshal(auditLine(nil, &e), &m); err != nil {
			t.Fatal(err)
		}
		for _, name := range listed {
			if _, there := m[name]; !there {
				t.Errorf("%s has no %s", e.Type, name)
			}
		}
	}
}

func ownOrNot(e *event) []byte { return callbackFormat(&store.Key{ID: "agent"})(nil, e) }

// TestRecordID is the same for one record for ever, and different for others.
func TestRecordID(t *testing.T) {
	var e event
	seen := map[string]bool{}
	for _, rec := range []string{
		`{"seq":7,"store_id":"a","timestamp":"2024-10-04T00:00:00.000000000Z","type":"x"}`,
		`{"seq":8,"store_id":"a","timestamp":"2024-10-04T00:00:00.000000000Z","type":"x"}`,
		`{"seq":7,"store_id":"b","timestamp":"2024-10-04T00:00:00.000000000Z","type":"x"}`,
		`{"seq":7,"store_id":"a","timestamp":"2024-10-04T00:00:00.001000000Z","type":"x"}`,
		`{"seq":7,"store_id":"a","timestamp":"","type":"x"}`,
	} {
		readEvent(t, &e, rec)
		id, again := recordID(&e), recordID(&e)
		if id != again || seen[string(id[:])] || !strings.HasPrefix(string(id[:]), "evt_") {
			t.Errorf("%s, then %s", id, again)
		}
		seen[string(id[:])] = true
	}
	readEvent(t, &e, records(t)[0])
	const known = "evt_01J9AD7000JEB2J0BQJH1TBN9B"
	if id := recordID(&e); string(id[:]) != known {
		t.Errorf("the id of a known record is %s, was %s", id, known)
	}
}

// TestWanted holds what each kind of key sees of the records, by seq.
func TestWanted(t *testing.T) {
	r := newStreamRig(t, 1000)
	all := "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18"
	keys := map[string]*store.Key{
		"auditor":  r.key("auditor", []string{"audit"}),
		"billing":  r.key("billing", []string{"audit"}, "billing-*"),
		"narrow":   r.key("narrow", []string{"audit"}, "billing-1", "x"),
		"agent":    r.key("agent", []string{"authorize"}, "agent"),
		"anybody":  r.key("anybody", []string{"authorize"}),
		"biller":   r.key("biller", []string{"authorize"}, "billing-1"),
		"both":     r.key("both", []string{"authorize", "audit"}, "billing-1"),
		"boss":     r.key("boss", []string{"audit"}, "nobody"),
		"stranger": r.key("stranger", []string{"authorize"}, "nobody"),
	}
	for _, c := range []struct{ key, op, body, want string }{
		{"auditor", "audit_subscribe", `{}`, all},
		{"auditor", "audit_subscribe", `{"types":["kill","unkill"]}`, "13 14"},
		{"auditor", "audit_subscribe", `{"types":["operator_added"]}`, ""},
		{"auditor", "audit_subscribe", `{"agent_id":"agent"}`, "2 3 5 6 7 8 9 14 17"},
		{"auditor", "audit_subscribe", `{"agent_id":"agent","types":["decision"]}`, "2 3 17"},
		{"auditor", "audit_subscribe", `{"agent_id":"billing-1"}`, "4 11 14"},
		{"auditor", "audit_subscribe", `{"agent_id":"agen"}`, "14"},
		{"billing", "audit_subscribe", `{}`, "4 10 11 12 13 14"},
		{"narrow", "audit_subscribe", `{}`, "4 10 11 12 13 14"},
		{"narrow", "audit_subscribe", `{"agent_id":"x"}`, "14"},
		{"boss", "audit_subscribe", `{}`, "14"},
		{"auditor", "callback_subscribe", `{}`, "2 3 5 7 8 9 10 11 12 13 14 17"},
		{"auditor", "callback_subscribe", `{"agent_id":"agent"}`, "2 3 5 7 8 9 14 17"},
		{"auditor", "callback_subscribe", `{"agent_id":"billing-1"}`, "10 11 12 13 14"},
		{"auditor", "callback_subscribe", `{"agent_id":"agent","events":["defer_resolved"]}`, "7 8"},
		{"agent", "callback_subscribe", `{}`, "2 3 5 7 8 9 14 17"},
		{"anybody", "callback_subscribe", `{}`, "2 3 5 7 8 9 10 11 12 13 14 17"},
		{"anybody", "callback_subscribe", `{"events":["decision","decision","grant_added"]}`, "2 3 10 17"},
		{"biller", "callback_subscribe", `{}`, "10 11 12 13 14"},
		{"biller", "callback_subscribe", `{"agent_id":"billing-1"}`, "10 11 12 13 14"},
		{"both", "callback_subscribe", `{}`, "10 11 12 13 14"},
		{"stranger", "callback_subscribe", `{}`, "14"},
	} {
		st := r.open(c.op, keys[c.key], c.body)
		u := st.(*subscriber)
		var got []string
		var e event
		for _, rec := range records(t) {
			readEvent(t, &e, rec)
			if u.opt.passes(&e) && u.opt.want(&e) {
				got = append(got, fmt.Sprint(e.Seq))
			}
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s %s %s:\ngot  %s\nwant %s", c.key, c.op, c.body, s, c.want)
		}
		st.Close()
	}
}

// TestKillsReach holds which kills come to which stream, and which of them end it.
func TestKillsReach(t *testing.T) {
	r := newStreamRig(t, 1000)
	r.key("me", []string{"authorize"}, "bot/*")
	// kills name the first of the line
	r.commit(&store.RollKey{ID: "me", New: &store.Key{ID: "me2", MAC: []byte("2")}, By: someone})
	me, auditor, limited := r.store.Key("me2"), r.key("auditor", []string{"audit"}),
		r.key("limited", []string{"audit"}, "bot/*")
	kill := func(scope, target string) string {
		agent := ""
		if scope == "agent" {
			agent = fmt.Sprintf(`,"agent_id":%q`, target)
		}
		return fmt.Sprintf(`{"seq":1,"type":"kill","scope":%q,"target":%q%s}`, scope, target, agent)
	}
	for _, c := range []struct {
		key   *store.Key
		op    string
		body  string
		kills []string // scope and target
		came  string   // y comes, e comes and ends, n does neither, x ends without it
	}{
		{me, "callback_subscribe", `{}`, []string{"global ", "key me", "key other", "agent bot/1", "agent bot/*", "agent *", "agent cat", "tool t", "session s"}, "eenyeenyy"},
		{me, "callback_subscribe", `{"agent_id":"bot/1"}`, []string{"global ", "key me", "key other", "agent bot/1", "agent bot/*", "agent bot/2", "agent cat", "tool t", "session s"}, "eeneennyy"},
		{auditor, "callback_subscribe", `{}`, []string{"global ", "key me", "key auditor", "agent bot/1", "tool t"}, "yyeyy"},
		{auditor, "callback_subscribe", `{"agent_id":"cat"}`, []string{"global ", "key me", "key auditor", "agent bot/1", "agent c*", "tool t"}, "yneney"},
		{auditor, "audit_subscribe", `{}`, []string{"global ", "key me", "key auditor", "agent bot/1", "tool t"}, "yyeyy"},
		{auditor, "audit_subscribe", `{"types":["decision"]}`, []string{"global ", "key auditor"}, "nx"},
		{limited, "audit_subscribe", `{}`, []string{"global ", "key me", "key limited", "agent bot/1", "agent cat", "tool t"}, "yneyny"},
	} {
		st := r.open(c.op, c.key, c.body)
		u := st.(*subscriber)
		got := ""
		var e event
		for _, k := range c.kills {
			scope, target, _ := strings.Cut(k, " ")
			readEvent(t, &e, kill(scope, target))
			got += map[[2]bool]string{{true, false}: "y", {true, true}: "e", {false, false}: "n",
				{false, true}: "x"}[[2]bool{u.opt.passes(&e) && u.opt.want(&e), u.opt.ends(&e) != ""}]
		}
		if got != c.came {
			t.Errorf("%s %s %s:\n%q\ngot  %s\nwant %s", c.key.ID, c.op, c.body, c.kills, got, c.came)
		}
		st.Close()
	}
}

// TestSubscribeRefuses names the field and the limit.
func TestSubscribeRefuses(t *testing.T) {
	r := newStreamRig(t, 9)
	auditor, limited, agent := r.key("auditor", []string{"audit"}), r.key("limited", []string{"audit"}, "bot"),
		r.key("agent", []string{"authorize"}, "bot")
	for _, c := range []struct {
		key            *store.Key
		op, body, code string
		says           []string
	}{
		{auditor, "audit_subscribe", `{"from_seq":-1}`, "invalid_field", []string{"from_seq"}},
		{auditor, "audit_subscribe", `{"from_seq":5}`, "invalid_field", []string{"from_seq is 5", "ends with 3"}},
		{auditor, "audit_subscribe", `{"heartbeat_seconds":301}`, "invalid_field", []string{"heartbeat_seconds", "300", "301"}},
		{auditor, "audit_subscribe", `{"heartbeat_seconds":-1}`, "invalid_field", []string{"heartbeat_seconds"}},
		{auditor, "audit_subscribe", `{"types":[""]}`, "invalid_field", []string{"types"}},
		{auditor, "audit_subscribe", `{"types":[` + strings.Repeat(`"a",`, 100) + `"a"]}`, "invalid_field", []string{"types has 101", "100"}},
		{limited, "audit_subscribe", `{"agent_id":"cat"}`, "agent_not_allowed", []string{"limited"}},
		{agent, "audit_subscribe", `{}`, "missing_scope", []string{"audit"}},
		{agent, "callback_subscribe", `{"agent_id":"cat"}`, "agent_not_allowed", []string{"agent"}},
		{auditor, "callback_subscribe", `{"events":["decision","defer_signed"]}`, "invalid_field", []string{"defer_signed", "grant_consumed"}},
		{auditor, "callback_subscribe", `{"from_seq":-2}`, "invalid_field", []string{"from_seq"}},
		{auditor, "callback_subscribe", `{"from_seq":99}`, "invalid_field", []string{"99", "3", "4"}},
	} {
		_, err := r.tryOpen(c.op, r.request(c.key, c.body))
		if string(codeOf(err)) != c.code {
			t.Errorf("%s %s %s: %v, want %s", c.key.ID, c.op, c.body, err, c.code)
			continue
		}
		for _, s := range c.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s %s: %v does not say %q", c.op, c.body, err, s)
			}
		}
	}
	r.svc.hub.log = nil
	if _, err := r.tryOpen("audit_subscribe", r.request(auditor, `{}`)); codeOf(err) != sdk.CodeInternal {
		t.Errorf("without a log: %v", err)
	}
	r.svc.hub.log = r.store
	if len(r.svc.hub.perKey) != 0 {
		t.Errorf("refused streams are counted: %v", r.svc.hub.perKey)
	}
}

// TestOpens shows the opening answers.
func TestOpens(t *testing.T) {
	r := newStreamRig(t, 9)
	k := r.key("both", []string{"audit", "authorize"})
	for _, c := range []struct{ op, body, want string }{
		{"audit_subscribe", `{}`, `{"subscribed":true,"from_seq":2}`},
		{"audit_subscribe", `{"from_seq":1}`, `{"subscribed":true,"from_seq":1}`},
		{"audit_subscribe", `{"from_seq":2}`, `{"subscribed":true,"from_seq":2}`},
		{"callback_subscribe", `{}`, `{"subscribed":true,"stream":"callbacks","from_seq":2}`},
	} {
		st := r.open(c.op, k, c.body)
		if got := string(st.First().AppendJSON(nil)); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.op, c.body, got, c.want)
		}
		st.Close()
	}
}

// TestPeek: records as the store writes them need no parsing to know whom they concern.
func TestPeek(t *testing.T) {
	var e event
	for _, rec := range append(records(t), `{"seq":1,"type":"x","n":1}`,
		`{"seq":1,"type":"x","o":{"a":[{"agent_id":"no"},"}]"]},"s":"\\"}`) {
		if err := e.peek(1, []byte(rec)); err != nil {
			t.Fatal(err)
		}
		typ, agent := e.Type, e.AgentID
		if e.Body.Exists() {
			t.Errorf("%s was parsed", typ)
		}
		readEvent(t, &e, rec)
		if typ == "" || typ != e.Str("type") || agent != e.Str("agent_id") {
			t.Errorf("%q, %q: %s", typ, agent, rec)
		}
	}
}

// TestLiveFilter: a stream that asks for one agent, and has caught up, gets that agent's records and what concerns all.
func TestLiveFilter(t *testing.T) {
	r := newStreamRig(t, 9)
	st := r.open("callback_subscribe", r.key("key", []string{"audit"}), `{"agent_id":"a"}`)
	defer st.Close()
	for i := range 5 {
		r.note("decision", "agent_id", "b", "n", fmt.Sprint(i))
		r.note("decision", "agent_id", "a", "n", fmt.Sprint(i))
		r.note("grant_added", "agent_id", "*", "n", fmt.Sprint(i))
		got, _ := r.lines(st, 2)
		if len(got) != 2 || !strings.Contains(got[0], fmt.Sprintf(`"agent_id":"a","n":"%d"`, i)) ||
			!strings.Contains(got[1], fmt.Sprintf(`"agent_id":"*","n":"%d"`, i)) {
			t.Fatalf("round %d: %v", i, got)
		}
	}
}

// FuzzEvent: the short look at a record finds what parsing it does, and no record makes the formats write anything but
// one line of JSON.
func FuzzEvent(f *testing.F) {
	for _, rec := range records(f) {
		f.Add(rec)
	}
	f.Fuzz(func(t *testing.T, rec string) {
		var e event
		if e.read(1, []byte(rec)) != nil {
			return
		}
		if typ, agent := e.Str("type"), e.Str("agent_id"); e.Type != typ || e.AgentID != agent {
			t.Errorf("%q: a look at it gives type %q and agent %q, parsing %q and %q", rec, e.Type, e.AgentID, typ, agent)
		}
		for _, line := range [][]byte{auditLine(nil, &e), callbackLine(nil, &e)} {
			if !json.Valid(line) {
				t.Errorf("%q makes %q", rec, line)
			}
		}
	})
}
