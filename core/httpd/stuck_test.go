package httpd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk/wire"
)

// A client that reads no answers is cut off by a kill: it does not find PERMITs when it reads after the kill was answered.
func TestKillCutsAnswersThatNobodyReads(t *testing.T) {
	g := newGate(t, func(s *Settings) { s.unread, s.Flight = time.Minute, s.Service })
	key := g.key("agent", "authorize")
	c, err := net.Dial("tcp", g.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	const call = `{"agent_id":"a","tool_id":"permit"}`
	request := fmt.Sprintf("POST /v1/authorize HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", key, len(call), call)
	sent := make(chan error, 1)
	go func() {
		_, err := io.WriteString(c, strings.Repeat(request, 20_000))
		sent <- err
	}()
	last, changed := uint64(0), time.Now()
	until(t, "an answer does not get on", func() bool {
		g.server.live.mu.Lock()
		defer g.server.live.mu.Unlock()
		for c := range g.server.live.all {
			if n := c.writes.Load(); n%2 == 0 || n != last {
				last, changed = n, time.Now()
			}
		}
		return time.Since(changed) > 200*time.Millisecond
	})
	kill := func(undo bool) {
		if _, err := g.svc.Kill(context.Background(), store.Who{Principal: "admin:0", Method: "peer_uid", Surface: "admin"}, &wire.KillRequest{AgentID: "a", Undo: undo}); err != nil {
			t.Fatal(err)
		}
	}
	for cut := false; !cut; { // the kill may have come before the writes were stuck
		kill(false)
		select {
		case err = <-sent:
			cut = true
		case <-time.After(5 * time.Second):
			kill(true)
		}
	}
	if err == nil {
		t.Fatal("all calls were taken: the test shows nothing")
	}
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection goes on after the kill")
	}
}
