package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/yett-dev/yett/core/testkit"
)

// TestRefusedAndEnded: a command is refused because the disk stands still, lands, and the process ends before anything
// could take it back. After the next start nothing is given by it, and it can be sent again.
func TestRefusedAndEnded(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(lateCases)) {
		c := lateCases[name]
		if c.make == nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			base := newCuttable()
			l := newLaterRigOn(t, base)
			cmd, check, again := c.make(l)
			size := l.s.Seq()
			l.disk.stop()
			done := make(chan error)
			go func() { done <- l.s.Commit(context.Background(), cmd) }()
			<-l.disk.begun
			l.s.seq.look(l.clock.advance(time.Hour))
			if err := <-done; err == nil {
				t.Fatal("it was not refused")
			}
			if cmd.class() != noting {
				l.disk.oneMore() // it lands, and what would take it back waits
				<-l.disk.begun
			} else {
				l.disk.goOn()
				healthyAgain(t, l.s)
				l.must(&Note{Type: "tick", By: system}) // nothing is being written: a copy takes its time
			}
			ended := base.ended()
			l.disk.goOn()
			healthyAgain(t, l.s)
			l.startOn(ended)
			switch {
			case c.class == taking:
				if !check() {
					t.Error("what was taken away is there again")
				}
				if err := consistent(l.s); err != nil {
					t.Error(err)
				}
				if _, err := l.fs.Stat("data/log/residue"); err == nil {
					t.Error("log/residue is there, and all of it was done again")
				}
				return
			case name == "CreateKey" || name == "RollKey":
				if k := l.s.Key("first"); k != nil {
					t.Errorf("the key that nobody was given is there: %+v", k)
				}
			case c.class != giving: // it may have landed or not
				return
			case name == "Decide, a new action": // there is none: the log, below, has not grown
			case strings.Contains(name, "grant") && strings.HasPrefix(name, "Decide"):
				if g := l.s.grants.byID["stg_1"]; g == nil || g.Uses() != 0 {
					t.Errorf("the grant: %+v", g)
				}
			case !check():
				t.Error("not as it has to be")
			}
			if got := l.s.Seq(); got != size {
				t.Errorf("the log has %d records, want %d", got, size)
			}
			if err := consistent(l.s); err != nil {
				t.Error(err)
			}
			if again != nil && name != "RollKey" {
				l.must(again)
			}
		})
	}
}

// TestKillsAndRevokesOutliveTheProcess: what takes away stands, whatever its caller was told, also when it shares a
// commit with what is void.
func TestKillsAndRevokesOutliveTheProcess(t *testing.T) {
	base := newCuttable()
	l := newLaterRigOn(t, base)
	g := l.granted("agent", 0)
	other := l.key("other", nil, "authorize")
	token := l.pending("x")
	cmds := []Command{l.longYes(token),
		&KillSwitch{Kill: Kill{Scope: KillAgent, Target: "agent", Reason: "why"}, By: system},
		&RevokeKey{ID: other.ID, By: system}, &RevokeGrant{ID: g.ID, By: system},
		&CreateKey{Key: &Key{ID: "new", Name: "new", Scopes: []string{"authorize"}}, By: system}}
	l.disk.stop()
	go func() { _ = l.s.Commit(context.Background(), &Note{Type: "first", By: system}) }()
	<-l.disk.begun
	var all sync.WaitGroup
	for _, c := range cmds {
		all.Go(func() { _ = l.s.Commit(context.Background(), c) })
	}
	until(t, func() bool { return l.waiting() >= len(cmds) })
	l.disk.oneMore()
	<-l.disk.begun // all of them in one batch
	l.s.seq.look(l.clock.advance(time.Hour))
	all.Wait()
	l.disk.oneMore()
	<-l.disk.begun
	ended := base.ended()
	l.disk.goOn()
	healthyAgain(t, l.s)
	l.startOn(ended)
	if l.s.Killed(l.agent, "agent", "", "tool") == nil {
		t.Error("the kill is lost")
	}
	if l.s.Key("other").Revocation() == nil {
		t.Error("the revoke of the key is lost")
	}
	if got := l.s.grants.byID[g.ID]; got != nil && got.Revocation() == nil {
		t.Error("the revoke of the grant is lost")
	}
	if l.s.Key("new") != nil {
		t.Error("a key that nobody was given is there")
	}
	if got := l.status(l.agent, token); got == Approved {
		t.Error("the approval stands")
	}
	if err := consistent(l.s); err != nil {
		t.Error(err)
	}
}

// TestTheEndIsMissed: a log that ends before the answers that have left is no log to go on with, while the machine has
// not been started again.
func TestTheEndIsMissed(t *testing.T) {
	base := newCuttable()
	r := &rig{t: t, fs: base, clock: newClock()}
	r.open()
	r.must(&Note{Type: "one", By: system})
	before := base.ended()
	r.must(&Note{Type: "two", By: system})
	mark := read(t, base, "data/log/mark")
	r.close()
	write(t, before, "data/log/mark", mark)
	set := settings(before, r.clock, nil)
	if _, err := Open(set); err == nil || !strings.Contains(err.Error(), "its end is missing") {
		t.Errorf("it opens: %v", err)
	}
	set.Boot = anotherBoot
	s, err := Open(set)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestProcessEndsAtEveryOperation: the process ends, the machine does not: whatever was answered is there, and nothing
// else than what a start may do again.
func TestProcessEndsAtEveryOperation(t *testing.T) {
	for clients, rounds := range map[int]int{1: 4, 6: 2} {
		if !testkit.Every(1, 2) {
			rounds = 1
		}
		base := newCuttable()
		j := newJournal()
		ops, failure := 0, error(nil)
		l := &looker{look: func(errorfs.Op) {
			if ops++; failure != nil {
				return
			}
			known := j.copy()
			clone := base.ended()
			if _, err := afterCut(clone, known, thisBoot); err != nil {
				failure = fmt.Errorf("the process ends at operation %d, %d answers before it: %w", ops, len(known.ids), err)
			}
		}}
		set := settings(l.on(base), newClock(), func(error) {})
		set.SealBytes = 8 << 10
		s, err := workload(set, true, j, clients, rounds)
		if err == nil {
			err = s.Close()
		}
		l.over()
		if err = errors.Join(failure, err); err != nil || ops < 100 {
			t.Errorf("%d clients, %d operations: %v", clients, ops, err)
		}
	}
}

func read(t *testing.T, fs vfs.FS, path string) []byte {
	t.Helper()
	f, err := fs.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, st.Size())
	if _, err := f.ReadAt(b, 0); err != nil && len(b) > 0 {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t *testing.T, fs vfs.FS, path string, data []byte) {
	t.Helper()
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = f.Write(slices.Clone(data)) // which may change what it is given
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}
