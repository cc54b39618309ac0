package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/core/log/segment"
)

// The rows of layout 1, which had the records in Pebble's tables.
const (
	layoutOfRows = "1"
	rowsRecords  = 'a' // a|u64 first seq          → (u32 length, record)…: all records of one commit
	rowsHashes   = 'h' // h|u64 first stored index → 32-byte hashes…: the tree's hashes of one commit (tlog order)
)

// Upgraded says what an upgrade has done.
type Upgraded struct {
	From    string `json:"from"` // layouts
	To      string `json:"to"`
	Records uint64 `json:"records"`
	FromSeq uint64 `json:"from_seq"`
	ToSeq   uint64 `json:"to_seq"`
	Root    string `json:"root"` // of the tree, base64: the same before and after
}

// Layout is the layout's version of the store in set.Dir, and the one that this program writes. Nothing is changed.
func Layout(set Settings) (is, want string, err error) {
	if set.FS == nil {
		set.FS = vfs.Default
	}
	ours, found, err := hasWALDir(set.FS, filepath.Join(set.Dir, "db"))
	switch {
	case err != nil:
		return "", "", fmt.Errorf("open store in %s: %w", set.Dir, err)
	case !found:
		return "", "", fmt.Errorf("there is no store in %s", set.Dir)
	case !ours:
		return layoutOfRows, layoutVersion, nil
	}
	return layoutVersion, layoutVersion, nil
}

// Upgrade moves a store of layout 1 to today's. The records are built as segments beside it, their root is compared
// with the one that the tables give, and then one write makes the store one of the new layout and removes the old rows.
// Until then nothing of the old store is changed, and an upgrade that was broken off begins anew. Afterwards no older
// program can open the store. Only the holder of the data directory's lock may call it.
func Upgrade(set Settings) (*Upgraded, error) {
	if is, _, err := Layout(set); err != nil {
		return nil, err
	} else if is != layoutOfRows {
		return nil, fmt.Errorf("upgrade store in %s: its layout is version %q; an upgrade is from version %q to %q", set.Dir,
			is, layoutOfRows, layoutVersion)
	}
	u, err := openRows(set)
	if err != nil {
		return nil, err
	}
	err = u.s.guarded(func() error { return errors.Join(u.run(), u.db.Close()) })
	if err == nil {
		err = u.s.guarded(u.move)
	}
	if err != nil {
		return nil, fmt.Errorf("upgrade store in %s: %w", set.Dir, err)
	}
	return &u.done, nil
}

// upgrade is one upgrade.
type upgrade struct {
	s    *Store // not open: it waits for Pebble, as Open does
	set  Settings
	fs   vfs.FS
	db   *pebble.DB
	own  segment.Store
	list *segment.List
	tree *log.Tree

	commits []*log.Commit
	bytes   int
	number  uint64
	done    Upgraded
}

func openRows(set Settings) (*upgrade, error) {
	if set.FS == nil {
		set.FS = vfs.Default
	}
	if set.SealBytes == 0 {
		set.SealBytes = sealBytes
	}
	set.Log = func(string, ...any) {}
	s := &Store{set: set}
	s.seq = newSequencer(s)
	u := &upgrade{s: s, set: set, fs: disk{FS: set.FS, failed: s.gone, pass: func() error { return nil },
		grow: func(int) {}, table: func(vfs.DiskWriteCategory) error { return nil },
		spare: func() (string, bool) { return "", false }}}
	err := s.guarded(func() error {
		// what a move that was broken off has left there holds nothing
		return errors.Join(u.fs.RemoveAll(filepath.Join(u.path(), walDir)), u.open(&pebble.Options{}))
	})
	if err != nil {
		return nil, fmt.Errorf("open store in %s: %w", set.Dir, err)
	}
	return u, nil
}

func (u *upgrade) open(o *pebble.Options) (err error) {
	o.FS, o.ErrorIfNotExists, o.FormatMajorVersion, o.Logger = u.fs, true, pebble.FormatNewest, logger{u.s}
	u.db, err = pebble.Open(u.path(), o)
	return err
}

func (u *upgrade) path() string { return filepath.Join(u.set.Dir, "db") }

// move gives a store that has today's layout but for this a directory to write ahead in. The old write-ahead logs hold
// no records.
func (u *upgrade) move() error {
	if err := u.head(); err != nil { // before anything says that the store is one of today's
		return err
	}
	err := u.open(&pebble.Options{WALDir: pebble.MakeStoreRelativePath(u.fs, walDir),
		WALRecoveryDirs: []wal.Dir{{FS: u.fs, Dirname: u.path()}}})
	if err != nil {
		return err
	}
	return u.db.Close()
}

func (u *upgrade) get(key []byte) ([]byte, bool, error) { return (&Store{db: u.db}).get(key) }

func (u *upgrade) run() error {
	format, _, err := u.get(keyStr(prefixMeta, "format"))
	if err != nil {
		return err
	}
	id, found, err := u.get(keyStr(prefixMeta, "store"))
	u.done = Upgraded{From: layoutOfRows, To: layoutVersion}
	u.own = segment.Store{ID: string(id), Epoch: 1, Salt: log.NewSalt(string(id), 1)}
	switch {
	case err != nil:
		return err
	case found && string(format) == layoutVersion: // it was broken off behind the write that decides
		return u.built()
	case !found || string(format) != layoutOfRows:
		return fmt.Errorf("its layout is version %q; an upgrade is from version %q to %q", format, layoutOfRows,
			layoutVersion)
	}
	dir := dirOf(u.set.Dir)
	if _, err := u.fs.Stat(filepath.Join(dir, headName)); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, fmt.Errorf("%s is that of a store of layout %s, and the database is of layout %s: put the "+
			"directory back from where it was saved", filepath.Join(dir, headName), layoutVersion, layoutOfRows))
	}
	for _, left := range []string{dir, dir + ".new"} { // of an upgrade that was broken off
		if err := u.fs.RemoveAll(left); err != nil {
			return err
		}
	}
	if err := u.build(dir + ".new"); err != nil {
		return err
	}
	if err := u.fs.Rename(dir+".new", dir); err != nil {
		return err
	}
	if err := syncDir(u.fs, u.set.Dir); err != nil {
		return err
	}
	return u.commit()
}

// head writes log/head: what it says is what the segments say.
func (u *upgrade) head() error {
	file := headFile{fs: u.set.FS, path: filepath.Join(dirOf(u.set.Dir), headName), secret: u.set.Secret}
	h := head{Clock: clockState{Now: u.set.Now()}, Epoch: u.own.Epoch, Clean: true, Commit: u.number,
		Size: u.tree.Size(), Store: u.own.ID, Root: u.tree.Root()}
	if err := file.open(h); err != nil {
		return err
	}
	return file.f.Close()
}

// built says what an earlier call has built.
func (u *upgrade) built() (err error) {
	dir := dirOf(u.set.Dir)
	if u.list, err = segment.OpenList(files{u.fs}, dir, u.own); err != nil {
		return err
	}
	u.tree = &log.Tree{}
	for i, info := range u.list.Infos() {
		r, err := segment.Open(files{u.fs}, dir, u.own, info)
		if err != nil {
			return err
		}
		if u.tree, u.number = r.End(), r.LastCommit; i == 0 {
			u.done.FromSeq = info.FirstSeq
		}
	}
	if u.done.ToSeq = u.tree.Size(); u.done.FromSeq > 0 {
		u.done.Records = u.done.ToSeq + 1 - u.done.FromSeq
	}
	u.done.Root = u.tree.Root().String()
	return nil
}

// build makes the segments and compares the roots.
func (u *upgrade) build(dir string) (err error) {
	if u.list, err = segment.OpenList(files{u.fs}, dir, u.own); err != nil {
		return err
	}
	it, err := u.db.NewIter(&pebble.IterOptions{LowerBound: []byte{rowsRecords}, UpperBound: upper(rowsRecords)})
	if err != nil {
		return err
	}
	for it.First(); it.Valid(); it.Next() {
		if err := u.add(dir, it.Key(), it.Value()); err != nil {
			return errors.Join(err, it.Close())
		}
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return err
	}
	if u.tree == nil {
		u.tree = &log.Tree{}
	}
	if err := u.seal(dir); err != nil {
		return err
	}
	size := u.tree.Size()
	root, err := tlog.TreeHash(int64(size), rowHashes{u.db})
	if err != nil {
		return err
	}
	if got := u.tree.Root(); got != root {
		return fmt.Errorf("the records give the root %v, the tree in the store has %v: nothing was changed", got, root)
	}
	u.done.ToSeq, u.done.Root = size, root.String()
	return nil
}

// add takes the records of one commit.
func (u *upgrade) add(dir string, key, value []byte) error {
	if len(key) != 9 {
		return errors.New("a record key of the wrong length")
	}
	first := binary.BigEndian.Uint64(key[1:])
	if u.tree == nil {
		front, err := log.Resume(first-1, rowHashes{u.db})
		if err != nil {
			return err
		}
		u.tree, u.done.FromSeq = front, first
	}
	edge := u.tree.Size() + 1
	if n := len(u.commits); n > 0 {
		edge = u.commits[n-1].Next()
	}
	if first != edge {
		return fmt.Errorf("records %d to %d are missing", edge, first-1)
	}
	u.number++
	c := &log.Commit{Number: u.number, First: first, Records: append([]byte(nil), value...)}
	if err := log.EachRecord(c.Records, func([]byte) error { c.Count++; return nil }); err != nil {
		return fmt.Errorf("record %d: %w", first, err)
	}
	u.commits = append(u.commits, c)
	u.done.Records += c.Count
	if u.bytes += len(c.Records); u.bytes < u.set.SealBytes {
		return nil
	}
	return u.seal(dir)
}

func (u *upgrade) seal(dir string) error {
	if len(u.commits) == 0 {
		return nil
	}
	edge := u.tree.Copy()
	for _, c := range u.commits {
		err := log.EachRecord(c.Records, func(rec []byte) error { c.Hashes = edge.Append(rec, c.Hashes); return nil })
		if err != nil {
			return err
		}
	}
	info, err := segment.Write(files{u.fs}, dir, u.own, u.tree, u.commits)
	if err == nil {
		err = u.list.Sealed(info)
	}
	u.commits, u.bytes = nil, 0
	return err
}

// commit makes it a store of today's layout.
func (u *upgrade) commit() error {
	by := newSummer(u.set.Secret)
	sum, err := (&Store{db: u.db}).sumOf(by)
	if err != nil {
		return err
	}
	b := u.db.NewBatch()
	defer b.Close()
	err = errors.Join(b.Set(keyStr(prefixMeta, "format"), []byte(layoutVersion), nil),
		b.Set(commitRow, by.seal(nil, u.own.ID, u.number, sum), nil),
		b.Set(keyStr(prefixMeta, "kept"), binary.BigEndian.AppendUint64(nil, max(u.done.FromSeq, 1)), nil),
		b.DeleteRange([]byte{rowsRecords}, upper(rowsRecords), nil),
		b.DeleteRange([]byte{rowsHashes}, upper(rowsHashes), nil))
	if err != nil {
		return err
	}
	return b.Commit(pebble.Sync)
}

// rowHashes gives tlog the stored hashes of layout 1.
type rowHashes struct{ db *pebble.DB }

// ReadHashes implements tlog.HashReader.
func (r rowHashes) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	it, err := r.db.NewIter(&pebble.IterOptions{LowerBound: []byte{rowsHashes}, UpperBound: upper(rowsHashes)})
	if err != nil {
		return nil, fmt.Errorf("read tree: %w", err)
	}
	out := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		if !it.SeekLT(keyU64(rowsHashes, uint64(x)+1)) {
			return nil, errors.Join(fmt.Errorf("read tree: hash %d is missing", x), it.Close())
		}
		off := (uint64(x) - binary.BigEndian.Uint64(it.Key()[1:])) * tlog.HashSize
		v := it.Value()
		if off+tlog.HashSize > uint64(len(v)) {
			return nil, errors.Join(fmt.Errorf("read tree: hash %d is missing", x), it.Close())
		}
		copy(out[i][:], v[off:])
	}
	return out, it.Close()
}
