package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/sdk"
)

// restoreOf is a restore of a backup to a directory, as a store of that id.
func restoreOf(fs vfs.FS, c *clock, from, dir, id string) *Restore {
	set := settings(fs, c, nil)
	set.Dir, set.NewID, set.SealBytes = dir, func() string { return id }, 8<<10
	return &Restore{Settings: set, From: from, By: Who{Principal: "admin:0", Method: "peer_uid", Surface: "admin"}}
}

// restored makes the restore, and opens what it made.
func restored(t *testing.T, r *Restore) (*Restored, *rig) {
	t.Helper()
	out, err := r.Run()
	if err != nil {
		t.Fatal(err)
	}
	set := r.Settings
	set.NewID = noID
	s, err := Open(set)
	if err != nil {
		t.Fatal(err)
	}
	return out, &rig{t: t, fs: r.FS, clock: nil, s: s}
}

// verified exports the log of a store, and has it verified with those keys.
func verified(s *Store, signer *log.Signer, r log.Range, keys ...string) (*log.Verified, []byte, error) {
	var out bytes.Buffer
	if err := s.Export(&out, signer, r); err != nil {
		return nil, nil, err
	}
	trusted, err := log.ParseKeys(keys...)
	if err != nil {
		return nil, nil, err
	}
	found, err := log.Verify(bytes.NewReader(out.Bytes()), log.VerifyOptions{Keys: trusted, Invariants: r.From == 0})
	return found, out.Bytes(), err
}

func TestRestore(t *testing.T) {
	r := newRig(t)
	for i := range 200 { // several segments
		r.key(fmt.Sprint("key", i), nil, "authorize")
	}
	agent := r.key("agent", nil, "authorize", "approve")
	r.must(&RevokeKey{ID: "key1", By: system})
	r.must(&KillSwitch{Kill: Kill{Scope: "agent", Target: "mallory"}, By: system})
	token := r.deferred(agent, "waits", sdk.Verdict{})
	r.must(&MoveCursor{Name: "far", To: r.s.Seq()})
	beyond := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, 1<<40), 1<<41)
	if err := r.s.db.Set(keyStr(prefixCursor, "beyond"), beyond, pebble.Sync); err != nil {
		t.Fatal(err)
	}
	size := r.s.Seq()
	m := r.backedUp(t, "backup")
	r.must(&Note{Type: "behind", By: system})

	out, to := restored(t, restoreOf(r.fs, r.clock, "backup", "new", "sto_new"))
	s := to.s
	if out.Epoch != 2 || s.Epoch() != 2 || s.ID() != "sto_new" || out.FromSeq != size || s.Seq() != size+1 ||
		out.FromStoreID != "sto_test" {
		t.Fatalf("restored %+v; the store is %s, epoch %d, record %d", out, s.ID(), s.Epoch(), s.Seq())
	}
	if root, err := s.Root(size); err != nil || to.rootText(root) != m.Root {
		t.Errorf("the tree is another one: %v", err)
	}
	if k := s.Key("key1"); k == nil || k.Revocation() == nil {
		t.Error("the revoked key is live")
	}
	if s.Key("key2") == nil || s.Key("key2").Revocation() != nil || len(s.Kills()) != 1 {
		t.Error("a key or a kill is missing")
	}
	if d, err := (&tx{s: s, q: s.seq, st: s.seq.state}).find(token); err != nil || d == nil || d.Status != Pending {
		t.Errorf("the call that waits: %+v, %v", d, err)
	}
	last := ""
	if err := s.Records(size+1, func(_ uint64, rec []byte) error { last = string(rec); return nil }); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"store_id":"sto_new","epoch":2,"timestamp"`, `"type":"restored","principal_id":"admin:0"`,
		`"from_store_id":"sto_test","from_epoch":1,"from_seq":` + fmt.Sprint(size), `yett.dev/audit/sto_test`} {
		if !strings.Contains(last, want) {
			t.Errorf("the first record has no %s: %s", want, last)
		}
	}
	if c, _ := s.Cursor("far"); c.Seq != size {
		t.Errorf("the cursor is at %d", c.Seq)
	}
	if c, _ := s.Cursor("beyond"); c.Seq != size || c.High != size {
		t.Errorf("the cursor that lay behind the end is %+v", c)
	}
	for seq, want := range map[uint64]string{1: "sto_test", size: "sto_test", size + 1: "sto_new", size + 9: "sto_new"} {
		if id, _ := s.StoreOf(seq); id != want {
			t.Errorf("record %d is of %s", seq, id)
		}
	}
	if at := s.NextLife(3); at != size+1 || s.NextLife(at) != 0 {
		t.Errorf("the next life begins at %d, and then at %d", at, s.NextLife(at))
	}
	if _, err := s.CheckLog(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// A restored log goes on as any other: it seals, is started again, trimmed, backed up and restored once more, and its
// export verifies with the keys of all its lives, and only with them.
func TestRestoredLogGoesOn(t *testing.T) {
	r := newRig(t)
	ids, signers := []string{"sto_test", "sto_2", "sto_3"}, []*log.Signer{signerOf(t, "sto_test", 'a'),
		signerOf(t, "sto_2", 'b'), signerOf(t, "sto_3", 'c')}
	set, now := settings(r.fs, r.clock, nil), r.clock
	s, ends, keys := r.s, []uint64{}, []string{signers[0].PublicKey()}
	for life := 1; life <= 2; life++ {
		at := &rig{t: t, s: s, fs: r.fs, clock: now}
		for i := range 150 {
			at.key(fmt.Sprintf("key%d_%d", life, i), nil, "authorize")
		}
		ends = append(ends, s.Seq())
		dir := fmt.Sprint("backup", life)
		if _, err := s.Backup(signers[life-1], into(r.fs, dir)); err != nil {
			t.Fatal(err)
		}
		if life > 1 {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		to := restoreOf(r.fs, now, dir, fmt.Sprint("new", life), ids[life])
		_, next := restored(t, to)
		s, set = next.s, to.Settings
		set.NewID = noID
		keys = append(keys, signers[life].PublicKey())
	}
	for range 3 { // the records of the last life are sealed, and it is started again
		at := &rig{t: t, s: s, fs: r.fs, clock: now}
		for range 100 {
			at.must(&Note{Type: "plugin_state", By: system})
		}
		if err := consistent(s); err != nil {
			t.Error(err)
		}
		found, data, err := verified(s, signers[2], log.Range{}, keys...)
		if err != nil || len(found.Earlier) != 2 || found.Earlier[0].ToSeq != ends[0] || found.Invariants == nil {
			t.Fatalf("%+v: %v", found, err)
		}
		for i := range 2 {
			if _, _, err := verified(s, signers[2], log.Range{}, keys[i+1:i+2]...); err == nil {
				t.Error("it verifies with the key of one life")
			}
		}
		lines := bytes.SplitAfter(data, []byte("\n"))
		changed := func(from, to string) []byte { return bytes.Replace(data, []byte(from), []byte(to), 1) }
		for what, bad := range map[string][]byte{
			"without the record of the restore": slices.Concat(slices.Concat(lines[:ends[0]+1]...),
				slices.Concat(lines[ends[0]+2:]...)),
			"with another store id": changed(`"store_id":"sto_test","timestamp"`, `"store_id":"sto_2","timestamp"`),
			"with another end in the header": changed(fmt.Sprintf(`"to_seq":%d}`, ends[0]),
				fmt.Sprintf(`"to_seq":%d}`, ends[0]+1)),
			"with another epoch in the header": changed(`"epoch":3,`, `"epoch":4,`),
		} {
			trusted, _ := log.ParseKeys(keys...)
			if _, err := log.Verify(bytes.NewReader(bad), log.VerifyOptions{Keys: trusted}); !log.IsFault(err) {
				t.Errorf("%s: %v", what, err)
			}
		}
		proof, err := s.Prove(3, signers[2]) // of a record of the first life
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []bool{true, false} { // without the key of that life it is nobody's
			trusted, _ := log.ParseKeys(keys[i:]...)
			if _, err := log.OpenProof(proof, trusted); (err == nil) != want {
				t.Errorf("the proof of a record of an earlier life: %v", err)
			}
		}
		for _, part := range []log.Range{{From: 1, To: 5}, {From: ends[0] - 1, To: ends[0] + 1}, {From: ends[0] + 1},
			{From: ends[0] + 1, To: ends[1]}, {From: ends[1] + 2}, {From: s.Seq()}} {
			if _, _, err := verified(s, signers[2], part, keys...); err != nil {
				t.Errorf("%+v: %v", part, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if s, err = Open(set); err != nil {
			t.Fatal(err)
		}
	}
	at := &rig{t: t, s: s, fs: r.fs, clock: now}
	at.must(&Trim{Through: ends[0] + 3, By: system})
	at.must(&Note{Type: "plugin_state", By: system})
	if _, _, err := verified(s, signers[2], log.Range{}, keys...); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Open(set)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestRestoreOfABackupUnderLoad: everything that was answered in front of a backup is in what is made of it.
func TestRestoreOfABackupUnderLoad(t *testing.T) {
	fs := newCuttable()
	known, all := underLoad(t, fs, 5, 10, 6)
	for i, m := range all {
		_, to := restored(t, restoreOf(fs, newClock(), fmt.Sprint("backup", i), fmt.Sprint("new", i), "sto_new"))
		if err := errors.Join(known[i].verify(to.s), to.s.Close()); err != nil {
			t.Errorf("backup %d of record %d, %d answers in front of it: %v", i, m.Seq, len(known[i].ids), err)
		}
	}
}

func TestRestoreIsRefused(t *testing.T) {
	r := newRig(t)
	r.key("k", nil, "authorize")
	r.backedUp(t, "backup")
	for what, spoil := range map[string]func(*Restore){
		"new pepper":   func(x *Restore) { x.Secret = []byte("another") },
		"data/db":      func(x *Restore) { x.Dir = "data" },
		ManifestName:   func(x *Restore) { x.From = "data" },
		"id of its":    func(x *Restore) { x.NewID = func() string { return "sto_test" } },
		"another back": func(x *Restore) { x.Since = NewSince(&Manifest{Root: "x"}) },
		"checkpoint":   func(x *Restore) { x.Keys, _ = log.ParseKeys(signerOf(t, "sto_test", 'z').PublicKey()) },
	} {
		x := restoreOf(r.fs, r.clock, "backup", "new", "sto_new")
		spoil(x)
		_, err := x.Run()
		said := strings.TrimSuffix(strings.TrimPrefix(what, "new "), " back")
		if err == nil || !strings.Contains(err.Error(), said) {
			t.Errorf("%s: %v", what, err)
		}
		if x.Dir == "new" {
			set := x.Settings
			set.NewID = noID
			if _, err := Open(set); err == nil {
				t.Errorf("%s: there is a store", what)
			}
		}
	}
}

// TestPowerCutAroundARestore: what is left is no store, or the whole one; and the restore can be done again there.
func TestPowerCutAroundARestore(t *testing.T) {
	for _, percent := range []int{0, 50, 100} {
		base, now := newCuttable(), newClock()
		set := settings(base, now, nil)
		s, err := Open(set)
		if err != nil {
			t.Fatal(err)
		}
		r := &rig{t: t, fs: base, clock: now, s: s}
		for i := range 100 {
			r.key(fmt.Sprint("key", i), nil, "authorize")
		}
		m := r.backedUp(t, "backup")
		r.close()
		if err := base.syncDirs(""); err != nil {
			t.Fatal(err)
		}
		rng, ops, whole := rand.New(rand.NewPCG(2, uint64(percent))), 0, 0
		l := &looker{}
		l.look = func(errorfs.Op) {
			if ops++; ops%5 != 0 && ops < 400 && testing.Short() {
				return
			}
			left := base.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng})
			if started(t, left, now, m) {
				whole++
			}
			if ops%15 == 0 && whole == 0 {
				again := restoreOf(left, now, "backup", "new", "sto_again")
				_, to := restored(t, again)
				if to.s.Key("key99") == nil {
					t.Error("done again, a key is missing")
				}
				if err := to.s.Close(); err != nil {
					t.Error(err)
				}
			}
		}
		x := restoreOf(l.on(base), now, "backup", "new", "sto_new")
		if _, err := x.Run(); err != nil {
			t.Fatal(err)
		}
		l.over()
		if !started(t, base.CrashClone(vfs.CrashCloneCfg{}), now, m) || ops < 100 {
			t.Errorf("%d operations, and what is left of it is no store", ops)
		}
	}
}

// started reports whether there is a store, which must be whole then.
func started(t *testing.T, fs vfs.FS, now *clock, m *Manifest) bool {
	t.Helper()
	set := settings(fs, now, nil)
	set.Dir, set.NewID, set.Boot = "new", noID, anotherBoot
	s, err := Open(set)
	if err != nil {
		if !strings.Contains(err.Error(), "yett restore again") && !strings.Contains(err.Error(), "no store yet") {
			t.Errorf("refused, and it does not say why: %v", err)
		}
		return false
	}
	root, err := s.Root(m.Seq)
	if err != nil || log.Checkpoint(log.Checkpoint{Root: root}).Root.String() != m.Root || s.Seq() != m.Seq+1 ||
		s.Key("key99") == nil || s.Epoch() != 2 {
		t.Errorf("there is a store, and it is not whole: epoch %d, record %d: %v", s.Epoch(), s.Seq(), err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return true
}

// TestRestoreTakesAwayAgain: what was taken away since the backup is listed, and not there again.
func TestRestoreTakesAwayAgain(t *testing.T) {
	r := newRig(t)
	agent, boss := r.key("agent", nil, "authorize"), r.key("boss", nil, "approve")
	r.key("gone", nil, "authorize")
	r.key("rolled", nil, "authorize")
	spent, open := r.deferred(agent, "spent", sdk.Verdict{}), r.deferred(agent, "open", sdk.Verdict{})
	r.must(r.answer(boss, spent, true))
	r.must(r.answer(boss, open, true))
	denied := r.deferred(agent, "denied", sdk.Verdict{})
	m := r.backedUp(t, "backup")
	r.must(&RevokeKey{ID: "gone", By: by(boss)})
	r.key("young", nil, "authorize")
	r.must(&RevokeKey{ID: "young", By: by(boss)})
	r.must(&KillSwitch{Kill: Kill{Scope: "agent", Target: "it's"}, By: system})
	r.must(&KillSwitch{Kill: Kill{Scope: "tool", Target: "undone"}, By: system})
	r.must(&KillSwitch{Kill: Kill{Scope: "tool", Target: "undone"}, By: system, Undo: true})
	r.must(r.redeem(agent, "spent", spent, sdk.Verdict{Effect: sdk.Defer}))
	r.must(r.answer(boss, denied, false))
	since := func() *Since {
		n := NewSince(m)
		if err := r.s.Records(1, n.Record); err != nil {
			t.Fatal(err)
		}
		return n
	}
	listed := restoreOf(r.fs, r.clock, "backup", "listed", "sto_listed")
	listed.Since = since()
	out, to := restored(t, listed)
	if k := to.s.Key("gone"); k.Revocation() != nil || len(to.s.Kills()) != 0 {
		t.Error("expected a list and no change")
	}
	if err := to.s.Close(); err != nil {
		t.Fatal(err)
	}
	var how []string
	for _, x := range out.Since {
		how = append(how, x.How)
		if x.Applied {
			t.Errorf("%+v is said to be applied", x)
		}
	}
	want := []string{"yett keys revoke gone", "yett keys revoke young", `yett kill --agent 'it'\''s'`,
		"yett approvals deny " + spent, "yett approvals deny " + denied}
	if strings.Join(how, "\n") != strings.Join(want, "\n") {
		t.Errorf("listed:\n%s\nwant:\n%s", strings.Join(how, "\n"), strings.Join(want, "\n"))
	}

	applied := restoreOf(r.fs, r.clock, "backup", "applied", "sto_applied")
	applied.Since, applied.Apply = since(), true
	out, to = restored(t, applied)
	if k := to.s.Key("gone"); k.Revocation() == nil || k.Revocation().At.After(r.clock.Now()) {
		t.Error("the key is live again")
	}
	if kills := to.s.Kills(); len(kills) != 1 || kills[0].Target != "it's" {
		t.Errorf("kills: %+v", kills)
	}
	for token, want := range map[string]string{spent: Denied, denied: Denied, open: Approved} {
		if d, err := (&tx{s: to.s, q: to.s.seq, st: to.s.seq.state}).find(token); err != nil || d.Status != want {
			t.Errorf("call %s is %s, want %s: %v", token, d.Status, want, err)
		}
	}
	for _, x := range out.Since {
		if !x.Applied || strings.Contains(x.What, "young") != strings.Contains(x.Note, "nothing to do") {
			t.Errorf("%+v", x)
		}
	}
	if err := to.s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestSinceHasNoGaps: what was taken away in records that are missing would be there again, and nobody would know.
func TestSinceHasNoGaps(t *testing.T) {
	const of = `{"store_id":"sto_x","type":"kill"}`
	for name, c := range map[string]struct {
		seqs    []uint64
		lost    uint64
		refused string
		missing []MissingRange // where gaps may be
	}{
		"all":          {seqs: []uint64{8, 9, 10, 11, 12}},
		"no older one": {seqs: []uint64{11, 12}},
		"none":         {},
		"the first":    {seqs: []uint64{13, 14}, refused: "records 11 to 12 are missing", missing: []MissingRange{{11, 12}}},
		"one":          {seqs: []uint64{11, 13}, refused: "records 12 to 12 are missing", missing: []MissingRange{{12, 12}}},
		"the last":     {seqs: []uint64{11}, lost: 20, missing: []MissingRange{{12, 20}}},
		"twice":        {seqs: []uint64{11, 12, 12}, refused: "record 12 comes behind record 12"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, salvaged := range []bool{false, true} {
				n := NewSince(&Manifest{Seq: 10, StoreID: "sto_x"})
				if salvaged {
					n.Salvaged()
				}
				var err error
				for _, seq := range c.seqs {
					err = errors.Join(err, n.Record(seq, []byte(of)))
				}
				n.Lost(c.lost)
				refused := c.refused
				if salvaged && c.missing != nil {
					refused = ""
				}
				if (err == nil) != (refused == "") || err != nil && !strings.Contains(err.Error(), refused) {
					t.Errorf("salvaged: %v: %v, want %q", salvaged, err, refused)
				}
				if salvaged && !slices.Equal(n.missing, c.missing) {
					t.Errorf("missing: %v, want %v", n.missing, c.missing)
				}
				if refused == "" && n.Empty() != (c.seqs == nil) {
					t.Errorf("empty: %v", n.Empty())
				}
			}
		})
	}
}

// TestRestoreOfWhatIsOver: since the backup the time of a call that waits is over, or a kill had not denied all. What
// ends ends behind the record that the new life begins with.
func TestRestoreOfWhatIsOver(t *testing.T) {
	r := newRig(t)
	tokens, _ := r.waitingCalls(10 * atOnce)
	r.clock.advance(time.Second)
	size := uint64(0)
	r.must(&KillSwitch{Kill: Kill{Scope: KillGlobal, Reason: "why"}, By: system})
	r.backedUp(t, "backup")
	r.swept()
	for _, later := range []time.Duration{0, 48 * time.Hour} {
		r.clock.advance(later)
		found, at := restored(t, restoreOf(r.fs, r.clock, "backup", fmt.Sprint("new", later), "sto_new"))
		if size = found.FromSeq; found.Seq < size+1 {
			t.Errorf("%d records of %d", found.Seq, size)
		}
		s := at.s
		at.swept()
		if got := at.takenIn(size+1, TypeRestored); len(got) != 1 || len(at.takenIn(size+2, TypeRestored)) != 0 {
			t.Errorf("the life does not begin with its record: %+v", got)
		}
		for _, token := range tokens {
			if d, err := (&tx{s: s, q: s.seq, st: s.seq.state}).find(token); err != nil || d == nil || d.open() {
				t.Fatalf("%s: %+v, %v", token, d, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRestoreOfADoubtfulTime: a backup that was made while the wall clock was wrong does not bring its time along.
func TestRestoreOfADoubtfulTime(t *testing.T) {
	d := newDoubted(t)
	d.clocks.set(100 * 24 * time.Hour)
	d.must(&Note{Type: "tick", By: system})
	if _, err := d.s.Backup(signerOf(t, d.s.ID(), 'a'), into(d.fs, "backup")); err != nil {
		t.Fatal(err)
	}
	d.clocks.set(-100 * 24 * time.Hour)
	at := d.clocks.wall()
	to := restoreOf(d.fs, d.clock, "backup", "new", "sto_new")
	to.Now, to.Uptime = d.clocks.wall, d.clocks.up
	if _, err := to.Run(); err != nil {
		t.Fatal(err)
	}
	set := to.Settings
	set.NewID = noID
	s, err := Open(set)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Now(); got.Sub(at) > time.Minute {
		t.Errorf("the restored store is %v ahead", got.Sub(at))
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	d.close()
}

// TestRestoreOfAnOldBackup: whoever restores it is there, so the time that has passed since is no doubt.
func TestRestoreOfAnOldBackup(t *testing.T) {
	d := newDoubted(t)
	if _, err := d.s.Backup(signerOf(t, d.s.ID(), 'a'), into(d.fs, "backup")); err != nil {
		t.Fatal(err)
	}
	d.close()
	d.clocks.set(400 * 24 * time.Hour)
	d.clocks.boot()
	to := restoreOf(d.fs, d.clock, "backup", "new", "sto_new")
	to.Now, to.Uptime = d.clocks.wall, d.clocks.up
	if _, err := to.Run(); err != nil {
		t.Fatal(err)
	}
	set := to.Settings
	set.NewID = noID
	s, err := Open(set)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Times(); got.Doubt() != 0 {
		t.Errorf("in doubt by %v", got.Doubt())
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
