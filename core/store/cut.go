package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"

	"github.com/yett-dev/yett/core/log"
)

// mostCut is how many commits a start cuts off at most that do not say up to where answers had left: a batch, and the
// few behind it that were to take it back. Those that say so may be more: each sync took longer than answers wait.
const mostCut = 64

// cut takes off what landed and was not released in this life of the machine, before Pebble reads it: only write-ahead
// logs hold it, see tableGate. What takes something away is kept in a file first, see residue. The newest is cut first,
// so that a start that ends meanwhile leaves no hole. A mark of an earlier time cuts nothing, unless it is older by the
// last commit alone, and log/head does not know of that either. What it would have cut rightly stands then.
func (l *recordLog) cut() error {
	m, found, err := l.readMark()
	if err == nil {
		err = l.s.checkMark(found)
	}
	if err != nil {
		return err
	}
	logs, err := l.syncLogs()
	if err != nil || len(logs) == 0 || !found {
		return err
	}
	r, at := &residue{}, make([]int64, len(logs))
	for i, one := range logs {
		if at[i], _, err = r.find(one, m); err != nil {
			_, path := one.SegmentLocation(0)
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	n := len(r.commits)
	if n == 0 {
		return nil
	}
	switch left, err := l.leftBy(&m, r.left); {
	case err != nil:
		return err
	case left > m.Released:
		l.s.set.Log("store: %s is that of an earlier time: answers up to commit %d have left, it says up to commit %d; "+
			"nothing is cut off the log", filepath.Join(l.dir, markName), left, m.Released)
		return nil
	case n > mostCut && r.untold(m.Released):
		return fmt.Errorf("%s says that the answers to the newest %d commits have not left, which cannot be: put the "+
			"directory back from where it was saved", filepath.Join(l.dir, markName), n)
	}
	if err := l.keepResidue(r, m.salt()); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Join(l.dir, residueName), err)
	}
	for i, one := range slices.Backward(logs) {
		if at[i] == nothing {
			continue
		}
		_, path := one.SegmentLocation(0)
		if err := l.shorten(path, at[i]); err != nil {
			return fmt.Errorf("cut %s at %d: %w", path, at[i], err)
		}
	}
	l.s.set.Log("store: commits %d to %d are cut off the log: they reached the disk after their callers had been told "+
		"that nothing was recorded, and the process ended before it could take them back; what took something away is "+
		"done again", r.commits[0].Number, r.commits[n-1].Number)
	return nil
}

// syncLogs makes what is in the write-ahead logs be on disk: a process that was killed between a write and its sync
// leaves what only the machine's memory has, and from here on it is built upon. It gives the logs that Pebble will
// read; none where there is no directory for them: load says what is missing.
func (l *recordLog) syncLogs() ([]wal.LogicalLog, error) {
	names, err := l.fs.List(l.ahead())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		path := filepath.Join(l.ahead(), name)
		switch filepath.Ext(name) {
		case ".tmp": // of a cut that was broken off
			err = l.fs.Remove(path)
		case ".log":
			err = l.sync(path)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := syncDir(l.fs, l.ahead()); err != nil {
		return nil, err
	}
	return wal.Scan(wal.Dir{FS: l.fs, Dirname: l.ahead()})
}

func (l *recordLog) sync(path string) error {
	f, err := l.fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// leftBy is the newest commit whose answers are known to have left: by the commits that were written behind it, and by
// log/head. What is not synced can be lost without a restart of the machine, by a disk that fails or by whoever puts a
// file back, and the mark is of an earlier time then. The end of a container or a file system mounted anew leaves it as
// it is, so that neither makes it doubtful.
func (l *recordLog) leftBy(m *mark, commits uint64) (uint64, error) {
	if l.s.set.Renew {
		return commits, nil
	}
	h, found, err := l.s.head.read()
	switch {
	case err != nil: // what it knows of must not go
		return 0, err
	case !found || h.Store != m.Store || h.Epoch != m.Epoch:
		return commits, nil // checkHead says what is wrong with it
	}
	return max(commits, h.Commit), nil
}

// untold reports whether one of the commits does not say that answers had left up to that one when it was written.
func (r *residue) untold(released uint64) bool {
	return released == 0 || slices.ContainsFunc(r.commits, func(c log.Commit) bool { return c.Left != released })
}

// nothing is where a write-ahead log is cut that holds nothing to cut off.
const nothing = -1

// find reads a write-ahead log. It gives the place at which the first batch begins that is not released, and the place
// from which on the log cannot be read; each is the constant nothing if there is no such place.
func (r *residue) find(one wal.LogicalLog, m mark) (at, end int64, err error) {
	in := one.OpenForRead()
	defer func() { err = errors.Join(err, in.Close()) }()
	for at = nothing; ; {
		rec, off, err := in.NextRecord()
		switch {
		case errors.Is(err, io.EOF):
			return at, nothing, nil
		case record.IsInvalidRecord(err):
			return at, off.Physical, nil
		case err != nil:
			return 0, 0, err
		}
		repr, err := io.ReadAll(rec)
		if err != nil {
			return 0, 0, err
		}
		err = framesOf(batchrepr.Read(repr), func(frame []byte) error {
			c, err := log.ParseFrame(frame, m.salt())
			if err != nil {
				return err
			}
			if r.whole && r.newest > 0 && c.Number != r.newest+1 {
				return fmt.Errorf("commit %d follows commit %d: what lies between them is missing", c.Number, r.newest)
			}
			r.left, r.newest = max(r.left, c.Left), c.Number
			if c.Number <= m.Released {
				return nil
			}
			if at == nothing {
				at = off.Physical
			}
			r.commits = append(r.commits, c)
			return nil
		})
		if err != nil {
			return 0, 0, err
		}
	}
}

// shorten leaves the first bytes of a file.
func (l *recordLog) shorten(path string, size int64) error {
	f, err := l.fs.Open(path)
	if err != nil {
		return err
	}
	data := make([]byte, size)
	_, err = io.ReadFull(f, data)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return l.put(path, data)
}

// put makes a file anew, whole and on disk.
func (l *recordLog) put(path string, data []byte) error {
	out, err := l.fs.Create(path+".tmp", vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = out.Write(data)
	if err = errors.Join(err, out.Sync(), out.Close()); err != nil {
		return err
	}
	if err := l.fs.Rename(path+".tmp", path); err != nil {
		return err
	}
	return syncDir(l.fs, filepath.Dir(path))
}

// readAll reads a file; found is false where there is none.
func readAll(disk vfs.FS, path string) (data []byte, found bool, err error) {
	f, err := disk.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	data, err = io.ReadAll(f)
	return data, true, errors.Join(err, f.Close())
}
