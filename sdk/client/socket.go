package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/yett-dev/yett/sdk"
)

// pipelined is how many requests of one connection may wait for their answers: the server runs so many at once.
const pipelined = 256

// socketLink is the socket transport: one connection that all short calls share, made again when it is lost. Answers
// come in the order of the requests, so a call that waits gets a connection of its own.
type socketLink struct {
	path, key string
	dialer    func(ctx context.Context, path string) (net.Conn, error)

	mu      sync.Mutex
	shared  *conn
	own     map[*conn]bool // connections of calls that wait
	dialing chan struct{}  // closed when the dial that runs now is over
	closed  bool
}

func dialUnix(ctx context.Context, path string) (net.Conn, error) {
	if len(path) > 107 {
		return nil, &Error{Code: sdk.CodeInvalidField, Field: "Socket",
			Detail: fmt.Sprintf("the socket's path is %d bytes long, more than the system's limit of 107", len(path))}
	}
	d := net.Dialer{Timeout: 10 * time.Second}
	return d.DialContext(ctx, "unix", path)
}

// dialOwned is dialUnix for a socket on which that user must listen.
func dialOwned(uid uint32) func(ctx context.Context, path string) (net.Conn, error) {
	return func(ctx context.Context, path string) (net.Conn, error) {
		nc, err := dialUnix(ctx, path)
		if err != nil {
			return nil, err
		}
		owner, err := listener(nc)
		if err == nil && owner != uid {
			err = fmt.Errorf("user %d listens on it, not user %d: it is not the gateway that is meant", owner, uid)
		}
		if err != nil {
			nc.Close()
			return nil, fieldErr(sdk.CodeInvalidField, "SocketOwner", path+": "+err.Error())
		}
		return nc, nil
	}
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
	c := &conn{nc: nc, in: bufio.NewReaderSize(nc, 64<<10), turn: make(chan struct{}, 1),
		slots: make(chan struct{}, pipelined), gone: make(chan struct{})}
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
