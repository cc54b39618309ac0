package core

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// ownDirectory makes the data directory, or refuses one that others can write to: whoever may rename files in it can put their
// own pepper and signing key in place of the server's.
func ownDirectory(dir string) error {
	err := os.MkdirAll(dir, 0o700)
	switch {
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("data directory: %s is a file, or lies in one; storage.path (--data) must be a directory", dir)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("data directory: user %d may not make %s; make it and give it to the user that the server runs as", os.Geteuid(), dir)
	case err != nil:
		return fmt.Errorf("data directory: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("data directory: others may write to %s (mode %#o), and could replace the keys in it: chmod go-w %s", dir, mode, dir)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if me := uint32(os.Geteuid()); ok && me != 0 && st.Uid != me && st.Uid != 0 {
		return fmt.Errorf("data directory: %s belongs to user %d, who could replace the keys in it; the server runs as user %d: chown %d %s, or start the server as its owner",
			dir, st.Uid, me, me, dir)
	}
	return nil
}

// listenError says what to do about an address that cannot be served.
func listenError(key string, err error) error {
	hint := ""
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		hint = " (another program serves this address: stop it, or choose another port; port 0 takes a free one)"
	case errors.Is(err, syscall.EACCES):
		hint = " (ports below 1024 need root or CAP_NET_BIND_SERVICE: choose a higher one)"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		hint = " (this machine does not have that address)"
	}
	return fmt.Errorf("%s%w%s", key, err, hint)
}
