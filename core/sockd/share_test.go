package sockd

import (
	"strings"
	"testing"
	"time"
)

func TestConnectionsAreBounded(t *testing.T) {
	r := newRig(t, func(_ *rig, set *Settings) { set.Limits.Connections = 2 })
	key := r.key("agent", "authorize").Value
	a, b := r.as(key), r.as(key)
	var runs hold
	for _, c := range []*client{a, b} {
		c.write(`{"type":"hold","n":1}` + "\n")
		runs = r.holds(1)["1"]
	}
	over := r.dial()
	const refused = `{"ok":false,"error":"more than 2 connections at once (limits.connections)","code":"too_many_requests","effect":"DENY","reason_code":"TOO_MANY_REQUESTS"}`
	if got := over.ask(`{"type":"govern","api_key":"` + key + `","agent_id":"a","tool_id":"permit"}`); got != refused {
		t.Error(got)
	}
	if got := over.ask(`{"type":"auth","api_key":"` + key + `"}`); !strings.Contains(got, "limits.connections") {
		t.Error(got)
	}
	boss := r.key("boss", "kill").Value
	for _, c := range []*client{r.as(boss), r.dial()} { // what is urgent has a place
		if got := c.ask(`{"type":"kill","api_key":"` + boss + `","agent_id":"x"}`); !strings.Contains(got, `"ok":true`) {
			t.Error(got)
		}
	}
	close(runs.done)
	until(t, "there is room again", func() bool {
		return strings.Contains(over.ask(`{"type":"auth","api_key":"`+key+`"}`), `"ok":true`)
	})
}

// Whoever has one valid key uses as many connections as it likes: other keys are answered, and its own newest
// connection.
func TestConnectionsOfOneKeyKeepNobodyOut(t *testing.T) {
	for name, perKey := range map[string]int{"all places": 20, "a share": 5} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(_ *rig, set *Settings) { set.Limits.Connections, set.Limits.ConnectionsPerKey = 20, perKey })
			greedy, other := r.key("greedy", "authorize"), r.key("other", "authorize")
			kept := r.as(other.Value)
			first := r.as(greedy.Value)
			for range 3 * 20 {
				r.as(greedy.Value).ask(`{"type":"echo"}`)
			}
			first.end()
			kept.ask(`{"type":"echo"}`)
			r.as(other.Value).ask(`{"type":"echo"}`)
			if open, _, evicted, _ := r.s.door.Counts(); evicted == 0 || perKey == 5 && open > 5+2 {
				t.Errorf("%d open, %d evicted", open, evicted)
			}
		})
	}
}

// However many messages of one key run, another key's have room; the key's own are refused beyond its part.
func TestMessagesOfOneKeyKeepNobodyOut(t *testing.T) {
	r := newRig(t, func(_ *rig, set *Settings) { set.Limits.InFlight = 16 })
	greedy, other := r.as(r.key("greedy", "authorize").Value), r.as(r.key("other", "authorize").Value)
	greedy.write(strings.Repeat(`{"type":"hold","n":1}`+"\n", 20))
	var runs []hold
	for range 12 { // all that one key may have while no other asks
		runs = append(runs, r.holds(1)["1"])
	}
	for range 3 {
		other.ask(`{"type":"echo"}`)
	}
	if got := other.ask(`{"type":"govern","agent_id":"a","tool_id":"permit"}`); !strings.Contains(got, `"PERMIT"`) {
		t.Errorf("of another key: %s", got)
	}
	for _, h := range runs {
		close(h.done)
	}
	refused := 0
	for range 20 {
		if strings.Contains(greedy.line(), "limits.in_flight") {
			refused++
		}
	}
	if refused != 8 {
		t.Errorf("%d of 20 were refused", refused)
	}
	until(t, "all are done", func() bool { return r.s.inFlight.Size() == 0 })
}

// What is urgent counts for the key that comes with it, not for the user whose other messages run: a kill has room
// beside any number of these. What the key may not ask for is not urgent.
func TestUrgentMessagesHaveRoom(t *testing.T) {
	r := newRig(t, func(_ *rig, set *Settings) { set.Limits.InFlight = 4 })
	agent, boss := r.key("agent", "authorize").Value, r.key("boss", "authorize", "kill").Value
	r.dial().write(strings.Repeat(`{"type":"hold","n":1,"api_key":"`+boss+`"}`+"\n", 4))
	var runs []hold
	for range 4 {
		runs = append(runs, r.holds(1)["1"])
	}
	kill := func(key string) string { return `{"type":"kill","agent_id":"x","api_key":"` + key + `"}` }
	for name, c := range map[string]struct{ got, want string }{
		"with the message":      {r.dial().ask(kill(boss)), `"ok":true`},
		"of one who may not":    {r.dial().ask(kill(agent)), "limits.in_flight"},
		"of nobody":             {r.dial().ask(kill("none")), "limits.in_flight"},
		"something that waits":  {r.dial().ask(`{"type":"echo","api_key":"` + boss + `"}`), "limits.in_flight"},
		"of who has said hello": {r.as(boss).ask(`{"type":"kill","agent_id":"y"}`), `"ok":true`},
	} {
		if !strings.Contains(c.got, c.want) {
			t.Errorf("%s: %s", name, c.got)
		}
	}
	for _, h := range runs {
		close(h.done)
	}
	until(t, "all are done", func() bool { return r.s.inFlight.Size() == 0 })
}

// A key that is killed or revoked keeps no connection on which nothing runs; what runs is answered first.
func TestConnectionsOfStoppedKeysAreClosed(t *testing.T) {
	for _, how := range []string{"kill", "revoke"} {
		t.Run(how, func(t *testing.T) {
			r := newRig(t, func(_ *rig, set *Settings) { set.look = time.Millisecond })
			k, other := r.key("agent", "authorize"), r.as(r.key("other", "authorize").Value)
			c, busy := r.as(k.Value), r.as(k.Value)
			busy.write(`{"type":"hold","n":1}` + "\n")
			runs := r.holds(1)["1"]
			if how == "kill" {
				if got := r.as(r.key("boss", "kill").Value).ask(`{"type":"kill","scope":"key","target":"` + k.Key.ID +
					`"}`); !strings.Contains(got, `"ok":true`) {
					t.Fatal(got)
				}
			} else if err := r.revoke(k.Key.ID); err != nil {
				t.Fatal(err)
			}
			c.end()
			close(runs.done)
			if got := busy.line(); got != `{"held":1}` {
				t.Error(got)
			}
			busy.end()
			other.ask(`{"type":"echo"}`)
		})
	}
}
