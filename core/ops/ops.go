// Package ops holds the one table of operations that every transport serves, and one file per operation. An operation
// is a typed function that sees neither HTTP nor a socket, so no two transports can differ. It owns authentication,
// scopes and what an operation means; it asks the chain for verdicts and hands changes to the store. It must never
// write around Store.Commit, answer before the record is on disk, or turn an error into anything but a refusal. Clock
// and randomness come in with Settings.
package ops

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/places"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// Table is every operation there is. A new one is a row here, a file beside this one and its types in sdk/wire.
var Table = []Op{
	{Name: "authorize", Needs: sdk.ScopeAuthorize, Method: "POST", Path: "/v1/authorize", Body: AuthorizeBody, Decides: true, Run: typed((*Service).Authorize), Doc: "Decide whether one call may run."},
	{Name: "govern", Socket: true, Needs: sdk.ScopeAuthorize, Body: AuthorizeBody, Decides: true, Run: typed((*Service).Govern), Doc: "Decide whether one call may run."},
	{Name: "scan_output", Socket: true, Needs: sdk.ScopeScan, Method: "POST", Path: "/v1/scan_output", Body: ScanBody, Works: true, Run: typed((*Service).Scan), Doc: "Scan one output of a tool or a model, or several."},
	{Name: "reveal", Needs: sdk.ScopeReveal, Method: "POST", Path: "/v1/reveal", Body: ScanBody, Run: typed((*Service).Reveal), Doc: "Put the values of a session's tokens back into a text."},
	{Name: "approve_defer", Socket: true, Needs: sdk.ScopeApprove, Method: "POST", Path: "/v1/approve", Body: AuthorizeBody, Urgent: true, Run: typed((*Service).Approve), Doc: "Approve or deny a deferred call, or withdraw an approval."},
	{Name: "defer_status", Needs: sdk.ScopeAuthorize | sdk.ScopeApprove, Method: "POST", Path: "/v1/defer/status", Body: AuthorizeBody, Query: []string{"token"}, Waits: true, Run: typed((*Service).DeferStatus), Doc: "Ask for the status of a deferred call."},
	{Name: "poll_defer", Socket: true, Needs: sdk.ScopeAuthorize | sdk.ScopeApprove, Body: AuthorizeBody, Run: typed((*Service).PollDefer), Doc: "Ask for the status of a deferred call."},
	{Name: "approvals_list", Needs: sdk.ScopeApprove, Method: "GET", Path: "/v1/approvals", Run: typed((*Service).ApprovalsList), Doc: "List the deferred calls that wait for the key's answer."},
	{Name: "approval_get", Socket: true, Needs: sdk.ScopeApprove, Method: "GET", Path: "/v1/approvals/call", Body: AuthorizeBody, Urgent: true, Run: typed((*Service).ApprovalGet), Doc: "Read one deferred call with all its members."},
	{Name: "standing_grant_add", Socket: true, Needs: sdk.ScopeGrants, Method: "POST", Path: "/v1/grants", Body: AuthorizeBody, Run: typed((*Service).AddGrant), Doc: "Make a standing grant: an approval in advance."},
	{Name: "standing_grant_revoke", Socket: true, Needs: sdk.ScopeGrants, Method: "POST", Path: "/v1/grants/revoke", Body: AuthorizeBody, Urgent: true, Stops: true, Run: typed((*Service).RevokeGrant), Doc: "Revoke a standing grant."},
	{Name: "standing_grant_list", Socket: true, Needs: sdk.ScopeGrants, Method: "GET", Path: "/v1/grants", Run: typed((*Service).ListGrants), Doc: "List standing grants."},
	{Name: "kill", Socket: true, Needs: sdk.ScopeKill, Method: "POST", Path: "/v1/kill", Body: AuthorizeBody, Urgent: true, Stops: true, Run: typed((*Service).KillSwitch), Doc: "Stop an agent, a session, a key, a tool or everything, or end a kill."},
	{Name: "kill_list", Needs: sdk.ScopeKill | sdk.ScopeAudit, Method: "GET", Path: "/v1/kill", Run: typed((*Service).KillList), Doc: "List the kills in effect."},
	{Name: "audit_subscribe", Socket: true, Needs: sdk.ScopeAudit, Body: AuthorizeBody, Stream: stream((*Service).AuditSubscribe), Doc: "Follow the audit log."},
	{Name: "callback_subscribe", Socket: true, Needs: sdk.ScopeAuthorize | sdk.ScopeAudit, Body: AuthorizeBody, Stream: stream((*Service).CallbackSubscribe), Doc: "Follow what happens to calls."},
	{Name: "action_submit", Needs: sdk.ScopeAuthorize, Method: "POST", Path: "/v1/actions", Body: AuthorizeBody, Decides: true, Run: typed((*Service).SubmitAction), Doc: "Submit an action. The gateway decides and stores it. If the same key submits the identical action again within 2 seconds, the answer is the same action."},
	{Name: "action_list", Needs: readActions, Method: "GET", Path: "/v1/actions", Run: typed((*Service).ListActions), Doc: "List actions, newest first."},
	{Name: "action_get", Needs: readActions, Method: "GET", Path: "/v1/actions/{id}", Run: typed((*Service).GetAction), Doc: "Read one action."},
	{Name: "action_approval", Needs: sdk.ScopeApprove, Method: "POST", Path: "/v1/actions/{id}/approval", Body: AuthorizeBody, Urgent: true, Run: typed((*Service).ApproveAction), Doc: "Approve or deny an action that waits, or withdraw an approval."},
	{Name: "action_start", Needs: sdk.ScopeAuthorize, Method: "POST", Path: "/v1/actions/{id}/start", Body: AuthorizeBody, Decides: true, Run: typed((*Service).StartAction), Doc: "Start an allowed or approved action, once. The gateway decides the action again."},
	{Name: "action_result", Needs: sdk.ScopeAuthorize, Method: "POST", Path: "/v1/actions/{id}/result", Body: AuthorizeBody, Run: typed((*Service).FinishAction), Doc: "Report how an executing action ended, once."},
	{Name: "action_events", Needs: readActions, Method: "GET", Path: "/v1/actions/{id}/events", Run: typed((*Service).ActionEvents), Doc: "List the events of one action, with the hashes of their audit records."},
	{Name: "gate_decide", Needs: sdk.ScopeAuthorize, Method: "POST", Path: "/v1/gate/decide", Body: AuthorizeBody, Decides: true, Run: typed((*Service).GateDecide), Doc: "Decide a call in the same way as an action, but store no action. Grants and approvals never apply."},
	{Name: "evaluate", Needs: sdk.ScopeAuthorize, Method: "POST", Path: "/v1/evaluate", Body: AuthorizeBody, Decides: true, Run: typed((*Service).Evaluate), Doc: "Decide whether one call may run. A DENY and a DEFER have status 200 too. Only a dry run with deny_status=403 has status 403."},
	{Name: "events", Needs: readActions, Method: "GET", Path: "/v1/events", Stream: stream((*Service).Events), Doc: "Follow what happens to actions, as server-sent events."},
	{Name: "policy_validate", Needs: sdk.ScopeAuthorize | sdk.ScopeAudit, Method: "POST", Path: "/v1/policy/validate", Body: AuthorizeBody, Run: typed((*Service).PolicyValidate), Doc: "Check whether a list of rules compiles. The gateway stores nothing."},
	{Name: "policy_test", Needs: sdk.ScopeAuthorize | sdk.ScopeAudit, Method: "POST", Path: "/v1/policy/test", Body: AuthorizeBody, Run: typed((*Service).PolicyTest), Doc: "Run a list of rules on one action, as a test. Nothing is recorded or spent."},
	{Name: "policy_info", Needs: anyScope, Method: "GET", Path: "/v1/policy/info", Run: typed((*Service).PolicyInfo), Doc: "Read which rules are in force."},
	{Name: "whoami", Needs: anyScope, Method: "GET", Path: "/v1/whoami", Run: typed((*Service).Whoami), Doc: "Read what the caller's key may do."},
}

// BodyLimit names the limit that an operation's body has.
type BodyLimit uint8

// The body limits.
const (
	AuthorizeBody BodyLimit = iota // limits.authorize_body
	ScanBody                       // limits.scan_body
)

// Op is one row of the table.
type Op struct {
	Name    string
	Needs   sdk.Scope // any one of these
	Socket  bool      // served on the socket, under its name
	Method  string    // of HTTP
	Path    string    // of HTTP, "" if it is not served there; {name} stands for one segment
	Body    BodyLimit
	Waits   bool     // may wait long for its answer
	Urgent  bool     // has places of its own where all connections and requests are busy
	Stops   bool     // can take away what was allowed: no rate of the key holds it up, nor its undo
	Decides bool     // answers with a decision: errors of recording carry effect DENY
	Works   bool     // works before it waits for others, and ends its turn itself, as what decides does
	Query   []string // members that may come in the query instead of the body
	Doc     string
	Run     Runner // either Run
	Stream  Opener // or Stream
}

// UrgentInFlight is how many urgent requests are taken beyond those that may be in flight.
const UrgentInFlight = 64

// Stream is an open subscription. Its methods are called by one goroutine, Close excepted.
type Stream interface {
	// First is the answer that opens the stream; nil where lines alone are sent.
	First() Response
	// Next waits and gives whole lines, each with its line end; the bytes are the caller's. Once the stream has ended it
	// gives what is left with io.EOF. It returns ctx's error when ctx ends.
	Next(ctx context.Context) ([]byte, error)
	// Closing is the last line for a reader that does not read, with the seq it got last: it resumes behind it.
	Closing() []byte
	// Close gives everything back. It may be called at any time, more than once.
	Close()
}

// Opener is a subscribing operation with its types erased.
type Opener struct {
	Open      func(s *Service, r *Request) (Stream, error)
	Req, Resp reflect.Type
}

// stream turns a subscribing operation's function into a table entry.
func stream[Req any](fn func(*Service, *Request, *Req) (Stream, error)) Opener {
	return Opener{Req: reflect.TypeFor[Req](), Resp: reflect.TypeFor[wire.SubscribeResponse](),
		Open: func(s *Service, r *Request) (Stream, error) {
			req := new(Req)
			if err := decode(s, r, req); err != nil {
				return nil, err
			}
			return fn(s, r, req)
		}}
}

// decode fills a request from its body, and from what came in the path and the query.
func decode(s *Service, r *Request, dst any) error {
	if err := wire.Decode(r.Body, dst, s.set.Limits.Name); err != nil {
		return err
	}
	return wire.DecodeParams(r.Params, dst, s.set.Limits.Name)
}

// Response is what an operation answers.
type Response interface{ AppendJSON(dst []byte) []byte }

// Runner is an operation with its types erased; Req and Resp remain for the documents that are made from the table.
type Runner struct {
	Call      func(s *Service, r *Request) (Response, error)
	Req, Resp reflect.Type
}

// typed turns an operation's function into a table entry.
func typed[Req, Resp any, P interface {
	*Resp
	Response
}](fn func(*Service, *Request, *Req) (P, error)) Runner {
	reqs := sync.Pool{New: func() any { return new(Req) }} // fn must not keep its request
	return Runner{Req: reflect.TypeFor[Req](), Resp: reflect.TypeFor[Resp](),
		Call: func(s *Service, r *Request) (Response, error) {
			req := reqs.Get().(*Req)
			defer func() {
				*req = *new(Req)
				reqs.Put(req)
			}()
			if err := decode(s, r, req); err != nil {
				return nil, err
			}
			return fn(s, r, req)
		}}
}

// Request is one request as an operation sees it, whatever carried it.
type Request struct {
	Ctx         context.Context // ends at the request's deadline, when the caller goes away, or when the server stops
	Key         *store.Key
	Who         store.Who
	Start       time.Time
	Body        exact.Value
	Raw         string          // the body as sent
	Idempotency string          // the Idempotency-Key header
	Params      []wire.Param    // of the path and the query
	Stopping    <-chan struct{} // closed when the server drains: whoever waits answers now

	// Gone reports whether the caller went away, so that nobody waits for it in vain; nil where transports end Ctx
	// instead.
	Gone func() bool

	// Flight is told before a decision is committed, from when on its answer may be a PERMIT that a kill waits for; nil
	// where the transport asks Overtaken instead.
	Flight Flight

	Trace Trace // nil: nobody follows it

	own       places.Turn
	turn      *places.Turn // own, of this request or of the one that it is a copy of; nil: none
	permitted permitted    // what the operation permitted, for Overtaken
}

// Flight is one request of a transport that counts itself among those whose answer may be a PERMIT on its way.
type Flight interface{ TakeOff() }

// Generation is one immutable set of rules and scanners. What was begun on one ends on it, whatever is put in its
// place.
type Generation struct {
	Policy    string // hash of what the operator wrote
	Authorize *chain.Authorizer
	Scan      *chain.ScanChain
	Args      string // how args are kept in the log: digest, redacted, full

	users atomic.Int64
}

// Users is how many calls and streams work on the generation. Once another one has taken its place, it only falls: at
// 0, nothing of this generation is used any more.
func (g *Generation) Users() int64 { return g.users.Load() }

// unpin takes pin back.
func (g *Generation) unpin() { g.users.Add(-1) }

// pin gives the generation in force and keeps what it is made of from being closed until unpin. It is counted before it
// is looked at once more: who swapped in between sees either the count or that nobody uses the old one.
func (s *Service) pin() *Generation {
	for {
		g := s.set.Generation()
		g.users.Add(1)
		if s.set.Generation() == g {
			return g
		}
		g.unpin()
	}
}

// Settings are what a Service needs; all are required.
type Settings struct {
	Store      Store
	Generation func() *Generation
	Pepper     []byte
	Now        func() time.Time
	Random     func([]byte) // fills with cryptographic randomness
	Limits     config.Limits
	Defers     config.Defers
	ScanShare  int64 // what one key's streams of scan_output may hold, bytes; 0: the share that Limits says
	// requests that are worked on at once, waits apart; 0: as many as there are processors
	Turns    int
	Match    func(expr string) (Matcher, error) // compiles an args_match
	Observer Observer
	Log      Log // what streams follow
	Version  string
	// compiles a rules file without any other effect; the error is a *PolicyError
	Policy func(text string) (*chain.Authorizer, error)
}

// Service runs the operations. Safe for concurrent use.
type Service struct {
	set   Settings
	macs  macPool
	ids   *idSource
	polls pollCounter
	wrong refusals
	rates rateLimits
	hub   *hub

	matchers matchers
	inFlight *answersInFlight
	raws     rawCalls
	compiles compiles
	pages    *pages
	scans    scanStreams
	turns    *places.Places
}

// New makes a Service.
func New(set Settings) *Service {
	return &Service{set: set, macs: newMACPool(set.Pepper), ids: newIDSource(set.Now, set.Random),
		polls: pollCounter{max: set.Limits.LongPollsPerKey}, rates: rateLimits{perSecond: set.Limits.RatePerKey},
		hub: newHub(&set), inFlight: newAnswersInFlight(), pages: newPages(set.Pepper, set.Now),
		scans: scanStreams{set: scanLimitsOf(&set)},
		turns: newTurns(set.Turns)}
}

// Run authenticates nothing: it checks scope and rate and runs the operation. Transports call it for every request, so
// that none can be served without.
func (s *Service) Run(op *Op, r *Request) (Response, error) {
	resp, err := s.run(op, r)
	ended := s.set.Now()
	s.set.Observer.Operated(op.Name, result(resp), codeOf(err), ended.Sub(r.Start))
	if r.Trace != nil {
		r.Trace.Ended(op.Name, result(resp), decisionOf(resp), codeOf(err), r.Start, ended)
	}
	return resp, err
}

func (s *Service) run(op *Op, r *Request) (Response, error) {
	if !op.Decides && !op.Works { // it may wait for others
		r.End()
	}
	if err := s.admit(op, r); err != nil {
		return nil, err
	}
	return op.Run.Call(s, r)
}

// Open is Run for a row with a Stream.
func (s *Service) Open(op *Op, r *Request) (Stream, error) {
	st, err := s.open(op, r)
	ended := s.set.Now()
	s.set.Observer.Operated(op.Name, "", codeOf(err), ended.Sub(r.Start))
	if r.Trace != nil {
		r.Trace.Ended(op.Name, "", "", codeOf(err), r.Start, ended)
	}
	return st, err
}

func (s *Service) open(op *Op, r *Request) (Stream, error) {
	if err := s.admit(op, r); err != nil {
		return nil, err
	}
	return op.Stream.Open(s, r)
}

// Allowed says whether a key has a scope that the operation needs. A transport may ask before it reads a body; admit
// asks again.
func Allowed(op *Op, k *store.Key) error {
	if k.Scope()&op.Needs == 0 {
		return sdk.Errf(sdk.CodeMissingScope, "the key %q lacks scope %s", k.Name, op.Needs)
	}
	return nil
}

// UrgentFor reports whether an operation is urgent that such a key asks for. What the key may not do is not.
func (op *Op) UrgentFor(k *store.Key) bool { return op.Urgent && Allowed(op, k) == nil }

// admit is the one place where scopes and rates are looked at.
func (s *Service) admit(op *Op, r *Request) error {
	if err := Allowed(op, r.Key); err != nil {
		return err
	}
	if op.Stops {
		return nil
	}
	return s.rates.takeToken(r.Key.ID, r.Start)
}

// result is what of an answer is counted.
func result(resp Response) string {
	switch r := resp.(type) {
	case *wire.AuthorizeResponse:
		if r != nil {
			return r.Effect
		}
	case *wire.GovernResponse:
		if r != nil {
			return r.Decision.Effect
		}
	case interface{ Decided() string }:
		return r.Decided()
	case *wire.ScanResponse:
		if r != nil {
			return r.Outcome
		}
	}
	return ""
}

func codeOf(err error) sdk.Code {
	if err == nil {
		return "" // before anything that errors.As would put on the heap
	}
	var e *sdk.Error
	var replay *Replay
	switch {
	case errors.As(err, &replay):
		return ""
	case errors.As(err, &e):
		return e.Code
	}
	return sdk.CodeInternal
}
