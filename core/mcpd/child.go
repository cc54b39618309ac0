package mcpd

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/yett-dev/yett/sdk/exact"
)

// child is one process that speaks MCP on its standard input and output. Safe for concurrent use.
type child struct {
	l      *local
	name   string // under which it is found
	key    string // whose it is
	shared bool   // by several clients of the key, so that ids and progress tokens are replaced
	proc   Process

	writing chan struct{} // holds a token: who has it writes
	mu      sync.Mutex
	asked   map[string]*asking  // requests without an answer, by the id that the process knows
	order   []*asking           // the same, oldest first
	late    map[string]struct{} // ids of requests that were given up, whose answers may still come
	swaps   bool                // every id is replaced
	side    *asking             // the stream for what belongs to no request; nil: not open
	kept    []string            // for it, until it opens
	keptLen int                 // bytes in kept
	next    uint64              // number of the next value that stands in for a client's
	used    time.Time
	dead    bool
	gone    chan struct{} // closed with dead
}

// firstOwn begins the numbers that stand in for clients' ids: programs of every language know it exactly, and clients
// that count their requests never get there.
const firstOwn = 1 << 52

func newChild(l *local, name, key string, shared bool, p Process) *child {
	c := &child{l: l, name: name, key: key, shared: shared, proc: p, writing: make(chan struct{}, 1),
		asked: map[string]*asking{}, late: map[string]struct{}{}, swaps: shared, next: firstOwn, used: l.g.set.Now(),
		gone: make(chan struct{})}
	c.writing <- struct{}{}
	if !l.spawn(c.read) {
		c.kill()
	}
	return c
}

// read takes what the process says until it ends.
func (c *child) read() {
	err := lines(c.proc.Out(), int(c.l.g.set.Config.MaxResult), c.take)
	if err != nil && !errors.Is(err, io.EOF) {
		c.l.logs.Log("the command is ended: %v", err)
	}
	c.kill()
	c.l.drop(c)
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
	c.order, c.side, c.kept = nil, nil, nil
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
		c.l.logs.Log("the command wrote a line that is no message: %s", f.msg)
		return true
	}
	c.mu.Lock()
	a, text, done := c.route(m)
	if a == nil {
		kept := c.keep(m)
		c.mu.Unlock()
		if !kept {
			c.nobody(m)
		}
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
	if m.kind == response {
		key := idOf(m.id)
		if a = c.asked[key]; a == nil {
			delete(c.late, key)
			return nil, "", false
		}
		return a, apply(m.raw, a.id.back(m.id)), true
	}
	if m.kind == notification {
		if sub := m.params.Get("_meta").Get(metaSubscription); sub.Exists() {
			if a = c.asked[idOfAny(sub)]; a == nil {
				return nil, "", false
			}
			return a, apply(m.raw, a.id.back(sub)), false
		}
		if t := m.params.Get("progressToken"); t.Exists() {
			for _, b := range c.order {
				if key := idOfAny(t); key != "" && b.token.key == key {
					return b, apply(m.raw, b.token.back(t)), false
				}
			}
			if c.shared {
				return nil, "", false
			}
			return c.side, m.raw, false // of a request that has its answer: tasks tell so
		}
	}
	return c.anyone(), m.raw, false
}

// anyone is who gets what belongs to no request by itself: within a session the newest request, as servers speak while
// they work on one, else the stream beside. Among several clients nobody can tell whose it is. c.mu is held.
func (c *child) anyone() *asking {
	var newest *asking
	for _, a := range slices.Backward(c.order) {
		switch {
		case a.method == "subscriptions/listen": // it gets what bears its id
		case newest == nil:
			newest = a
		case c.shared:
			return nil
		}
	}
	if newest == nil {
		return c.side
	}
	return newest
}

// keep holds a message for the stream beside, until it opens. c.mu is held.
func (c *child) keep(m *message) bool {
	if m.kind == response || c.shared || c.dead || len(c.kept) == mostKept || c.keptLen+len(m.raw) > mostKeptBytes {
		return false
	}
	c.kept = append(c.kept, m.raw)
	c.keptLen += len(m.raw)
	return true
}

// nobody is for a message for which nobody waits. A request is answered, so that the server does not wait for ever: at
// once or never, as a process that floods does not read.
func (c *child) nobody(m *message) {
	c.l.logs.Log("dropped a message for which nobody waits")
	if m.kind != request {
		return
	}
	select {
	case <-c.writing:
		c.write(failure(m.id.Raw(), &fault{code: codeInternal, msg: "no client listens"}))
	default:
	}
}

// metaSubscription names the request that opened the stream of a notification.
const metaSubscription = "io.modelcontextprotocol/subscriptionId"

// idOfAny is idOf for a value that may be anything; "" for what is no id.
func idOfAny(v exact.Value) string {
	if v.Kind() != exact.String && v.Kind() != exact.Number {
		return ""
	}
	return idOf(v)
}

// ask sends a request, and gives the stream of what comes for it.
func (c *child) ask(ctx context.Context, o *outgoing) (*asking, error) {
	m, f := parse(o.body, c.l.g.lim)
	if f != nil {
		return nil, f
	}
	token := m.params.Get("_meta").Get("progressToken")
	a := &asking{c: c, ctx: ctx, method: m.method, modern: o.modern, in: make(chan said, mostOnTheWay),
		left: make(chan struct{}), id: swapped{key: idOf(m.id)}, token: swapped{key: idOfAny(token)}}
	c.mu.Lock()
	var edits []edit
	swap := func(s *swapped, v exact.Value) {
		c.next++
		n := strconv.FormatUint(c.next, 10)
		edits = append(edits, replace(v, n))
		*s = swapped{key: "n" + n, original: v.Raw()}
	}
	if _, taken := c.late[a.id.key]; taken || c.swaps { // else an answer could be taken for another's
		swap(&a.id, m.id)
	}
	if c.shared && a.token.key != "" {
		swap(&a.token, token)
	}
	switch {
	case c.dead:
		c.mu.Unlock()
		return nil, errNoSession
	case c.asked[a.id.key] != nil:
		c.mu.Unlock()
		return nil, &fault{code: codeInvalid, msg: "a request of this id has no answer yet: use each id once"}
	}
	c.asked[a.id.key], c.order, c.used = a, append(c.order, a), c.l.g.set.Now()
	c.mu.Unlock()
	if err := c.send(ctx, apply(o.body, edits)); err != nil {
		a.leave()
		return nil, err
	}
	return a, nil
}

// listen opens the stream beside all requests. There is one.
func (c *child) listen(ctx context.Context) (*asking, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead || c.side != nil {
		return nil, false
	}
	a := &asking{c: c, ctx: ctx, method: http.MethodGet, in: make(chan said, max(mostOnTheWay, len(c.kept))),
		left: make(chan struct{})}
	for _, text := range c.kept {
		a.in <- said{text: text}
	}
	c.side, c.kept, c.keptLen, c.used = a, nil, 0, c.l.g.set.Now()
	return a, true
}

// forget takes a request out. c.mu is held.
func (c *child) forget(a *asking) {
	if c.asked[a.id.key] != a {
		return
	}
	delete(c.asked, a.id.key)
	c.order = slices.DeleteFunc(c.order, func(b *asking) bool { return a == b })
	c.used = c.l.g.set.Now()
}

// abandon remembers an id whose answer may still come. c.mu is held.
func (c *child) abandon(key string) {
	switch {
	case c.swaps: // its number is never used again
	case len(c.late) == mostLate:
		c.swaps = true
	default:
		c.late[strings.Clone(key)] = struct{}{}
	}
}
