package mcpd

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// relay passes on what a server answers, each message scanned.
func (x *exchange) relay(in *incoming) {
	if x.msg != nil && x.msg.method == "initialize" && !x.c.modern && in.status == http.StatusOK {
		if err := x.openSession(in.session); err != nil {
			x.unreachable(err)
			return
		}
	}
	switch {
	case in.events != nil:
		x.relayEvents(in.events)
	case in.one != "":
		x.relayOne(in)
	case in.status == http.StatusNotFound && x.c.session != nil:
		x.unreachable(errNoSession)
	case in.status >= 500 || x.msg != nil && x.msg.kind == request && in.status < 400:
		x.unreachable(errors.New("the server's answer has no message"))
	case in.status < 200:
		x.unreachable(errors.New("the server's answer has no status"))
	default:
		x.out.deadline()
		x.out.w.WriteHeader(in.status)
	}
}

// openSession gives the client a session id that only its key can use, with what the gateway has to remember in it.
func (x *exchange) openSession(upstream string) error {
	var id [12]byte
	x.g.set.Random(id[:])
	s := &session{Key: x.r.Caller.Key.ID, Server: x.srv.name, Upstream: upstream, URLs: x.c.urls, ID: hexOf(id[:])}
	if a := x.c.agent; len(a) <= 128 {
		s.Agent = a
	}
	sealed, err := x.g.seals.seal(sealSession, s)
	if err != nil {
		return err
	}
	x.c.session = s
	x.out.w.Header().Set("Mcp-Session-Id", sealed)
	return nil
}

// relayOne passes one message on.
func (x *exchange) relayOne(in *incoming) {
	text, _, err := x.scrub(in.one)
	switch {
	case x.halted(nil):
		x.stop()
	case err != nil:
		x.unreachable(err)
	case text == "":
		x.unreachable(errors.New("the server's answer is to another request"))
	case in.status == http.StatusNotFound && x.c.session != nil:
		x.unreachable(errNoSession)
	case in.status >= 500 || in.status < 200:
		x.out.answer(http.StatusBadGateway, text)
	case x.srv.isCommand():
		x.answerOf(text)
	default:
		x.out.answer(in.status, text)
	}
}

// answerOf gives the answer of a command the form that servers reached by HTTP give it.
func (x *exchange) answerOf(text string) {
	status := http.StatusOK
	if x.c.modern {
		status = errorStatus(text, x.g.lim)
	}
	if status == http.StatusOK && x.c.events {
		x.out.begin()
	}
	x.out.answer(status, text)
}

// relayEvents passes events on until the stream ends. The bytes of an event that is not changed are those that came.
func (x *exchange) relayEvents(from events) {
	x.out.begin()
	if x.listens() {
		defer x.hear()()
	}
	whole, resumable := false, false
	for {
		e, err := from.next()
		if err != nil {
			if !errors.Is(err, io.EOF) && x.r.Context().Err() == nil {
				x.srv.logs.Log("%v", err)
			}
			break
		}
		if x.halted(nil) {
			break
		}
		resumable = resumable || e.id && !x.c.modern
		out := e.raw
		if e.has && e.data != "" {
			text, answer, err := x.scrub(e.data)
			if err != nil {
				x.srv.logs.Log("%v", err)
				break
			}
			if text == "" {
				continue // logged or answered where it was dropped
			}
			if text = escaped(text); text != e.data {
				out = e.withData(text)
			}
			whole = whole || answer
		}
		if !x.out.event(out) {
			return
		}
	}
	if x.halted(nil) && !whole {
		x.stop()
		return
	}
	if x.msg != nil && x.msg.kind == request && !whole && !resumable && x.r.Context().Err() == nil {
		x.died()
	}
}

// died answers a request whose stream ended without its answer. In the older era a stream whose events have ids may end
// so: its client resumes it.
func (x *exchange) died() {
	x.fail(&fault{code: codeInternal, msg: "the MCP server " + x.srv.name + " ended its answer before the result"})
}

// scrub looks at one message of a server. text is what the client gets: the same text if nothing is changed, "" if
// nothing. answer says that it is the answer to the request.
func (x *exchange) scrub(raw string) (text string, answer bool, err error) {
	m, f := parseAnswer(raw, x.g.lim)
	if f != nil {
		if x.msg == nil || x.msg.kind != request {
			return "", false, errors.New("the server sent what is no message: " + f.msg)
		}
		if x.answered {
			return "", false, errors.New("the server sent what is no message behind its answer: " + f.msg)
		}
		x.answered = true // an answer that comes behind it would be a second one
		return failure(x.id(), &fault{code: codeInternal,
			msg: "the server's answer is no acceptable JSON-RPC, so it is withheld: " + f.msg}), true, nil
	}
	ctx := x.r.Context()
	switch m.kind {
	case response:
		if x.msg != nil && x.msg.kind == request && !sameID(m.id, x.msg.id) && m.id.Kind() != exact.Null {
			x.srv.logs.Log("dropped an answer to another request")
			return "", false, nil
		}
		if x.answered {
			x.srv.logs.Log("dropped a second answer to one request")
			return "", false, nil
		}
		x.answered = x.msg != nil && x.msg.kind == request
		if !x.besidePasses(ctx, m) {
			id := m.id.Raw()
			if !x.knows(m, "id", m.id) {
				id = "null"
			}
			return x.withheldAnswer(id, "The answer holds what may not be passed on", nil), true, nil
		}
		return x.scrubAnswer(ctx, m), true, nil
	case notification:
		return x.scrubNotification(ctx, m), false, nil
	}
	return x.scrubRequest(ctx, m), false, nil
}

// scrubRequest asks whether a server may ask the client. The server is told if it may not.
func (x *exchange) scrubRequest(ctx context.Context, m *message) string {
	row, known := fromServers[m.method]
	if strings.HasPrefix(m.id.Str(), pagePrefix) {
		row, known = method{}, false // its answer would be taken for that to one of ours
	}
	why := &fault{code: codeNoMethod, msg: unknownMethod}
	if known {
		why = nil
		if row.how == asked {
			why = x.mayAsk(ctx, m)
		}
		if why == nil && x.besidePasses(ctx, m) {
			text, v := x.scan(ctx, x.askedTool(m), m, m.params)
			if v == passedOn {
				return text
			}
		}
		if why == nil {
			why = &fault{code: codeDenied, msg: "the request holds what may not be passed on"}
		}
	}
	x.answerServer(ctx, m, why)
	return ""
}

func (x *exchange) askedTool(m *message) string { return toolPrefix + x.srv.name + "/" + m.method }

// mayAsk asks about a request of a server: it uses the client's user, model or files. nil: it may.
func (x *exchange) mayAsk(ctx context.Context, m *message) *fault {
	args, f := argsOf(fromServers[m.method], m, x.g.lim)
	if f != nil {
		return f
	}
	d, err := x.g.set.Asker.Authorize(ctx, x.r.Caller, &wire.AuthorizeRequest{
		AgentID: agentOf(x.r.Caller.Key, x.c), ToolID: x.askedTool(m), SessionID: x.c.sessionID(), Args: args})
	defer d.Sent()
	switch {
	case err != nil:
		return &fault{code: codeInternal, msg: "the gateway could not decide about this request"}
	case !d.Permits():
		return &fault{code: codeDenied, msg: "denied by policy", data: errorData(d.ReasonCode, d.DecisionID)}
	}
	return nil
}

// answerServer tells a server of the older era that its request was not passed on.
func (x *exchange) answerServer(ctx context.Context, m *message, why *fault) {
	x.srv.logs.Log("a request of the server was not passed on: %s", why.msg)
	if x.c.modern {
		return // this era has no such requests, and no way to answer one
	}
	in, err := x.srv.up.send(ctx, &outgoing{method: http.MethodPost, body: failure(m.id.Raw(), why), msg: m,
		header: x.r.Header, session: x.upstreamSession(), key: x.r.Caller.Key.ID, modern: x.c.modern})
	if err != nil {
		return // it waits in vain, as with a client that has gone
	}
	in.end()
}

// scrubNotification scans what a server says by the way. What may not be passed on is left out.
func (x *exchange) scrubNotification(ctx context.Context, m *message) string {
	text, v := m.raw, withheld
	if x.besidePasses(ctx, m) {
		v = passedOn
	}
	if v == passedOn && x.speaks(m) {
		text, v = x.scan(ctx, x.askedTool(m), m, m.params)
	}
	if v == withheld {
		x.srv.logs.Log("a notification was withheld")
		return ""
	}
	return text
}

// speaks reports whether a notification has text that is not one of MCP's own words.
func (x *exchange) speaks(m *message) bool {
	for name, v := range m.params.Members() {
		switch name {
		case "progress", "total":
			if v.Kind() != exact.Number {
				return true
			}
		case "progressToken", "requestId":
			if v.Kind() != exact.Number && !x.named(name, v) {
				return true
			}
		default:
			return true
		}
	}
	return false
}

// named reports whether a value is the name that the client has given to its request or to its progress.
func (x *exchange) named(name string, v exact.Value) bool {
	if x.msg == nil {
		return false
	}
	own := x.msg.id
	if name == "progressToken" {
		own = x.msg.params.Get("_meta").Get("progressToken")
	}
	return sameID(v, own)
}

func hexOf(b []byte) string {
	const digits = "0123456789abcdef"
	out := make([]byte, 0, 2*len(b))
	for _, c := range b {
		out = append(out, digits[c>>4], digits[c&15])
	}
	return string(out)
}
