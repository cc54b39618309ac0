package store

import (
	"fmt"
	"sync"

	"golang.org/x/mod/sumdb/tlog"
)

// rootCache is the newest root that was asked for: several subscribers ask for the same one.
type rootCache struct {
	mu   sync.Mutex
	size uint64
	root tlog.Hash
}

// Root is the RFC 6962 root hash of the tree over records 1 to size, also where retention has removed some of them. It
// is worked out from stored hashes; size must not be more than Seq.
func (s *Store) Root(size uint64) ([32]byte, error) {
	c := &s.roots
	c.mu.Lock()
	known, root := size != 0 && c.size == size, c.root
	c.mu.Unlock()
	if known {
		return root, nil
	}
	if n := s.Seq(); size > n {
		return root, fmt.Errorf("root of %d records: the log has %d", size, n)
	}
	root, err := tlog.TreeHash(int64(size), hashReader{s})
	if err != nil {
		return root, fmt.Errorf("root of %d records: %w", size, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if size > c.size {
		c.size, c.root = size, root
	}
	return root, nil
}

// Consistency proves that the tree over the first records is a beginning of that over size, with 0 < first < size. It
// fails if retention has removed what the proof needs.
func (s *Store) Consistency(first, size uint64) (tlog.TreeProof, error) {
	if n := s.Seq(); first == 0 || first >= size || size > n {
		return nil, fmt.Errorf("proof that %d records are the first of %d: the log has %d", first, size, n)
	}
	proof, err := tlog.ProveTree(int64(size), int64(first), hashReader{s})
	if err != nil {
		return nil, fmt.Errorf("proof that %d records are the first of %d: %w", first, size, err)
	}
	return proof, nil
}
