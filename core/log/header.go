package log

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/yett-dev/yett/sdk/wire"
)

// ExportFormat is the first member of an export's header line.
const ExportFormat = "yett-audit-export/1"

// maxNamed is how many hashes the header of an export has at most to name a changed record by. A longer export names
// the block of records.
const maxNamed = 1 << 19

// namedBytes is how much of a hash names a record. It finds the place of a change, the checkpoint's root proves it: so
// few bytes are enough.
const namedBytes = 3

// Range is the records that somebody asks for. Zero is open: the first that is there, the newest.
type Range struct {
	From uint64 `json:"from_seq"`
	To   uint64 `json:"to_seq"`
}

// FileName is the name of a file with an export of the range, in an archive: names sort as the records do.
func (r Range) FileName() string { return fmt.Sprintf("yett-%020d-%020d.jsonl", r.From, r.To) }

// Header is line 1 of an export: what the records are, and a checkpoint of the log that ends with them.
type Header struct {
	Format    string   `json:"format"`
	StoreID   string   `json:"store_id"`
	Epoch     uint32   `json:"epoch"` // 0, as in all exports of a log that was never restored: 1
	KeyID     string   `json:"key_id"`
	PublicKey string   `json:"public_key"` // the verifier key in note syntax; not in exports of old versions
	FromSeq   uint64   `json:"from_seq"`
	ToSeq     uint64   `json:"to_seq"`
	Front     []string `json:"front"` // see Signer.Header
	// Leaves has the first three bytes of a hash for every record, or for every block of records, base64: with it a
	// verifier names the record that was changed. See Names. Not in exports of old versions.
	Leaves string `json:"leaves"`
	// Earlier are the lives of the log before store_id's, as far as their records are in the file: those carry other
	// store ids. Only in exports of a log that was restored from a backup.
	Earlier    []Life `json:"earlier"`
	Checkpoint string `json:"checkpoint"`
}

func (h *Header) append(dst []byte) []byte {
	o := wire.Object(dst)
	o.Str("format", h.Format)
	o.Str("store_id", h.StoreID)
	if h.Epoch > 1 {
		o.Int("epoch", int64(h.Epoch))
	}
	o.Str("key_id", h.KeyID)
	o.Opt("public_key", h.PublicKey)
	o.Int("from_seq", int64(h.FromSeq))
	o.Int("to_seq", int64(h.ToSeq))
	if len(h.Front) > 0 {
		o.Strs("front", h.Front)
	}
	o.Opt("leaves", h.Leaves)
	if len(h.Earlier) > 0 {
		appendLives(&o, h.Earlier)
	}
	o.Str("checkpoint", h.Checkpoint)
	return o.Close()
}

// Header is line 1 of an export, without the newline: what the records are, and a checkpoint of the log that ends with
// them. An export that does not begin with record 1, because retention has removed what was in front of from, gives
// front: the peaks of the tree over records 1 to from-1 (Tree.Peaks). Its header has them as "front", base64. To check
// it, go on from them with the leaf hashes of the records: the root that results must be the checkpoint's. leaves are
// the Names of the records; nil leaves them out.
func (s *Signer) Header(from, to uint64, root tlog.Hash, leaves *Names, front ...tlog.Hash) ([]byte, error) {
	return s.HeaderBehind(nil, from, to, root, leaves, front...)
}

// HeaderBehind is Header for a log that has had earlier lives.
func (s *Signer) HeaderBehind(earlier []Life, from, to uint64, root tlog.Hash, leaves *Names,
	front ...tlog.Hash) ([]byte, error) {
	cp, err := s.Checkpoint(to, root)
	if err != nil {
		return nil, fmt.Errorf("sign export: %w", err)
	}
	h := Header{Format: ExportFormat, StoreID: s.store, KeyID: s.KeyID(), PublicKey: s.public, FromSeq: from, ToSeq: to,
		Checkpoint: cp}
	for _, l := range earlier {
		h.Epoch = l.Epoch + 1
		if l.ToSeq >= from && (len(h.Earlier) == 0 || h.Earlier[len(h.Earlier)-1].ToSeq < to) {
			h.Earlier = append(h.Earlier, l)
		}
	}
	for _, f := range front {
		h.Front = append(h.Front, f.String())
	}
	if leaves != nil {
		h.Leaves = leaves.text()
	}
	return h.append(nil), nil
}

// ParseHeader reads line 1 of an export, without its newline. A line that this package would have written differently
// is refused, so that no byte of it can be changed.
func ParseHeader(line []byte) (*Header, error) {
	h := &Header{}
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(h); err != nil {
		return nil, fmt.Errorf("line 1 is no header of an export: %w", err)
	}
	switch {
	case h.Format != ExportFormat:
		return nil, fmt.Errorf("line 1 is no header of an export: format is %q, expected %q", h.Format, ExportFormat)
	case !bytes.Equal(h.append(nil), line):
		return nil, errors.New("line 1 is not as an export writes it")
	case h.FromSeq == 0, h.ToSeq+1 < h.FromSeq:
		return nil, fmt.Errorf("line 1: records %d to %d are no range", h.FromSeq, h.ToSeq)
	case len(h.Front) != bits.OnesCount64(h.FromSeq-1):
		return nil, fmt.Errorf("line 1: front has %d hashes, expected %d for records that begin with %d", len(h.Front),
			bits.OnesCount64(h.FromSeq-1), h.FromSeq)
	}
	return h, h.checkLives()
}

// tree is the tree over what is in front of the records.
func (h *Header) tree() (*Tree, error) {
	t := &Tree{size: h.FromSeq - 1}
	for _, text := range h.Front {
		p, err := tlog.ParseHash(text)
		if err != nil {
			return nil, fmt.Errorf("line 1: front: %w", err)
		}
		t.peaks = append(t.peaks, p)
	}
	return t, nil
}

// Names collects what a header says of the leaves, so that a verifier can name a record that was changed. Each block of
// records has three bytes of the SHA-256 over its leaf hashes; a block of one record has the leaf hash's own.
type Names struct {
	size  uint64 // records of a block
	in    uint64 // of the block that is being filled
	block []byte
	all   []byte
}

// NewNames is for that many records.
func NewNames(records uint64) *Names { return &Names{size: blockSize(records)} }

// blockSize is how many records share one name: 1 up to maxNamed records.
func blockSize(records uint64) uint64 {
	size := uint64(1)
	for records > size*maxNamed {
		size *= 2
	}
	return size
}

// Add takes the leaf hash of the next record. It reports whether a block is full; then Last names it.
func (n *Names) Add(leaf tlog.Hash) (full bool) {
	if n.size == 1 {
		n.all = append(n.all, leaf[:namedBytes]...)
		return true
	}
	n.block = append(n.block, leaf[:]...)
	if n.in++; n.in < n.size {
		return false
	}
	n.flush()
	return true
}

func (n *Names) flush() {
	sum := sha256.Sum256(n.block)
	n.all, n.block, n.in = append(n.all, sum[:namedBytes]...), n.block[:0], 0
}

func (n *Names) text() string {
	if n.in > 0 {
		n.flush()
	}
	return base64.StdEncoding.EncodeToString(n.all)
}
