//go:build linux || darwin

package supervise

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// output is our end of a child's stdout. It is closed at its end.
type output struct {
	f *os.File
}

// Read reads what the process writes. Some time after the process ended the file's deadline passes: from then on only
// what is already in the pipe is read, since whoever still holds the other end may never write or close it.
func (o *output) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, err := o.f.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		n, err = o.rest(b)
	}
	if err != nil {
		o.f.Close()
	}
	return n, err
}

func (o *output) rest(b []byte) (n int, err error) {
	raw, err := o.f.SyscallConn()
	if err != nil {
		return 0, err
	}
	var read error
	err = raw.Control(func(fd uintptr) {
		for {
			if n, read = unix.Read(int(fd), b); read != unix.EINTR {
				return
			}
		}
	})
	switch {
	case err != nil:
		return 0, err
	case read == unix.EAGAIN:
		return 0, ErrHeld
	case read != nil:
		return 0, read
	case n <= 0:
		return 0, io.EOF
	}
	return n, nil
}
