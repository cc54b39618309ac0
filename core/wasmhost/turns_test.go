package wasmhost

import (
	"context"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/wasmcheck/wasmgen"
)

// Keys take turns: one that waits is not behind all that another key has waiting.
func TestTurnsGoRoundKeys(t *testing.T) {
	m, ctx, late := newTurns(1), context.Background(), time.Now().Add(time.Hour)
	if !m.take(ctx, "a", late) {
		t.Fatal("no turn")
	}
	got := make(chan string)
	for i, key := range []string{"a", "a", "a", "b", "c"} {
		go func() {
			m.take(ctx, key, late)
			got <- key
		}()
		waitFor(func() bool { return m.waiting.Load() == int32(i+1) })
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if m.take(gone, "d", late) || m.take(ctx, "e", time.Now()) {
		t.Error("a turn for who has gone")
	}
	order := ""
	for range 5 {
		m.give()
		order += <-got
	}
	if order != "abcaa" {
		t.Errorf("turns went to %s", order)
	}
	if m.give(); m.free != 1 || len(m.order)+len(m.queues) != 0 || m.waiting.Load() != 0 {
		t.Errorf("left: %+v", m)
	}
}

// Calls of one key that never end keep neither another key's calls nor masking from a module, in this process and in a worker.
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
			if _, err := c.s.Scan(context.Background(), &chain.Input{Text: "some other text, for short", KeyID: "quick"}); err != nil {
				t.Errorf("%s: another key's scan: %v", name, err)
			}
			if _, err := c.s.Scan(context.Background(), &chain.Input{Text: "some other text, for short", KeyID: "slow", Masking: true}); err != nil {
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
