package swap

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// Owner is the user and group that a file belongs to.
func Owner(info fs.FileInfo) (uid, gid int, ok bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1, -1, false
	}
	return int(s.Uid), int(s.Gid), true
}

// keepOwner gives a new file the owner of another.
func keepOwner(to *os.File, from fs.FileInfo) error {
	now, err := to.Stat()
	if err != nil {
		return err
	}
	uid, gid, ok := Owner(from)
	nowUID, nowGID, also := Owner(now)
	if !ok || !also {
		return errors.New("the system does not tell owners")
	}
	if uid == nowUID && gid == nowGID {
		return nil
	}
	return to.Chown(uid, gid)
}

// exchangeByNames swaps two files in three steps. A file that somebody puts in b's place between the first two is lost:
// it is for systems that have no better way.
func exchangeByNames(a, b string) error {
	c := a + ".2"
	if err := os.Link(b, c); err != nil {
		return err
	}
	if err := os.Rename(a, b); err != nil {
		return errors.Join(err, os.Remove(c))
	}
	return os.Rename(c, a)
}

// placeByLink gives a file a name that nobody has, in two steps.
func placeByLink(a, b string) error {
	if err := os.Link(a, b); err != nil {
		return err
	}
	return os.Remove(a)
}
