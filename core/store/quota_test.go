package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// quota is a disk of a certain size, a part of which another program may use. What does not fit is refused with ENOSPC,
// as a whole.
type quota struct {
	vfs.FS
	total int64
	lets  func() bool // asked when something does not fit: whether it may all the same; nil: it may not

	mu      sync.Mutex
	other   int64
	refused int   // writes that did not fit
	broken  error // what the question for the free bytes gives
	says    int64 // what it gives where it is not 0, whatever Pebble removes meanwhile
}

func newQuota(fs vfs.FS, total int64) *quota { return &quota{FS: fs, total: total} }

// used is the sum of all files.
func (q *quota) used(dir string) (sum int64) {
	names, err := q.FS.List(dir)
	if err != nil {
		return 0
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		st, err := q.FS.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			panic(err)
		case st.IsDir():
			sum += q.used(path)
		default:
			sum += st.Size()
		}
	}
	return sum
}

func (q *quota) free() int64 {
	used := q.used("")
	q.mu.Lock()
	defer q.mu.Unlock()
	return max(q.total-used-q.other, 0)
}

// leave has the other program use all but so many bytes of what is free, or give back what it uses beyond that.
func (q *quota) leave(free int64) {
	used := q.used("")
	q.mu.Lock()
	defer q.mu.Unlock()
	q.other = q.total - used - free
}

func (q *quota) say(free int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.says = free
}

func (q *quota) breaks(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.broken = err
}

func (q *quota) refusals() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.refused
}

// GetDiskUsage tells.
func (q *quota) GetDiskUsage(string) (vfs.DiskUsage, error) {
	free := uint64(q.free())
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.says != 0 {
		free = uint64(q.says)
	}
	return vfs.DiskUsage{AvailBytes: free, TotalBytes: uint64(q.total), UsedBytes: uint64(q.total) - free}, q.broken
}

func (q *quota) file(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &quotaFile{File: f, q: q}, nil
}

// Create creates a file.
func (q *quota) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return q.file(q.FS.Create(name, c))
}

// ReuseForWrite renames a file and opens it.
func (q *quota) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return q.file(q.FS.ReuseForWrite(from, to, c))
}

// OpenReadWrite opens a file.
func (q *quota) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return q.file(q.FS.OpenReadWrite(name, c, o...))
}

type quotaFile struct {
	vfs.File
	q  *quota
	at int64
}

func (f *quotaFile) fits(end int64) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if grows := end - st.Size(); grows > 0 && grows > f.q.free() {
		if f.q.lets != nil && f.q.lets() {
			return nil
		}
		f.q.mu.Lock()
		defer f.q.mu.Unlock()
		f.q.refused++
		return &os.PathError{Op: "write", Path: "a file on a full disk", Err: syscall.ENOSPC}
	}
	return nil
}

// Write writes.
func (f *quotaFile) Write(p []byte) (int, error) {
	if err := f.fits(f.at + int64(len(p))); err != nil {
		return 0, err
	}
	n, err := f.File.Write(p)
	f.at += int64(n)
	return n, err
}

// WriteAt writes.
func (f *quotaFile) WriteAt(p []byte, at int64) (int, error) {
	if err := f.fits(at + int64(len(p))); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, at)
}
