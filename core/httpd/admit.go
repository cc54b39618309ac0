package httpd

import (
	"bytes"
	"errors"

	"github.com/valyala/fasthttp"

	"github.com/yett-dev/yett/core/edge"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// head is what of a request's head decides whether its body may come.
type head struct {
	raw                  []byte // all of it; this and the next are the caller's buffer
	method, target, auth []byte // as sent
	body                 int64  // its length as announced, -1 for chunks
}

// bodyGate decides about bodies that are still to come. The connection's own goroutine calls it.
type bodyGate interface {
	// admit says why a request's body is not read; nil reads it. It takes what the body will hold.
	admit(c *strictConn, h *head) *refusal
	// grow takes n bytes more, for a chunk of a body that was admitted.
	grow(c *strictConn, n int64) *refusal
	// done gives back what a request held. Any goroutine may call it.
	done(h *hold)
}

// hold is what one request's body takes of the budget.
type hold struct {
	key string
	n   int64
}

// refusal ends a request before its body was read. It is an error that fasthttp hands to its ErrorHandler.
type refusal struct {
	op      *ops.Op // nil: the request names none
	err     error
	allow   string // the methods that the path takes, when this is why
	unknown bool   // no valid key
	id      string // of the request
	peer    string // where it came from
}

// Error is for the log.
func (r *refusal) Error() string { return r.err.Error() }

// Unwrap is what the caller is told.
func (r *refusal) Unwrap() error { return r.err }

// admit judges by the head, and keeps of it what an answer needs: fasthttp has forgotten it when it tells of the error.
func (s *Server) admit(c *strictConn, h *head) *refusal {
	r := s.judge(c, h)
	if r == nil {
		return nil
	}
	if id := values(h.raw, "x-request-id"); len(id) > 0 {
		r.id = id[0]
	}
	at := edge.AddrOf(c.RemoteAddr())
	r.peer = c.RemoteAddr().String()
	if s.proxies.Trusts(at) {
		r.peer = s.proxies.Client(at, values(h.raw, "x-forwarded-for"), values(h.raw, "forwarded")).String()
	}
	return r
}

// fields are the values of a header in a valid head, whose name is given in lower case.
func fields(head []byte, name string) [][]byte {
	var out [][]byte
	for line := range bytes.SplitSeq(head, []byte("\r\n")) {
		if at := bytes.IndexByte(line, ':'); at > 0 && isToken(line[:at], name) {
			out = append(out, trimOWS(line[at+1:]))
		}
	}
	return out
}

// values are fields as texts.
func values(head []byte, name string) []string { return texts(fields(head, name)) }

// judge finds out from the head alone what would refuse the request: its path, its key, the key's scope, the body's
// coding and length, the form of its Idempotency-Key. All of this is looked at again when the body is there.
func (s *Server) judge(c *strictConn, h *head) *refusal {
	var res *resource
	if path, exact := edge.Path(c.client.keptTarget(h.target)); exact {
		res, _ = s.routes.find(path, nil)
	}
	if res == nil {
		return &refusal{err: noSuchPath()}
	}
	r := res.of(h.method)
	switch {
	case r == nil:
		return &refusal{err: notAllowed(res), allow: res.allow}
	case r.page != nil:
		return &refusal{err: noBodyForGet()}
	case s.draining.Load():
		return &refusal{op: r.op, err: drainingError(r.op)}
	}
	key, err := s.set.Service.Authenticate(c.client.header(h.auth))
	if err != nil {
		return &refusal{op: r.op, err: err, unknown: true}
	}
	if err = ops.Allowed(r.op, key); err == nil && r.method == fasthttp.MethodGet {
		err = noBodyForGet()
	}
	if err == nil {
		err = checkCoding(fields(h.raw, "content-encoding"))
	}
	if err == nil {
		err = s.checkLength(r.op, h.body)
	}
	if err == nil {
		err = s.checkIdempotency(fields(h.raw, "idempotency-key"))
	}
	if err != nil {
		return &refusal{op: r.op, err: err}
	}
	c.op = r.op
	c.held.Store(&hold{key: key.ID})
	return s.grow(c, h.body)
}

func (s *Server) grow(c *strictConn, n int64) *refusal {
	h := c.held.Load()
	if n <= 0 || h == nil { // nil: the connection is closed
		return nil
	}
	if err := s.reserveBody(h.key, n); err != nil {
		return &refusal{op: c.op, err: err}
	}
	if !c.held.CompareAndSwap(h, &hold{h.key, h.n + n}) {
		s.bodies.Give(h.key, n) // closed meanwhile
	}
	return nil
}

// reserveBody holds n bytes for a key, or says which limit they do not fit into.
func (s *Server) reserveBody(key string, n int64) error {
	switch err := s.bodies.Take(key, n); {
	case errors.Is(err, edge.ErrOneIsFull):
		return sdk.Errf(sdk.CodeTooManyRequests, "the unanswered requests of this key may hold %d bytes together, and "+
			"this one does not fit (limits.bodies_per_key)", s.set.Limits.BodiesPerKey)
	case err != nil:
		return sdk.Errf(sdk.CodeOverloaded, "the unanswered requests of all keys may hold %d bytes together, and this one "+
			"does not fit (limits.bodies); try again in a second", s.set.Limits.Bodies)
	}
	return nil
}

// freeParsed is how many bytes the parsed form of a body may need that is not counted: limits.in_flight bounds such
// ones.
const freeParsed = 16 << 10

// holdParsed takes what the parsed form of the request's body needs, beside the body itself. One body alone always
// fits.
func (s *Server) holdParsed(ctx *fasthttp.RequestCtx, key string, n int) error {
	if n <= freeParsed {
		return nil
	}
	sc, ok := strictConnOf(ctx.Conn())
	if !ok {
		return nil
	}
	sc.held.CompareAndSwap(nil, &hold{key: key}) // a body that came in one piece with its head has taken nothing
	h := sc.held.Load()
	if h == nil { // the connection was closed meanwhile
		return nil
	}
	if r := s.grow(sc, min(int64(n), int64(s.set.Limits.BodiesPerKey)-h.n, s.set.Limits.Large()-h.n)); r != nil {
		return r.err
	}
	return nil
}

// holdAnswer counts a long answer to a read as the bodies are counted, until the client has taken it: who asks for many
// lists and reads none must not hold them all. One alone always fits.
func (s *Server) holdAnswer(ctx *fasthttp.RequestCtx, key string, n int) error {
	sc, ok := strictConnOf(ctx.Conn())
	if !ok || n <= keptBytes {
		return nil
	}
	h := &hold{key, min(int64(n), int64(s.set.Limits.BodiesPerKey), s.set.Limits.Large())}
	if err := s.reserveBody(h.key, h.n); err != nil {
		return err
	}
	if !sc.held.CompareAndSwap(nil, h) {
		s.done(h) // it holds something already, so it has a body and is no read
	}
	return nil
}

func (s *Server) done(h *hold) { s.bodies.Give(h.key, h.n) }

// refuseEarly answers a request whose body was not read, and ends the connection.
func (s *Server) refuseEarly(ctx *fasthttp.RequestCtx, r *refusal) {
	rid := s.requestID([]byte(r.id))
	ctx.Response.Header.Set("X-Request-Id", rid)
	ctx.SetConnectionClose()
	if r.unknown {
		clientOf(ctx).guest.Know(false)
		s.set.Service.Refused(s.base, r.err, "http", r.peer)
	}
	if r.allow != "" {
		ctx.Response.Header.Set("Allow", r.allow)
	}
	s.failed(ctx, r.op, r.err, rid)
}

// expect answers Expect: 100-continue: whoever is refused by their head is not asked for the body.
func (s *Server) expect(ctx *fasthttp.RequestCtx) int {
	sc, ok := strictConnOf(ctx.Conn())
	if !ok || sc.refused == nil {
		return fasthttp.StatusContinue
	}
	s.refuseEarly(ctx, sc.refused)
	return ctx.Response.StatusCode()
}

func noSuchPath() *sdk.Error {
	return sdk.Errf(sdk.CodeNotFound, "there is nothing at this path; /openapi.json lists what there is")
}

func notAllowed(res *resource) *sdk.Error {
	return sdk.Errf(sdk.CodeMethodNotAllowed, "this path takes %s", res.allow)
}

func noBodyForGet() *sdk.Error { return sdk.Errf(sdk.CodeBadRequest, "GET takes no body") }

// checkCoding refuses a body in a coding that is not read. It gets every Content-Encoding header.
func checkCoding(codings [][]byte) error {
	for _, c := range codings {
		if len(c) > 0 && !bytes.EqualFold(c, []byte("identity")) {
			return sdk.Errf(sdk.CodeUnsupportedCoding, "Content-Encoding must be identity")
		}
	}
	return nil
}

// checkIdempotency refuses keys that cannot be meant. It gets every Idempotency-Key header.
func (s *Server) checkIdempotency(keys [][]byte) error {
	switch {
	case len(keys) > 1:
		return sdk.FieldErrf(sdk.CodeInvalidField, idempotencyKey, "Idempotency-Key is there %d times; send one", len(keys))
	case len(keys) == 1 && len(keys[0]) > 0:
		return wire.CheckName(idempotencyKey, string(keys[0]), s.set.Limits.Name, true)
	}
	return nil
}

const idempotencyKey = "Idempotency-Key"

// checkLength refuses a body that is longer than the operation takes.
func (s *Server) checkLength(op *ops.Op, n int64) error {
	limit, name := s.set.Limits.AuthorizeBody, "limits.authorize_body"
	if op.Body == ops.ScanBody {
		limit, name = s.set.Limits.ScanBody, "limits.scan_body"
	}
	if n > int64(limit) {
		return sdk.Errf(sdk.CodeTooLarge, "the body is %d bytes long, more than the limit of %d (%s)", n, limit, name)
	}
	return nil
}
