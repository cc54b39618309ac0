package swap

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// exchange swaps two files in one step.
func exchange(a, b string) error {
	err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return exchangeByNames(a, b) // a file system without it
	}
	if err != nil {
		return &os.LinkError{Op: "exchange", Old: a, New: b, Err: err}
	}
	return nil
}

// place gives a file a name that nobody has. The error is fs.ErrExist if somebody has it.
func place(a, b string) error {
	err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return placeByLink(a, b)
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: a, New: b, Err: err}
	}
	return nil
}

// lease keeps others from opening a file for writing: they wait. It is not ok while somebody has it open for writing.
// Where the kernel gives no lease, none is held, and nobody is assumed to write.
func lease(f *os.File) (ok, held bool) {
	_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	return !errors.Is(err, unix.EAGAIN), err == nil
}

// exclude keeps everybody else from opening a file: they wait until it is closed. Where the kernel gives no lease, they
// do not.
func exclude(f *os.File) {
	_, _ = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
}

// pin opens a file so that nobody gets its inode's number while it is open. It is nobody's reader.
func pin(path string) (*os.File, error) {
	return os.OpenFile(path, unix.O_PATH|unix.O_NOFOLLOW, 0)
}

// wanted says whether somebody waits for the end of a lease that is held.
func wanted(f *os.File) bool {
	kind, err := unix.FcntlInt(f.Fd(), unix.F_GETLEASE, 0)
	return err == nil && kind != unix.F_RDLCK
}

func links(info fs.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Nlink)
	}
	return 1
}

// keepAttributes copies what a new file does not inherit, such as access lists. Labels of the kernel's own follow its
// rules for new files where they cannot be set.
func keepAttributes(to *os.File, from string) error {
	buf := make([]byte, 64<<10)
	n, err := unix.Listxattr(from, buf)
	if errors.Is(err, unix.ENOTSUP) || n == 0 {
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "listxattr", Path: from, Err: err}
	}
	value := make([]byte, 64<<10)
	for name := range strings.SplitSeq(strings.TrimRight(string(buf[:n]), "\x00"), "\x00") {
		n, err := unix.Getxattr(from, name, value)
		if err == nil {
			err = unix.Fsetxattr(int(to.Fd()), name, value[:n], 0)
		}
		if err != nil && !strings.HasPrefix(name, "security.") {
			return &fs.PathError{Op: "setxattr " + name, Path: from, Err: err}
		}
	}
	return nil
}
