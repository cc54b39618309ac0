package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/yett-dev/yett/core/testkit"
)

// landedAndEnded commits in one batch that lands and is refused, and gives what is left when the process ends before
// anything of it is taken back.
func (l *laterRig) landedAndEnded(base *cuttable, cmds ...Command) *vfs.MemFS {
	l.t.Helper()
	l.disk.stop()
	go func() { _ = l.s.Commit(context.Background(), &Note{Type: "first", By: system}) }()
	<-l.disk.begun
	var all sync.WaitGroup
	for i, c := range cmds {
		all.Go(func() { _ = l.s.Commit(context.Background(), c) })
		until(l.t, func() bool { return l.waiting() >= i+1 })
	}
	l.disk.oneMore()
	<-l.disk.begun // all of them in one batch
	l.s.seq.look(l.clock.advance(time.Hour))
	all.Wait()
	l.disk.oneMore()
	<-l.disk.begun
	for range 3 { // by then the sealer has looked at what is to be done, and done it
		l.s.records.wake <- struct{}{}
	}
	ended := base.ended()
	l.disk.goOn()
	healthyAgain(l.t, l.s)
	return ended
}

// takenIn gives the records of a type, from seq on.
func (r *rig) takenIn(from uint64, typ string) (out []taken) {
	r.t.Helper()
	err := r.s.Records(from, func(_ uint64, rec []byte) error {
		var x taken
		if err := json.Unmarshal(rec, &x); err != nil {
			return err
		}
		if x.Type == typ {
			out = append(out, x)
		}
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// TestRevokeAndMake: a key is revoked, and another one is made under its name, before either is on disk in time. That
// is no roll: the revocation stands.
func TestRevokeAndMake(t *testing.T) {
	base := newCuttable()
	l := newLaterRigOn(t, base)
	name := l.agent.Name
	l.startOn(l.landedAndEnded(base, &RevokeKey{ID: "agent", By: system},
		&CreateKey{Key: &Key{ID: "new", Name: name, Scopes: []string{"authorize"}}, By: system}))
	if l.s.Key("agent").Revocation() == nil {
		t.Error("the revoke is lost")
	}
	if l.s.Key("new") != nil {
		t.Error("a key that nobody was given is there")
	}
}

// TestARollIsNoRevoke: it is undone as a whole.
func TestARollIsNoRevoke(t *testing.T) {
	base := newCuttable()
	l := newLaterRigOn(t, base)
	l.pending("x") // the roll denies it, between the two records of the keys
	l.startOn(l.landedAndEnded(base, &RollKey{ID: "agent", New: &Key{ID: "new"}, By: system}))
	if l.s.Key("agent").Revocation() != nil || l.s.Key("new") != nil {
		t.Error("a half of a roll is there")
	}
}

// TestRevokeWithGraceIsDoneAgain: as it was, on whose word it was.
func TestRevokeWithGraceIsDoneAgain(t *testing.T) {
	base := newCuttable()
	l := newLaterRigOn(t, base)
	who := Who{Principal: "console:ann", Method: "console", Surface: "console", Peer: "127.0.0.1", RequestID: "req_1",
		Trace: strings.Repeat("ab", 16), Note: "on behalf of ben"}
	at := l.clock.Now().Add(3 * time.Hour)
	l.startOn(l.landedAndEnded(base, &RevokeKey{ID: "agent", Grace: 3 * time.Hour, By: who}))
	r := l.s.Key("agent").revoked.Load()
	if r == nil || !r.At.Equal(at) {
		t.Errorf("revoked: %+v, want at %v", r, at)
	}
	got := l.takenIn(1, "key_revoked")
	if len(got) != 1 || got[0].by() != who || !got[0].RevokedAt.Equal(at) {
		t.Errorf("records %+v", got)
	}
}

// TestWithdrawalIsDoneAgain: with the standing grant that the approval had made.
func TestWithdrawalIsDoneAgain(t *testing.T) {
	base := newCuttable()
	l := newLaterRigOn(t, base)
	token := l.pending("x")
	yes := l.longYes(token)
	yes.Grant, yes.NewGrant = &GrantAsk{TTL: 24 * time.Hour}, "stg_of_it"
	l.must(yes)
	no := l.answer(l.boss, token, false)
	no.Withdraw = true
	l.startOn(l.landedAndEnded(base, no))
	if got := l.status(l.agent, token); got != Denied {
		t.Errorf("it is %s", got)
	}
	if yes.Out.Granted != "" && l.s.grants.byID["stg_of_it"] != nil {
		t.Error("the grant stands")
	}
}

// TestSignOutIsDoneAgain: before anybody reads the sessions.
func TestSignOutIsDoneAgain(t *testing.T) {
	base := newCuttable()
	l := newLaterRigOn(t, base)
	l.add("ann", RoleAdmin)
	for n := range 2 {
		l.must(&PutSession{In: l.o, Session: Session{IDHash: [32]byte{byte(n + 1)}, Operator: "ann",
			Created: l.clock.Now(), Seen: l.clock.Now()}, By: system})
	}
	ended := l.landedAndEnded(base, &EndSession{In: l.o, ID: [32]byte{1}, Why: "signed_out", By: system})
	l.close()
	l.fs = ended
	l.open()
	var rows []string
	err := l.s.scan(prefixSession, func(key, _ []byte) error { rows = append(rows, string(key[1:])); return nil })
	if err != nil || len(rows) != 1 || rows[0][0] != 2 {
		t.Errorf("sessions %x: %v", rows, err)
	}
	if got := l.takenIn(1, "console_sign_out"); len(got) != 1 || got[0].Why != "signed_out" {
		t.Errorf("records %+v", got)
	}
}

// TestAStartThatEndsForgetsNothing: the start that cuts commits off ends too, at any moment, again and again. What was
// taken away is taken away in the end, and what was given is not.
func TestAStartThatEndsForgetsNothing(t *testing.T) {
	first := newCuttable()
	l := newLaterRigOn(t, first)
	token := l.pending("x")
	left := l.landedAndEnded(first, &KillSwitch{Kill: Kill{Scope: KillAgent, Target: "mallory"}, By: system},
		&RevokeKey{ID: "ward", By: system}, l.answer(l.boss, token, false),
		&CreateKey{Key: &Key{ID: "new", Name: "new", Scopes: []string{"authorize"}}, By: system})
	right := func(fs vfs.FS) (err error) {
		s, err := Open(settings(fs, l.clock, nil))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, consistent(s), s.Close()) }()
		switch {
		case len(s.Kills()) != 1:
			return errors.New("the kill is lost")
		case s.Key("ward").Revocation() == nil:
			return errors.New("the revoke is lost")
		case s.seq.state.live[token] != nil:
			return errors.New("the denial is lost")
		case s.Key("new") != nil:
			return errors.New("a key that nobody was given is there")
		}
		return nil
	}
	ops := 0
	var ends func(from *vfs.MemFS, depth int) error
	ends = func(from *vfs.MemFS, depth int) (failure error) {
		base := &cuttable{MemFS: from}
		at := 0
		look := &looker{look: func(errorfs.Op) {
			if at++; failure != nil || depth == 0 && at%testkit.Rounds(3, 9) != 0 {
				return
			}
			ops++
			ended := base.ended()
			if depth > 0 {
				failure = ends(ended, depth-1)
			} else {
				failure = right(ended)
			}
			if failure != nil {
				failure = fmt.Errorf("it ends at operation %d: %w", at, failure)
			}
		}}
		s, err := Open(settings(look.on(base), l.clock, nil))
		look.over()
		if err == nil {
			err = s.Close()
		}
		return errors.Join(failure, err)
	}
	if err := ends(left, 1); err != nil || ops < 50 {
		t.Errorf("%d operations: %v", ops, err)
	}
}

// TestATrimThatNobodyWasToldOf: it is seen at once, and its files stay until nothing can take it back.
func TestATrimThatNobodyWasToldOf(t *testing.T) {
	base := newCuttable()
	l := newLaterRigOn(t, base)
	for sealed := 0; sealed < 4; {
		l.must(&Note{Type: "note", By: system})
		all, _ := l.s.records.now()
		sealed = len(all)
	}
	before := l.s.Seq()
	left := l.landedAndEnded(base, &Trim{Through: before - 1, Reason: "max_age"})
	l.startOn(left)
	if got := l.s.First(); got != 1 {
		t.Errorf("the first record is %d, and nobody was told of a trim", got)
	}
	if err := consistent(l.s); err != nil {
		t.Error(err)
	}
}
