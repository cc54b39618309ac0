package store

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// How much of the disk is free, as far as it decides what the store takes.
const (
	ample   int32 = iota
	scarce        // less than Settings.MinFree asks for: only what admitted says
	noRoom        // nothing can be written, and the ballast has gone: only reads
	unknown       // the disk does not say: as scarce
)

const (
	lookEvery  = 100 * time.Millisecond // the watcher's
	glanceTime = 10 * time.Millisecond  // the sequencer's, in front of a batch
	// what goes to the disk for a byte of a batch, at most: write-ahead log, segment, table, and a table once more
	amplified  = 4
	flushNeeds = 5 << 20 // a table of all that a memtable holds, and a manifest
	walNeeds   = 5 << 20 // the next write-ahead log, with what Pebble allots to it beforehand
	// below that not even a batch of kills is written. What the file system needs for itself is in it
	batchNeeds = 1 << 20
)

// Room is how much of the disk is free.
type Room struct {
	Free, Total uint64 // bytes of the file system of the data directory; Total is 0 where it does not say
	MinFree     uint64 // below that the store takes little
	Ballast     uint64 // bytes of the files that pay for kills and revocations
	Low         string // why the store takes little, and what to do; "" while it takes everything
}

// room watches the free bytes of the disk. A store that runs into a full disk fails in the middle of a write, and ends.
// So it refuses beforehand what needs not be written, and keeps the rest for what takes something away: see admitted.
// What it cannot foresee, another program that fills the disk between two looks, ends the process like any failed
// write; then the next start finds the ballast.
//
// It looks every tenth of a second, and the sequencer looks in front of a batch, when a hundredth of a second has
// passed or when what was written since may have used up half of what is left above the mark.
type room struct {
	s       *Store
	fs      vfs.FS // whose errors end nothing
	level   atomic.Int32
	written atomic.Int64 // bytes of batches since the last look
	shown   atomic.Pointer[Room]
	quit    chan struct{}
	wg      sync.WaitGroup

	mu      sync.Mutex // held while the disk is asked, and while ballast goes
	changed sync.Cond  // after each look
	looked  time.Time
	mute    bool // the disk keeps no account: there is nothing to watch
	free    uint64
	total   uint64
	problem error
	ballast ballast
	waiting int  // tables that wait for room
	closing bool // flushes wait no more
	closed  bool // nothing does
}

func newRoom(s *Store) *room {
	r := &room{s: s, fs: s.set.FS, quit: make(chan struct{})}
	r.changed.L = &r.mu
	r.ballast = ballast{fs: s.set.FS, dir: s.records.dir, say: s.set.Log}
	r.shown.Store(&Room{})
	return r
}

// open looks for the first time, in front of everything that a start writes, and makes room for that.
func (r *room) open() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.ballast.find(); err != nil {
		return err
	}
	r.look()
	r.pay(batchNeeds)
	return nil
}

// grow makes room for what a start writes, as it is written: nobody knows beforehand what Pebble has to redo.
func (r *room) grow(bytes int) {
	if r.s.opened.Load() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ballast.size() > 0 {
		r.look()
		r.pay(batchNeeds + uint64(bytes))
	}
}

// start begins to watch.
func (r *room) start() {
	r.mu.Lock()
	mute := r.mute
	r.mu.Unlock()
	if mute {
		return
	}
	r.wg.Go(r.watch)
}

func (r *room) watch() {
	tick := time.NewTicker(r.s.set.lookEvery)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-tick.C:
			r.mu.Lock()
			r.look()
			r.mu.Unlock()
			if n%ballastTicks == 0 {
				r.fill()
			}
		case <-r.quit:
			return
		case <-r.s.seq.dead:
			return
		}
	}
}

// close ends the watcher, and lets ballast go if a stop needs it. Flushes do not wait for room any more: the sequencer
// may wait for one.
func (r *room) close() {
	r.mu.Lock()
	r.closing = true
	r.look()
	r.pay(batchNeeds)
	r.changed.Broadcast()
	r.mu.Unlock()
	close(r.quit)
	r.wg.Wait()
}

// end lets compactions go that wait for room: the database is about to be closed, and waits for them.
func (r *room) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.changed.Broadcast()
}

// need is what a flush, a manifest and a seal take.
func (r *room) need() uint64 {
	seal := r.s.set.SealBytes
	return uint64(seal+seal/2) + flushNeeds + walNeeds
}

// least is how much has to be free.
func (r *room) least() uint64 {
	least := r.need()
	if r.s.set.MinFree != nil {
		least = max(least, r.s.set.MinFree(r.total))
	}
	return least
}

// enough is how much has to be free before the store takes everything again.
func (r *room) enough() uint64 { least := r.least(); return least + least/8 }

// look asks the disk, and draws the conclusions. r.mu is held.
func (r *room) look() {
	if r.mute {
		return
	}
	r.written.Store(0) // before it asks: what is written meanwhile counts twice
	use, err := r.fs.GetDiskUsage(r.s.set.Dir)
	r.looked, r.problem = r.s.set.Now(), err
	switch {
	case errors.Is(err, vfs.ErrUnsupported):
		r.mute, r.problem = true, nil
		return
	case err == nil:
		r.free, r.total = use.AvailBytes, use.TotalBytes
	}
	r.judge()
	r.changed.Broadcast()
}

// judge says what the store takes. r.mu is held.
func (r *room) judge() {
	was, is := r.level.Load(), ample
	switch {
	case r.problem != nil:
		is = unknown
	case r.free < batchNeeds && r.ballast.size() == 0:
		is = noRoom
	case r.free < r.least(), was != ample && r.free < r.enough():
		is = scarce
	}
	now := &Room{Free: r.free, Total: r.total, MinFree: r.least(), Ballast: r.ballast.size()}
	if is != ample {
		now.Low = r.reason(is)
	}
	r.shown.Store(now)
	if is == was {
		return
	}
	r.level.Store(is)
	if is == ample {
		r.s.set.Log("store: the disk has room again, %d bytes are free: everything is taken", r.free)
	} else {
		r.s.set.Log("store: %s", now.Low)
	}
	r.s.seq.nudge() // what is owed, and what is due
	r.s.records.nudge()
}

// reason is what a caller is told. It names no path: agents read it.
func (r *room) reason(level int32) string {
	least := r.least()
	var b strings.Builder
	switch {
	case level == unknown:
		fmt.Fprintf(&b, "the disk of the data directory does not say how much of it is free (%v); repair that", r.problem)
	case r.total < r.enough():
		fmt.Fprintf(&b, "the disk of the data directory has %d bytes in all, and storage.min_free asks for %d free ones; "+
			"lower that, or move the data directory to a larger disk (it needs %d free bytes at the least)", r.total, least,
			r.need())
	default:
		state := "nearly full"
		if level == noRoom {
			state = "full"
		}
		fmt.Fprintf(&b, "the disk of the data directory is %s: %d bytes are free, and %d have to be (storage.min_free); "+
			"remove files from that disk, or enlarge it: a restart is not needed", state, r.free, r.enough())
	}
	if level == noRoom {
		b.WriteString("; until then kills, denials and revocations are in effect, and not on disk")
	} else {
		b.WriteString("; until then only kills, their undoing, denials, withdrawals, revocations and reads are taken")
	}
	return b.String()
}

// pay lets ballast go until so much is free, or no ballast is left. Not more: what is free another program may take.
// r.mu is held.
func (r *room) pay(bytes uint64) {
	for !r.mute && r.problem == nil && r.free < bytes && r.ballast.drop() {
		r.look()
	}
}

// ready is asked in front of a batch of so many bytes, of which some must be taken; writes says that something must be
// written. It reports whether there is room for that. What only time has made due is no reason to let ballast go.
func (r *room) ready(all, must int, writes bool) bool {
	r.s.seq.enter() // others hold the lock across the disk too
	defer r.s.seq.leave()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mute {
		return true
	}
	used := uint64(amplified * (r.written.Load() + int64(all)))
	if r.s.set.Now().Sub(r.looked) >= glanceTime || r.problem != nil || r.level.Load() != ample ||
		r.free < r.least()+2*used {
		r.look()
	}
	if writes && r.level.Load() != ample {
		r.pay(batchNeeds + uint64(must))
	}
	return r.problem != nil || r.free >= batchNeeds+uint64(must)
}

// fits reports whether there is room for so much, and makes it with ballast. r.mu is held.
func (r *room) fits(bytes uint64) bool {
	r.look()
	r.pay(bytes)
	return r.mute || r.problem != nil || r.free >= bytes
}

// sealable is asked in front of a seal of so many bytes. Where there is no room, what is to be sealed stays in memory
// and in the write-ahead logs.
func (r *room) sealable(bytes int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fits(batchNeeds + uint64(bytes))
}

// errNoRoom is what a compaction ends with that was waiting when the store was closed. It has written nothing.
var errNoRoom = errors.New("the disk has no room for a compaction")

// table is asked in front of a table. A flush waits until there is room for it, a compaction until the store takes
// everything again: it frees nothing before it has written as much.
func (r *room) table(category vfs.DiskWriteCategory) error {
	if !r.s.opened.Load() {
		return nil // a start that has no room for it ends
	}
	flush := category == "pebble-memtable-flush"
	r.mu.Lock()
	defer r.mu.Unlock()
	for said := false; ; {
		switch {
		case flush && (r.closing || r.fits(flushNeeds)):
			return nil
		case !flush && (r.mute || r.level.Load() == ample):
			return nil
		case r.closed:
			return errNoRoom
		}
		if !said {
			r.s.set.Log("store: %s waits for room on the disk", category)
			said = true
		}
		r.waiting++
		r.changed.Wait()
		r.waiting--
	}
}

// refuses says why a command is not taken, or nil. starved says that nothing can be written: what only takes something
// away is owed then. void says that not even reads are answered.
func (r *room) refuses(cmd Command, starved, void bool) error {
	level := r.level.Load()
	switch {
	case void:
	case level == ample && !starved:
		return nil
	case admitted(cmd) && (!starved || cmd.class() == reading):
		return nil
	}
	err := unavailable(nil)
	if low := r.shown.Load().Low; low != "" {
		err.Msg += ": " + low
	}
	return err
}

// takeLate gives what is to be written in front of a batch: nothing where the disk has no room for it.
func (q *sequencer) takeLate(batch []*ticket, writes bool) (late []*ticket, owed []taker) {
	all, must := 0, 0
	for _, t := range batch {
		all += t.bytes
		if admitted(t.cmd) && t.cmd.class() != reading {
			must += t.bytes
		}
	}
	q.starved = !q.s.room.ready(all, must, writes || must > 0)
	if q.starved {
		return nil, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	late, q.late = q.late, nil
	return late, q.takeOwed()
}

// admitted reports whether a command is taken while the disk is nearly full: what takes something away, the undoing of
// a kill, reads, and what keeps the log true and lets retention go on.
func admitted(cmd Command) bool {
	switch c := cmd.(type) {
	case *Decide: // a denial too: agents ask as fast as they can
		return false
	case *KillSwitch, *MoveCursor, *TouchSession, *forgetOver:
		return true
	case *Note:
		return c.Type == "config_applied" // it says under which rules what follows was decided
	case *AnswerOnce:
		return c.Answer == nil
	}
	class := cmd.class()
	return class == taking || class == reading
}

// Room says how much of the disk is free, as it was at the last look.
func (s *Store) Room() Room { return *s.room.shown.Load() }

// grow and table are the room's, which is made behind the file system that asks it.
func (s *Store) grow(bytes int)                             { s.room.grow(bytes) }
func (s *Store) table(category vfs.DiskWriteCategory) error { return s.room.table(category) }

// fullness names what a failed write has run into, for whoever has to repair it.
func fullness(err error) error {
	if !vfs.IsNoSpaceError(err) {
		return err
	}
	return fmt.Errorf("the disk became full within a write: %w; what is on it is read again at the next start, which the "+
		"ballast in log makes room for; remove files from that disk", err)
}
