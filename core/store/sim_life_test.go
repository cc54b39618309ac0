package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/yett-dev/yett/core/feed"
)

// simLife is one process: a store, with those that are fed from it and what removes old records.
type simLife struct {
	turns  *turns
	s      *Store
	pumps  []*feed.Pump
	keeper *feed.Keeper
	sent   []*sent // not answered yet

	mu    sync.Mutex
	fatal error
}

func (l *simLife) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fatal
}

// sent is a command that a client waits for.
type sent struct {
	what string
	at   time.Duration // what is certain of the time, then
	note func(err error)

	mu   sync.Mutex
	done bool
	err  error
}

func (p *sent) answer() (err error, done bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err, p.done
}

// clocks are those of the machine. time.Now is that of the bubble, which only sleeping moves.
type clocks struct {
	mu     sync.Mutex // of what the store reads: one goroutine changes it
	began  time.Time
	booted time.Time
	away   time.Duration // suspended, or switched off
	slept  time.Duration // suspended since booted
	wrong  time.Duration // what the wall clock is ahead
	right  time.Time     // when that ends by itself; zero: it does not
}

// real is what time it is.
func (c *clocks) real() time.Duration { return time.Since(c.began) + c.away }

// set changes them.
func (c *clocks) set(fn func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fn()
}

func (c *clocks) wall() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.away + c.wrong).Round(0)
}

// up is never 0: that is where nobody says.
func (c *clocks) up() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.booted) + c.slept + time.Second
}

// settings are the store's on that disk.
func (s *sim) settings(l *simLife) Settings {
	fs := vfs.FS(s.base)
	if s.total > 0 {
		s.disk = newQuota(fs, s.total)
		s.disk.other, s.disk.lets = s.taken, func() bool { return s.endsInOpen(l) }
		fs = s.disk
	}
	set := settings(l.turns.on(fs), nil, func(err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.fatal = err
	})
	set.Now, set.Uptime, set.Stall = s.clock.wall, s.clock.up, simStall
	set.onFlush = l.turns.flush
	set.SealBytes, set.Boot = s.seal, fmt.Sprint("boot ", s.boots)
	set.MinFree = func(uint64) uint64 { return 24 * mib }
	set.Ballast = 4 * mib
	return set
}

const simStall = 500 * time.Millisecond

// start begins a life. It reports whether that has come to anything: the power can be cut meanwhile, too.
func (s *sim) start() bool {
	l := &simLife{turns: &turns{now: s.opening}}
	s.life = l
	set := s.settings(l)
	landed := s.landed()
	s.checkAnchor(set.Secret)
	opened := make(chan error, 1)
	go func() {
		st, err := Open(set)
		l.s = st
		opened <- err
	}()
	var err error
	if !s.until("the start", func() bool {
		select {
		case err = <-opened:
			return true
		default:
			return false
		}
	}) {
		if l.turns.end(); s.full {
			s.crowd()
			s.full = false
		}
		if err := <-opened; err == nil {
			s.leave(l)
		}
		return false
	}
	if err != nil {
		s.stuck = true
	}
	if err != nil && s.disk != nil && vfs.IsNoSpaceError(err) && s.crowded < 2 {
		s.note("the start: %v", err)
		s.crowd()
		return false
	}
	if err != nil {
		s.fail("the start: %w", err)
		return false
	}
	s.crowded = 0
	s.note("started: %d records from %d on", l.s.Seq(), l.s.First())
	s.salt = l.s.records.own.Salt
	s.born()
	s.takenStays(landed)
	if s.err == nil {
		s.attach()
	}
	return s.err == nil
}

// crowd counts a start that a full disk has refused. Other programs may leave nothing, and a start needs some room:
// the second such start has the operator make some. So this does not see that the ballast that is left is not enough
// for the first.
func (s *sim) crowd() {
	if s.crowded > 0 {
		s.disk.leave(20 * mib)
	}
	s.crowded++
}

// endsInOpen is asked when the disk is full. Pebble opens with a mutex in its hands, and what has failed keeps it for
// ever: its first compactions wait for that mutex, and a bubble does not see that they do. So the process ends in front
// of what does not fit, and the rest of the start comes to an end on a disk that does not count.
func (s *sim) endsInOpen(l *simLife) bool {
	l.turns.mu.Lock()
	defer l.turns.mu.Unlock()
	if l.turns.over {
		return true
	}
	if l.turns.now == nil || !within("/pebble/v2.") {
		return false
	}
	s.note("the disk is full while Pebble opens: the process ends")
	s.ended, s.power, s.full = true, false, true
	s.left = s.rest(false)
	l.turns.now, l.turns.over = nil, true
	return true
}

// opening counts a change of the disk while Pebble opens. Where the process ends at it, what is left is taken at once.
func (s *sim) opening(what string) error {
	s.note("%s", what)
	if s.endIn > 0 {
		if s.endIn--; s.endIn == 0 {
			s.note("the process ends in front of it")
			s.ended, s.power = true, s.rng.IntN(2) == 0
			s.left = s.rest(s.power)
			s.life.turns.now, s.life.turns.over = nil, true
		}
	}
	return nil
}

// rest is what the end of the process leaves.
func (s *sim) rest(power bool) *vfs.MemFS {
	if power {
		return s.base.lose(s.rng, s.keep)
	}
	return s.base.ended()
}

// attach starts what lives beside the store.
func (s *sim) attach() {
	l := s.life
	for _, d := range s.dests {
		pump, err := feed.Start(feed.Settings{Name: d.name, Payload: feed.PayloadFull, Log: l.s, Cursors: simCursors{l.s},
			Consumer: d, Now: s.clock.wall, AckTimeout: 20 * time.Second, Window: 2, BatchRecords: 8,
			Spread: func(d time.Duration) time.Duration { return d / 2 }})
		if err != nil {
			s.fail("%w", err)
			return
		}
		l.pumps = append(l.pumps, pump)
	}
	boot := fmt.Sprint("boot ", s.boots)
	known, err := l.knownClock(s.clock.wall(), boot, s.clock.up())
	if err != nil {
		s.fail("what is known of the time: %w", err)
		return
	}
	keeper, err := feed.Keep(feed.KeeperSettings{Log: simShelf{l.s}, Every: 1013 * time.Millisecond, Now: s.clock.wall,
		Policy: feed.Policy{MaxAge: 90 * 24 * time.Hour, MaxBytes: s.most, HoldBytes: s.hold}, Clock: known,
		Uptime: func() (string, time.Duration) { return boot, s.clock.up() },
		KeepClock: func(ctx context.Context, c feed.Clock) error {
			row, err := json.Marshal(c)
			return errors.Join(err, l.s.Commit(ctx, &KeepClock{Known: row}))
		},
		Cursors: func() (map[string]uint64, bool) {
			of := map[string]uint64{}
			for i, p := range l.pumps {
				seq, known := p.Cursor()
				if !known {
					return nil, false
				}
				of[s.dests[i].name] = seq
			}
			return of, true
		}})
	if err != nil {
		s.fail("%w", err)
		return
	}
	l.keeper = keeper
}

// knownClock is what retention goes on from, as core/subscribers has it.
func (l *simLife) knownClock(wall time.Time, boot string, up time.Duration) (c feed.Clock, err error) {
	row, err := l.s.Clock()
	if err != nil {
		return c, err
	}
	if row != nil {
		err = json.Unmarshal(row, &c)
	}
	if !c.At.IsZero() || err != nil {
		return c, err
	}
	if text, err := l.s.LastTime(); err != nil {
		return c, err
	} else if text != "" {
		if c.At, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return c, err
		}
	}
	c.Look(wall, boot, up)
	return c, nil
}

// simCursors and simShelf are the store as the feed sees it.
type simCursors struct{ s *Store }

func (c simCursors) Cursor(name string) (feed.Position, bool) {
	at, ok := c.s.Cursor(name)
	return feed.Position(at), ok
}

func (c simCursors) Move(ctx context.Context, m feed.Move) error {
	cmd := &MoveCursor{Name: m.Name, To: m.To, Back: m.Back, Stay: m.Stay}
	for _, e := range m.Events {
		cmd.Events = append(cmd.Events, SubscriberEvent{Type: e.Type, First: e.First, Last: e.Last, Why: e.Why})
	}
	return c.s.Commit(ctx, cmd)
}

type simShelf struct{ *Store }

func (s simShelf) Trim(ctx context.Context, through uint64, reason string, passed []string) (uint64, error) {
	cmd := &Trim{Through: through, Reason: reason, Passed: passed}
	err := s.Commit(ctx, cmd)
	return cmd.Last, err
}

// settle lets everything go on, one change of the disk or one answer of a subscriber after the other, until nothing is
// left to do at this time. It reports whether the process has lived through it.
func (s *sim) settle() bool {
	for {
		synctest.Wait()
		s.hear()
		if s.err != nil || s.ended || s.life.failed() != nil {
			return false
		}
		one := s.life.turns.pick(s.rng)
		switch {
		case one == nil && !s.answerOfDest():
			return true
		case one == nil:
			continue
		}
		if s.endIn > 0 {
			if s.endIn--; s.endIn == 0 {
				s.life.turns.back(one)
				return s.cut(one.what)
			}
		}
		if s.errIn > 0 {
			if s.errIn--; s.errIn == 0 {
				s.note("disk error: %s", one.what)
				one.wake <- errors.New("input/output error")
				continue
			}
		}
		s.note("%s", one.what)
		one.wake <- nil
	}
}

// cut ends the process in front of that change. What is left is taken before anybody goes on.
func (s *sim) cut(what string) bool {
	s.note("the process ends in front of: %s", what)
	s.ended, s.power = true, s.rng.IntN(2) == 0
	s.left = s.rest(s.power)
	return false
}

// pass lets time pass. The disk answers meanwhile, unless it stands still.
func (s *sim) pass(d time.Duration, still bool) bool {
	for until := time.Now().Add(d); time.Now().Before(until); {
		if !s.clock.right.IsZero() && !time.Now().Before(s.clock.right) {
			s.note("the clock is set right")
			s.clock.set(func() { s.clock.wrong, s.clock.right = 0, time.Time{} })
		}
		step := min(time.Until(until), 9_973*time.Microsecond)
		if still || d > 2*time.Second {
			step = min(time.Until(until), 49_979*time.Microsecond)
		}
		time.Sleep(step)
		if !still && !s.settle() {
			return false
		}
	}
	return still || s.settle()
}

// until lets time pass until something is so.
func (s *sim) until(what string, is func() bool) bool {
	for began := time.Now(); ; {
		if !s.settle() {
			return false
		}
		if is() {
			return true
		}
		if time.Since(began) > 5*time.Minute {
			s.fail("%s is not over after %v", what, time.Since(began))
			return false
		}
		time.Sleep(9_973 * time.Microsecond)
	}
}

// leave ends what a process that is dead still does: nothing of it counts, but a bubble ends only when all its
// goroutines have.
func (s *sim) leave(l *simLife) {
	l.turns.end()
	if l.s == nil {
		s.stuck = s.stuck || l.failed() != nil
		return
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	if l.keeper != nil {
		l.keeper.Close()
	}
	for _, p := range l.pumps {
		_ = p.Close(gone)
	}
	_ = l.s.Close()
	s.stuck = s.stuck || l.s.seq.broken() != nil
}

// die ends the life with what its end leaves: all that was written, or, when the power was cut, what was synced and a
// share of the rest.
func (s *sim) die(power bool) {
	l := s.life
	s.hear()
	s.see()
	left := s.left
	if left == nil {
		left = s.rest(power)
	}
	s.left = nil
	s.unanswered(power)
	if s.disk != nil {
		s.taken = s.disk.other
	}
	for _, d := range s.dests {
		d.drop()
	}
	s.leave(l)
	s.base, s.ended, s.endIn, s.errIn, s.life = &cuttable{MemFS: left}, false, 0, 0, nil
	if power {
		off := time.Duration(1+s.rng.IntN(100)) * time.Second
		s.clock.set(func() { s.clock.away += off })
		s.boots++
		if s.clock.wrong < 0 { // nobody knows for how long the machine was off
			s.lag -= s.clock.wrong
		}
		s.lag += off + time.Minute
		s.clock.set(func() { s.clock.booted, s.clock.slept = time.Now(), 0 })
	}
}

// lose is a power cut. Of what was not synced it keeps so many of a hundred files, names and blocks. Unlike CrashClone
// it chooses them in an order of its own.
func (c *cuttable) lose(rng *rand.Rand, keep int) *vfs.MemFS {
	synced := map[string][]byte{}
	sure := c.CrashClone(vfs.CrashCloneCfg{})
	var written []string
	each(c.MemFS, "", func(path string, dir bool) {
		if isBallast(path) {
			return
		}
		if !dir && (strings.HasSuffix(path, ".log") || strings.HasSuffix(path, "/"+headName)) {
			if data, err := contents(sure, path); err == nil {
				synced[path] = data
				written = append(written, path)
				return
			}
		}
		if rng.IntN(100) >= keep {
			return
		}
		if f, err := c.MemFS.OpenDir(path); dir && err == nil {
			_ = errors.Join(f.Sync(), f.Close())
		} else if f, err := c.MemFS.Open(path); !dir && err == nil {
			_ = errors.Join(f.Sync(), f.Close())
		}
	})
	left := c.CrashClone(vfs.CrashCloneCfg{})
	for _, path := range written {
		tear(rng, keep, c.MemFS, left, path, synced[path])
	}
	return left
}

// tear keeps some of the blocks of a file that were not synced.
func tear(rng *rand.Rand, keep int, from, to *vfs.MemFS, path string, synced []byte) {
	const block = 512
	data, err := contents(from, path)
	if was, err2 := contents(to, path); err != nil || err2 != nil || !slices.Equal(was, synced) {
		return // another file has the name
	}
	f, err := to.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		panic(err)
	}
	for at := 0; at < len(data); at += block {
		end := min(at+block, len(data))
		if at < len(synced) && slices.Equal(data[at:end], synced[at:min(end, len(synced))]) || rng.IntN(100) >= keep {
			continue
		}
		if _, err := f.WriteAt(data[at:end], int64(at)); err != nil {
			panic(err)
		}
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		panic(err)
	}
}

// each walks a disk in the order of the names.
func each(fs *vfs.MemFS, dir string, fn func(path string, dir bool)) {
	names, err := fs.List(dir)
	if err != nil {
		panic(err)
	}
	slices.Sort(names)
	for _, name := range names {
		path := fs.PathJoin(dir, name)
		st, err := fs.Stat(path)
		if err != nil {
			panic(err)
		}
		if st.IsDir() {
			each(fs, path, fn)
		}
		fn(path, st.IsDir())
	}
}

func contents(fs *vfs.MemFS, path string) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(f)
	return data, errors.Join(err, f.Close())
}

// one gives one turn, if anybody waits for one.
func (s *sim) one() bool {
	synctest.Wait()
	s.hear()
	if s.err != nil || s.life.failed() != nil {
		return false
	}
	if one := s.life.turns.pick(s.rng); one != nil {
		s.note("%s", one.what)
		one.wake <- nil
	}
	return true
}
