package httpd

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/yett-dev/yett/sdk"
)

// Why a guard of our own: fasthttp's parser forgives what the next hop may read differently (a bare LF, folded lines,
// odd chunk syntax), and forgiveness is how one request becomes two. The guard sits under fasthttp as a net.Conn. It
// checks every byte with a parser that forgives nothing and hands fasthttp one request at a time:
//
//   - the head only when all of it is valid, and never together with body bytes;
//   - the body by its length, or chunks that are written anew (no extensions, no trailers), so fasthttp never sees a
//     stranger's chunk syntax;
//   - the next request only after an answer to this one was written, and never if that answer came before its body was
//     read.
//
// On a violation Read returns a StrictError in a place where fasthttp calls its ErrorHandler; the handler's answer is
// the last thing written.

// StrictLimits are the guard's limits for one connection. A zero or negative value means the default named beside it;
// there is no value for "no limit".
type StrictLimits struct {
	// wait for the next request's first byte; default 60 s; then the connection is closed silently
	Idle        time.Duration
	FirstByte   time.Duration // wait for the first request's first byte, at most Idle; default 10 s; then likewise
	HeaderRead  time.Duration // from a request's first byte to the end of its head; default 5 s; then 408
	WholeRead   time.Duration // from a request's first byte to its last; default 10 s; then 408
	HeaderBytes int           // head, and likewise chunk extensions and trailers together; default 16 KiB; above it 413
	BodyBytes   int64         // body, chunk framing not counted; default 4 MiB; above it 413
	Unread      time.Duration // how long one write of a stream may take; default 30 s; then the connection is closed

	gate bodyGate   // decides about bodies that are still to come; nil lets all come
	live *liveConns // knows the connections; nil: nobody asks
}

// withDefaults replaces what is not set. The guard never runs without a limit.
func (l StrictLimits) withDefaults() StrictLimits {
	if l.Idle <= 0 {
		l.Idle = 60 * time.Second
	}
	if l.FirstByte <= 0 {
		l.FirstByte = 10 * time.Second
	}
	l.FirstByte = min(l.FirstByte, l.Idle)
	if l.HeaderRead <= 0 {
		l.HeaderRead = 5 * time.Second
	}
	if l.WholeRead <= 0 {
		l.WholeRead = 10 * time.Second
	}
	if l.HeaderBytes <= 0 {
		l.HeaderBytes = 16 << 10
	}
	if l.BodyBytes <= 0 {
		l.BodyBytes = 4 << 20
	}
	if l.Unread <= 0 {
		l.Unread = unread
	}
	return l
}

// StrictError says why the guard refused a request. Reason is one clause, safe to show to the caller: it never holds
// bytes of the request.
type StrictError struct {
	Status int    // 400, 408, 413 or 503
	Code   string // a code of the sdk registry: bad_request, timeout, too_large or draining
	Reason string
}

// Error gives code and reason.
func (e *StrictError) Error() string { return e.Code + ": " + e.Reason }

// strictErrorOf finds the guard's error in what fasthttp gives to its ErrorHandler.
func strictErrorOf(err error) (*StrictError, bool) {
	var se *StrictError
	ok := errors.As(err, &se)
	return se, ok
}

func malformed(reason string) *StrictError {
	return &StrictError{Status: http.StatusBadRequest, Code: string(sdk.CodeBadRequest), Reason: reason}
}

func tooLarge(what string, limit int64) *StrictError {
	return &StrictError{
		Status: http.StatusRequestEntityTooLarge,
		Code:   string(sdk.CodeTooLarge),
		Reason: fmt.Sprintf("%s: more than the limit of %d bytes", what, limit),
	}
}

func tooSlow(what string, limit time.Duration) *StrictError {
	return &StrictError{
		Status: http.StatusRequestTimeout,
		Code:   string(sdk.CodeTimeout),
		Reason: fmt.Sprintf("%s: not read within the limit of %s", what, limit),
	}
}

// liveConns are the connections of a server; nil knows none.
type liveConns struct {
	mu      sync.Mutex
	all     map[*strictConn]struct{}
	hurried time.Time // when the server began to go down; zero until then
}

func (l *liveConns) add(c *strictConn) {
	if l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all[c] = struct{}{}
		if !l.hurried.IsZero() {
			c.hurry(l.hurried)
		}
	}
}

func (l *liveConns) remove(c *strictConn) {
	if l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.all, c)
	}
}

func (l *liveConns) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all)
}

// hurry has connections end on which no request comes, now and later.
func (l *liveConns) hurry(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hurried = now
	for c := range l.all {
		c.hurry(now)
	}
}

// cutStuck ends writes of decisions that have not got on since it looked last: see ops.Service.CutWith.
func (l *liveConns) cutStuck() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.all {
		n := c.writes.Load()
		if n%2 == 1 && n == c.looked {
			_ = c.Conn.SetWriteDeadline(time.Unix(1, 0)) // fails on a closed connection only
		}
		c.looked = n
	}
}

// strictListener puts a strictConn around every connection it accepts.
type strictListener struct {
	net.Listener
	lim StrictLimits
}

// newStrictListener guards the connections of ln. The server on top must have a ReadBufferSize of at least
// lim.HeaderBytes, and needs no read or idle timeout of its own: the guard owns the read deadline. TLS goes below the
// guard (tls.NewListener first), never above it.
func newStrictListener(ln net.Listener, lim StrictLimits) net.Listener {
	return &strictListener{Listener: ln, lim: lim.withDefaults()}
}

// Accept waits for the next connection.
func (l *strictListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	g := newStrictConn(c, l.lim)
	l.lim.live.add(g)
	if tc, ok := c.(*tls.Conn); ok {
		return &strictTLSConn{strictConn: g, tls: tc}, nil
	}
	return g, nil
}

// strictTLSConn shows fasthttp that the connection below is TLS, and bounds the handshake.
type strictTLSConn struct {
	*strictConn
	tls *tls.Conn
}

// Handshake runs the handshake within the header limit; a slow one must not hold a worker.
func (c *strictTLSConn) Handshake() error {
	c.deadline(armedHead, time.Now().Add(c.lim.HeaderRead)) // one that fails closes, which the handshake tells
	if err := c.tls.SetWriteDeadline(time.Now().Add(c.lim.HeaderRead)); err != nil {
		return fmt.Errorf("set the handshake deadline: %w", err)
	}
	if err := c.tls.Handshake(); err != nil {
		return fmt.Errorf("shake hands: %w", err)
	}
	c.disarm()
	return c.tls.SetWriteDeadline(time.Time{})
}

// ConnectionState describes the TLS session.
func (c *strictTLSConn) ConnectionState() tls.ConnectionState { return c.tls.ConnectionState() }
