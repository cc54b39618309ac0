package httpd

import (
	"context"
	"net"
	"testing"

	"github.com/yett-dev/yett/core/edge"
)

// TestGone: a client that has closed is noticed without reading, one that only waits is not taken for gone.
func TestGone(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	c := newStrictConn(&edge.Conn{Conn: server}, StrictLimits{})
	if c.gone() {
		t.Error("a client that waits was taken for gone")
	}
	if _, err := client.Write([]byte("GET")); err != nil {
		t.Fatal(err)
	}
	if c.gone() {
		t.Error("a client that sends was taken for gone")
	}
	ctx, cancel := c.whileThere(context.Background())
	defer cancel()
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done() // within the test's own limit
	if !c.gone() {
		t.Error("a client that has closed was not noticed")
	}
}
