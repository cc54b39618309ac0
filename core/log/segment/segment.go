// Package segment owns the files that hold the older part of a log: sealed, compressed, readable block by block, and
// never changed again. It writes one from commits, reads records and hashes of one, and keeps the list that says which
// there are. It knows nothing of the store's state. It must never cut or mend a file: what is damaged is an error that
// names file and place.
package segment

import (
	"encoding/json"
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/yett-dev/yett/core/log"
)

// Format is the first member of a segment's first line.
const Format = "yett-segment/1"

// A segment is a line of JSON that says what it is (head), with the peaks of the tree in front of it; blocks, each the
// zstd of (u32 records, u32 bytes, records as (u32 length, record)…) for some commits; the stored hashes of its
// records, in tlog's order; an index, which is a row for each block, a sum for each 32 KiB of hashes, and the peaks of
// the tree behind it; and a tail of 56 bytes that says where the others are, with their sums. All numbers are big
// endian, all sums CRC-32C with the store's salt.
const (
	magic     = "yettseg1"
	tailSize  = 56
	blockMost = 128 << 10 // bytes of commits that one block takes, or one commit that is larger
	hashChunk = 32 << 10  // bytes of hashes that one sum is over
	rowSize   = 48
	headMost  = 64 << 10
)

// Info says which commits a segment holds.
type Info struct {
	FirstCommit uint64
	LastCommit  uint64
	FirstSeq    uint64
	NextSeq     uint64 // behind its last record
	Bytes       uint64 // of the file
	Raw         uint64 // of its records before compression
	Digest      [32]byte
}

// Name is the file name of a segment that begins with a commit.
func Name(firstCommit uint64) string { return fmt.Sprintf("%020d.seg", firstCommit) }

// head is the first line of a segment.
type head struct {
	Format      string   `json:"format"`
	StoreID     string   `json:"store_id"`
	Epoch       uint32   `json:"epoch"`
	FirstCommit uint64   `json:"first_commit"`
	FirstSeq    uint64   `json:"first_seq"`
	Peaks       []string `json:"peaks"`
}

func (h *head) line() ([]byte, error) {
	line, err := json.Marshal(h)
	return append(line, '\n'), err
}

// Store is whose segments they are.
type Store struct {
	ID    string
	Epoch uint32
	Salt  log.Salt
}

// row is a block in the index.
type row struct {
	at          uint64
	size        uint32
	sum         uint32
	firstCommit uint64
	firstSeq    uint64
	commits     uint32
	records     uint32
	raw         uint64
}

var errDamaged = errors.New("damaged")

func damaged(path string, format string, args ...any) error {
	return fmt.Errorf("%s is %w: %s", path, errDamaged, fmt.Sprintf(format, args...))
}

// IsDamaged reports whether an error is of a file whose bytes are not those that were written.
func IsDamaged(err error) bool { return errors.Is(err, errDamaged) }

func peakTexts(peaks []tlog.Hash) []string {
	out := make([]string, len(peaks))
	for i, p := range peaks {
		out[i] = p.String()
	}
	return out
}
