package httpd

import (
	"github.com/valyala/fasthttp"

	"github.com/yett-dev/yett/core/edge"
)

// client is what every request of one connection would otherwise make anew: the caller's address as text, and the texts of
// the target and of the Authorization header, which are nearly always the ones before. It is not trusted: each request's key
// is checked.
type client struct {
	addr   string
	auth   string
	target string
	guest  *edge.Guest // nil: it came by no door
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

// peer is where a request came from, for the record: the other end of its connection, or what a trusted proxy says.
func (s *Server) peer(ctx *fasthttp.RequestCtx, c *client) string {
	if len(s.set.Proxies) == 0 {
		return c.addr
	}
	at := edge.AddrOf(ctx.RemoteAddr())
	if !s.set.Proxies.Trusts(at) {
		return c.addr
	}
	h := &ctx.Request.Header
	return s.set.Proxies.Client(at, texts(h.PeekAll("X-Forwarded-For")), texts(h.PeekAll("Forwarded"))).String()
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
