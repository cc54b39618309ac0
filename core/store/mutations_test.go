package store

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/core/log/segment"
	"github.com/yett-dev/yett/core/testkit"
)

// mutation changes some files of a stopped store, and says what it did.
type mutation func(rng *rand.Rand, fs vfs.FS) (what string, err error)

// ofFile is a mutation of one file's bytes.
func (s *stoppedStore) ofFile(name string, files []string, change func(rng *rand.Rand, data []byte) []byte) mutation {
	return func(rng *rand.Rand, fs vfs.FS) (string, error) {
		file := files[rng.IntN(len(files))]
		data := read(s.t, fs, file)
		if len(data) < 2 {
			return "", nil
		}
		write(s.t, fs, file, change(rng, slices.Clone(data)))
		return name + " " + file, nil
	}
}

// span is a part of data, not empty.
func span(rng *rand.Rand, data []byte) (from, to int) {
	from = rng.IntN(len(data))
	return from, from + 1 + rng.IntN(min(len(data)-from, 2000))
}

// rechained changes a record in a sealed segment, and all that can be made to fit it without a key: the hashes, the
// sums and the list; in the segments behind it too if whole.
func (s *stoppedStore) rechained(rng *rand.Rand, fs vfs.FS, whole bool) error {
	own := segment.Store{ID: "sto_test", Epoch: 1, Salt: log.NewSalt("sto_test", 1)}
	list, err := segment.OpenList(files{fs}, "data/log", own)
	if err != nil {
		return err
	}
	infos := slices.Clone(list.Infos())
	at := rng.IntN(len(infos))
	var lines []segment.Info
	var tree *log.Tree
	for i, info := range infos {
		r, err := segment.Open(files{fs}, "data/log", own, info)
		if err != nil {
			return err
		}
		if i < at || i > at && !whole {
			lines = append(lines, info)
			continue
		}
		if tree == nil {
			tree = r.Start()
		}
		var commits []*log.Commit
		edge := tree.Copy()
		err = r.Commits(r.FirstSeq, func(c *log.Commit) error {
			one := &log.Commit{Number: c.Number, First: c.First, Count: c.Count, Records: bytes.Clone(c.Records)}
			if i == at {
				for n, b := range one.Records {
					if b == '2' { // a digit of a time: the length stays
						one.Records[n] = '3'
						break
					}
				}
			}
			commits = append(commits, one)
			return log.EachRecord(one.Records, func(rec []byte) error {
				one.Hashes = edge.Append(rec, one.Hashes)
				return nil
			})
		})
		if err != nil {
			return err
		}
		made, err := segment.Write(files{fs}, "data/log", own, tree, commits)
		if err != nil {
			return err
		}
		lines, tree = append(lines, made), edge
	}
	if err := fs.Remove("data/log/segments"); err != nil {
		return err
	}
	write(s.t, fs, "data/log/segments", nil)
	if list, err = segment.OpenList(files{fs}, "data/log", own); err != nil {
		return err
	}
	for _, info := range lines {
		err = errors.Join(err, list.Sealed(info))
	}
	return err
}

// detects opens the store, and checks and reads all of it. It gives no error where something was refused, or where
// nothing is different.
func (s *stoppedStore) detects(fs vfs.FS) error {
	set := settings(fs, s.clock, nil)
	set.SealBytes, set.Boot = 2<<10, anotherBoot
	st, err := Open(set)
	if err != nil {
		return nil
	}
	_, checked := st.CheckLog()
	if err := st.Close(); err != nil {
		return err
	}
	if checked != nil {
		return nil
	}
	_, err = s.starts(fs, anotherBoot)
	return err
}

// TestMutationsOfTheLog: whatever is done to sealed segments, to the list of them and to write-ahead logs, a start, a
// check or a reader notices it, or it changes nothing.
func TestMutationsOfTheLog(t *testing.T) {
	s := newStopped(t)
	var segs, wals, all []string
	for _, file := range filesOf(t, s.today, "data") {
		switch {
		case path.Ext(file) == ".seg":
			segs = append(segs, file)
		case path.Ext(file) == ".log":
			wals = append(wals, file)
		}
		if strings.HasPrefix(file, "data/log/") || path.Ext(file) == ".log" {
			all = append(all, file)
		}
	}
	kinds := []mutation{
		s.ofFile("a bit in", all, func(rng *rand.Rand, data []byte) []byte {
			data[rng.IntN(len(data))] ^= 1 << rng.IntN(8)
			return data
		}),
		s.ofFile("bytes dropped in", all, func(rng *rand.Rand, data []byte) []byte {
			from, to := span(rng, data)
			return slices.Delete(data, from, to)
		}),
		s.ofFile("bytes put into", all, func(rng *rand.Rand, data []byte) []byte {
			from, to := span(rng, data)
			return slices.Insert(data, rng.IntN(len(data)), slices.Clone(data[from:to])...)
		}),
		s.ofFile("two parts changed about in", all, func(rng *rand.Rand, data []byte) []byte {
			half := len(data) / 2
			n := 1 + rng.IntN(half)
			for i := range n {
				data[i], data[half+i] = data[half+i], data[i]
			}
			return data
		}),
		s.ofFile("the end cut off", all, func(rng *rand.Rand, data []byte) []byte { return data[:rng.IntN(len(data))] }),
		s.ofFile("the beginning cut off", all, func(rng *rand.Rand, data []byte) []byte {
			return data[1+rng.IntN(len(data)-1):]
		}),
		s.ofFile("zeros in", all, func(rng *rand.Rand, data []byte) []byte {
			from, to := span(rng, data)
			clear(data[from:to])
			return data
		}),
		s.ofFile("a line dropped in", []string{"data/log/segments"}, func(rng *rand.Rand, data []byte) []byte {
			lines := bytes.SplitAfter(data, []byte("\n"))
			return bytes.Join(slices.Delete(lines, 0, 1+rng.IntN(len(lines)-1)), nil)
		}),
		func(rng *rand.Rand, fs vfs.FS) (string, error) {
			file := all[rng.IntN(len(all))]
			return "removed " + file, fs.Remove(file)
		},
		func(rng *rand.Rand, fs vfs.FS) (string, error) {
			of := [][]string{segs, wals}[rng.IntN(2)]
			one, two := of[rng.IntN(len(of))], of[rng.IntN(len(of))]
			if one == two {
				return "", nil
			}
			data := read(t, fs, one)
			write(t, fs, one, read(t, fs, two))
			write(t, fs, two, data)
			return one + " and " + two + " changed about", nil
		},
		func(rng *rand.Rand, fs vfs.FS) (string, error) {
			file := filesOf(t, s.yesterday, "data/log")
			name := file[rng.IntN(len(file))]
			write(t, fs, name, read(t, s.yesterday, name))
			return name + " of yesterday", nil
		},
		func(rng *rand.Rand, fs vfs.FS) (string, error) { return "a record", s.rechained(rng, fs, false) },
		func(rng *rand.Rand, fs vfs.FS) (string, error) {
			return "a record, and all behind it", s.rechained(rng, fs, true)
		},
	}
	if refused, err := s.starts(clone(s.today), anotherBoot); refused != nil || err != nil {
		t.Fatal(refused, err)
	}
	rounds := testkit.Rounds(1_000, 300)
	if testkit.Every(1, 2) {
		rounds = 10_000
	}
	for round := range rounds {
		rng := rand.New(rand.NewPCG(uint64(round), 7))
		fs := clone(s.today)
		what, err := kinds[round%len(kinds)](rng, fs)
		if err != nil {
			t.Fatalf("round %d: %s: %v", round, what, err)
		}
		if err := s.detects(fs); err != nil {
			t.Errorf("round %d: %s: %v", round, what, err)
		}
	}
	fmt.Fprintln(t.Output(), len(segs), "segments,", len(wals), "write-ahead logs")
}
