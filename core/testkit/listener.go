package testkit

import (
	"errors"
	"net"
	"sync"
	"syscall"
)

// shortOf is what Accept says on a machine that is short of something.
var shortOf = []error{syscall.EMFILE, syscall.ENOSPC, syscall.ENOMEM, errors.New("unknown")}

// ShortListener is a listener that is short of one thing after the other before it lets anybody in.
type ShortListener struct {
	net.Listener
	mu   sync.Mutex
	errs []error
}

// Short puts errors of accept before what ln accepts.
func Short(ln net.Listener) *ShortListener { return &ShortListener{Listener: ln, errs: shortOf} }

// Fail gives the next error, nil when there are no more.
func (l *ShortListener) Fail() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.errs) == 0 {
		return nil
	}
	err := l.errs[0]
	l.errs = l.errs[1:]
	return err
}

// Accept fails, or waits for the next connection.
func (l *ShortListener) Accept() (net.Conn, error) {
	if err := l.Fail(); err != nil {
		return nil, err
	}
	return l.Listener.Accept()
}
