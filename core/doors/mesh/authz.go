package mesh

import (
	"context"
	"net/http"
	"strings"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/doors/ask"
	"github.com/yett-dev/yett/core/doors/front"
	"github.com/yett-dev/yett/sdk"
)

// decide asks whether a request of HTTP may pass. The error says that nothing is permitted.
func decide(ctx context.Context, asker *ask.Asker, c ask.Caller, call *httpCall, set *config.DoorExtAuthz,
	lim *config.Limits) (*ask.Decision, error) {
	q, err := call.authorizeCall(c.Key, set, lim.JSON())
	if err != nil {
		return nil, err
	}
	return asker.Authorize(ctx, c, q)
}

// check answers one CheckRequest.
func (s *Server) check(ctx context.Context, c ask.Caller, b []byte) (reply, error) {
	call, err := parseCheck(b)
	if err != nil {
		return reply{}, malformed(err)
	}
	d, err := decide(ctx, s.set.Asker, c, call, &s.set.Config.ExtAuthz, &s.set.Limits)
	if err != nil {
		return reply{}, err
	}
	if d.Permits() {
		return reply{b: (&checked{permit: true, remove: ownHeaders(call.headers)}).encode(), sent: d.Sent}, nil
	}
	return reply{b: denial(403, ofDecision(d, s.set.Console())), sent: d.Sent}, nil
}

// denial is a CheckResponse that refuses.
func denial(status int, why *refused) []byte {
	m := &checked{status: status, headers: headers{{"content-type", "application/json"}}, body: why.json()}
	if status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
		m.headers = append(m.headers, header{"retry-after", "1"})
	}
	return m.encode()
}

// refuseCheck is the closed answer of ext_authz: denied, so that failure_mode_allow has no say.
func refuseCheck(e *sdk.Error) []byte { return denial(statusOf(e), ofError(e)) }

// prefix is where Envoy's HTTP form asks; the request's own path follows.
const prefix = "/envoy/ext_authz"

// keyHeader carries our key where Authorization is the client's own.
const keyHeader = "X-Yett-Authorization"

// Routes are those of the HTTP form of ext_authz.
func Routes(set Settings) []front.Route {
	if !set.Config.ExtAuthz.HTTP {
		return nil
	}
	h := &httpForm{set: set}
	return []front.Route{{Pattern: prefix + "/", Foreign: true, Needs: sdk.ScopeAuthorize,
		Body: int64(set.Limits.AuthorizeBody), KeyOf: keyOf, Handle: h.handle, Refuse: h.refuse}}
}

// keyOf is the one value of keyHeader.
func keyOf(r *http.Request) string {
	if values := r.Header.Values(keyHeader); len(values) == 1 {
		return values[0]
	}
	return ""
}

// httpForm answers Envoy over HTTP.
type httpForm struct{ set Settings }

// handle answers 200 for a permit, and nothing else with that status.
func (h *httpForm) handle(w http.ResponseWriter, r *front.Request) {
	call := &httpCall{method: r.Method, host: r.Host, path: strings.TrimPrefix(r.RequestURI, prefix), body: r.Body}
	for name, values := range r.Header {
		name = lower(name)
		if name == "content-length" { // that of this request, not of the client's
			continue
		}
		for _, v := range values {
			call.headers = append(call.headers, header{name, v})
		}
	}
	if _, ok := call.headers.all(partialHeader); !ok && len(call.body) > 0 && h.set.Config.ExtAuthz.Bodies == "require" {
		h.refuse(w, r, sdk.Errf(sdk.CodeBadRequest, "Envoy does not say whether the body is whole; add %s to "+
			"allowed_headers", partialHeader))
		return
	}
	d, err := decide(r.Context(), h.set.Asker, r.Caller, call, &h.set.Config.ExtAuthz, &h.set.Limits)
	if err != nil {
		h.refuse(w, r, front.AsError(err))
		return
	}
	defer d.Sent()
	if !d.Permits() {
		answerJSON(w, http.StatusForbidden, ofDecision(d, h.set.Console()))
		return
	}
	if own := ownHeaders(call.headers); len(own) > 0 {
		w.Header().Set("X-Envoy-Auth-Headers-To-Remove", strings.Join(own, ","))
	}
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush() // in vain: the answer leaves when the handler ends
}

// refuse is the closed answer. It is never 5xx, which Envoy takes for an error: failure_mode_allow would pass it.
func (h *httpForm) refuse(w http.ResponseWriter, _ *front.Request, e *sdk.Error) {
	status := statusOf(e)
	if status >= 500 {
		status = http.StatusForbidden
		w.Header().Set("Retry-After", "1")
	}
	answerJSON(w, status, ofError(e))
}

func answerJSON(w http.ResponseWriter, status int, why *refused) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(why.json()) // in vain: the client is gone
}
