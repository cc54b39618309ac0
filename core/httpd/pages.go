package httpd

import (
	"github.com/valyala/fasthttp"

	"github.com/yett-dev/yett/sdk/wire"
)

// openPage is a page that needs no key.
type openPage struct {
	id, summary string
	unready     bool // may answer 503
	serve       func(s *Server, ctx *fasthttp.RequestCtx, rid string)
}

// openPages are all of them; what they answer is JSON.
func openPages() map[string]openPage {
	return map[string]openPage{
		"/healthz":      {"healthz", "Whether the process is alive.", false, (*Server).healthz},
		"/readyz":       {"readyz", "Whether decisions can be made and recorded, part by part.", true, (*Server).readyz},
		"/openapi.json": {"openapi", "This document.", false, (*Server).openapi},
		"/health":       {"health", "Whether the process is alive.", false, (*Server).health},
		"/v1/health":    {"v1_health", "Whether the process is alive.", false, (*Server).health},
		"/ready":        {"ready", "Whether decisions can be made and recorded.", true, (*Server).ready},
	}
}

func answer(ctx *fasthttp.RequestCtx, text string) {
	ctx.Response.Header.SetContentType("application/json")
	ctx.Response.SetBodyString(text)
}

func (s *Server) healthz(ctx *fasthttp.RequestCtx, _ string) { answer(ctx, `{"status":"ok"}`) }

func (s *Server) health(ctx *fasthttp.RequestCtx, _ string) { answer(ctx, `{"status":"healthy"}`) }

// ready is readyz for those who compare the whole answer; it names the parts only when one of them is not ready.
func (s *Server) ready(ctx *fasthttp.RequestCtx, rid string) {
	s.readyz(ctx, rid)
	if ctx.Response.StatusCode() == fasthttp.StatusOK {
		ctx.Response.SetBodyString(`{"status":"ready"}`)
	}
}

func (s *Server) readyz(ctx *fasthttp.RequestCtx, _ string) {
	parts := s.set.Ready()
	if s.draining.Load() {
		parts = append(parts, Part{Name: "server", Detail: "draining"})
	} else {
		parts = append(parts, Part{Name: "server", OK: true})
	}
	ok := true
	for _, p := range parts {
		ok = ok && (p.OK || p.Beside)
	}
	o := wire.Object(nil)
	status := "ready"
	if !ok {
		status = "not_ready"
		ctx.SetStatusCode(503)
		ctx.Response.Header.Set("Retry-After", "1")
	}
	o.Str("status", status)
	o.List("parts", len(parts), func(i int, w *wire.Writer) {
		w.Str("name", parts[i].Name)
		w.Bool("ok", parts[i].OK)
		w.Opt("state", parts[i].State)
		w.Opt("detail", parts[i].Detail)
	})
	ctx.Response.Header.SetContentType("application/json")
	ctx.Response.SetBody(o.Close())
}

func (s *Server) openapi(ctx *fasthttp.RequestCtx, _ string) {
	ctx.Response.Header.SetContentType("application/json")
	ctx.Response.SetBodyRaw(s.openAPI) // whoever has no key may ask for it as often as they like
}
