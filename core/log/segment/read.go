package segment

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sort"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/yett-dev/yett/core/log"
)

// Reader reads one segment. It keeps the index in memory and opens the file for each call. Safe for concurrent use.
type Reader struct {
	Info
	fs    FS
	path  string
	store Store
	rows  []row
	sums  []uint32
	at    int64       // of the hashes
	peaks []tlog.Hash // in front of it
	end   []tlog.Hash // behind it
}

// Open reads the index of a segment and checks that it is what the list says of it.
func Open(fs FS, dir string, store Store, info Info) (*Reader, error) {
	r := &Reader{Info: info, fs: fs, path: filepath.Join(dir, Name(info.FirstCommit)), store: store}
	f, err := fs.Open(r.path)
	if err != nil {
		return nil, err
	}
	err = r.load(f)
	return r, errors.Join(err, f.Close())
}

// at reads exactly n bytes.
func readAt(f File, off int64, n int) ([]byte, error) {
	b := make([]byte, n)
	got, err := f.ReadAt(b, off)
	if got == n {
		return b, nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return nil, err
}

func (r *Reader) load(f File) error {
	size, err := f.Size()
	if err != nil {
		return err
	}
	if uint64(size) != r.Bytes {
		return damaged(r.path, "it has %d bytes, it was written with %d", size, r.Bytes)
	}
	if size < tailSize {
		return damaged(r.path, "it is too short")
	}
	tail, err := readAt(f, size-tailSize, tailSize)
	if err != nil {
		return err
	}
	be := binary.BigEndian
	if be.Uint32(tail[tailSize-4:]) != r.store.Salt.Sum(tail[:tailSize-4]) || string(tail[40:48]) != magic {
		return damaged(r.path, "its last %d bytes: a wrong checksum", tailSize)
	}
	headSize, indexAt := int(be.Uint32(tail)), int64(be.Uint64(tail[16:]))
	r.at = int64(be.Uint64(tail[8:]))
	count, last := int(be.Uint32(tail[24:])), be.Uint64(tail[32:])
	if headSize > headMost || r.at < int64(headSize) || indexAt < r.at || indexAt > size-tailSize ||
		last != r.LastCommit {
		return damaged(r.path, "its last %d bytes do not fit it", tailSize)
	}
	line, err := readAt(f, 0, headSize)
	if err != nil {
		return err
	}
	if be.Uint32(tail[4:]) != r.store.Salt.Sum(line) {
		return damaged(r.path, "line 1: a wrong checksum")
	}
	index, err := readAt(f, indexAt, int(size-tailSize-indexAt))
	if err != nil {
		return err
	}
	if be.Uint32(tail[28:]) != r.store.Salt.Sum(index) {
		return damaged(r.path, "its index at %d: a wrong checksum", indexAt)
	}
	if err := r.head(line); err != nil {
		return err
	}
	return r.index(index, count, indexAt)
}

func (r *Reader) head(line []byte) error {
	var h head
	if err := json.Unmarshal(line, &h); err != nil {
		return damaged(r.path, "line 1: %v", err)
	}
	if h.Format != Format || h.StoreID != r.store.ID || h.Epoch != r.store.Epoch || h.FirstCommit != r.FirstCommit ||
		h.FirstSeq != r.FirstSeq {
		return damaged(r.path, "line 1: it is %s, epoch %d of store %s, from commit %d and record %d; expected %s, epoch %d "+
			"of store %s, from commit %d and record %d", h.Format, h.Epoch, h.StoreID, h.FirstCommit, h.FirstSeq, Format,
			r.store.Epoch, r.store.ID, r.FirstCommit, r.FirstSeq)
	}
	for _, text := range h.Peaks {
		p, err := tlog.ParseHash(text)
		if err != nil {
			return damaged(r.path, "line 1: %v", err)
		}
		r.peaks = append(r.peaks, p)
	}
	return nil
}

func (r *Reader) index(b []byte, rows int, indexAt int64) error {
	hashes := hashCount(r.FirstSeq, r.NextSeq) * hashSize
	chunks := int((hashes + hashChunk - 1) / hashChunk)
	peaks := len(b) - rows*rowSize - chunks*4
	if hashes != indexAt-r.at || peaks < 0 || peaks%hashSize != 0 {
		return damaged(r.path, "its index has %d bytes for %d blocks", len(b), rows)
	}
	seq, commit := r.FirstSeq, r.FirstCommit
	for range rows {
		w := parseRow(b)
		if w.firstSeq != seq || w.firstCommit != commit || int64(w.at)+int64(w.size) > r.at {
			return damaged(r.path, "its index has a block of commit %d and record %d, expected %d and %d", w.firstCommit,
				w.firstSeq, commit, seq)
		}
		r.rows, b = append(r.rows, w), b[rowSize:]
		seq, commit = seq+uint64(w.records), commit+uint64(w.commits)
	}
	if seq != r.NextSeq || commit != r.LastCommit+1 {
		return damaged(r.path, "its index ends in front of commit %d and record %d, expected %d and %d", commit, seq,
			r.LastCommit+1, r.NextSeq)
	}
	for range chunks {
		r.sums, b = append(r.sums, binary.BigEndian.Uint32(b)), b[4:]
	}
	for ; len(b) > 0; b = b[hashSize:] {
		r.end = append(r.end, tlog.Hash(b[:hashSize]))
	}
	return nil
}

// Path is the segment's file.
func (r *Reader) Path() string { return r.path }

// Start is the tree in front of the segment.
func (r *Reader) Start() *log.Tree { return log.ResumeAt(r.FirstSeq-1, r.peaks) }

// End is the tree behind the segment.
func (r *Reader) End() *log.Tree { return log.ResumeAt(r.NextSeq-1, r.end) }

var decoders = make(pool, 4)

// Commits calls fn with every commit from the block on that holds record seq. A commit's Hashes are not set, and its
// bytes are only valid during the call. An error of fn ends the walk and is returned.
func (r *Reader) Commits(seq uint64, fn func(c *log.Commit) error) error {
	f, err := r.fs.Open(r.path)
	if err != nil {
		return err
	}
	return errors.Join(r.commits(f, seq, fn), f.Close())
}

func (r *Reader) commits(f File, seq uint64, fn func(c *log.Commit) error) error {
	from := sort.Search(len(r.rows), func(i int) bool { return r.rows[i].firstSeq+uint64(r.rows[i].records) > seq })
	var plain []byte
	for i := from; i < len(r.rows); i++ {
		w := &r.rows[i]
		var err error
		if plain, err = r.block(f, w, plain[:0]); err != nil {
			return err
		}
		if err := r.split(w, plain, fn); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reader) block(f File, w *row, dst []byte) ([]byte, error) {
	packed, err := readAt(f, int64(w.at), int(w.size))
	if err != nil {
		return nil, fmt.Errorf("%s: the block at %d: %w", r.path, w.at, err)
	}
	if r.store.Salt.Sum(packed) != w.sum {
		return nil, damaged(r.path, "the block at %d, from record %d on: a wrong checksum", w.at, w.firstSeq)
	}
	dec, err := decoders.get()
	if err != nil {
		return nil, err
	}
	defer decoders.put(dec)
	plain, err := dec.DecodeAll(packed, dst)
	if err != nil {
		return nil, damaged(r.path, "the block at %d, from record %d on: %v", w.at, w.firstSeq, err)
	}
	return plain, nil
}

func (r *Reader) split(w *row, plain []byte, fn func(c *log.Commit) error) error {
	c := log.Commit{Number: w.firstCommit, First: w.firstSeq}
	for ; len(plain) > 0; c.Number++ {
		if len(plain) < 8 || uint64(binary.BigEndian.Uint32(plain[4:])) > uint64(len(plain)-8) {
			return damaged(r.path, "the block at %d: commit %d is cut", w.at, c.Number)
		}
		n := binary.BigEndian.Uint32(plain[4:])
		c.Count, c.Records = uint64(binary.BigEndian.Uint32(plain)), plain[8:8+n]
		if err := fn(&c); err != nil {
			return err
		}
		c.First += c.Count
		plain = plain[8+n:]
	}
	return nil
}

// Records calls fn with every record from seq on.
func (r *Reader) Records(seq uint64, fn func(seq uint64, record []byte) error) error {
	return r.Commits(seq, func(c *log.Commit) error {
		return c.Each(func(is uint64, rec []byte) error {
			if is < seq {
				return nil
			}
			return fn(is, rec)
		})
	})
}

// Hash is a stored hash of the segment's records, by its index in tlog's order. ok is false when it is of other
// records.
func (r *Reader) Hash(index int64) (h tlog.Hash, ok bool, err error) {
	first := log.StoredHashes(r.FirstSeq - 1)
	if index < first || index >= log.StoredHashes(r.NextSeq-1) {
		return h, false, nil
	}
	f, err := r.fs.Open(r.path)
	if err != nil {
		return h, false, err
	}
	off := (index - first) * hashSize
	chunk, err := r.chunk(f, off/hashChunk)
	if err = errors.Join(err, f.Close()); err != nil {
		return h, false, err
	}
	return tlog.Hash(chunk[off%hashChunk:][:hashSize]), true, nil
}

func (r *Reader) chunk(f File, n int64) ([]byte, error) {
	all := hashCount(r.FirstSeq, r.NextSeq) * hashSize
	b, err := readAt(f, r.at+n*hashChunk, int(min(hashChunk, all-n*hashChunk)))
	if err != nil {
		return nil, fmt.Errorf("%s: its hashes at %d: %w", r.path, r.at+n*hashChunk, err)
	}
	if r.store.Salt.Sum(b) != r.sums[n] {
		return nil, damaged(r.path, "its hashes at %d: a wrong checksum", r.at+n*hashChunk)
	}
	return b, nil
}

// Peak is the hash of a complete subtree that ends in front of the segment and is one of the tree's peaks there.
func (r *Reader) Peak(level int, n int64) (h tlog.Hash, ok bool) {
	size := r.FirstSeq - 1
	at, i := uint64(0), 0
	for l := 62; l >= 0; l-- {
		if size&(1<<l) == 0 {
			continue
		}
		if l == level && at>>l == uint64(n) {
			return r.peaks[i], true
		}
		at += 1 << l
		i++
	}
	return h, false
}

// Size is about how many bytes of the file are for the records from seq on.
func (r *Reader) Size(seq uint64) uint64 {
	total := uint64(0)
	for i := range r.rows {
		w := &r.rows[i]
		switch next := w.firstSeq + uint64(w.records); {
		case next <= seq:
		case w.firstSeq >= seq:
			total += uint64(w.size)
		default:
			total += uint64(w.size) * (next - seq) / uint64(w.records)
		}
	}
	return total
}

// Check reads all of the segment and holds it against the list's digest and the tree that ends in front of it, to which
// it appends.
func (r *Reader) Check(tree *log.Tree) error {
	if err := r.digest(); err != nil {
		return err
	}
	start := r.Start()
	if tree.Size() != start.Size() || tree.Root() != start.Root() {
		return damaged(r.path, "it does not follow on the %d records in front of it", tree.Size())
	}
	var hashes []byte
	err := r.Commits(r.FirstSeq, func(c *log.Commit) error {
		return c.Each(func(_ uint64, rec []byte) error { hashes = tree.Append(rec, hashes); return nil })
	})
	if err != nil {
		return err
	}
	if end := r.End(); tree.Root() != end.Root() {
		return damaged(r.path, "its records do not give the root that it ends with")
	}
	f, err := r.fs.Open(r.path)
	if err != nil {
		return err
	}
	for n := range r.sums {
		var b []byte
		if b, err = r.chunk(f, int64(n)); err != nil {
			break
		}
		if !bytes.Equal(b, hashes[n*hashChunk:][:len(b)]) {
			err = damaged(r.path, "its hashes at %d are not those of its records", r.at+int64(n)*hashChunk)
			break
		}
	}
	return errors.Join(err, f.Close())
}

func (r *Reader) digest() error {
	f, err := r.fs.Open(r.path)
	if err != nil {
		return err
	}
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if [32]byte(sum.Sum(nil)) != r.Digest {
		return damaged(r.path, "its SHA-256 is not the one that the list has")
	}
	return nil
}

// Warm makes all decoders that are kept, which else the first readers do. What is made in a bubble of a test is not to
// be used in the next one.
func Warm() error {
	for len(decoders) < cap(decoders) {
		d, err := newDecoder()
		if err != nil {
			return err
		}
		decoders.put(d)
	}
	return nil
}

func newDecoder() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(1<<30))
}

// pool is of decoders, each of which is used by one goroutine at a time.
type pool chan *zstd.Decoder

func (p pool) get() (*zstd.Decoder, error) {
	select {
	case d := <-p:
		return d, nil
	default:
		return newDecoder()
	}
}

func (p pool) put(d *zstd.Decoder) {
	select {
	case p <- d:
	default:
		d.Close()
	}
}
