package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"
)

// asideFS is Pebble's file system with a place in which a failure is the caller's, and ends nothing: a backup is made
// there.
type asideFS struct {
	disk
	dir string
}

func (a asideFS) in(name string) bool {
	return name == a.dir || strings.HasPrefix(name, a.dir+string(filepath.Separator))
}

// asideFile is a file or directory there. Nobody needs it once the machine has lost its power, and Pebble panics where
// the sync of some fails.
type asideFile struct{ vfs.File }

func (asideFile) Sync() error                { return nil }
func (asideFile) SyncData() error            { return nil }
func (asideFile) SyncTo(int64) (bool, error) { return true, nil }

func aside(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return asideFile{f}, nil
}

// Create creates a file.
func (a asideFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if a.in(name) {
		return aside(a.FS.Create(name, category))
	}
	return a.disk.Create(name, category)
}

// OpenReadWrite opens a file for writing.
func (a asideFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	if a.in(name) {
		return aside(a.FS.OpenReadWrite(name, c, opts...))
	}
	return a.disk.OpenReadWrite(name, c, opts...)
}

// OpenDir opens a directory, which is done to sync it. The directory around the place is synced for it alone: Pebble
// has its files in others.
func (a asideFS) OpenDir(name string) (vfs.File, error) {
	if a.in(name) || name == filepath.Dir(a.dir) {
		return aside(a.FS.OpenDir(name))
	}
	return a.disk.OpenDir(name)
}

// Link links a file.
func (a asideFS) Link(from, to string) error {
	if a.in(to) {
		return a.FS.Link(from, to)
	}
	return a.disk.Link(from, to)
}

// Rename renames a file.
func (a asideFS) Rename(from, to string) error {
	if a.in(to) {
		return a.FS.Rename(from, to)
	}
	return a.disk.Rename(from, to)
}

// MkdirAll makes a directory with those above it.
func (a asideFS) MkdirAll(dir string, mode os.FileMode) error {
	if a.in(dir) {
		return a.FS.MkdirAll(dir, mode)
	}
	return a.disk.MkdirAll(dir, mode)
}

// offline is a store that is not open: it waits for Pebble as one does, and its failure ends nothing but that.
func offline(set Settings) (*Store, disk) {
	set.Log, set.OnFatal = func(string, ...any) {}, nil
	s := &Store{set: set}
	s.seq = newSequencer(s)
	return s, disk{FS: set.FS, failed: s.gone, pass: func() error { return nil },
		grow: func(int) {}, table: func(vfs.DiskWriteCategory) error { return nil },
		spare: func() (string, bool) { return "", false }}
}

// withDB runs fn with the database of a directory, whose write-ahead logs may lie as a checkpoint of Pebble has them.
// When it returns all is in tables, and the database is closed. Nothing in it is a log's own: no records may be lost.
func withDB(set Settings, db string, fn func(s *Store) error) error {
	s, fs := offline(set)
	return s.useDB(fs, db, fn)
}

// withAside does so in a place whose failures end nothing.
func withAside(set Settings, dir string, fn func(s *Store) error) error {
	set.FS = unlocked{set.FS}
	s, fs := offline(set)
	return s.useDB(asideFS{fs, dir}, filepath.Join(dir, "db"), fn)
}

// unlocked is a file system on which nobody else works.
type unlocked struct{ vfs.FS }

type noLock struct{}

func (noLock) Close() error { return nil }

func (unlocked) Lock(string) (io.Closer, error) { return noLock{}, nil }

func (s *Store) useDB(fs vfs.FS, db string, fn func(s *Store) error) error {
	return s.guarded(func() (err error) {
		s.db, err = pebble.Open(db, &pebble.Options{FS: fs, ErrorIfNotExists: true, Logger: logger{s},
			FormatMajorVersion: pebble.FormatNewest, DisableAutomaticCompactions: true,
			L0StopWritesThreshold: math.MaxInt, // else a flush waits for the compaction that never comes
			WALDir:                pebble.MakeStoreRelativePath(fs, walDir),
			WALRecoveryDirs:       []wal.Dir{{FS: fs, Dirname: db}}})
		if err != nil {
			return err
		}
		return errors.Join(fn(s), s.db.Close())
	})
}

// settleState brings the state to a commit that was released, puts all of it into tables, and reads which one that
// is.
func (b *backup) settleState() error {
	if err := b.cut(); err != nil {
		return err
	}
	set := b.s.set
	err := withAside(set, b.dir, func(s *Store) (err error) {
		if b.commit, _, err = s.commitOf(); err != nil {
			return err
		}
		b.kept, err = s.number("kept")
		b.kept = max(b.kept, 1)
		return err
	})
	switch {
	case err != nil:
		return err
	case b.commit > b.released:
		return fmt.Errorf("its state is of commit %d, and answers up to commit %d have left", b.commit, b.released)
	case b.commit < b.answered:
		return fmt.Errorf("its state ends with commit %d, and answers up to commit %d had left when it began: the "+
			"write-ahead logs of the data directory are damaged", b.commit, b.answered)
	}
	return nil
}

// cut takes off the write-ahead logs of the checkpoint what was not released when it was made. Tables hold nothing of
// that: see tableGate. The newest log is copied while the store writes it over an old one, so the copy can have a part
// that cannot be read. The copy ends there: all that lies behind came after the backup had begun. settleState checks
// that nothing older is missing.
func (b *backup) cut() error {
	logs, err := wal.Scan(wal.Dir{FS: b.fs, Dirname: b.db()})
	if err != nil {
		return err
	}
	own := b.s.records.own
	r, l := &residue{whole: true}, &recordLog{fs: b.fs}
	for i, one := range logs {
		at, end, err := r.find(one, mark{Store: own.ID, Epoch: own.Epoch, Released: b.released})
		_, path := one.SegmentLocation(0)
		if at == nothing && i == len(logs)-1 {
			at = end
		}
		if err == nil && at != nothing {
			err = l.shorten(path, at)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// never is the clock of a store that is only looked at, noID what makes none.
func never() time.Time { return time.Time{} }
func noID() string     { return "" }

// restoring is a file that is in a data directory while a backup is restored there.
const restoring = "restoring"

// startable refuses a directory that is no store, whatever lies in it: a backup, which would go on under the name of
// the store that it is of, and one in which a restore was broken off. It removes what a backup has left that was.
func (s *Store) startable() error {
	dir := s.set.Dir
	for name, why := range map[string]string{
		ManifestName: "%s is there, so this is a backup: make a store of it (yett restore --from %s --data NEWDIR)",
		restoring:    "%s is there: a restore was broken off; run yett restore again with --data %s, or remove the directory",
	} {
		path := filepath.Join(dir, name)
		if _, err := s.set.FS.Stat(path); err == nil && !(name == restoring && s.set.restoring) {
			return fmt.Errorf(why, path, dir)
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return s.set.FS.RemoveAll(filepath.Join(dir, asideName))
}
