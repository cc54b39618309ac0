package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/yett-dev/yett/sdk/exact"
)

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

// greet says who asks, and agrees on the protocol.
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

// open reads the answer to a request. What is not one breaks the connection: nothing on it can be trusted to be in
// order.
func (c *conn) open(id uint64, line string) (exact.Value, error) {
	root, err := openAnswer(id, line)
	if errors.Is(err, ErrMalformed) {
		c.fail(err)
	}
	return root, err
}

// openAnswer checks that the line is the answer to that request. An error may lack the id: the server could not read
// ours.
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
