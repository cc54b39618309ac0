// Package authzen is the door for the OpenID AuthZEN Authorization API 1.0, with the access request and approval
// profile. It owns how an evaluation is read as a call and how a decision is told: PERMIT is true, everything else is
// false, and what waits for a person carries an access_request. It must never say true for anything but a decision
// that permits the call now, keep an approval, or answer an error with a decision.
package authzen

import (
	"net/http"
	"strings"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/doors/ask"
	"github.com/yett-dev/yett/core/doors/front"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// Settings are what the door needs; all but Console are required.
type Settings struct {
	Config  config.AuthZEN
	Limits  config.Limits
	Asker   *ask.Asker
	Now     func() time.Time
	Random  func(p []byte)                   // fills p; the keys of what clients carry are made of it
	Log     func(format string, args ...any) // must not wait
	Console func() string                    // the address of the console, "" when it is off
}

// door answers the requests of the protocol.
type door struct {
	set       Settings
	base      string // of all addresses
	metadata  []byte
	seals     *sealer
	sent      *memory // Idempotency-Keys, and what was sent with them
	cancelled *memory // tasks
}

// The paths below the door's address.
const (
	pathEvaluation  = "/access/v1/evaluation"
	pathEvaluations = "/access/v1/evaluations"
	pathSearch      = "/access/v1/search/"
	pathRequests    = "/access/v1/requests"
	wellKnown       = "/.well-known/authzen-configuration"
)

// notesPerKey bounds how many Idempotency-Keys, and how many cancelled tasks, are remembered for one API key.
const notesPerKey = 4096

// Routes are those of the door, none if it is off.
func Routes(set Settings) []front.Route {
	if !set.Config.Enabled {
		return nil
	}
	random := make([]byte, sealBytes)
	set.Random(random)
	d := &door{set: set, base: set.Config.URL, seals: newSealer(random), sent: newMemory(notesPerKey),
		cancelled: newMemory(notesPerKey)}
	below := set.Config.Path()
	d.metadata = d.describe()
	post := func(path string, handle func(http.ResponseWriter, *front.Request)) front.Route {
		return front.Route{Pattern: "POST " + below + path, Needs: sdk.ScopeAuthorize,
			Body: int64(set.Limits.AuthorizeBody), Refuse: d.refuse, Handle: handle}
	}
	routes := []front.Route{
		post(pathEvaluation, d.evaluation),
		post(pathEvaluations, d.evaluations),
		post(pathSearch+"subject", d.search("subject")),
		post(pathSearch+"resource", d.search("resource")),
		post(pathSearch+"action", d.search("action")),
		{Pattern: "GET " + wellKnown + below, Public: true, Refuse: d.refuse, Handle: d.discovery},
	}
	requests := []front.Route{
		post(pathRequests, d.submit),
		{Pattern: "GET " + below + pathRequests + "/{id}", Needs: sdk.ScopeAuthorize, Handle: d.status},
		post(pathRequests+"/{id}/cancel", d.cancel),
	}
	for i := range requests {
		requests[i].Refuse = d.problem
	}
	return append(routes, requests...)
}

// accessRequests is the capability of the profile.
const accessRequests = "urn:openid:authzen:capability:access-request"

// describe is the metadata. It does not name the search endpoints: a client that finds them there takes an empty answer
// for the whole truth, and the gateway knows no subject, resource or action before it is asked about one.
func (d *door) describe() []byte {
	o := wire.Object(nil)
	o.Str("policy_decision_point", d.base)
	o.Str("access_evaluation_endpoint", d.base+pathEvaluation)
	o.Str("access_evaluations_endpoint", d.base+pathEvaluations)
	o.Str("access_request_endpoint", d.base+pathRequests)
	o.Strs("capabilities", []string{accessRequests})
	return o.Close()
}

// discovery gives the metadata to everybody.
func (d *door) discovery(w http.ResponseWriter, r *front.Request) {
	w.Header().Set("Cache-Control", "public, max-age=300")
	d.answer(w, r, http.StatusOK, kindJSON, d.metadata)
}

// searches are the members that a search needs, and what they need.
var searches = map[string]map[string][]string{
	"subject":  {"subject": {"type"}, "action": {"name"}, "resource": {"type", "id"}},
	"resource": {"subject": {"type", "id"}, "action": {"name"}, "resource": {"type"}},
	"action":   {"subject": {"type", "id"}, "resource": {"type", "id"}},
}

// found is the answer to every search that is well formed.
const found = `{"results":[],"page":{"next_token":""},"context":{"reason":"not_enumerable","message":"This gateway ` +
	`knows no subject, resource or action before it is asked about one, so it finds none. Ask the access evaluation ` +
	`endpoint about each."}}`

// search answers the search for one kind of entity: there is nothing that could be listed.
func (d *door) search(kind string) func(http.ResponseWriter, *front.Request) {
	needs := searches[kind]
	return func(w http.ResponseWriter, r *front.Request) {
		req, err := body(r, &d.set.Limits)
		for _, name := range []string{"subject", "action", "resource"} {
			if sub, needed := needs[name]; needed && err == nil {
				_, err = readEntity(req, req, name, sub...)
			}
		}
		if err != nil {
			d.refuse(w, r, err)
			return
		}
		d.answer(w, r, http.StatusOK, kindJSON, []byte(found))
	}
}

// review is where an approver answers what waits, if clients may be told: an address that browsers reach with TLS.
func (d *door) review() string {
	if d.set.Console == nil {
		return ""
	}
	if at := d.set.Console(); strings.HasPrefix(at, "https://") {
		return at
	}
	return ""
}
