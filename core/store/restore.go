package store

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/core/log/segment"
	"github.com/yett-dev/yett/sdk"
)

// TypeRestored is the type of the first record that a restored store writes.
const TypeRestored = "restored"

// Restore makes a store of a backup. Settings are those of the new store: NewID gives its id, Secret is the pepper of
// the old one, which all keys depend on.
type Restore struct {
	Settings
	From string   // the backup
	Keys log.Keys // trusted keys of the backup's checkpoint; none: its own counts
	By   Who

	Since *Since // what is known of the time since the backup; nil: nothing
	Apply bool   // take away again what was taken away since
}

// Restored says what was made.
type Restored struct {
	StoreID     string  `json:"store_id"`
	Epoch       uint32  `json:"epoch"`
	FromStoreID string  `json:"from_store_id"`
	FromEpoch   uint32  `json:"from_epoch"`
	FromSeq     uint64  `json:"from_seq"` // the last record of the backup
	Seq         uint64  `json:"seq"`      // the last record now
	Since       []Taken `json:"since"`    // what was taken away since the backup

	Missing []MissingRange `json:"missing,omitempty"` // by Since
}

// BeginRestore makes the directory one that no store is opened in before Restore is done. It refuses one that has a
// store, or the beginning of one. Only the holder of the data directory's lock may call it.
func BeginRestore(disk vfs.FS, dir string) error {
	if disk == nil {
		disk = vfs.Default
	}
	path := filepath.Join(dir, restoring)
	if _, err := disk.Stat(path); err == nil {
		return nil // it was broken off, and begins anew
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, name := range []string{"db", "log", "audit.key", ManifestName} {
		if _, err := disk.Stat(filepath.Join(dir, name)); err == nil {
			return fmt.Errorf("%s is there: give a new directory, in which there is no store", filepath.Join(dir, name))
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := disk.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	l := &recordLog{fs: disk}
	if err := l.put(path, []byte("yett restore has not finished here\n")); err != nil {
		return err
	}
	return syncDir(disk, filepath.Dir(dir))
}

// Run makes the store. Until it returns no store can be opened in the directory. What it is given is read and not
// changed.
func (r *Restore) Run() (*Restored, error) {
	if r.FS == nil {
		r.FS = vfs.Default
	}
	out, err := r.run()
	if err != nil {
		return nil, fmt.Errorf("restore to %s: %w", r.Dir, err)
	}
	return out, nil
}

func (r *Restore) run() (*Restored, error) {
	found, err := CheckBackup(BackupSettings{Dir: r.From, FS: r.FS, Secret: r.Secret, Keys: r.Keys})
	if err != nil {
		return nil, err
	}
	m := found.Manifest
	if r.Since != nil && r.Since.of != m.Root {
		return nil, errors.New("what was taken away since is that of another backup")
	}
	if err := BeginRestore(r.FS, r.Dir); err != nil {
		return nil, err
	}
	id := r.NewID()
	if id == "" || id == m.StoreID {
		return nil, errors.New("a restored store needs an id of its own")
	}
	own := storeOf(id, m.Epoch+1)
	for _, step := range []func(*Manifest, segment.Store) error{r.copy, r.rename, r.head} {
		if err := step(m, own); err != nil {
			return nil, err
		}
	}
	out := &Restored{StoreID: id, Epoch: own.Epoch, FromStoreID: m.StoreID, FromEpoch: m.Epoch, FromSeq: m.Seq,
		Since: []Taken{}}
	if err := r.begin(m, out); err != nil {
		return nil, err
	}
	if err := r.FS.Remove(filepath.Join(r.Dir, restoring)); err != nil {
		return nil, err
	}
	return out, syncDir(r.FS, r.Dir)
}

// copy copies the files, in place of those that an earlier try has left.
func (r *Restore) copy(m *Manifest, _ segment.Store) error {
	for _, name := range []string{"db", "log"} {
		if err := r.FS.RemoveAll(filepath.Join(r.Dir, name)); err != nil {
			return err
		}
	}
	dirs := map[string]bool{r.Dir: true}
	for i := range m.Files {
		f := &m.Files[i]
		to := filepath.Join(r.Dir, f.Name)
		for dir := filepath.Dir(to); !dirs[dir]; dir = filepath.Dir(dir) {
			if err := r.FS.MkdirAll(dir, 0o700); err != nil {
				return err
			}
			dirs[dir] = true
		}
		if err := r.copyFile(f, to); err != nil {
			return err
		}
	}
	for dir := range dirs {
		if err := syncDir(r.FS, dir); err != nil {
			return err
		}
	}
	return nil
}

func (r *Restore) copyFile(f *BackupFile, path string) error {
	in, err := r.FS.Open(filepath.Join(r.From, f.Name))
	if err != nil {
		return err
	}
	to, err := r.FS.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return errors.Join(err, in.Close())
	}
	return errors.Join(f.copy(to, in), to.Sync(), to.Close(), in.Close())
}

// rename gives state and list the new name, and takes from the state what must not be there again: sign-ins, and
// cursors that lie behind the end of the log.
func (r *Restore) rename(m *Manifest, own segment.Store) error {
	dir := dirOf(r.Dir)
	infos, err := segment.ReadList(files{r.FS}, dir, m.own())
	if err != nil {
		return err
	}
	if err := segment.WriteList(files{r.FS}, dir, own, infos); err != nil {
		return err
	}
	return withDB(r.Settings, filepath.Join(r.Dir, "db"), func(s *Store) error {
		b := s.db.NewBatch()
		defer b.Close()
		if err := r.rows(s, m, own, b); err != nil {
			return err
		}
		return errors.Join(b.Commit(pebble.Sync), s.db.Flush())
	})
}

func (r *Restore) rows(s *Store, m *Manifest, own segment.Store, b *pebble.Batch) error {
	s.id = m.StoreID
	if _, err := s.loadLives(); err != nil {
		return err
	}
	lives, err := json.Marshal(append(s.past, life{Store: m.StoreID, Epoch: m.Epoch, Commit: m.Commit, Seq: m.Seq}))
	if err != nil {
		return err
	}
	by := newSummer(r.Secret)
	sum, err := s.sumOf(by)
	if err != nil {
		return err
	}
	err = errors.Join(b.Set(keyStr(prefixMeta, "store"), []byte(own.ID), nil), b.Set(livesRow, lives, nil),
		b.DeleteRange([]byte{prefixSession}, upper(prefixSession), nil))
	if m.Commit > 0 {
		err = errors.Join(err, b.Set(commitRow, by.seal(nil, own.ID, m.Commit, sum), nil))
	}
	if err != nil {
		return err
	}
	return s.scan(prefixCursor, func(key, value []byte) error {
		if len(value) != 16 {
			return fmt.Errorf("the cursor of %q has %d bytes", key[1:], len(value))
		}
		var to []byte
		for at := 0; at < len(value); at += 8 {
			to = binary.BigEndian.AppendUint64(to, min(binary.BigEndian.Uint64(value[at:]), m.Seq))
		}
		return b.Set(key, to, nil)
	})
}

// head says how far the log is.
func (r *Restore) head(m *Manifest, own segment.Store) error {
	root, err := tlog.ParseHash(m.Root)
	if err != nil {
		return err
	}
	file := headFile{fs: r.FS, path: filepath.Join(dirOf(r.Dir), headName), secret: r.Secret}
	clock := clockState{Now: m.Time}
	if now := r.Now(); now.After(m.Time) { // who restores looks at the clock; a backup may be older than a machine is off
		clock.Now = now
	}
	err = file.open(head{Clock: clock, Epoch: own.Epoch, Clean: true, Commit: m.Commit, Size: m.Seq, Root: root,
		Store: own.ID})
	if err != nil {
		return err
	}
	return file.f.Close()
}

// begin opens the store, and writes what its new life begins with.
func (r *Restore) begin(m *Manifest, out *Restored) error {
	set := r.Settings
	set.restoring, set.NewID = true, noID
	s, err := Open(set)
	if err != nil {
		return err
	}
	err = s.Commit(context.Background(), &beginLife{m: m, by: r.By})
	if err == nil && r.Since != nil {
		out.Missing = r.Since.missing
		out.Since, err = r.Since.replayTaken(s, r.By, r.Apply)
	}
	out.Seq = s.Seq()
	return errors.Join(err, s.Close())
}

// beginLife records that a log goes on under another name, behind the newest checkpoint of the one that it had. It is
// the first record of that: what is over since the backup ends behind it.
type beginLife struct {
	m  *Manifest
	by Who
}

func (*beginLife) class() class { return noting }

func (c *beginLife) apply(tx *tx) error {
	if tx.q.tree.Size() != c.m.Seq {
		return sdk.Errf(sdk.CodeConflict, "the log has %d records, the backup %d", tx.q.tree.Size(), c.m.Seq)
	}
	o := tx.record(TypeRestored)
	by := c.by
	if by.Principal == "" {
		by = system
	}
	by.write(&o)
	o.Str("from_store_id", c.m.StoreID)
	o.Int("from_epoch", int64(c.m.Epoch))
	o.Int("from_seq", int64(c.m.Seq))
	o.Str("from_checkpoint", c.m.Checkpoint)
	o.Str("from_public_key", c.m.PublicKey)
	o.Str("backed_up_at", c.m.Time.UTC().Format(time.RFC3339Nano))
	tx.end(o)
	tx.q.unborn = false
	return nil
}
