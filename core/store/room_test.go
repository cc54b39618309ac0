package store

import (
	"bytes"
	"compress/flate"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/yett-dev/yett/sdk"
)

const mib = 1 << 20

// roomRig is a store on a disk of 128 MiB of which 32 MiB stay free. Nobody looks at it but the sequencer, and the test
// where it says so.
type roomRig struct {
	*rig
	disk  *quota
	set   Settings
	fatal atomic.Pointer[error]
	said  atomic.Pointer[string] // the newest line of the log
	k     *Key
}

func newRoomRig(t *testing.T, fs vfs.FS) *roomRig {
	r := &roomRig{rig: &rig{t: t, clock: newClock()}, disk: newQuota(fs, 128*mib)}
	r.fs = r.disk
	r.set = settings(r.disk, r.clock, func(err error) { r.fatal.Store(&err) })
	r.set.MinFree, r.set.Ballast, r.set.lookEvery = func(uint64) uint64 { return 32 * mib }, 12*mib, time.Hour
	r.set.Log = func(format string, args ...any) {
		line := fmt.Sprintf(format, args...)
		r.said.Store(&line)
	}
	r.start()
	t.Cleanup(func() {
		if err := r.fatal.Load(); err != nil {
			t.Errorf("fatal: %v", *err)
		}
		r.close()
	})
	r.k = r.key("key_a", []string{"*"}, "authorize")
	return r
}

func (r *roomRig) start() {
	r.t.Helper()
	s, err := Open(r.set)
	if err != nil {
		r.t.Fatal(err)
	}
	r.s = s
}

// look has the store look at the disk, as its watcher would.
func (r *roomRig) look() {
	r.s.room.mu.Lock()
	defer r.s.room.mu.Unlock()
	r.s.room.look()
}

// leave has another program use the disk, and the store see it.
func (r *roomRig) leave(free int64) {
	r.disk.leave(free)
	r.look()
}

func (r *roomRig) permit() *Decide {
	return r.call(r.k, r.id("args"), sdk.Verdict{Effect: sdk.Permit})
}

func (r *roomRig) kill(target string, undo bool) *KillSwitch {
	k := Kill{Scope: KillAgent, Target: target, By: "key_boss"}
	c := &KillSwitch{Kill: k, By: system, Undo: undo}
	if !undo {
		c.Held = r.s.Hold(k)
	}
	return c
}

func (r *roomRig) fillBallast() {
	for range ballastPieces + 1 {
		r.s.room.fill()
	}
}

// last is the type of the newest record.
func (r *roomRig) last() string {
	r.t.Helper()
	rows, _, err := logOf(r.s)
	if err != nil {
		r.t.Fatal(err)
	}
	return rows[len(rows)-1].Type
}

// TestNearlyFullDisk: below the mark nothing is permitted, and said why; what takes something away is recorded, reads
// are answered, and room that comes back is all that it takes to go on.
func TestNearlyFullDisk(t *testing.T) {
	r := newRoomRig(t, vfs.NewMem())
	boss := r.key("key_boss", []string{"*"}, "approve")
	waits := []string{r.deferred(r.k, "a", sdk.Verdict{}), r.deferred(r.k, "b", sdk.Verdict{})}
	other := r.key("key_b", []string{"*"}, "authorize")
	r.leave(32*mib - 1)

	size := r.s.Seq()
	for name, c := range map[string]Command{
		"permit": r.permit(), "deny": r.call(r.k, "x", sdk.Verdict{Effect: sdk.Deny}),
		"approval": r.answer(boss, waits[0], true),
		"note":     &Note{Type: "note", By: system}, "key": &CreateKey{Key: &Key{ID: "key_c", Name: "c"}, By: system},
		"scan": &Scanned{Key: r.k, ScanID: "scn_1"}, "answer": &AnswerOnce{Key: r.k, Answer: []byte("{}")},
	} {
		err := r.commit(c)
		if codeOf(err) != sdk.CodeAuditUnavailable {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, part := range []string{"nearly full", "storage.min_free", fmt.Sprint(32*mib - 1)} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s is told %q", name, err)
			}
		}
	}
	if n := r.s.Seq(); n != size {
		t.Errorf("%d records of what was refused", n-size)
	}
	if low := r.s.Room(); low.Low == "" || low.Free != 32*mib-1 || low.MinFree != 32*mib {
		t.Errorf("%+v", low)
	}
	if said := *r.said.Load(); !strings.Contains(said, "nearly full") {
		t.Errorf("the log says %q", said)
	}

	r.must(r.kill("bad", false))
	if got := r.last(); got != "kill" {
		t.Errorf("the newest record is a %s", got)
	}
	r.must(r.kill("bad", true))
	r.must(&RevokeKey{ID: other.ID, By: system})
	r.must(r.answer(boss, waits[0], false))
	if got := r.status(r.k, waits[0]); got != Denied {
		t.Errorf("the denied call is %s", got)
	}
	r.must(Barrier{Key: r.k})
	r.must(&Trim{Through: 2, Reason: "max_bytes"})
	r.must(&Note{Type: "config_applied", By: system})

	r.leave(32*mib + 2*mib) // above the mark, and not by enough
	r.refused(r.permit(), sdk.CodeAuditUnavailable)
	r.leave(37 * mib)
	r.must(r.permit())
	if low := r.s.Room().Low; low != "" {
		t.Errorf("it still says %q", low)
	}
}

// TestQueuedBeforeItWasFull: what was taken while there was room, and not yet written, is not written either. It is
// not worth any ballast.
func TestQueuedBeforeItWasFull(t *testing.T) {
	r := newRoomRig(t, vfs.NewMem())
	r.fillBallast()
	all := r.s.Room().Ballast
	c := r.permit()
	tk := &ticket{cmd: c, done: make(chan struct{}, 1)}
	tk.owner, tk.bytes, tk.urgent = weigh(c)
	r.disk.leave(0)
	r.clock.advance(glanceTime) // it is time that the sequencer looks
	if err := r.s.seq.enqueue(tk); err != nil {
		t.Fatal(err)
	}
	<-tk.done
	if codeOf(tk.err) != sdk.CodeAuditUnavailable {
		t.Errorf("%v", tk.err)
	}
	if now := r.s.Room().Ballast; now != all || all == 0 {
		t.Errorf("%d of %d bytes of ballast are left", now, all)
	}
}

// TestStartPays: the start makes room in front of what it writes, and beside each write of Pebble's; an open store
// makes room only for what must be written.
func TestStartPays(t *testing.T) {
	r := newRoomRig(t, vfs.NewMem())
	r.fillBallast()
	r.leave(0)
	r.s.room.grow(mib)
	if r.disk.free() != 0 {
		t.Error("an open store pays for every write")
	}
	start := newRoom(&Store{set: r.set, seq: r.s.seq, records: recordLog{dir: r.s.records.dir}})
	if err := start.open(); err != nil {
		t.Fatal(err)
	}
	if free := r.disk.free(); free < batchNeeds || free > 2*batchNeeds {
		t.Errorf("%d bytes are free", free)
	}
	start.grow(3 * mib)
	if free := r.disk.free(); free < 4*mib || free > 5*mib {
		t.Errorf("%d bytes are free for a write of 3 MiB", free)
	}
}

// TestWrittenFasterThanLooked: where no time passes, what is written makes the store look: what has to stay free stays.
func TestWrittenFasterThanLooked(t *testing.T) {
	r := newRoomRig(t, vfs.NewMem())
	r.leave(60 * mib)
	before := r.s.room.written.Load()
	r.must(r.permit())
	if n := r.s.room.written.Load() - before; n < 500 {
		t.Errorf("a permit counts %d bytes", n)
	}
	var err error
	random := rand.NewChaCha8([32]byte{})
	args := make([]byte, 16<<10)
	for n := 0; err == nil; n++ {
		if n > 2000 {
			t.Fatal("it was never refused")
		}
		c := r.permit()
		_, _ = random.Read(args) // segments are compressed
		c.Record.Args = []byte(fmt.Sprintf("%q", hex.EncodeToString(args)))
		err = r.commit(c)
	}
	if codeOf(err) != sdk.CodeAuditUnavailable {
		t.Fatal(err)
	}
	if free := r.disk.free(); free < 30*mib || free > 34*mib {
		t.Errorf("%d bytes are free", free)
	}
}

// TestNothingFree: ballast pays for what must be written. When that has gone too, a kill is in effect without the disk,
// nothing is begun that would fail, and all is written once there is room.
func TestNothingFree(t *testing.T) {
	r := newRoomRig(t, vfs.NewMem())
	r.fillBallast()
	all := r.s.Room().Ballast
	if all < 12*mib || all > 12*mib+ballastPieces*pageSize {
		t.Fatalf("%d bytes of ballast", all)
	}
	r.leave(0)
	r.refused(r.permit(), sdk.CodeAuditUnavailable)
	if now := r.s.Room().Ballast; now != all {
		t.Errorf("a refusal has cost %d bytes of ballast", all-now)
	}
	r.must(r.kill("first", false))
	if got := r.last(); got != "kill" {
		t.Errorf("the newest record is a %s", got)
	}
	if now := r.s.Room().Ballast; now >= all {
		t.Errorf("%d bytes of ballast", now)
	}
	for n := 0; r.s.Room().Ballast > 0; n++ {
		r.leave(0) // the other program takes what became free
		r.must(r.kill(fmt.Sprint("agent", n), false))
	}
	r.leave(0)
	size := r.s.Seq()
	r.refused(r.kill("last", false), sdk.CodeNotDurable)
	r.refused(r.kill("last", true), sdk.CodeAuditUnavailable)
	if k := r.s.Killed(r.k, "last", "", ""); k == nil {
		t.Error("the kill is not in effect")
	}
	r.must(Barrier{Key: r.k})
	if n := r.s.Seq(); n != size || r.disk.refusals() != 0 {
		t.Errorf("%d records, %d writes that did not fit", n-size, r.disk.refusals())
	}
	r.leave(80 * mib)
	r.must(r.permit())
	rows, _, err := logOf(r.s)
	if err != nil || !slices.ContainsFunc(rows[size:], func(row row) bool { return row.Type == "kill" }) {
		t.Errorf("the kill was not written: %v", err)
	}
	r.fillBallast()
	if now := r.s.Room().Ballast; now < 12*mib {
		t.Errorf("%d bytes of ballast once there is room", now)
	}
}

// TestOwedAtAStop: what nothing can be written of does not keep the store from being closed.
func TestOwedAtAStop(t *testing.T) {
	r := newRoomRig(t, vfs.NewMem())
	r.leave(64 << 10) // Pebble ends its write-ahead log
	r.refused(r.kill("last", false), sdk.CodeNotDurable)
}

// TestStopOnAFullDisk: a stop has what it needs from the ballast.
func TestStopOnAFullDisk(t *testing.T) {
	r := newRoomRig(t, vfs.NewMem())
	r.fillBallast()
	r.leave(0)
}

// TestFilledWithinAWrite: another program fills the disk between two looks. The process ends, and the next start, with
// not a byte free, opens the store with what the ballast took: kills are recorded, and nothing is permitted. So does
// the one after it.
func TestFilledWithinAWrite(t *testing.T) {
	base := newCuttable()
	r := newRoomRig(t, base)
	r.fillBallast()
	before := r.s.Seq()
	for r.fatal.Load() == nil {
		r.disk.leave(0) // and nobody looks
		r.s.room.mu.Lock()
		r.s.room.looked = r.clock.Now()
		r.s.room.mu.Unlock()
		if err := r.commit(r.permit()); err != nil && codeOf(err) != sdk.CodeAuditUnavailable {
			t.Fatal(err)
		}
		if r.s.room.level.Load() != ample {
			t.Fatal("it has looked")
		}
	}
	if text := (*r.fatal.Load()).Error(); !strings.Contains(text, "became full") {
		t.Errorf("it ends with %q", text)
	}
	r.disk = newQuota(base.ended(), 128*mib) // the lock goes with the process
	r.set.FS = r.disk
	for n := range 2 {
		r.fatal.Store(nil)
		r.disk.leave(0)
		held := r.disk.used("")
		r.start()
		if got := r.s.Seq(); got < before {
			t.Fatalf("start %d has %d records of %d", n, got, before)
		}
		r.k = r.s.Key("key_a")
		r.refused(r.permit(), sdk.CodeAuditUnavailable)
		r.must(r.kill(fmt.Sprint("agent", n), false))
		if now := r.disk.used(""); now >= held {
			t.Errorf("start %d let nothing go", n)
		}
		before = r.s.Seq()
		if n == 0 {
			r.close()
		}
	}
	r.leave(80 * mib)
	r.must(r.permit())
}

// TestDiskThatDoesNotSay: nothing is permitted while nobody knows how much is free, and again once it is known.
func TestDiskThatDoesNotSay(t *testing.T) {
	r := newRoomRig(t, vfs.NewMem())
	r.disk.breaks(errors.New("input/output error"))
	r.look()
	err := r.commit(r.permit())
	if codeOf(err) != sdk.CodeAuditUnavailable || !strings.Contains(err.Error(), "input/output") {
		t.Error(err)
	}
	r.must(r.kill("bad", false))
	r.disk.breaks(nil)
	r.look()
	r.must(r.permit())
}

// TestTooSmallADisk: who has set up more than the disk has is told so.
func TestTooSmallADisk(t *testing.T) {
	r := newRoomRig(t, vfs.NewMem())
	r.s.room.mu.Lock()
	r.s.room.s.set.MinFree = func(total uint64) uint64 { return total }
	r.s.room.mu.Unlock()
	r.look()
	if low := r.s.Room().Low; !strings.Contains(low, fmt.Sprintf("has %d bytes in all", 128*mib)) {
		t.Errorf("%q", low)
	}
}

// TestTablesWaitForRoom: a flush waits until there is room for it, a compaction until the store takes everything again.
func TestTablesWaitForRoom(t *testing.T) {
	r := newRoomRig(t, vfs.NewMem())
	waiting := func(n int) {
		until(t, func() bool {
			r.s.room.mu.Lock()
			defer r.s.room.mu.Unlock()
			return r.s.room.waiting == n
		})
	}
	flushed, compacted := make(chan error, 1), make(chan error, 1)
	r.leave(mib)
	go func() { flushed <- r.s.room.table("pebble-memtable-flush") }()
	go func() { compacted <- r.s.room.table("pebble-compaction") }()
	waiting(2)
	r.leave(12 * mib)
	if err := <-flushed; err != nil {
		t.Error(err)
	}
	waiting(1)
	r.leave(60 * mib)
	if err := <-compacted; err != nil {
		t.Error(err)
	}
	r.leave(mib)
	go func() { flushed <- r.s.room.table("pebble-memtable-flush") }()
	go func() { compacted <- r.s.room.table("pebble-compaction") }()
	waiting(2)
	r.close()
	if err := <-flushed; err != nil {
		t.Error(err)
	}
	if err := <-compacted; !errors.Is(err, errNoRoom) {
		t.Error(err)
	}
	r.leave(60 * mib)
	r.start()
}

// TestFlushWaitsForRoom is TestTablesWaitForRoom with the database's own tables, and the sealer.
func TestFlushWaitsForRoom(t *testing.T) {
	r := newRoomRig(t, vfs.NewMem())
	for range 200 { // more than a seal
		c := r.permit()
		c.Record.Args = []byte(`"` + strings.Repeat("x", 8<<10) + `"`)
		r.must(c)
	}
	r.disk.say(2 * mib) // a flush of the sealer's that runs just now removes a write-ahead log
	r.look()
	r.must(r.kill("bad", false)) // the flush of the sealer's may have left nothing to flush
	done, err := r.s.db.AsyncFlush()
	if err != nil {
		t.Fatal(err)
	}
	until(t, func() bool {
		r.s.room.mu.Lock()
		defer r.s.room.mu.Unlock()
		return r.s.room.waiting > 0
	})
	select {
	case <-done:
		t.Error("it was flushed without room")
	default:
	}
	if r.s.room.sealable(64 << 10 * 40) {
		t.Error("it seals without room")
	}
	r.disk.say(0)
	r.leave(60 * mib)
	<-done
	r.must(r.permit())
}

// TestBallast: its bytes are on disk, and cannot be compressed; it takes no more than an eighth of the disk, and
// nothing of what has to be free; what was broken off is removed.
func TestBallast(t *testing.T) {
	base := newCuttable()
	r := newRoomRig(t, base)
	r.fillBallast()
	cut := base.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 0, RNG: rand.New(rand.NewPCG(1, 1))})
	var sum int
	for n := range ballastPieces {
		f, err := cut.Open(fmt.Sprint("data/log/ballast-", n))
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(f)
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		sum += len(data)
		var packed bytes.Buffer
		w, _ := flate.NewWriter(&packed, flate.BestSpeed)
		if _, err := w.Write(data); err != nil || w.Close() != nil || packed.Len() < len(data) {
			t.Errorf("piece %d: %d bytes are %d when compressed: %v", n, len(data), packed.Len(), err)
		}
	}
	if sum < 12*mib {
		t.Errorf("%d bytes of ballast", sum)
	}
	write(t, r.disk, "data/log/"+ballastTemp, []byte("x"))
	r.close()
	r.set.Ballast = 1 << 30
	r.start()
	if names, err := r.disk.List("data/log"); err != nil || slices.Contains(names, ballastTemp) {
		t.Errorf("%q: %v", names, err)
	}
	r.fillBallast()
	if got := r.s.Room().Ballast; got > 16*mib {
		t.Errorf("%d bytes of ballast on a disk of 128 MiB", got)
	}
	for r.s.Room().Ballast > 0 {
		r.s.room.mu.Lock()
		r.s.room.ballast.drop()
		r.s.room.look()
		r.s.room.mu.Unlock()
	}
	r.leave(36*mib + mib/2)
	r.fillBallast()
	if got := r.s.Room(); got.Ballast != 0 || got.Low != "" {
		t.Errorf("%+v", got)
	}
}

// TestWatcherLooks: without a command too, what the disk has is known, and what was refused comes back by itself.
func TestWatcherLooks(t *testing.T) {
	r := newRoomRig(t, vfs.NewMem())
	r.close()
	r.set.lookEvery = time.Millisecond
	r.start()
	r.disk.leave(20 * mib)
	until(t, func() bool { return r.s.Room().Low != "" })
	r.disk.leave(80 * mib)
	until(t, func() bool { return r.s.Room().Low == "" })
}
