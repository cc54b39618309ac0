package mesh

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/yett-dev/yett/core/doors/ask"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// exchange is one request and its response, as ext_proc shows them.
type exchange struct {
	s      *Server
	caller ask.Caller
	begun  bool
	asked  bool // the headers of the request were there
	tool   string
	agent  string
	answer headers // of the response; nil: not there yet
}

// process answers one stream of ext_proc. It never ends well before the proxy does: that would let the rest pass.
func (s *Server) process(_ any, stream grpc.ServerStream) error {
	x := &exchange{s: s}
	end := func() {}
	defer func() { end() }()
	// the key comes before the first message
	if _, err := s.guarded(func() (reply, error) {
		c, leave, err := s.caller(stream.Context(), authorization(stream.Context()))
		x.caller, end = c, leave
		return reply{}, err
	}); err != nil {
		told := s.told(err)
		return stream.SendMsg(&frame{immediate(statusOf(told), ofError(told)).encode()})
	}
	for {
		b, err := receive(stream, 0)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err // the transport has said it already
		}
		var out *processed
		_, err = s.guarded(func() (reply, error) {
			free, err := s.place(&x.caller, len(b))
			if err != nil {
				return reply{}, err
			}
			defer free()
			out, err = x.step(stream.Context(), b)
			return reply{}, err
		})
		switch {
		case errors.Is(err, errObserving):
			s.set.Log("%s: ext_proc: %v", name, err)
			return status.Error(codes.FailedPrecondition, err.Error())
		case err != nil:
			told := s.told(err)
			out = immediate(statusOf(told), ofError(told))
		case out == nil:
			out = immediate(http.StatusInternalServerError, ofError(sdk.Errf(sdk.CodeInternal, "")))
		}
		if err := stream.SendMsg(&frame{out.encode()}); err != nil || out.phase == 0 {
			return err
		}
	}
}

var errObserving = errors.New("observability_mode waits for no answer, so nothing can be refused or redacted: " +
	"turn it off")

// immediate ends the exchange: the client gets this.
func immediate(status int, why *refused) *processed {
	return &processed{status: status, body: why.json(), detail: "yett_" + lower(why.code)}
}

// onward lets a phase go on.
func onward(p phase) *processed { return &processed{phase: p} }

// cannot refuses what cannot be scanned.
func cannot(format string, args ...any) (*processed, error) {
	e := sdk.Errf(sdk.CodeUnsupportedCoding, format, args...)
	r := ofError(e)
	r.code = sdk.ReasonScanUnavailable
	return immediate(http.StatusBadGateway, r), nil
}

// step answers one message.
func (x *exchange) step(ctx context.Context, b []byte) (*processed, error) {
	p, err := parseProcessing(b)
	if err != nil {
		return nil, malformed(err)
	}
	if p.observing {
		return nil, errObserving
	}
	if !x.begun {
		x.begun = true
		if out := modes(p); out != nil {
			return out, nil
		}
	}
	switch p.phase {
	case requestHeaders:
		return x.request(p)
	case responseHeaders:
		return x.response(p)
	case requestBody:
		if !p.end {
			return cannot("The body of the request did not come whole. Set request_body_mode to NONE or BUFFERED.")
		}
		return onward(p.phase), nil
	case responseBody:
		return x.scan(ctx, p)
	}
	return onward(p.phase), nil // trailers: a response's follow no body, since one that does not end itself is refused
}

// modes refuses the body modes in which a response could leave before it is scanned. The first message of a stream
// names them.
func modes(p *processing) *processed {
	refuse := func(format string, args ...any) *processed {
		out, _ := cannot(format, args...)
		return out
	}
	const none = 0
	switch req, resp := p.modes[0], p.modes[1]; {
	case !p.configured:
		return refuse("The proxy does not say its body modes (protocol_config), so nobody knows what it holds back. Use " +
			"Envoy 1.34 or newer.")
	case resp != buffered:
		return refuse("response_body_mode is %s. Set it to BUFFERED: no other mode holds a response back until it is "+
			"scanned whole.", modeName(resp))
	case req != none && req != buffered:
		return refuse("request_body_mode is %s. Set it to NONE or BUFFERED.", modeName(req))
	case p.early:
		return refuse("send_body_without_waiting_for_header_response is on. Turn it off.")
	case p.phase != requestHeaders:
		return refuse("The headers of the request were not sent. Set request_header_mode to SEND.")
	}
	return nil
}

func modeName(n uint64) string {
	if s, ok := modeNames[n]; ok {
		return s
	}
	return strconv.FormatUint(n, 10)
}

// request names the tool, and asks the upstream for what can be scanned: a whole answer, not compressed.
func (x *exchange) request(p *processing) (*processed, error) {
	if x.asked {
		return nil, malformed(errTwoPhases)
	}
	x.asked = true
	host, _, err := p.headers.get(":authority")
	if err != nil {
		return nil, malformed(err)
	}
	method, _, err := p.headers.get(":method")
	if err != nil {
		return nil, malformed(err)
	}
	if x.tool, _, err = toolOf(host, method); err != nil {
		return nil, err
	}
	if x.agent, err = agentOf(x.caller.Key, p.headers, x.s.set.Config.ExtProc.AgentHeader); err != nil {
		return nil, err
	}
	out := onward(p.phase)
	out.set = headers{{"accept-encoding", "identity"}}
	out.remove = append(ownHeaders(p.headers), "range", "if-range")
	return out, nil
}

// response refuses an answer that cannot be scanned before its body comes.
func (x *exchange) response(p *processing) (*processed, error) {
	if !x.asked || x.answer != nil {
		return nil, malformed(errTwoPhases)
	}
	x.answer = append(headers{}, p.headers...)
	code, _, err := p.headers.get(":status")
	if err != nil {
		return nil, malformed(err)
	}
	if code == "101" || code == "206" || x.upgraded(code) {
		return cannot("The upstream answered with status %s: a tunnel, or a part of a body. Neither can be scanned.", code)
	}
	if p.end {
		return onward(p.phase), nil
	}
	if coding, ok := p.headers.all("content-encoding"); ok && lower(strings.TrimSpace(coding)) != "identity" {
		return cannot("The upstream compressed its answer although it was asked not to. It cannot be scanned.")
	}
	length, ok, err := p.headers.get("content-length")
	if err != nil {
		return nil, malformed(err)
	}
	n, err := strconv.ParseUint(length, 10, 63)
	if ok && err != nil {
		return cannot("The upstream's content-length is no number.")
	}
	if most := uint64(x.s.set.Limits.ScanBody); n > most {
		return cannot("The answer of the upstream has %d bytes, more than the limit of %d (limits.scan_body).", n, most)
	}
	return onward(p.phase), nil
}

// upgraded says whether a tunnel follows: a CONNECT that succeeded.
func (x *exchange) upgraded(code string) bool {
	return strings.HasSuffix(x.tool, "/CONNECT") && strings.HasPrefix(code, "2")
}

// scan gives the whole body of a response to the scanners.
func (x *exchange) scan(ctx context.Context, p *processing) (*processed, error) {
	if x.answer == nil {
		return cannot("The headers of the response were not sent. Set response_header_mode to SEND.")
	}
	if !p.end {
		return cannot("The body of the response did not come whole. Set response_body_mode to BUFFERED; bodies with " +
			"trailers cannot be scanned.")
	}
	if len(p.body) == 0 {
		return onward(p.phase), nil
	}
	kind, _ := x.answer.all("content-type")
	text := utf8.Valid(p.body)
	if !text {
		if m, _, err := mime.ParseMediaType(kind); err == nil && slices.Contains(x.s.set.Config.ExtProc.PassTypes, m) {
			return onward(p.phase), nil
		}
		return cannot("The answer of the upstream is no text (UTF-8), and doors.ext_proc.pass_types does not list its type.")
	}
	body, changed, why, err := x.s.scanned(ctx, x.caller, &wire.ScanRequest{ToolID: x.tool, AgentID: x.agent}, p.body,
		isJSON(kind), contentType(kind))
	if err != nil {
		return nil, err
	}
	switch {
	case why != nil:
		return immediate(http.StatusForbidden, why), nil
	case !changed:
		return onward(p.phase), nil
	}
	out := onward(p.phase)
	out.replaced, out.body = true, body
	// what the upstream said of the bytes is not true any more
	out.remove = []string{"content-length", "etag", "content-md5", "digest", "content-digest", "repr-digest",
		"accept-ranges"}
	return out, nil
}

// contentType is what scanners are told of a body: its type without parameters.
func contentType(kind string) string {
	m, _, err := mime.ParseMediaType(kind)
	if err != nil {
		return ""
	}
	return m
}

// scanned gives a body to the scanners: as a JSON value where it is one, else as text. What may pass is body; why says
// that nothing may.
func (s *Server) scanned(ctx context.Context, c ask.Caller, q *wire.ScanRequest, b []byte, asJSON bool,
	kind string) (body []byte, changed bool, why *refused, err error) {
	if asJSON {
		var doc exact.Doc
		asJSON = doc.Parse(string(b), s.set.Limits.JSON()) == nil
	}
	if asJSON {
		q.OutputJSON = b
	} else {
		q.Output, q.ContentType = string(b), kind
	}
	r, err := s.set.Asker.Scan(ctx, c, q)
	if err != nil {
		return nil, false, nil, err
	}
	switch r.Outcome {
	case "PASS", "WARNED":
		return b, false, nil, nil
	case "REDACTED":
		switch {
		case asJSON && len(r.SanitizedJSON) > 0:
			return r.SanitizedJSON, true, nil, nil
		case !asJSON && r.SanitizedOutput != nil:
			return []byte(*r.SanitizedOutput), true, nil, nil
		}
		return nil, false, nil, sdk.Errf(sdk.CodeInternal, "a scan was redacted to nothing")
	}
	why = &refused{effect: sdk.Deny.String(), scan: r.ScanID, code: r.ReasonCode,
		message: "The answer was withheld: it holds what may not be passed on, or could not be scanned."}
	return nil, false, why, nil
}
