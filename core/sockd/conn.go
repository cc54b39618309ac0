package sockd

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yett-dev/yett/core/edge"
	"github.com/yett-dev/yett/core/peer"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
)

const (
	lastCall   = 100 * time.Millisecond // how long a connection of a draining server may still begin a message
	turnedAway = time.Second            // how long a connection that is one too many may take to read why
)

// conn is one connection. One goroutine, serve, reads and understands messages; workers run them; whoever finishes the
// oldest one writes.
type conn struct {
	s    *Server
	nc   *net.UnixConn
	raw  syscall.RawConn
	id   string // what its request ids begin with
	peer *caller

	guest *edge.Guest
	// serve's own
	lines   lines
	readBy  time.Time // what the read deadline is set to
	lineOf  string    // whose share the line that has begun holds, "" for somebody unknown
	lineBy  time.Time // when a line that has begun must be whole; zero: none has
	count   uint64    // of messages
	room    int       // how many messages may be taken before the pipeline is looked at again
	greeted bool      // there was a hello or an auth
	cred    credential
	run     []*task // understood, to be run
	refused []*task // answered already
	order   []*task // both, as they came

	stopping chan struct{} // closed when nothing is worth waiting for any more
	stop     sync.Once
	over     atomic.Bool // no further message is taken

	mu        sync.Mutex
	changed   sync.Cond // a task was answered, or the stream ended
	head      *task     // the oldest one that is not answered
	tail      *task
	n         int
	writing   bool // somebody is in flush
	ending    bool // serve waits for the last answer
	streaming bool
	endStream context.CancelFunc

	broken  atomic.Bool   // nothing can be written any more
	permits atomic.Uint64 // writes with a PERMIT that began or ended: odd while there is one
	looked  uint64        // what it was when cutStuck looked last; its own
	writeMu sync.Mutex
	writeBy time.Time // what the write deadline is set to
	out     []byte    // of whoever is in flush
}

func newConn(s *Server, nc *net.UnixConn) (*conn, error) {
	p, err := newCaller(s, nc)
	if err != nil {
		return nil, err
	}
	c := &conn{s: s, nc: nc, peer: p, id: s.set.NewID(), stopping: make(chan struct{})}
	c.lines.limit = int(s.set.Limits.Largest()) + lineSlack
	c.lines.may, c.lines.give = c.holdLine, c.giveLine
	c.changed.L = &c.mu
	c.raw, err = nc.SyscallConn()
	return c, err
}

// begin counts a request of a key in, until its answer is written.
func (c *conn) begin(key *store.Key, urgent bool) error {
	switch err := c.guest.Begin(key.ID, urgent); {
	case errors.Is(err, edge.ErrKeyShare):
		return sdk.Errf(sdk.CodeTooManyRequests, "this key has %d connections at once, and requests run on all of them "+
			"(limits.connections_per_key)", c.s.set.Limits.ConnectionsPerKey)
	case errors.Is(err, edge.ErrGone):
		return sdk.Errf(sdk.CodeTooManyRequests, "the connection was closed before this request: the last key on it was "+
			"killed or has ended, or others needed its place (limits.connections); connect again")
	case err != nil:
		return sdk.Errf(sdk.CodeTooManyRequests, "more than %d connections at once (limits.connections)",
			c.s.set.Limits.Connections)
	}
	return nil
}

// knowPeer counts a connection for a user who stands for a key, until it shows which. Where there is no room it is a
// stranger.
func (c *conn) knowPeer() {
	if c.peer.key != "" && c.guest.Begin(c.peer.user, false) == nil {
		c.guest.End()
	}
}

// holdLine takes n bytes more for a line that has begun: of what its key may hold, or of the little that all have
// together who are not known yet.
func (c *conn) holdLine(n int) bool {
	if c.lines.held == 0 {
		if c.lineOf = c.cred.id; c.lineOf == "" && !c.cred.tried {
			c.lineOf = c.peer.key
		}
	}
	if c.lineOf == "" {
		return c.s.strange.Take("", int64(n)) == nil
	}
	return c.s.bodies.Take(c.lineOf, int64(n)) == nil
}

func (c *conn) giveLine(n int) {
	if c.lineOf == "" {
		c.s.strange.Give("", int64(n))
		return
	}
	c.s.bodies.Give(c.lineOf, int64(n))
}

// turnAway says why in one line, which a fresh socket always has room for.
func (c *conn) turnAway(err *sdk.Error) {
	e := envelope{}
	if c.nc.SetWriteDeadline(time.Now().Add(turnedAway)) == nil {
		_, _ = c.nc.Write(e.appendError(nil, err, e.deniedAs(nil))) // whoever does not read it sees the end instead
	}
}

// serve reads until there is no more to take, and closes the connection when all is answered.
func (c *conn) serve() {
	defer c.s.forget(c)
	c.readAll()
	c.finish()
}

// errDone ends reading without a fault of the peer's.
var errDone = errors.New("done")

func (c *conn) readAll() {
	for {
		n, err := c.read(c.lines.room())
		c.lines.took(n)
		if c.takeLines() {
			c.discard()
			return
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			if line, ok := c.lines.rest(); ok {
				c.takeLine(line, false)
				c.dispatch()
			}
			return
		case errors.Is(err, errDone):
			return
		default:
			c.breakOff()
			return
		}
	}
}

// takeLines takes every whole line that was read and starts them together. It is true after a message that is this
// connection's last.
func (c *conn) takeLines() (last bool) {
	for !last {
		line, long, ok := c.lines.next()
		if !ok {
			break
		}
		last = c.takeLine(line, long)
	}
	c.dispatch()
	return last
}

// read is Read without timeouts while there is something to wait for. Deadlines are moved seldom: they cost more than a
// small read.
func (c *conn) read(p []byte) (int, error) {
	for {
		now := time.Now()
		idle := c.s.set.Limits.Idle.Std()
		if c.count == 0 {
			idle = c.s.set.Limits.FirstByte.Std()
		}
		if c.readBy.Sub(now) < idle {
			c.readBy = now.Add(idle + idle/4)
			_ = c.nc.SetReadDeadline(c.readBy) // fails on a closed connection only, which Read will tell
		}
		switch begun := c.lines.begun(); {
		case !begun:
			c.lineBy = time.Time{}
		case c.lineBy.IsZero():
			c.lineBy = now.Add(c.s.set.Limits.WholeRead.Std())
		case !now.Before(c.lineBy):
			return 0, errDone // a line may take so long and no longer: it is held in memory meanwhile
		}
		if !c.lineBy.IsZero() && c.lineBy.Before(c.readBy) {
			c.readBy = c.lineBy
			_ = c.nc.SetReadDeadline(c.readBy)
		}
		switch { // looked at behind the deadline, which drain and others set too
		case c.over.Load():
			return 0, errDone
		case c.s.draining.Load():
			return c.lastRead(p)
		}
		busy := c.busy() // asked before: what ends while we wait leaves the peer a whole wait to go on
		n, err := c.nc.Read(p)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		c.readBy = time.Time{}
		if !busy && !c.over.Load() && !c.s.draining.Load() {
			return 0, errDone // idle too long
		}
	}
}

// lastRead is read for a draining server: what was sent before the peer could know gets its refusal.
func (c *conn) lastRead(p []byte) (int, error) {
	for !c.over.Load() {
		busy := c.busy()
		_ = c.nc.SetReadDeadline(time.Now().Add(lastCall))
		n, err := c.nc.Read(p)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		if !busy {
			break
		}
	}
	return 0, errDone
}

// discard reads on without taking anything: the peer may go on sending into a half-closed connection.
func (c *conn) discard() {
	var buf [512]byte
	for {
		if _, err := c.read(buf[:]); err != nil {
			return
		}
	}
}

// busy says whether something runs, is being written or streams.
func (c *conn) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n > 0 || c.writing || c.streaming
}

// finish waits for the last answer and closes. A peer that goes away meanwhile lets waiting operations go; those that
// change something run to their end.
func (c *conn) finish() {
	c.mu.Lock()
	c.ending = true
	c.mu.Unlock()
	for c.wait() {
		err := c.raw.Read(func(fd uintptr) bool { return peer.HungUp(fd) })
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			c.breakOff()
			c.mu.Lock()
			for c.n > 0 || c.writing || c.streaming {
				c.changed.Wait()
			}
			c.mu.Unlock()
			break
		}
	}
	c.leave()
}

// wait clears the deadline that wakes finish up, and says whether there is still something to wait for.
func (c *conn) wait() bool {
	_ = c.nc.SetReadDeadline(time.Time{}) // on a closed connection the wait ends at once
	return c.busy()
}

// leave closes so that the peer sees all that was written and then the end: what lies unread at a close would be
// reported to it as a reset.
func (c *conn) leave() {
	_ = c.nc.CloseWrite() // fails if the peer is gone
	_ = c.raw.Read(func(fd uintptr) bool {
		var buf [4096]byte
		for range 256 {
			if n, err := unix.Read(int(fd), buf[:]); n <= 0 || err != nil {
				break
			}
		}
		return true
	})
	_ = c.nc.Close() // nothing more can be said to anybody
}

// wake makes serve look again, once it is in finish. c.mu is held.
func (c *conn) wake() {
	c.changed.Broadcast()
	if c.ending && c.n == 0 && !c.writing && !c.streaming {
		_ = c.nc.SetReadDeadline(past)
	}
}

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// endTaking makes serve take no further message.
func (c *conn) endTaking() {
	c.over.Store(true)
	_ = c.nc.SetReadDeadline(past)
}

// breakOff is for a peer that is gone or does not read: nothing is written any more, and nobody waits.
func (c *conn) breakOff() {
	c.broken.Store(true)
	c.letGo()
	c.mu.Lock()
	end := c.endStream
	c.mu.Unlock()
	if end != nil {
		end()
	}
	c.endTaking()
}

// letGo ends long polls, and asks a stream to end.
func (c *conn) letGo() { c.stop.Do(func() { close(c.stopping) }) }

// drain is breakOff for a server that is going down: answers are still written.
func (c *conn) drain() {
	c.letGo()
	_ = c.nc.SetReadDeadline(past)
}

// cut ends the connection now.
func (c *conn) cut() {
	c.breakOff()
	_ = c.nc.Close()
}
