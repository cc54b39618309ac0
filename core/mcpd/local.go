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
	mostChildren    = 256
	mostPerKey      = 32
	childIdle       = 30 * time.Minute // without a request, it is ended
	lookAtChildren  = time.Minute
	mostOnTheWay    = 64 // messages that wait for one reader
	slowestReader   = 30 * time.Second
	noneListensSoon = 32 // messages kept for a stream that is not open yet
)

// local is a server that the gateway runs. A session of the older era has a process of its own, so that what the
// server remembers is the session's; requests of the newer era, which has no sessions, share one process of their
// key. Safe for concurrent use.
type local struct {
	name string
	g    *Gateway
	set  *config.MCPServer

	mu       sync.Mutex
	children map[string]*child // by session id, or by "key:" and the key's id
	closed   bool
	ended    chan struct{}
	watching sync.WaitGroup
}

func newLocal(name string, g *Gateway, set *config.MCPServer) (*local, error) {
	if g.set.Start == nil {
		return nil, errors.New("this gateway runs no commands")
	}
	l := &local{name: name, g: g, set: set, children: map[string]*child{}, ended: make(chan struct{})}
	l.watching.Go(l.watch)
	return l, nil
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
		}
		now := l.g.set.Now()
		l.mu.Lock()
		for id, c := range l.children {
			if c.idleSince(now) > childIdle || c.over() {
				delete(l.children, id)
				go c.kill()
			}
		}
		l.mu.Unlock()
	}
}

func (l *local) close() {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.ended)
	}
	all := l.children
	l.children = map[string]*child{}
	l.mu.Unlock()
	for _, c := range all {
		c.kill()
	}
	l.watching.Wait()
}

// find gives the process of a request, starting it where there may be a new one.
func (l *local) find(o *outgoing) (*child, string, error) {
	id, fresh := o.session, false
	switch {
	case id != "":
	case o.msg != nil && o.msg.method == "initialize" && !o.modern:
		var raw [12]byte
		l.g.set.Random(raw[:])
		id, fresh = hexOf(raw[:]), true
	default:
		id, fresh = "key:"+o.key, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.children[id]; c != nil && !c.over() {
		return c, id, nil
	}
	if !fresh {
		return nil, "", errNoSession
	}
	if err := l.makeRoom(o.key); err != nil {
		return nil, "", err
	}
	p, err := l.g.set.Start(l.name, l.set)
	if err != nil {
		return nil, "", err
	}
	c := newChild(l, o.key, p)
	l.children[id] = c
	return c, id, nil
}

// makeRoom ends the process of the key that was idle longest, if the key or the server has as many as it may. l.mu is
// held.
func (l *local) makeRoom(key string) error {
	if l.closed {
		return errors.New("the gateway is going down")
	}
	own := 0
	var oldest string
	var longest time.Duration
	now := l.g.set.Now()
	for id, c := range l.children {
		if c.key != key {
			continue
		}
		own++
		if d := c.idleSince(now); d > longest {
			oldest, longest = id, d
		}
	}
	if own < mostPerKey && len(l.children) < mostChildren {
		return nil
	}
	if oldest == "" {
		return fmt.Errorf("all %d processes of this key are busy, or all %d of the server are taken", mostPerKey,
			mostChildren)
	}
	go l.children[oldest].kill()
	delete(l.children, oldest)
	return nil
}

// send implements upstream.
func (l *local) send(ctx context.Context, o *outgoing) (*incoming, error) {
	if o.wrote != nil {
		defer o.wrote()
	}
	c, id, err := l.find(o)
	if err != nil {
		return nil, err
	}
	switch o.method {
	case http.MethodDelete:
		l.mu.Lock()
		delete(l.children, id)
		l.mu.Unlock()
		c.kill()
		return &incoming{status: http.StatusOK, end: func() {}}, nil
	case http.MethodGet:
		s, ok := c.listen(ctx)
		if !ok {
			return &incoming{status: http.StatusConflict, end: func() {}}, nil
		}
		return &incoming{status: http.StatusOK, events: s, end: s.leave}, nil
	}
	if o.msg.kind != request {
		return &incoming{status: http.StatusAccepted, end: func() {}}, c.write(ctx, o.body)
	}
	ctx, cancel := context.WithTimeout(ctx, l.set.Timeout.Std())
	s, err := c.ask(ctx, o)
	if err != nil {
		cancel()
		return nil, err
	}
	in := &incoming{status: http.StatusOK, end: func() { s.leave(); cancel() }}
	if o.msg.method == "initialize" {
		in.session = id
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
