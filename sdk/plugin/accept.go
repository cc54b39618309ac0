package plugin

import (
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

// How long a listener pauses after an error of accept. Each error that follows doubles the pause.
const (
	firstPause = 5 * time.Millisecond
	longPause  = time.Second
)

// patient is a listener that goes on after passing errors of accept: a machine that is short of descriptors or of
// memory has some again later, and a peer that hangs up early is one peer. Accept is called by one goroutine, Close by
// any.
type patient struct {
	net.Listener
	log   *slog.Logger
	once  sync.Once
	ended chan struct{}
	pause time.Duration // the last one; 0: the last accept was no error
}

func newPatient(l net.Listener, log *slog.Logger) *patient {
	return &patient{Listener: l, log: log, ended: make(chan struct{})}
}

// Accept gives the next connection. An error is a lasting one.
func (p *patient) Accept() (net.Conn, error) {
	for {
		c, err := p.Listener.Accept()
		if err == nil {
			p.pause = 0
			return c, nil
		}
		if !passing(err) || !p.rest(err) {
			return nil, err
		}
	}
}

// passing says whether accept may succeed later: the system says so of everything but of a descriptor that is no
// listener.
func passing(err error) bool {
	var system syscall.Errno
	lasting := []syscall.Errno{syscall.EBADF, syscall.EINVAL, syscall.EFAULT, syscall.ENOTSOCK, syscall.EOPNOTSUPP}
	return !errors.Is(err, net.ErrClosed) && errors.As(err, &system) && !slices.Contains(lasting, system)
}

// rest waits before accept is tried again. It is false once the listener is closed. The first pause of a row is logged,
// and the first that cannot grow any more.
func (p *patient) rest(err error) bool {
	last := p.pause
	p.pause = min(max(firstPause, 2*p.pause), longPause)
	if last == 0 || p.pause == longPause && last != longPause {
		p.log.Warn("cannot accept a connection, trying again", "error", err)
	}
	t := time.NewTimer(p.pause)
	defer t.Stop()
	select {
	case <-p.ended:
		return false
	case <-t.C:
		return true
	}
}

// Close ends a pause too.
func (p *patient) Close() error {
	p.once.Do(func() { close(p.ended) })
	return p.Listener.Close()
}
