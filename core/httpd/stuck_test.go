package httpd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk/wire"
)

// aloft is a Flight that says how many answers are on their way.
type aloft struct {
	*ops.Service
	n atomic.Int64
}

func (a *aloft) Enter() uint32 {
	a.n.Add(1)
	return a.Service.Enter()
}

func (a *aloft) Leave(g uint32) {
	a.n.Add(-1)
	a.Service.Leave(g)
}

// A client that reads no answers is cut off by a kill: it does not find PERMITs when it reads after the kill was
// answered.
func TestKillCutsAnswersThatNobodyReads(t *testing.T) {
	t.Parallel()
	for name, secure := range map[string]bool{"in clear": false, "over TLS": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			killCuts(t, secure)
		})
	}
}

func killCuts(t *testing.T, secure bool) {
	cert := httptest.NewUnstartedServer(nil)
	cert.StartTLS()
	defer cert.Close()
	var flight *aloft
	g := newGate(t, func(s *Settings) {
		flight = &aloft{Service: s.Service}
		s.unread, s.Flight = time.Minute, flight
		if secure {
			s.TLS = &tls.Config{Certificates: cert.TLS.Certificates}
		}
	})
	key := g.key("agent", "authorize")
	c, err := net.Dial("tcp", g.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	if secure {
		c = tls.Client(c, &tls.Config{InsecureSkipVerify: true})
	}
	const call = `{"agent_id":"a","tool_id":"permit"}`
	request := fmt.Sprintf("POST /v1/authorize HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: "+
		"application/json\r\nContent-Length: %d\r\n\r\n%s", key, len(call), call)
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
		if _, err := g.svc.Kill(context.Background(), store.Who{Principal: "admin:0", Method: "peer_uid", Surface: "admin"},
			&wire.KillRequest{AgentID: "a", Undo: undo}); err != nil {
			t.Fatal(err)
		}
	}
	left := int64(0)
	for cut := false; !cut; { // the kill may have come before the writes were stuck
		kill(false)
		left = flight.n.Load()
		select {
		case err = <-sent:
			cut = true
		case <-time.After(5 * time.Second):
			kill(true)
		}
	}
	if left != 0 {
		t.Error("the kill was answered while an answer was on its way")
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
