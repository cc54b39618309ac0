package store

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/yett-dev/yett/core/log"
)

// signerOf makes a key by a letter.
func signerOf(t testing.TB, store string, letter byte) *log.Signer {
	t.Helper()
	s, err := log.NewSigner(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{letter}, ed25519.SeedSize)), store)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// into writes the files of a backup below dir, and has them be on disk.
func into(fs vfs.FS, dir string) BackupOut {
	return func(name string, size int64, data io.Reader) error {
		path := filepath.Join(dir, name)
		if err := fs.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
		if err != nil {
			return err
		}
		n, err := io.Copy(f, data)
		if err == nil && n != size {
			err = fmt.Errorf("%s: %d bytes instead of %d", name, n, size)
		}
		return errors.Join(err, f.Sync(), f.Close())
	}
}

// backedUp makes a backup of r in dir.
func (r *rig) backedUp(t testing.TB, dir string) *Manifest {
	t.Helper()
	m, err := r.s.Backup(signerOf(t, r.s.ID(), 'a'), into(r.fs, dir))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestBackupOfAQuietStore(t *testing.T) {
	r := newRig(t)
	for _, records := range []int{0, 1, 3, 400} { // nothing, young ones, some of them sealed
		dir := fmt.Sprint("backup", records)
		for i := range records {
			r.key(fmt.Sprintf("key%d_%d", records, i), nil, "authorize")
		}
		m := r.backedUp(t, dir)
		root, err := r.s.Root(r.s.Seq())
		if err != nil || m.Seq != r.s.Seq() || m.Root != r.rootText(root) || m.Commit != r.s.records.last {
			t.Fatalf("backup of record %d, commit %d, %s; the store is at %d and %d: %v", m.Seq, m.Commit, m.Root, r.s.Seq(),
				r.s.records.last, err)
		}
		found, err := CheckBackup(BackupSettings{Dir: dir, FS: r.fs, Secret: []byte("secret")})
		if err != nil {
			t.Fatal(err)
		}
		if len(found.Manifest.Files) == 0 || !found.StateHeld || found.KeyPinned {
			t.Errorf("found %+v", found)
		}
		if _, err := r.fs.Stat("data/" + asideName); err == nil {
			t.Error("what the backup was made of is still there")
		}
		r.reopen() // nothing of the store was changed
	}
}

func (r *rig) rootText(root [32]byte) string { return log.Checkpoint{Root: root}.Root.String() }

// underLoad makes backups of a store while clients work on it, and gives with each what was answered in front of it.
func underLoad(t *testing.T, fs vfs.FS, clients, rounds, backups int) (out []*journal, all []*Manifest) {
	t.Helper()
	set := settings(fs, newClock(), func(err error) { t.Errorf("fatal: %v", err) })
	set.SealBytes = 8 << 10
	s, err := Open(set)
	if err != nil {
		t.Fatal(err)
	}
	j, signer := newJournal(), signerOf(t, s.ID(), 'a')
	var wg sync.WaitGroup
	for i := range clients {
		c := &client{s: s, j: j, name: string(rune('a'+i)) + "0"}
		wg.Go(func() {
			c.life(rounds, func(round int) {
				if i == 0 && round%3 == 1 {
					_ = s.guarded(s.db.Flush)
				}
			})
		})
	}
	for i := range backups {
		known := j.copy()
		m, err := s.Backup(signer, into(fs, fmt.Sprint("backup", i)))
		if err != nil {
			t.Fatal(err)
		}
		out, all = append(out, known), append(all, m)
	}
	wg.Wait()
	if err := errors.Join(errors.Join(j.other...), j.verify(s), s.Close()); err != nil {
		t.Fatal(err)
	}
	return out, all
}

func TestBackupIsRefusedAsAStore(t *testing.T) {
	r := newRig(t)
	r.key("k", nil, "authorize")
	r.backedUp(t, "backup")
	set := settings(r.fs, r.clock, nil)
	set.Dir = "backup"
	if _, err := Open(set); err == nil || !strings.Contains(err.Error(), "yett restore") {
		t.Fatalf("a backup was opened as a store: %v", err)
	}
	if _, err := CheckBackup(BackupSettings{Dir: "backup", FS: r.fs}); err != nil {
		t.Errorf("that changed it: %v", err)
	}
}

func TestBackupCheckFindsDamage(t *testing.T) {
	r := newRig(t)
	for i := range 300 {
		r.key(fmt.Sprint("key", i), nil, "authorize")
	}
	m := r.backedUp(t, "backup")
	check := func(secret string) error {
		_, err := CheckBackup(BackupSettings{Dir: "backup", FS: r.fs, Secret: []byte(secret)})
		return err
	}
	for _, f := range append(m.Files, BackupFile{Name: ManifestName}) {
		data, found, err := readAll(r.fs, "backup/"+f.Name)
		if err != nil || !found || len(data) == 0 {
			continue
		}
		for what, bad := range map[string][]byte{"cut": data[:len(data)-1], "flipped": append(append([]byte{},
			data[:len(data)/2]...), append([]byte{data[len(data)/2] ^ 1}, data[len(data)/2+1:]...)...)} {
			write(t, r.fs, "backup/"+f.Name, bad)
			if err := check("secret"); err == nil && !(f.Name == ManifestName && what == "cut") { // its last newline
				t.Errorf("%s was %s, and the backup is said to be whole", f.Name, what)
			}
		}
		write(t, r.fs, "backup/"+f.Name, data)
	}
	if err := check("another secret"); err == nil || !strings.Contains(err.Error(), "pepper") {
		t.Errorf("with another pepper: %v", err)
	}
	write(t, r.fs, "backup/db/000999.sst", []byte("x"))
	if err := check("secret"); err == nil || !strings.Contains(err.Error(), "000999.sst") {
		t.Errorf("with a file too many: %v", err)
	}
	if err := errors.Join(r.fs.Remove("backup/db/000999.sst"), check("secret")); err != nil {
		t.Error(err)
	}
	if err := errors.Join(r.fs.Remove("backup/"+ManifestName), check("secret")); err == nil {
		t.Error("without a manifest it is said to be whole")
	}
}

func TestBackupUnderLoadIsWhole(t *testing.T) {
	fs := newCuttable()
	_, all := underLoad(t, fs, 4, 12, 5)
	for i, m := range all {
		found, err := CheckBackup(BackupSettings{Dir: fmt.Sprint("backup", i), FS: fs, Secret: []byte("secret")})
		if err != nil {
			t.Errorf("backup %d of record %d: %v", i, m.Seq, err)
			continue
		}
		t.Logf("backup %d: record %d, commit %d, %d files", i, m.Seq, m.Commit, len(found.Manifest.Files))
	}
}

// What nobody was given is in no backup: a key that landed when its caller had been refused, and that the next commit
// takes back.
func TestBackupHoldsNothingThatWasRefused(t *testing.T) {
	disk, fs, now := &stuck{}, vfs.NewMem(), newClock()
	set := settings(fs, now, func(err error) { t.Errorf("fatal: %v", err) })
	set.Delay, set.Stall = disk.delay, time.Hour
	s, err := Open(set)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, fs: fs, clock: now, s: s}
	r.key("first", nil, "authorize")
	was := s.records.last
	disk.stop()
	done := make(chan error)
	go func() {
		done <- s.Commit(context.Background(), &CreateKey{By: system, Key: &Key{ID: "late", Name: "late", MAC: []byte("late"),
			CreatedAt: now.Now()}})
	}()
	<-disk.begun
	s.seq.look(now.advance(time.Hour))
	if err := <-done; err == nil {
		t.Fatal("it was not refused")
	}
	disk.oneMore() // it lands, and what takes it back waits
	<-disk.begun
	m := r.backedUp(t, "between")
	disk.goOn()
	healthyAgain(t, s)
	r.must(&Note{Type: "tick", By: system})
	behind := r.backedUp(t, "behind")
	if m.Commit != was || behind.Commit <= was+1 {
		t.Errorf("the backups are of commits %d and %d, the first one released was %d", m.Commit, behind.Commit, was)
	}
	for _, dir := range []string{"between", "behind"} {
		if _, err := CheckBackup(BackupSettings{Dir: dir, FS: fs, Secret: []byte("secret")}); err != nil {
			t.Error(err)
		}
		if dir == "behind" {
			continue // its tombstone stays
		}
		err := withDB(settings(fs, now, nil), dir+"/db", func(b *Store) error {
			_, found, err := b.get(keyStr(prefixKey, "late"))
			if found {
				t.Errorf("%s has the key that was refused", dir)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	r.close()
}

// A disk that fails what a backup writes beside the store ends the backup, and never the store.
func TestBackupThatFailsEndsNoStore(t *testing.T) {
	var failAt, ops atomic.Int64
	failAt.Store(-1)
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() != errorfs.OpIsWrite || !strings.HasPrefix(op.Path, "data/"+asideName) {
			return nil
		}
		if ops.Add(1) == failAt.Load() {
			return syscall.ENOSPC
		}
		return nil
	}))
	r := &rig{t: t, fs: fs, clock: newClock()}
	r.open()
	for i := range 300 {
		r.key(fmt.Sprint("key", i), nil, "authorize")
	}
	drop := func(_ string, _ int64, data io.Reader) error { _, err := io.Copy(io.Discard, data); return err }
	signer := signerOf(t, r.s.ID(), 'a')
	if _, err := r.s.Backup(signer, drop); err != nil {
		t.Fatal(err)
	}
	all, failed := ops.Load(), int64(0)
	for at := int64(1); at <= all; at++ {
		ops.Store(0)
		failAt.Store(at)
		if _, err := r.s.Backup(signer, drop); err != nil {
			failed++
		}
		if err := r.s.Healthy(); err != nil {
			t.Fatalf("operation %d of %d failed, and the store with it: %v", at, all, err)
		}
		r.must(&Note{Type: "tick", By: system})
	}
	failAt.Store(-1)
	if failed < all/2 {
		t.Errorf("%d of %d failures were noticed", failed, all)
	}
	if _, err := r.s.Backup(signer, drop); err != nil {
		t.Errorf("behind the failures: %v", err)
	}
	r.close()
}

// TestBackupLeavesRoom: one is refused while the disk is nearly full, or would be by it, and one that fills the disk
// ends. Callers are served meanwhile.
func TestBackupLeavesRoom(t *testing.T) {
	r := newRoomRig(t, vfs.NewMem())
	signer := signerOf(t, r.s.ID(), 'a')
	try := func(out BackupOut) error { _, err := r.s.Backup(signer, out); return err }
	drop := func(_ string, _ int64, data io.Reader) error { _, err := io.Copy(io.Discard, data); return err }
	for range 200 {
		r.must(r.permit())
	}
	r.leave(33 * mib)
	if err := try(drop); err == nil || !strings.Contains(err.Error(), "free bytes, and") {
		t.Errorf("it would take what has to stay free: %v", err)
	}
	r.must(r.permit())
	r.leave(31 * mib)
	if err := try(drop); err == nil || !strings.Contains(err.Error(), "is nearly full") {
		t.Errorf("nearly full: %v", err)
	}
	r.leave(90 * mib)
	if err := try(drop); err != nil {
		t.Errorf("there is room: %v", err)
	}
	files := 0
	err := try(func(name string, n int64, data io.Reader) error {
		if files++; files == 1 {
			r.disk.leave(31 * mib)
		}
		return drop(name, n, data)
	})
	if err == nil || !strings.Contains(err.Error(), "is nearly full") || files > 1 {
		t.Errorf("it fills the disk: %d files, %v", files, err)
	}
	r.leave(90 * mib)
	r.must(r.permit())
	if got := r.disk.used("data/" + asideName); got != 0 {
		t.Errorf("%d bytes are left", got)
	}
}

// linkless is a file system as FAT is one.
type linkless struct{ vfs.FS }

func (linkless) Link(from, to string) error {
	return &os.LinkError{Op: "link", Old: from, New: to, Err: syscall.EPERM}
}

func TestBackupWithoutLinks(t *testing.T) {
	r := &rig{t: t, fs: linkless{vfs.NewMem()}, clock: newClock()}
	r.open()
	_, err := r.s.Backup(signerOf(t, r.s.ID(), 'a'), into(r.fs, "backup"))
	if err == nil || !strings.Contains(err.Error(), "has no hard links: stop the server") {
		t.Errorf("got %v", err)
	}
	r.must(&Note{Type: "tick", By: system})
	r.close()
}
