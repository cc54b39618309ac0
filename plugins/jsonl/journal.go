package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// flushAt is how many bytes of lines are gathered before they are written.
const flushAt = 256 << 10

// journal is one rotating file of lines. It is one goroutine's. After an error it is closed, and the next use opens it
// again and looks at what is in it: what was not known to be on disk is cut off and comes again.
type journal struct {
	disk     disk
	log      *slog.Logger
	now      func() time.Time
	path     string
	mode     os.FileMode
	maxBytes int64
	maxFiles int           // rotated ones that stay; 0 keeps all
	maxAge   time.Duration // rotated ones that are older go; 0 keeps all

	f       file // nil: to be opened
	size    int64
	synced  int64 // that much of size is on disk
	cutTo   int64 // where a file that could not be cut has to be cut before anything else; -1: nowhere
	pending []byte
	last    position  // of the last line
	lastAt  time.Time // when the last record in the file was made; zero if that is not known
}

// ready opens the file if it is not open.
func (j *journal) ready() error {
	if j.f != nil {
		return nil
	}
	f, err := j.disk.Open(j.path, j.mode)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	if err := j.recover(f); err != nil {
		_ = f.Close()
		return fmt.Errorf("open %s: %w", filepath.Base(j.path), err)
	}
	j.f, j.pending = f, j.pending[:0]
	return nil
}

// recover takes over what is in the file: it cuts a torn end and finds the last position.
func (j *journal) recover(f file) error {
	size, err := f.Size()
	if err != nil {
		return err
	}
	if j.cutTo >= 0 && j.cutTo < size {
		if err := f.Truncate(j.cutTo); err != nil {
			return err
		}
		size = j.cutTo
	}
	j.cutTo = -1
	t, err := readTail(f, size)
	if err != nil {
		return err
	}
	if t.whole < size {
		j.log.Warn("a torn last line is cut off; its record comes again", "file", filepath.Base(j.path), "bytes",
			size-t.whole)
		if err := f.Truncate(t.whole); err != nil {
			return err
		}
	}
	if err := errors.Join(f.Sync(), j.disk.SyncDir(filepath.Dir(j.path))); err != nil {
		return err
	}
	j.size, j.synced, j.last, j.lastAt = t.whole, t.whole, t.last, t.at
	if t.whole == 0 {
		t, err = j.lastRotated()
		j.last, j.lastAt = t.last, t.at
	} else if t.last == (position{}) {
		j.log.Warn("no record at the end of the file: records that come again cannot be told", "file", filepath.Base(j.path))
	}
	return err
}

// lastRotated is the end of the newest rotated file.
func (j *journal) lastRotated() (tail, error) {
	files, err := j.rotated()
	if err != nil || len(files) == 0 {
		return tail{}, err
	}
	f, err := j.disk.Read(filepath.Join(filepath.Dir(j.path), files[len(files)-1].name))
	if err != nil {
		return tail{}, err
	}
	defer func() { _ = f.Close() }()
	size, err := f.Size()
	if err != nil {
		return tail{}, err
	}
	return readTail(f, size)
}

// add puts one line, which ends in a newline, behind the others. It is on disk after sync.
func (j *journal) add(line []byte, at position) error {
	if err := j.ready(); err != nil {
		return err
	}
	if used := j.size + int64(len(j.pending)); used > 0 && used+int64(len(line)) > j.maxBytes {
		if err := j.sync(); err != nil {
			return err
		}
		if err := j.rotate(); err != nil {
			return err
		}
	}
	j.pending = append(j.pending, line...)
	j.last = at
	if len(j.pending) >= flushAt {
		return j.flush()
	}
	return nil
}

func (j *journal) flush() error {
	if len(j.pending) == 0 {
		return nil
	}
	n, err := j.f.Write(j.pending)
	if err != nil || n != len(j.pending) {
		if err == nil {
			err = errors.New("a short write")
		}
		return j.fail("write", err)
	}
	j.size += int64(n)
	j.pending = j.pending[:0]
	return nil
}

// sync returns when all lines are on disk.
func (j *journal) sync() error {
	if err := j.ready(); err != nil {
		return err
	}
	if err := j.flush(); err != nil {
		return err
	}
	if j.size == j.synced {
		return nil
	}
	if err := j.f.Sync(); err != nil {
		return j.fail("sync", err)
	}
	j.synced = j.size
	return nil
}

// fail drops what is not known to be on disk. After a failed sync the system may show bytes that never reach the disk,
// so what the file seems to hold is no proof.
func (j *journal) fail(doing string, err error) error {
	if cut := j.f.Truncate(j.synced); cut != nil {
		j.cutTo = j.synced
	}
	_ = j.f.Close()
	j.f, j.pending = nil, j.pending[:0]
	return fmt.Errorf("%s %s: %w", doing, filepath.Base(j.path), err)
}

// rotate gives the file its number and begins the next one. All of it is on disk already.
func (j *journal) rotate() error {
	files, err := j.rotated()
	if err != nil {
		return fmt.Errorf("rotate: %w", err)
	}
	next := uint64(1)
	if len(files) > 0 {
		next = files[len(files)-1].number + 1
	}
	dir, last := filepath.Dir(j.path), j.last
	err = j.f.Close()
	j.f = nil // whatever happens now, the next use looks at what is there
	if err != nil {
		return fmt.Errorf("rotate: %w", err)
	}
	if err := j.disk.Rename(j.path, filepath.Join(dir, j.rotatedName(next))); err != nil {
		return fmt.Errorf("rotate: %w", err)
	}
	if err := j.disk.SyncDir(dir); err != nil {
		return fmt.Errorf("rotate: %w", err)
	}
	if err := j.ready(); err != nil {
		return fmt.Errorf("rotate: %w", err)
	}
	j.last = last
	j.trim()
	return nil
}

// trim removes rotated files beyond the limits. That it cannot is logged and hinders nothing.
func (j *journal) trim() {
	files, err := j.rotated()
	if err != nil {
		j.log.Error("rotated files cannot be listed", "error", err.Error())
		return
	}
	for i, r := range files {
		many := j.maxFiles > 0 && len(files)-i > j.maxFiles
		stale := j.maxAge > 0 && j.now().Sub(r.modified) > j.maxAge
		if !many && !stale {
			continue
		}
		if err := j.disk.Remove(filepath.Join(filepath.Dir(j.path), r.name)); err != nil {
			j.log.Error("a rotated file cannot be removed", "file", r.name, "error", err.Error())
			continue
		}
		j.log.Info("a rotated file is removed, as max_files and max_age say", "file", r.name)
	}
}

type rotatedFile struct {
	entry
	number uint64
}

func (j *journal) rotatedName(n uint64) string {
	base := filepath.Base(j.path)
	ext := filepath.Ext(base)
	return fmt.Sprintf("%s.%06d%s", strings.TrimSuffix(base, ext), n, ext)
}

// rotated lists the rotated files, the oldest first.
func (j *journal) rotated() ([]rotatedFile, error) {
	all, err := j.disk.List(filepath.Dir(j.path))
	if err != nil {
		return nil, err
	}
	base := filepath.Base(j.path)
	ext := filepath.Ext(base)
	var out []rotatedFile
	for _, e := range all {
		digits, ok := strings.CutPrefix(e.name, strings.TrimSuffix(base, ext)+".")
		if !ok {
			continue
		}
		if digits, ok = strings.CutSuffix(digits, ext); !ok {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 63)
		if err != nil || j.rotatedName(n) != e.name {
			continue // not one of ours
		}
		out = append(out, rotatedFile{e, n})
	}
	slices.SortFunc(out, func(a, b rotatedFile) int {
		if a.number < b.number {
			return -1
		}
		return 1
	})
	return out, nil
}

func (j *journal) close() error {
	if j.f == nil {
		return nil
	}
	err := j.sync()
	if j.f != nil {
		err = errors.Join(err, j.f.Close())
		j.f = nil
	}
	return err
}
