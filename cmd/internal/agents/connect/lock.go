package connect

import (
	"errors"
	"os"
	"syscall"
)

// lock keeps a second yett out of the directory of our own files until what it gives is closed.
func (s site) lock() (dirs []string, held *os.File, err error) {
	mode := os.FileMode(0o700)
	if s.scope == Managed {
		mode = 0o755
	}
	for {
		made, err := makeDirs(s.own(), mode)
		dirs = append(dirs, made...)
		if err != nil {
			return dirs, nil, err
		}
		f, err := os.Open(s.own())
		if err != nil {
			return dirs, nil, err
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			return dirs, nil, errors.Join(err, f.Close())
		}
		mine, err := f.Stat()
		now, statErr := os.Stat(s.own())
		if err == nil && statErr == nil && os.SameFile(mine, now) {
			return dirs, f, nil
		}
		if err := f.Close(); err != nil { // it was removed by an undo while we waited
			return dirs, nil, err
		}
	}
}
