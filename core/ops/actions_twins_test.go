package ops_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
)

func TestActionTwins(t *testing.T) {
	s := newStage(t)
	agent, other := s.key("agent", "agent"), s.key("other", "agent")
	first := s.action(submit(agent, "permit", `{"n":1}`))
	for _, c := range []struct {
		name string
		q    req
		same bool
	}{
		{"at once", submit(agent, "permit", `{"n":1}`), true},
		{"the number written otherwise", submit(agent, "permit", `{"n":1.0}`), true},
		{"other params", submit(agent, "permit", `{"n":2}`), false},
		{"another key", submit(other, "permit", `{"n":1}`), false},
		{"another operation of a tool with a slash", req{key: agent, op: "action_submit", body: `{"agent_id":"a","tool":"permit","params":{"n":1},"context":{"c":1}}`}, false},
		{"with an Idempotency-Key", req{key: agent, op: "action_submit", body: body("permit", `{"n":1}`), idem: "k"}, false},
	} {
		if got := s.action(c.q); (got.ID == first.ID) != c.same {
			t.Errorf("%s: action %s, the first is %s", c.name, got.ID, first.ID)
		}
	}
	s.restart()
	s.advance(1900 * time.Millisecond)
	if got := s.action(submit(agent, "permit", `{"n":1}`)); got.ID != first.ID {
		t.Error("a restart forgets what was submitted 1.9 seconds before")
	}
	s.advance(100 * time.Millisecond)
	if got := s.action(submit(agent, "permit", `{"n":1}`)); got.ID == first.ID {
		t.Error("two seconds later it is still the same action")
	}
}

func TestActionTwinIsDecidedAgain(t *testing.T) {
	s := newStage(t)
	agent := s.key("agent", "agent")
	first := s.action(submit(agent, "permit", `{}`))
	s.says(sdk.Verdict{Effect: sdk.Deny, Code: "TODAY"})
	no := s.action(submit(agent, "permit", `{}`))
	if no.ID == first.ID || no.Status != "denied" || no.Code != "TODAY" {
		t.Fatalf("a denial does not win over the action before: %+v", no)
	}
	if again := s.action(submit(agent, "permit", `{}`)); again.ID != no.ID {
		t.Error("a denied action's twin is another action")
	}
	fn := func(*chain.Call) (sdk.Verdict, error) { return sdk.Verdict{Effect: sdk.Permit, Code: "P"}, nil }
	s.verdict.Store(&fn)
	s.advance(3 * time.Second)
	killer := s.key("killer", "operator")
	one := s.action(submit(agent, "permit", `{}`))
	if _, err := s.do(req{key: killer, op: "kill", body: `{"agent_id":"a"}`}); err != nil {
		t.Fatal(err)
	}
	if dead := s.action(submit(agent, "permit", `{}`)); dead.ID == one.ID || dead.Status != "denied" ||
		dead.Code != sdk.ReasonKillSwitch {
		t.Errorf("a kill does not win over the action before: %+v", dead)
	}
	if dead := s.action(req{key: agent, op: "action_start", id: one.ID}); dead.Status != "denied" ||
		dead.Code != sdk.ReasonKillSwitch {
		t.Errorf("a killed agent starts an action: %+v", dead)
	}
}

func TestActionIdempotencyKey(t *testing.T) {
	s := newStage(t)
	agent, boss := s.key("agent", "agent"), s.key("boss", "approver")
	q := submit(agent, "defer", `{"n":1}`)
	q.idem = "once"
	a := s.action(q)
	s.advance(time.Minute)
	if got := s.action(q); got.ID != a.ID {
		t.Error("the same Idempotency-Key makes two actions")
	}
	clash := submit(agent, "permit", `{"n":2}`)
	clash.idem = "once"
	if got := s.action(clash); got.Status != "denied" || got.Code != sdk.ReasonCallIDConflict {
		t.Errorf("an Idempotency-Key for another action: %+v", got)
	}
	if got := s.action(q); got.ID != a.ID {
		t.Error("a conflict takes the Idempotency-Key away")
	}
	yes := req{key: boss, op: "action_approval", id: a.ID, body: fmt.Sprintf(`{"token":%q,"approve":true}`, a.Token),
		idem: "yes"}
	if one, two := s.action(yes), s.action(yes); one.Status != "approved" || two.Status != "approved" {
		t.Errorf("the repeated approval: %+v %+v", one, two)
	}
	yes.body = fmt.Sprintf(`{"token":%q,"approve":false}`, a.Token)
	s.refused(yes, sdk.CodeIdempotencyReused)
	start := req{key: agent, op: "action_start", id: a.ID, idem: "go"}
	if one, two := s.action(start), s.action(start); one.Status != "executing" || two.Status != "executing" {
		t.Errorf("the repeated start: %+v %+v", one, two)
	}
	s.refused(req{key: agent, op: "action_start", id: a.ID, idem: "other"}, sdk.CodeConflict)
	end := req{key: agent, op: "action_result", id: a.ID, body: `{"success":true}`, idem: "end"}
	if one, two := s.action(end), s.action(end); one.Status != "succeeded" || two.Status != "succeeded" {
		t.Errorf("the repeated result: %+v %+v", one, two)
	}
	end.body = `{"success":false}`
	s.refused(end, sdk.CodeIdempotencyReused)
}

func TestOneActionOfManySubmissions(t *testing.T) {
	s := newStage(t)
	agent := s.key("agent", "agent")
	for round := range 5 {
		ids := together(64, func(int) string {
			return s.action(submit(agent, "permit", fmt.Sprintf(`{"round":%d}`, round))).ID
		})
		if len(ids) != 1 {
			t.Fatalf("64 identical submissions made %d actions", len(ids))
		}
	}
	if n := len(s.list(agent, [2]string{"limit", "1000"})); n != 5 {
		t.Errorf("%d actions, want 5", n)
	}
}

func TestOneStartOfMany(t *testing.T) {
	s := newStage(t)
	agent, boss := s.key("agent", "agent"), s.key("boss", "approver")
	for _, tool := range []string{"permit", "defer"} {
		a := s.action(submit(agent, tool, `{}`))
		if a.Token != "" {
			s.action(req{key: boss, op: "action_approval", id: a.ID, body: fmt.Sprintf(`{"token":%q,"approve":true}`, a.Token)})
		}
		got := together(32, func(int) string {
			text, err := s.do(req{key: agent, op: "action_start", id: a.ID})
			if err != nil {
				return code(err)
			}
			return readAct(t, text).Status
		})
		if got["executing"] != 1 || got["conflict"] != 31 {
			t.Errorf("%s: 32 starts ended %v", tool, got)
		}
		got = together(32, func(int) string {
			text, err := s.do(req{key: agent, op: "action_result", id: a.ID, body: `{"success":true}`})
			if err != nil {
				return code(err)
			}
			return readAct(t, text).Status
		})
		if got["succeeded"] != 1 || got["conflict"] != 31 {
			t.Errorf("%s: 32 results ended %v", tool, got)
		}
	}
}

// together runs n at once and counts what they say.
func together(n int, fn func(i int) string) map[string]int {
	out := map[string]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			got := fn(i)
			mu.Lock()
			defer mu.Unlock()
			out[got]++
		})
	}
	close(start)
	wg.Wait()
	return out
}
