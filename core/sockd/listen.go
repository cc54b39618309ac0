package sockd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// MaxPath is the longest path of a socket, in bytes.
const MaxPath = 107

// ConfigError says that a setting cannot be, which no other start will change.
type ConfigError struct {
	Key string // as operators write it
	Msg string
}

func (e *ConfigError) Error() string { return e.Key + ": " + e.Msg }

// socketFile is the socket's name in the file system, and which file it was when it was made.
type socketFile struct {
	path string
	made os.FileInfo
}

// listen makes the file with no moment in which it lets in more than it should.
func (f *socketFile) listen(path string, mode uint32, group string) (*net.UnixListener, error) {
	if len(path) > MaxPath {
		return nil, &ConfigError{"socket.path", fmt.Sprintf("%s is %d bytes long; a socket's path has at most %d, so give "+
			"it a shorter one", path, len(path), MaxPath)}
	}
	gid, err := groupID(group)
	if err != nil {
		return nil, err
	}
	dir, err := openDir(filepath.Dir(path), mode, gid)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	// Two servers that start at once must not both find the other's file dead. The lock goes with dir.
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir.Name(), err)
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	// The file takes the mode that the socket has when it is bound.
	narrow := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		if ctlErr := raw.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o600) }); ctlErr != nil {
			return ctlErr
		}
		return err
	}}
	made, err := narrow.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	ln := made.(*net.UnixListener)
	ln.SetUnlinkOnClose(false) // close removes the file only if it is still this one
	f.path = path
	if f.made, err = os.Lstat(path); err == nil && gid >= 0 {
		err = os.Lchown(path, -1, gid)
	}
	if err == nil {
		err = os.Chmod(path, fs.FileMode(mode))
	}
	if err != nil {
		return nil, errors.Join(err, f.close(ln))
	}
	return ln, nil
}

// close stops listening and removes the file, unless another one has taken its place.
func (f *socketFile) close(ln *net.UnixListener) error {
	now, err := os.Lstat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	case err == nil && os.SameFile(now, f.made):
		err = os.Remove(f.path)
	}
	return errors.Join(err, ln.Close())
}

// openDir makes the directory if it is not there, open to no more than who may connect. One that is there stays as it
// is, but not if others could put a socket of their own in our place.
func openDir(path string, mode uint32, gid int) (*os.File, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return nil, err
		}
		if gid >= 0 {
			if err := os.Chown(path, -1, gid); err != nil {
				return nil, err
			}
		}
		through := fs.FileMode(0o700)
		if mode&0o060 != 0 {
			through |= 0o010
		}
		if mode&0o006 != 0 {
			through |= 0o001
		}
		if err := os.Chmod(path, through); err != nil {
			return nil, err
		}
	}
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	st, err := dir.Stat()
	if err == nil {
		err = trusted(path, st)
	}
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return dir, nil
}

func trusted(path string, st os.FileInfo) error {
	sys, ok := st.Sys().(*syscall.Stat_t)
	switch {
	case !ok || !st.IsDir():
		return fmt.Errorf("%s is no directory", path)
	case sys.Uid != 0 && int(sys.Uid) != os.Geteuid():
		return &ConfigError{"socket.path", fmt.Sprintf("%s belongs to user %d, who could put another socket in its place",
			path, sys.Uid)}
	case st.Mode().Perm()&0o022 != 0 && st.Mode()&fs.ModeSticky == 0:
		return &ConfigError{"socket.path", fmt.Sprintf("%s can be written by others (mode %#o), who could put another "+
			"socket in its place", path, st.Mode().Perm())}
	}
	return nil
}

// removeStale removes what a dead server left. A socket that answers, and anything else, stays and is an error.
func removeStale(path string) error {
	st, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case st.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is there already and is no socket; move it away", path)
	}
	nc, err := net.Dial("unix", path)
	switch {
	case err == nil:
		return errors.Join(fmt.Errorf("%s: another server listens there", path), nc.Close())
	case errors.Is(err, unix.ECONNREFUSED):
		return os.Remove(path)
	}
	return fmt.Errorf("%s is there already, and it cannot be told whether a server listens: %w", path, err)
}

// groupID finds a group by name or number; -1 for none.
func groupID(name string) (int, error) {
	if name == "" {
		return -1, nil
	}
	if g, err := user.LookupGroup(name); err == nil {
		name = g.Gid
	}
	gid, err := strconv.ParseUint(name, 10, 31)
	if err != nil {
		return 0, &ConfigError{"socket.group", fmt.Sprintf("there is no group %q", name)}
	}
	return int(gid), nil
}
