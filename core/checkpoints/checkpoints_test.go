package checkpoints

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/core/regular"
)

// book is a log in memory.
type book struct {
	roots []tlog.Hash // by size
	first uint64
	kept  uint64
}

func newBook(name string, n int) *book {
	b := &book{first: 1}
	tree := &log.Tree{}
	b.roots = append(b.roots, tree.Root())
	for i := range n {
		tree.Append([]byte(fmt.Sprint(name, i)), nil)
		b.roots = append(b.roots, tree.Root())
	}
	b.kept = uint64(n)
	return b
}

func (b *book) Seq() uint64    { return uint64(len(b.roots) - 1) }
func (b *book) InHead() uint64 { return b.kept }
func (b *book) First() uint64  { return b.first }
func (b *book) Root(size uint64) ([32]byte, error) {
	if size > b.Seq() || size+1 < b.first {
		return [32]byte{}, errors.New("it is not there")
	}
	return b.roots[size], nil
}

func signer(t *testing.T, seed byte, store string) *log.Signer {
	t.Helper()
	key := make([]byte, ed25519.SeedSize)
	key[0] = seed
	s, err := log.NewSigner(ed25519.NewKeyFromSeed(key), store)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func settings(t *testing.T, b *book, said *strings.Builder, files ...string) Settings {
	return Settings{Files: files, Every: time.Hour, Log: b, Signer: signer(t, 1, "sto_1"), Origin: log.Origin("sto_1"),
		Report: func(format string, args ...any) { fmt.Fprintf(said, format+"\n", args...) }}
}

// TestCheck: what a start says of a file, when the log is what it is.
func TestCheck(t *testing.T) {
	written := func(t *testing.T, b *book) string {
		path := filepath.Join(t.TempDir(), "checkpoints")
		Start(settings(t, b, &strings.Builder{}, path)).Close()
		return path
	}
	for name, c := range map[string]struct {
		file func(t *testing.T) string
		log  *book
		err  string // "" for none
		said string
	}{
		"as it was":     {func(t *testing.T) string { return written(t, newBook("a", 9)) }, newBook("a", 9), "", ""},
		"longer":        {func(t *testing.T) string { return written(t, newBook("a", 9)) }, newBook("a", 90), "", ""},
		"shorter":       {func(t *testing.T) string { return written(t, newBook("a", 9)) }, newBook("a", 8), "its end is missing", ""},
		"another one":   {func(t *testing.T) string { return written(t, newBook("a", 9)) }, newBook("b", 9), "are not those that", ""},
		"another, long": {func(t *testing.T) string { return written(t, newBook("a", 9)) }, newBook("b", 90), "are not those that", ""},
		"trimmed": {func(t *testing.T) string { return written(t, newBook("a", 9)) },
			func() *book { b := newBook("a", 90); b.first = 50; return b }(), "", ""},
		"no file":     {func(t *testing.T) string { return filepath.Join(t.TempDir(), "none") }, newBook("a", 9), "", "is not there"},
		"a directory": {func(t *testing.T) string { return t.TempDir() }, newBook("a", 9), "is not a regular file", ""},
		"a pipe":      {func(t *testing.T) string { return pipe(t) }, newBook("a", 9), "is not a regular file", ""},
		"of another store": {func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "checkpoints")
			set := settings(t, newBook("a", 9), &strings.Builder{}, path)
			set.Signer = signer(t, 1, "sto_2")
			Start(set).Close()
			return path
		}, newBook("b", 3), "", "has no checkpoint of this log"},
		"forged": {func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "checkpoints")
			set := settings(t, newBook("a", 9), &strings.Builder{}, path)
			set.Signer = signer(t, 2, "sto_1")
			Start(set).Close()
			return path
		}, newBook("b", 3), "", "has no checkpoint of this log"},
		"the last one cut": {func(t *testing.T) string {
			path := written(t, newBook("a", 9))
			data, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, append(data, data[:len(data)/2]...), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			return path
		}, newBook("a", 8), "its end is missing", ""},
		"of two the newer": {func(t *testing.T) string {
			path := written(t, newBook("a", 9))
			Start(settings(t, newBook("a", 20), &strings.Builder{}, path)).Close()
			return path
		}, newBook("a", 15), "its end is missing", ""},
		"garbage": {func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "checkpoints")
			if err := os.WriteFile(path, []byte("nothing\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}, newBook("a", 9), "", "has no checkpoint of this log"},
	} {
		t.Run(name, func(t *testing.T) {
			said := &strings.Builder{}
			err := Check(settings(t, c.log, said, c.file(t)))
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %v, want %q", err, c.err)
			}
			if (said.Len() == 0) != (c.said == "") || !strings.Contains(said.String(), c.said) {
				t.Errorf("said %q, want %q", said, c.said)
			}
		})
	}
}

func pipe(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestBehindACutOne: wherever a write was broken off, the next checkpoint counts.
func TestBehindACutOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoints")
	Start(settings(t, newBook("a", 9), &strings.Builder{}, path)).Close()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(whole) {
		for _, front := range []string{"", string(whole)} {
			if err := os.WriteFile(path, []byte(front+string(whole[:n])), 0o600); err != nil {
				t.Fatal(err)
			}
			Start(settings(t, newBook("a", 20), &strings.Builder{}, path)).Close()
			err := Check(settings(t, newBook("a", 15), &strings.Builder{}, path))
			if err == nil || !strings.Contains(err.Error(), "when the log had 20 records") {
				t.Errorf("%d bytes behind %d: the next one is not seen: %v", n, len(front), err)
			}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			texts, err := log.SplitCheckpoints(data)
			for _, text := range texts {
				if _, err := log.OpenCheckpoint(text, nil); err != nil {
					t.Errorf("%d bytes behind %d: %v", n, len(front), err)
				}
			}
			if err != nil || len(texts) == 0 {
				t.Errorf("%d bytes behind %d: %v", n, len(front), err)
			}
		}
	}
}

// TestAPipe: nobody waits for its reader, or its writer.
func TestAPipe(t *testing.T) {
	said, path := &strings.Builder{}, pipe(t)
	k := newKeeper(settings(t, newBook("a", 9), said, path))
	k.write()
	if !errors.Is(k.Failing()[path], regular.ErrKind) {
		t.Errorf("failing: %v", k.Failing())
	}
}

// TestAFileSystemThatHangs: the other file gets its checkpoints, the stop comes, and nothing is written twice at once.
func TestAFileSystemThatHangs(t *testing.T) {
	dir, said := t.TempDir(), &strings.Builder{}
	good, hangs := filepath.Join(dir, "good"), filepath.Join(dir, "hangs")
	b := newBook("a", 9)
	k := newKeeper(settings(t, b, said, hangs, good))
	let, writes := make(chan struct{}), make(chan struct{}, 9)
	k.add = func(path, text string) error {
		if path == hangs {
			writes <- struct{}{}
			<-let
		}
		return add(path, text)
	}
	late := make(chan time.Time, 1)
	k.late = func() <-chan time.Time { return late }
	late <- time.Time{}
	k.write()
	go k.run() // and writes once, and once more at its end
	k.Close()
	if k.Failing()[hangs] == nil || k.Failing()[good] != nil || len(writes) != 1 {
		t.Errorf("failing %v, %d writes", k.Failing(), len(writes))
	}
	if _, err := os.Stat(good); err != nil {
		t.Error(err)
	}
	close(let)
	for k.writing(hangs) {
	}
	k.write()
	if len(k.Failing()) != 0 || k.Size() != 9 || len(writes) != 2 {
		t.Errorf("failing %v, size %d, %d writes", k.Failing(), k.Size(), len(writes))
	}
}

func (k *Keeper) writing(path string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.hang[path]
}

// TestFilesThatFail: one that cannot be written is told of once, and shown, and the others get theirs.
func TestFilesThatFail(t *testing.T) {
	dir, said := t.TempDir(), &strings.Builder{}
	good, bad := filepath.Join(dir, "good"), filepath.Join(dir, "none", "bad")
	b := newBook("a", 9)
	k := newKeeper(settings(t, b, said, bad, good))
	k.write()
	k.write()
	if k.Failing()[bad] == nil || k.Failing()[good] != nil || k.Size() != 0 || strings.Count(said.String(), "\n") != 1 {
		t.Errorf("failing %v, size %d, said %q", k.Failing(), k.Size(), said)
	}
	if err := os.Mkdir(filepath.Dir(bad), 0o700); err != nil {
		t.Fatal(err)
	}
	k.write()
	if len(k.Failing()) != 0 || k.Size() != 9 || !strings.Contains(said.String(), "can be written again") {
		t.Errorf("failing %v, size %d, said %q", k.Failing(), k.Size(), said)
	}
	before, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	k.write()
	if after, err := os.ReadFile(good); err != nil || string(after) != string(before) {
		t.Errorf("a checkpoint is written twice, or not at all: %v", err)
	}
	b.kept = 5 // what log/head does not know of is not signed
	k.size = 0
	k.write()
	if k.Size() != 5 {
		t.Errorf("signed for %d records", k.Size())
	}
}
