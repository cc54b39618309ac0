package core

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/loaded"
	"github.com/yett-dev/yett/core/prochost"
	"github.com/yett-dev/yett/core/store"
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
	g := &Gateway{}
	gen := &loaded.Generation{Config: &config.Config{}}
	gen.Policy = "p-1"
	g.gen.Store(gen)
	if c := (shownPlugins{g}).Config(); c.Policy != "p-1" || !c.Reloaded.IsZero() || c.Error != "" {
		t.Errorf("before any reload: %+v", c)
	}
	g.ended(nil, nil, errors.New("no such key"))
	if c := (shownPlugins{g}).Config(); c.Reloaded.IsZero() || !strings.Contains(c.Error, "no such key") ||
		c.Policy != "p-1" {
		t.Errorf("refused: %+v", c)
	}
	g.ended(nil, nil, nil)
	if c := (shownPlugins{g}).Config(); c.Reloaded.IsZero() || c.Error != "" {
		t.Errorf("went well: %+v", c)
	}
}

// The names in an error have a limit, and what is left out is said.
func TestWithCursors(t *testing.T) {
	all := map[string]store.Cursor{}
	if got := withCursors(all); got != "no subscriber has one" {
		t.Errorf("none: %s", got)
	}
	all["siem"], all["mail"] = store.Cursor{}, store.Cursor{}
	if got := withCursors(all); got != "these have one: mail, siem" {
		t.Errorf("two: %s", got)
	}
	for i := range maxListed {
		all[fmt.Sprint("s", i)] = store.Cursor{}
	}
	if got := withCursors(all); !strings.HasSuffix(got, " and 2 more") || strings.Count(got, ",") != maxListed-1 {
		t.Errorf("many: %s", got)
	}
}
