package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// voidRig is a store that was told to refuse a command that has landed, on a disk that is full by then.
type voidRig struct {
	*roomRig
	slow *stuck
	base *cuttable
}

func newVoidRig(t *testing.T, cmd func(r *roomRig) Command) *voidRig {
	v := &voidRig{slow: &stuck{}, base: newCuttable()}
	v.roomRig = newRoomRig(t, v.base)
	if err := v.s.Close(); err != nil {
		t.Fatal(err)
	}
	v.set.Delay, v.set.Stall, v.set.SealBytes = v.slow.delay, time.Hour, 8<<10
	v.start()
	c := cmd(v.roomRig)
	v.slow.stop()
	refused := make(chan error, 1)
	go func() { refused <- v.commit(c) }()
	<-v.slow.begun
	v.leave(900_000)
	v.s.seq.look(v.clock.advance(2 * time.Hour))
	if err := <-refused; err == nil {
		t.Fatal("it is not refused")
	}
	v.slow.goOn()
	healthyAgain(t, v.s)
	return v
}

// undone kills, and gives what undoes it.
func undone(r *roomRig) Command {
	r.must(r.kill("bad", false))
	return r.kill("bad", true)
}

// goOn lets the test end with a store that works.
func (v *voidRig) goOn() {
	v.leave(80 * mib)
	v.start()
}

// TestAKeptMarkCountsOnce: what a stop has synced says nothing of what comes behind the next start.
func TestAKeptMarkCountsOnce(t *testing.T) {
	v := newVoidRig(t, undone)
	if err := v.s.Close(); err != nil {
		t.Fatal(err)
	}
	left := &cuttable{MemFS: v.base.ended()}
	s, err := Open(settings(left, v.clock, func(err error) { t.Error(err) }))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(context.Background(), &Note{Type: "answered", By: system}); err != nil {
		t.Fatal(err)
	}
	answered := s.Seq()
	cut := left.CrashClone(vfs.CrashCloneCfg{RNG: rand.New(rand.NewPCG(1, 1))}) // only what is synced
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	set := settings(cut, v.clock, func(err error) { t.Error(err) })
	set.Boot = anotherBoot
	if s, err = Open(set); err != nil {
		t.Fatal(err)
	}
	if s.Seq() != answered {
		t.Errorf("%d records were answered, and %d are there", answered, s.Seq())
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	v.goOn()
}

// TestAVoidTrimTakesNoFiles: a start cuts it off, and needs the records.
func TestAVoidTrimTakesNoFiles(t *testing.T) {
	v := newVoidRig(t, func(r *roomRig) Command {
		for len(r.s.sealedNow()) < 3 {
			r.must(&Note{Type: "note", By: system})
		}
		return &Trim{Through: r.s.Seq() - 5, Reason: "max_age"}
	})
	_ = v.commit(&Asked{Decision: "dec_none"}) // another batch
	if err := v.s.records.seal(); err != nil {
		t.Fatal(err)
	}
	v.s.tidier.close()
	v.s.tidier = newTidier(v.s)
	v.s.tidier.start()
	if r := v.s.records.untidy(); r != nil {
		t.Errorf("records %d to %d are about to go", r.FirstSeq, r.NextSeq-1)
	}
	s, err := Open(settings(v.base.ended(), v.clock, nil))
	if err != nil {
		t.Fatal(err)
	}
	if s.First() != 1 {
		t.Errorf("the log begins with record %d", s.First())
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	v.leave(80 * mib)
	v.must(&Note{Type: "tick", By: system})
}

// TestAHangOfAFullDisk: nothing has landed, so reads are answered.
func TestAHangOfAFullDisk(t *testing.T) {
	r := newRoomRig(t, vfs.NewMem())
	r.leave(1000)
	r.must(Barrier{Key: r.k})
	r.s.seq.mu.Lock()
	r.s.seq.late = append(r.s.seq.late, &ticket{cmd: Barrier{Key: r.k}}) // a read that was refused in a hang
	r.s.seq.mu.Unlock()
	if err := r.commit(Barrier{Key: r.k}); err != nil {
		t.Errorf("a read: %v", err)
	}
	r.leave(80 * mib)
}

// TestAStopWithAFlushAtTheGate: a stop does not wait for what nobody will be shown.
func TestAStopWithAFlushAtTheGate(t *testing.T) {
	v := newVoidRig(t, undone)
	if _, err := v.s.db.AsyncFlush(); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { return v.s.db.Metrics().Flush.NumInProgress != 0 })
	if err := v.s.Close(); err != nil {
		t.Fatal(err)
	}
	set := settings(v.base.ended(), v.clock, nil)
	set.Boot = anotherBoot
	s, err := Open(set)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Kills()) != 1 {
		t.Error("the kill is gone")
	}
	if err := errors.Join(consistent(s), s.Close()); err != nil {
		t.Error(err)
	}
	v.goOn()
}

// TestADiskThatIsSlowForLong: each sync takes longer than answers wait, and the process ends. All of it is cut off.
func TestADiskThatIsSlowForLong(t *testing.T) {
	base := newCuttable()
	l := newLaterRigOn(t, base)
	size := l.s.Seq()
	l.disk.stop()
	go func() { _ = l.s.Commit(context.Background(), &Note{Type: "n", By: system}) }()
	<-l.disk.begun
	l.s.seq.look(l.clock.advance(time.Hour))
	for range mostCut + 6 {
		one := &ticket{cmd: &Note{Type: "q", By: system}, done: make(chan struct{}, 1), bytes: 1}
		l.s.seq.mu.Lock() // as a caller does between a batch that lands and the next one
		err := l.s.seq.queue.add(one, &l.s.set)
		l.s.seq.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		l.disk.oneMore()
		<-l.disk.begun
		l.s.seq.look(l.clock.advance(time.Hour))
		if <-one.done; one.err == nil {
			t.Fatal("it is answered")
		}
	}
	ended := base.ended()
	l.disk.goOn()
	healthyAgain(t, l.s)
	s, err := Open(settings(ended, l.clock, nil))
	if err != nil {
		t.Fatal(err)
	}
	if s.Seq() != size {
		t.Errorf("%d records, want %d", s.Seq(), size)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestADamagedHeadKeepsTheLog: what it would say is not cut off in front of the refusal.
func TestADamagedHeadKeepsTheLog(t *testing.T) {
	base := newCuttable()
	r := &rig{t: t, fs: base, clock: newClock()}
	r.open()
	r.must(&Note{Type: "one", By: system})
	mark := read(t, base, "data/log/mark")
	r.must(&Note{Type: "two", By: system})
	records := r.s.InHead()
	fs := base.ended()
	r.close()
	head := read(t, fs, "data/log/head")
	write(t, fs, "data/log/mark", mark)
	write(t, fs, "data/log/head", make([]byte, len(head)))
	_, err := Open(settings(fs, r.clock, nil))
	if err == nil || !strings.Contains(err.Error(), "data/log/head is damaged") {
		t.Errorf("got %v", err)
	}
	write(t, fs, "data/log/head", head)
	s, err := Open(settings(fs, r.clock, nil))
	if err != nil {
		t.Fatal(err)
	}
	if s.Seq() != records {
		t.Errorf("%d records of %d", s.Seq(), records)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestRestoreKnowsAVoidUndo: the kill was in effect all the time. Where records behind an undo are missing, nobody
// knows.
func TestRestoreKnowsAVoidUndo(t *testing.T) {
	l := newLaterRig(t)
	at := l.s.Seq()
	l.must(&KillSwitch{Kill: Kill{Scope: KillAgent, Target: "agent", Reason: "why"}, By: system})
	l.late(&KillSwitch{Kill: Kill{Scope: KillAgent, Target: "agent"}, By: system, Undo: true})
	l.must(&KillSwitch{Kill: Kill{Scope: KillAgent, Target: "other"}, By: system})
	l.must(&KillSwitch{Kill: Kill{Scope: KillAgent, Target: "other"}, By: system, Undo: true})
	listed := func(n *Since) (out []string) {
		rows, err := n.replayTaken(l.s, system, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			out = append(out, row.What)
		}
		return out
	}
	n := NewSince(&Manifest{Seq: at, StoreID: l.s.ID()})
	n.Salvaged()
	if err := l.s.Records(at+1, n.Record); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(listed(n), ", "); got != "agent agent" {
		t.Errorf("listed: %s", got)
	}
	n.Lost(l.s.Seq() + 1)
	if got := strings.Join(listed(n), ", "); got != "agent agent, agent other" {
		t.Errorf("with a record that is missing: %s", got)
	}
}
