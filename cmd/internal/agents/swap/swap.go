// Package swap replaces files that other programs edit too. It owns one promise: what another program writes is never
// lost. A new text takes the place of a file only if the file is still what was read; what was in its place is looked
// at after the swap, and put back if it is something else. Links, permissions, the owner and attributes are kept. It
// must never write into a file in place, and knows nothing of what is in a file.
package swap

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/yett-dev/yett/core/regular"
)

// MaxSize is how many bytes a file may have.
const MaxSize = 4 << 20

// patience is how long a program may keep a file open for writing.
var patience = 3 * time.Second

// ErrChanged says that another program has changed the file since it was read: read it again.
var ErrChanged = errors.New("another program has changed the file")

// ErrBusy says that another program keeps the file open for writing.
var ErrBusy = errors.New("another program keeps the file open for writing: close it there")

// File is a file as it was read.
type File struct {
	Path   string // as it was named
	Target string // where links lead
	Exists bool
	Text   []byte

	info fs.FileInfo
	step func(name string) // called between the steps of a swap, by tests
	held *hold             // what a swap holds, for them
}

// Read reads a file. One that is missing is no error; a link that leads nowhere is.
func Read(path string) (*File, error) {
	f := &File{Path: path, Target: path}
	link, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		dir, err := resolved(filepath.Dir(path))
		f.Target = filepath.Join(dir, filepath.Base(path))
		return f, err
	case err != nil:
		return nil, err
	}
	if f.Target, err = filepath.EvalSymlinks(path); err != nil {
		if link.Mode()&fs.ModeSymlink != 0 && errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s is a link to a file that does not exist: make that file, or remove the link", path)
		}
		return nil, err
	}
	f.Exists = true
	if f.Text, f.info, err = settled(f.Target); err != nil {
		return nil, err
	}
	if n := links(f.info); n > 1 {
		return nil, fmt.Errorf("%s has %d names (hard links), and a new file would have one: make it a file of its own, "+
			"or use a symbolic link", f.Target, n)
	}
	return f, nil
}

// resolved follows the links of a directory as far as it exists.
func resolved(dir string) (string, error) {
	real, err := filepath.EvalSymlinks(dir)
	if !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
		return real, err
	}
	if _, err := os.Lstat(dir); err == nil {
		return "", fmt.Errorf("%s is a link to a directory that does not exist: make it, or remove the link", dir)
	}
	parent, err := resolved(filepath.Dir(dir))
	return filepath.Join(parent, filepath.Base(dir)), err
}

// hold is a file that nobody writes into while it is held, where the system has a way to say so: who opens it for
// writing waits until it is released.
type hold struct {
	file   *os.File
	info   fs.FileInfo
	text   []byte
	leased bool
}

// holdFile opens a file, waits until nobody writes to it, and reads it.
func holdFile(path string) (*hold, error) {
	end := time.Now().Add(patience)
	for {
		file, info, err := regular.Sized(path, MaxSize)
		if err != nil {
			return nil, err
		}
		h := &hold{file: file, info: info}
		var ok bool
		if ok, h.leased = lease(file); ok {
			if err := h.read(); err != nil {
				return nil, errors.Join(err, h.release())
			}
			return h, nil
		}
		if err := file.Close(); err != nil {
			return nil, err
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("%s: %w", path, ErrBusy)
		}
		wait := time.NewTimer(time.Millisecond)
		<-wait.C
	}
}

func (h *hold) read() (err error) {
	h.text, err = io.ReadAll(io.NewSectionReader(h.file, 0, MaxSize+1))
	if err == nil && len(h.text) > MaxSize {
		err = &fs.PathError{Op: "read", Path: h.file.Name(), Err: regular.ErrSize}
	}
	return err
}

// is says whether a path leads to what is held, with the text that it had, and nobody waits to write to it.
func (h *hold) is(path string) bool {
	info, err := os.Lstat(path)
	text := h.text
	return err == nil && os.SameFile(info, h.info) && !h.wanted() && h.read() == nil && bytes.Equal(h.text, text)
}

// wanted says whether somebody waits to write to the file.
func (h *hold) wanted() bool { return h.leased && wanted(h.file) }

// release ends the hold: closing the file gives the lease back.
func (h *hold) release() error { return h.file.Close() }

// settled reads a file that nobody is writing to.
func settled(path string) ([]byte, fs.FileInfo, error) {
	h, err := holdFile(path)
	if err != nil {
		return nil, nil, err
	}
	return h.text, h.info, h.release()
}

// Mode is the permissions of the file.
func (f *File) Mode() fs.FileMode {
	if f.info == nil {
		return 0
	}
	return f.info.Mode().Perm()
}

// Info is what the system says of the file, nil if it is missing.
func (f *File) Info() fs.FileInfo { return f.info }

// Write puts text in the place of what was read. A file that was missing gets the permissions of mode and the group,
// unless that is -1. The error is ErrChanged if somebody was faster; then nothing was changed.
func (f *File) Write(text []byte, mode fs.FileMode, group int) error {
	ours, err := f.prepare(text, mode, group)
	if err != nil {
		return err
	}
	tmp := ours.Name()
	f.at("before")
	if !f.Exists {
		err := ours.Close()
		if err == nil {
			err = place(tmp, f.Target)
		}
		if err != nil {
			if errors.Is(err, fs.ErrExist) {
				err = ErrChanged
			}
			return errors.Join(err, os.Remove(tmp))
		}
		return flushDir(f.Target)
	}
	// Until it is known that nobody was faster, nobody gets to see our text: whoever opens it waits.
	exclude(ours)
	old, err := f.holdOld()
	if err != nil {
		return errors.Join(err, ours.Close(), os.Remove(tmp))
	}
	f.at("compared")
	placed, err := pin(tmp)
	if err == nil {
		defer placed.Close()
		err = exchange(tmp, f.Target)
	}
	if err != nil {
		return errors.Join(changedIf(err), old.release(), ours.Close(), os.Remove(tmp))
	}
	f.at("swapped")
	if !old.is(tmp) {
		return f.putBack(ours, old)
	}
	if err := errors.Join(ours.Close(), old.release()); err != nil {
		return err
	}
	f.at("released")
	if was, _, err := settled(tmp); err != nil || !bytes.Equal(was, f.Text) {
		return errors.Join(err, f.yield(tmp, placed)) // somebody had opened it before, and has written into it now
	}
	return errors.Join(os.Remove(tmp), flushDir(f.Target))
}

// holdOld holds the file if it still is what was read.
func (f *File) holdOld() (*hold, error) {
	old, err := holdFile(f.Target)
	if err != nil {
		return nil, changedIf(err)
	}
	if !bytes.Equal(old.text, f.Text) {
		return nil, errors.Join(ErrChanged, old.release())
	}
	// where it leads is asked last: the shorter the time until the swap, the less often somebody sees a text for a moment
	// that lacks what was written during it
	if info, err := os.Lstat(f.Target); err != nil || !os.SameFile(info, old.info) {
		return nil, errors.Join(ErrChanged, old.release())
	}
	f.held = old
	return old, nil
}

// Remove removes the file if it is still what was read. For a moment it may be missing although somebody has just
// replaced it: the system has no way to remove a name only if it still leads to the same file.
func (f *File) Remove() error {
	if !f.Exists {
		return nil
	}
	empty, err := f.prepare(nil, f.Mode(), -1)
	if err != nil {
		return err
	}
	tmp := empty.Name()
	if err := empty.Close(); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	f.at("before")
	old, err := f.holdOld()
	if err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	f.at("compared")
	if err := os.Rename(f.Target, tmp); err != nil { // over the empty file, which has kept the name
		return errors.Join(changedIf(err), old.release(), os.Remove(tmp))
	}
	f.at("swapped")
	if !old.is(tmp) {
		back := place(tmp, f.Target)
		if errors.Is(back, fs.ErrExist) { // somebody has written it anew, and was last
			back = os.Remove(tmp)
		}
		return errors.Join(back, old.release(), ErrChanged)
	}
	if err := old.release(); err != nil {
		return err
	}
	return errors.Join(os.Remove(tmp), flushDir(f.Target))
}

// changedIf makes a missing file a changed one.
func changedIf(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return ErrChanged
	}
	return err
}

// prepare writes a file beside the target that is like it but for the text, and leaves it open.
func (f *File) prepare(text []byte, mode fs.FileMode, group int) (*os.File, error) {
	tmp, err := os.CreateTemp(filepath.Dir(f.Target), "."+filepath.Base(f.Target)+".yett-*")
	if err != nil {
		return nil, err
	}
	if err := f.fill(tmp, text, mode, group); err != nil {
		return nil, errors.Join(err, tmp.Close(), os.Remove(tmp.Name()))
	}
	return tmp, nil
}

func (f *File) fill(tmp *os.File, text []byte, mode fs.FileMode, group int) error {
	if f.Exists {
		mode = f.info.Mode() & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky)
		if err := keepOwner(tmp, f.info); err != nil {
			return fmt.Errorf("the owner of %s cannot be kept: run this as its owner: %w", f.Target, err)
		}
		if err := keepAttributes(tmp, f.Target); err != nil {
			return fmt.Errorf("the attributes of %s cannot be kept: %w", f.Target, err)
		}
	} else if group >= 0 {
		if err := tmp.Chown(-1, group); err != nil {
			return err
		}
	}
	_, err := tmp.Write(text)
	return errors.Join(err, tmp.Chmod(mode), tmp.Sync())
}

func (f *File) at(name string) {
	if f.step != nil {
		f.step(name)
	}
}

// flushDir makes a new name durable.
func flushDir(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
