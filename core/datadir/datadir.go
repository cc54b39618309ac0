//go:build unix

// Package datadir makes a data directory, keeps others out of it, makes the secrets that lie in it, and holds it for
// one process. Whoever reads or writes what lies in one takes the lock first: before it makes a pepper, a signing key
// or a database. The kernel lets the lock go when its holder ends, so none is ever left behind.
package datadir

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Name is the lock file in the data directory. It stays there: removing it would let two processes hold one lock each.
const Name = "LOCK"

// Lock is a data directory that this process holds.
type Lock struct{ f *os.File }

// InUseError says that another process holds the directory.
type InUseError struct {
	Dir string
	PID int // 0: it has not said yet
}

// Error says what to do.
func (e *InUseError) Error() string {
	who := "another process"
	if e.PID != 0 {
		who = "process " + strconv.Itoa(e.PID)
	}
	return fmt.Sprintf("the data directory %s is in use by %s; stop that one first, or give another directory", e.Dir, who)
}

// Acquire takes the directory, which must exist, for this process. An *InUseError says that somebody else has it;
// Acquire never waits.
func Acquire(dir string) (*Lock, error) {
	f, err := os.OpenFile(filepath.Join(dir, Name), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	err = flock(f)
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return nil, errors.Join(&InUseError{Dir: dir, PID: holder(f)}, f.Close())
	case err != nil:
		return nil, errors.Join(fmt.Errorf("lock the data directory: %s: %w", f.Name(), err), f.Close())
	}
	if err := sign(f); err != nil {
		return nil, errors.Join(fmt.Errorf("lock the data directory: %w", err), f.Close())
	}
	return &Lock{f}, nil
}

func flock(f *os.File) error {
	for {
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// sign writes who holds the lock, for whoever is refused.
func sign(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	return err
}

// holder is the process that the file names, 0 if it names none.
func holder(f *os.File) int {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 32))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid < 1 {
		return 0
	}
	return pid
}

// Release lets the directory go.
func (l *Lock) Release() error { return l.f.Close() }
