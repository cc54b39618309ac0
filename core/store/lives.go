package store

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"

	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/core/log/segment"
)

// A log that was restored from a backup goes on under a new store id and the next epoch. What was written before stays
// as it is, under the names of its time: the lives of a log are those times. The one that writes now is recordLog.own;
// those that are over are in a row of the database, oldest first.

// life is one that is over.
type life struct {
	Store  string `json:"store_id"`
	Epoch  uint32 `json:"epoch"`
	Commit uint64 `json:"commit"` // its last one
	Seq    uint64 `json:"seq"`    // its last record
}

func (l life) segments() segment.Store { return storeOf(l.Store, l.Epoch) }

func storeOf(id string, epoch uint32) segment.Store {
	return segment.Store{ID: id, Epoch: epoch, Salt: log.NewSalt(id, epoch)}
}

var livesRow = keyStr(prefixMeta, "lives")

// parseLives reads the row.
func parseLives(row []byte) (lives []life, err error) {
	if err := json.Unmarshal(row, &lives); err != nil {
		return nil, fmt.Errorf("the lives of the log: %w", err)
	}
	for i, l := range lives {
		was := life{}
		if i > 0 {
			was = lives[i-1]
		}
		if l.Store == "" || l.Epoch <= was.Epoch || l.Commit < was.Commit || l.Seq < was.Seq {
			return nil, fmt.Errorf("the lives of the log: epoch %d of store %q, up to commit %d and record %d, does not "+
				"follow epoch %d, up to commit %d and record %d", l.Epoch, l.Store, l.Commit, l.Seq, was.Epoch, was.Commit,
				was.Seq)
		}
	}
	return lives, nil
}

// loadLives reads what lives of the log are over, and gives the one that writes.
func (s *Store) loadLives() (own segment.Store, err error) {
	row, found, err := s.get(livesRow)
	if err != nil {
		return own, err
	}
	epoch := uint32(1)
	if found {
		if s.past, err = parseLives(row); err != nil {
			return own, err
		}
	}
	if n := len(s.past); n > 0 {
		epoch = s.past[n-1].Epoch + 1
	}
	return storeOf(s.id, epoch), nil
}

// ofCommit is whose segment begins with a commit.
func ofCommit(lives []life, own segment.Store, commit uint64) segment.Store {
	i := sort.Search(len(lives), func(i int) bool { return lives[i].Commit >= commit })
	if i < len(lives) {
		return lives[i].segments()
	}
	return own
}

// Epoch is the number of the log's life: 1, and one more with each restore.
func (s *Store) Epoch() uint32 { return s.records.own.Epoch }

// Earlier are the lives of the log that are over, oldest first.
func (s *Store) Earlier() []log.Life { return livesTold(s.past) }

func livesTold(lives []life) []log.Life {
	out := make([]log.Life, len(lives))
	for i, l := range lives {
		out[i] = log.Life{StoreID: l.Store, Epoch: l.Epoch, ToSeq: l.Seq}
	}
	return out
}

// StoreOf is the id of the store that wrote record seq, and the first record that it wrote: records of two stores are
// the same only if both their store and their seq are.
func (s *Store) StoreOf(seq uint64) (id string, first uint64) {
	i := sort.Search(len(s.past), func(i int) bool { return s.past[i].Seq >= seq })
	if i > 0 {
		first = s.past[i-1].Seq
	}
	if i < len(s.past) {
		return s.past[i].Store, first + 1
	}
	return s.id, first + 1
}

// NextLife is the first record behind seq that another store has written, or will write; 0 where there is none.
func (s *Store) NextLife(seq uint64) uint64 {
	i := slices.IndexFunc(s.past, func(l life) bool { return l.Seq >= seq })
	if i < 0 {
		return 0
	}
	return s.past[i].Seq + 1
}
