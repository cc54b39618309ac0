package scan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/yett-dev/yett/cmd/internal/scan/gitignore"
	"github.com/yett-dev/yett/core/regular"
)

// maxIgnoreFile bounds a file .gitignore, bytes.
const maxIgnoreFile = 1 << 20

// rules are the patterns of one file. up are the folders between its own and the one that is walked, with a slash; ""
// for a file in that folder or below it. below is the file's folder there, with a slash.
type rules struct {
	list      *gitignore.List
	up, below string
}

// walker goes through a folder. It follows no link, and no path that it opens leads out of the folder, whatever is
// changed meanwhile.
type walker struct {
	root   *os.Root
	prefix string // of names in reports
	all    bool   // .gitignore does not count
	yield  func(item) bool
}

// opened are the folders that a run has open: files of theirs are opened late.
type opened []*os.Root

func (o *opened) close() error {
	var errs []error
	for _, root := range *o {
		errs = append(errs, root.Close())
	}
	return errors.Join(errs...)
}

// folder gives the files of a folder that the user has named, sorted. ctx ends the walk.
func folder(ctx context.Context, dir string, all bool, open *opened) items {
	return func(yield func(item) bool) {
		name := shownName(filepath.Clean(dir))
		root, err := os.OpenRoot(dir)
		if err != nil {
			yield(item{name: name, named: true, err: unwrapped(err)})
			return
		}
		*open = append(*open, root)
		w := &walker{root: root, all: all, yield: func(it item) bool { return ctx.Err() == nil && yield(it) }}
		if name != "." {
			w.prefix = strings.TrimSuffix(name, "/") + "/"
		}
		var outer []rules
		if !all {
			if outer, err = above(dir); err != nil && !yield(item{name: name, err: err}) {
				return
			}
		}
		w.folder("", outer)
	}
}

// unwrapped is an error without the path, which is said anyway.
func unwrapped(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}

// above gives the rules of the folders between a repository's top and a folder in it. Outside of a repository there are
// none.
func above(dir string) ([]rules, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return nil, err
	}
	top := dir
	for {
		if _, err := os.Lstat(filepath.Join(top, ".git")); err == nil {
			break
		}
		up := filepath.Dir(top)
		if up == top {
			return nil, nil
		}
		top = up
	}
	var out []rules
	add := func(file, folder string) error {
		text, err := regular.Read(file, maxIgnoreFile)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, unwrapped(err))
		}
		up, err := filepath.Rel(folder, dir)
		if up = filepath.ToSlash(up) + "/"; up == "./" {
			up = ""
		}
		out = append(out, rules{list: gitignore.Parse(string(text)), up: up})
		return err
	}
	err = add(filepath.Join(top, ".git", "info", "exclude"), top)
	for at := top; at != dir && err == nil; {
		err = add(filepath.Join(at, ".gitignore"), at)
		rest, _ := filepath.Rel(at, dir)
		first, _, _ := strings.Cut(rest, string(filepath.Separator))
		at = filepath.Join(at, first)
	}
	return out, err
}

// folder goes through a folder of the tree, "" for its top. It reports whether to go on.
func (w *walker) folder(dir string, known []rules) bool {
	entries, err := w.entries(dir)
	if err != nil {
		return w.yield(item{name: w.prefix + shownName(cmp.Or(dir, ".")), err: fmt.Errorf("list: %w", unwrapped(err))})
	}
	if !w.all {
		if known, err = w.rulesOf(dir, entries, known); err != nil &&
			!w.yield(item{name: w.prefix + shownName(path.Join(dir, ".gitignore")), err: unwrapped(err)}) {
			return false
		}
	}
	for _, e := range entries {
		at := path.Join(dir, e.Name())
		it := item{name: w.prefix + shownName(at)}
		switch kind := e.Type(); {
		case e.Name() == ".git":
			it.skip = skipGit
		case ignored(known, at, kind.IsDir()):
			it.skip = skipIgnored
		case kind.IsDir():
			if !w.folder(at, known) {
				return false
			}
			continue
		case kind&fs.ModeSymlink != 0:
			it.skip = skipLink
		case !kind.IsRegular():
			it.skip = skipSpecial
		default:
			it.open = func(context.Context) (io.ReadCloser, int64, error) { return w.open(at) }
		}
		if !w.yield(it) {
			return false
		}
	}
	return true
}

// entries lists a folder, sorted by name.
func (w *walker) entries(dir string) ([]fs.DirEntry, error) {
	f, err := w.root.OpenFile(cmp.Or(dir, "."), os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	entries, err := f.ReadDir(-1)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// rulesOf adds the folder's own rules to those that are known. As git does, it reads no .gitignore that is a link.
func (w *walker) rulesOf(dir string, entries []fs.DirEntry, known []rules) ([]rules, error) {
	i := slices.IndexFunc(entries, func(e fs.DirEntry) bool { return e.Name() == ".gitignore" })
	if i < 0 || !entries[i].Type().IsRegular() {
		return known, nil
	}
	f, size, err := w.open(path.Join(dir, ".gitignore"))
	if err != nil {
		return known, err
	}
	var text []byte
	if size > maxIgnoreFile {
		err = fmt.Errorf("it has more than %d bytes, and was not followed", maxIgnoreFile)
	} else {
		text, err = io.ReadAll(io.LimitReader(f, maxIgnoreFile))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return known, err
	}
	own := rules{list: gitignore.Parse(string(text))}
	if dir != "" {
		own.below = dir + "/"
	}
	return append(slices.Clip(known), own), nil
}

// ignored asks the rules, those of the innermost folder first.
func ignored(known []rules, at string, dir bool) bool {
	for i := len(known) - 1; i >= 0; i-- {
		r := &known[i]
		if is, said := r.list.Match(r.up+strings.TrimPrefix(at, r.below), dir); said {
			return is
		}
	}
	return false
}

// open opens a file of the tree without waiting for a pipe's writer.
func (w *walker) open(at string) (io.ReadCloser, int64, error) {
	f, err := w.root.OpenFile(at, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = regular.ErrKind
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}
