// Package guardrails is the doors for gateways of language models that ask somebody else about what passes through
// them: LiteLLM, Portkey, agentgateway, and clients of OpenAI's moderation API. It owns the contract of each, one file
// each: how a request becomes texts to scan and calls to decide, and how the verdict is said. It must never pass what
// the operations did not pass, answer a failure with anything but a refusal in the contract's own form, or skip a text.
package guardrails

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/doors/ask"
	"github.com/yett-dev/yett/core/doors/front"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// Settings are what the doors need; all are required.
type Settings struct {
	Config  config.Doors
	Limits  config.Limits
	Asker   Asker
	Console func() string // the address of the console, "" when it is off
}

// Asker asks the operations. *ask.Asker does.
type Asker interface {
	// Authorize asks whether a call may run.
	Authorize(ctx context.Context, c ask.Caller, q *wire.AuthorizeRequest) (*ask.Decision, error)
	// Scan says what of some outputs may be released.
	Scan(ctx context.Context, c ask.Caller, q *wire.ScanRequest) (*wire.ScanResponse, error)
}

// Routes are those of the doors that are on.
func Routes(set Settings) []front.Route {
	var routes []front.Route
	c := &set.Config
	if c.LiteLLM.Enabled {
		d := &liteLLM{door: door{set: set, name: "litellm", agentID: c.LiteLLM.AgentID, prefix: c.LiteLLM.ToolPrefix,
			authorizes: c.LiteLLM.ToolCalls != "scan", blocksUnscanned: c.LiteLLM.Unscanned != "pass"}}
		routes = append(routes, d.door.route("/beta/litellm_basic_guardrail_api", d.handle, denyLiteLLM, refuseLiteLLM))
	}
	if c.Portkey.Enabled {
		d := &portkey{door: door{set: set, name: "portkey", agentID: c.Portkey.AgentID, prefix: c.Portkey.ToolPrefix,
			authorizes: c.Portkey.ToolCalls != "scan", blocksUnscanned: c.Portkey.Unscanned != "pass"}}
		routes = append(routes, d.door.route("/portkey", d.handle, denyPortkey, refusePortkey))
	}
	if c.Agentgateway.Enabled {
		d := &agentgateway{door: door{set: set, name: "agentgateway", agentID: c.Agentgateway.AgentID}}
		routes = append(routes,
			d.door.route("/agentgateway/request", d.request, denyAgentgateway, refuseAgentgateway),
			d.door.route("/agentgateway/response", d.response, denyAgentgateway, refuseAgentgateway))
	}
	if c.Moderations.Enabled {
		d := &moderations{door: door{set: set, name: "moderations", agentID: c.Moderations.AgentID}}
		routes = append(routes, d.door.route("/v1/moderations", d.handle, nil, refuseModeration))
	}
	return routes
}

// door is what the doors have in common.
type door struct {
	set                         Settings
	name                        string
	agentID, prefix             string
	authorizes, blocksUnscanned bool
}

// asked is one request to a door with what came of it.
type asked struct {
	*front.Request

	door      *door
	ctx       context.Context
	body      exact.Value
	agent     string
	decisions []*ask.Decision
}

// handler gives the whole answer to a request. With an error, nothing that was asked about may pass.
type handler func(a *asked) ([]byte, error)

// denial is the answer of a contract to what the operations refuse; nil where the handler gives it.
type denial func(no *denied) []byte

// refusal writes the closed answer of a contract.
type refusal func(w http.ResponseWriter, r *front.Request, err *sdk.Error)

// route is a path of the door. Its pattern names no method: another one is refused in the contract's own form as well.
func (d *door) route(path string, handle handler, deny denial, refuse refusal) front.Route {
	return front.Route{Pattern: path, Needs: sdk.ScopeScan, Body: int64(d.set.Limits.ScanBody), KeyOf: keyOf, Always: true,
		Refuse: refuse, Handle: func(w http.ResponseWriter, r *front.Request) {
			if err := d.answer(w, r, handle, deny); err != nil {
				r.Fail(w, err)
			}
		}}
}

// answer reads a request and writes the handler's answer. With an error, nothing was written.
func (d *door) answer(w http.ResponseWriter, r *front.Request, handle handler, deny denial) error {
	if r.Method != http.MethodPost {
		return sdk.Errf(sdk.CodeMethodNotAllowed, "send a POST")
	}
	var doc exact.Doc
	if err := doc.Parse(string(r.Body), d.set.Limits.JSON()); err != nil {
		return &sdk.Error{Code: sdk.CodeInvalidJSON, Msg: err.Error()}
	}
	if doc.Root().Kind() != exact.Object {
		return sdk.Errf(sdk.CodeInvalidJSON, "the body must be a JSON object, not %v", doc.Root().Kind())
	}
	a := &asked{Request: r, door: d, ctx: r.Context(), body: doc.Root(), agent: d.agent(r)}
	defer func() {
		for _, decision := range a.decisions {
			decision.Sent()
		}
	}()
	answer, err := handle(a)
	var no *denied
	switch {
	case err == nil:
	case deny != nil && errors.As(err, &no):
		answer = deny(no)
	default:
		return err
	}
	write(w, http.StatusOK, answer)
	return nil
}

func write(w http.ResponseWriter, status int, answer []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(answer) // who has hung up gets no answer, and passes nothing
}

// keyOf finds the key where LiteLLM puts it, or in Authorization.
func keyOf(r *http.Request) string {
	switch keys := r.Header.Values("X-Api-Key"); len(keys) {
	case 0:
		return r.Header.Get("Authorization")
	case 1:
		return "Bearer " + strings.TrimPrefix(keys[0], "Bearer ")
	default:
		return "" // nobody knows which counts
	}
}

// agent is who acts where a request names nobody: the configured agent, the only one that the key acts for, or one of
// the key's own name.
func (d *door) agent(r *front.Request) string {
	key := r.Caller.Key
	switch {
	case d.agentID != "":
		return d.agentID
	case len(key.Agents) == 1 && !strings.ContainsAny(key.Agents[0], `*?[\`):
		return key.Agents[0]
	}
	return key.Name
}

// named lets a member of the request name the agent. Nothing, null and "" name nobody; what is no text is refused.
func (a *asked) named(v exact.Value, field string) error {
	switch {
	case !v.Exists(), v.Kind() == exact.Null, v.Kind() == exact.String && v.Str() == "":
		return nil
	case v.Kind() != exact.String:
		return wrong(field, "a string", v)
	}
	a.agent = v.Own()
	return nil
}

// late refuses when the time is over: an answer that comes then may be one that nobody reads.
func (a *asked) late() error {
	if a.ctx.Err() != nil {
		return sdk.Errf(sdk.CodeTimeout, "no decision came in time")
	}
	return nil
}

// wrong is a member of another type than its contract has.
func wrong(field, want string, v exact.Value) error {
	if !v.Exists() {
		return sdk.FieldErrf(sdk.CodeMissingField, field, "%s is missing: expected %s", field, want)
	}
	return sdk.FieldErrf(sdk.CodeInvalidField, field, "%s must be %s, not %v", field, want, v.Kind())
}

// list refuses what is neither a list nor absent.
func list(v exact.Value, field string) (exact.Value, error) {
	if v.Exists() && v.Kind() != exact.Null && v.Kind() != exact.Array {
		return v, wrong(field, "a list", v)
	}
	return v, nil
}

// denied is a refusal by the operations: what was asked about may not pass. It is an answer, and no failure.
type denied struct {
	code string // of reasons
	why  string // for the client and its model
	link string // where people approve, "" if nobody is asked
}

// Error implements error.
func (d *denied) Error() string {
	s := "Yett refused this: " + d.why + " (" + d.code + ")."
	if d.link != "" {
		s += " Ask for approval at " + d.link + " and send the request again."
	}
	return s
}

// told is the text of a refusal for people and models.
func told(e *sdk.Error) string {
	msg := e.Msg
	if msg == "" {
		msg = wire.StatusOf(e.Code).Title
	}
	return "Yett could not decide, so this is refused: " + strings.TrimSuffix(msg, ".") + " (" + string(e.Code) + ")."
}
