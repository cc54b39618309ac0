package httpd

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

const (
	turnAwayTime  = time.Second // how long a connection that is one too many may take to read its refusal
	turnAwayBytes = 64 << 10
	turnAwayMost  = 64 // refusals that are being written; above it connections are closed without a word
)

// boundedListener keeps connections below limits.connections and tells those above it why. fasthttp's own limit would
// answer in plain text. It sits below TLS, where a refusal cannot be said: there the connection is closed.
type boundedListener struct {
	net.Listener
	most   int64
	silent bool
	newID  func() string

	open   atomic.Int64
	places chan struct{} // one for each refusal that is being written
	wg     sync.WaitGroup
}

func newBoundedListener(ln net.Listener, most int, silent bool, newID func() string) *boundedListener {
	return &boundedListener{Listener: ln, most: int64(most), silent: silent, newID: newID, places: make(chan struct{}, turnAwayMost)}
}

// Accept waits for the next connection that there is room for.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= l.most {
			return &countedConn{Conn: c, free: func() { l.open.Add(-1) }}, nil
		}
		l.open.Add(-1)
		l.turnAway(c)
	}
}

func (l *boundedListener) turnAway(c net.Conn) {
	select {
	case l.places <- struct{}{}:
	default:
		_ = c.Close() // the caller sees that it was closed; nothing else can be said to so many
		return
	}
	l.wg.Go(func() {
		defer func() { <-l.places }()
		if !l.silent {
			l.explain(c)
		}
		_ = c.Close()
	})
}

// explain writes the refusal and reads what the client is sending, since closing on unread bytes could take the answer
// with it. Errors end it: the client is gone then, and there is nothing to be told to anyone.
func (l *boundedListener) explain(c net.Conn) {
	rid := l.newID()
	body := wire.AppendProblem(nil, sdk.Errf(sdk.CodeTooManyRequests, "more than %d connections at once (limits.connections)", l.most), rid)
	if c.SetDeadline(time.Now().Add(turnAwayTime)) != nil {
		return
	}
	if _, err := fmt.Fprintf(c, "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/problem+json\r\nContent-Length: %d\r\nX-Request-Id: %s\r\nRetry-After: 1\r\nConnection: close\r\n\r\n%s",
		len(body), rid, body); err != nil {
		return
	}
	if half, ok := c.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, c, turnAwayBytes)
	}
}

// Close stops accepting and waits for refusals that are being written, turnAwayTime at most.
func (l *boundedListener) Close() error {
	err := l.Listener.Close()
	l.wg.Wait()
	return err
}

// countedConn gives its place back when it is closed, once.
type countedConn struct {
	net.Conn
	once sync.Once
	free func()
}

// Close closes the connection.
func (c *countedConn) Close() error {
	defer c.once.Do(c.free)
	return c.Conn.Close()
}

// CloseWrite ends what is sent, and leaves the other direction open.
func (c *countedConn) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}
