package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
)

// pipelined is how many requests of one connection may wait for their answers: the server runs so many at once.
const pipelined = 256

// socketLink is the socket transport: one connection that all short calls share, made again when it is lost. Answers come
// in the order of the requests, so a call that waits gets a connection of its own.
type socketLink struct {
	path, key string
	dialer    func(ctx context.Context, path string) (net.Conn, error)

	mu      sync.Mutex
	shared  *conn
	own     map[*conn]bool // connections of calls that wait
	dialing chan struct{} // closed when the dial that runs now is over
	closed  bool
}

func dialUnix(ctx context.Context, path string) (net.Conn, error) {
	if len(path) > 107 {
		return nil, &Error{Code: sdk.CodeInvalidField, Field: "Socket", Detail: fmt.Sprintf("the socket's path is %d bytes long, more than the system's limit of 107", len(path))}
	}
	d := net.Dialer{Timeout: 10 * time.Second}
	return d.DialContext(ctx, "unix", path)
}

// send makes one attempt.
func (l *socketLink) send(ctx context.Context, r *request, _ string) (*reply, error) {
	own := r.wait > 0 || r.once || r.op.again != always // a stale connection would leave open whether it was seen
	c, err := l.connection(ctx, own)
	if err != nil {
		return nil, err
	}
	if own {
		defer l.release(c)
	}
	root, err := c.call(ctx, r.op.socket, r.body)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		l.drop(c) // what does not answer in time must not hold up the next call
	}
	if err != nil {
		return nil, err
	}
	return &reply{root: root, status: 200, header: func(string) string { return "" }}, nil
}

// connection gives the shared connection, or one that is the caller's own.
func (l *socketLink) connection(ctx context.Context, own bool) (*conn, error) {
	if own {
		c, err := l.dial(ctx)
		if err != nil {
			return nil, err
		}
		return c, l.keep(c)
	}
	for {
		l.mu.Lock()
		switch {
		case l.closed:
			l.mu.Unlock()
			return nil, ErrClosed
		case l.shared != nil && !l.shared.isDead():
			defer l.mu.Unlock()
			return l.shared, nil
		case l.dialing == nil:
			over := make(chan struct{})
			l.dialing = over
			l.mu.Unlock()
			return l.redial(ctx, over)
		}
		over := l.dialing
		l.mu.Unlock()
		select {
		case <-over:
		case <-ctx.Done():
			return nil, lostErr(ctx.Err(), false)
		}
	}
}

// keep lets close end the connection.
func (l *socketLink) keep(c *conn) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		c.fail(ErrClosed)
		return ErrClosed
	}
	if l.own == nil {
		l.own = map[*conn]bool{}
	}
	l.own[c] = true
	return nil
}

func (l *socketLink) release(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.own, c)
	c.fail(net.ErrClosed)
}

func (l *socketLink) redial(ctx context.Context, over chan struct{}) (*conn, error) {
	c, err := l.dial(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dialing = nil
	close(over)
	if err != nil {
		return nil, err
	}
	if l.closed {
		c.fail(ErrClosed)
		return nil, ErrClosed
	}
	l.shared = c
	return c, nil
}

// drop keeps new calls off a connection; those that wait on it still get their answers.
func (l *socketLink) drop(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shared == c {
		l.shared = nil
	}
	c.retire()
}

func (l *socketLink) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.shared != nil {
		l.shared.fail(ErrClosed)
	}
	for c := range l.own {
		c.fail(ErrClosed)
	}
}

// dial gives a connection that calls can be made on.
func (l *socketLink) dial(ctx context.Context) (*conn, error) {
	c, err := l.handshake(ctx)
	if err == nil {
		go c.read()
	}
	return c, err
}

// handshake connects, says who asks and agrees on the protocol's version, all in one round trip.
func (l *socketLink) handshake(ctx context.Context) (*conn, error) {
	nc, err := l.dialer(ctx, l.path)
	if err != nil {
		var own *Error
		if errors.As(err, &own) {
			return nil, own
		}
		return nil, lostErr(err, false)
	}
	stop := context.AfterFunc(ctx, func() { nc.SetDeadline(time.Unix(1, 0)) })
	c := &conn{nc: nc, in: bufio.NewReaderSize(nc, 64<<10), turn: make(chan struct{}, 1), slots: make(chan struct{}, pipelined), gone: make(chan struct{})}
	err = c.greet(l.key)
	if !stop() {
		err = errors.Join(ctx.Err(), err)
	}
	if err != nil {
		nc.Close()
		var e *Error
		if errors.As(err, &e) || errors.Is(err, ErrMalformed) {
			return nil, err
		}
		return nil, lostErr(err, false) // no request was on its way yet
	}
	return c, nil
}

func (c *conn) greet(key string) error {
	var hello []byte
	answers := 1
	if key != "" {
		hello = append(exact.AppendString([]byte(`{"type":"auth","id":"auth","api_key":`), key), "}\n"...)
		answers++
	}
	hello = append(hello, `{"type":"hello","id":"hello","protocol":[1]}`+"\n"...)
	if _, err := c.nc.Write(hello); err != nil {
		return err
	}
	for range answers {
		line, err := readLine(c.in)
		if err != nil {
			return err
		}
		root, err := parse(line)
		if err != nil {
			return err
		}
		if !root.Get("ok").Bool() {
			return lineError(root)
		}
	}
	return nil
}

// conn is one connection. Requests are written whole, one after another; answers are handed out in that order.
type conn struct {
	nc    net.Conn
	in    *bufio.Reader
	turn  chan struct{} // held while writing
	slots chan struct{} // one for each request that waits for its answer
	gone  chan struct{} // closed when the connection is dead

	mu      sync.Mutex
	waiting []*waiter
	last    uint64
	dead    error
	retired bool
}

type waiter struct {
	id   uint64
	line chan string // gets the answer, or is closed when there will be none
}

func (c *conn) isDead() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dead != nil || c.retired
}

// fail ends the connection and every call on it.
func (c *conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead == nil {
		c.dead = err
		c.nc.Close()
		close(c.gone)
	}
	for _, w := range c.waiting {
		close(w.line)
	}
	c.waiting = nil
}

// retire closes the connection once nobody waits on it.
func (c *conn) retire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retired = true
	c.closeIfDone()
}

func (c *conn) closeIfDone() {
	if c.retired && len(c.waiting) == 0 && c.dead == nil {
		c.dead = net.ErrClosed
		c.nc.Close()
		close(c.gone)
	}
}

// read hands out answers until the connection ends.
func (c *conn) read() {
	for {
		line, err := readLine(c.in)
		if err != nil {
			c.fail(err)
			return
		}
		c.mu.Lock()
		if len(c.waiting) == 0 {
			c.mu.Unlock()
			c.fail(malformed("an answer that nobody asked for"))
			return
		}
		w := c.waiting[0]
		c.waiting = c.waiting[1:]
		w.line <- line // has room for one
		<-c.slots
		c.closeIfDone()
		c.mu.Unlock()
	}
}

// call sends one request and waits for its answer.
func (c *conn) call(ctx context.Context, name string, body []byte) (exact.Value, error) {
	select {
	case c.slots <- struct{}{}:
	case <-c.gone:
		return exact.Value{}, c.deadErr(false)
	case <-ctx.Done():
		return exact.Value{}, lostErr(ctx.Err(), false)
	}
	w, err := c.write(ctx, name, body)
	if err != nil {
		return exact.Value{}, err
	}
	select {
	case line, ok := <-w.line:
		if !ok {
			return exact.Value{}, c.deadErr(true)
		}
		return c.open(w.id, line)
	case <-ctx.Done(): // the answer will come and find nobody
		return exact.Value{}, lostErr(ctx.Err(), true)
	}
}

// deadErr is why the connection ended, as a call sees it.
func (c *conn) deadErr(sent bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if errors.Is(c.dead, ErrMalformed) || errors.Is(c.dead, ErrClosed) {
		return c.dead
	}
	return &lost{err: c.dead, sent: sent}
}

func (c *conn) write(ctx context.Context, name string, body []byte) (*waiter, error) {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		<-c.slots
		return nil, lostErr(ctx.Err(), false)
	}
	defer func() { <-c.turn }()
	c.mu.Lock()
	if c.dead != nil {
		c.mu.Unlock()
		return nil, c.deadErr(false)
	}
	c.last++
	w := &waiter{id: c.last, line: make(chan string, 1)}
	c.waiting = append(c.waiting, w)
	c.mu.Unlock()

	c.nc.SetWriteDeadline(time.Time{})
	cut := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { c.nc.SetWriteDeadline(time.Unix(1, 0)); close(cut) })
	_, err := c.nc.Write(message(name, strconv.FormatUint(w.id, 10), body))
	if !stop() {
		<-cut // else it could fall into the next request's write
	}
	if err != nil {
		c.fail(err) // half a line is on its way: nothing may follow it
		return nil, lostErr(err, true)
	}
	return w, nil
}

// message is one line. body is an object without line ends, or nil.
func message(name, id string, body []byte) []byte {
	b := append(exact.AppendString([]byte(`{"type":`), name), `,"id":`...)
	b = append(b, id...)
	if rest := bytes.TrimPrefix(body, []byte("{")); len(rest) > 1 {
		b = append(append(b, ','), rest...)
	} else {
		b = append(b, '}')
	}
	return append(b, '\n')
}

// open reads the answer to a request. What is not one breaks the connection: nothing on it can be trusted to be in order.
func (c *conn) open(id uint64, line string) (exact.Value, error) {
	root, err := openAnswer(id, line)
	if errors.Is(err, ErrMalformed) {
		c.fail(err)
	}
	return root, err
}

// openAnswer checks that the line is the answer to that request. An error may lack the id: the server could not read ours.
func openAnswer(id uint64, line string) (exact.Value, error) {
	root, err := parse(line)
	if err != nil {
		return root, err
	}
	failed := root.Get("ok").Kind() == exact.Bool && !root.Get("ok").Bool()
	if got := root.Get("id"); got.Raw() != strconv.FormatUint(id, 10) && (got.Exists() || !failed) {
		return exact.Value{}, malformed("an answer to another request")
	}
	if failed {
		return exact.Value{}, lineError(root)
	}
	return root, nil
}

// readLine reads one line without its end. What is not ended is not a line: io.ErrUnexpectedEOF.
func readLine(r *bufio.Reader) (string, error) {
	var long []byte
	for {
		part, err := r.ReadSlice('\n')
		switch {
		case err == nil && long == nil:
			return string(part[:len(part)-1]), nil
		case err == nil:
			long = append(long, part...)
			return string(long[:len(long)-1]), nil
		case errors.Is(err, io.EOF) && len(long)+len(part) > 0:
			return "", io.ErrUnexpectedEOF
		case !errors.Is(err, bufio.ErrBufferFull):
			return "", err
		}
		if long = append(long, part...); len(long) > maxAnswer {
			return "", malformed("a line of more than the limit of %d bytes", maxAnswer)
		}
	}
}
