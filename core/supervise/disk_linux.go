package supervise

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

const (
	diskFiles = 1 << 14 // files and directories, at most
	diskDepth = 128     // of nested directories, each of which takes a descriptor
	diskBatch = 256     // names that are read at once
)

// unmeasured is why nobody can say what a working directory takes: its owner made it so.
type unmeasured string

func (u unmeasured) Error() string { return string(u) }

// overDisk holds the working directory, together with removed files that the process keeps, to limits.disk.
func (p *Process) overDisk(dir string, hidden uint64) string {
	most := p.limits.Disk
	if most == 0 || dir == "" {
		return ""
	}
	used, err := diskOf(dir)
	if why, is := errors.AsType[unmeasured](err); is {
		return "its working directory has " + string(why)
	}
	if used += hidden; used > most { // with an error: as far as it was seen
		return fmt.Sprintf("its working directory takes %d MiB with %d MiB of removed files that it keeps, limited to %d "+
			"MiB (limits.disk)",
			used>>20, hidden>>20, most>>20)
	}
	return ""
}

// diskOf is what a directory takes on disk. Its owner may change it meanwhile: that neither leads us out of it nor has
// us wait, and what would take long is an error.
func diskOf(dir string) (used uint64, err error) {
	d, err := openDir(dir)
	if err != nil {
		return 0, err
	}
	var info unix.Stat_t
	if err := unix.Fstat(int(d.Fd()), &info); err != nil {
		return 0, errors.Join(err, d.Close())
	}
	m := measuring{used: uint64(info.Blocks) * 512, files: 1}
	err = m.directory(d, 0)
	return m.used, err
}

// measuring is a walk through a directory.
type measuring struct {
	used  uint64 // bytes
	files int    // and directories
}

// directory adds what is in an open directory, and closes it.
func (m *measuring) directory(d *os.File, depth int) error {
	defer d.Close()
	for {
		names, err := d.Readdirnames(diskBatch)
		for _, name := range names {
			if err := m.entry(int(d.Fd()), name, depth); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// entry adds what has a name in a directory, whose descriptor is dir.
func (m *measuring) entry(dir int, name string, depth int) error {
	if m.files++; m.files > diskFiles {
		return unmeasured(fmt.Sprintf("more than %d files, the most for which limits.disk is measured", diskFiles))
	}
	var info unix.Stat_t
	err := unix.Fstatat(dir, name, &info, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil {
		m.used += uint64(info.Blocks) * 512
	}
	fd := -1
	if err == nil && info.Mode&unix.S_IFMT == unix.S_IFDIR {
		if depth == diskDepth {
			return unmeasured(fmt.Sprintf("directories that are nested more than %d deep, the most for which limits.disk is "+
				"measured", diskDepth))
		}
		fd, err = unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	}
	switch {
	case errors.Is(err, unix.EACCES):
		return unmeasured("a directory that the gateway cannot read, so limits.disk cannot be measured")
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		// it was removed, or is something else by now
		return nil
	case err != nil || fd < 0:
		return err
	}
	return m.directory(os.NewFile(uintptr(fd), name), depth+1)
}
