package log

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"golang.org/x/mod/sumdb/tlog"
)

// Commit is the records of one write of the store, with the hashes that they add to the tree. Some have no records.
type Commit struct {
	Number  uint64 // 1, 2, 3… without gaps
	First   uint64 // seq of its first record; of the next one to come where it has none
	Count   uint64
	Left    uint64 // the newest commit whose answers had left when this one was written; 0 where nobody says
	Records []byte // (u32 length, record)…
	Hashes  []byte // stored hashes in tlog's order, of Records and nothing else
}

// Next is the seq behind the commit's records.
func (c *Commit) Next() uint64 { return c.First + c.Count }

// FirstHash is the stored index of the first of Hashes.
func (c *Commit) FirstHash() int64 { return StoredHashes(c.First - 1) }

// Each calls fn with every record of the commit, in order. An error of fn ends it and is returned.
func (c *Commit) Each(fn func(seq uint64, record []byte) error) error {
	seq := c.First
	return EachRecord(c.Records, func(rec []byte) error {
		err := fn(seq, rec)
		seq++
		return err
	})
}

var errCutGroup = errors.New("a cut record group")

// EachRecord splits (u32 length, record)….
func EachRecord(group []byte, fn func(record []byte) error) error {
	for len(group) > 0 {
		if len(group) < 4 {
			return errCutGroup
		}
		n := binary.BigEndian.Uint32(group)
		if uint64(n) > uint64(len(group)-4) {
			return errCutGroup
		}
		if err := fn(group[4 : 4+n]); err != nil {
			return err
		}
		group = group[4+n:]
	}
	return nil
}

// Salt is what checksums of a store begin with, so that a file of another store, or of another life of the same store,
// does not pass for its own.
type Salt uint32

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// NewSalt is for a store and its epoch.
func NewSalt(store string, epoch uint32) Salt {
	return Salt(crc32.Checksum(binary.BigEndian.AppendUint32(append([]byte(store), 0), epoch), castagnoli))
}

// Sum is CRC-32C over the salt and data.
func (s Salt) Sum(data ...[]byte) uint32 {
	var four [4]byte
	binary.BigEndian.PutUint32(four[:], uint32(s))
	sum := crc32.Checksum(four[:], castagnoli)
	for _, d := range data {
		sum = crc32.Update(sum, castagnoli, d)
	}
	return sum
}

// A frame is a commit as the write-ahead log has it: u8 version, u64 number, u64 first seq, u32 records, u32 their
// bytes, u32 bytes of hashes, u64 left, records, hashes, u32 sum. Version 1 has no left.
const (
	frameVersion = 2
	frameLeft    = 1 + 8 + 8 + 4 + 4 + 4 // where it is
	frameHead    = frameLeft + 8
)

// FrameSize is how many bytes a frame of such a commit takes.
func (c *Commit) FrameSize() int { return frameHead + len(c.Records) + len(c.Hashes) + 4 }

// AppendFrame appends the commit's frame.
func (c *Commit) AppendFrame(dst []byte, salt Salt) []byte {
	from := len(dst)
	dst = append(dst, frameVersion)
	dst = binary.BigEndian.AppendUint64(dst, c.Number)
	dst = binary.BigEndian.AppendUint64(dst, c.First)
	dst = binary.BigEndian.AppendUint32(dst, uint32(c.Count))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(c.Records)))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(c.Hashes)))
	dst = binary.BigEndian.AppendUint64(dst, c.Left)
	dst = append(append(dst, c.Records...), c.Hashes...)
	return binary.BigEndian.AppendUint32(dst, salt.Sum(dst[from:]))
}

// ParseFrame reads a frame. The commit's slices are parts of frame. It refuses what AppendFrame would not have written.
func ParseFrame(frame []byte, salt Salt) (Commit, error) {
	head := frameHead
	if len(frame) > 0 && frame[0] == 1 {
		head = frameLeft
	}
	if len(frame) < head+4 || frame[0] < 1 || frame[0] > frameVersion {
		return Commit{}, fmt.Errorf("a commit of %d bytes is no frame of version 1 to %d", len(frame), frameVersion)
	}
	be := binary.BigEndian
	c := Commit{Number: be.Uint64(frame[1:]), First: be.Uint64(frame[9:]), Count: uint64(be.Uint32(frame[17:]))}
	records, hashes := uint64(be.Uint32(frame[21:])), uint64(be.Uint32(frame[25:]))
	if uint64(head)+records+hashes+4 != uint64(len(frame)) {
		return Commit{}, fmt.Errorf("commit %d has another length than it says", c.Number)
	}
	body := frame[:len(frame)-4]
	if be.Uint32(frame[len(body):]) != salt.Sum(body) {
		return Commit{}, fmt.Errorf("commit %d has a wrong checksum: it is damaged, or of another store", c.Number)
	}
	if head == frameHead {
		c.Left = be.Uint64(frame[frameLeft:])
	}
	body = body[head:]
	c.Records, c.Hashes = body[:records:records], body[records:]
	return c, c.check()
}

// check refuses a commit whose parts do not belong together.
func (c *Commit) check() error {
	n := uint64(0)
	if err := EachRecord(c.Records, func([]byte) error { n++; return nil }); err != nil {
		return fmt.Errorf("commit %d: %w", c.Number, err)
	}
	if c.Number == 0 || c.Left >= c.Number || c.First == 0 ||
		c.First+c.Count < c.First || c.First+c.Count > 1<<62 || n != c.Count ||
		int64(len(c.Hashes)) != (StoredHashes(c.First-1+c.Count)-StoredHashes(c.First-1))*tlog.HashSize {
		return fmt.Errorf("commit %d does not have the records and hashes that it says", c.Number)
	}
	return nil
}

// AddTo appends the commit's records to the tree that ends in front of them, and refuses it when its hashes are not
// what the records give.
func (c *Commit) AddTo(t *Tree) error {
	if t.Size()+1 != c.First {
		return fmt.Errorf("commit %d begins with record %d, the log in front of it ends with %d", c.Number, c.First, t.Size())
	}
	var hashes []byte
	if err := EachRecord(c.Records, func(rec []byte) error { hashes = t.Append(rec, hashes); return nil }); err != nil {
		return err
	}
	if string(hashes) != string(c.Hashes) {
		return fmt.Errorf("the hashes of commit %d are not those of its records", c.Number)
	}
	return nil
}

// ResumeAt is a tree of size leaves with those peaks.
func ResumeAt(size uint64, peaks []tlog.Hash) *Tree {
	return &Tree{size: size, peaks: append([]tlog.Hash(nil), peaks...)}
}
