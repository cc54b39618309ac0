package ops_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
)

// sse is one event of the stream.
type sse struct {
	id   uint64
	Kind string `json:"event_type"`
	Type string
	ID   string `json:"action_id"`
	Data struct {
		AgentID string `json:"agent_id"`
		Tool    string
		Status  string
		Outcome string
	}
	Timestamp time.Time
}

// follow opens the stream; the test's end closes it.
func (s *stage) follow(q req) ops.Stream {
	s.t.Helper()
	q.op = "events"
	st, err := s.svc.Open(opNamed(s.t, "events"), s.request(q))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(st.Close)
	return st
}

// events of the stream until there are n, or it ends.
func readEvents(t testing.TB, st ops.Stream, n int) (out []sse, rest string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for len(out) < n {
		lines, err := st.Next(ctx)
		for _, block := range strings.Split(strings.TrimSuffix(string(lines), "\n\n"), "\n\n") {
			if e, ok := parseSSE(t, block); ok {
				out = append(out, e)
			} else {
				rest += block
			}
		}
		if errors.Is(err, io.EOF) {
			return out, rest
		}
		if err != nil {
			t.Fatalf("after %d of %d events: %v", len(out), n, err)
		}
	}
	return out, rest
}

// parseSSE reads one event; a comment is none.
func parseSSE(t testing.TB, block string) (e sse, ok bool) {
	t.Helper()
	for _, line := range strings.Split(block, "\n") {
		name, value, _ := strings.Cut(line, ": ")
		switch name {
		case "id":
			e.id, _ = strconv.ParseUint(value, 10, 64)
		case "data":
			if ok = true; json.Unmarshal([]byte(value), &e) != nil {
				t.Errorf("data is no JSON: %s", value)
			}
		case "":
		default:
			t.Errorf("a line %q in the stream", line)
		}
	}
	return e, ok
}

func TestEventsOfALife(t *testing.T) {
	s := newStage(t)
	agent, boss := s.key("agent", "agent"), s.key("boss", "approver", "a")
	st := s.follow(req{key: boss})
	a := s.action(submit(agent, "defer", `{}`))
	s.action(req{key: boss, op: "action_approval", id: a.ID, body: fmt.Sprintf(`{"token":%q,"approve":true}`, a.Token)})
	s.action(req{key: agent, op: "action_start", id: a.ID})
	s.action(req{key: agent, op: "action_result", id: a.ID, body: `{"success":true}`})
	s.action(req{key: agent, op: "action_submit", body: `{"agent_id":"unseen","tool":"permit"}`})
	if _, err := s.do(req{key: agent, op: "authorize", body: `{"agent_id":"a","tool_id":"permit"}`}); err != nil {
		t.Fatal(err)
	}
	b := s.action(submit(agent, "deny", `{}`))
	got, _ := readEvents(t, st, 5)
	for i, want := range []string{"created pending_approval " + a.ID, "approved approved " + a.ID,
		"started executing " + a.ID, "succeeded succeeded " + a.ID, "created denied " + b.ID} {
		kind, rest, _ := strings.Cut(want, " ")
		e := got[i]
		if e.Kind != "action_"+kind || e.Type != "action."+kind || e.Data.Status+" "+e.ID != rest || e.Data.AgentID != "a" ||
			e.id == 0 || e.Timestamp.IsZero() {
			t.Errorf("event %d: %+v, want %s", i, e, want)
		}
	}
}

func TestEventsBacklogAndResume(t *testing.T) {
	s := newStage(t)
	agent := s.key("agent", "agent")
	var ids []string
	for i := range 14 {
		ids = append(ids, s.action(submit(agent, "permit", fmt.Sprintf(`{"n":%d}`, i))).ID)
	}
	first, _ := readEvents(t, s.follow(req{key: agent}), 10)
	if len(first) != 10 || first[0].ID != ids[4] || first[9].ID != ids[13] {
		t.Errorf("the backlog has %d events, from %s to %s", len(first), first[0].ID, first[len(first)-1].ID)
	}
	rest, _ := readEvents(t, s.follow(req{key: agent,
		query: [][2]string{{"last_event_id", strconv.FormatUint(first[2].id, 10)}}}), 7)
	if rest[0].ID != ids[7] || rest[6].ID != ids[13] {
		t.Errorf("resumed with %s to %s", rest[0].ID, rest[6].ID)
	}
	for _, id := range []string{"x", "-1", "999999", "99999999999999999999"} {
		_, err := s.svc.Open(opNamed(t, "events"), s.request(req{key: agent, query: [][2]string{{"last_event_id", id}}}))
		if code(err) != string(sdk.CodeInvalidField) {
			t.Errorf("Last-Event-ID %q: %v", id, err)
		}
	}
}

func TestEventsOfJoinedActions(t *testing.T) {
	s := newStage(t)
	agent, boss := s.key("agent", "agent"), s.key("boss", "approver")
	a := s.action(submit(agent, "defer", `{}`))
	s.advance(3 * time.Second)
	b := s.action(submit(agent, "defer", `{}`))
	if a.ID == b.ID || a.Token != b.Token {
		t.Fatalf("the second does not join the first's defer: %+v %+v", a, b)
	}
	st := s.follow(req{key: boss})
	readEvents(t, st, 2)
	s.action(req{key: boss, op: "action_approval", id: a.ID, body: fmt.Sprintf(`{"token":%q,"approve":true}`, a.Token)})
	got, _ := readEvents(t, st, 2)
	if got[0].ID != a.ID || got[1].ID != b.ID || got[0].id != 0 || got[1].id == 0 {
		t.Errorf("the approval of two: %+v", got)
	}
	if run := s.action(req{key: agent, op: "action_start", id: b.ID}); run.Status != "executing" {
		t.Errorf("%+v", run)
	}
	s.refused(req{key: agent, op: "action_start", id: a.ID}, sdk.CodeConflict) // one approval starts one action
	if got := s.action(req{key: agent, op: "action_get", id: a.ID}); got.Status != "denied" ||
		got.Reason != store.ActionSpent {
		t.Errorf("the other action: %+v", got)
	}
}

func TestEventsEndOnDrain(t *testing.T) {
	s := newStage(t)
	stopping := make(chan struct{})
	r := s.request(req{key: s.key("agent", "agent")})
	r.Stopping = stopping
	st, err := s.svc.Open(opNamed(t, "events"), r)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	close(stopping)
	if got, rest := readEvents(t, st, 1); len(got) != 0 || rest != ": closing draining" {
		t.Errorf("%+v %q", got, rest)
	}
}
