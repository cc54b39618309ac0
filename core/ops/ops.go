// Package ops holds the one table of operations that every transport serves, and one file per operation. An operation is
// a typed function that sees neither HTTP nor a socket, so no two transports can differ. It owns authentication, scopes
// and what an operation means; it asks the chain for verdicts and hands changes to the store. It must never write around
// Committer, answer before the record is on disk, or turn an error into anything but a refusal. Clock and randomness
// come in with Settings.
package ops

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// Table is every operation there is. A new one is a row here, a file beside this one and its types in sdk/wire.
var Table = []Op{
	{Name: "authorize", Needs: sdk.ScopeAuthorize, Method: "POST", Path: "/v1/authorize", Body: AuthorizeBody, Decides: true, Run: typed((*Service).Authorize), Doc: "Decide whether one call may run."},
	{Name: "scan_output", Needs: sdk.ScopeScan, Method: "POST", Path: "/v1/scan_output", Body: ScanBody, Run: typed((*Service).Scan), Doc: "Scan one tool or model output."},
	{Name: "approve_defer", Needs: sdk.ScopeApprove, Method: "POST", Path: "/v1/approve", Body: AuthorizeBody, Run: typed((*Service).Approve), Doc: "Approve or deny a deferred call."},
	{Name: "poll_defer", Needs: sdk.ScopeAuthorize | sdk.ScopeApprove, Method: "POST", Path: "/v1/defer/status", Body: AuthorizeBody, Query: []string{"token"}, Run: typed((*Service).DeferStatus), Doc: "Ask where a deferred call stands."},
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
	Method  string
	Path    string
	Body    BodyLimit
	Decides bool     // answers with a decision: errors of recording carry effect DENY
	Query   []string // members that may come in the query instead of the body
	Doc     string
	Run     Runner
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
	return Runner{Req: reflect.TypeFor[Req](), Resp: reflect.TypeFor[Resp](), Call: func(s *Service, r *Request) (Response, error) {
		req := reqs.Get().(*Req)
		defer func() {
			*req = *new(Req)
			reqs.Put(req)
		}()
		if err := wire.Decode(r.Body, req, s.set.NameBytes); err != nil {
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
	Stopping    <-chan struct{} // closed when the server drains: whoever waits answers now
}

// Store is what operations need of the state.
type Store interface {
	// Commit returns when the command's record is on disk, or with the reason why it is not.
	Commit(ctx context.Context, cmd store.Command) error
	// Key is the key with that id, revoked ones too, or nil.
	Key(id string) *store.Key
	// Keys lists all keys, tombstones too.
	Keys() []*store.Key
}

// Observer counts operations.
type Observer interface {
	// Operated is called once an operation has ended; it must not block. result is a decision's effect or a scan's outcome.
	Operated(operation, result string, code sdk.Code, took time.Duration)
}

// Generation is one immutable set of rules and scanners.
type Generation struct {
	Policy    string // hash of what the operator wrote
	Authorize *chain.Authorizer
	Scan      *chain.ScanChain
	Args      string // how args are kept in the log: digest, redacted, full
}

// Settings are what a Service needs; all are required.
type Settings struct {
	Store       Store
	Generation  func() *Generation
	Pepper      []byte
	Now         func() time.Time
	Random      func([]byte) // fills with cryptographic randomness
	NameBytes   int
	DeferTTL    time.Duration
	MaxDeferTTL time.Duration
	ApprovedTTL time.Duration
	MaxDefers   int
	LongPolls   int
	RatePerKey  int // requests a second, 0 = no limit
	Observer    Observer
}

// Service runs the operations. Safe for concurrent use.
type Service struct {
	set   Settings
	macs  macPool
	ids   *idSource
	polls pollCounter
	wrong refusals
	rates rateLimits
}

// New makes a Service.
func New(set Settings) *Service {
	return &Service{set: set, macs: newMACPool(set.Pepper), ids: newIDSource(set.Now, set.Random), polls: pollCounter{max: set.LongPolls}, rates: rateLimits{perSecond: set.RatePerKey}}
}

// Run authenticates nothing: it checks scope and rate and runs the operation. Transports call it for every request, so
// that none can be served without.
func (s *Service) Run(op *Op, r *Request) (Response, error) {
	resp, err := s.run(op, r)
	s.set.Observer.Operated(op.Name, result(resp), codeOf(err), s.set.Now().Sub(r.Start))
	return resp, err
}

func (s *Service) run(op *Op, r *Request) (Response, error) {
	if r.Key.Scope()&op.Needs == 0 {
		return nil, sdk.Errf(sdk.CodeMissingScope, "the key %q lacks scope %s", r.Key.Name, op.Needs)
	}
	if err := s.rates.take(r.Key.ID, r.Start); err != nil {
		return nil, err
	}
	return op.Run.Call(s, r)
}

// result is what of an answer is counted.
func result(resp Response) string {
	switch r := resp.(type) {
	case *wire.AuthorizeResponse:
		if r != nil {
			return r.Effect
		}
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
