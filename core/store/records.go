package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sort"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/core/log/segment"
)

// sealBytes is how many bytes of records and hashes are kept in memory, and in Pebble's write-ahead log alone, before
// they are sealed.
const sealBytes = 8 << 20

// recordLog is the records of the store. A commit's records are in Pebble's write-ahead log, as LogData of the batch
// that holds its changes, and in memory; the older ones are in sealed segments. Followers, exports, proofs and
// retention read here and nowhere else, and never hold up the sequencer.
type recordLog struct {
	s   *Store
	fs  vfs.FS
	dir string // of the segments
	own segment.Store

	mu     sync.RWMutex // held for a few words only, never while a record is looked at
	sealed []*segment.Reader
	young  []*log.Commit // not sealed yet, on disk; without gaps, oldest first. What it holds never changes
	bytes  int           // of young
	last   uint64        // the number of the newest commit on disk
	edge   log.Tree      // then
	wakes  []chan<- struct{}
	old    []oldWAL // that Pebble needs no more

	whole   bool     // all that the files hold was read, and fits
	retired []string // what Pebble needed no more before
	shown   uint64   // the first record that retention has left: see kept
	tidy    uint64   // the rows of what ended in front of this record have gone: see tidier

	mark    vfs.File // the sequencer's alone, as the next two
	marked  mark
	markBuf [markSize]byte
	room    chan struct{} // a token when something was sealed: see waitForRoom

	spares spares

	backing sync.Mutex // held while a backup is made
	sealing sync.Mutex // held while files are sealed or removed, and while a backup links them
	ended   bool       // nothing is sealed any more; with sealing
	joint   uint64     // how often commits were released together; with mu

	list *segment.List // the sealer's alone, as the rest
	tree *log.Tree     // in front of young
	wake chan struct{}
	quit chan struct{}
	done chan struct{}
}

// add takes commits that are on disk. They must not change any more. edge is the tree behind them.
func (l *recordLog) add(commits []*log.Commit, edge *log.Tree) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(commits) > 1 { // only the last of them is a state that somebody was given
		l.joint++
	}
	l.young = append(l.young, commits...) // amortized: what is sealed leaves by a new slice
	for _, c := range commits {
		l.last = c.Number
		l.bytes += len(c.Records) + len(c.Hashes)
	}
	l.edge.Set(edge)
	if l.bytes >= l.s.set.SealBytes || l.spares.wanted(l.bytes) {
		l.nudge()
	}
}

// mostYoung is how many times SealBytes may wait in memory to be sealed.
const mostYoung = 4

// waitForRoom holds up the sequencer, and so the stall limit, while a disk that takes commits does not take segments.
func (l *recordLog) waitForRoom() {
	for l.over() {
		select {
		case <-l.room:
		case <-l.s.seq.dead:
			return
		}
	}
}

func (l *recordLog) over() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.bytes >= mostYoung*l.s.set.SealBytes
}

func (l *recordLog) hasRoom() {
	select {
	case l.room <- struct{}{}:
	default:
	}
}

// tell wakes those who follow.
func (l *recordLog) tell() {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, wake := range l.wakes {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

func (l *recordLog) nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// now is what there is: segments and what is younger. The slices must not be changed.
func (l *recordLog) now() (sealed []*segment.Reader, young []*log.Commit) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.sealed, l.young
}

// walk calls fn with every record from seq on, up to the newest that is on disk when it starts.
func (l *recordLog) walk(from uint64, fn func(seq uint64, record []byte) error) error {
	for {
		from = max(from, l.s.First())
		sealed, young := l.now()
		next := from
		counting := func(seq uint64, rec []byte) error {
			next = seq + 1
			return fn(seq, rec)
		}
		at := sort.Search(len(sealed), func(i int) bool { return sealed[i].NextSeq > from })
		var err error
		for ; at < len(sealed) && err == nil; at++ {
			err = sealed[at].Records(from, counting)
		}
		if errors.Is(err, fs.ErrNotExist) && l.s.First() > next {
			from = l.s.First() // retention has removed what was to be read
			continue
		}
		if err != nil {
			return err
		}
		at = sort.Search(len(young), func(i int) bool { return young[i].Next() > from })
		for _, c := range young[at:] {
			err := c.Each(func(seq uint64, rec []byte) error {
				if seq < from {
					return nil
				}
				return fn(seq, rec)
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// Records calls fn with every record from seq on, in order, up to what is on disk when it starts; where retention has
// removed that one, from the first that is there. The bytes are only valid during the call. An error of fn ends the
// walk and is returned.
func (s *Store) Records(from uint64, fn func(seq uint64, record []byte) error) error {
	if err := s.records.walk(from, fn); err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	return nil
}

// Follow puts a token into wake, which should have room for one, whenever records have reached the disk, and never
// waits for it. stop ends it; it may be called twice.
func (s *Store) Follow(wake chan<- struct{}) (stop func()) {
	l := &s.records
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wakes = append(slices.Clip(l.wakes), wake)
	var once sync.Once
	return func() {
		once.Do(func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			if i := slices.Index(l.wakes, wake); i >= 0 {
				l.wakes = slices.Concat(l.wakes[:i], l.wakes[i+1:])
			}
		})
	}
}

// Size is about how many bytes the records from seq on take: those that are sealed on disk, the others in memory.
func (s *Store) Size(from uint64) (bytes uint64, err error) {
	from = max(from, s.First())
	sealed, young := s.records.now()
	at := sort.Search(len(sealed), func(i int) bool { return sealed[i].NextSeq > from })
	for _, r := range sealed[at:] {
		bytes += r.Size(from)
	}
	at = sort.Search(len(young), func(i int) bool { return young[i].Next() > from })
	for _, c := range young[at:] {
		if c.First >= from {
			bytes += uint64(len(c.Records))
			continue
		}
		err = c.Each(func(seq uint64, rec []byte) error {
			if seq >= from {
				bytes += uint64(len(rec)) + 4
			}
			return nil
		})
		if err != nil {
			return 0, fmt.Errorf("read log: %w", err)
		}
	}
	return bytes, nil
}

// hashReader gives tlog the stored hashes. Of what retention has removed only those are there that are needed to prove
// what remains: the peaks of the tree in front of it.
type hashReader struct{ s *Store }

// ReadHashes implements tlog.HashReader.
func (r hashReader) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	for {
		sealed, young := r.s.records.now()
		out, err := hashesOf(sealed, young, indexes)
		if now, _ := r.s.records.now(); errors.Is(err, fs.ErrNotExist) && len(sealed) > 0 && now[0] != sealed[0] {
			continue // retention has removed what was to be read
		}
		return out, err
	}
}

func hashesOf(sealed []*segment.Reader, young []*log.Commit, indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		h, ok, err := hashOf(sealed, young, x)
		if err != nil {
			return nil, fmt.Errorf("read tree: %w", err)
		}
		if !ok {
			return nil, fmt.Errorf("read tree: hash %d is missing", x)
		}
		out[i] = h
	}
	return out, nil
}

func hashOf(sealed []*segment.Reader, young []*log.Commit, x int64) (h tlog.Hash, ok bool, err error) {
	if n := len(young); n > 0 && x >= young[0].FirstHash() {
		c := young[sort.Search(n, func(i int) bool { return i == n-1 || young[i+1].FirstHash() > x })]
		off := (x - c.FirstHash()) * tlog.HashSize
		if off+tlog.HashSize > int64(len(c.Hashes)) {
			return h, false, nil
		}
		return tlog.Hash(c.Hashes[off:][:tlog.HashSize]), true, nil
	}
	at := sort.Search(len(sealed), func(i int) bool { return log.StoredHashes(sealed[i].NextSeq-1) > x })
	if at == len(sealed) {
		return h, false, nil
	}
	if h, ok, err = sealed[at].Hash(x); ok || err != nil {
		return h, ok, err
	}
	level, n := tlog.SplitStoredHashIndex(x)
	h, ok = sealed[at].Peak(level, n)
	return h, ok, nil
}

// dirOf is where the segments of a data directory are.
func dirOf(data string) string { return filepath.Join(data, "log") }
