package httpd

import (
	"errors"

	"github.com/valyala/fasthttp"

	"github.com/yett-dev/yett/core/edge"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
)

// client is what every request of one connection would otherwise make anew: the caller's address as text, and the texts
// of the target and of the Authorization header, which are nearly always the ones before. It is not trusted: each
// request's key is checked.
type client struct {
	addr   string
	auth   string
	target string
	guest  *edge.Guest // nil: it came by no door
	begun  bool        // guest has a request of ours counted in
}

// clientOf finds the connection's client. Only the goroutine that handles the connection's requests may use it.
func clientOf(ctx *fasthttp.RequestCtx) *client {
	sc, ok := strictConnOf(ctx.Conn())
	if !ok {
		return &client{addr: ctx.RemoteAddr().String()}
	}
	if sc.client.addr == "" {
		sc.client.addr, sc.client.guest = ctx.RemoteAddr().String(), edge.GuestOf(sc.Conn)
	}
	return &sc.client
}

// begin counts a request of a key in, until the connection is read again.
func (c *client) begin(s *Server, key *store.Key, op *ops.Op) error {
	err := c.guest.Begin(key.ID, op.UrgentFor(key))
	if err == nil {
		c.begun = true
		return nil
	}
	return noPlace(err, s.set.Limits.Connections, s.set.Limits.ConnectionsPerKey)
}

// end counts it out.
func (c *client) end() {
	if c.begun {
		c.begun = false
		c.guest.End()
	}
}

// noPlace is what the caller is told whose connection found no place.
func noPlace(err error, all, each int) error {
	switch {
	case errors.Is(err, edge.ErrKeyShare):
		return sdk.Errf(sdk.CodeTooManyRequests, "this key has %d connections at once, and requests run on all of them "+
			"(limits.connections_per_key)", each)
	case errors.Is(err, edge.ErrGone):
		return sdk.Errf(sdk.CodeTooManyRequests, "the connection was closed before this request: the last key on it was "+
			"killed or has ended, or others needed its place (limits.connections); connect again")
	}
	return sdk.Errf(sdk.CodeTooManyRequests, "more than %d connections at once (limits.connections)", all)
}

// peer is where a request came from, for the record: the other end of its connection, or what a trusted proxy says.
func (s *Server) peer(ctx *fasthttp.RequestCtx, c *client) string {
	if len(s.proxies) == 0 {
		return c.addr
	}
	at := edge.AddrOf(ctx.RemoteAddr())
	if !s.proxies.Trusts(at) {
		return c.addr
	}
	h := &ctx.Request.Header
	return s.proxies.Client(at, texts(h.PeekAll("X-Forwarded-For")), texts(h.PeekAll("Forwarded"))).String()
}

func texts(values [][]byte) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}

// header is v as a string.
func (c *client) header(v []byte) string {
	if c.auth != string(v) {
		c.auth = string(v)
	}
	return c.auth
}

// keptTarget is v as a string.
func (c *client) keptTarget(v []byte) string {
	if c.target != string(v) {
		c.target = string(v)
	}
	return c.target
}
