package mcpd

import (
	"context"
	"net/http"
	"time"

	"github.com/yett-dev/yett/core/doors/ask"
)

// lookForKills is how often what is on its way is compared with kills and revoked keys. A kill waits longer than that
// for a call that has not been handed over, so that none is after it has returned.
const lookForKills = 250 * time.Millisecond

// guarded gives a context for what is done for a client: it ends when a kill covers the exchange, or when its key is
// revoked. d is the decision that permits it, nil where there is none.
func (x *exchange) guarded(d *ask.Decision) (ctx context.Context, end func()) {
	ctx, cancel := context.WithCancel(x.r.Context())
	go func() {
		tick := time.NewTicker(lookForKills)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if x.halted(d) {
					cancel()
					return
				}
			}
		}
	}()
	return ctx, cancel
}

// halted reports whether a kill or a revoked key stops the exchange.
func (x *exchange) halted(d *ask.Decision) bool {
	return d.Overtaken() || x.g.set.Asker.Stopped(x.r.Caller, agentOf(x.r.Caller.Key, x.c), x.c.sessionID(), x.tool)
}

// stop answers what was halted.
func (x *exchange) stop() {
	x.fail(&fault{code: codeDenied, status: http.StatusForbidden,
		msg: "stopped by a kill, or the key is not valid any more"})
}
