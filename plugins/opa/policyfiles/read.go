package policyfiles

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// File is one file as it was read.
type File struct {
	Name string
	Data []byte
}

// Sort puts files into the order of their names. It gives a name that two of them have, "" when there is none.
func Sort(files []File) (twice string) {
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	for i := 1; i < len(files); i++ {
		if files[i].Name == files[i-1].Name {
			return files[i].Name
		}
	}
	return ""
}

// Digest is a hash over first, and then names and contents. Files that changed have another one.
func Digest(files []File, first ...[]byte) [sha256.Size]byte {
	h := sha256.New()
	var n [8]byte
	part := func(b []byte) {
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		h.Write(n[:])
		h.Write(b)
	}
	for _, b := range first {
		part(b)
	}
	for _, f := range files {
		part([]byte(f.Name))
		part(f.Data)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// Open opens a regular file, and refuses everything else without waiting for it.
func Open(p string) (*os.File, error) {
	f, err := os.OpenFile(p, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", p)
	}
	if err != nil {
		_ = f.Close() // it was only read
		return nil, err
	}
	return f, nil
}

// Read reads a regular file of at most so many bytes. Of a larger one it reads one byte more, which tells its caller.
func Read(p string, most int) ([]byte, error) {
	f, err := Open(p)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, int64(most)+1))
}

// Walk calls take for each file of a directory tree, with its path and its name below the root, until take gives an error. Names
// that begin with two dots are left out: mounted configuration keeps its older versions and its switch under such names.
func Walk(root string, take func(p, name string) error) error {
	root, err := filepath.EvalSymlinks(root) // WalkDir does not follow the root
	if err != nil {
		return err
	}
	return filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case p == root:
			return nil
		case strings.HasPrefix(e.Name(), ".."):
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		case e.IsDir():
			return nil
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		return take(p, filepath.ToSlash(rel))
	})
}
