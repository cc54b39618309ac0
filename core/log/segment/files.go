package segment

import "io"

// FS is the file system that the segments lie on. Errors of files that are not there match fs.ErrNotExist.
type FS interface {
	Open(name string) (File, error)
	Create(name string) (File, error)
	OpenReadWrite(name string) (File, error)
	Rename(from, to string) error
	Remove(name string) error
	List(dir string) ([]string, error)
	MkdirAll(dir string) error
	SyncDir(dir string) error
}

// File is one open file.
type File interface {
	io.Reader
	io.ReaderAt
	io.Writer
	io.WriterAt
	io.Closer
	Sync() error
	Size() (int64, error)
}
