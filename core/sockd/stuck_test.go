package sockd

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk/wire"
)

// A client that reads no answers is cut off by a kill: it does not find PERMITs when it reads after the kill was
// answered.
func TestKillCutsAnswersThatNobodyReads(t *testing.T) {
	r := newRig(t, nil)
	c := r.as(r.key("agent", "authorize").Value)
	sent := make(chan error, 1)
	go func() {
		_, err := io.WriteString(c.UnixConn, strings.Repeat(`{"type":"govern","agent_id":"a","tool_id":"permit"}`+"\n",
			100_000))
		sent <- err
	}()
	last, changed := uint64(0), time.Now()
	until(t, "an answer does not get on", func() bool {
		r.s.each(func(c *conn) {
			if n := c.permits.Load(); n%2 == 0 || n != last {
				last, changed = n, time.Now()
			}
		})
		return time.Since(changed) > 200*time.Millisecond
	})
	kill := func(undo bool) {
		if _, err := r.svc.Kill(context.Background(), store.Who{Principal: "admin:0", Method: "peer_uid", Surface: "admin"},
			&wire.KillRequest{AgentID: "a", Undo: undo}); err != nil {
			t.Fatal(err)
		}
	}
	var err error
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
	r.s.each(func(c *conn) {
		if n := c.permits.Load(); n%2 == 1 {
			t.Error("an answer is still on its way")
		}
	})
}
