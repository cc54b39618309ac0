package supervise

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// ownImage is the binary that is running now: its file may have been replaced, but the kernel keeps these bytes as they
// are.
func ownImage() (*image, error) {
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	name, err := os.Executable()
	if err != nil {
		name = "yett"
	}
	return &image{name: name, file: f}, nil
}

// copyImage makes a sealed copy in memory. Where the kernel forbids to execute such, it is a file without a name.
func copyImage(f io.Reader, digest string) (*image, error) {
	fd, err := unix.MemfdCreate("yett-image", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3: no such flag, always executable
		fd, err = unix.MemfdCreate("yett-image", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return unnamedCopy(f, digest)
	}
	w := os.NewFile(uintptr(fd), "yett-image")
	defer w.Close() // a file that is open for writing cannot be executed
	script, err := pour(w, f, digest)
	if err != nil {
		return nil, err
	}
	if _, err := unix.FcntlInt(w.Fd(), unix.F_ADD_SEALS,
		unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL); err != nil {
		return nil, fmt.Errorf("seal the copy: %w", err)
	}
	r, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return nil, fmt.Errorf("open the copy: %w", err)
	}
	return &image{file: r, script: script}, nil
}

func unnamedCopy(f io.Reader, digest string) (*image, error) {
	i, err := privateCopy(f, digest)
	if err != nil {
		return nil, err
	}
	i.file, err = os.Open(i.path)
	RemoveDir(i.leave())
	i.path = ""
	return i, err
}
