package prochost

import (
	"errors"
	"fmt"
	"os"

	"github.com/yett-dev/yett/core/supervise"
	"golang.org/x/sys/unix"
)

// memoryFile is a sealed file in memory, readable by its user only. Its path under /proc/self/fd opens it from its
// start.
func memoryFile(content []byte, user *supervise.User) (_ *os.File, err error) {
	fd, err := unix.MemfdCreate("secret", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		return nil, errNoMemory
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "secret")
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	if _, err := f.Write(content); err != nil {
		return nil, err
	}
	if err := f.Chmod(0o400); err != nil {
		return nil, err
	}
	if user != nil {
		if err := f.Chown(int(user.UID), int(user.GID)); err != nil {
			return nil, err
		}
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS,
		unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL); err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return f, nil
}
