package mcpd

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/edge"
)

// Process is a running command: its standard input and output, and its end. *supervise.Process is one.
type Process interface {
	// In is its standard input.
	In() io.WriteCloser
	// Out is its standard output.
	Out() io.Reader
	// Kill ends it and all that it started.
	Kill()
	// Done is closed when it has ended.
	Done() <-chan struct{}
}

// The bounds of the processes of one server.
const (
	mostChildren   = 256
	mostPerKey     = 32
	childIdle      = 30 * time.Minute // without a request, it is ended
	lookAtChildren = time.Minute
	mostOnTheWay   = 8 // messages that wait for one reader
	slowestReader  = 30 * time.Second
	mostKept       = 32 // messages kept for a stream that is not open yet
	mostKeptBytes  = 1 << 20
	mostLate       = 1024
	logEvery       = time.Second
)

// local is a server that the gateway runs. A session of the older era has a process of its own, so that what the
// server remembers is the session's; requests of the newer era, which has no sessions, share one process of their
// key. Safe for concurrent use.
type local struct {
	name string
	g    *Gateway
	set  *config.MCPServer
	logs *edge.Throttle // what a process can cause

	mu      sync.Mutex
	slots   map[string]*slot // by session, or by "key:" and the key's id
	closed  bool
	ended   chan struct{}
	running sync.WaitGroup // what was started here
}

// slot is the place of one process.
type slot struct {
	key   string        // whose it is
	ready chan struct{} // closed when it has started, or has not
	c     *child        // nil with err
	err   error
}

func newLocal(name string, g *Gateway, set *config.MCPServer) (*local, error) {
	if g.set.Start == nil {
		return nil, errors.New("this gateway runs no commands")
	}
	l := &local{name: name, g: g, set: set, slots: map[string]*slot{}, ended: make(chan struct{}),
		logs: edge.NewThrottle("mcp: "+name, logEvery, g.set.Log)} // apart from what clients cause
	l.running.Go(l.watch)
	return l, nil
}

// spawn runs f, and close waits for it. It is false once the gateway goes down.
func (l *local) spawn(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.running.Go(f)
	}
	return !l.closed
}

// watch ends processes that nobody uses.
func (l *local) watch() {
	tick := time.NewTicker(lookAtChildren)
	defer tick.Stop()
	for {
		select {
		case <-l.ended:
			return
		case <-tick.C:
			l.endIdle()
		}
	}
}

func (l *local) endIdle() {
	now := l.g.set.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, s := range l.slots {
		if c := s.started(); c != nil && c.idleSince(now) > childIdle {
			delete(l.slots, name)
			c.kill()
		}
	}
}

// started is the process of a slot, nil while there is none.
func (s *slot) started() *child {
	select {
	case <-s.ready:
		return s.c
	default:
		return nil
	}
}

// drop takes out a process that has ended.
func (l *local) drop(c *child) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.slots[c.name]; s != nil && s.started() == c {
		delete(l.slots, c.name)
	}
}

func (l *local) close() {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.ended)
	}
	all := l.slots
	l.slots = map[string]*slot{}
	l.mu.Unlock()
	for _, s := range all {
		if <-s.ready; s.c != nil {
			s.c.kill()
		}
	}
	l.running.Wait()
}

// errDown answers requests that come too late.
var errDown = errors.New("the gateway is going down")

// find gives the process of a request, starting it where there may be a new one.
func (l *local) find(o *outgoing) (*child, error) {
	name, fresh, shared := o.session, false, false
	switch {
	case o.msg != nil && o.msg.method == "initialize" && !o.modern:
		var raw [12]byte
		l.g.set.Random(raw[:])
		name, fresh = hexOf(raw[:]), true
	case name == "":
		name, fresh, shared = "key:"+o.key, true, true
	}
	for {
		s, mine, err := l.slotOf(name, o.key, fresh)
		if err != nil {
			return nil, err
		}
		if mine {
			l.start(s, name, shared)
		}
		<-s.ready
		switch {
		case s.err != nil:
			return nil, s.err
		case !s.c.over():
			return s.c, nil
		}
		l.drop(s.c)
	}
}

// slotOf gives the slot of a name. mine says that the caller starts what is to be in it.
func (l *local) slotOf(name, key string, fresh bool) (s *slot, mine bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch s = l.slots[name]; {
	case s != nil:
		return s, false, nil
	case !fresh:
		return nil, false, errNoSession
	case l.closed:
		return nil, false, errDown
	}
	if err := l.makeRoom(key); err != nil {
		return nil, false, err
	}
	s = &slot{key: key, ready: make(chan struct{})}
	l.slots[name] = s
	return s, true, nil
}

// start runs the command for a slot.
func (l *local) start(s *slot, name string, shared bool) {
	p, err := l.g.set.Start(l.name, l.set)
	if err != nil {
		s.err = fmt.Errorf("the command cannot be started: %w", err)
		l.mu.Lock()
		delete(l.slots, name)
		l.mu.Unlock()
	} else {
		s.c = newChild(l, name, s.key, shared, p)
	}
	close(s.ready)
}

// makeRoom ends the process of the key that was idle longest, if the key or the server has as many as it may. l.mu is
// held.
func (l *local) makeRoom(key string) error {
	own := 0
	var oldest *child
	var longest time.Duration
	now := l.g.set.Now()
	for _, s := range l.slots {
		if s.key != key {
			continue
		}
		own++
		if c := s.started(); c != nil {
			if d := c.idleSince(now); d > longest {
				oldest, longest = c, d
			}
		}
	}
	switch {
	case own < mostPerKey && len(l.slots) < mostChildren:
		return nil
	case oldest == nil:
		return &fault{code: codeInternal, msg: fmt.Sprintf("no process is left for this session: a key may have %d and "+
			"the server %d at once, and all are busy; end one, or try again later", mostPerKey, mostChildren)}
	}
	delete(l.slots, oldest.name)
	oldest.kill()
	return nil
}

// send implements upstream.
func (l *local) send(ctx context.Context, o *outgoing) (*incoming, error) {
	if o.wrote != nil {
		defer o.wrote()
	}
	if o.method != http.MethodPost && o.session == "" { // nothing that belongs to one client alone
		return &incoming{status: http.StatusMethodNotAllowed, end: func() {}}, nil
	}
	c, err := l.find(o)
	if err != nil {
		return nil, err
	}
	switch o.method {
	case http.MethodDelete:
		c.kill()
		l.drop(c)
		return &incoming{status: http.StatusOK, end: func() {}}, nil
	case http.MethodGet:
		s, ok := c.listen(ctx)
		if !ok {
			return &incoming{status: http.StatusConflict, end: func() {}}, nil
		}
		return &incoming{status: http.StatusOK, events: s, end: s.leave}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, l.set.Timeout.Std())
	if o.msg.kind != request {
		defer cancel()
		return &incoming{status: http.StatusAccepted, end: func() {}}, c.notify(ctx, o)
	}
	s, err := c.ask(ctx, o)
	if err != nil {
		cancel()
		return nil, err
	}
	if o.wrote != nil {
		o.wrote()
	}
	in := &incoming{status: http.StatusOK, end: func() { s.leave(); cancel() }}
	if o.msg.method == "initialize" {
		in.session = c.name
	}
	first, err := s.next()
	switch {
	case err != nil:
		in.end()
		return nil, fmt.Errorf("the command ended or did not answer: %w", err)
	case s.last:
		in.one = first.data
	default:
		s.first = &first
		in.events = s
	}
	return in, nil
}

// oneLine is a message on one line: outside of strings a line's end means nothing, and inside there is none.
func oneLine(body string) string {
	return strings.NewReplacer("\n", " ", "\r", " ").Replace(body) + "\n"
}

// lines reads the lines of a process.
func lines(from io.Reader, most int, each func(line string) bool) error {
	in := bufio.NewReaderSize(from, 64<<10)
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > most:
			return errTooLong
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		}
		if text := bytes.TrimSpace(line); len(text) > 0 && !each(string(text)) {
			return nil
		}
		line = line[:0]
		if err != nil {
			return err
		}
	}
}
