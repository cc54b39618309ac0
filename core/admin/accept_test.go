package admin

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/yett-dev/yett/core/edge"
	"github.com/yett-dev/yett/core/testkit"
)

func TestErrorsOfAcceptEndNothing(t *testing.T) {
	data := t.TempDir()
	s, err := Listen(data, Settings{Version: "v", OwnProc: func() error { return nil }, Log: t.Logf})
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
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(data, socketDir, "sock"))
		}}}
	res, err := client.Get("http://admin/status")
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
