package mcpd

import (
	"context"
	"errors"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/yett-dev/yett/core/doors/ask"
	"github.com/yett-dev/yett/core/doors/front"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// exchange is one message of a client with all that belongs to it.
type exchange struct {
	g        *Gateway
	srv      *server
	r        *front.Request
	c        *client
	msg      *message // nil on the stream of the older era
	row      method
	tool     string // the full name under which it is asked about and scanned
	out      *sink
	answered bool // the server has answered the request: a second answer is dropped
}

// id is the request's id as sent, "" for none.
func (x *exchange) id() string {
	if x.msg == nil {
		return ""
	}
	return x.msg.id.Raw()
}

// post takes one message of a client.
func (g *Gateway) post(w http.ResponseWriter, r *front.Request) {
	srv := g.servers[r.PathValue("server")]
	if srv == nil {
		writeJSON(w, http.StatusNotFound, failure("", &fault{code: codeInvalid,
			msg: "no MCP server of this name is configured"}))
		return
	}
	m, f := g.received(r)
	if f != nil {
		writeJSON(w, f.status, failure("", f))
		return
	}
	x := &exchange{g: g, srv: srv, r: r, msg: m, out: &sink{w: w, rc: http.NewResponseController(w)}}
	if x.c, f = g.clientOf(r, srv, m); f != nil {
		x.fail(f)
		return
	}
	switch m.kind {
	case response:
		g.answered(x)
	case notification:
		x.notify()
	default:
		x.request()
	}
}

// received reads the message of a request. In another coding than UTF-8 a server would read another one.
func (g *Gateway) received(r *front.Request) (*message, *fault) {
	media, how, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != mediaJSON || len(r.Header.Values("Content-Type")) != 1 ||
		how["charset"] != "" && !strings.EqualFold(how["charset"], "utf-8") {
		return nil, &fault{code: codeInvalid, status: http.StatusUnsupportedMediaType,
			msg: "Content-Type must be application/json, in UTF-8"}
	}
	return parse(string(r.Body), g.lim)
}

// mediaJSON is how a message is sent to a server, whatever its client wrote.
const mediaJSON = "application/json"

// fail answers a request with an error.
func (x *exchange) fail(f *fault) {
	status := f.status
	if status == 0 {
		status = http.StatusOK
	}
	x.out.answer(status, failure(x.id(), f))
}

// notify passes a notification on. What is no notification of MCP and asks for no answer is refused.
func (x *exchange) notify() {
	if len(x.msg.method) <= len(notifications) || x.msg.method[:len(notifications)] != notifications {
		x.fail(&fault{code: codeInvalid, status: http.StatusBadRequest,
			msg: "a request must have an id, and a notification's method begins with " + notifications})
		return
	}
	x.tool = toolPrefix + x.srv.name + "/" + x.msg.method
	x.forward(x.msg.raw, nil)
}

// request looks a request up in the table, asks about it where the table says so, and forwards it.
func (x *exchange) request() {
	if f := x.duties(); f != nil {
		x.fail(f)
		return
	}
	row, known := fromClients[x.msg.method]
	if !known {
		status := http.StatusOK
		if x.c.modern {
			status = http.StatusNotFound
		}
		x.fail(&fault{code: codeNoMethod, status: status, msg: unknownMethod})
		return
	}
	x.row, x.tool = row, toolID(x.srv.name, x.msg)
	if row.how == passed {
		x.forward(x.msg.raw, nil)
		return
	}
	for _, check := range [...]func() *fault{x.checkName, x.agreeParams} {
		if f := check(); f != nil {
			x.fail(f)
			return
		}
	}
	if x.continues() {
		x.resume()
		return
	}
	x.decide("", "")
}

// unknownMethod is what both sides are told of a method that is not in the table.
const unknownMethod = "this method is unknown to the gateway, so it is not forwarded"

// checkName refuses names under which no rule could be written for this request alone.
func (x *exchange) checkName() *fault {
	if x.row.name != "" {
		name := x.msg.params.Get(x.row.name).Str()
		if name == "" {
			return &fault{code: codeParams, msg: "the member " + x.row.name + " must be a string that is not empty"}
		}
	}
	if x.msg.method != callTool {
		return nil
	}
	name := x.msg.params.Get("name").Str()
	switch {
	case isMethod(name):
		return &fault{code: codeParams, msg: "this tool has the name of a method of MCP, so no rule could tell them apart"}
	case !x.srv.offers(name):
		return &fault{code: codeParams, msg: "unknown tool"}
	}
	return nil
}

// offers reports whether the configuration lets clients see a tool.
func (s *server) offers(tool string) bool {
	return len(s.tools) == 0 || slices.ContainsFunc(s.tools, func(p string) bool { return sdk.MatchGlob(p, tool) })
}

// authorize asks about the request. token redeems an approval; callID names the ask.
func (x *exchange) authorize(ctx context.Context, token, callID string) (*ask.Decision, error) {
	args, f := argsOf(x.row, x.msg, x.g.lim)
	if f != nil {
		return nil, f
	}
	q := &wire.AuthorizeRequest{AgentID: agentOf(x.r.Caller.Key, x.c), ToolID: x.tool, SessionID: x.c.sessionID(),
		Args: args, DeferToken: token, CallID: callID}
	if token == "" {
		q.Redeem = "auto"
	}
	return x.g.set.Asker.Authorize(ctx, x.r.Caller, q)
}

// callID names a call so that the same request sent twice runs once. Ids are unique within a session only, so there is
// none without one.
func (x *exchange) callID() string {
	if x.c.session == nil {
		return ""
	}
	id := x.c.sessionID() + ":" + idOf(x.msg.id)
	if wire.CheckName("call_id", id, x.g.set.Limits.Name-len(resumed), false) != nil {
		return ""
	}
	return id
}

// resumed ends the call id of the second ask about a call that had to wait.
const resumed = "-resume"

// decide asks, and does what the answer says.
func (x *exchange) decide(token, callID string) {
	if callID == "" {
		callID = x.callID()
	}
	if why := x.withheldTool(); why != "" {
		x.refuse(why, "TOOL_CHANGED", "")
		return
	}
	d, err := x.authorize(x.r.Context(), token, callID)
	defer d.Sent()
	switch {
	case err != nil:
		x.undecided(err)
	case d.Permits():
		x.forward(x.stripped(), d)
	case d.Repeat:
		x.refuse("This call was decided before under the same id, so it is not run a second time. Send it with a new id.",
			d.ReasonCode, d.DecisionID)
	case d.Effect == sdk.Defer.String():
		d.Sent()
		x.wait(d)
	default:
		x.refuse(deniedText(d.AuthorizeResponse), d.ReasonCode, d.DecisionID)
	}
}

// deniedText is what a model reads of a denial.
func deniedText(d *wire.AuthorizeResponse) string {
	text := "Denied by policy (" + d.DecisionID + ")"
	if d.Message != "" {
		text += ": " + d.Message
	}
	if d.Retry != nil && d.Retry.Class == "after" {
		return text + ". It may be permitted later."
	}
	return text + ". Do not repeat this call."
}

// refuse answers a request that is not forwarded: a tool's as a failed result, which the model reads, or as an error.
func (x *exchange) refuse(text, reason, decision string) {
	if x.msg.method == callTool && x.g.set.Config.Refusal != "error" {
		x.out.answer(http.StatusOK, refusedResult(x.id(), text, x.c.modern))
		return
	}
	x.fail(&fault{code: codeDenied, msg: text, data: errorData(reason, decision)})
}

// undecided answers a request about which no decision could be had. It is never forwarded.
func (x *exchange) undecided(err error) {
	var f *fault
	if errors.As(err, &f) {
		x.fail(f)
		return
	}
	e := front.AsError(err)
	st := wire.StatusOf(e.Code)
	f = &fault{code: codeInternal, msg: "the gateway could not decide about this call, so it was not forwarded",
		data: errorData(string(e.Code), "")}
	if st.HTTP < 500 && e.Msg != "" { // the caller's own doing
		f.code, f.msg = codeInvalid, e.Msg
	} else {
		x.srv.logs.Log("no decision: %s", e.Code)
	}
	if st.HTTP == http.StatusForbidden || st.HTTP == http.StatusUnauthorized {
		f.code = codeDenied
	}
	x.fail(f)
}

// stripped is the request without what was sealed for us: the server must not see it. Without any, its very bytes.
func (x *exchange) stripped() string {
	if !x.continues() {
		return x.msg.raw
	}
	params := without(x.msg.raw, x.msg.params, "requestState", "inputResponses")
	return apply(x.msg.raw, []edit{replace(x.msg.params, params)})
}

// forward sends a message on and relays what comes back. d is the decision that permits it, nil where none is needed.
func (x *exchange) forward(body string, d *ask.Decision) {
	if x.halted(d) {
		x.stop()
		return
	}
	ctx, end := x.guarded(d)
	defer end()
	in, err := x.srv.up.send(ctx, &outgoing{method: http.MethodPost, body: body, msg: x.msg,
		header: x.r.Header, session: x.upstreamSession(), key: x.r.Caller.Key.ID, modern: x.c.modern,
		wrote: d.Sent})
	x.pass(ctx, in, err)
}

// pass relays what came back, or answers for a server from which nothing came.
func (x *exchange) pass(ctx context.Context, in *incoming, err error) {
	if err == nil {
		defer in.end()
	}
	switch {
	case ctx.Err() != nil && x.r.Context().Err() == nil, x.halted(nil):
		x.stop()
	case err != nil:
		x.unreachable(err)
	default:
		x.relay(in)
	}
}

func (x *exchange) upstreamSession() string {
	if x.c.session == nil {
		return ""
	}
	return x.c.session.Upstream
}

// unreachable answers for a server that does not.
func (x *exchange) unreachable(err error) {
	if x.r.Context().Err() != nil {
		return // the client has gone
	}
	x.srv.logs.Log("%v", err)
	f := &fault{code: codeInternal, status: http.StatusBadGateway,
		msg: "the MCP server " + x.srv.name + " cannot be reached or does not answer as MCP says"}
	if why := (*fault)(nil); errors.As(err, &why) {
		f.code, f.msg = why.code, why.msg
	}
	if errors.Is(err, errNoSession) {
		f = &fault{code: codeDenied, status: http.StatusNotFound, msg: "this session is over: send initialize again"}
	}
	if x.msg != nil && x.msg.kind == request {
		f.status = http.StatusOK // a client of the older era takes any other status for the end of its session
		if errors.Is(err, errNoSession) {
			f.status = http.StatusNotFound
		}
	}
	x.fail(f)
}

// errNoSession says that the server does not know the session.
var errNoSession = errors.New("the session is over")

// listen is the stream of the older era on which a server speaks first.
func (g *Gateway) listen(w http.ResponseWriter, r *front.Request) { g.bare(w, r, http.MethodGet) }

// endSession ends a session of the older era.
func (g *Gateway) endSession(w http.ResponseWriter, r *front.Request) {
	g.bare(w, r, http.MethodDelete)
}

func (g *Gateway) bare(w http.ResponseWriter, r *front.Request, method string) {
	srv := g.servers[r.PathValue("server")]
	if srv == nil {
		writeJSON(w, http.StatusNotFound, failure("", invalid("no MCP server of this name is configured")))
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	go func() { // such a stream has no end of its own
		select {
		case <-r.Caller.Stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	r.Request = r.Request.WithContext(ctx)
	x := &exchange{g: g, srv: srv, r: r, tool: toolPrefix + srv.name + "/stream",
		out: &sink{w: w, rc: http.NewResponseController(w)}}
	var f *fault
	if x.c, f = g.clientOf(r, srv, nil); f != nil {
		x.fail(f)
		return
	}
	if x.halted(nil) {
		x.stop()
		return
	}
	guarded, end := x.guarded(nil)
	defer end()
	in, err := srv.up.send(guarded, &outgoing{method: method, header: r.Header, session: x.upstreamSession(),
		key: x.r.Caller.Key.ID, modern: x.c.modern})
	x.pass(guarded, in, err)
}
