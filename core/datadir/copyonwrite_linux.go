package datadir

import (
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"
)

// The file systems that write what is overwritten to another place, by the numbers that statfs gives.
var copyOnWrite = map[uint32]string{0x9123683e: "btrfs", 0x2fc12fc1: "zfs", 0xca451a4e: "bcachefs"}

// CopyOnWrite names the file system of a directory, or of the nearest one above it that exists, if it is one on which
// files reserve no room; else it is "".
func CopyOnWrite(dir string) (string, error) {
	st, err := statfs(dir)
	return copyOnWrite[uint32(st.Type)], err
}

// DiskSize is the size of that file system, bytes.
func DiskSize(dir string) (uint64, error) {
	st, err := statfs(dir)
	return uint64(st.Blocks) * uint64(st.Frsize), err
}

func statfs(dir string) (st syscall.Statfs_t, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return st, err
	}
	for {
		err = syscall.Statfs(dir, &st)
		if !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return st, err
		}
		dir = filepath.Dir(dir)
	}
}
