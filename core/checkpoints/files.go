package checkpoints

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/yett-dev/yett/core/regular"
)

// file is a file that gets checkpoints at its end.
type file struct {
	k    *Keeper
	path string
	add  func(path, text string) error
}

// tail is how much of the end of a file is read: far more than one checkpoint takes, with the lines of witnesses.
const tail = 64 << 10

// hold is part of destination.
func (f file) hold(context.Context) (note string, err error) {
	data, err := readEnd(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return "is not there: the log is not held against it, and it is made", nil
	}
	if err != nil {
		return "", err
	}
	none := fmt.Sprintf("has no checkpoint of this log (%s): the log is not held against it", f.k.set.Origin)
	if len(data) == 0 {
		return none, nil
	}
	c, err := f.k.newest(data)
	switch {
	case err != nil:
		return "", err
	case c == nil:
		return none, nil
	}
	return "", agrees(f.k.set.Log, c, "take the file out of audit.checkpoints.files and keep it")
}

// give is part of destination.
func (f file) give(_ context.Context, c signed) error { return f.add(f.path, c.text) }

func (f file) close() {}

func readEnd(path string) (data []byte, err error) {
	f, st, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data = make([]byte, min(st.Size(), tail))
	n, err := f.ReadAt(data, st.Size()-int64(len(data)))
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return data[:n], err
}

// add appends a checkpoint to a file, and makes the file where there is none. It only ever appends, so that the file
// may be one that nobody can shorten. What an earlier write has left half done is ended by an empty line.
func add(path, text string) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	st, err := f.Stat()
	switch {
	case err != nil:
		return err
	case !st.Mode().IsRegular():
		return &fs.PathError{Op: "open", Path: path, Err: regular.ErrKind}
	}
	if end := make([]byte, min(st.Size(), 2)); len(end) > 0 {
		if _, err := f.ReadAt(end, st.Size()-int64(len(end))); err != nil {
			return err
		}
		if string(end) != "\n\n" {
			text = "\n\n" + text
		}
	}
	if _, err = f.WriteString(text + "\n"); err != nil {
		return err
	}
	return f.Sync()
}
