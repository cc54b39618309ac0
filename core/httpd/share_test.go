package httpd

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/store"
)

// ask sends one request with that key on the connection.
func (c *talk) ask(key, method, target, body string) {
	c.t.Helper()
	c.write("%s %s HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", method, target, key,
		len(body), body)
}

const permitted = `{"agent_id":"a","tool_id":"permit"}`

// Whoever has one valid key uses as many connections as it likes: other keys, a kill and the open pages are answered.
func TestConnectionsOfOneKeyKeepNobodyOut(t *testing.T) {
	g := newGate(t, func(s *Settings) { s.Limits.Connections = 20 })
	greedy, other, boss := g.key("greedy", "authorize"), g.key("other", "authorize"), g.key("boss", "kill")
	for range 60 {
		c := g.talk()
		c.ask(greedy, "GET", "/v1/policy/info", "")
		if resp, m := c.answer(); resp.StatusCode != 200 {
			t.Fatalf("the key's own newest connection: %d %v", resp.StatusCode, m)
		}
	}
	for _, q := range []struct{ key, method, target, body string }{
		{other, "POST", "/v1/authorize", permitted}, {boss, "POST", "/v1/kill", `{"agent_id":"x"}`}, {"", "GET", "/healthz", ""}, {other, "POST", "/v1/authorize", permitted},
	} {
		c := g.talk()
		c.ask(q.key, q.method, q.target, q.body)
		if resp, m := c.answer(); resp.StatusCode != 200 {
			t.Errorf("%s: %d %v", q.target, resp.StatusCode, m)
		}
	}
}

// A key has its share, of which the idle connections make room; while requests run on all of them, no further one is
// answered.
func TestConnectionsOfOneKeyAreBounded(t *testing.T) {
	g := newGate(t, func(s *Settings) { s.Limits.Connections, s.Limits.ConnectionsPerKey = 20, 3 })
	agent, other := g.key("agent", "authorize"), g.key("other", "authorize")
	for range 10 {
		c := g.talk()
		c.ask(agent, "GET", "/v1/policy/info", "")
		c.answer()
	}
	if open, strangers, _, _ := g.server.door.Counts(); open-strangers != 3 {
		t.Errorf("%d connections of the key", open-strangers)
	}
	token, _ := g.send(agent, "POST", "/v1/authorize", `{"agent_id":"a","tool_id":"defer"}`).m["defer_token"].(string)
	until(t, "the answered call has ended", func() bool { return g.server.inFlight.Size() == 0 })
	fill := func() {
		for n := g.server.inFlight.Size(); n < 3; n = g.server.inFlight.Size() {
			_, _, _, before := g.server.door.Counts()
			g.talk().ask(agent, "POST", "/v1/defer/status", `{"token":"`+token+`","wait_seconds":50}`)
			until(t, "it runs, or is refused because an answered connection is not idle yet", func() bool {
				_, _, _, refused := g.server.door.Counts()
				return g.server.inFlight.Size() == n+1 || refused > before
			})
		}
	}
	// a kill that the key may not ask for is like any other
	for target, body := range map[string]string{"/v1/authorize": permitted, "/v1/kill": `{"agent_id":"x"}`} {
		for tries := 0; ; tries++ {
			fill() // what is about to be refused counts as running for a moment
			over := g.talk()
			over.ask(agent, "POST", target, body)
			resp, m := over.answer()
			if resp.StatusCode == 429 && strings.Contains(fmt.Sprint(m["detail"]), "limits.connections_per_key") {
				break
			}
			if tries == 100 {
				t.Fatalf("%s on one more than its share: %d %v", target, resp.StatusCode, m)
			}
		}
	}
	neighbour := g.talk()
	neighbour.ask(other, "POST", "/v1/authorize", permitted)
	if resp, m := neighbour.answer(); resp.StatusCode != 200 {
		t.Errorf("%d %v", resp.StatusCode, m)
	}
}

// While every place has a request that runs, there are places for what an operator needs.
func TestKillIsAnsweredWhileAllPlacesAreBusy(t *testing.T) {
	for name, change := range map[string]func(s *Settings){
		"limits.connections": func(s *Settings) { s.Limits.Connections = 4 },
		"limits.in_flight":   func(s *Settings) { s.Limits.InFlight = 4 },
	} {
		t.Run(name, func(t *testing.T) {
			g := newGate(t, change)
			agent, boss := g.key("agent", "authorize"), g.key("boss", "kill", "approve", "grants")
			token, _ := g.send(agent, "POST", "/v1/authorize", `{"agent_id":"a","tool_id":"defer"}`).m["defer_token"].(string)
			until(t, "the answered call has ended", func() bool { return g.server.inFlight.Size() == 0 })
			until(t, "its connection has ended", func() bool {
				http.DefaultClient.CloseIdleConnections() // of no effect until the client knows that its answer is read
				open, _, _, _ := g.server.door.Counts()
				return open == 0
			})
			for range 4 {
				g.talk().ask(agent, "POST", "/v1/defer/status", `{"token":"`+token+`","wait_seconds":50}`)
			}
			until(t, "all of them run", func() bool { return g.server.inFlight.Size() == 4 })
			c := g.talk()
			c.ask(agent, "POST", "/v1/authorize", permitted)
			if resp, m := c.answer(); resp.StatusCode != 429 || !strings.Contains(fmt.Sprint(m["detail"]), name) {
				t.Errorf("one too many: %d %v", resp.StatusCode, m)
			}
			for _, q := range []struct{ key, method, target, body string }{
				{"", "GET", "/healthz", ""}, {"", "GET", "/readyz", ""}, {boss, "POST", "/v1/kill", `{"agent_id":"x"}`}, {boss, "GET", "/v1/approvals/call?defer_token=" + token, ""},
				{boss, "POST", "/v1/approve", `{"defer_token":"` + token + `","approved":true}`},
			} {
				c := g.talk()
				c.ask(q.key, q.method, q.target, q.body)
				if resp, m := c.answer(); resp.StatusCode != 200 {
					t.Errorf("%s: %d %v", q.target, resp.StatusCode, m)
				}
			}
		})
	}
}

// A key whose own requests run in all places stops an agent all the same.
func TestKillOfABusyKeyIsAnswered(t *testing.T) {
	g := newGate(t, func(s *Settings) { s.Limits.InFlight = 4 })
	boss := g.key("boss", "authorize", "kill")
	token, _ := g.send(boss, "POST", "/v1/authorize", `{"agent_id":"a","tool_id":"defer"}`).m["defer_token"].(string)
	until(t, "the answered call has ended", func() bool { return g.server.inFlight.Size() == 0 })
	for range 4 {
		g.talk().ask(boss, "POST", "/v1/defer/status", `{"token":"`+token+`","wait_seconds":50}`)
	}
	until(t, "all of them run", func() bool { return g.server.inFlight.Size() == 4 })
	for target, want := range map[string]int{"/v1/kill": 200, "/v1/authorize": 429} {
		c := g.talk()
		c.ask(boss, "POST", target, `{"agent_id":"x","tool_id":"permit"}`)
		if resp, m := c.answer(); resp.StatusCode != want {
			t.Errorf("%s: %d %v", target, resp.StatusCode, m)
		}
	}
}

// A key that is killed or revoked keeps no connection on which nothing runs.
func TestConnectionsOfStoppedKeysAreClosed(t *testing.T) {
	for _, how := range []string{"kill", "revoke"} {
		t.Run(how, func(t *testing.T) {
			g := newGate(t, func(s *Settings) { s.look = time.Millisecond })
			agent, other := g.key("agent", "authorize"), g.key("other", "authorize")
			c, neighbour := g.talk(), g.talk()
			for _, x := range []struct {
				*talk
				key string
			}{{c, agent}, {neighbour, other}} {
				x.ask(x.key, "GET", "/v1/policy/info", "")
				x.answer()
			}
			id := agent[len("yett_"):][:12]
			if how == "kill" {
				boss := g.key("boss", "kill")
				if x := g.send(boss, "POST", "/v1/kill", `{"scope":"key","target":"`+id+`"}`); x.StatusCode != 200 {
					t.Fatal(x.body)
				}
			} else if err := g.svc.RevokeKey(context.Background(), id,
				store.Who{Principal: "admin:0", Method: "peer_uid", Surface: "admin"}); err != nil {
				t.Fatal(err)
			}
			c.end()
			neighbour.ask(other, "GET", "/v1/policy/info", "")
			if resp, _ := neighbour.answer(); resp.StatusCode != 200 {
				t.Error(resp.StatusCode)
			}
		})
	}
}
