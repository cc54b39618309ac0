package store

import (
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/yett-dev/yett/core/log/segment"
)

// files gives the segments Pebble's file system, so that what ends the store ends it for both, and tests cut the power
// of both.
type files struct{ fs vfs.FS }

type file struct{ vfs.File }

func (f file) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

func opened(f vfs.File, err error) (segment.File, error) {
	if err != nil {
		return nil, err
	}
	return file{f}, nil
}

func (f files) Open(name string) (segment.File, error) { return opened(f.fs.Open(name)) }
func (f files) Create(name string) (segment.File, error) {
	return opened(f.fs.Create(name, vfs.WriteCategoryUnspecified))
}
func (f files) OpenReadWrite(name string) (segment.File, error) {
	return opened(f.fs.OpenReadWrite(name, vfs.WriteCategoryUnspecified))
}
func (f files) Rename(from, to string) error      { return f.fs.Rename(from, to) }
func (f files) Remove(name string) error          { return f.fs.Remove(name) }
func (f files) List(dir string) ([]string, error) { return f.fs.List(dir) }
func (f files) MkdirAll(dir string) error         { return f.fs.MkdirAll(dir, 0o700) }
func (f files) SyncDir(dir string) error          { return syncDir(f.fs, dir) }
