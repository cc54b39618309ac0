package edge

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// scripted is a listener whose Accept gives these errors, and then a connection. Closing it wakes nobody.
type scripted struct {
	net.Listener
	errs  []error
	tries []time.Time
}

func (l *scripted) Accept() (net.Conn, error) {
	l.tries = append(l.tries, time.Now())
	if len(l.errs) > 0 {
		err := l.errs[0]
		l.errs = l.errs[1:]
		return nil, err
	}
	c, _ := net.Pipe()
	return c, nil
}

func (l *scripted) Close() error { return nil }

// Whatever a machine is short of, the listener pauses ever longer, says so now and then, and lets in who comes next.
func TestAcceptGoesOn(t *testing.T) {
	short := []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOSPC, syscall.ENOMEM, syscall.ENOBUFS,
		errors.New("unknown"), io.EOF}
	synctest.Test(t, func(t *testing.T) {
		ln := &scripted{}
		const errs = 30
		for i := range errs {
			ln.errs = append(ln.errs, short[i%len(short)])
		}
		var logged []string
		l := NewDoor(4, 4).Listen(ln, NewAcceptor("door", func(f string, a ...any) {
			logged = append(logged, fmt.Sprintf(f, a...))
		}), nil, nil)
		accept := func() {
			t.Helper()
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		accept()
		for i := range errs {
			want := min(firstPause<<i, longPause)
			if got := ln.tries[i+1].Sub(ln.tries[i]); got != want {
				t.Errorf("pause %d is %v, want %v", i, got, want)
			}
		}
		if len(logged) != 5 || logged[0] != "door: cannot accept a connection, trying again: too many open files" {
			t.Errorf("logged in 23 s: %q", logged)
		}
		ln.errs, ln.tries = []error{syscall.EMFILE}, nil
		if accept(); ln.tries[1].Sub(ln.tries[0]) != firstPause {
			t.Errorf("after a connection the pauses do not begin anew: %v", ln.tries)
		}
	})
}

// A listener ends when it is closed, also while it pauses and when the one below says something else.
func TestAcceptEndsWhenClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := &scripted{errs: []error{syscall.ENOSPC, syscall.ENOSPC}}
		l := NewDoor(4, 4).Listen(ln, NewAcceptor("door", t.Logf), nil, nil)
		got := make(chan error, 1)
		go func() {
			_, err := l.Accept()
			got <- err
		}()
		synctest.Wait() // it pauses
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := <-got; !errors.Is(err, net.ErrClosed) {
			t.Errorf("closed while it paused: %v", err)
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("closed, and the listener below says something else: %v", err)
		}
		below := &scripted{errs: []error{&net.OpError{Op: "accept", Err: net.ErrClosed}}}
		if _, err := NewDoor(4, 4).Listen(below, NewAcceptor("door", t.Logf), nil, nil).Accept(); !errors.Is(err,
			net.ErrClosed) {
			t.Errorf("the listener below is closed: %v", err)
		}
	})
}
