package core

import (
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/console"
	"github.com/yett-dev/yett/core/prochost"
	"github.com/yett-dev/yett/core/supervise"
)

// Whoever resumes a plugin is recorded whenever that changes something, also while the plugin as a whole serves.
func TestDown(t *testing.T) {
	ready, given := prochost.ReplicaStatus{State: supervise.StateReady},
		prochost.ReplicaStatus{State: supervise.StateQuarantined}
	for _, c := range []struct {
		about string
		s     prochost.Status
		want  bool
	}{
		{"all is well", prochost.Status{State: supervise.StateReady, Breaker: "closed", Replicas: []prochost.ReplicaStatus{ready, ready}}, false},
		{"no breaker", prochost.Status{State: supervise.StateReady, Replicas: []prochost.ReplicaStatus{ready}}, false},
		{"one of two given up", prochost.Status{State: supervise.StateReady, Replicas: []prochost.ReplicaStatus{ready, given}}, true},
		{"the breaker is open", prochost.Status{State: supervise.StateReady, Breaker: "open", Replicas: []prochost.ReplicaStatus{ready}}, true},
		{"given up", prochost.Status{State: supervise.StateQuarantined, Replicas: []prochost.ReplicaStatus{given}}, true},
	} {
		if got := down(c.s); got != c.want {
			t.Errorf("%s: %v", c.about, got)
		}
	}
}

// The console says which configuration is in force and how the last reload ended, from the first on.
func TestConfigForTheConsole(t *testing.T) {
	w := newWorld(t, func(w *world) { w.write("", "", "") })
	show := func() console.Config { return w.g.Config() }
	policy := w.g.gen.Load().Policy
	if c := show(); c.Policy != policy || !c.Reloaded.IsZero() || c.Error != "" {
		t.Errorf("before any reload: %+v", c)
	}
	w.write("", "", "audits: {}\n")
	if _, err := w.reload(); err == nil {
		t.Fatal("an unknown key is taken")
	}
	if c := show(); c.Reloaded.IsZero() || !strings.Contains(c.Error, "audits") || c.Policy != policy {
		t.Errorf("refused: %+v", c)
	}
	w.put("rules.yaml", strings.Replace(worldRules, "all", "every", 1))
	w.write("", "", "")
	w.reloads()
	if c := show(); c.Reloaded.IsZero() || c.Error != "" || c.Policy == policy {
		t.Errorf("went well: %+v", c)
	}
}
