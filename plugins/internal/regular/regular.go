// Package regular reads files that an operator names in the settings of a plugin. It owns one promise: nothing waits
// for what is not a regular file, such as a pipe that nobody writes to. What a file means is its caller's, and so is
// the word about one that is too large.
package regular

import (
	"fmt"
	"io"
	"os"
)

// Open opens a regular file, and refuses everything else without waiting for it.
func Open(p string) (*os.File, error) {
	f, err := os.OpenFile(p, os.O_RDONLY|Nonblock, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", p)
	}
	if err != nil {
		_ = f.Close() // it was only read
		return nil, err
	}
	return f, nil
}

// Read reads a regular file of at most so many bytes. Of a larger one it reads one byte more, which tells its caller.
func Read(p string, most int) ([]byte, error) {
	f, err := Open(p)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, int64(most)+1))
}
