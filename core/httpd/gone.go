package httpd

import (
	"context"
	"crypto/tls"
	"time"

	"github.com/yett-dev/yett/core/edge"
	"github.com/yett-dev/yett/core/peer"
)

// lookEvery is how often a request that waits looks whether its client is still there. fasthttp does not tell.
const lookEvery = time.Second

// gone reports whether the client has closed its side: it will not read an answer that is still to come. A client that
// closes only its writing side counts as gone too; HTTP/1.1 gives it no reason to. Any goroutine may call it.
func (c *strictConn) gone() bool {
	nc := c.Conn
	for {
		switch inner := nc.(type) {
		case *tls.Conn:
			nc = inner.NetConn()
			continue
		case *edge.Conn:
			nc = inner.Conn
			continue
		}
		break
	}
	return peer.Ended(nc)
}

// whileThere is ctx until the client goes away. Cancel it to end the watch.
func (c *strictConn) whileThere(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if c.gone() {
					cancel()
				}
			}
		}
	}()
	return ctx, cancel
}
