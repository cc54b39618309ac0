package checkpoints

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
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

	hashes hashes
}

// hashes are the stored hashes of a tree.
type hashes []tlog.Hash

func (h hashes) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		out[i] = h[x]
	}
	return out, nil
}

func newBook(name string, n int) *book {
	b := &book{first: 1}
	tree := &log.Tree{}
	b.roots = append(b.roots, tree.Root())
	for i := range n {
		tree.Append([]byte(fmt.Sprint(name, i)), nil)
		stored, err := tlog.StoredHashes(int64(i), []byte(fmt.Sprint(name, i)), b.hashes)
		if err != nil {
			panic(err)
		}
		b.hashes = append(b.hashes, stored...)
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

func (b *book) Consistency(first, size uint64) (tlog.TreeProof, error) {
	if first+1 < b.first {
		return nil, errors.New("it is not there")
	}
	return tlog.ProveTree(int64(size), int64(first), b.hashes)
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
	var mu sync.Mutex
	tell := func(level string) func(format string, args ...any) {
		return func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintf(said, level+format+"\n", args...)
		}
	}
	return Settings{Files: files, Every: time.Hour, Log: b, Signer: signer(t, 1, "sto_1"), Origin: log.Origin("sto_1"),
		Now: time.Now, Report: tell(""), Alarm: tell("ALARM ")}
}

func keeper(t *testing.T, set Settings) *Keeper {
	t.Helper()
	k, err := New(set)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// check is what a start does.
func check(t *testing.T, set Settings) error {
	k := keeper(t, set)
	defer k.Close()
	return k.Check()
}

// run starts and stops.
func run(t *testing.T, set Settings) {
	k := keeper(t, set)
	k.Start()
	k.Close()
}

// of is how it stands with a destination.
func (k *Keeper) of(name string) Status {
	for _, s := range k.Status() {
		if s.Name == name {
			return s
		}
	}
	return Status{Err: errors.New("there is none")}
}

// TestCheck: what a start says of a file, when the log is what it is.
func TestCheck(t *testing.T) {
	written := func(t *testing.T, b *book) string {
		path := filepath.Join(t.TempDir(), "checkpoints")
		run(t, settings(t, b, &strings.Builder{}, path))
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
			run(t, set)
			return path
		}, newBook("b", 3), "", "has no checkpoint of this log"},
		"forged": {func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "checkpoints")
			set := settings(t, newBook("a", 9), &strings.Builder{}, path)
			set.Signer = signer(t, 2, "sto_1")
			run(t, set)
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
		"of two the larger": {func(t *testing.T) string {
			path := written(t, newBook("a", 20))
			run(t, settings(t, newBook("a", 9), &strings.Builder{}, path))
			return path
		}, newBook("a", 15), "its end is missing", ""},
		"of two the newer": {func(t *testing.T) string {
			path := written(t, newBook("a", 9))
			run(t, settings(t, newBook("a", 20), &strings.Builder{}, path))
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
			err := check(t, settings(t, c.log, said, c.file(t)))
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
	run(t, settings(t, newBook("a", 9), &strings.Builder{}, path))
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(whole) {
		for _, front := range []string{"", string(whole)} {
			if err := os.WriteFile(path, []byte(front+string(whole[:n])), 0o600); err != nil {
				t.Fatal(err)
			}
			run(t, settings(t, newBook("a", 20), &strings.Builder{}, path))
			err := check(t, settings(t, newBook("a", 15), &strings.Builder{}, path))
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
	k := keeper(t, settings(t, newBook("a", 9), said, path))
	defer k.Close()
	k.write(false)
	if !errors.Is(k.of(path).Err, regular.ErrKind) {
		t.Errorf("failing: %+v", k.Status())
	}
}

// TestAFileSystemThatHangs: the other file gets its checkpoints, the stop comes, and nothing is written twice at once.
// A start that cannot read the file within the time is refused.
func TestAFileSystemThatHangs(t *testing.T) {
	dir, said := t.TempDir(), &strings.Builder{}
	good, hangs := filepath.Join(dir, "good"), filepath.Join(dir, "hangs")
	b := newBook("a", 9)
	k := keeper(t, settings(t, b, said, hangs, good))
	let, writes, late := make(chan struct{}), make(chan struct{}, 9), make(chan time.Time, 2)
	k.places[0].destination = file{k: k, path: hangs, add: func(path, text string) error {
		writes <- struct{}{}
		late <- time.Time{}
		<-let
		return add(path, text)
	}}
	k.late = func() <-chan time.Time { return late }
	k.write(false)
	k.Start() // and writes once more, and again at its end
	k.Close()
	if k.of(hangs).Err == nil || len(writes) != 1 {
		t.Errorf("failing %+v, %d writes", k.Status(), len(writes))
	}
	for k.of(good).Size != 9 { // it was not waited for
	}
	close(let)
	for k.of(hangs).Err != nil {
	}
	if s := k.of(hangs); s.Size != 9 || s.Behind != 0 {
		t.Errorf("it was written after all, and now: %+v", s)
	}
	k.write(false)
	if len(writes) != 1 {
		t.Errorf("%d writes", len(writes))
	}
}

type stuck struct {
	file
	let chan struct{}
}

func (s stuck) hold(context.Context) (string, error) {
	<-s.let
	return "", nil
}

// TestAFileThatCannotBeReadInTime refuses a start.
func TestAFileThatCannotBeReadInTime(t *testing.T) {
	k := keeper(t, settings(t, newBook("a", 9), &strings.Builder{}, "nowhere"))
	defer k.Close()
	let := make(chan struct{})
	defer close(let)
	k.places[0].destination = stuck{let: let}
	late := make(chan time.Time, 1)
	late <- time.Time{}
	k.late = func() <-chan time.Time { return late }
	if err := k.Check(); !errors.Is(err, errHangs) {
		t.Errorf("got %v", err)
	}
}

// TestFilesThatFail: one that cannot be written is told of once, and shown, and the others get theirs, each once.
func TestFilesThatFail(t *testing.T) {
	dir, said := t.TempDir(), &strings.Builder{}
	good, bad := filepath.Join(dir, "good"), filepath.Join(dir, "none", "bad")
	b := newBook("a", 9)
	set, now := settings(t, b, said, bad, good), time.Unix(1_900_000_000, 0)
	set.Now = func() time.Time { return now }
	k := keeper(t, set)
	if err := k.Check(); err != nil {
		t.Fatal(err)
	}
	said.Reset()
	k.started = true
	k.write(false)
	before, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Minute)
	k.write(false)
	if s := k.of(bad); s.Err == nil || s.Size != 0 || s.Behind != time.Minute || strings.Count(said.String(), "\n") != 1 ||
		!strings.Contains(s.Detail, bad+" cannot be written: ") {
		t.Errorf("%+v, said %q", s, said)
	}
	if s := k.of(good); s.Err != nil || s.Size != 9 || s.Behind != 0 || s.Detail != "" {
		t.Errorf("%+v", s)
	}
	if err := os.Mkdir(filepath.Dir(bad), 0o700); err != nil {
		t.Fatal(err)
	}
	k.write(false)
	if s := k.of(bad); s.Err != nil || s.Size != 9 || s.Behind != 0 || !strings.Contains(said.String(), "works again") {
		t.Errorf("%+v, said %q", s, said)
	}
	k.write(false)
	if after, err := os.ReadFile(good); err != nil || string(after) != string(before) {
		t.Errorf("a checkpoint is written twice, or not at all: %v", err)
	}
	b.kept = 5 // what log/head does not know of is not signed
	k.write(false)
	if k.of(good).Size != 5 {
		t.Errorf("signed for %d records", k.of(good).Size)
	}
}
