package store

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/yett-dev/yett/sdk"
)

// TestLateOnAFullDisk: a batch is refused, lands, and the disk is full by then, so that nothing can take it back. It
// binds nobody all the same: nobody is shown it, and a start cuts it off, however the process ends.
func TestLateOnAFullDisk(t *testing.T) {
	for name, end := range map[string]func(r *roomRig, base *cuttable) (left vfs.FS, boot string){
		"the process ends": func(_ *roomRig, base *cuttable) (vfs.FS, string) { return base.ended(), thisBoot },
		"it is stopped": func(r *roomRig, base *cuttable) (vfs.FS, string) {
			if err := r.s.Close(); err != nil {
				r.t.Error(err)
			}
			return base.ended(), thisBoot
		},
		"it is stopped, and the power is cut": func(r *roomRig, base *cuttable) (vfs.FS, string) {
			if err := r.s.Close(); err != nil {
				r.t.Error(err)
			}
			return base.CrashClone(vfs.CrashCloneCfg{RNG: rand.New(rand.NewPCG(1, 1))}), anotherBoot
		},
		"there is room again": nil,
	} {
		t.Run(name, func(t *testing.T) {
			base := newCuttable()
			r := newRoomRig(t, base)
			if err := r.s.Close(); err != nil {
				t.Fatal(err)
			}
			slow := &stuck{}
			r.set.Delay, r.set.Stall = slow.delay, time.Hour
			r.start()
			boss := r.key("key_boss", nil, "approve")
			waits := r.deferred(r.s.Key("key_a"), "a", sdk.Verdict{})
			r.must(r.kill("bad", false))
			size := r.s.Seq()

			slow.stop()
			refused := make(chan error, 2)
			go func() { refused <- r.commit(r.kill("bad", true)) }()
			<-slow.begun
			r.leave(900_000)
			r.s.seq.look(r.clock.advance(2 * time.Hour))
			if err := <-refused; codeOf(err) != sdk.CodeAuditUnavailable {
				t.Fatalf("the undo: %v", err)
			}
			slow.goOn() // it lands
			healthyAgain(t, r.s)
			if got := codeOf(r.commit(&DeferStatus{Token: waits, Key: boss})); got != sdk.CodeAuditUnavailable {
				t.Errorf("a read of what nobody was given: %q", got)
			}
			if got := r.s.Seq(); got != size || len(r.s.Kills()) != 1 {
				t.Errorf("%d records are seen, want %d; %d kills", got, size, len(r.s.Kills()))
			}
			if end == nil {
				r.leave(80 * mib)
				r.must(&Note{Type: "tick", By: system})
				if len(r.s.Kills()) != 1 || r.denials("") != 0 {
					t.Error("the undo stands")
				}
				if err := consistent(r.s); err != nil {
					t.Error(err)
				}
				return
			}
			left, boot := end(r, base)
			set := settings(left, r.clock, nil)
			set.Boot = boot
			s, err := Open(set)
			if err != nil {
				t.Fatal(err)
			}
			if len(s.Kills()) != 1 || s.Seq() != size {
				t.Errorf("after the start %d kills, %d records; want 1, %d", len(s.Kills()), s.Seq(), size)
			}
			if err := errors.Join(consistent(s), s.Close()); err != nil {
				t.Error(err)
			}
			r.leave(80 * mib)
		})
	}
}

// TestReadsOfAFullDisk: they change nothing, whatever time has made due.
func TestReadsOfAFullDisk(t *testing.T) {
	r := newRoomRig(t, vfs.NewMem())
	boss := r.key("key_boss", []string{"*"}, "approve")
	waits := r.deferred(r.k, "a", sdk.Verdict{})
	limited := r.permit() // what is counted and remembered of it is over by then
	limited.Names.Hashes = [][16]byte{{7}}
	limited.Limits.Charges = []Charge{charge(sdk.LimitRate, "agent", "1", "1", time.Minute)}
	r.must(limited)
	r.leave(1000)
	r.clock.advance(48 * time.Hour)
	status := &DeferStatus{Token: waits, Key: r.k}
	list := &ListPending{Key: boss, Most: 10}
	for _, c := range []Command{status, list, &Asked{Decision: "dec_none"}, Barrier{Key: r.k}} {
		if err := r.commit(c); err != nil && codeOf(err) != sdk.CodeUnknownDefer {
			t.Errorf("%T: %v", c, err)
		}
	}
	r.refused(&LookAt{Token: waits, Key: boss}, sdk.CodeDeferExpired)
	if status.Out.Status != Expired || len(list.Out.Calls) != 0 {
		t.Errorf("it is %s, %d wait", status.Out.Status, len(list.Out.Calls))
	}
	if n := r.disk.refusals(); n != 0 {
		t.Errorf("%d writes were refused", n)
	}
	r.leave(80 * mib)
	r.must(&Note{Type: "tick", By: system})
	if got := r.last(); got != "defer_expired" && got != "tick" {
		t.Errorf("the newest record is %s", got)
	}
}

// TestADiskThatHangs: when it is asked how much is free, whoever asks: callers are refused in time.
func TestADiskThatHangs(t *testing.T) {
	base := vfs.NewMem()
	r := newRoomRig(t, base)
	hangs := make(chan struct{})
	held := make(chan struct{})
	go func() { // the watcher, in the middle of a look
		r.s.room.mu.Lock()
		close(held)
		<-hangs
		r.s.room.mu.Unlock()
	}()
	<-held
	done := make(chan error, 1)
	go func() { done <- r.commit(r.permit()) }()
	until(t, func() bool { return r.s.seq.since.Load() != 0 })
	r.s.seq.look(r.clock.advance(2 * time.Hour))
	if got := codeOf(<-done); got != sdk.CodeAuditUnavailable {
		t.Errorf("got %q", got)
	}
	close(hangs)
	healthyAgain(t, r.s)
	r.must(&Note{Type: "tick", By: system})
}
