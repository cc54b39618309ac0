package httpd

import (
	"github.com/valyala/fasthttp"
)

// client is what every request of one connection would otherwise make anew: the caller's address as text, and the texts of
// the target and of the Authorization header, which are nearly always the ones before. It is not trusted: each request's key
// is checked.
type client struct {
	addr   string
	auth   string
	target string
}

// clientOf finds the connection's client. Only the goroutine that handles the connection's requests may use it.
func clientOf(ctx *fasthttp.RequestCtx) *client {
	sc, ok := strictConnOf(ctx.Conn())
	if !ok {
		return &client{addr: ctx.RemoteAddr().String()}
	}
	if sc.client.addr == "" {
		sc.client.addr = ctx.RemoteAddr().String()
	}
	return &sc.client
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
