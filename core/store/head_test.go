package store

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/mod/sumdb/tlog"
)

// TestKillsAndRevokesAreInHead: before their answers leave, on disk. A power cut behind the answer, and a log that is
// put back to the time before it, is seen.
func TestKillsAndRevokesAreInHead(t *testing.T) {
	base := newCuttable()
	r := &rig{t: t, fs: base, clock: newClock()}
	r.open()
	boss := r.key("boss", nil, "kill", "grants")
	grant := r.granted("*", 3)
	for _, cmd := range []Command{
		&KillSwitch{Kill: Kill{Scope: KillAgent, Target: "mallory", Reason: "why"}, By: by(boss)},
		&RevokeGrant{ID: grant.ID, By: system},
		&RevokeKey{ID: "boss", By: system},
	} {
		r.must(cmd)
		size := r.s.Seq()
		cut := base.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 0, RNG: rand.New(rand.NewPCG(1, 1))})
		h, found, err := (&headFile{fs: cut, path: "data/log/head", secret: []byte("secret")}).read()
		if err != nil || !found || h.Size < size || h.Commit == 0 || h.Store != "sto_test" {
			t.Errorf("%T: head has %d of %d records: %v", cmd, h.Size, size, err)
		}
	}
	r.close()
}

// TestARepeatedRevokeIsInHead: the first try came too late to be answered, and landed all the same. What the next one
// is answered is no less certain.
func TestARepeatedRevokeIsInHead(t *testing.T) {
	for name, idem := range map[string]*Idempotency{"": nil, "under a key": {Hash: [16]byte{1, 'i'}}} {
		t.Run(name, func(t *testing.T) {
			l := newLaterRig(t)
			grant := l.granted("*", 3)
			revoke := func() *RevokeGrant { return &RevokeGrant{ID: grant.ID, By: system, Idem: idem} }
			l.s.head.mu.Lock() // log/head is not written meanwhile
			l.late(revoke())
			size, done := l.s.Seq(), make(chan error, 1)
			go func() { done <- l.s.Commit(t.Context(), revoke()) }()
			l.s.head.mu.Unlock()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if h, found, err := (&headFile{fs: l.fs, path: "data/log/head", secret: []byte("secret")}).read(); err != nil ||
				!found || h.Size < size-1 { // behind the revocation is the note of late
				t.Errorf("head has %d of %d records: %v", h.Size, size, err)
			}
		})
	}
}

// TestHeadIsWrittenInTurn: what a crash leaves half written is never the only one.
func TestHeadIsWrittenInTurn(t *testing.T) {
	fs := vfs.NewMem()
	if err := fs.MkdirAll("log", 0o700); err != nil {
		t.Fatal(err)
	}
	f := &headFile{fs: fs, path: "log/head", secret: []byte("secret")}
	at := time.Unix(1_800_000_000, 5).UTC()
	clock := clockState{Now: at, Up: 2, Since: at.Add(-3), Held: 4, Ahead: 5, Lead: 6, Said: true}
	one := head{Clock: clock, Boot: bootOf("x"), Epoch: 1, Commit: 7, Size: 9, Root: tlog.Hash{1, 2}, Store: "sto_x"}
	if err := f.open(one); err != nil {
		t.Fatal(err)
	}
	for n := uint64(8); n < 12; n++ {
		next := one
		next.Commit, next.Clean = n, n == 11
		if err := f.write(next); err != nil {
			t.Fatal(err)
		}
		got, found, err := (&headFile{fs: fs, path: f.path, secret: f.secret}).read()
		if next.Writes = got.Writes; err != nil || !found || got != next {
			t.Errorf("read %+v, want %+v: %v", got, next, err)
		}
		data := read(t, fs, f.path)
		data[int(got.Writes%2)*headPlace+50]++
		write(t, fs, "log/torn", data)
		torn, found, err := (&headFile{fs: fs, path: "log/torn", secret: f.secret}).read()
		if err != nil || !found || torn.Commit != n-1 {
			t.Errorf("torn: %+v: %v", torn, err)
		}
		data[int(torn.Writes%2)*headPlace+50]++
		write(t, fs, "log/torn", data)
		if _, _, err := (&headFile{fs: fs, path: "log/torn", secret: f.secret}).read(); err == nil ||
			!strings.Contains(err.Error(), "run yett store check --renew") {
			t.Errorf("both places are torn: %v", err)
		}
	}
}

// TestHeadOfTheFirstVersion: it has the time, and nothing else of the clock.
func TestHeadOfTheFirstVersion(t *testing.T) {
	secret := []byte("secret")
	h := head{Clock: clockState{Now: time.Unix(1_800_000_000, 5).UTC(), Up: 2, Ahead: 5, Said: true}, Boot: bootOf("x"),
		Epoch: 1, Commit: 7, Size: 9, Store: "sto_x"}
	b := h.put(secret)
	copy(b, headFirst)
	copy(b[headSize-32:], headMAC(secret, b[:headSize-32]))
	h.Clock, h.Boot = clockState{Now: h.Clock.Now}, [16]byte{}
	if got, ok := parseHead(b, secret); !ok || got != h {
		t.Errorf("%v: %+v, want %+v", ok, got, h)
	}
}

// TestHeadIsRenewed: without the file a store is refused, until somebody who has checked it has it made anew.
func TestHeadIsRenewed(t *testing.T) {
	r := newRig(t)
	r.must(&Note{Type: "one", By: system})
	r.close()
	if err := r.fs.Remove("data/log/head"); err != nil {
		t.Fatal(err)
	}
	set := settings(r.fs, r.clock, func(err error) { t.Errorf("fatal: %v", err) })
	if _, err := Open(set); err == nil || !strings.Contains(err.Error(), "data/log/head is missing") {
		t.Fatalf("got %v", err)
	}
	set.Renew = true
	for _, renew := range []bool{false, true} {
		s, err := Open(set)
		if err != nil {
			t.Fatal(err)
		}
		if renew {
			err = s.RenewHead()
		}
		if err != nil || s.Close() != nil {
			t.Fatal(err)
		}
		if _, err := r.fs.Stat("data/log/head"); (err == nil) != renew {
			t.Errorf("renewed %v: %v", renew, err)
		}
	}
	r.open()
	if err := r.s.Commit(context.Background(), &Note{Type: "two", By: system}); err != nil {
		t.Error(err)
	}
}
