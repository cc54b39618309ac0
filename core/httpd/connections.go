package httpd

import (
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

const (
	turnAwayTime  = time.Second // how long a connection that is one too many may take to read its refusal
	turnAwayBytes = 64 << 10
	turnAwayMost  = 64 // refusals that are being written; above it connections are closed without a word
)

// turned tells connections why there is no place for them. fasthttp's own limit would answer in plain text. It sits
// below TLS, where nothing can be said: there the connection is closed.
type turned struct {
	most   int
	silent bool
	newID  func() string

	places chan struct{} // one for each refusal that is being written
	wg     sync.WaitGroup
}

func newTurned(most int, silent bool, newID func() string) *turned {
	return &turned{most: most, silent: silent, newID: newID, places: make(chan struct{}, turnAwayMost)}
}

// away closes a connection that is one too many, and says so if it can.
func (l *turned) away(c net.Conn) {
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
func (l *turned) explain(c net.Conn) {
	rid := l.newID()
	body := wire.AppendProblem(nil, sdk.Errf(sdk.CodeTooManyRequests,
		"more than %d connections at once (limits.connections)", l.most), rid)
	if c.SetDeadline(time.Now().Add(turnAwayTime)) != nil {
		return
	}
	if _, err := fmt.Fprintf(c, "HTTP/1.1 429 Too Many Requests\r\nContent-Type: "+
		"application/problem+json\r\nContent-Length: %d\r\nX-Request-Id: %s\r\nRetry-After: 1\r\nConnection: close\r\n\r\n%s",
		len(body), rid, body); err != nil {
		return
	}
	if half, ok := c.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, c, turnAwayBytes)
	}
}

// explained closes like the listener below and waits for refusals that are being written, turnAwayTime at most.
type explained struct {
	net.Listener
	*turned
}

// Close stops accepting.
func (l explained) Close() error {
	err := l.Listener.Close()
	l.wg.Wait()
	return err
}
