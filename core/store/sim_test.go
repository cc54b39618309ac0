package store

// The simulator runs a store, the pumps that feed subscribers from it, and retention, in a bubble of testing/synctest:
// time is virtual. A seed gives a schedule: what clients send, in which order the disk does what was asked of it, when
// it stands still, fails, is full, or loses what was not synced, when the process ends, what the clocks say, and how
// subscribers behave.
//
// What is deterministic: time, all that changes the disk (each write, sync, rename… waits for its turn, and the seed
// picks whose turn it is, also among Pebble's own flushes and compactions), the order in which commands are sent, and
// the answers of subscribers. Between two turns goroutines run until each of them waits, in an order that is Go's; they
// do not see each other's work but through what waits for a turn. What is not: reads, which have no turn, and the
// disk's ballast, which is taken without one.
//
// A bubble does not notice that a goroutine waits for a mutex whose holder waits for its turn, or for ever because the
// store has failed: nothing goes on then. So what Pebble and the store do with a mutex in hand that others want does
// not wait for a turn: what closes or makes a write-ahead log, and what lets ballast go. No crash and no disk error
// comes in the middle of these. And while Pebble opens, the process ends where the disk is full. A seed that hangs all
// the same ends the test after a minute, and says what waits.
//
// A seed that fails is run again with YETT_SEED=n go test ./core/store -run TestSimulator, and tells every step;
// YETT_SEED=20001-30000 runs as many others.

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/core/log/segment"
	"github.com/yett-dev/yett/core/testkit"

	"golang.org/x/mod/sumdb/tlog"
)

// sim is one run of one seed.
type sim struct {
	t     *testing.T
	rng   *rand.Rand
	err   error
	trace hash.Hash
	lines []string
	tell  bool

	// the machine
	base    *cuttable
	disk    *quota // nil: without an end
	total   int64
	taken   int64 // of the disk, by others
	keep    int   // of a hundred things that were not synced, what a power cut leaves
	seal    int
	most    uint64 // bytes of the log, for retention
	hold    uint64
	clock   clocks
	boots   int
	lag     time.Duration // that the store's clock cannot know of
	life    *simLife
	crowded int  // starts that a full disk has refused, one after the other
	full    bool // and that ends this one
	stuck   bool // something of a store that has failed waits for ever
	ended   bool // the process
	power   bool // and the power was cut: left is
	left    *vfs.MemFS
	endIn   int // changes of the disk until then; 0: it does not end
	errIn   int
	n       int

	// what was seen of the log
	records   [][]byte
	hashes    []tlog.Hash
	rows      []row
	rules     *log.Invariants
	last, now time.Time
	effects   map[string]string // of decisions and scans
	voided    map[string]bool
	unbinding map[uint64]bool
	windows   map[int64]int
	fullest   map[int64]int
	windowOf  map[string]int64
	used      map[string]int    // uses of grants
	takenBy   map[string]uint64 // the newest record of what was taken away, by what it is about
	anchored  uint64            // the newest of them that was answered: log/head knows of it
	salt      log.Salt          // of the log's frames

	// what clients know
	keys     []*simKey
	defers   []*simDefer
	granted  []*simGrant
	grants   map[string]*simGrant
	kills    map[string]*simKill
	held     map[string]bool // in effect without the disk
	shaky    map[string]bool
	answered map[string]string
	refused  []*refusal
	permits  int

	mu    sync.Mutex
	dests []*dest
	seen  simSeen
}

func (s *sim) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf(format, args...)
		s.note("FAILED: %v", s.err)
	}
}

func (s *sim) note(format string, args ...any) {
	line := fmt.Sprintf("%v %s", time.Since(s.clock.began), fmt.Sprintf(format, args...))
	_, _ = s.trace.Write([]byte(line + "\n"))
	if s.tell {
		s.lines = append(s.lines, line)
	}
}

var simAgents = []string{"ann", "bob"}

func newSim(t *testing.T, seed uint64, tell bool) *sim {
	s := &sim{t: t, rng: rand.New(rand.NewPCG(seed, 1)), trace: sha256.New(), tell: tell, rules: log.NewInvariants(1),
		effects: map[string]string{}, voided: map[string]bool{}, unbinding: map[uint64]bool{}, windows: map[int64]int{},
		fullest: map[int64]int{}, windowOf: map[string]int64{}, used: map[string]int{},
		takenBy: map[string]uint64{}, grants: map[string]*simGrant{},
		kills: map[string]*simKill{}, held: map[string]bool{}, shaky: map[string]bool{}, answered: map[string]string{}}
	s.base = newCuttable()
	s.clock.began = time.Now()
	s.clock.booted = s.clock.began
	for _, a := range simAgents {
		s.kills[a] = &simKill{on: no}
	}
	s.keep = []int{0, 10, 50, 100}[s.rng.IntN(4)]
	s.seal = 2048 << s.rng.IntN(3)
	s.most = uint64(8192 << s.rng.IntN(3))
	if s.rng.IntN(2) == 0 {
		s.hold = 1 << 40
	}
	if s.rng.IntN(4) == 0 {
		s.total = 128 * mib
	}
	for i := range 1 + s.rng.IntN(2) {
		s.dests = append(s.dests, &dest{s: s, name: fmt.Sprint("dest", i), way: destAcks})
	}
	return s
}

// run is a schedule of so many steps, and its end: everything is set right, and comes to rest.
func (s *sim) run(steps int) {
	defer func() {
		if s.life != nil {
			s.leave(s.life)
		}
	}()
	if !s.revive() {
		return
	}
	for range 2 {
		s.createKey(false)
	}
	s.createKey(true)
	if !s.go1(s.settle()) {
		return
	}
	for n := range steps {
		s.note("step %d", n)
		if !s.go1(s.step()) {
			return
		}
	}
	s.note("the end")
	s.heal()
	for range 5 {
		if s.finish() || s.err != nil {
			return
		}
		if !s.go1(false) {
			return
		}
	}
	s.fail("it does not come to rest")
}

// go1 brings the process back where it has ended. It reports whether the run goes on.
func (s *sim) go1(lives bool) bool {
	if s.err != nil {
		return false
	}
	if lives && s.life.failed() == nil {
		return true
	}
	return s.revive()
}

// revive starts the process until it lives.
func (s *sim) revive() bool {
	for range 20 {
		if s.life != nil {
			switch {
			case s.life.failed() != nil && !s.ended:
				s.note("the store has failed: %v", s.life.failed())
				s.seen.Fatal++
				s.die(false)
			default:
				power := s.left == nil && s.rng.IntN(2) == 0 || s.left != nil && s.power
				s.note("power cut: %v", power)
				if s.seen.Ends++; power {
					s.seen.Cuts++
				}
				s.die(power)
			}
		}
		if s.err != nil {
			return false
		}
		if s.start() {
			return true
		}
		if s.err != nil {
			return false
		}
	}
	s.fail("it does not start")
	return false
}

// heal sets everything right.
func (s *sim) heal() {
	s.clock.set(func() { s.clock.wrong, s.clock.right = 0, time.Time{} })
	s.endIn, s.errIn = 0, 0
	if s.disk != nil {
		s.disk.leave(100 * mib)
	}
	for _, d := range s.dests {
		d.behave(destAcks)
	}
}

// finish lets everybody get everything, and looks at what there is then. It reports whether it came so far.
func (s *sim) finish() bool {
	if !s.pass(2*time.Second, false) {
		return false
	}
	if !s.until("the delivery of the log", func() bool {
		for _, d := range s.dests {
			at, _ := s.life.s.Cursor(d.name)
			if n := s.life.s.Seq(); d.taken < n || at.Seq < n {
				return false
			}
		}
		return len(s.life.sent) == 0
	}) {
		return false
	}
	for _, d := range s.dests {
		s.seen.Gaps += int(d.gaps)
	}
	if !s.barrier() {
		return false
	}
	if s.check(); s.disk == nil {
		s.nothingWaits()
	}
	if err := s.export(); err != nil {
		s.fail("an export: %w", err)
	}
	s.seen.Trims += int(s.life.s.First() - 1)
	// a clean stop, and another start
	l := s.life
	s.note("stopped")
	for _, d := range s.dests {
		d.drop()
	}
	s.leave(l)
	s.base, s.life = &cuttable{MemFS: s.base.ended()}, nil
	if s.disk != nil {
		s.taken = s.disk.other
	}
	if !s.start() {
		return s.err != nil
	}
	s.note("root %x", s.life.s.seq.tree.Root())
	return true
}

// barrier waits until what was refused is dealt with.
func (s *sim) barrier() bool {
	done := false
	s.send("a note", &Note{Type: "note", By: system}, func(err error) {
		done = true
		if err != nil && s.disk == nil {
			s.note("refused: %v", err)
		}
	})
	return s.until("a note", func() bool { return done })
}

// simulate runs a seed. What a store that has failed leaves behind waits for ever: the bubble says so when it ends.
func simulate(t *testing.T, seed uint64, tell bool) (s *sim) {
	t.Helper()
	defer watchSeed(seed)()
	// between two turns goroutines run one after the other
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if err := segment.Warm(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if what := recover(); what != nil {
			if err, ok := what.(error); s == nil || !s.stuck || !ok ||
				!strings.Contains(err.Error(), "blocked goroutines remain") {
				panic(what)
			}
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		s = newSim(t, seed, tell)
		s.run(30 + int(seed%50))
	})
	return s
}

// watchSeed ends the test where a seed takes longer than it may by the time outside of the bubble, and says what waits.
// A bubble does not notice when a goroutine waits for a mutex. What it returns ends the watch.
func watchSeed(seed uint64) (end func()) {
	const most = time.Minute
	timer := time.AfterFunc(most, func() {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		panic(fmt.Sprintf("seed %d is not over after %v: something goes round without end, or waits for a mutex "+
			"whose holder waits for a turn: find it among these, and let such a holder pass in "+
			"holdsMutex\n%s", seed, most, stacks))
	})
	return func() { timer.Stop() }
}

// TestSimulatorRepeats: a seed is one schedule, to the last byte of the log.
func TestSimulatorRepeats(t *testing.T) {
	testkit.Long(t, "runs ten seeds twice")
	from, n := seedRange(t)
	if n == 0 {
		from, n = 1, 10
	}
	for seed := from; seed < from+n; seed++ {
		a, b := simulate(t, seed, true), simulate(t, seed, true)
		if x, y := hex.EncodeToString(a.trace.Sum(nil)), hex.EncodeToString(b.trace.Sum(nil)); x != y {
			at := 0
			for at < min(len(a.lines), len(b.lines)) && a.lines[at] == b.lines[at] {
				at++
			}
			t.Errorf("seed %d: line %d of %d differs:\n%s\n%s", seed, at, len(a.lines), slices.Concat(a.lines, []string{""})[at],
				slices.Concat(b.lines, []string{""})[at])
		}
	}
}
