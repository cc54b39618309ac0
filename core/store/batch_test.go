package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/yett-dev/yett/sdk"
)

// gate holds a store's next sync back until it is let go, so that what is committed meanwhile ends up in one batch.
type gate struct {
	mu   sync.Mutex
	hold chan struct{} // not nil: syncs wait for it
	held chan struct{} // a sync has begun to wait
}

func (g *gate) delay() {
	g.mu.Lock()
	hold, held := g.hold, g.held
	g.mu.Unlock()
	if hold != nil {
		select {
		case held <- struct{}{}:
		default:
		}
		<-hold
	}
}

// together runs the commands in one batch and gives their errors.
func (g *gate) together(t *testing.T, s *Store, cmds ...Command) []error {
	t.Helper()
	g.mu.Lock()
	g.hold, g.held = make(chan struct{}), make(chan struct{}, 1)
	g.mu.Unlock()
	errs := make([]error, len(cmds)+1)
	var wg sync.WaitGroup
	commit := func(i int, c Command) {
		wg.Go(func() { errs[i] = s.Commit(context.Background(), c) })
	}
	commit(len(cmds), &Note{Type: "test", By: system})
	<-g.held
	for i, c := range cmds {
		commit(i, c)
		for queued := 0; queued != i+1; { // in this order
			s.seq.mu.Lock()
			queued = s.seq.queue.len()
			s.seq.mu.Unlock()
		}
	}
	g.mu.Lock()
	close(g.hold)
	g.hold = nil
	g.mu.Unlock()
	wg.Wait()
	return errs[:len(cmds)]
}

func openGated(t *testing.T) (*Store, *gate) {
	t.Helper()
	g := &gate{}
	n := 0
	s, err := Open(Settings{Dir: "data", FS: vfs.NewMem(), Now: time.Now, NewID: func() string {
		n++
		return fmt.Sprint("sto_", n)
	}, Log: t.Logf,
		OnFatal: func(err error) { t.Errorf("fatal: %v", err) }, Delay: g.delay, Stall: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, g
}

func newKey(t *testing.T, s *Store, id string, scopes ...string) *Key {
	t.Helper()
	k := &Key{ID: id, Name: id, Scopes: scopes, MAC: []byte(id)}
	if err := s.Commit(context.Background(), &CreateKey{Key: k, By: system}); err != nil {
		t.Fatal(err)
	}
	return k
}

func deferred(t *testing.T, s *Store, k *Key, token string) {
	t.Helper()
	c := ask(k, token, sdk.Defer)
	c.Defer.Token, c.Defer.View = token, []byte(`{}`)
	if err := s.Commit(context.Background(), c); err != nil || c.Out.Effect != sdk.Defer || c.Out.Token != token {
		t.Fatalf("defer: %v %+v", err, c.Out)
	}
}

// ask is a call whose digest is made from a name.
func ask(k *Key, name string, effect sdk.Effect) *Decide {
	c := &Decide{DecideCall: DecideCall{ID: "dec-" + name,
		Call:   Call{Key: k, By: system, AgentID: "agent", ToolID: "tool", CallID: "call-" + name},
		Policy: PolicyOutcome{Version: "p", Verdict: sdk.Verdict{Effect: effect, Code: "RULE"}},
		Defer:  NewDefer{TTL: time.Hour}, Limits: CallLimits{MaxPending: 10}}}
	copy(c.Digest[:], name)
	return c
}

func redeem(k *Key, name string) *Decide {
	c := ask(k, name, sdk.Defer)
	c.Redeem.Token = name
	return c
}

// What one batch has ended is ended for the rest of the same batch, although the rows on disk say otherwise.
func TestOneBatchHasOneWinner(t *testing.T) {
	s, g := openGated(t)
	agent, boss := newKey(t, s, "agent-key", "authorize"), newKey(t, s, "boss-key", "approve")
	answer := func(token string, yes bool) *Approve {
		return &Approve{ApproveCall: ApproveCall{Token: token, Key: boss, By: system, Yes: yes, ApprovedTTL: time.Hour}}
	}
	t.Run("deny then approve", func(t *testing.T) {
		deferred(t, s, agent, "one")
		errs := g.together(t, s, answer("one", false), answer("one", true), redeem(agent, "one"))
		var e *sdk.Error
		if errs[0] != nil || !errors.As(errs[1], &e) || e.Code != sdk.CodeAlreadyResolved {
			t.Errorf("got %v", errs)
		}
	})
	t.Run("redeem twice", func(t *testing.T) {
		deferred(t, s, agent, "two")
		if err := s.Commit(context.Background(), answer("two", true)); err != nil {
			t.Fatal(err)
		}
		first, second := redeem(agent, "two"), redeem(agent, "two")
		if errs := g.together(t, s, first, second); errors.Join(errs...) != nil {
			t.Fatal(errs)
		}
		if first.Out.Effect != sdk.Permit || second.Out.Effect != sdk.Deny || second.Out.Code != sdk.ReasonApprovalMismatch {
			t.Errorf("first %+v\nsecond %+v", first.Out, second.Out)
		}
	})
	t.Run("revoke then use", func(t *testing.T) {
		k := newKey(t, s, "short-lived", "authorize")
		errs := g.together(t, s, &RevokeKey{ID: k.ID, By: system}, ask(k, "late", sdk.Permit))
		var e *sdk.Error
		if errs[0] != nil || !errors.As(errs[1], &e) || e.Code != sdk.CodeKeyRevoked {
			t.Errorf("got %v", errs)
		}
	})
	t.Run("the same call twice", func(t *testing.T) {
		one, two := ask(agent, "three", sdk.Permit), ask(agent, "three", sdk.Permit)
		one.Names.Hashes, two.Names.Hashes = [][16]byte{{3}}, [][16]byte{{3}}
		two.ID = "dec-other"
		other := ask(agent, "another call", sdk.Permit)
		other.Names.Hashes = [][16]byte{{3}}
		if errs := g.together(t, s, one, two, other); errors.Join(errs...) != nil {
			t.Fatal(errs)
		}
		if one.Out.Repeat || !two.Out.Repeat || two.Out.DecisionID != one.Out.DecisionID ||
			other.Out.Code != sdk.ReasonCallIDConflict {
			t.Errorf("%+v\n%+v\n%+v", one.Out, two.Out, other.Out)
		}
	})
}
