package prochost

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
)

// Calls of one key that get no answer keep no other key's calls from a plugin, neither by its places nor by its queue.
func TestOneKeysSlowCallsLeaveOthersAlone(t *testing.T) {
	modes(t, func(t *testing.T, mode string) {
		p := loaded(t, guestSpec(mode), Options{}, with(func(s *Spec) { s.MaxInFlight, s.Queue = 2, 3 }))
		ctx, cancel := context.WithCancel(context.Background())
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { p.Check(ctx, &chain.Call{ToolID: "silent", KeyID: "slow"}) })
		}
		until(t, "the queue is full", func() bool { return p.Status().Waiting == 3 })
		for range 20 {
			if v, err := p.Check(context.Background(), &chain.Call{ToolID: "permit", KeyID: "quick"}); err != nil ||
				v.Code == "" {
				t.Fatalf("another key's call: %+v, %v", v, err)
			}
		}
		cancel()
		all.Wait()
	})
}

// Outputs that get no answer keep masking from no place, and masking no output.
func TestMaskingHasItsOwnPlaces(t *testing.T) {
	p := loaded(t, guestSpec("stock"), Options{}, with(func(s *Spec) { s.Kind, s.MaxInFlight = Scanner, 3 }))
	for _, masks := range []bool{false, true} {
		ctx, cancel := context.WithCancel(context.Background())
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { p.Scan(ctx, &chain.Input{ToolID: "silent", KeyID: "slow", Masking: masks}) })
		}
		until(t, "no place is left", func() bool { return p.Status().Waiting == 4-p.of(whose{mask: masks}).InUse() })
		if _, err := p.Scan(context.Background(), &chain.Input{KeyID: "slow", Masking: !masks}); err != nil {
			t.Errorf("beside slow calls (masking: %v): %v", masks, err)
		}
		cancel()
		all.Wait()
	}
}

// That masking was late says nothing of the plugin to its breaker; that an output's scan was late does.
func TestLateMaskingIsNotHeard(t *testing.T) {
	p := loaded(t, guestSpec("stock"), Options{}, func(s *Spec) {
		s.Kind, s.Timeout, s.Breaker = Scanner, 20*time.Millisecond, Breaker{Calls: 2, Delay: time.Hour, Trials: 1}
	})
	for _, masks := range []bool{true, false} {
		for range 4 {
			if _, err := p.Scan(context.Background(), &chain.Input{ToolID: "silent", Masking: masks}); err == nil {
				t.Fatal("an answer")
			}
		}
		if b := p.Status().Breaker; b == "closed" != masks {
			t.Errorf("late (masking: %v) made the breaker %s", masks, b)
		}
	}
}

// TestShares: whatever a plugin takes at once, no more are given, and masking has some of it where there are two.
func TestShares(t *testing.T) {
	for most := 1; most <= 4096; most++ {
		calls, masks := shares(Scanner, most)
		if calls+masks != most || calls < 1 || (masks == 0) != (most == 1) {
			t.Fatalf("%d: %d and %d", most, calls, masks)
		}
	}
	if calls, masks := shares(Authorizer, 64); calls != 64 || masks != 0 {
		t.Errorf("an authorizer masks nothing: %d, %d", calls, masks)
	}
	p := &Plugin{spec: Spec{Kind: Scanner, MaxInFlight: 8}}
	p.makePlaces()
	if p.limitPlaces(1); p.of(whose{mask: true}) != p.of(whose{}) {
		t.Error("a plugin that takes one call at a time gets two")
	}
}
