package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// spares are files that the next write-ahead logs are written over. To sync what is written over bytes that are on disk
// already is cheaper by far than to sync a file that grows, for which the file system has to write its own log too.
// Pebble does the same with logs that it needs no more; those here are needed until their records are sealed. What an
// old log has left behind the end of a new one is no part of it: every piece of a log has the log's number.
type spares struct {
	fs   vfs.FS
	raw  vfs.FS // whose errors end nothing
	dir  string // where write-ahead logs are: a spare is renamed to be one
	size int    // bytes of records that go with a write-ahead log

	mu    sync.Mutex
	paths []string
	made  int  // number of the next one
	full  bool // a start makes at most one itself
}

const (
	mostSpares  = 2
	spareName   = "spare-"
	fillingName = "filling"
	fillPiece   = 256 << 10
)

// find takes what an earlier process has left. Where the disk is nearly full it makes room instead.
func (s *spares) find() error {
	names, err := s.fs.List(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		switch path := filepath.Join(s.dir, name); {
		case strings.HasPrefix(name, spareName) && len(s.paths) < mostSpares && s.roomy():
			s.made = max(s.made, numberOf(name)+1)
			s.paths = append(s.paths, path)
		case strings.HasPrefix(name, spareName), name == fillingName:
			if err := s.fs.Remove(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// roomy reports whether the disk has room for more than spares. One that does not say has.
func (s *spares) roomy() bool {
	use, err := s.fs.GetDiskUsage(s.dir)
	return err != nil || use.AvailBytes > uint64(16*s.size)
}

func numberOf(name string) (n int) {
	if _, err := fmt.Sscanf(name, spareName+"%d", &n); err != nil {
		return 0
	}
	return n
}

// takeSpare gives one away, to be renamed before anything else is taken.
func (s *spares) takeSpare() (path string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.paths) == 0 {
		return "", false
	}
	path, s.paths = s.paths[0], s.paths[1:]
	return path, true
}

// put keeps a write-ahead log that is needed no more, by another name. kept is false if it is not wanted.
func (s *spares) put(path string) (kept bool, err error) {
	st, err := s.fs.Stat(path)
	if err != nil {
		return false, err
	}
	to, ok := s.next(st.Size())
	if !ok {
		return false, nil
	}
	if err := s.fs.Rename(path, to); err != nil {
		return false, err
	}
	s.add(to)
	return true, nil
}

// next is the name for one more of that size, bytes.
func (s *spares) next(size int64) (path string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.paths) >= mostSpares || size > 4*int64(s.size) {
		return "", false
	}
	path = filepath.Join(s.dir, fmt.Sprint(spareName, s.made))
	s.made++
	return path, true
}

func (s *spares) add(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paths = append(s.paths, path)
}

// wanted reports whether a first spare is to be made, when so many bytes of records are not sealed: a store that is
// only read, or written to a little, needs none.
func (s *spares) wanted(bytes int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.full && len(s.paths) == 0 && bytes >= s.size/8
}

// fill makes a first spare, of zeros. The store needs none: where there is no room for it, or the disk takes it in no
// other way, there is none.
func (s *spares) fill(say func(format string, args ...any)) {
	s.mu.Lock()
	s.full = true
	s.mu.Unlock()
	if !s.roomy() {
		return
	}
	filling := filepath.Join(s.dir, fillingName)
	if err := s.make(filling); err != nil {
		say("store: %s could not be made, and write-ahead logs grow as they are written: %v", filling,
			errors.Join(err, s.raw.Remove(filling)))
	}
}

func (s *spares) make(filling string) error {
	f, err := s.raw.Create(filling, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	want := s.size + s.size/4
	piece := make([]byte, min(want, fillPiece))
	for done := 0; err == nil && done < want; done += len(piece) {
		_, err = f.Write(piece)
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	to, ok := s.next(0)
	if !ok {
		return s.raw.Remove(filling)
	}
	if err := s.raw.Rename(filling, to); err != nil {
		return err
	}
	s.add(to)
	return nil
}
