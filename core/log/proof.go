package log

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
)

// ProofFormat is the first line of a proof: C2SP tlog-proof.
const ProofFormat = "c2sp.org/tlog-proof@v1"

// Proof is one record and what shows that it is in a log.
type Proof struct {
	Seq    uint64
	Record []byte
	Checkpoint
}

// Prove makes a C2SP tlog-proof that the record seq is among the first size records: its inclusion in the tree with
// that root, a signed checkpoint, and the record itself as the proof's extra data. r gives the tree's stored hashes.
func (s *Signer) Prove(seq, size uint64, root tlog.Hash, record []byte, r tlog.HashReader) ([]byte, error) {
	if seq == 0 || seq > size {
		return nil, fmt.Errorf("there is no record %d, the log has %d", seq, size)
	}
	path, err := tlog.ProveRecord(int64(size), int64(seq-1), r)
	if err != nil {
		return nil, fmt.Errorf("prove record %d: %w", seq, err)
	}
	cp, err := s.Checkpoint(size, root)
	if err != nil {
		return nil, fmt.Errorf("prove record %d: %w", seq, err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nextra %s\nindex %d\n", ProofFormat, base64.StdEncoding.EncodeToString(record), seq-1)
	for _, h := range path {
		fmt.Fprintln(&b, h)
	}
	b.WriteString("\n" + cp)
	return []byte(b.String()), nil
}

// IsProof reports whether a text begins as a proof does.
func IsProof(text []byte) bool { return bytes.HasPrefix(text, []byte(ProofFormat+"\n")) }

// OpenProof reads a proof and checks it: the record is in the log that one of the keys has signed. Without keys the
// signature is not checked. A *Fault says that the proof does not hold.
func OpenProof(text []byte, keys Keys) (*Proof, error) {
	head, cp, found := strings.Cut(string(text), "\n\n")
	lines := strings.Split(head, "\n")
	if !found || len(lines) < 3 || lines[0] != ProofFormat {
		return nil, fault(0, "it is no proof with a record (%s)", ProofFormat)
	}
	p := &Proof{}
	var err error
	if extra, ok := strings.CutPrefix(lines[1], "extra "); !ok {
		return nil, fault(0, "the proof has no record: line 2 is not extra")
	} else if p.Record, err = base64.StdEncoding.Strict().DecodeString(extra); err != nil {
		return nil, fault(0, "the record: %v", err)
	}
	index, ok := strings.CutPrefix(lines[2], "index ")
	n, err := strconv.ParseInt(index, 10, 64)
	if !ok || err != nil || n < 0 || strconv.FormatInt(n, 10) != index {
		return nil, fault(0, "line 3 is not the index of a record")
	}
	p.Seq = uint64(n) + 1
	var path tlog.RecordProof
	for _, line := range lines[3:] {
		h, err := tlog.ParseHash(line)
		if err != nil || h.String() != line {
			return nil, fault(0, "%q is no hash", line)
		}
		path = append(path, h)
	}
	if p.Checkpoint, err = OpenCheckpoint(cp, keys); err != nil {
		return nil, fault(0, "its checkpoint: %v", err)
	}
	if err := tlog.CheckRecord(path, int64(p.Size), p.Root, n, tlog.RecordHash(p.Record)); err != nil {
		return nil, fault(p.Seq, "it is not in the log of the checkpoint: %v", err)
	}
	return p, p.place(keys)
}

// place checks that the record says what the proof says of it. A record of another store is in a log that was restored
// from a backup of that one: then the key of that store has to be trusted too.
func (p *Proof) place(keys Keys) error {
	var h Head
	if !h.Read(p.Record) {
		return fault(p.Seq, "it is no record: it cannot be parsed")
	}
	origin := Origin(string(h.StoreID))
	if string(h.Seq) != strconv.FormatUint(p.Seq, 10) || origin != p.Origin && !keys.of(origin) {
		return fault(p.Seq, "it says that it is record %s of %s", h.Seq, h.StoreID)
	}
	return nil
}

// IsFault reports whether an error is of a log that was changed or cut, and none of looking.
func IsFault(err error) bool {
	var f *Fault
	return errors.As(err, &f)
}
