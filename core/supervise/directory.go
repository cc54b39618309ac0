//go:build linux || darwin

package supervise

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// privateForm is the name of a private directory. What is called otherwise is never swept: the dot and what follows are
// no other program's, nor those of os.MkdirTemp.
var privateForm = regexp.MustCompile(`^yett-[A-Za-z0-9_-]{1,64}\.[0-9a-f]{10}$`)

const (
	dirTries   = 100
	sweepLook  = 1 << 16 // names in the temporary directory that are looked at, at most
	sweepMost  = 1 << 10 // directories that one sweep removes, at most
	sweepBatch = 256     // names that are read at once
	sweepDepth = 64      // of nested directories, each of which takes two descriptors

	removeMost = time.Minute // for the removal of a directory. A process that could not be ended may write on in it
)

// private are this process's directories, each with a descriptor that holds a lock on it. The kernel lets go of the
// lock when this process ends, however that is: so a directory that is locked has a living owner.
var private = struct {
	sync.Mutex
	locks map[string]*os.File
}{locks: map[string]*os.File{}}

// MakeDir makes an empty directory in the temporary one that only a process's user (nil: our own) can enter. RemoveDir
// removes it; if this process is killed before, the next one that starts a process does, unless the user is another
// one.
func MakeDir(name string, user *User) (string, error) {
	if err := mayRunAs(user); err != nil {
		return "", err
	}
	path, err := makeDir(name)
	if err == nil && user != nil {
		if err = give(path, user); err != nil {
			RemoveDir(path)
			err = fmt.Errorf("for user %d, group %d: %w", user.UID, user.GID, err) // who are perhaps none in this user namespace
		}
	}
	if err != nil {
		return "", fmt.Errorf("private directory: %w", err)
	}
	return path, nil
}

// givenMark is a file in a directory that was given to another user, and which only its maker can own: what else has
// that user and such a name is not ours to remove.
const givenMark = ".yett-given"

// give makes a directory another user's, and leaves the mark in it.
func give(path string, user *User) error {
	if int(user.UID) != os.Geteuid() {
		if err := os.WriteFile(filepath.Join(path, givenMark), nil, 0o400); err != nil {
			return err
		}
	}
	return os.Chown(path, int(user.UID), int(user.GID))
}

// given says whether we gave an open directory to the user that it has.
func given(dir *os.File) bool {
	var mark unix.Stat_t
	err := unix.Fstatat(int(dir.Fd()), givenMark, &mark, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && mark.Mode&unix.S_IFMT == unix.S_IFREG && int(mark.Uid) == os.Geteuid()
}

func makeDir(name string) (string, error) {
	tmp, err := tempDir()
	if err != nil {
		return "", err
	}
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '_'
	}, name)
	for range dirTries {
		var id [5]byte
		rand.Read(id[:]) // it never fails
		path := filepath.Join(tmp, "yett-"+name+"."+hex.EncodeToString(id[:]))
		err := os.Mkdir(path, 0o700)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		if owned, err := own(path); owned || err != nil {
			return path, err
		}
	}
	return "", fmt.Errorf("no name for it was free in %d tries", dirTries)
}

// tempDir is the temporary directory, as a process may say it: from the root, whatever TMPDIR is, and without links.
func tempDir() (string, error) {
	tmp, err := filepath.Abs(os.TempDir())
	if err != nil {
		return "", err
	}
	if tmp, err = filepath.EvalSymlinks(tmp); err != nil {
		return "", fmt.Errorf("temporary directory (TMPDIR): %w", err)
	}
	return tmp, nil
}

// own locks a directory that was just made. It is false when a sweep was there first, for which it was one without an
// owner: then it is the sweep's. Where directories cannot be locked, nobody can sweep them either.
func own(path string) (bool, error) {
	f, err := openDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, errors.Join(err, os.Remove(path))
	}
	if errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK) || !leadsTo(path, f) {
		return false, f.Close()
	}
	private.Lock()
	defer private.Unlock()
	private.locks[path] = f
	return true, nil
}

// RemoveDir removes a directory of MakeDir with all that is in it, whatever its mode is and those in it are: a process
// of our user may have closed directories, to us too. What has taken its place stays.
func RemoveDir(path string) {
	private.Lock()
	f := private.locks[path]
	private.Unlock()
	if f == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), removeMost)
	defer cancel()
	_ = f.Chmod(0o700) // if it cannot be, nothing of the following can
	if info, err := f.Stat(); err == nil {
		removeAll(ctx, path, info)
	}
	private.Lock()
	defer private.Unlock()
	f.Close()
	delete(private.locks, path)
}

// removeAll removes the directory that info is of.
func removeAll(ctx context.Context, path string, info fs.FileInfo) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return
	}
	defer root.Close()
	if now, err := root.Stat("."); err != nil || !os.SameFile(now, info) {
		return
	}
	if empty(ctx, root, root, sweepDepth) == nil {
		unix.Rmdir(path)
	}
}

// openDir opens a directory, and nothing that a link leads to.
func openDir(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
}

// leadsTo says whether a path is, without any link, that very directory.
func leadsTo(path string, f *os.File) bool {
	at, err := os.Lstat(path)
	is, ferr := f.Stat()
	return err == nil && ferr == nil && os.SameFile(at, is)
}

// sweeping is held by the one sweep that runs.
var sweeping struct {
	sync.Mutex
	over bool // no other one is needed
}

// beginSweep sweeps, once, beside whoever has called it, who calls end at its own end. A sweep that was cut short by
// that is made again.
func beginSweep() (end func()) {
	if !sweeping.TryLock() {
		return func() {}
	}
	if sweeping.over {
		sweeping.Unlock()
		return func() {}
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer sweeping.Unlock()
		sweep(ctx)
		sweeping.over = ctx.Err() == nil
	}()
	return func() { stop(); <-done }
}

// sweep ends what dead gateways have left running, and removes private directories of this user, and for root those
// that it gave to others, whose owners were killed, and ends what still lives in them. What cannot be removed stays for
// the next process.
func sweep(ctx context.Context) {
	endAbandoned(ctx)
	tmp, err := tempDir()
	if err != nil {
		return
	}
	d, err := os.Open(tmp)
	if err != nil {
		return
	}
	defer d.Close()
	var found []string
	for look := 0; look < sweepLook && len(found) < sweepMost && ctx.Err() == nil; look += sweepBatch {
		names, err := d.Readdirnames(sweepBatch)
		for _, name := range names {
			if privateForm.MatchString(name) {
				found = append(found, filepath.Join(tmp, name))
			}
		}
		if err != nil {
			break
		}
	}
	for _, path := range found {
		if ctx.Err() != nil {
			return
		}
		removeDead(ctx, path)
	}
}

// removeDead removes a directory if it is ours to remove and nobody's any more. It is locked meanwhile, so whoever has
// just made it and not locked it yet makes another one.
func removeDead(ctx context.Context, path string) {
	f, err := openDir(path)
	if err != nil {
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Mode().Perm() != 0o700 {
		return
	}
	sys, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(sys.Uid) != os.Geteuid() && os.Geteuid() != 0 { // root's processes have users of their own
		return
	}
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return
	}
	ours := int(sys.Uid) == os.Geteuid() || given(f)
	endLeft(path, ours)
	if !ours { // another user's, or one whose plugin has removed the mark, and gains nothing by it
		return
	}
	removeAll(ctx, path, info)
}

// empty removes what is in a directory, and nothing that a link in it leads to. top is the directory that is emptied in
// the end.
func empty(ctx context.Context, top, root *os.Root, depth int) error {
	for {
		d, err := root.Open(".")
		if err != nil {
			return err
		}
		names, err := d.Readdirnames(sweepBatch)
		d.Close()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, name := range names {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err := remove(ctx, top, root, name, depth); err != nil {
				return err
			}
		}
	}
}

// remove removes a file, a link or a directory. What is nested deep comes to the top instead, and goes when its turn
// comes there.
func remove(ctx context.Context, top, root *os.Root, name string, depth int) error {
	if root.Remove(name) == nil {
		return nil
	}
	_ = root.Chmod(name, 0o700) // no link is left by now
	if depth == 0 {
		return lift(top, root, name)
	}
	inner, err := root.OpenRoot(name)
	if err != nil {
		return err
	}
	defer inner.Close()
	if err := empty(ctx, top, inner, depth-1); err != nil {
		return err
	}
	return root.Remove(name)
}

// lift moves a directory to the top, under another name.
func lift(top, root *os.Root, name string) error {
	to, err := top.Open(".")
	if err != nil {
		return err
	}
	defer to.Close()
	from, err := root.Open(".")
	if err != nil {
		return err
	}
	defer from.Close()
	return unix.Renameat(int(from.Fd()), name, int(to.Fd()), "deep-"+rand.Text())
}
