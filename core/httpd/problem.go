package httpd

import (
	"errors"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// failed is the one place where an error becomes an HTTP answer.
func (s *Server) failed(ctx *fasthttp.RequestCtx, op *ops.Op, err error, rid string) {
	var e *sdk.Error
	if !errors.As(err, &e) {
		e = &sdk.Error{Code: sdk.CodeInternal, Err: err}
	}
	if wire.StatusOf(e.Code).HTTP >= 500 && e.Code != sdk.CodeOverloaded { // strangers must not fill the log
		s.set.Log("http: %s: request %s: %s", op.Name, rid, ops.Keyless(err.Error()))
	}
	if e.Code == sdk.CodeInternal && op != nil && op.Decides {
		marked := *e
		marked.Msg, marked.More = "", map[string]string{"effect": sdk.Deny.String()}
		e = &marked
	}
	s.problem(ctx, e, rid)
}

func (s *Server) problem(ctx *fasthttp.RequestCtx, e *sdk.Error, rid string) {
	st := wire.StatusOf(e.Code)
	switch st.HTTP {
	case 401:
		ctx.Response.Header.Set("WWW-Authenticate", "Bearer")
	case 429, 503:
		ctx.Response.Header.Set("Retry-After", "1")
	}
	ctx.Response.Header.SetContentType("application/problem+json")
	ctx.SetStatusCode(st.HTTP)
	ctx.Response.SetBody(wire.AppendProblem(nil, ops.Told(e), rid))
}

// framing answers what never became a request, and ends the connection.
func (s *Server) framing(ctx *fasthttp.RequestCtx, err error) {
	var early *refusal
	if errors.As(err, &early) {
		s.refuseEarly(ctx, early)
		return
	}
	rid := s.set.NewID()
	e := sdk.Errf(sdk.CodeBadRequest, "the request is not acceptable HTTP/1.1")
	var small *fasthttp.ErrSmallBuffer
	if se, ok := strictErrorOf(err); ok {
		e = sdk.Errf(sdk.Code(se.Code), "%s%s", se.Reason, s.limitNamed(se))
	} else if errors.Is(err, fasthttp.ErrBodyTooLarge) || errors.As(err, &small) {
		e = sdk.Errf(sdk.CodeTooLarge, "the request is larger than the limits (limits.headers is %d bytes, "+
			"limits.scan_body %d)", s.set.Limits.Headers, s.set.Limits.ScanBody)
	}
	ctx.Response.Header.Set("X-Request-Id", rid)
	s.problem(ctx, e, rid)
	ctx.SetConnectionClose()
}

// limitNamed is the config key of the limit that a request ran into, in parentheses, for the caller's operator.
func (s *Server) limitNamed(e *StrictError) string {
	what, _, _ := strings.Cut(e.Reason, ":")
	switch {
	case e.Status == fasthttp.StatusRequestTimeout && what == "headers":
		return " (limits.header_read)"
	case e.Status == fasthttp.StatusRequestTimeout:
		return " (limits.whole_read)"
	case e.Status == fasthttp.StatusRequestEntityTooLarge && what == "body" &&
		s.set.Limits.AuthorizeBody > s.set.Limits.ScanBody:
		return " (limits.authorize_body)" // the guard has the larger of the two
	case e.Status == fasthttp.StatusRequestEntityTooLarge && what == "body":
		return " (limits.scan_body)"
	case e.Status == fasthttp.StatusRequestEntityTooLarge:
		return " (limits.headers)"
	}
	return ""
}
