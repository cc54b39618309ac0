//go:build unix

package host

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// privateDir creates dir with mode 0700, or makes sure that it is a directory of ours that nobody else may enter.
func privateDir(dir string) error {
	if !filepath.IsAbs(dir) {
		return fmt.Errorf("%s: want an absolute path", dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	st, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	switch {
	case !st.IsDir():
		return fmt.Errorf("%s is not a directory", dir)
	case st.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%s has mode %04o: want 0700, others may not enter it", dir, st.Mode().Perm())
	case !ok || int(sys.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to another user", dir)
	}
	return nil
}
