package plugin

import (
	"crypto/sha256"
	"fmt"
	"math/bits"
)

// Chain tells whether a subscriber has got the log completely: it holds each batch against the ones before it. The zero
// Chain is ready. A subscriber that goes on after a restart keeps the Chain with what it took in (its fields are plain,
// encoding/json is enough) and puts it back before the first batch. It is one goroutine's.
type Chain struct {
	StoreID string   `json:"store_id"`
	Last    uint64   `json:"last"`  // the last record that was held against the others; 0: none
	First   uint64   `json:"first"` // the first one; a tree is known only from 1 on
	Broken  bool     `json:"broken"`
	Peaks   [][]byte `json:"peaks"`            // hashes of the full subtrees over 1 to Last, the largest first
	Before  string   `json:"before,omitempty"` // the store that the log was restored from
	Began   uint64   `json:"began,omitempty"`  // the first record of StoreID then
}

// Add checks that b goes on where the last one ended, and, as long as every record since 1 was in a batch (no filter,
// no gap), that the records' leaf hashes make up the tree whose root b names; then proven is true. A batch that came
// before, whole or in part, is no error: what was seen already is passed over. After an error the Chain is as it was.
//
// A batch of another store is an error, unless the log was restored from a backup there (Batch.Restored), behind a
// record that the Chain has seen. If the Chain has seen more of the old store, it proves nothing any more: what was
// behind the backup is not in the log.
func (c *Chain) Add(b *Batch) (proven bool, err error) {
	next := *c
	switch {
	case b.First == 0 || b.Last < b.First:
		return false, fmt.Errorf("records %d to %d: no range", b.First, b.Last)
	case c.Last == 0:
		next = Chain{StoreID: b.StoreID, First: b.First, Last: b.First - 1, Broken: b.First != 1}
	case b.StoreID == c.Before && b.Last < c.Began:
		return false, nil
	case b.StoreID != c.StoreID && c.goesOn(b):
		next.StoreID, next.Before, next.Began = b.StoreID, c.StoreID, b.First
		if c.Last >= b.First || b.Restored == nil { // of the old store, or a gap has what they would prove
			next.Broken, next.Last = true, b.First-1
		}
	case b.StoreID != c.StoreID:
		return false, fmt.Errorf("records %d to %d: of store %q, those before were of %q", b.First, b.Last, b.StoreID,
			c.StoreID)
	case b.First > c.Last+1:
		return false, fmt.Errorf("records %d to %d: the batch before ended with %d", b.First, b.Last, c.Last)
	case b.Last <= c.Last:
		return false, nil
	}
	if next.Broken {
		next.Peaks = nil
	}
	next.Peaks = append([][]byte(nil), next.Peaks...)
	for i := range b.Records {
		r := &b.Records[i]
		switch {
		case r.Seq <= next.Last: // seen, filtered out or out of order: the count below shows it
		case r.Seq != next.Last+1:
			next.Broken = true
		case !next.Broken:
			next.append(r.Leaf)
		}
		next.Last = max(next.Last, r.Seq)
	}
	if next.Last != b.Last {
		next.Broken = true // the rest was filtered out or is in a gap
	}
	next.Last = b.Last
	if next.Broken {
		next.Peaks = nil
	} else if root := next.root(); root != b.Root {
		return false, fmt.Errorf("records %d to %d: their tree has the root %x, the log names %x", b.First, b.Last, root,
			b.Root)
	}
	*c = next
	return !next.Broken, nil
}

// goesOn reports whether a batch of another store is where the log of the chain's was restored from a backup, or where
// retention has removed the record that says so.
func (c *Chain) goesOn(b *Batch) bool {
	if r := b.Restored; r != nil {
		return r.StoreID == c.StoreID && r.Seq <= c.Last
	}
	return b.Gap != nil && b.Gap.Reason == "retention" && b.Gap.Last == b.Last
}

// append adds the leaf of record Last+1. Full subtrees of the same size become one.
func (c *Chain) append(leaf [32]byte) {
	node := leaf[:]
	for range bits.TrailingZeros64(c.Last + 1) {
		left := c.Peaks[len(c.Peaks)-1]
		c.Peaks = c.Peaks[:len(c.Peaks)-1]
		sum := nodeHash(left, node)
		node = sum[:]
	}
	c.Peaks = append(c.Peaks, node)
}

// root joins the subtrees, from the smallest up (RFC 6962, section 2.1).
func (c *Chain) root() (out [32]byte) {
	if len(c.Peaks) == 0 {
		return sha256.Sum256(nil)
	}
	node := c.Peaks[len(c.Peaks)-1]
	for i := len(c.Peaks) - 2; i >= 0; i-- {
		sum := nodeHash(c.Peaks[i], node)
		node = sum[:]
	}
	copy(out[:], node)
	return out
}

// LeafHash is the RFC 6962 hash of a record: Record.Leaf, if JSON is the record as it stands in the log.
func LeafHash(record []byte) [32]byte {
	return sha256.Sum256(append([]byte{0}, record...))
}

func nodeHash(left, right []byte) [32]byte {
	b := make([]byte, 0, 1+2*sha256.Size)
	b = append(b, 1)
	b = append(b, left...)
	return sha256.Sum256(append(b, right...))
}

// TreeRoot is the RFC 6962 root hash of a tree of these leaf hashes: Batch.Root, for the leaves of all records 1 to
// Last.
func TreeRoot(leaves [][32]byte) [32]byte {
	var c Chain
	for _, leaf := range leaves {
		c.append(leaf)
		c.Last++
	}
	return c.root()
}
