package httpd

import (
	"context"
	"net"
	"net/http"
	"testing"

	"github.com/yett-dev/yett/core/testkit"
)

func TestErrorsOfAcceptEndNothing(t *testing.T) {
	var set Settings
	newGate(t, func(s *Settings) { set = *s })
	s := New(set)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() {
		served <- s.Serve(testkit.Short(ln))
		ln.Close() // who waits to be let in is told
	}()
	res, err := new(http.Transport).RoundTrip(httpGet(t, "http://"+ln.Addr().String()+"/healthz"))
	if err != nil {
		t.Fatalf("%v; the listener: %v", err, <-served)
	}
	res.Body.Close()
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// httpGet is a request after which the client closes its connection.
func httpGet(t *testing.T, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Close = true
	return r
}
