package policyfiles

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/yett-dev/yett/plugins/internal/regular"
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

// maxEntries is how many names a directory tree may hold, read or not.
const maxEntries = 100_000

// Walk calls take for each file of a directory tree, with its path and its name below the root, until take gives an
// error. Names that begin with two dots are left out: mounted configuration keeps its older versions and its switch
// under such names. The root may be a link. Below it, a link to a directory is refused: what it leads to would be
// missing from the policies.
func Walk(root string, take func(p, name string) error) error {
	at, err := filepath.EvalSymlinks(root)
	if err != nil {
		return err
	}
	return (&walk{root: at, left: maxEntries, take: take}).dir("")
}

// walk is one that is under way. It does not read a directory whole before it counts, as fs.WalkDir does.
type walk struct {
	root string
	left int // entries that may still come
	take func(p, name string) error
}

// dir walks the directory of this name below the root.
func (w *walk) dir(name string) error {
	entries, err := w.entries(filepath.Join(w.root, filepath.FromSlash(name)))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "..") {
			continue
		}
		below := path.Join(name, e.Name())
		p := filepath.Join(w.root, filepath.FromSlash(below))
		switch {
		case e.IsDir():
			err = w.dir(below)
		case e.Type()&fs.ModeSymlink != 0:
			if err = noDirectory(p); err == nil {
				err = w.take(p, below)
			}
		default:
			err = w.take(p, below)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// entries lists a directory by name, as far as there may be entries.
func (w *walk) entries(p string) ([]fs.DirEntry, error) {
	d, err := os.OpenFile(p, os.O_RDONLY|regular.Nonblock, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }() // it was only read
	var all []fs.DirEntry
	for err == nil {
		var some []fs.DirEntry
		some, err = d.ReadDir(1_000)
		if w.left -= len(some); w.left < 0 {
			return nil, fmt.Errorf("%s holds more than %d files and directories", w.root, maxEntries)
		}
		all = append(all, some...)
	}
	if !errors.Is(err, io.EOF) {
		return nil, err
	}
	slices.SortFunc(all, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return all, nil
}

// noDirectory refuses a link to a directory, and one that leads nowhere.
func noDirectory(link string) error {
	info, err := os.Stat(link)
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s leads to a directory: links to directories are not followed", link)
	}
	return err
}
