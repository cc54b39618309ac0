package log_test

import (
	"errors"
	"fmt"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/yett-dev/yett/core/log"
)

// stored is a tree's hashes as tlog numbers them.
type stored []tlog.Hash

func (s stored) ReadHashes(index []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(index))
	for i, x := range index {
		if x >= int64(len(s)) {
			return nil, fmt.Errorf("hash %d is missing", x)
		}
		out[i] = s[x]
	}
	return out, nil
}

func (s stored) with(more []byte) stored {
	for ; len(more) > 0; more = more[tlog.HashSize:] {
		s = append(s, tlog.Hash(more[:tlog.HashSize]))
	}
	return s
}

func leaf(i int) []byte { return fmt.Appendf(nil, `{"v":1,"seq":%d}`, i+1) }

// At every size the tree gives the root and the stored hashes that tlog gives, and goes on when it is resumed there.
func TestTreeIsTlogs(t *testing.T) {
	var tree log.Tree
	var ours, theirs stored
	for n := range 301 {
		if tree.Size() != uint64(n) || log.StoredHashes(uint64(n)) != int64(len(ours)) {
			t.Fatalf("size %d: it says %d, with %d hashes where %d are stored", n, tree.Size(), log.StoredHashes(uint64(n)),
				len(ours))
		}
		want, err := tlog.TreeHash(int64(n), theirs)
		if err != nil {
			t.Fatal(err)
		}
		if got := tree.Root(); got != want {
			t.Fatalf("size %d: root %v, want %v", n, got, want)
		}
		resumed, err := log.Resume(uint64(n), ours)
		if err != nil || resumed.Size() != uint64(n) || resumed.Root() != want {
			t.Fatalf("size %d: resumed with root %v, want %v: %v", n, resumed.Root(), want, err)
		}
		hashes := tree.Append(leaf(n), nil)
		if again := resumed.Append(leaf(n), nil); string(again) != string(hashes) || resumed.Root() != tree.Root() {
			t.Fatalf("size %d: the resumed tree goes on otherwise", n)
		}
		more, err := tlog.StoredHashes(int64(n), leaf(n), theirs)
		if err != nil {
			t.Fatal(err)
		}
		ours, theirs = ours.with(hashes), append(theirs, more...)
		if len(ours) != len(theirs) || ours[len(ours)-1] != theirs[len(theirs)-1] {
			t.Fatalf("size %d: other hashes are stored", n+1)
		}
	}
	for i := range ours {
		if ours[i] != theirs[i] {
			t.Fatalf("stored hash %d differs", i)
		}
	}
}

func TestResumeFailsWithoutItsHashes(t *testing.T) {
	if _, err := log.Resume(7, stored{}); err == nil {
		t.Error("a tree was resumed from nothing")
	}
	broken := errors.New("broken")
	if _, err := log.Resume(1, tlog.HashReaderFunc(func([]int64) ([]tlog.Hash, error) {
		return nil, broken
	})); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if tree, err := log.Resume(0, stored{}); err != nil || tree.Size() != 0 {
		t.Errorf("an empty tree needs no hashes: %v", err)
	}
}
