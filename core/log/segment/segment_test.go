package segment_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/core/log/segment"
)

// disk is the machine's own file system.
type disk struct{}

type file struct{ *os.File }

func (f file) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

func opened(f *os.File, err error) (segment.File, error) {
	if err != nil {
		return nil, err
	}
	return file{f}, nil
}

func (disk) Open(name string) (segment.File, error)   { return opened(os.Open(name)) }
func (disk) Create(name string) (segment.File, error) { return opened(os.Create(name)) }
func (disk) OpenReadWrite(name string) (segment.File, error) {
	return opened(os.OpenFile(name, os.O_RDWR, 0))
}
func (disk) Rename(from, to string) error { return os.Rename(from, to) }
func (disk) Remove(name string) error     { return os.Remove(name) }
func (disk) MkdirAll(dir string) error    { return os.MkdirAll(dir, 0o700) }
func (disk) SyncDir(string) error         { return nil }
func (disk) List(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

var own = segment.Store{ID: "sto_TEST", Epoch: 1, Salt: log.NewSalt("sto_TEST", 1)}

// commits are n of them, some without records, behind the commits and the tree that are given.
func commits(rng *rand.Rand, n int, after uint64, tree *log.Tree) []*log.Commit {
	var out []*log.Commit
	edge := tree.Copy()
	for i := range n {
		c := &log.Commit{Number: after + uint64(i) + 1, First: edge.Size() + 1, Count: uint64(rng.IntN(5))}
		for range c.Count {
			rec := fmt.Appendf(nil, `{"v":1,"seq":%d,"pad":%q}`, edge.Size()+1, strings.Repeat("x", rng.IntN(3000)))
			c.Records = append(c.Records, byte(len(rec)>>24), byte(len(rec)>>16), byte(len(rec)>>8), byte(len(rec)))
			c.Records = append(c.Records, rec...)
			c.Hashes = edge.Append(rec, c.Hashes)
		}
		out = append(out, c)
	}
	return out
}

// sealed is a directory with some segments, and what they hold.
func sealed(t *testing.T, dir string, many int) (all []*log.Commit, tree *log.Tree) {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, uint64(many)))
	l, err := segment.OpenList(disk{}, dir, own)
	if err != nil {
		t.Fatal(err)
	}
	tree = &log.Tree{}
	for range many {
		next := commits(rng, 200, uint64(len(all)), tree)
		info, err := segment.Write(disk{}, dir, own, tree, next)
		if err == nil {
			err = l.Sealed(info)
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, next...)
	}
	return all, tree
}

func readers(dir string) ([]*segment.Reader, error) {
	l, err := segment.OpenList(disk{}, dir, own)
	if err != nil {
		return nil, err
	}
	var out []*segment.Reader
	for _, info := range l.Infos() {
		r, err := segment.Open(disk{}, dir, own, info)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// stored is a tree's hashes as tlog numbers them, from segments.
type stored []*segment.Reader

func (s stored) ReadHashes(indexes []int64) (out []tlog.Hash, err error) {
	for _, x := range indexes {
		found := false
		for _, r := range s {
			h, ok, err := r.Hash(x)
			if err != nil {
				return nil, err
			}
			if !ok {
				level, n := tlog.SplitStoredHashIndex(x)
				h, ok = r.Peak(level, n)
			}
			if ok {
				out, found = append(out, h), true
				break
			}
		}
		if !found {
			return nil, fmt.Errorf("hash %d is missing", x)
		}
	}
	return out, nil
}

func TestSegments(t *testing.T) {
	dir := t.TempDir()
	all, tree := sealed(t, dir, 3)
	rs, err := readers(dir)
	if err != nil || len(rs) != 3 {
		t.Fatalf("%d segments: %v", len(rs), err)
	}
	check := &log.Tree{}
	var got []*log.Commit
	for _, r := range rs {
		if err := r.Check(check); err != nil {
			t.Fatal(err)
		}
		err := r.Commits(r.FirstSeq, func(c *log.Commit) error {
			one := *c
			one.Records = bytes.Clone(c.Records)
			got = append(got, &one)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if check.Root() != tree.Root() || len(got) != len(all) {
		t.Fatalf("%d commits, want %d; the same root: %v", len(got), len(all), check.Root() == tree.Root())
	}
	for i, c := range got {
		w := all[i]
		if c.Number != w.Number || c.First != w.First || c.Count != w.Count || !bytes.Equal(c.Records, w.Records) {
			t.Fatalf("commit %d: %d records from %d, want commit %d, %d from %d", c.Number, c.Count, c.First, w.Number,
				w.Count, w.First)
		}
	}
	size := int64(tree.Size())
	for n := int64(1); n <= size; n += 7 {
		if _, err := tlog.TreeHash(n, stored(rs)); err != nil {
			t.Fatalf("root of %d: %v", n, err)
		}
	}
	if root, err := tlog.TreeHash(size, stored(rs)); err != nil || root != tree.Root() {
		t.Errorf("another root: %v", err)
	}
	// what is left when the oldest has gone proves itself and is as before
	rest := rs[1:]
	first := rest[0].FirstSeq
	for _, n := range []int64{int64(first) - 1, int64(first), size} {
		a, err1 := tlog.TreeHash(n, stored(rs))
		b, err2 := tlog.TreeHash(n, stored(rest))
		if err1 != nil || err2 != nil || a != b {
			t.Errorf("root of %d without the first segment: %v %v", n, err1, err2)
		}
	}
	for seq := first; seq <= uint64(size); seq += 13 {
		p, err := tlog.ProveRecord(size, int64(seq-1), stored(rest))
		if err != nil {
			t.Fatalf("record %d: %v", seq, err)
		}
		var leaf tlog.Hash
		for _, r := range rest {
			err := r.Records(seq, func(_ uint64, rec []byte) error { leaf = tlog.RecordHash(rec); return io.EOF })
			if errors.Is(err, io.EOF) {
				break
			}
		}
		if err := tlog.CheckRecord(p, size, tree.Root(), int64(seq-1), leaf); err != nil {
			t.Fatalf("record %d: %v", seq, err)
		}
	}
}

// TestRecordsFromAnywhere reads from every record on.
func TestRecordsFromAnywhere(t *testing.T) {
	dir := t.TempDir()
	_, tree := sealed(t, dir, 2)
	rs, err := readers(dir)
	if err != nil {
		t.Fatal(err)
	}
	for from := uint64(1); from <= tree.Size(); from += 5 {
		next := from
		for _, r := range rs {
			err := r.Records(from, func(seq uint64, rec []byte) error {
				if seq != next || !bytes.Contains(rec, fmt.Appendf(nil, `"seq":%d,`, seq)) {
					return fmt.Errorf("record %d, want %d: %.40s", seq, next, rec)
				}
				next++
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if next != tree.Size()+1 {
			t.Fatalf("from %d: ends in front of %d, want %d", from, next, tree.Size()+1)
		}
	}
}

// use opens a directory as a store does, reads everything, and checks it.
func use(dir string) (records int, err error) {
	rs, err := readers(dir)
	if err != nil {
		return 0, err
	}
	tree := &log.Tree{}
	for _, r := range rs {
		if err := r.Records(r.FirstSeq, func(uint64, []byte) error { records++; return nil }); err != nil {
			return records, err
		}
		if err := r.Check(tree); err != nil {
			return records, err
		}
	}
	return records, nil
}

// TestEveryBitCounts: whichever bit of a file is changed, what is read is right, or an error that names the file.
func TestEveryBitCounts(t *testing.T) {
	dir := t.TempDir()
	_, tree := sealed(t, dir, 2)
	names, err := disk{}.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	for _, name := range names {
		path := filepath.Join(dir, name)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for range 400 {
			bad := bytes.Clone(data)
			at := rng.IntN(len(bad))
			if name == segment.ListName && at == len(bad)-1 {
				continue // a last line without its end does not count: the store knows that there were more commits
			}
			bad[at] ^= 1 << rng.IntN(8)
			if err := os.WriteFile(path, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			n, err := use(dir)
			if err == nil {
				t.Fatalf("%s, byte %d of %d: nothing is noticed, %d records of %d", name, at, len(data), n, tree.Size())
			}
			if !strings.Contains(err.Error(), dir) {
				t.Fatalf("%s, byte %d: the error names no file: %v", name, at, err)
			}
		}
		for _, cut := range []int{0, 1, len(data) / 2, len(data) - 1} {
			if err := os.WriteFile(path, data[:cut], 0o600); err != nil {
				t.Fatal(err)
			}
			if n, err := use(dir); err == nil && uint64(n) == tree.Size() {
				t.Fatalf("%s cut at %d: all records are there", name, cut)
			} else if err == nil && name != segment.ListName {
				t.Fatalf("%s cut at %d is not noticed", name, cut)
			}
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOtherStores: a segment of another store, or of another life of the same one, is not taken.
func TestOtherStores(t *testing.T) {
	dir := t.TempDir()
	sealed(t, dir, 1)
	for _, other := range []segment.Store{{ID: "sto_OTHER", Epoch: 1, Salt: log.NewSalt("sto_OTHER", 1)},
		{ID: "sto_TEST", Epoch: 2, Salt: log.NewSalt("sto_TEST", 2)}} {
		if _, err := segment.OpenList(disk{}, dir, other); err == nil || !segment.IsDamaged(err) {
			t.Errorf("%s, epoch %d: %v", other.ID, other.Epoch, err)
		}
	}
}

// TestListRemoves: the oldest goes from the list before its file does; what a crash leaves is tidied up.
func TestListRemoves(t *testing.T) {
	dir := t.TempDir()
	sealed(t, dir, 3)
	l, err := segment.OpenList(disk{}, dir, own)
	if err != nil {
		t.Fatal(err)
	}
	infos := slices.Clone(l.Infos())
	for range 2 {
		if err := l.Remove(); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Remove(); err == nil {
		t.Error("the last one went")
	}
	for i, info := range infos {
		_, err := os.Stat(filepath.Join(dir, segment.Name(info.FirstCommit)))
		if errors.Is(err, fs.ErrNotExist) != (i < 2) {
			t.Errorf("segment %d: %v", i, err)
		}
	}
	for _, name := range []string{"x.tmp", segment.Name(1)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("left"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if rs, err := readers(dir); err != nil || len(rs) != 1 {
		t.Errorf("%d segments: %v", len(rs), err)
	}
	if l, err = segment.OpenList(disk{}, dir, own); err == nil {
		err = l.Sweep()
	}
	if err != nil {
		t.Error(err)
	}
	if names, err := (disk{}).List(dir); err != nil || len(names) != 2 {
		t.Errorf("%v, %v", names, err)
	}
}

// TestListThatWasCut: a last line that is not whole was never answered for.
func TestListThatWasCut(t *testing.T) {
	dir := t.TempDir()
	sealed(t, dir, 2)
	path := filepath.Join(dir, segment.ListName)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data[:len(data)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	if rs, err := readers(dir); err != nil || len(rs) != 1 {
		t.Errorf("%d segments: %v", len(rs), err)
	}
	hole := slices.Clone(data) // the line lies in two blocks, and only the second one was written
	last := bytes.LastIndexByte(hole[:len(hole)-1], '\n') + 1
	clear(hole[last : last+30])
	if err := os.WriteFile(path, hole, 0o600); err != nil {
		t.Fatal(err)
	}
	if rs, err := readers(dir); err != nil || len(rs) != 1 {
		t.Errorf("with a hole: %d segments: %v", len(rs), err)
	}
	l, err := segment.OpenList(disk{}, dir, own)
	if err != nil {
		t.Fatal(err)
	}
	r, err := segment.Open(disk{}, dir, own, l.Infos()[0])
	if err != nil {
		t.Fatal(err)
	}
	tree := r.End()
	info, err := segment.Write(disk{}, dir, own, tree, commits(rand.New(rand.NewPCG(1, 2)), 3, r.LastCommit, tree))
	if err == nil {
		err = l.Sealed(info)
	}
	if err != nil {
		t.Fatal(err)
	}
	if rs, err := readers(dir); err != nil || len(rs) != 2 || rs[1].LastCommit != r.LastCommit+3 {
		t.Errorf("%d segments after another one: %v", len(rs), err)
	}
}
