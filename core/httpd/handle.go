package httpd

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/valyala/fasthttp"

	"github.com/yett-dev/yett/core/edge"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// work is what one request needs and gives back.
type work struct {
	doc exact.Doc
	req ops.Request
	ctx ops.Deadline
	out []byte

	params []wire.Param
	large  bool // doc holds more than is kept
}

// keptBytes is the largest buffer that is used again.
const keptBytes = 64 << 10

var works = sync.Pool{New: func() any { return &work{out: make([]byte, 0, 1024)} }}

func (s *Server) handle(ctx *fasthttp.RequestCtx) {
	if sc, ok := strictConnOf(ctx.Conn()); ok && sc.refused != nil {
		s.refuseEarly(ctx, sc.refused)
		return
	}
	rid := s.requestID(ctx.Request.Header.Peek("X-Request-Id"))
	ctx.Response.Header.Set("X-Request-Id", rid)
	w := works.Get().(*work)
	defer func() {
		w.ctx.Release()
		w.req = ops.Request{}
		clear(w.params)
		if w.large {
			w.doc, w.large = exact.Doc{}, false
		}
		works.Put(w)
	}()
	var res *resource
	w.params = w.params[:0]
	// ctx.Path is decoded and tidied
	if path, exact := edge.Path(clientOf(ctx).keptTarget(ctx.Request.Header.RequestURI())); exact {
		res, w.params = s.routes.find(path, w.params)
	}
	if res == nil {
		s.problem(ctx, noSuchPath(), rid)
		return
	}
	switch r := res.of(ctx.Method()); {
	case r == nil:
		ctx.Response.Header.Set("Allow", res.allow)
		s.problem(ctx, notAllowed(res), rid)
	case r.page != nil:
		r.page(s, ctx, rid)
	default:
		s.operate(ctx, r, rid, w)
	}
}

func (s *Server) operate(ctx *fasthttp.RequestCtx, r *route, rid string, w *work) {
	resp, err := s.run(ctx, r, rid, w)
	if err != nil {
		var replay *ops.Replay
		if !errors.As(err, &replay) {
			s.failed(ctx, r.op, err, rid)
			return
		}
		resp = replay.Response()
	}
	if resp == nil {
		return // a stream: what it brings is written later
	}
	w.out = resp.AppendJSON(w.out[:0])
	if r.method == fasthttp.MethodGet {
		if err := s.holdAnswer(ctx, w.req.Key.ID, len(w.out)); err != nil {
			w.out = nil
			s.failed(ctx, r.op, err, rid)
			return
		}
	}
	ctx.Response.Header.SetContentType("application/json")
	if d, ok := resp.(interface{ RetryAfter() int }); ok && d.RetryAfter() > 0 {
		ctx.Response.Header.Set("Retry-After", strconv.Itoa(d.RetryAfter()))
	}
	switch d := resp.(type) {
	case *wire.AuthorizeResponse:
		s.verdict(ctx, r, d)
	case interface{ NextCursor() string }:
		s.nextPage(ctx, r, d.NextCursor())
	}
	if len(w.out) > keptBytes {
		ctx.Response.SetBodyRaw(w.out) // nobody else has it any more
		w.out = nil
		return
	}
	ctx.Response.SetBody(w.out)
}

// nextPage says where a list goes on.
func (s *Server) nextPage(ctx *fasthttp.RequestCtx, r *route, cursor string) {
	if cursor == "" {
		return
	}
	args := fasthttp.AcquireArgs()
	defer fasthttp.ReleaseArgs(args)
	for _, name := range r.query {
		if v := ctx.QueryArgs().Peek(name); v != nil && name != "offset" && name != "cursor" {
			args.SetBytesV(name, v)
		}
	}
	args.Set("cursor", cursor)
	ctx.Response.Header.Set("X-Next-Cursor", cursor)
	ctx.Response.Header.Set("Link", "<"+r.op.Path+"?"+args.String()+`>; rel="next"`)
}

// verdict repeats a decision in headers for proxies, and in the status for those that only look at that.
func (s *Server) verdict(ctx *fasthttp.RequestCtx, r *route, d *wire.AuthorizeResponse) {
	refuse := s.denyStatus(ctx) == fasthttp.StatusForbidden && (d.DryRun || r.denyStatus && d.Effect != "PERMIT")
	if refuse {
		ctx.SetStatusCode(fasthttp.StatusForbidden) // a dry run permits nothing, whatever its effect
	}
	if d.DryRun {
		return
	}
	ctx.Response.Header.Set("X-Yett-Effect", d.Effect)
	ctx.Response.Header.Set("X-Yett-Reason-Code", headerSafe(d.ReasonCode))
	ctx.Response.Header.Set("X-Yett-Decision-Id", d.DecisionID)
}

// headerSafe keeps a rule's own reason code from breaking a header.
func headerSafe(s string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return '_'
		}
		return r
	}, s)
}

// checkDenyStatus refuses a deny_status that is none: a slip of the pen must not open a proxy.
func checkDenyStatus(ctx *fasthttp.RequestCtx) error {
	args := ctx.QueryArgs()
	if !args.Has("deny_status") {
		return nil
	}
	if v := string(args.Peek("deny_status")); v != "200" && v != "403" || len(args.PeekMulti("deny_status")) > 1 {
		return sdk.FieldErrf(sdk.CodeInvalidField, "deny_status", "deny_status must be 200 or 403, given once")
	}
	return nil
}

func (s *Server) denyStatus(ctx *fasthttp.RequestCtx) int {
	if string(ctx.QueryArgs().Peek("deny_status")) == "403" {
		return fasthttp.StatusForbidden
	}
	return s.set.Server.DenyStatus // a caller's 200 does not weaken it
}

// run reads the request whole, finds who asks, and runs the operation.
func (s *Server) run(ctx *fasthttp.RequestCtx, r *route, rid string, w *work) (ops.Response, error) {
	op := r.op
	if s.draining.Load() {
		return nil, drainingError(op)
	}
	c := clientOf(ctx)
	key, err := s.set.Service.Authenticate(c.header(ctx.Request.Header.Peek("Authorization")))
	if err != nil {
		c.guest.Know(false)
		s.set.Service.Refused(s.base, err, "http", s.peer(ctx, c))
		return nil, err
	}
	urgent := op.UrgentFor(key)
	if !s.inFlight.Enter(key.ID, urgent) {
		return nil, sdk.Errf(sdk.CodeTooManyRequests,
			"more than %d requests at once, the last quarter of which is for keys that have few (limits.in_flight)",
			s.set.Limits.InFlight)
	}
	defer s.inFlight.Leave(key.ID, urgent)
	if err := c.begin(s, key, op); err != nil {
		ctx.SetConnectionClose() // its place is for others
		return nil, err
	}
	if err := s.checkHead(ctx, op); err != nil {
		return nil, err
	}
	if r.verdict {
		if err := checkDenyStatus(ctx); err != nil {
			return nil, err
		}
	}
	body := string(ctx.PostBody())     // fasthttp's bytes must not outlive the handler; a stalled commit can
	ctx.Request.ReleaseBody(keptBytes) // the connection would keep them as long as it is open
	start := s.set.Now()
	w.req = ops.Request{Key: key, Start: start, Raw: body, Idempotency: string(ctx.Request.Header.Peek(idempotencyKey)),
		Stopping: s.stopping}
	if s.set.Trace != nil {
		w.req.Trace = s.set.Trace(string(ctx.Request.Header.Peek("traceparent")))
	}
	sc, ok := strictConnOf(ctx.Conn())
	if ok && op.Waits {
		w.req.Gone = sc.gone
	}
	// counted out when its answer has been written, or never will be: the connection sees that
	if ok && op.Decides && s.set.Flight != nil {
		w.req.Flight = sc.of(s.set.Flight)
	}
	w.req.Who = store.Who{Principal: key.ID, Method: "api_key", Surface: "http", Peer: s.peer(ctx, c), RequestID: rid,
		Trace: traceID(ctx)}
	w.ctx.Set(s.base, start.Add(s.set.Timeout), s.set.Now)
	w.req.Ctx = &w.ctx
	if err := s.set.Service.Begin(op, &w.req, len(body)); err != nil {
		return nil, err
	}
	defer w.req.End()
	if err := s.parse(ctx, r, w); err != nil {
		return nil, err
	}
	if op.Stream.Open != nil {
		w.req.Ctx = s.base
		w.req.End()
		return nil, s.follow(ctx, op, &w.req)
	}
	return s.set.Service.Run(op, &w.req)
}

// goesDown refuses what comes while the server drains.
const goesDown = "the server is going down; ask again in a second"

func drainingError(op *ops.Op) error {
	e := sdk.Errf(sdk.CodeDraining, goesDown)
	if op.Decides {
		e.More = map[string]string{"effect": sdk.Deny.String(), "reason_code": sdk.ReasonDraining}
	}
	return e
}

// checkHead refuses what the headers already show to be too large or in a coding that we do not read.
func (s *Server) checkHead(ctx *fasthttp.RequestCtx, op *ops.Op) error {
	h := &ctx.Request.Header
	if err := checkCoding(h.PeekAll("Content-Encoding")); err != nil {
		return err
	}
	if err := s.checkLength(op, int64(len(ctx.PostBody()))); err != nil {
		return err
	}
	return s.checkIdempotency(h.PeekAll(idempotencyKey))
}

// parse reads the body strictly, and what the operation takes from the query. An empty body is {} where no member of it
// is required.
func (s *Server) parse(ctx *fasthttp.RequestCtx, r *route, w *work) error {
	text := w.req.Raw
	blank := r.noBody && strings.TrimSpace(text) == ""
	switch {
	case r.method == fasthttp.MethodGet && text != "":
		return noBodyForGet()
	case r.method == fasthttp.MethodGet:
		text = "{}"
		w.queryParams(ctx, r)
	case blank:
		o := wire.Object(nil)
		for _, name := range r.query {
			if v := ctx.QueryArgs().Peek(name); v != nil {
				o.Str(name, string(v))
			}
		}
		text = string(o.Close())
	}
	most := exact.MostSize(text, s.set.Limits.JSON())
	w.req.Params, w.large = w.params, len(text) > keptBytes || most > keptBytes
	if err := s.holdParsed(ctx, w.req.Key.ID, most); err != nil {
		return err
	}
	if err := w.doc.Parse(text, s.set.Limits.JSON()); err != nil {
		return &sdk.Error{Code: sdk.CodeInvalidJSON, Msg: err.Error()}
	}
	w.req.Body = w.doc.Root()
	w.large = w.large || w.doc.Grows() > keptBytes
	return s.holdParsed(ctx, w.req.Key.ID, w.doc.Grows()) // what is hashed, masked and kept is the canonical form
}

// queryParams copies what the operation takes from the query, twice if it is there twice. A stream is resumed by a
// header.
func (w *work) queryParams(ctx *fasthttp.RequestCtx, r *route) {
	for name, value := range ctx.QueryArgs().All() {
		if slices.Contains(r.query, string(name)) {
			w.params = append(w.params, wire.Param{Name: string(name), Value: string(value)})
		}
	}
	last := ctx.Request.Header.Peek("Last-Event-ID")
	if r.op.Stream.Open == nil || len(last) == 0 {
		return
	}
	const name = "last_event_id"
	// the header is newer
	w.params = slices.DeleteFunc(w.params, func(p wire.Param) bool { return p.Name == name && !p.InPath })
	w.params = append(w.params, wire.Param{Name: name, Value: string(last)})
}

// requestID is the caller's when it is sane, else made.
func (s *Server) requestID(id []byte) string {
	if len(id) == 0 || len(id) > 128 {
		return s.set.NewID()
	}
	for _, c := range id {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && strings.IndexByte("._:-", c) < 0 {
			return s.set.NewID()
		}
	}
	if ops.HoldsKey(string(id)) {
		return s.set.NewID() // it would be echoed and recorded
	}
	return string(id)
}

// traceID is the trace id of a valid W3C traceparent header, "" else.
func traceID(ctx *fasthttp.RequestCtx) string {
	v := ctx.Request.Header.Peek("traceparent")
	if len(v) < 55 || v[2] != '-' || v[35] != '-' || v[52] != '-' || v[0] == 'f' && v[1] == 'f' {
		return ""
	}
	zero := true
	for _, c := range v[3:35] {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return ""
		}
		zero = zero && c == '0'
	}
	if zero {
		return ""
	}
	return string(v[3:35])
}
