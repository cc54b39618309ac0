package edge

import (
	"errors"
	"net"
	"sync"
	"time"
)

const (
	firstPause = 5 * time.Millisecond // after the first error of accept; each one that follows doubles it
	longPause  = time.Second
)

// LogEvery is how often at most a listener logs what it meets again and again.
const LogEvery = 10 * time.Second

// Acceptor goes on after errors of accept: a machine that is short of descriptors, of memory or of epoll registrations
// has some again later, and who listens by then serves on. Accept is called by one goroutine, Close by any.
type Acceptor struct {
	said *Throttle // errors

	once  sync.Once
	ended chan struct{}

	pause time.Duration // the last one; 0: the last accept was no error
}

// NewAcceptor makes an Acceptor. what is the listener as the log names it.
func NewAcceptor(what string, log func(format string, args ...any)) *Acceptor {
	return &Acceptor{said: NewThrottle(what, LogEvery, log), ended: make(chan struct{})}
}

// Accept calls accept until it gives no error, and pauses in between. Its own error is net.ErrClosed, once the Acceptor
// or the listener below is closed.
func Accept[C any](a *Acceptor, accept func() (C, error)) (C, error) {
	for {
		c, err := accept()
		if err == nil {
			a.pause = 0
			return c, nil
		}
		if errors.Is(err, net.ErrClosed) || !a.rest(err) {
			var none C
			return none, net.ErrClosed
		}
	}
}

// rest waits before accept is tried again. It is false once the Acceptor is closed.
func (a *Acceptor) rest(err error) bool {
	select {
	case <-a.ended:
		return false
	default:
	}
	a.pause = min(max(firstPause, 2*a.pause), longPause)
	a.said.Log("cannot accept a connection, trying again: %v", err)
	t := time.NewTimer(a.pause)
	defer t.Stop()
	select {
	case <-a.ended:
		return false
	case <-t.C:
		return true
	}
}

// Close ends a pause, and the Accept that makes it.
func (a *Acceptor) Close() { a.once.Do(func() { close(a.ended) }) }
