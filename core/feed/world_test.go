package feed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/mod/sumdb/tlog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a log, its cursors and a subscriber, all in memory, with an oracle: what the subscriber gets is held against
// what it has taken in before.
type world struct {
	mu      sync.Mutex
	records [][]byte
	hashes  []tlog.Hash
	first   uint64
	wakes   []chan<- struct{}
	logErr  error

	disk   map[string]Position
	events []Event
	moves  int
	onMove func(m Move) (applied bool, err error) // nil: all goes well

	down      bool
	behave    func(b *pluginv1.Batch) []reply // nil: acknowledge
	kinds     []string                        // of records that the filter lets through; nil: all
	payload   func(record []byte) []byte      // nil: as it is
	taken     uint64                          // by the subscriber, for good
	got       map[uint64]int                  // how often each record came
	batches   []*pluginv1.Batch
	skippable map[uint64]bool // records that may be missing: dead letters
	replayTo  uint64
	over      uint64 // the last record of the store that was before; 0: there was none
	backs     int    // replays so far
	lied      bool   // the pump was told of an error, and the cursor moved all the same
	pumps     []*Pump
	open      *fakeStream
	wrong     []error
}

// reply is what the subscriber does after a batch: an acknowledgement, or the end of the stream.
type reply struct {
	ack  *pluginv1.Ack
	err  error
	mute bool // nothing more comes on this stream
}

func newWorld() *world {
	return &world{first: 1, disk: map[string]Position{}, got: map[uint64]int{}, skippable: map[uint64]bool{}}
}

func (w *world) fault(format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Errorf(format, args...))
}

// add writes n records of a type.
func (w *world) add(n int, typ string, more ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range n {
		rec := fmt.Appendf(nil, `{"v":1,"seq":%d,"store_id":"sto","timestamp":"%s","type":"%s"%s}`, len(w.records)+1,
			time.Now().UTC().Format("2006-01-02T15:04:05.000000000Z"), typ, strings.Join(more, ""))
		w.append(rec)
	}
}

func (w *world) append(rec []byte) {
	n := int64(len(w.records))
	more, err := tlog.StoredHashes(n, rec, tlog.HashReaderFunc(w.stored))
	if err != nil {
		panic(err)
	}
	w.records, w.hashes = append(w.records, rec), append(w.hashes, more...)
	for _, wake := range w.wakes {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

func (w *world) stored(index []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(index))
	for i, x := range index {
		out[i] = w.hashes[x]
	}
	return out, nil
}

// StoreOf gives the store of a record: "sto" up to one that a test says, "sto2" behind it.
func (w *world) StoreOf(seq uint64) (string, uint64) {
	if w.over > 0 && seq > w.over {
		return "sto2", w.over + 1
	}
	return "sto", 1
}
func (w *world) storeOf(b *pluginv1.Batch) string {
	id, _ := w.StoreOf(b.LastSeq)
	return id
}

func (w *world) NextLife(seq uint64) uint64 {
	if seq <= w.over {
		return w.over + 1
	}
	return 0
}
func (w *world) Seq() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return uint64(len(w.records))
}

func (w *world) First() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.first
}

func (w *world) Size(from uint64) (n uint64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for seq := max(from, w.first); seq <= uint64(len(w.records)); seq++ {
		n += uint64(len(w.records[seq-1]))
	}
	return n, nil
}

func (w *world) Records(from uint64, fn func(uint64, []byte) error) error {
	w.mu.Lock()
	from, all, err := max(from, w.first), w.records, w.logErr
	w.mu.Unlock()
	if err != nil {
		return err
	}
	for seq := from; seq <= uint64(len(all)); seq++ {
		rec := bytes.Clone(all[seq-1])
		if err := fn(seq, rec); err != nil {
			return err
		}
		clear(rec) // the bytes are valid during the call only
	}
	return nil
}

func (w *world) Root(size uint64) ([32]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return tlog.TreeHash(int64(size), tlog.HashReaderFunc(w.stored))
}

func (w *world) Follow(wake chan<- struct{}) func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wakes = append(w.wakes, wake)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.wakes = slices.DeleteFunc(w.wakes, func(c chan<- struct{}) bool { return c == wake })
	}
}

// trim is what retention does.
func (w *world) trim(through uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := uint64(len(w.records)); n > 0 {
		w.first = max(w.first, min(through, n-1)+1)
	}
}

func (w *world) Cursor(name string) (Position, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at, ok := w.disk[name]
	return at, ok
}

// Move holds every move against what the subscriber has taken in.
func (w *world) Move(_ context.Context, m Move) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.moves++
	apply, err := true, error(nil)
	if w.onMove != nil {
		apply, err = w.onMove(m)
	}
	if !apply {
		return err
	}
	was, known := w.disk[m.Name]
	if !m.Stay && known && was.Seq == m.To {
		return err
	}
	w.lied = w.lied || err != nil
	if w.lied && !m.Stay && known && was.Seq > m.To && !m.Back {
		// as the store says; the pump was told that it had not got there
		return errors.New("the cursor is behind that already")
	}
	for _, e := range m.Events {
		w.event(e)
	}
	if m.Stay {
		return err
	}
	switch {
	case m.Back:
		w.replayTo = max(was.High, was.Seq)
		// else the operator was told that there is no replay: what was taken in stays so, wherever the cursor is
		if err == nil {
			w.taken = m.To
			w.backs++
		}
	case known && m.To < was.Seq:
		w.fault("the cursor goes back from %d to %d", was.Seq, m.To)
	case known:
		w.passed(m)
	default:
		w.taken = m.To
	}
	w.disk[m.Name] = Position{m.To, max(m.To, was.High)}
	return err
}

func (w *world) event(e Event) {
	w.events = append(w.events, e)
	if e.Type == EventDeadLetter {
		w.skippable[e.First] = true
	}
	w.append(fmt.Appendf(nil, `{"v":1,"seq":%d,"type":"%s","subscriber":"siem","first_seq":%d}`, len(w.records)+1, e.Type,
		e.First))
}

// passed finds records that the cursor has left behind and that the subscriber has not taken in.
func (w *world) passed(m Move) {
	for seq := w.taken + 1; seq <= m.To; seq++ {
		gone := slices.ContainsFunc(m.Events, func(e Event) bool {
			return e.Type == EventGap && e.First <= seq && seq <= e.Last
		})
		if !gone && !w.skippable[seq] && w.wants(seq) {
			w.fault("the cursor is at %d, but record %d was not acknowledged", m.To, seq)
			return
		}
	}
	w.taken = max(w.taken, m.To)
}

func (w *world) wants(seq uint64) bool {
	return w.over > 0 && seq == w.over+1 || w.kinds == nil || slices.ContainsFunc(w.kinds, func(k string) bool {
		return bytes.Contains(w.records[seq-1], []byte(`"type":"`+k+`"`))
	})
}

// Consume implements Consumer.
func (w *world) Consume(ctx context.Context) (Stream, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down {
		return nil, errors.New("down")
	}
	s := &fakeStream{w: w, ctx: ctx, in: make(chan *pluginv1.Batch), out: make(chan reply, 64), gone: make(chan struct{}),
		next: 0, backs: w.backs}
	w.open = s
	go s.work()
	return s, nil
}

// die ends the stream as a killed process does.
func (w *world) die() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open != nil {
		code := []codes.Code{codes.Unavailable, codes.Canceled}[len(w.batches)%2]
		w.open.end(status.Error(code, "connection reset"))
	}
}

type fakeStream struct {
	w     *world
	ctx   context.Context
	in    chan *pluginv1.Batch
	out   chan reply
	next  uint64
	backs int
	once  sync.Once
	gone  chan struct{}
	err   error
}

func (s *fakeStream) end(err error) { s.once.Do(func() { s.err = err; close(s.gone) }) }

func (s *fakeStream) Send(b *pluginv1.Batch) error {
	select {
	case s.in <- b:
		return nil
	case <-s.gone:
		return io.EOF
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

func (s *fakeStream) CloseSend() error { s.end(io.EOF); return nil }

func (s *fakeStream) Recv() (*pluginv1.Ack, error) {
	select {
	case r := <-s.out:
		return r.ack, r.err
	default:
	}
	select {
	case r := <-s.out:
		return r.ack, r.err
	case <-s.gone:
		return nil, s.err
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

func (s *fakeStream) work() {
	for {
		select {
		case b := <-s.in:
			for _, r := range s.w.take(s, b) {
				if !r.mute {
					select {
					case s.out <- r:
					case <-s.ctx.Done():
						return
					}
				}
				if r.mute || r.err != nil || r.ack.Error != "" { // nothing behind what failed is taken in
					<-s.ctx.Done()
					return
				}
			}
		case <-s.gone:
			return
		case <-s.ctx.Done():
			return
		}
	}
}

// take is the oracle for one batch.
func (w *world) take(s *fakeStream, b *pluginv1.Batch) []reply {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.backs != w.backs {
		return nil // it was on its way when a replay began: its stream is being ended, and nothing is heard on it any more
	}
	w.batches = append(w.batches, b)
	w.look(s, b)
	replies := []reply{{ack: &pluginv1.Ack{Seq: b.LastSeq}}}
	if w.behave != nil {
		replies = w.behave(b)
	}
	for _, r := range replies {
		// a refusal acknowledges what is in front of it
		if r.ack != nil && r.ack.Seq+1 >= b.FirstSeq && r.ack.Seq <= b.LastSeq {
			w.taken = max(w.taken, r.ack.Seq)
		}
	}
	return replies
}

func (w *world) look(s *fakeStream, b *pluginv1.Batch) {
	if s.next != 0 && b.FirstSeq != s.next {
		w.fault("a batch begins with %d, the one before it ended in front of %d", b.FirstSeq, s.next)
	}
	if s.next == 0 {
		for seq := w.taken + 1; seq < b.FirstSeq; seq++ {
			if w.wants(seq) && !w.skippable[seq] {
				w.fault("a stream begins with %d, but %d was never acknowledged", b.FirstSeq, seq)
			}
		}
	}
	s.next = b.LastSeq + 1
	if n := len(b.Records); n > maxRecords || b.LastSeq < b.FirstSeq || b.StoreId != w.storeOf(b) {
		w.fault("batch %d to %d of %q with %d records", b.FirstSeq, b.LastSeq, b.StoreId, n)
	}
	root, err := tlog.TreeHash(int64(b.LastSeq), tlog.HashReaderFunc(w.stored))
	if err != nil || !bytes.Equal(root[:], b.TreeRoot) {
		w.fault("batch %d to %d: another root: %v", b.FirstSeq, b.LastSeq, err)
	}
	there, size := map[uint64]bool{}, 0
	for _, r := range b.Records {
		there[r.Seq] = true
		w.got[r.Seq]++
		size += len(r.Json)
		w.sameRecord(b, r)
	}
	if size > maxBytes && len(b.Records) > 1 {
		w.fault("a batch of %d bytes", size)
	}
	for seq := b.FirstSeq; seq <= b.LastSeq; seq++ {
		gone := b.Gap != nil && b.Gap.FirstSeq <= seq && seq <= b.Gap.LastSeq
		if there[seq] != (w.wants(seq) && !gone) {
			w.fault("batch %d to %d: record %d is there: %v", b.FirstSeq, b.LastSeq, seq, there[seq])
		}
	}
	if !slices.IsSortedFunc(b.Records, func(a, b *pluginv1.Record) int { return int(a.Seq) - int(b.Seq) }) {
		w.fault("a batch out of order")
	}
}

func (w *world) sameRecord(b *pluginv1.Batch, r *pluginv1.Record) {
	if r.Seq < 1 || r.Seq > uint64(len(w.records)) {
		w.fault("record %d does not exist", r.Seq)
		return
	}
	rec := w.records[r.Seq-1]
	leaf, want := tlog.RecordHash(rec), rec
	if w.payload != nil {
		want = w.payload(rec)
	}
	if !bytes.Equal(r.Json, want) || !bytes.Equal(r.LeafHash, leaf[:]) {
		w.fault("record %d is not the log's: %s", r.Seq, r.Json)
	}
	if b.Replay != (r.Seq <= w.replayTo) && !w.lied {
		w.fault("record %d: replay is %v, replayed up to %d", r.Seq, b.Replay, w.replayTo)
	}
}

// set is a pump's settings in this world.
func (w *world) settings() Settings {
	return Settings{Name: "siem", Types: w.kinds, Payload: PayloadFull, Start: StartEarliest, Log: w, Cursors: w,
		Consumer: w}
}

// with runs fn under the lock.
func (w *world) with(fn func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fn()
}

// types lists the events so far.
func (w *world) types() (out []string) {
	w.with(func() {
		for _, e := range w.events {
			out = append(out, fmt.Sprintf("%s %d-%d", strings.TrimPrefix(e.Type, "subscriber_"), e.First, e.Last))
		}
	})
	return out
}

// verdict is what the oracle has found.
func (w *world) verdict() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return errors.Join(w.wrong[:min(len(w.wrong), 5)]...)
}

// twice are the records that came more than once, with how often they came too often in all.
func (w *world) twice() (n int) {
	w.with(func() {
		for _, k := range maps.All(w.got) {
			n += k - 1
		}
	})
	return n
}

// crash ends a pump as kill -9 does: nothing more is written.
func (p *Pump) crash() {
	p.kill()
	<-p.done
}
