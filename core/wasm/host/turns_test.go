package host

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/testkit/wasmgen"
)

// Keys take turns: one that waits is not behind all that another key has waiting. So do new calls and others.
func TestTurnsGoRoundKeys(t *testing.T) {
	for name, c := range map[string]struct {
		fresh string // keys whose calls are new
		want  string
	}{
		"calls that had turns": {"", "abcaa"},
		"new calls":            {"abc", "abcaa"},
		"new calls of one key": {"a", "abaca"},
		"one new call":         {"c", "cabaa"},
	} {
		t.Run(name, func(t *testing.T) {
			m, ctx, late := newTurns(1), context.Background(), time.Now().Add(time.Hour)
			if !m.acquireTurn(ctx, "a", true, late) {
				t.Fatal("no turn")
			}
			got := make(chan string)
			for i, key := range []string{"a", "a", "a", "b", "c"} {
				go func() {
					m.acquireTurn(ctx, key, strings.Contains(c.fresh, key), late)
					got <- key
				}()
				waitFor(func() bool { return m.waiting.Load() == int32(i+1) })
			}
			gone, cancel := context.WithCancel(ctx)
			cancel()
			if m.acquireTurn(gone, "d", true, late) || m.acquireTurn(ctx, "e", false, time.Now()) {
				t.Error("a turn for who has gone")
			}
			order := ""
			for range 5 {
				m.releaseTurn()
				order += <-got
			}
			if order != c.want {
				t.Errorf("turns went to %s, want %s", order, c.want)
			}
			m.releaseTurn()
			left := m.waiting.Load() + m.fresh.Load()
			for _, l := range m.lines {
				left += int32(len(l.order) + len(l.queues))
			}
			if m.free != 1 || left != 0 {
				t.Errorf("left: %+v", m)
			}
		})
	}
}

// A call makes room when its turn is over, and at once for a new call when it is none itself.
func TestWhoMakesRoom(t *testing.T) {
	for name, c := range map[string]struct {
		had, now       time.Duration
		waiting, fresh int32
		want           bool
	}{
		"nobody waits":                 {time.Hour, time.Hour, 0, 0, false},
		"its turn is over":             {0, turnTime, 1, 0, true},
		"it has a turn":                {time.Hour, 0, 1, 0, false},
		"it is new, and so who waits":  {0, 0, 1, 1, false},
		"who waits is new":             {time.Hour, 0, 2, 1, true},
		"a new one, behind a new turn": {0, turnTime, 1, 1, true},
	} {
		m := newTurns(1)
		m.waiting.Store(c.waiting)
		m.fresh.Store(c.fresh)
		// The clock goes on: a turn that has just begun began a little in the future here.
		begun := time.Now().Add(time.Minute - c.now)
		if c.now > 0 {
			begun = time.Now().Add(-c.now)
		}
		if got := m.over(c.had, begun); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Where a long call lost time to others, only new calls get turns for a while, if other keys call; then it goes on.
func TestLongCallsRest(t *testing.T) {
	ctx, late := context.Background(), time.Now().Add(time.Hour)
	gone, cancel := context.WithCancel(ctx)
	cancel()
	for name, c := range map[string]struct {
		callers string
		rests   bool
	}{
		"nobody else has called":        {"aa", false},
		"another key has called":        {"ab", true},
		"another key had called before": {"ba", true},
		"another one, before many":      {"baaaa", true},
	} {
		t.Run(name, func(t *testing.T) {
			m := newTurns(1)
			for _, key := range c.callers {
				if !m.acquireTurn(ctx, string(key), true, late) {
					t.Fatal("no turn")
				}
				m.releaseTurn()
			}
			m.rest("a", time.Hour)
			m.rest("a", time.Minute) // changes nothing
			if got := m.acquireTurn(gone, "a", false, late); got == c.rests {
				t.Errorf("a long call has a turn: %v", got)
			} else if got {
				m.releaseTurn()
			}
			went := make(chan bool)
			if !m.acquireTurn(ctx, "b", true, late) {
				t.Fatal("a new call has no turn")
			}
			go func() { went <- m.acquireTurn(ctx, "a", false, late) }()
			waitFor(func() bool { return m.waiting.Load() == 1 })
			m.releaseTurn()
			if c.rests {
				m.mu.Lock()
				if m.free != 1 || m.waking == nil {
					t.Errorf("while it rests: %+v", m)
				}
				m.rested = time.Now()
				m.waking.Reset(0)
				m.mu.Unlock()
			}
			if !<-went {
				t.Error("no turn after the rest")
			}
			m.releaseTurn()
			if m.free != 1 || m.waiting.Load() != 0 {
				t.Errorf("left: %+v", m)
			}
		})
	}
	m := newTurns(1)
	m.callers[0] = caller{"b", time.Now().Add(-lately)}
	if m.rest("a", time.Hour); !m.rested.IsZero() {
		t.Error("it rests for a key that no longer calls")
	}
}

// A call keeps its turn between the exports that it runs, and gives it back in the end, whatever became of it.
func TestACallIsOneTurn(t *testing.T) {
	in, err := load(t, finder(), nil).start(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer in.close()
	all := func() int {
		machine.mu.Lock()
		defer machine.mu.Unlock()
		return machine.free
	}
	before := all()
	c := loose(in, scanning)
	if _, err := in.room(c, 8); err != nil {
		t.Fatal(err)
	}
	begun := c.turn
	if begun.IsZero() {
		t.Error("the turn ended with the export")
	}
	if _, err := in.room(c, 8); err != nil || c.turn != begun {
		t.Errorf("the second export began another turn: %v", err)
	}
	c.leave()
	c.leave()
	if now := all(); now != before {
		t.Errorf("%d turns are free, %d were", now, before)
	}
}

// Calls of one key that never end keep neither another key's calls nor masking from a module, in this process and in a
// worker.
func TestOneKeysSlowCallsLeaveOthersAlone(t *testing.T) {
	code := wasmgen.Armed(wasmgen.Cat(wasmgen.Forever(), wasmgen.FindBody())).Encode()
	spec := Spec{Name: "m", Code: code, Instances: 1, Timeout: MaxTimeout, Fuel: MaxFuel}
	h := newHost(t, Options{})
	inside, err := h.Load(context.Background(), spec)
	if err != nil {
		t.Fatal(err)
	}
	worker, err := h.Spawn(context.Background(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = worker.Close(context.Background()) })
	for name, c := range map[string]struct {
		s     chain.Scanner
		inUse func() int
	}{"inproc": {inside, inside.places.InUse}, "worker": {worker, worker.places.InUse}} {
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 3)
		for range 3 {
			go func() {
				_, err := c.s.Scan(ctx, &chain.Input{Text: wasmgen.Trigger + "some text that is long", KeyID: "slow"})
				ended <- err
			}()
		}
		waitFor(func() bool { return c.inUse() == 1 })
		for range 20 {
			if _, err := c.s.Scan(context.Background(), &chain.Input{Text: "some other text, for short", KeyID: "quick"}); err !=
				nil {
				t.Errorf("%s: another key's scan: %v", name, err)
			}
			if _, err := c.s.Scan(context.Background(),
				&chain.Input{Text: "some other text, for short", KeyID: "slow", Masking: true}); err != nil {
				t.Errorf("%s: the same key's masking: %v", name, err)
			}
		}
		if len(ended) > 0 {
			t.Errorf("%s: a slow call ended: %v", name, <-ended)
		}
		stop()
		for range 3 {
			if err := <-ended; err == nil {
				t.Errorf("%s: a call that never ends has ended", name)
			}
		}
	}
}
