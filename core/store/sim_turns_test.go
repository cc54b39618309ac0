package store

import (
	"cmp"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// turns has everything that changes a simulated disk wait until the driver says that it is its turn. So the driver
// decides what comes first, and the power can be cut between any two changes.
type turns struct {
	mu       sync.Mutex
	waits    []*turn
	flushing int                     // how many close a write-ahead log
	over     bool                    // nobody waits any more: what the process does now is lost
	now      func(what string) error // instead of waiting, while Pebble opens; nil: everybody waits
}

// pebbleIsOpen is what the store does first once Pebble is open. Pebble opens with a mutex in its hands that its first
// compactions want: a bubble does not see that such a goroutine waits. So the goroutine that opens does not wait until
// then. Those beside it do, which compact, flush, and remove files: whether they come first would be Go's choice.
const pebbleIsOpen = "mkdir data/log/wal"

// turn is somebody who waits.
type turn struct {
	what string
	wake chan error
}

// take waits for a turn. Its error is what the disk answers.
func (t *turns) take(what string) error {
	t.mu.Lock()
	if t.over || t.flushing > 0 && isWAL(what) {
		t.mu.Unlock()
		return nil
	}
	if t.now != nil && what != pebbleIsOpen && !strings.HasPrefix(what, "remove data/db/") &&
		!within("(*DB).compact.func", "(*DB).flush.func") {
		defer t.mu.Unlock()
		return t.now(what)
	}
	if what == pebbleIsOpen {
		t.now = nil
	}
	one := &turn{what, make(chan error, 1)}
	t.waits = append(t.waits, one)
	t.mu.Unlock()
	return <-one.wake
}

// pick gives one of those that wait, nil if nobody does. Everybody waits, or has nothing to do, when it is called: in
// which order they came does not count.
func (t *turns) pick(rng *rand.Rand) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waits) == 0 {
		return nil
	}
	slices.SortStableFunc(t.waits, func(a, b *turn) int { return cmp.Compare(a.what, b.what) })
	i := rng.IntN(len(t.waits))
	one := t.waits[i]
	t.waits = slices.Delete(t.waits, i, i+1)
	return one
}

// back has somebody wait on whose turn it was.
func (t *turns) back(one *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waits = append(t.waits, one)
}

// flush hears when Pebble begins to close a write-ahead log, and when the next one is there. It has a mutex in hand
// meanwhile that commits want, so what it writes to logs must not wait. No crash and no stall comes in between.
func (t *turns) flush(begins bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !begins {
		t.flushing--
		return
	}
	t.flushing++
	t.waits = slices.DeleteFunc(t.waits, func(one *turn) bool {
		if isWAL(one.what) {
			one.wake <- nil
		}
		return isWAL(one.what)
	})
}

func isWAL(what string) bool {
	return strings.HasSuffix(what, ".log") || strings.HasSuffix(what, "data/log/wal")
}

// end lets everybody go on without waiting.
func (t *turns) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	for _, one := range t.waits {
		one.wake <- nil
	}
	t.waits = nil
}

// on makes the changes of a disk wait. Ballast is left out: the store's watcher and its sequencer wait for each other
// on a mutex there, and a bubble does not see that such a goroutine waits.
func (t *turns) on(fs vfs.FS) vfs.FS {
	return errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() != errorfs.OpIsWrite || op.Kind == errorfs.OpFileClose || isBallast(op.Path) {
			return nil
		}
		// a new write-ahead log is made with a mutex in hand that the next commit wants
		if filepath.Ext(op.Path) == ".log" && op.Kind == errorfs.OpCreate || op.Kind == errorfs.OpReuseForWrite {
			return nil
		}
		if holdsMutex() {
			return nil
		}
		return t.take(opNames[op.Kind] + " " + numbers.ReplaceAllString(op.Path, "#"))
	}))
}

// holdsMutex reports whether the caller is one that waits for the disk with a mutex in hand that others want: what lets
// ballast go, and what gives Pebble another memtable.
func holdsMutex() bool { return within("(*ballast)", "(*DB).makeRoomForWrite") }

// within reports whether a function with such a name is among the callers.
func within(names ...string) bool {
	var pcs [64]uintptr
	for _, pc := range pcs[:runtime.Callers(2, pcs[:])] {
		functions, known := functionsAt.Load(pc)
		if !known {
			functions = functionsOf(pc)
			functionsAt.Store(pc, functions)
		}
		for _, name := range names {
			if strings.Contains(functions.(string), name) {
				return true
			}
		}
	}
	return false
}

// functionsAt remembers what functionsOf gave, which takes most of the time.
var functionsAt sync.Map

// functionsOf are the names of the function that a caller is in, and of those that it is inlined in.
func functionsOf(pc uintptr) (names string) {
	frames := runtime.CallersFrames([]uintptr{pc})
	for {
		f, more := frames.Next()
		names += f.Function + "\n"
		if !more {
			return names
		}
	}
}

// numbers are left out of names: which of two files Pebble gives a number first is Go's choice.
var numbers = regexp.MustCompile(`[0-9]+`)

func isBallast(path string) bool { return strings.Contains(path, ballastName[:len(ballastName)-1]) }

// opNames are what a trace calls the changes of a disk.
var opNames = map[errorfs.OpKind]string{errorfs.OpCreate: "create", errorfs.OpLink: "link", errorfs.OpRemove: "remove",
	errorfs.OpRemoveAll: "remove all", errorfs.OpRename: "rename", errorfs.OpReuseForWrite: "reuse",
	errorfs.OpMkdirAll: "mkdir", errorfs.OpLock: "lock", errorfs.OpFileWrite: "write", errorfs.OpFileWriteAt: "write at",
	errorfs.OpFileSync: "sync", errorfs.OpFileSyncData: "sync data", errorfs.OpFileSyncTo: "sync to",
	errorfs.OpFileFlush: "flush", errorfs.OpFilePreallocate: "preallocate"}
