package store

import (
	"sort"
	"sync"
	"sync/atomic"
)

// tailBytes is how much of the log's end is kept in memory while somebody follows it.
const tailBytes = 8 << 20

// tail is the end of the log in memory, so that those who follow the log do not read Pebble for what was just written.
// It is filled behind the sequencer's answers and only while somebody follows; the bytes in it never change.
type tail struct {
	followed atomic.Bool

	mu     sync.Mutex // held for a few words only, never while a record is looked at
	wakes  []chan<- struct{}
	groups []group // without gaps, oldest first
	bytes  int
}

// group is the records of one batch.
type group struct {
	first, last uint64
	records     []byte // (u32 length, record)…
}

// add takes the records of a batch that is on disk and wakes those who follow. It costs one copy, and nothing at all
// while nobody follows. records is the caller's again afterwards.
func (t *tail) add(first, last uint64, records []byte) {
	if len(records) == 0 || !t.followed.Load() {
		return
	}
	g := group{first, last, append([]byte(nil), records...)}
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.groups); n > 0 && t.groups[n-1].last+1 != first {
		t.drop()
	}
	if len(t.wakes) == 0 {
		return
	}
	t.groups = append(t.groups, g)
	t.bytes += len(g.records)
	for t.bytes > tailBytes && len(t.groups) > 1 {
		t.bytes -= len(t.groups[0].records)
		t.groups[0] = group{}
		t.groups = t.groups[1:]
	}
	for _, wake := range t.wakes {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

// drop forgets everything. t.mu is held.
func (t *tail) drop() { t.groups, t.bytes = nil, 0 }

// from copies the headers of groups from the one that holds seq on into dst. ok is false when seq lies before what is
// kept.
func (t *tail) from(seq uint64, dst []group) (n int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.groups) == 0 || seq < t.groups[0].first {
		return 0, false
	}
	i := sort.Search(len(t.groups), func(i int) bool { return t.groups[i].last >= seq })
	return copy(dst, t.groups[i:]), true
}

// forget drops what retention has removed from the log.
func (t *tail) forget(kept uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.groups) > 0 && t.groups[0].last < kept {
		t.bytes -= len(t.groups[0].records)
		t.groups[0] = group{}
		t.groups = t.groups[1:]
	}
}

// size is how many bytes the records from seq on take in memory, and the first of those; none says that none are there.
func (t *tail) size(seq uint64) (bytes int, first uint64, none bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.groups) == 0 {
		return 0, 0, true
	}
	for i := len(t.groups) - 1; i >= 0 && t.groups[i].last >= seq; i-- {
		bytes += len(t.groups[i].records)
	}
	return bytes, t.groups[0].first, false
}

// Follow puts a token into wake, which should have room for one, whenever records have reached the disk, and never
// waits for it. While somebody follows, the newest records are kept in memory for Tail. stop ends it; it may be called
// twice.
func (s *Store) Follow(wake chan<- struct{}) (stop func()) {
	t := &s.seq.tail
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wakes = append(t.wakes, wake)
	t.followed.Store(true)
	var once sync.Once
	return func() { once.Do(func() { t.leave(wake) }) }
}

func (t *tail) leave(wake chan<- struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, w := range t.wakes {
		if w == wake {
			t.wakes = append(t.wakes[:i:i], t.wakes[i+1:]...)
			break
		}
	}
	if len(t.wakes) == 0 {
		t.followed.Store(false)
		t.drop()
	}
}

// Tail calls fn with every record from seq on, in order, as Records does, but takes them from memory where it can.
// Records that reach the disk while it runs may be among them. The bytes are only valid during the call. An error of fn
// ends the walk and is returned.
func (s *Store) Tail(from uint64, fn func(seq uint64, record []byte) error) error {
	from = max(from, 1)
	for {
		var some [64]group
		n, ok := s.seq.tail.from(from, some[:])
		if !ok {
			return s.Records(from, fn)
		}
		if n == 0 {
			return nil
		}
		for _, g := range some[:n] {
			seq := g.first
			err := eachRecord(g.records, func(rec []byte) error {
				defer func() { seq++ }()
				if seq < from {
					return nil
				}
				return fn(seq, rec)
			})
			if err != nil {
				return err
			}
			from = g.last + 1
		}
	}
}
