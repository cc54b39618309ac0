package log

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"golang.org/x/mod/sumdb/tlog"
)

// maxLine bounds one line of an export, in bytes.
const maxLine = 4 << 20

// Earlier is a checkpoint that was kept outside.
type Earlier struct {
	From string // where it was read, for messages
	Text string
}

// VerifyOptions says what Verify holds an export against. The zero value checks the export against itself.
type VerifyOptions struct {
	Keys       Keys      // trusted keys; none: the header's own key is used, and nobody vouches for it
	Earlier    []Earlier // checkpoints of the same log
	Invariants bool      // replay the records: see Invariants
	// Begin is told the header once its signature was checked; nil is nobody.
	Begin func(h *Header) error
	// Each is told each record that stands in its place, in order, while it is read: that its bytes are those that were
	// signed is known only once Verify has returned. The bytes are only valid during the call. An error of Begin or Each
	// ends Verify and is returned.
	Each func(seq uint64, record []byte) error
}

// Verified is what Verify has found in order.
type Verified struct {
	StoreID   string `json:"store_id"`
	KeyID     string `json:"key_id"`
	KeyPinned bool   `json:"key_pinned"` // the key was given, and not only found in the header
	// SignatureChecked is false where no key was given and the header has none, as in exports of old versions.
	SignatureChecked bool     `json:"signature_checked"`
	FromSeq          uint64   `json:"from_seq"`
	ToSeq            uint64   `json:"to_seq"`
	Records          uint64   `json:"records"`
	Root             string   `json:"root"` // base64
	Checkpoints      []uint64 `json:"checkpoints"`
	// Earlier are the lives of the log before StoreID's whose records are in the export.
	Earlier []Life `json:"earlier,omitempty"`
	// Invariants is what the replay has checked; nil without VerifyOptions.Invariants.
	Invariants *Checked `json:"invariants,omitempty"`
}

// Verify reads an export and checks that it is whole and unchanged: the header's signature, every record's place, the
// root that the records give, and the checkpoints that were kept outside. It needs nothing of the server. A *Fault says
// that the log was changed or cut, and names the first bad record; any other error says that it could not look.
func Verify(r io.Reader, o VerifyOptions) (*Verified, error) {
	v := &verifier{lines: bufio.NewReaderSize(r, 1<<20), o: o}
	found, err := v.verify()
	if f, ok := errors.AsType[*Fault](err); ok {
		f.Line = 1
		if f.Seq != 0 {
			f.Line = f.Seq - v.head.FromSeq + 2
		}
	}
	return found, err
}

func (v *verifier) verify() (*Verified, error) {
	if err := v.header(); err != nil {
		return nil, err
	}
	if v.o.Begin != nil {
		if err := v.o.Begin(v.head); err != nil {
			return nil, err
		}
	}
	if err := v.earlier(); err != nil {
		return nil, err
	}
	if v.o.Invariants {
		v.rules = NewInvariants(v.head.FromSeq)
	}
	if err := v.records(); err != nil {
		return nil, err
	}
	return v.result(), nil
}

type verifier struct {
	lines *bufio.Reader
	long  []byte // a line that is longer than the reader's buffer
	o     VerifyOptions

	head   *Header
	signed Checkpoint
	tree   *Tree
	keys   Keys

	names   *Names
	named   []byte // what the header says of the leaves
	suspect uint64 // the first record whose leaf is not the one that the header names; 0: none
	upTo    uint64 // the last one of its block
	agreed  uint64 // the log is that of an earlier checkpoint up to here
	waiting []checkpointAt
	done    []uint64
	rules   *Invariants
	broken  error // the first invariant that does not hold
}

type checkpointAt struct {
	Checkpoint
	from string
}

// line is the next line without its newline; io.EOF behind the last one.
func (v *verifier) line() ([]byte, error) {
	line, err := v.lines.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		v.long = append(v.long[:0], line...)
		for errors.Is(err, bufio.ErrBufferFull) {
			if len(v.long) > maxLine {
				return nil, errLong
			}
			line, err = v.lines.ReadSlice('\n')
			v.long = append(v.long, line...)
		}
		line = v.long
	}
	if errors.Is(err, io.EOF) && len(line) > 0 {
		return nil, errCut
	}
	if err != nil {
		return nil, err
	}
	return line[:len(line)-1], nil
}

var (
	errCut  = errors.New("the last line has no end")
	errLong = fmt.Errorf("a line of more than %d bytes", maxLine)
)

func (v *verifier) header() error {
	line, err := v.line()
	switch {
	case errors.Is(err, io.EOF):
		return fault(0, "the export is empty")
	case errors.Is(err, errCut):
		return fault(0, "the export ends within it")
	case errors.Is(err, errLong):
		return fault(0, "it is %v", err)
	case err != nil:
		return fmt.Errorf("read line 1: %w", err)
	}
	if v.head, err = ParseHeader(line); err != nil {
		return fault(0, "%v", err)
	}
	if err := v.signer(); err != nil {
		return err
	}
	if v.tree, err = v.head.tree(); err != nil {
		return fault(0, "%v", err)
	}
	records := v.head.ToSeq + 1 - v.head.FromSeq
	if v.head.Leaves != "" {
		v.names = NewNames(records)
		blocks := (records + v.names.size - 1) / v.names.size
		v.named, err = base64.StdEncoding.Strict().DecodeString(v.head.Leaves)
		if err != nil || uint64(len(v.named)) != blocks*namedBytes {
			return fault(0, "leaves does not have %d bytes for each of %d blocks", namedBytes, blocks)
		}
	}
	return nil
}

// signer checks who has signed the header's checkpoint.
func (v *verifier) signer() error {
	v.keys = v.o.Keys
	origin := Origin(v.head.StoreID)
	var own Keys
	if v.head.PublicKey != "" {
		var err error
		if own, err = ParseKeys(v.head.PublicKey); err != nil {
			return fault(0, "%v", err)
		}
		if !own.names(origin, v.head.KeyID) {
			return fault(0, "public_key, key_id and store_id do not belong together")
		}
	}
	if len(v.keys) == 0 {
		v.keys = own
	} else if !v.keys.names(origin, v.head.KeyID) {
		return fault(0, "it is signed with key %s of store %s, which is not among the keys that are trusted", v.head.KeyID,
			v.head.StoreID)
	}
	var err error
	if v.signed, err = OpenCheckpoint(v.head.Checkpoint, v.keys); err != nil {
		return fault(0, "its checkpoint: %v", err)
	}
	if v.signed.Origin != origin || v.signed.Size != v.head.ToSeq {
		return fault(0, "its checkpoint is of %d records of %s, not of %d of %s", v.signed.Size, v.signed.Origin,
			v.head.ToSeq, origin)
	}
	return nil
}

// earlier sorts the checkpoints that were kept outside.
func (v *verifier) earlier() error {
	for _, e := range v.o.Earlier {
		c, err := OpenCheckpoint(e.Text, v.keys)
		switch {
		case err != nil:
			return fmt.Errorf("checkpoint %s: %w", e.From, err)
		case v.ofEarlier(&c): // it counts as any other
		case c.Origin != v.signed.Origin:
			return fmt.Errorf("checkpoint %s is of %s, the export of %s", e.From, c.Origin, v.signed.Origin)
		case c.Size > v.head.ToSeq:
			return fault(v.head.ToSeq+1, "missing: the export ends with record %d, and checkpoint %s knows %d records",
				v.head.ToSeq, e.From, c.Size)
		case c.Size+1 < v.head.FromSeq && c.Size > 0:
			return fmt.Errorf("checkpoint %s is of %d records, the export begins with record %d: they cannot be compared",
				e.From, c.Size, v.head.FromSeq)
		}
		v.waiting = append(v.waiting, checkpointAt{c, e.From})
	}
	slices.SortStableFunc(v.waiting, func(a, b checkpointAt) int {
		switch {
		case a.Size < b.Size:
			return -1
		case a.Size > b.Size:
			return 1
		}
		return 0
	})
	v.agreed = v.head.FromSeq - 1
	return v.compare()
}

// compare holds the tree as it is now against the checkpoints of its size.
func (v *verifier) compare() error {
	for len(v.waiting) > 0 && (v.waiting[0].Size == v.tree.Size() || v.waiting[0].Size == 0) {
		c := v.waiting[0]
		v.waiting = v.waiting[1:]
		if c.Size == 0 {
			empty := Tree{}
			if c.Root != empty.Root() {
				return fmt.Errorf("checkpoint %s is of no records and has the root of some", c.from)
			}
		} else if c.Root != v.tree.Root() {
			return v.unlike(c.Size, "the log is not the one that checkpoint "+c.from+" is of: it was rewritten, or is another "+
				"copy")
		}
		v.agreed = c.Size
		v.done = append(v.done, c.Size)
	}
	return nil
}

// unlike is the fault of records up to size that do not give a root that was signed.
func (v *verifier) unlike(size uint64, why string) error {
	f := &Fault{Seq: max(v.agreed+1, v.head.FromSeq), Last: size, Why: why}
	if v.suspect != 0 && v.suspect <= size {
		f.Seq, f.Last = v.suspect, v.upTo
	}
	if f.Last <= f.Seq {
		f.Last = 0
	}
	return f
}

func (v *verifier) records() error {
	var head, hashes []byte
	for seq := v.head.FromSeq; seq <= v.head.ToSeq; seq++ {
		rec, err := v.line()
		switch {
		case errors.Is(err, io.EOF):
			return fault(seq, "missing: the export ends here, its header says that it goes to record %d", v.head.ToSeq)
		case errors.Is(err, errCut):
			return fault(seq, "cut: the export ends within it")
		case errors.Is(err, errLong):
			return fault(seq, "it is %v", err)
		case err != nil:
			return fmt.Errorf("read record %d: %w", seq, err)
		}
		store, epoch := v.head.writer(seq)
		head = appendStart(strconv.AppendUint(append(head[:0], `{"v":1,"seq":`...), seq, 10), store, epoch)
		if !bytes.HasPrefix(rec, head) {
			return v.misplaced(seq, rec)
		}
		if !Members(rec, func(_, _ []byte) bool { return true }) {
			return fault(seq, "it is no record: it cannot be parsed")
		}
		if err := v.begins(seq, rec); err != nil {
			return err
		}
		hashes = v.tree.Append(rec, hashes[:0])
		v.look(seq, tlog.Hash(hashes[:tlog.HashSize]))
		if err := v.compare(); err != nil {
			return err
		}
		if v.rules != nil && v.broken == nil {
			v.broken = v.rules.Record(seq, rec)
		}
		if v.o.Each != nil {
			if err := v.o.Each(seq, rec); err != nil {
				return err
			}
		}
	}
	return v.end()
}

// look holds a leaf against what the header says of it.
func (v *verifier) look(seq uint64, leaf tlog.Hash) {
	if v.named == nil || v.suspect != 0 {
		return
	}
	full := v.names.Add(leaf)
	if !full && seq == v.head.ToSeq {
		v.names.flush()
		full = true
	}
	if !full {
		return
	}
	at := len(v.names.all) - namedBytes
	if !bytes.Equal(v.names.all[at:], v.named[at:at+namedBytes]) {
		v.suspect, v.upTo = seq-(seq-v.head.FromSeq)%v.names.size, seq
	}
}

// misplaced says what stands where record seq should be.
func (v *verifier) misplaced(seq uint64, rec []byte) error {
	var h Head
	ok := h.Read(rec)
	is, _ := strconv.ParseUint(string(h.Seq), 10, 64)
	store := string(h.StoreID)
	switch {
	case !ok:
		return fault(seq, "it is no record: it cannot be parsed")
	case is != seq && is != 0:
		return fault(seq, "record %d stands in its place: records were dropped, inserted or swapped", is)
	}
	if want, _ := v.head.writer(seq); store != want {
		return fault(seq, "it is of store %q, the export of %q", store, want)
	}
	return fault(seq, "it does not begin as records do")
}

func (v *verifier) end() error {
	if _, err := v.line(); err == nil || errors.Is(err, errCut) || errors.Is(err, errLong) {
		return fault(v.head.ToSeq+1, "the export goes on behind record %d, which its header calls the last",
			v.head.ToSeq)
	} else if !errors.Is(err, io.EOF) {
		return fmt.Errorf("read behind record %d: %w", v.head.ToSeq, err)
	}
	if v.tree.Root() != v.signed.Root {
		if v.named != nil && v.suspect == 0 && v.agreed < v.head.FromSeq {
			return fault(0, "the records are those that leaves names, and do not give the root that was signed: front or "+
				"leaves was changed")
		}
		return v.unlike(v.head.ToSeq, "its bytes are not those that were signed")
	}
	if v.suspect != 0 {
		return fault(0, "leaves is not what the records give")
	}
	if v.rules != nil && v.broken == nil {
		v.broken = v.rules.End()
	}
	return v.broken
}

func (v *verifier) result() *Verified {
	r := &Verified{StoreID: v.head.StoreID, KeyID: v.head.KeyID, KeyPinned: len(v.o.Keys) > 0,
		SignatureChecked: len(v.keys) > 0, FromSeq: v.head.FromSeq,
		ToSeq: v.head.ToSeq, Records: v.head.ToSeq + 1 - v.head.FromSeq, Root: v.signed.Root.String(),
		Checkpoints: append([]uint64{}, v.done...), Earlier: v.head.Earlier}
	if v.rules != nil {
		r.Invariants = v.rules.Checked()
	}
	return r
}
