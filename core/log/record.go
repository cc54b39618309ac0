// Package log owns what an audit record is: its bytes, its place in the Merkle tree, signed checkpoints and the
// export format. It never writes to disk and never decides: core/store gives it records in order and keeps what it
// makes. The formats are fixed: a record is one line of JSON, its leaf hash is RFC 6962's over exactly those bytes, and
// a checkpoint is a C2SP tlog-checkpoint note signed with Ed25519.
package log

import (
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/yett-dev/yett/sdk/wire"
)

// TimeFormat is RFC 3339 in UTC with nanoseconds, always the same width, so that records sort as text.
const TimeFormat = "2006-01-02T15:04:05.000000000Z"

// RecordVersion is the value of every record's first member.
const RecordVersion = 1

// Begin starts a record at the end of dst: {"v","seq","store_id","timestamp","type"}. The caller adds members and
// closes it. seq counts from 1 without gaps; the leaf index of a record is seq-1.
func Begin(dst []byte, store string, seq uint64, at time.Time, typ string) wire.Writer {
	return BeginIn(dst, store, 1, seq, at, typ)
}

// BeginIn is Begin for a log that was restored from a backup: its records have an epoch behind store_id. Those of the
// first epoch, which is 1, do not say so.
func BeginIn(dst []byte, store string, epoch uint32, seq uint64, at time.Time, typ string) wire.Writer {
	o := wire.Object(dst)
	o.Int("v", RecordVersion)
	o.Int("seq", int64(seq))
	o.Str("store_id", store)
	if epoch > 1 {
		o.Int("epoch", int64(epoch))
	}
	var stamp [len(TimeFormat)]byte
	o.Ascii("timestamp", at.UTC().AppendFormat(stamp[:0], TimeFormat))
	o.Str("type", typ)
	return o
}

// Tree is the right edge of an RFC 6962 tree: what is needed to append to it. One goroutine's.
type Tree struct {
	size  uint64
	peaks []tlog.Hash // complete subtrees from left to right, largest first
}

// Size is the number of leaves.
func (t *Tree) Size() uint64 { return t.size }

// Append adds one leaf and appends the hashes that become final to dst, in the order of tlog's stored hash index.
func (t *Tree) Append(record []byte, dst []byte) []byte {
	h := tlog.RecordHash(record)
	dst = append(dst, h[:]...)
	for n := t.size; n&1 == 1; n >>= 1 {
		last := len(t.peaks) - 1
		h = tlog.NodeHash(t.peaks[last], h)
		t.peaks = t.peaks[:last]
		dst = append(dst, h[:]...)
	}
	t.peaks = append(t.peaks, h)
	t.size++
	return dst
}

// Copy is a tree that goes on by itself.
func (t *Tree) Copy() *Tree { return ResumeAt(t.size, t.peaks) }

// Set makes it the same tree as another one, in its own memory.
func (t *Tree) Set(from *Tree) { t.size, t.peaks = from.size, append(t.peaks[:0], from.peaks...) }

// Root is the tree's root hash.
func (t *Tree) Root() tlog.Hash {
	if t.size == 0 {
		h, _ := tlog.TreeHash(0, nil)
		return h
	}
	h := t.peaks[len(t.peaks)-1]
	for i := len(t.peaks) - 2; i >= 0; i-- {
		h = tlog.NodeHash(t.peaks[i], h)
	}
	return h
}

// Peaks are the root hashes of the complete subtrees that the tree is made of, from left to right, the largest first:
// all that is needed of its leaves to append to it. They are the caller's.
func (t *Tree) Peaks() []tlog.Hash { return append([]tlog.Hash(nil), t.peaks...) }

// StoredHashes is how many hashes a tree of size leaves has stored.
func StoredHashes(size uint64) int64 {
	if size == 0 {
		return 0
	}
	return tlog.StoredHashIndex(0, int64(size))
}

// Resume rebuilds the right edge of a tree of size leaves from its stored hashes.
func Resume(size uint64, r tlog.HashReader) (*Tree, error) {
	t := &Tree{size: size}
	var index []int64
	offset := uint64(0)
	for level := 63; level >= 0; level-- {
		if size&(1<<level) != 0 {
			index = append(index, tlog.StoredHashIndex(level, int64(offset>>level)))
			offset += 1 << level
		}
	}
	if len(index) == 0 {
		return t, nil
	}
	hashes, err := r.ReadHashes(index)
	if err != nil {
		return nil, err
	}
	t.peaks = hashes
	return t, nil
}
