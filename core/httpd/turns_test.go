package httpd

import (
	"context"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
)

// A call whose key has every turn is refused when its time is over, and no kill waits for it meanwhile: it does not
// count as one that may still be permitted. Another key's calls and kills find a turn, or need none.
func TestCallsWaitForTheirKeysTurns(t *testing.T) {
	t.Parallel()
	g := newGate(t, func(s *Settings) { s.Timeout = 2 * time.Second })
	greedy, other := g.key("greedy", "authorize", "kill"), g.key("other", "authorize")
	key, err := g.svc.Authenticate("Bearer " + greedy)
	if err != nil {
		t.Fatal(err)
	}
	for range runtime.GOMAXPROCS(0) {
		r := &ops.Request{Key: &store.Key{ID: key.ID}, Ctx: context.Background()}
		if err := g.svc.Begin(&ops.Op{}, r, 0); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.End)
	}
	const call = `{"agent_id":"a","tool_id":"permit"}`
	g.problem(g.send(greedy, "POST", "/v1/authorize", call), http.StatusServiceUnavailable, "overloaded")
	if n := g.flight.entered.Load(); n != 0 {
		t.Errorf("%d calls that had no turn counted as on their way", n)
	}
	if a := g.send(greedy, "POST", "/v1/kill", `{"agent_id":"b"}`); a.StatusCode != http.StatusOK {
		t.Errorf("a kill: %d %s", a.StatusCode, a.body)
	}
	if a := g.send(other, "POST", "/v1/authorize", call); a.StatusCode != http.StatusOK {
		t.Errorf("another key's call: %d %s", a.StatusCode, a.body)
	}
	g.settled()
	if n := g.flight.entered.Load(); n != 1 {
		t.Errorf("%d calls were on their way, want 1", n)
	}
}

// A request that is refused ends its turn like one that is answered.
func TestRefusedRequestsEndTheirTurn(t *testing.T) {
	g := newGate(t, func(s *Settings) { s.Timeout = 10 * time.Second })
	key := g.key("agent", "authorize")
	for path, body := range map[string]string{"/v1/authorize": "{", "/v1/actions": `{"agent_id":7}`, "/v1/grants": "{}",
		"/v1/policy/test": "[", "/v1/scan_output": "{}"} {
		for range runtime.GOMAXPROCS(0) + 1 {
			if a := g.send(key, "POST", path, body); a.StatusCode < 400 || a.StatusCode >= 500 {
				t.Fatalf("%s %s: %d %s", path, body, a.StatusCode, a.body)
			}
		}
	}
	if a := g.send(key, "POST", "/v1/authorize", `{"agent_id":"a","tool_id":"permit"}`); a.StatusCode != http.StatusOK {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}
