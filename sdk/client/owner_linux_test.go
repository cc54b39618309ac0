package client

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// TestSocketOwner holds that a socket on which another user listens gets no byte, and no key above all.
func TestSocketOwner(t *testing.T) {
	mine, another := uint32(os.Getuid()), uint32(os.Getuid()+1)
	s := newFakeSocket(t, func(p *peer) {
		for m := p.read(); m != nil; m = p.read() {
			decide(p, m)
		}
	})
	c, _ := newClient(t, Options{Socket: s.path, SocketOwner: &mine})
	d, err := c.Authorize(waitCtx(t), Call{AgentID: "a", ToolID: "PERMIT"})
	if err != nil || !d.Permitted() {
		t.Errorf("our own socket: %+v %v", d, err)
	}

	ln, err := net.Listen("unix", filepath.Join(filepath.Dir(s.path), "other"))
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan int, 1)
	go func() {
		nc, err := ln.Accept()
		if err != nil {
			got <- -1
			return
		}
		defer nc.Close()
		b, _ := io.ReadAll(nc)
		got <- len(b)
	}()
	c, p := newClient(t, Options{Socket: ln.Addr().String(), SocketOwner: &another})
	if _, err := c.Authorize(waitCtx(t), Call{AgentID: "a", ToolID: "PERMIT"}); !errors.Is(err, ErrInvalid) ||
		len(p.all()) != 0 {
		t.Errorf("another user's socket: %v, %d pauses", err, len(p.all()))
	}
	if n := <-got; n != 0 {
		t.Errorf("another user got %d bytes", n)
	}
	ln.Close()
}
