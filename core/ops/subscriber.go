package ops

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/yett-dev/yett/core/log/follow"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk/wire"
)

// What one stream holds and hands out at most. A stream that is full is no trouble to anybody: it falls behind, and is
// read from the log again once it has room.
const (
	streamBytes = 96 << 10 // a single record may go beyond it
	streamLines = 1000
	chunkBytes  = 32 << 10 // of one Next; a single record may go beyond it
)

// Why streams end.
const (
	endRevoked  = "key_revoked"
	endExpired  = "key_expired"
	endDraining = "draining"
	endLog      = "log_unreadable"
	endKilled   = "killed"
	endUnread   = "not_read"
	endGone     = "retention" // it has removed what comes next; a line of JSON is a gap, which gives no reason
)

// subscriber is one open stream.
type subscriber struct {
	h        *hub
	key      *store.Key
	opt      subOptions
	stopping <-chan struct{}
	opened   uint64        // the log's size when it was opened: what is older ends nothing
	ready    chan struct{} // there is something for Next

	// The pump's alone.
	at     follow.Cursor // while it is behind
	live   bool          // its cursor is the pump's
	called bool          // it is on the list of those to wake

	mu     sync.Mutex
	buf    []byte    // whole lines
	head   int       // what of buf is handed out already
	lines  []line    // of buf from head on
	sent   uint64    // the last record handed out
	sure   uint64    // the last record of those that Next has been called again after
	idle   time.Time // when there was something for it last
	full   bool      // it has turned a record away
	reason string    // why it has ended, "" while it has not
	lost   uint64    // the last record that retention had removed before the stream came to it, 0 for none
	over   bool      // the closing line is handed out
	gone   bool      // Close was called
}

// line is one record's bytes in a buffer, or a heartbeat.
type line struct {
	end int // in buf
	seq uint64
}

func newSubscriber(h *hub, r *Request, o subOptions, from, size uint64) *subscriber {
	return &subscriber{h: h, key: r.Key, opt: o, stopping: r.Stopping, opened: size, ready: make(chan struct{}, 1),
		at: follow.At(h.log, from), sent: from - 1, sure: from - 1, idle: h.now()}
}

// First implements Stream.
func (u *subscriber) First() Response {
	if u.opt.first == nil {
		return nil
	}
	return u.opt.first
}

// Next implements Stream. Calling it says that what it gave before has been sent.
func (u *subscriber) Next(ctx context.Context) ([]byte, error) {
	for {
		out, err := u.takeLines()
		if out != nil || err != nil {
			return out, err
		}
		select {
		case <-u.ready:
		case <-u.stopping:
			u.end(endDraining)
		case <-u.h.quit:
			u.end(endDraining)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// takeLines gives the next lines, nil if there are none yet.
func (u *subscriber) takeLines() ([]byte, error) {
	dead := u.dead(u.h.times())
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sure = u.sent
	if u.gone || u.over {
		return nil, io.EOF
	}
	if dead != "" {
		u.reason = dead
		u.drop() // nothing goes out any more to a key that has ended
	}
	out := u.cut()
	if u.reason == "" || len(u.lines) > 0 {
		return out, nil
	}
	u.over = true
	return u.appendClosing(out, u.sent), io.EOF
}

// cut takes whole lines off the buffer. u.mu is held.
func (u *subscriber) cut() []byte {
	n := 0
	for n < len(u.lines) && (n == 0 || u.lines[n].end-u.head <= chunkBytes) {
		n++
	}
	if n == 0 {
		return nil
	}
	last := u.lines[n-1]
	out := append(make([]byte, 0, last.end-u.head+128), u.buf[u.head:last.end]...)
	u.sent = last.seq
	u.head, u.lines = last.end, u.lines[n:]
	if len(u.lines) == 0 {
		u.drop()
	} else if u.head >= streamBytes/2 {
		u.buf = u.buf[:copy(u.buf, u.buf[u.head:])]
		for i := range u.lines {
			u.lines[i].end -= u.head
		}
		u.head = 0
	}
	if u.full && len(u.lines) <= streamLines/2 && len(u.buf) <= streamBytes/2 {
		u.full = false
		u.h.nudge()
	}
	return out
}

// drop empties the buffer; a large one is given back. u.mu is held.
func (u *subscriber) drop() {
	u.buf, u.head, u.lines = u.buf[:0], 0, nil
	if cap(u.buf) > chunkBytes {
		u.buf = nil
	}
}

// dead says why the key may get nothing any more, "" if it may.
func (u *subscriber) dead(t store.Times) string {
	now := u.key.At(t)
	switch {
	case u.key.Revoked(now) != nil:
		return endRevoked
	case u.key.Expired(now):
		return endExpired
	}
	return ""
}

// end lets the stream end with what it holds.
func (u *subscriber) end(reason string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.reason == "" {
		u.reason = reason
	}
}

func (u *subscriber) appendClosing(dst []byte, last uint64) []byte {
	if u.opt.closing != nil {
		return u.opt.closing(dst, u.reason, last)
	}
	if u.reason == endGone {
		return gapLine(dst, max(last, u.lost))
	}
	return closingLine(dst, u.reason, last)
}

// Closing implements Stream: the stream ends, and is told the last record of which it is sure that the reader got it.
func (u *subscriber) Closing() []byte {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.reason == "" || u.reason == endGone { // what is lost counts from what it has read
		u.reason = endUnread
	}
	u.over = true
	u.drop()
	return u.appendClosing(nil, u.sure)
}

// Close implements Stream.
func (u *subscriber) Close() {
	u.mu.Lock()
	was := u.gone
	u.gone = true
	u.drop()
	u.mu.Unlock()
	if was {
		return
	}
	u.wake()
	u.h.leave(u.key)
	u.h.nudge()
}

// wake lets Next look again.
func (u *subscriber) wake() {
	select {
	case u.ready <- struct{}{}:
	default:
	}
}

// push appends an event's lines, and gives their length. ok is false if there was no room for them.
func (u *subscriber) push(e *event, now time.Time) (n int, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.gone || u.reason != "" {
		return 0, true // nobody will read it
	}
	if len(u.lines) >= streamLines || len(u.buf) >= streamBytes {
		u.full = true
		return 0, false
	}
	n = len(u.buf)
	u.buf = u.opt.format(u.buf, e)
	u.lines = append(u.lines, line{len(u.buf), e.Seq})
	u.idle = now
	return len(u.buf) - n, true
}

// say appends a line that is no record. What it says holds for everything up to seq.
func (u *subscriber) say(text []byte, seq uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.buf = append(u.buf, text...)
	u.lines = append(u.lines, line{len(u.buf), seq})
}

// miss ends a stream that retention has overtaken: all records up to last are gone, and one of them may be of a kill
// that ends it. Its reader comes back, and is asked again for what it may follow.
func (u *subscriber) miss(last uint64) {
	u.mu.Lock()
	u.lost = last
	u.mu.Unlock()
	u.end(endGone)
}

// worth reports whether there is enough for its reader to wake at once.
func (u *subscriber) worth() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.reason != "" || u.gone || u.full || len(u.buf)-u.head >= chunkBytes
}

// beat appends a heartbeat if one is due; everything wanted up to seq is in the buffer. It reports whether it did.
func (u *subscriber) beat(seq uint64, now time.Time) bool {
	if u.opt.heartbeat == 0 {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.gone || u.reason != "" || len(u.lines) > 0 || now.Sub(u.idle) < u.opt.heartbeat {
		return false
	}
	seq = max(seq, u.sent)
	if u.opt.beat != nil {
		u.buf = u.opt.beat(u.buf, seq, now)
	} else {
		u.buf = heartbeatLine(u.buf, seq, now)
	}
	u.lines = append(u.lines, line{len(u.buf), seq})
	u.idle = now
	return true
}

// ended reports whether the pump is done with it.
func (u *subscriber) ended() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.gone || u.reason != ""
}

// blocked reports whether it waits for its reader to make room.
func (u *subscriber) blocked() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.full
}

func heartbeatLine(dst []byte, seq uint64, now time.Time) []byte {
	o := wire.Object(dst)
	o.Str("type", "heartbeat")
	o.Int("seq", int64(seq))
	o.Str("timestamp", now.UTC().Format(time.RFC3339Nano))
	return append(o.Close(), '\n')
}

func gapLine(dst []byte, last uint64) []byte {
	o := wire.Object(dst)
	o.Str("type", "gap")
	o.Int("last_seq", int64(last))
	return append(o.Close(), '\n')
}

func closingLine(dst []byte, reason string, last uint64) []byte {
	o := wire.Object(dst)
	o.Str("type", "closing")
	o.Str("reason", reason)
	o.Int("last_seq", int64(last))
	return append(o.Close(), '\n')
}
