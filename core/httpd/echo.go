package httpd

import (
	"net"

	"github.com/valyala/fasthttp"
)

// ServeEcho answers every request on ln with its own body, with nothing of ours around fasthttp: no guard, no key, no
// record. It is what the benchmark measures the gateway against, and is never part of a gateway. It returns when ln is
// closed.
func ServeEcho(ln net.Listener) error {
	s := &fasthttp.Server{
		Handler: func(ctx *fasthttp.RequestCtx) {
			ctx.Response.Header.SetContentType("application/json")
			ctx.Response.SetBody(ctx.PostBody())
		},
		NoDefaultServerHeader: true,
		NoDefaultDate:         true,
		NoDefaultContentType:  true,
		MaxRequestBodySize:    4 << 20,
	}
	return s.Serve(ln)
}
