package status

import "testing"

// Resuming is offered whenever it changes something, also while the plugin as a whole takes calls.
func TestNeedsResume(t *testing.T) {
	up, down := []Replica{{State: Ready}}, []Replica{{State: Ready}, {State: "quarantined"}}
	for name, c := range map[string]struct {
		p    Plugin
		want bool
	}{
		"all is well":           {Plugin{State: Ready, Replicas: up, Breaker: "closed"}, false},
		"a module":              {Plugin{State: "down"}, false},
		"down":                  {Plugin{State: "quarantined", Replicas: up}, true},
		"one of two processes":  {Plugin{State: Ready, Replicas: down}, true},
		"its breaker is open":   {Plugin{State: Ready, Replicas: up, Breaker: "open"}, true},
		"its breaker tries":     {Plugin{State: Ready, Replicas: up, Breaker: "half-open"}, false},
		"a subscriber":          {Plugin{State: Ready, Replicas: up, Subscriber: &Subscriber{State: "live"}}, false},
		"a paused subscriber":   {Plugin{State: Ready, Replicas: up, Subscriber: &Subscriber{State: Paused}}, true},
		"a subscriber is stuck": {Plugin{State: Ready, Replicas: up, Subscriber: &Subscriber{StuckAt: 7}}, true},
		"only its module's log": {Plugin{State: Ready, Subscriber: &Subscriber{State: Paused}}, false},
	} {
		if got := c.p.NeedsResume(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
