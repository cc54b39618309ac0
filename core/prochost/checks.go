package prochost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
)

// lateFor is how long the place of a call that was late stays taken while its answer does not come. Then the answer
// counts as lost, so that a plugin which forgets calls does not lose all places.
const lateFor = 10 * time.Second

// ErrLost is the error of a call that was in flight when its process or connection ended.
var ErrLost = errors.New("the plugin ended while it was asked")

// ask is one check on its way. Whoever takes it out of checks.pending completes it.
type ask struct {
	done  chan struct{} // of capacity 1; filled once
	got   answer
	err   error
	place func()      // gives the place back; set when the caller left before the answer came
	lost  *time.Timer // with place: writes the call down as lost
}

var asks = sync.Pool{New: func() any { return &ask{done: make(chan struct{}, 1)} }}

// checks is one long-lived CheckStream: one writer, one reader, answers matched by id.
type checks struct {
	stream grpc.ClientStream
	fail   func(error) // ends the session
	strays *atomic.Uint64
	wake   chan struct{} // of capacity 1: there is something to write

	mu        sync.Mutex
	pending   map[uint64]*ask
	last      uint64     // id
	queue     []outgoing // of calls that nobody has given up: so there are never more than places
	forgotten uint64     // calls that were written down as lost: each may still be answered, once
	dead      error
}

// openChecks opens the stream and starts its two goroutines, which end with the session.
func openChecks(s *Session, strays *atomic.Uint64) (*checks, error) {
	desc := &grpc.StreamDesc{StreamName: "CheckStream", ServerStreams: true, ClientStreams: true}
	stream, err := s.conn.NewStream(s.ctx, desc, pluginv1.Authorizer_CheckStream_FullMethodName,
		grpc.ForceCodecV2(checkCodec{}))
	if err != nil {
		return nil, fmt.Errorf("CheckStream: %w", plain(err))
	}
	c := &checks{stream: stream, fail: s.fail, strays: strays, wake: make(chan struct{}, 1), pending: map[uint64]*ask{}}
	if !s.spawn(func() { c.write(s.ctx) }) || !s.spawn(c.read) {
		return nil, errLost
	}
	return c, nil
}

// write sends what is queued. A plugin that does not read blocks this goroutine only, until the session ends.
func (c *checks) write(ctx context.Context) {
	var batch []outgoing
	for {
		select {
		case <-c.wake:
		case <-ctx.Done():
			c.end(context.Cause(ctx))
			return
		}
		c.mu.Lock()
		batch, c.queue = c.queue, batch[:0]
		c.mu.Unlock()
		for i := range batch {
			if err := c.stream.SendMsg(&batch[i]); err != nil {
				if !errors.Is(err, io.EOF) { // at EOF the reader knows why
					c.end(fmt.Errorf("CheckStream: %w", plain(err)))
				}
				return
			}
			batch[i] = outgoing{}
		}
	}
}

// read matches answers until the stream ends.
func (c *checks) read() {
	for {
		var got answer
		err := c.stream.RecvMsg(&got)
		switch {
		case errors.Is(err, io.EOF):
			err = errors.New("it ended the stream of checks")
		case err != nil:
			err = fmt.Errorf("CheckStream: %w", quoted(err))
		default:
			err = c.completeCheck(&got)
		}
		if err != nil {
			c.end(err)
			return
		}
	}
}

// completeCheck completes the call that an answer is for. One that nobody waits for any more is counted and dropped;
// one to what was never asked, or was answered before, is a reason to end the session: else a plugin could keep us busy
// with as many as it likes.
func (c *checks) completeCheck(got *answer) error {
	c.mu.Lock()
	a, there := c.pending[got.id]
	delete(c.pending, got.id)
	unknown := got.id == 0 || got.id > c.last
	twice := !unknown && !there && c.forgotten == 0
	if !unknown && !there && !twice {
		c.forgotten--
	}
	c.mu.Unlock()
	switch {
	case unknown:
		return fmt.Errorf("it answered id %d, which was not asked", got.id)
	case twice:
		return fmt.Errorf("it answered id %d a second time", got.id)
	case !there:
		c.strays.Add(1)
	case a.place != nil:
		c.strays.Add(1)
		a.giveBack()
	default:
		a.got = *got
		a.done <- struct{}{}
	}
	return nil
}

// end fails everything that is on its way, and the session.
func (c *checks) end(why error) {
	c.mu.Lock()
	if c.dead == nil {
		c.dead = why
	}
	lost := c.pending
	c.pending, c.queue = map[uint64]*ask{}, nil
	c.mu.Unlock()
	c.fail(why)
	for _, a := range lost {
		if a.place != nil {
			a.giveBack()
			continue
		}
		a.err = fmt.Errorf("%w: %w", ErrLost, why)
		a.done <- struct{}{}
	}
}

// begin registers a call and hands its request to the writer.
func (c *checks) begin(r *request) (*ask, error) {
	a := asks.Get().(*ask)
	a.err, a.place, a.lost = nil, nil, nil
	c.mu.Lock()
	if c.dead != nil {
		c.mu.Unlock()
		return nil, fmt.Errorf("%w: %w", ErrLost, c.dead)
	}
	c.last++
	r.id = c.last
	c.pending[r.id] = a
	c.mu.Unlock()
	out := r.encode()
	c.mu.Lock()
	if c.dead == nil {
		c.queue = append(c.queue, out)
	}
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return a, nil
}

// check asks and waits for the answer, at most until the deadline or the end of ctx. place gives back the call's place:
// at once, or when the answer to a call that was late comes or is given up.
func (c *checks) check(ctx context.Context, r *request, place func()) (answer, error) {
	a, err := c.begin(r)
	if err != nil {
		place()
		return answer{}, err
	}
	t := startTimer(time.Until(r.deadline))
	defer t.end()
	select {
	case <-a.done:
	case <-t.c():
		return answer{}, c.leave(a, r.id, place, errLate)
	case <-ctx.Done():
		return answer{}, c.leave(a, r.id, place, ctx.Err())
	}
	place()
	if a.err != nil {
		return answer{}, a.err
	}
	got := a.got
	a.got = answer{}
	asks.Put(a)
	return got, nil
}

// leave gives a call up. Its answer, if it comes, counts for nothing. If it was not even sent, since the plugin does
// not read, it is taken back: nothing may heap up for such a plugin.
func (c *checks) leave(a *ask, id uint64, place func(), why error) error {
	c.mu.Lock()
	_, there := c.pending[id]
	unsent := there && c.takeBack(id)
	if there && !unsent {
		a.place, a.lost = place, time.AfterFunc(lateFor, func() { c.forget(id) })
	}
	c.mu.Unlock()
	if !there || unsent { // it was completed just now, or the plugin will never hear of it
		place()
	}
	return why
}

// forget writes a call that was given up down as lost, unless it was answered meanwhile.
func (c *checks) forget(id uint64) {
	c.mu.Lock()
	a, still := c.pending[id]
	delete(c.pending, id)
	if still {
		c.forgotten++
	}
	c.mu.Unlock()
	if still {
		a.giveBack()
	}
}

// giveBack ends what its caller left behind. The ask is out of checks.pending.
func (a *ask) giveBack() {
	a.lost.Stop()
	a.place()
}

// takeBack takes a request out of what is to be written, with mu held. false: the writer has it.
func (c *checks) takeBack(id uint64) bool {
	at := slices.IndexFunc(c.queue, func(o outgoing) bool { return o.id == id })
	if at < 0 {
		return false
	}
	mem.DefaultBufferPool().Put(c.queue[at].buf)
	c.queue = slices.Delete(c.queue, at, at+1)
	delete(c.pending, id)
	return true
}
