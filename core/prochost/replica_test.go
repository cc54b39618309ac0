package prochost

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/supervise"
)

// TestLateProbe: a probe whose process has ended meanwhile is not waited for. It leaves alone what the next process was
// born with, and does not put its own instance in that one's place.
func TestLateProbe(t *testing.T) {
	path := t.TempDir() + "/socket"
	spec := Spec{Name: "late", Kind: Authorizer, Connect: "unix://" + path, StartTimeout: time.Minute}
	r := &replica{p: &Plugin{spec: spec}, begun: make(chan struct{})}
	close(r.begun)
	attempt, over := context.WithCancel(context.Background())
	over()
	if _, err := r.command(); err != nil {
		t.Fatal(err)
	}
	next, running := r.birth, &instance{}
	r.now.Store(running)
	old, ended := supervise.Outside("old", func(bool) {})
	ended(nil)
	if err := r.probe(attempt, old); err == nil {
		t.Error("a probe of what has ended went well")
	}
	if r.birth != next || next == nil {
		t.Error("it took what the next process was born with")
	}
	if r.use(attempt, &instance{}) || r.now.Load() != running {
		t.Error("it put its own instance in use")
	}
	if !r.use(context.Background(), &instance{}) || r.takeBirth(context.Background()) != next {
		t.Error("the next one cannot take its own")
	}
	r.p.sessions.Wait()
}

// TestWhatIsToldOfAReplica: a plugin that says it cannot serve is shown as such, and what it answered before counts no
// more; at the end its streams are over before it is asked to end.
func TestWhatIsToldOfAReplica(t *testing.T) {
	var told []State
	o := Options{Notify: func(c Change) { told = append(told, c.To) }}.withDefaults()
	r := &replica{p: &Plugin{o: o, cache: newCache(Cache{Entries: 1}), changed: make(chan struct{})},
		shown: supervise.StateProbing}
	in := &instance{Session: &Session{}}
	in.ctx, in.stop = context.WithCancelCause(context.Background())
	r.now.Store(in)
	r.moved(in) // it does not serve, and nobody was told that it does
	r.notify(supervise.Change{To: supervise.StateReady})
	for range 2 {
		r.moved(in)
	}
	if r.p.cache.epoch.Load() != 1 {
		t.Errorf("what it said before is kept: epoch %d", r.p.cache.epoch.Load())
	}
	in.serving.Store(true)
	for range 2 {
		r.moved(in)
	}
	r.moved(&instance{}) // an older one
	r.notify(supervise.Change{To: supervise.StateDraining})
	if context.Cause(in.ctx) != errClosed {
		t.Errorf("its streams go on: %v", context.Cause(in.ctx))
	}
	if want := []State{supervise.StateReady, StateUnready, supervise.StateReady,
		supervise.StateDraining}; !slices.Equal(told, want) {
		t.Errorf("told: %v, want %v", told, want)
	}
}

// TestStartingUntilTheHandshake: probing is what comes after it.
func TestStartingUntilTheHandshake(t *testing.T) {
	for mode, want := range map[string]string{"stock": "starting probing ready", "mute": "starting backoff"} {
		changes := make(chan Change, 100)
		s := guestSpec(mode)
		s.StartTimeout = 30 * time.Second
		if mode == "mute" {
			s.StartTimeout = 300 * time.Millisecond
		}
		p, err := Load(t.Context(), Options{Notify: func(c Change) { changes <- c }}, s)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for c := range changes {
			got = append(got, string(c.To))
			if mode == "mute" && c.To == supervise.StateStarting && p.Status().State == supervise.StateProbing {
				t.Error("the status says that it is probed")
			}
			if c.To == supervise.StateReady || c.To == supervise.StateBackoff {
				break
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", mode, got, want)
		}
		if err := p.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}
