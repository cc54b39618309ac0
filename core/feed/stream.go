package feed

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/yett-dev/yett/core/log/follow"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// How a stream shares the machine with decisions, and how often it writes the cursor.
const (
	flushAfter  = 250 * time.Millisecond // an acknowledgement, unless the window needs it at once
	quietAfter  = time.Second            // between two batches that only say that all was filtered out
	sinceBroken = time.Second            // for the reason of a stream that cannot be written to
	logPause    = time.Second            // after the log could not be read, or the cursor not written
)

// A subscriber that acknowledges without end must keep neither us busy nor the end waiting.
const (
	hearMost    = 64
	emptyMost   = 1 << 16
	emptyWithin = 10 * time.Second
)

// mostSaid is how many bytes of what a subscriber says go into our words and records.
const mostSaid = 512

// ending is why a stream has ended.
type ending int

const (
	notYet      ending = iota
	endFailed          // because of a record, as far as we know
	endGone            // the process is gone
	endProtocol        // the subscriber said something that it must not
	endAsked           // an operator's word
	endClosed          // Close
)

type end struct {
	cause ending
	why   string
}

// sentBatch is a batch whose end is not below the cursor on disk.
type sentBatch struct {
	last uint64
	seqs []uint64 // of its records
}

// conn is one stream. All of it but the goroutines that send and receive is the pump's goroutine's.
type conn struct {
	p      *Pump
	ctx    context.Context
	cancel context.CancelFunc
	stream Stream
	out    chan *pluginv1.Batch
	in     chan heard
	broken chan error
	wg     sync.WaitGroup

	log   *follow.Follower
	after uint64 // the end of the newest batch sent: the next one begins behind it
	heard uint64 // the newest acknowledgement
	// the end of the newest batch that went into the stream: what was not sent yet cannot be acknowledged
	begun atomic.Uint64
	sent  []sentBatch
	batch *building // not sent yet; nil: none

	telling  bool      // of what was passed over, and it is not acknowledged yet
	closing  bool      // nothing more is sent
	restTo   time.Time // nothing is read before
	ackDue   time.Time // zero: nothing is waited for
	flushDue time.Time // zero: nothing is to be written
	quietDue time.Time // nothing is said of what was filtered out before
	retryAt  time.Time // the cursor is not written before
	brokenTo time.Time // zero: it can be written to
	sendErr  error

	row     int // acknowledgements in a row that were heard before anything else was looked at
	empty   int // of those that say nothing new, in a row up to emptyTo
	emptyTo time.Time
}

func newConn(p *Pump, ctx context.Context, cancel context.CancelFunc, s Stream) *conn {
	w := p.set.Window
	c := &conn{p: p, ctx: ctx, cancel: cancel, stream: s, out: make(chan *pluginv1.Batch, w), in: make(chan heard, w),
		broken: make(chan error, 1), log: follow.Start(p.set.Log, p.acked+1)}
	c.after, c.heard = p.acked, p.acked
	c.begun.Store(p.acked)
	kept := p.gaps[:0] // what of gaps was not acknowledged is found again
	for _, g := range p.gaps {
		if g.last = min(g.last, p.acked); g.first <= g.last {
			kept = append(kept, g)
		}
	}
	p.gaps = kept
	if p.passed.last != p.acked { // a replay begins before it
		p.passed = passed{}
	}
	return c
}

// tellPassed begins a stream with what was passed over. Nothing follows before it is acknowledged: no record is to
// blame for a stream that ends because of it. The cursor is behind it already.
func (c *conn) tellPassed() end {
	over := &c.p.passed
	switch {
	case over.last == 0:
		return end{}
	case over.tries >= tellMost:
		c.p.set.Report("subscriber %s: it has refused %d times to be told that records %d to %d were passed over, and is "+
			"not told again", c.p.set.Name, tellMost, over.first, over.last)
		*over = passed{}
		return end{}
	}
	c.after = over.from - 1
	m := &pluginv1.Batch{FirstSeq: over.from, LastSeq: over.last,
		Gap: &pluginv1.Gap{FirstSeq: over.first, LastSeq: over.last, Reason: "dead_letter"}}
	if !c.give(m, sentBatch{last: over.last}) {
		return end{endGone, c.p.now.Detail}
	}
	c.telling = true
	return end{}
}

// serve runs the stream until it ends, and writes the cursor.
func (c *conn) serve(ctx context.Context) end {
	defer c.log.Stop()
	c.wg.Add(2)
	go c.send()
	go c.receive()
	e := c.tellPassed()
	for e.cause == notYet {
		e = c.step(ctx)
	}
	if over := &c.p.passed; c.telling && e.cause != endAsked && e.cause != endClosed {
		e.why += fmt.Sprintf(" (when it was told that records %d to %d were passed over)", over.first, over.last)
		over.ended = true
		if e.cause != endGone {
			over.tries++
		}
	}
	if c.closing && e.cause == endClosed {
		c.goodbye(ctx)
	}
	c.cancel()
	c.wg.Wait()
	if c.p.acked > c.p.at.Seq && ctx.Err() == nil {
		c.flush(ctx) // if it fails, what was acknowledged in vain comes again after a crash only
	}
	return e
}

// goodbye tells the subscriber that nothing comes any more, and gives it a moment to end the stream itself.
func (c *conn) goodbye(ctx context.Context) {
	close(c.out)
	timer := time.NewTimer(sinceBroken)
	defer timer.Stop()
	for {
		select {
		case h := <-c.in:
			if h.err != nil {
				return
			}
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (c *conn) send() {
	defer c.wg.Done()
	for {
		select {
		case b, more := <-c.out:
			if !more {
				if err := c.stream.CloseSend(); err != nil {
					c.broken <- err
				}
				return
			}
			c.begun.Store(b.LastSeq) // before it is sent: the answer may be there before Send returns
			if err := c.stream.Send(b); err != nil {
				c.broken <- err
				return
			}
		case <-c.ctx.Done():
			return
		}
	}
}

// step does what is due and waits for what comes next.
func (c *conn) step(ctx context.Context) end {
	now := time.Now()
	c.due(ctx, now)
	if c.row++; c.row < hearMost {
		select {
		case h := <-c.in: // what has come counts before what has not
			return c.hear(h)
		default:
		}
	}
	c.row = 0
	switch {
	case !c.ackDue.IsZero() && !now.Before(c.ackDue):
		return end{endFailed, fmt.Sprintf("nothing was acknowledged for %v behind record %d", c.p.set.AckTimeout, c.p.acked)}
	case !c.brokenTo.IsZero() && !now.Before(c.brokenTo):
		return end{endFailed, "the stream has ended: " + c.sendErr.Error()}
	case c.closing && c.ackDue.IsZero():
		return end{endClosed, ""}
	}
	if c.mayRead(now) {
		c.read(c.ctx)
		now = time.Now()
	}
	if c.untold() && !now.Before(c.quietDue) {
		c.ship()
		c.quietDue = now.Add(quietAfter)
	}
	c.p.publish()
	timer := time.NewTimer(c.waits(now))
	defer timer.Stop()
	wake := c.log.Wake()
	if !c.log.AtEnd() || now.Before(c.restTo) {
		wake = nil
	}
	stop := c.p.stop
	if c.closing {
		stop = nil
	}
	select {
	case <-timer.C:
	case <-wake:
		c.log.Woken()
	case h := <-c.in:
		return c.hear(h)
	case err := <-c.broken:
		c.sendErr, c.brokenTo = err, now.Add(sinceBroken) // the reason comes from the other direction
	case a := <-c.p.asks:
		if c.p.answer(ctx, a) {
			return end{endAsked, ""}
		}
	case <-stop:
		c.closing, c.batch = true, nil
	case <-ctx.Done():
		return end{endClosed, ""}
	}
	return end{}
}

// waits is how long nothing is due.
func (c *conn) waits(now time.Time) time.Duration {
	until := now.Add(time.Hour)
	for _, t := range []time.Time{c.ackDue, c.flushDue, c.brokenTo} {
		if !t.IsZero() && t.Before(until) {
			until = t
		}
	}
	if (c.log.AtEnd() || c.room()) && c.restTo.After(now) && c.restTo.Before(until) {
		until = c.restTo
	} else if c.mayRead(now) {
		until = now
	}
	if c.untold() && c.quietDue.Before(until) {
		until = c.quietDue
	}
	return until.Sub(now)
}

func (c *conn) mayRead(now time.Time) bool {
	return !c.closing && !c.log.AtEnd() && c.room() && c.brokenTo.IsZero() && !now.Before(c.restTo)
}

// untold reports whether records have been read that nobody wants, and nothing is on its way that says so. The cursor
// never goes over what the subscriber was not told of: it could not tell the next stream's beginning from a hole.
func (c *conn) untold() bool {
	return c.ackDue.IsZero() && !c.closing && c.brokenTo.IsZero() && c.batch != nil && len(c.batch.records) == 0 &&
		c.log.Next() > c.after+1 && c.room()
}

// room reports whether the window takes another batch. While suspects go one at a time it takes one.
func (c *conn) room() bool {
	if c.telling {
		return false
	}
	if c.p.careful() {
		return c.ackDue.IsZero() && len(c.sent) < c.p.set.Window
	}
	return len(c.sent) < c.p.set.Window
}

// due writes the cursor when it is time to.
func (c *conn) due(ctx context.Context, now time.Time) {
	p := c.p
	if p.acked == p.at.Seq {
		c.sent, c.flushDue = c.sent[c.settled():], time.Time{} // an operator's word may have written the cursor, too
		return
	}
	if now.Before(c.retryAt) {
		c.flushDue = c.retryAt
		return
	}
	settled := c.settled()
	if c.flushDue.IsZero() {
		c.flushDue = now.Add(flushAfter)
	}
	if now.Before(c.flushDue) && settled < max(1, p.set.Window/2) && (settled == 0 || len(c.sent) < p.set.Window) {
		return
	}
	if !c.flush(ctx) {
		c.retryAt = now.Add(logPause)
		c.flushDue = c.retryAt
		return
	}
	c.flushDue = time.Time{}
}

// settled is how many batches only wait for the cursor to be written.
func (c *conn) settled() (n int) {
	for n < len(c.sent) && c.sent[n].last <= c.p.acked {
		n++
	}
	return n
}

// flush writes the cursor.
func (c *conn) flush(ctx context.Context) (ok bool) {
	if err := c.p.move(ctx, c.p.acked); err != nil {
		if c.p.now.Detail != err.Error() {
			c.p.set.Report("subscriber %s: %v", c.p.set.Name, err)
		}
		c.p.now.Detail = err.Error()
		return false
	}
	c.p.now.Detail = ""
	c.sent = c.sent[c.settled():]
	return true
}
