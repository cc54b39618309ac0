package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// Make makes a data directory, or refuses one that others can write to: whoever may rename files in it can put their
// own pepper and signing key in place of the server's.
func Make(dir string) error {
	err := os.MkdirAll(dir, 0o700)
	switch {
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("data directory: %s is a file, or lies in one; storage.path (--data) must be a directory", dir)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("data directory: user %d may not make %s; make it and give it to the user that the server runs as",
			os.Geteuid(), dir)
	case err != nil:
		return fmt.Errorf("data directory: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("data directory: others may write to %s (mode %#o), and could replace the keys in it: "+
			"chmod go-w %s", dir, mode, dir)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if me := uint32(os.Geteuid()); ok && me != 0 && st.Uid != me && st.Uid != 0 {
		return fmt.Errorf("data directory: %s belongs to user %d, who could replace the keys in it; the server runs as "+
			"user %d: chown %d %s, or start the server as its owner",
			dir, st.Uid, me, me, dir)
	}
	return nil
}

// Private makes a directory that nobody else can enter, or closes one that others could: the log, live tokens and the
// keys' MACs lie in it, and Pebble makes its files readable.
func Private(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.Chmod(dir, 0o700)
}
