package mcpd

import (
	"context"
	"errors"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/yett-dev/yett/sdk/exact"
)

// child is one process that speaks MCP on its standard input and output. Safe for concurrent use.
type child struct {
	l    *local
	key  string // whose it is
	proc Process

	writing chan struct{} // holds a token: who has it writes
	mu      sync.Mutex
	asked   map[string]*asking // requests without an answer, by the id that the process knows
	order   []*asking          // the same, oldest first
	side    *asking            // the stream for what belongs to no request; nil: not open
	kept    []string           // for it, until it opens
	next    uint64             // number of the next request whose id is replaced
	used    time.Time
	dead    bool
	gone    chan struct{} // closed with dead
}

// asking is one request, or the stream beside all, as events.
type asking struct {
	c        *child
	ctx      context.Context
	id       string // as the process knows it
	original string // the id as the client sent it; "" if it was not replaced
	token    string // the progress token of the request
	in       chan said
	first    *event
	last     bool // the answer was given
}

// said is one message of a process for one reader.
type said struct {
	text string
	last bool // it is the answer
}

func newChild(l *local, key string, p Process) *child {
	c := &child{l: l, key: key, proc: p, writing: make(chan struct{}, 1), asked: map[string]*asking{},
		used: l.g.set.Now(), gone: make(chan struct{})}
	c.writing <- struct{}{}
	go c.read()
	return c
}

// read takes what the process says until it ends.
func (c *child) read() {
	err := lines(c.proc.Out(), int(c.l.g.set.Config.MaxResult), c.take)
	if err != nil && !errors.Is(err, io.EOF) {
		c.l.g.set.Log("%s: the command is ended: %v", c.l.name, err)
	}
	c.kill()
}

func (c *child) kill() {
	c.proc.Kill()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return
	}
	c.dead = true
	close(c.gone)
	c.order, c.side = nil, nil
	clear(c.asked)
}

func (c *child) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dead
}

// idleSince is for how long nothing was asked; 0 while something is.
func (c *child) idleSince(now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.order) > 0 || c.side != nil {
		return 0
	}
	return now.Sub(c.used)
}

// take has one line of the process. It is false when no more are taken.
func (c *child) take(line string) bool {
	m, f := parseAnswer(line, c.l.g.lim)
	if f != nil {
		c.l.g.set.Log("%s: the command wrote a line that is no message", c.l.name)
		return true
	}
	c.mu.Lock()
	a, text, done := c.route(m)
	if a == nil {
		if m.kind != response && len(c.kept) < noneListensSoon && !c.dead {
			c.kept = append(c.kept, line)
		} else {
			c.l.g.set.Log("%s: dropped a message for which nobody waits", c.l.name)
		}
		c.mu.Unlock()
		return true
	}
	if done {
		c.forget(a)
	}
	c.mu.Unlock()
	return a.put(text, done)
}

// route finds whose a message is. text has the id that the client knows. c.mu is held.
func (c *child) route(m *message) (a *asking, text string, done bool) {
	switch m.kind {
	case response:
		if a = c.asked[idOf(m.id)]; a == nil {
			return nil, "", false
		}
		if a.original == "" {
			return a, m.raw, true
		}
		return a, apply(m.raw, []edit{replace(m.id, a.original)}), true
	case notification:
		sub := m.params.Get("_meta").Get("io.modelcontextprotocol/subscriptionId")
		if a = c.asked[idOfAny(sub)]; sub.Exists() && a != nil {
			if a.original == "" {
				return a, m.raw, false
			}
			return a, apply(m.raw, []edit{replace(sub, a.original)}), false
		}
		if t := m.params.Get("progressToken"); t.Exists() {
			for _, b := range c.order {
				if b.token == idOfAny(t) {
					return b, m.raw, false
				}
			}
			return nil, "", false
		}
	}
	if n := len(c.order); n > 0 {
		return c.order[n-1], m.raw, false
	}
	return c.side, m.raw, false
}

func idOfAny(v exact.Value) string {
	if v.Kind() != exact.String && v.Kind() != exact.Number {
		return ""
	}
	return idOf(v)
}

// put hands a message to whoever waits. A reader that takes none for a while is given up, so that it does not hold up
// the others of the process. It is false once the process is ended.
func (a *asking) put(text string, last bool) bool {
	late := time.NewTimer(slowestReader)
	defer late.Stop()
	select {
	case a.in <- said{text, last}:
	case <-a.ctx.Done():
	case <-late.C:
		a.leave()
	case <-a.c.gone:
		return false
	}
	return true
}

// ask sends a request, and gives the stream of what comes for it.
func (c *child) ask(ctx context.Context, o *outgoing) (*asking, error) {
	a := &asking{c: c, ctx: ctx, in: make(chan said, mostOnTheWay), id: idOf(o.msg.id),
		token: idOfAny(o.msg.params.Get("_meta").Get("progressToken"))}
	c.mu.Lock()
	body := o.body
	if o.session == "" && o.msg.method != "initialize" || o.modern { // others may use the same ids
		c.next++
		n := strconv.FormatUint(c.next, 10)
		a.id, a.original = "n"+n, o.msg.id.Raw()
		m, f := parse(body, c.l.g.lim)
		if f != nil {
			c.mu.Unlock()
			return nil, f
		}
		body = apply(body, []edit{replace(m.id, n)})
	}
	switch {
	case c.dead:
		c.mu.Unlock()
		return nil, errNoSession
	case c.asked[a.id] != nil:
		c.mu.Unlock()
		return nil, errors.New("a request of this id has no answer yet")
	}
	c.asked[a.id], c.order, c.used = a, append(c.order, a), c.l.g.set.Now()
	c.mu.Unlock()
	if err := c.write(ctx, body); err != nil {
		a.leave()
		return nil, err
	}
	return a, nil
}

// write sends one message.
func (c *child) write(ctx context.Context, body string) error {
	select {
	case <-c.writing:
	case <-ctx.Done():
		return ctx.Err()
	}
	done := make(chan error, 1)
	go func() { // a process that does not read must not hold the request up for ever
		_, err := io.WriteString(c.proc.In(), oneLine(body))
		c.writing <- struct{}{}
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// listen opens the stream beside all requests. There is one.
func (c *child) listen(ctx context.Context) (*asking, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead || c.side != nil {
		return nil, false
	}
	a := &asking{c: c, ctx: ctx, in: make(chan said, mostOnTheWay)}
	for _, text := range c.kept {
		a.in <- said{text: text}
	}
	c.side, c.kept, c.used = a, nil, c.l.g.set.Now()
	return a, true
}

// leave gives a request up, or closes the stream.
func (a *asking) leave() {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	a.c.forget(a)
	if a.c.side == a {
		a.c.side = nil
	}
}

// forget takes a request out. c.mu is held.
func (c *child) forget(a *asking) {
	if c.asked[a.id] != a {
		return
	}
	delete(c.asked, a.id)
	for i, b := range c.order {
		if a == b {
			c.order = append(c.order[:i:i], c.order[i+1:]...)
			break
		}
	}
	c.used = c.l.g.set.Now()
}

// next implements events.
func (a *asking) next() (event, error) {
	if e := a.first; e != nil {
		a.first = nil
		return *e, nil
	}
	if a.last {
		return event{}, io.EOF
	}
	select {
	case m := <-a.in:
		return a.give(m)
	case <-a.ctx.Done():
		return event{}, a.ctx.Err()
	case <-a.c.gone:
	}
	select { // what it said before its end
	case m := <-a.in:
		return a.give(m)
	default:
		return event{}, io.EOF
	}
}

func (a *asking) give(m said) (event, error) {
	a.last = m.last
	return event{raw: eventOf(m.text), data: m.text, has: true}, nil
}
