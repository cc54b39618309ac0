package store

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/core/log/segment"
)

// BackupSettings say what a backup is held against.
type BackupSettings struct {
	Dir    string
	FS     vfs.FS   // nil: the machine's
	Secret []byte   // nil: keys, grants and kills are not held against their sum, which it keys
	Keys   log.Keys // trusted keys; none: the backup's own counts, and nobody vouches for it
}

// BackupChecked is what CheckBackup has found in order.
type BackupChecked struct {
	Manifest  *Manifest `json:"manifest"`
	Bytes     int64     `json:"bytes"`
	StateHeld bool      `json:"state_held"` // the rows are those of the newest commit, by the store's secret
	KeyPinned bool      `json:"key_pinned"`
}

// CheckBackup reads all of a backup and changes nothing: the digests of its files, the checkpoint, every record and
// hash of the log, and the state.
func CheckBackup(set BackupSettings) (*BackupChecked, error) {
	if set.FS == nil {
		set.FS = vfs.Default
	}
	c := &backupCheck{set: set, fs: readOnly{unlocked{set.FS}}}
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("backup %s: %w", set.Dir, err)
	}
	return &c.done, nil
}

type backupCheck struct {
	set  BackupSettings
	fs   vfs.FS
	m    *Manifest
	done BackupChecked

	past []life
}

func (c *backupCheck) check() error {
	data, found, err := readAll(c.fs, filepath.Join(c.set.Dir, ManifestName))
	switch {
	case err != nil:
		return err
	case !found:
		return fmt.Errorf("it has no %s: it was broken off, or is no backup; make another one", ManifestName)
	case len(data) > MaxManifest:
		return fmt.Errorf("%s has %d bytes, the limit is %d", ManifestName, len(data), MaxManifest)
	}
	if c.m, err = ParseManifest(data); err != nil {
		return err
	}
	c.done = BackupChecked{Manifest: c.m, KeyPinned: len(c.set.Keys) > 0, StateHeld: c.set.Secret != nil}
	for _, step := range []func() error{c.files, c.signed, c.state, c.records} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// files holds the files against their digests.
func (c *backupCheck) files() error {
	known := map[string]bool{}
	for _, f := range c.m.Files {
		known[f.Name] = true
		in, err := c.fs.Open(filepath.Join(c.set.Dir, f.Name))
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s is missing", f.Name)
		}
		if err != nil {
			return err
		}
		err = f.copy(io.Discard, in)
		if err = errors.Join(err, in.Close()); err != nil {
			return err
		}
		c.done.Bytes += f.Bytes
	}
	for _, dir := range []string{"db", "log"} {
		names, err := filesBelow(c.fs, c.set.Dir, dir)
		if err != nil {
			return err
		}
		for _, name := range names {
			if !known[name] {
				return fmt.Errorf("%s is there, and the manifest does not name it", name)
			}
		}
	}
	return nil
}

// copy reads the file, and fails where its bytes are others.
func (f *BackupFile) copy(to io.Writer, from io.Reader) error {
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(sum, to), from) // a file may change what it was given to write
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", f.Name, err)
	case n != f.Bytes:
		return fmt.Errorf("%s has %d bytes, the manifest says %d", f.Name, n, f.Bytes)
	case hex.EncodeToString(sum.Sum(nil)) != f.SHA256:
		return fmt.Errorf("%s is damaged: its SHA-256 is not the one that the manifest has", f.Name)
	}
	return nil
}

// signed holds the checkpoint against the manifest.
func (c *backupCheck) signed() error {
	keys := c.set.Keys
	if len(keys) == 0 {
		var err error
		if keys, err = log.ParseKeys(c.m.PublicKey); err != nil {
			return err
		}
	}
	cp, err := log.OpenCheckpoint(c.m.Checkpoint, keys)
	switch {
	case err != nil:
		return fmt.Errorf("its checkpoint: %w", err)
	case cp.Origin != log.Origin(c.m.StoreID) || cp.Size != c.m.Seq || cp.Root.String() != c.m.Root:
		return fmt.Errorf("its checkpoint is of %d records of %s, the manifest says %d of %s", cp.Size, cp.Origin, c.m.Seq,
			log.Origin(c.m.StoreID))
	}
	return nil
}

// state opens the database and holds it against the manifest.
func (c *backupCheck) state() error {
	s, _ := offline(Settings{Dir: c.set.Dir, FS: c.fs, Secret: c.set.Secret, Now: never, NewID: noID})
	return s.guarded(func() (err error) {
		s.db, err = pebble.Open(filepath.Join(c.set.Dir, "db"), &pebble.Options{FS: c.fs, ReadOnly: true,
			Logger: logger{s}, WALDir: pebble.MakeStoreRelativePath(c.fs, walDir), FormatMajorVersion: pebble.FormatNewest})
		if err != nil {
			return err
		}
		return errors.Join(c.rows(s), s.db.Close())
	})
}

func (c *backupCheck) rows(s *Store) error {
	if err := s.identify(); err != nil {
		return err
	}
	own, err := s.loadLives()
	if err != nil {
		return err
	}
	c.past = s.past
	number, seal, err := s.commitOf()
	switch {
	case err != nil:
		return err
	case own.ID != c.m.StoreID || own.Epoch != c.m.Epoch || number != c.m.Commit:
		return fmt.Errorf("its state is that of commit %d of epoch %d of store %s, the manifest says commit %d of epoch "+
			"%d of store %s", number, own.Epoch, own.ID, c.m.Commit, c.m.Epoch, c.m.StoreID)
	case c.set.Secret == nil || seal == nil && number == 0:
		return nil
	}
	by := newSummer(c.set.Secret)
	sum, err := s.sumOf(by)
	if err == nil && !hmac.Equal(seal, by.seal(nil, s.id, number, sum)) {
		err = fmt.Errorf("its keys, grants, kills, operators, tools or waiting calls are not those of commit %d: they were "+
			"changed, or the pepper is that of another store", number)
	}
	return err
}

// records reads all of the log.
func (c *backupCheck) records() error {
	dir := dirOf(c.set.Dir)
	infos, err := segment.ReadList(files{c.fs}, dir, c.m.own())
	if err != nil {
		return err
	}
	tree, last := &log.Tree{}, uint64(0)
	for i, info := range infos {
		r, err := segment.Open(files{c.fs}, dir, ofCommit(c.past, c.m.own(), info.FirstCommit), info)
		if err != nil {
			return err
		}
		if i == 0 {
			tree = r.Start()
		}
		if err := r.Check(tree); err != nil {
			return err
		}
		last = info.LastCommit
	}
	if last != c.m.Commit || tree.Size() != c.m.Seq || tree.Root().String() != c.m.Root {
		return fmt.Errorf("its log ends with record %d (commit %d) and root %s, the manifest says %d (commit %d) and %s",
			tree.Size(), last, tree.Root(), c.m.Seq, c.m.Commit, c.m.Root)
	}
	if len(infos) > 0 && infos[0].FirstSeq > c.m.FromSeq {
		return fmt.Errorf("records %d to %d are missing", c.m.FromSeq, infos[0].FirstSeq-1)
	}
	return nil
}

// readOnly is a file system that refuses every change.
type readOnly struct{ unlocked }

var errReadOnly = errors.New("this file is only read, and must not be changed")

func (readOnly) Create(string, vfs.DiskWriteCategory) (vfs.File, error) { return nil, errReadOnly }
func (readOnly) OpenReadWrite(string, vfs.DiskWriteCategory, ...vfs.OpenOption) (vfs.File, error) {
	return nil, errReadOnly
}
func (readOnly) ReuseForWrite(string, string, vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, errReadOnly
}
func (readOnly) Link(string, string) error          { return errReadOnly }
func (readOnly) Remove(string) error                { return errReadOnly }
func (readOnly) RemoveAll(string) error             { return errReadOnly }
func (readOnly) Rename(string, string) error        { return errReadOnly }
func (readOnly) MkdirAll(string, os.FileMode) error { return nil }
