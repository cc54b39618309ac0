package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// disk is the file system that Pebble writes through. Two things are ours:
//
// A failed write or sync is never retried. Pebble retries some, panics in its own goroutines on others, and goes on
// after some that it has called fatal. Here the first failure ends the store, refusals go out, the process ends, and
// whoever wanted to write waits for that.
//
// A manifest's name is synced before the marker file that points to it is made. Pebble syncs their directory once,
// behind both: a power cut in between may keep the marker without the manifest, which is a store that cannot be opened.
//
// A file that Pebble needs no more is not archived, as Pebble would, but retired.
//
// A table waits until what it may hold is released: see tableGate; and until there is room for it: see room.
//
// A write-ahead log is written over an old one, if there is one to spare: see spares.
type disk struct {
	vfs.FS
	failed func(err error) // does not return
	retire func(path string) error
	pass   func() error
	grow   func(bytes int)                            // in front of each write
	table  func(category vfs.DiskWriteCategory) error // an error of it ends a compaction, and not the store
	spare  func() (path string, ok bool)
}

func (d disk) check(err error) {
	if err != nil {
		d.failed(fullness(err))
	}
}

func (d disk) file(f vfs.File, err error) (vfs.File, error) {
	d.check(err)
	return diskFile{f, d}, nil
}

// Create creates a file; when it is a manifest, its name is on disk when Create returns.
func (d disk) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	switch filepath.Ext(name) {
	case ".sst", ".blob":
		if err := d.pass(); errors.Is(err, errClosing) {
			return nil, err
		} else if err != nil {
			d.check(err)
		}
		if err := d.table(category); err != nil {
			return nil, err
		}
	case ".log":
		if from, ok := d.spare(); ok {
			return d.ReuseForWrite(from, name, category)
		}
	}
	f, err := d.FS.Create(name, category)
	if err == nil && strings.HasPrefix(filepath.Base(name), "MANIFEST-") {
		err = d.syncDir(filepath.Dir(name))
	}
	return d.file(f, err)
}

func (d disk) syncDir(name string) error {
	dir, err := d.FS.OpenDir(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// ReuseForWrite renames a file and opens it for writing.
func (d disk) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return d.file(d.FS.ReuseForWrite(from, to, category))
}

// OpenReadWrite opens a file for writing.
func (d disk) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return d.file(d.FS.OpenReadWrite(name, category, opts...))
}

// OpenDir opens a directory, which is done to sync it.
func (d disk) OpenDir(name string) (vfs.File, error) { return d.file(d.FS.OpenDir(name)) }

// Link links a file.
func (d disk) Link(from, to string) error { d.check(d.FS.Link(from, to)); return nil }

// Rename renames a file, or retires it.
func (d disk) Rename(from, to string) error {
	if filepath.Base(filepath.Dir(to)) == archived {
		d.check(d.retire(from))
		return nil
	}
	d.check(d.FS.Rename(from, to))
	return nil
}

// MkdirAll makes a directory with those above it.
func (d disk) MkdirAll(dir string, mode os.FileMode) error {
	if filepath.Base(dir) == archived {
		return nil
	}
	return d.FS.MkdirAll(dir, mode)
}

// Unwrap gives the file system below.
func (d disk) Unwrap() vfs.FS { return d.FS }

// diskFile is a file or directory that is written to.
type diskFile struct {
	vfs.File
	d disk
}

// Write writes.
func (f diskFile) Write(p []byte) (int, error) {
	f.d.grow(len(p))
	n, err := f.File.Write(p)
	f.d.check(err)
	return n, nil
}

// WriteAt writes.
func (f diskFile) WriteAt(p []byte, at int64) (int, error) {
	n, err := f.File.WriteAt(p, at)
	f.d.check(err)
	return n, nil
}

// Sync syncs.
func (f diskFile) Sync() error { f.d.check(f.File.Sync()); return nil }

// SyncData syncs.
func (f diskFile) SyncData() error { f.d.check(f.File.SyncData()); return nil }

// SyncTo syncs.
func (f diskFile) SyncTo(length int64) (bool, error) {
	full, err := f.File.SyncTo(length)
	f.d.check(err)
	return full, nil
}

// Close closes.
func (f diskFile) Close() error { f.d.check(f.File.Close()); return nil }
