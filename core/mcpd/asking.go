package mcpd

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/yett-dev/yett/sdk/exact"
)

// asking is one request to a process, or the stream beside all, as events.
type asking struct {
	c      *child
	ctx    context.Context
	method string
	id     swapped // as the process knows it, for the id as the client sent it
	token  swapped // the same of the progress token
	modern bool    // leaving it cancels it

	in    chan said
	first *event
	last  bool // the answer was given

	once sync.Once
	left chan struct{} // closed when nothing more is read
	why  error         // why; written before left is closed
}

// swapped is a value of a client that the process knows as another one.
type swapped struct {
	key      string // as the process knows it, as a key for maps; "" for none
	original string // as the client sent it; "" if it was not replaced
}

// back is the edit that brings the client's own value back.
func (s swapped) back(v exact.Value) []edit {
	if s.original == "" {
		return nil
	}
	return []edit{replace(v, s.original)}
}

// said is one message of a process for one reader.
type said struct {
	text string
	last bool // it is the answer
}

// errLate says why a reader got no more.
var errLate = errors.New("the client does not read what the command says")

// put hands a message to whoever waits. A reader that takes none for a while is given up, so that it does not hold up
// the others of the process. It is false once the process has ended.
func (a *asking) put(text string, last bool) bool {
	late := time.NewTimer(slowestReader)
	defer late.Stop()
	select {
	case a.in <- said{text, last}:
	case <-a.ctx.Done():
	case <-a.left:
	case <-late.C:
		a.leave()
	case <-a.c.gone:
		return false
	}
	return true
}

// leave gives a request up, or closes the stream. What goes on without a reader is cancelled, where leaving says so:
// in the newer era, and where the time for it is over.
func (a *asking) leave() {
	if a.end(errLate) && (a.modern || errors.Is(a.ctx.Err(), context.DeadlineExceeded)) {
		a.c.cancel(a.id.key)
	}
}

// end lets nothing more be read, and says whether an answer was still to come.
func (a *asking) end(why error) bool {
	c := a.c
	c.mu.Lock()
	open := c.asked[a.id.key] == a
	c.forget(a)
	if open {
		c.abandon(a.id.key)
	}
	if c.side == a {
		c.side = nil
	}
	c.mu.Unlock()
	a.once.Do(func() {
		a.why = why
		close(a.left)
	})
	return open
}

// next implements events.
func (a *asking) next() (event, error) {
	if e := a.first; e != nil {
		a.first = nil
		return *e, nil
	}
	if a.last {
		return event{}, io.EOF
	}
	select {
	case m := <-a.in:
		return a.give(m)
	case <-a.ctx.Done():
		return event{}, a.ctx.Err()
	case <-a.left:
		return event{}, a.why
	case <-a.c.gone:
	}
	select { // what it said before its end
	case m := <-a.in:
		return a.give(m)
	default:
		return event{}, io.EOF
	}
}

func (a *asking) give(m said) (event, error) {
	a.last = m.last
	return event{raw: eventOf(m.text), data: m.text, has: true}, nil
}
