package sockd

import (
	"errors"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// keptWorkers is how many workers may wait for work. A worker that is used again has its stack grown already.
const keptWorkers = 1024

// pool runs tasks on goroutines that are used again, the one that worked last first.
type pool struct {
	mu     sync.Mutex
	idle   []chan *task
	closed bool
}

// start hands tasks to workers and returns.
func (p *pool) start(s *Server, ts []*task) {
	for len(ts) > 0 {
		var some [64]chan *task
		p.mu.Lock()
		from := max(0, len(p.idle)-min(len(ts), len(some)))
		n := copy(some[:], p.idle[from:])
		p.idle = p.idle[:from]
		p.mu.Unlock()
		for i := range n {
			some[i] <- ts[i]
		}
		ts = ts[n:]
		if n < len(some) {
			break
		}
	}
	for _, t := range ts {
		s.workers.Go(func() { p.work(s, t) })
	}
}

func (p *pool) work(s *Server, t *task) {
	next := make(chan *task, 1)
	for ok := true; ok; t, ok = <-next {
		s.run(t)
		if !p.park(next) {
			return
		}
	}
}

// park puts a worker among those that wait; false tells it to end.
func (p *pool) park(w chan *task) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) >= keptWorkers {
		return false
	}
	p.idle = append(p.idle, w)
	return true
}

// close ends the workers that wait; those that work end behind their task.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, w := range p.idle {
		close(w)
	}
	p.idle = nil
}

// run runs one task to its answer.
func (s *Server) run(t *task) {
	resp, err := s.operate(t)
	var replay *ops.Replay
	if err != nil && errors.As(err, &replay) {
		resp, err = replay.Response(), nil
	}
	if err == nil && !t.env.mute {
		err = t.answer(resp)
	}
	if err != nil {
		e := shown(err)
		if wire.StatusOf(e.Code).HTTP >= 500 && e.Code != sdk.CodeOverloaded { // strangers must not fill the log
			s.set.Log("socket: %s: request %s: %s", t.op.Name, t.requestID(), ops.Keyless(err.Error()))
		}
		if !t.env.mute {
			t.out = t.env.appendError(t.out, e, t.env.deniedAs(t.op))
		}
	}
	if t.stream == nil && !t.req.Permitted() { // a PERMIT is looked at once more before it is written
		t.shed()
	}
	s.inFlight.Leave(t.holder, t.urgent)
	t.c.answered(t)
}

// answer writes what the operation gave. It is an error where that is to be read and nothing more may be held.
func (t *task) answer(resp ops.Response) error {
	if d, ok := resp.(*wire.GovernResponse); ok {
		t.says = d.Decision
	}
	if t.out = t.env.appendAnswer(t.out, resp); t.op.Method != http.MethodGet {
		return nil
	}
	if err := t.holdAnswer(); err != nil {
		t.out = nil
		return err
	}
	return nil
}

// operate finds who asks and runs the operation.
func (s *Server) operate(t *task) (ops.Response, error) {
	c := t.c
	key, method, err := c.keyOf(t)
	if err != nil {
		s.set.Service.Refused(s.base, err, "socket", c.peer.text)
		return nil, err
	}
	if err := c.begin(key, t.op.UrgentFor(key)); err != nil {
		return nil, err
	}
	t.begun = true
	start := s.set.Now()
	t.req = ops.Request{Key: key, Start: start, Body: t.env.body, Raw: t.env.body.Raw(), Stopping: c.stopping,
		Who: store.Who{Principal: key.ID, Method: method, Surface: "socket", Peer: c.peer.text, RequestID: t.requestID()}}
	if s.set.Trace != nil {
		t.req.Trace = s.set.Trace()
	}
	if t.op.Stream.Open != nil {
		return c.subscribe(t)
	}
	t.ctx.Set(s.base, start.Add(s.set.Timeout), s.set.Now)
	defer t.ctx.Release()
	t.req.Ctx = &t.ctx
	if err := s.set.Service.Begin(t.op, &t.req, t.size); err != nil {
		return nil, err
	}
	defer t.req.End()
	resp, err := s.set.Service.Run(t.op, &t.req)
	if err == nil && resp == nil {
		err = sdk.Errf(sdk.CodeInternal, "%s gave no answer", t.op.Name)
	}
	return resp, err
}

// answered notes that a task is done. Whoever is done with the oldest one writes it and all that are done behind it.
func (c *conn) answered(t *task) {
	c.mu.Lock()
	t.done = true
	if c.writing || c.head != t {
		c.mu.Unlock()
		return // whoever writes, or is done with the oldest one, takes it along
	}
	c.writing = true
	c.mu.Unlock()
	runtime.Gosched() // those that were woken by the same write to the disk get done first: fewer, larger writes
	c.flush()
}

// writeBytes is how much is written at once, unless one answer is longer.
const writeBytes = 64 << 10

// flush writes answers in order until the oldest one is not done. Only one goroutine is in it: the one that set
// writing.
func (c *conn) flush() {
	for {
		c.mu.Lock()
		first, last := c.doneTasks()
		if first == nil {
			c.writing = false
			c.wake()
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		c.write(first, last)
	}
}

// doneTasks takes the tasks that are done off the queue's front: as many as make one write. c.mu is held.
func (c *conn) doneTasks() (first, last *task) {
	size := 0
	for t := c.head; t != nil && t.done; t = t.next {
		if size += len(t.out); size > writeBytes && first != nil {
			break
		}
		if first == nil {
			first = t
		}
		last = t
		c.n--
		if t.once || t.stream != nil {
			break
		}
	}
	if last != nil {
		if c.head = last.next; c.head == nil {
			c.tail = nil
		}
		last.next = nil
	}
	return first, last
}

func (c *conn) write(first, last *task) {
	permits := false
	for t := first; t != nil; t = t.next {
		permits = permits || t.req.Permitted()
	}
	if permits {
		defer c.s.set.Service.Leave(c.s.set.Service.Enter()) // a kill that is answered from here on waits for this write
	}
	for c.withholdSome(first) { // each takes a write to the disk, and another kill may come meanwhile
	}
	buf := first.out
	if first != last {
		c.out = c.out[:0]
		for t := first; t != nil; t = t.next {
			c.out = append(c.out, t.out...)
		}
		buf = c.out
	}
	if permits { // from here on it is the client that may keep a kill waiting
		c.permits.Add(1)
	}
	if len(buf) > 0 {
		c.send(buf)
	}
	if permits {
		c.permits.Add(1)
	}
	if last.stream != nil {
		last.stream.begin()
	}
	if last.once {
		_ = c.nc.CloseWrite() // fails if the peer is gone
	}
	for t := first; t != nil; {
		next := t.next
		t.recycle()
		t = next
	}
}

// withholdSome withholds what a kill covers by now, of tasks that are written together. It reports whether there was
// any.
func (c *conn) withholdSome(first *task) (some bool) {
	for t := first; t != nil; t = t.next {
		if t.says != nil && c.s.set.Service.Overtaken(&t.req) {
			c.withhold(t)
			t.says, some = nil, true
		}
	}
	return some
}

// withhold puts a denial in place of a PERMIT that waited for its turn while a kill came into effect.
func (c *conn) withhold(t *task) {
	d := c.s.set.Service.Withheld(c.s.base, &t.req, t.says)
	t.out = t.env.appendAnswer(t.out[:0], &wire.GovernResponse{Decision: d, Denial: wire.DenialOf(d)})
}

// send writes whole lines. A peer that takes nothing for as long as Stuck is cut off.
func (c *conn) send(b []byte) {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	if c.broken.Load() {
		return
	}
	if now := time.Now(); c.writeBy.Sub(now) < c.s.set.Stuck {
		c.writeBy = now.Add(c.s.set.Stuck + c.s.set.Stuck/2)
		_ = c.nc.SetWriteDeadline(c.writeBy) // fails on a closed connection only, which Write will tell
	}
	if _, err := c.nc.Write(b); err != nil {
		c.breakOff()
	}
}
