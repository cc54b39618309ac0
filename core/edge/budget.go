package edge

import (
	"errors"
	"sync"
)

// The refusals of a Budget.
var (
	ErrOneIsFull = errors.New("one caller holds all that one may hold")
	ErrAllIsFull = errors.New("all callers together hold all that there is")
)

// Budget bounds the bytes that messages hold which have not been answered yet, of one caller and of all. Safe for
// concurrent use.
type Budget struct {
	all, one int64

	mu   sync.Mutex
	used int64
	of   map[string]int64
}

// small is a message that may take the last quarter of a budget, so that large ones never keep small ones out.
const small = 64 << 10

// NewBudget makes a Budget of that many bytes, of which one caller may hold one.
func NewBudget(all, one int64) *Budget {
	return &Budget{all: all, one: min(all, one), of: map[string]int64{}}
}

// Take holds n bytes for a caller, or says which bound does not allow it.
func (b *Budget) Take(caller string, n int64) error {
	if n <= 0 {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	most := b.all
	if n > small {
		most -= most / 4
	}
	switch {
	case b.of[caller]+n > b.one:
		return ErrOneIsFull
	case b.used+n > most:
		return ErrAllIsFull
	}
	b.used += n
	b.of[caller] += n
	return nil
}

// Give gives n bytes back.
func (b *Budget) Give(caller string, n int64) {
	if n <= 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	if b.of[caller] -= n; b.of[caller] <= 0 {
		delete(b.of, caller)
	}
}

// Used is how many bytes are held.
func (b *Budget) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}
