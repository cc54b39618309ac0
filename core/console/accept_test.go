package console

import (
	"context"
	"net"
	"net/http"
	"testing"

	"github.com/yett-dev/yett/core/testkit"
)

func TestErrorsOfAcceptEndNothing(t *testing.T) {
	d := newDesk(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() {
		served <- d.c.Serve(testkit.Short(ln))
		ln.Close() // who waits to be let in is told
	}()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get("http://" + ln.Addr().String() + "/signin")
	if err != nil {
		t.Fatalf("%v; the listener: %v", err, <-served)
	}
	res.Body.Close()
	if err := d.c.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}
