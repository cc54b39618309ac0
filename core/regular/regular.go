// Package regular reads files that somebody else has put where they are. It owns one promise: nothing waits for what is
// not a regular file, such as a pipe that nobody writes to, and nothing larger than its limit is read.
package regular

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"
)

// ErrKind is a pipe, a device, a directory or a socket where a file should be.
var ErrKind = errors.New("is not a regular file")

// ErrSize is a file that is larger than it may be.
var ErrSize = errors.New("is larger than")

// Open opens a regular file for reading, without waiting for a pipe's writer. What is checked is what is read: the file
// may be another one by the time that its path is looked at again. Errors are *fs.PathError.
func Open(path string) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: ErrKind}
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

// Sized is Open for a file of at most so many bytes: a larger one is refused before anything of it is read.
func Sized(path string, most int64) (*os.File, fs.FileInfo, error) {
	f, info, err := Open(path)
	if err == nil && info.Size() > most {
		return nil, nil, errors.Join(tooLarge(path, most), f.Close())
	}
	return f, info, err
}

// Read reads a regular file of at most so many bytes.
func Read(path string, most int64) ([]byte, error) {
	f, _, err := Sized(path, most)
	if err != nil {
		return nil, err
	}
	return readAll(f, path, most)
}

// Named opens what the user of a command names: a regular file, or what the shell has opened for the command, such as
// `<(another command)`. A read of the latter lasts until its writer ends or ctx does.
func Named(ctx context.Context, path string) (io.ReadCloser, error) {
	if !inherited(path) {
		f, _, err := Open(path)
		if err != nil {
			return nil, err // not f: a nil *os.File is no nil interface
		}
		return f, nil
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	// a file that takes none is never waited for
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) })
	return &stream{file: f, ctx: ctx, stop: stop}, nil
}

// ReadNamed reads at most so many bytes of what Named opens; more are an error.
func ReadNamed(ctx context.Context, path string, most int64) ([]byte, error) {
	f, err := Named(ctx, path)
	if err != nil {
		return nil, err
	}
	return readAll(f, path, most)
}

// inherited reports whether path names a descriptor that this process was started with.
func inherited(path string) bool {
	return path == "/dev/stdin" || strings.HasPrefix(path, "/dev/fd/") || strings.HasPrefix(path, "/proc/self/fd/")
}

// stream is an open descriptor whose reads end with a context.
type stream struct {
	file *os.File
	ctx  context.Context
	stop func() bool
}

func (s *stream) Read(b []byte) (int, error) {
	n, err := s.file.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = &fs.PathError{Op: "read", Path: s.file.Name(), Err: context.Cause(s.ctx)}
	}
	return n, err
}

func (s *stream) Close() error {
	s.stop()
	return s.file.Close()
}

// readAll reads f to its end and closes it.
func readAll(f io.ReadCloser, path string, most int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most { // it grew, or does not tell its size, as those of /proc
		err = tooLarge(path, most)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return data, nil
}

func tooLarge(path string, most int64) error {
	return &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("%w %d bytes", ErrSize, most)}
}
