package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// disk is what a journal asks of a file system. Tests put a failing one in its place.
type disk interface {
	Open(path string, mode os.FileMode) (file, error) // for reading and appending; made when it is not there
	Read(path string) (file, error)                   // for reading only
	Rename(from, to string) error
	Remove(path string) error
	List(dir string) ([]entry, error) // regular files
	SyncDir(dir string) error
}

type file interface {
	io.ReaderAt
	io.Writer // appends
	Sync() error
	Truncate(size int64) error
	Size() (int64, error)
	Close() error
}

type entry struct {
	name     string
	modified time.Time
}

// osDisk is the machine's file system.
type osDisk struct{}

type osFile struct{ *os.File }

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (osDisk) Open(path string, mode os.FileMode) (file, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND|syscall.O_NONBLOCK, mode)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s is not a regular file", path)
	case info.Mode().Perm() != mode:
		if f.Chmod(mode) != nil { // as where plugins are confined
			err = fmt.Errorf("%s has mode %#o, and mode says %#o: change it with chmod", path, info.Mode().Perm(), mode)
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return osFile{f}, nil
}

func (osDisk) Read(path string) (file, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// Rename refuses to replace a file: what was rotated is never written over.
func (osDisk) Rename(from, to string) error {
	if _, err := os.Lstat(to); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s is there already", to)
	}
	return os.Rename(from, to)
}

func (osDisk) Remove(path string) error { return os.Remove(path) }

func (osDisk) List(dir string) ([]entry, error) {
	all, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []entry
	for _, e := range all {
		if !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, entry{e.Name(), info.ModTime()})
	}
	return out, nil
}

func (osDisk) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// lock keeps a second process off the same files. It ends with the process, or with unlock.
type lock struct{ f *os.File }

func takeLock(path string) (*lock, error) {
	f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("another process writes %s: %w", filepath.Base(path), err)
	}
	return &lock{f}, nil
}

func (l *lock) unlock() error { return l.f.Close() }
