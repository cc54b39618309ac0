package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/yett-dev/yett/core/log/segment"
)

// layoutVersion is refused when it is not ours: an older binary must not write to a newer store.
const layoutVersion = "2"

// walDir is where Pebble writes ahead, in its own directory. Layout 1 had no such directory, and Pebble opens no store
// that has one without being told: a program that knows only layout 1, and would remove write-ahead logs whose records
// it does not see, is refused before it touches anything.
const walDir = "wal"

// options are Pebble's.
func (s *Store) options(fs disk) *pebble.Options {
	return &pebble.Options{
		FS:                 asideFS{fs, filepath.Join(s.set.Dir, asideName)},
		WALDir:             pebble.MakeStoreRelativePath(fs, walDir),
		Cleaner:            pebble.ArchiveCleaner{},
		FormatMajorVersion: pebble.FormatNewest,
		Logger:             logger{s},
		EventListener:      s.gate.listener(),
		// Bursts are to be taken, not refused: Pebble's own limits would stop writes for longer than the stall limit while it
		// still has only a few files to compact. The price is some memory and slower reads after a burst.
		MemTableStopWritesThreshold: 8,
		L0StopWritesThreshold:       64,
	}
}

// known refuses a store of another layout before Pebble opens it: opening changes a store. What it lets pass may still
// say otherwise: see identify.
func (s *Store) known(db string) error {
	ours, found, err := hasWALDir(s.set.FS, db)
	switch {
	case err != nil:
		return err
	case found && !ours:
		return s.foreign(layoutOfRows)
	case found:
		return nil
	}
	if is, err := pebble.Peek(db, s.set.FS); err == nil {
		s.begun = is.Exists
	}
	// Pebble would make a new database here, and a store without its rows
	left, err := s.leftOf(true)
	switch {
	case err != nil:
		return err
	case left != "":
		return fmt.Errorf("there is no whole database in %s, and %s is there: files are missing; put the directory back "+
			"from where it was saved", db, left)
	case s.set.NewID() == "":
		return errNoStore
	}
	return nil
}

var errNoStore = errors.New("there is no store yet, and a command that only reads makes none")

// leftOf names a file that says that a store was here; "" where there is none. What a first start has left that was
// broken off says nothing: it makes no table, and writes to no log, before there is a database that names its options.
// Once that is open its logs were read, and what of them is whole has told all it can.
func (s *Store) leftOf(logs bool) (path string, err error) {
	log := &s.records
	for _, dir := range []string{log.dir, log.wals(), filepath.Join(s.set.Dir, "db"), log.ahead()} {
		names, err := s.set.FS.List(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		for _, name := range names {
			path := filepath.Join(dir, name)
			switch ext := filepath.Ext(name); {
			case name == headName && dir == log.dir, ext == ".seg", ext == ".sst", ext == ".blob":
				return path, nil
			case name == segment.ListName, ext == ".log" && (logs || dir == log.wals()):
				if st, err := s.set.FS.Stat(path); err != nil || st.Size() > 0 {
					return path, err
				}
			}
		}
	}
	return "", nil
}

func (s *Store) foreign(layout string) error {
	err := fmt.Errorf("its layout is version %q, this program knows %q", layout, layoutVersion)
	if layout == layoutOfRows {
		err = fmt.Errorf("%w: stop every program that uses it, and run yett store upgrade --data %s", err, s.set.Dir)
	}
	return err
}

// hasWALDir reports whether Pebble writes ahead in a directory of its own. found is false where there is no store, or
// one that was never open.
func hasWALDir(disk vfs.FS, db string) (has, found bool, err error) {
	is, err := pebble.Peek(db, disk)
	if errors.Is(err, fs.ErrNotExist) {
		return false, false, nil
	}
	if err != nil || !is.Exists || is.OptionsFilename == "" {
		return false, false, err
	}
	f, err := disk.Open(filepath.Join(db, filepath.Base(is.OptionsFilename)))
	if err != nil {
		return false, false, err
	}
	text, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return false, false, err
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && key == "wal_dir" {
			return value != "", true, nil
		}
	}
	return false, false, fmt.Errorf("%s does not say where its write-ahead log is", is.OptionsFilename)
}
