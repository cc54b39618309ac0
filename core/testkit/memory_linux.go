package testkit

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// InMemory has the temporary directories of this process and its children lie in memory, where this machine has 8 GiB
// of room for them. A TMPDIR that somebody has set stays.
//
// A gateway refuses everything once a sync takes half a second, which a disk does that many builds write to at once. A
// test that does not judge the disk must not depend on it.
func InMemory() error {
	const dir, room = "/dev/shm", 8 << 30
	var fs unix.Statfs_t
	if os.Getenv("TMPDIR") != "" || unix.Statfs(dir, &fs) != nil || fs.Type != unix.TMPFS_MAGIC ||
		fs.Flags&unix.ST_NOEXEC != 0 ||
		fs.Bavail*uint64(fs.Bsize) < room || unix.Access(dir, unix.W_OK) != nil {
		return nil
	}
	if err := os.Setenv("TMPDIR", dir); err != nil {
		return fmt.Errorf("temporary directories in memory: %w", err)
	}
	return nil
}
