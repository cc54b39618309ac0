package obs

import (
	"context"
	"net/http"
	"testing"

	"github.com/yett-dev/yett/core/edge"
	"github.com/yett-dev/yett/core/testkit"
)

func TestErrorsOfAcceptEndNothing(t *testing.T) {
	s, err := New("v1").Listen("127.0.0.1:0", Access{}, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	door := s.ln.(*edge.Listener)
	door.Listener = testkit.Short(door.Listener)
	served := make(chan error, 1)
	go func() {
		served <- s.Serve()
		door.Listener.Close() // who waits to be let in is told
	}()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get(s.URL())
	if err != nil {
		t.Fatalf("%v; the listener: %v", err, <-served)
	}
	res.Body.Close()
	if err := s.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}
