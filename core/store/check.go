package store

import (
	"fmt"

	"github.com/yett-dev/yett/core/log"
)

// LogChecked is what CheckLog has found in order.
type LogChecked struct {
	Segments int    `json:"segments"`
	Records  uint64 `json:"records"` // with those that retention hides and has not removed yet
	FromSeq  uint64 `json:"from_seq"`
	ToSeq    uint64 `json:"to_seq"`
	Root     string `json:"root"` // base64
}

// CheckLog reads all of the log that is on disk: every segment's digest, sums, records and hashes, and that they follow
// each other up to the newest record. What only write-ahead logs hold was checked when the store was opened.
func (s *Store) CheckLog() (*LogChecked, error) {
	sealed, young := s.records.now()
	tree := &log.Tree{}
	out := &LogChecked{Segments: len(sealed)}
	if len(sealed) > 0 {
		tree = sealed[0].Start()
	}
	from := tree.Size()
	for _, r := range sealed {
		if err := r.Check(tree); err != nil {
			return nil, fmt.Errorf("check log: %w", err)
		}
	}
	for _, c := range young {
		if err := c.AddTo(tree); err != nil {
			return nil, fmt.Errorf("check log: %w", err)
		}
	}
	out.Records, out.FromSeq, out.ToSeq, out.Root = tree.Size()-from, s.First(), tree.Size(), tree.Root().String()
	return out, nil
}
