// Package ask lets a door ask the operations in this process: a door is a listener that speaks the protocol of somebody
// else. It owns the way from a typed request to the one table of operations and back. It must never decide anything
// itself: it adds no verdict, and what is not a whole answer of an operation is an error.
package ask

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// Operations run what is asked. *ops.Service has them.
type Operations interface {
	// Run checks scope and rate, and runs the operation.
	Run(op *ops.Op, r *ops.Request) (ops.Response, error)
	// Begin waits for a turn to work on a request whose body has so many bytes.
	Begin(op *ops.Op, r *ops.Request, body int) error
	// Enter counts a request in whose answer may be a PERMIT, until Leave.
	Enter() uint32
	// Leave counts it out.
	Leave(generation uint32)
	// Overtaken reports whether a kill covers what a request permitted, or has since it began.
	Overtaken(r *ops.Request) bool
	// Halts reports whether a key is stopped, or a kill covers such a call of it.
	Halts(key *store.Key, agent, session, tool string) bool
}

// Settings are what an Asker needs; all but Trace are required.
type Settings struct {
	Operations Operations
	Limits     config.Limits
	Now        func() time.Time
	Trace      func(traceparent string) ops.Trace // nil: traces are off
	Timeout    time.Duration                      // of one operation
	Scan       int64                              // the largest scan, bytes of the request; 0: limits.scan_body
}

// Asker asks the operations. Safe for concurrent use.
type Asker struct {
	set                     Settings
	authorize, scan, status *ops.Op
}

// New makes an Asker.
func New(set Settings) *Asker {
	return &Asker{set: set, authorize: named("authorize"), scan: named("scan_output"), status: named("defer_status")}
}

// named is the row of the table with that name; nil, which refuses every request, if there is none.
func named(name string) *ops.Op {
	for i := range ops.Table {
		if ops.Table[i].Name == name {
			return &ops.Table[i]
		}
	}
	return nil
}

// Caller is who asks through a door.
type Caller struct {
	Key         *store.Key
	Who         store.Who
	Traceparent string          // the header as sent; "" if there is none
	Stopping    <-chan struct{} // closed when the gateway stops: whoever waits answers then; nil: never
}

// Decision is an answer to Authorize.
type Decision struct {
	*wire.AuthorizeResponse

	flight *flight
	asked  *ops.Request
}

// Permits reports whether the call may run now. Nothing but this says so: a dry run permits nothing, and a repeat was
// permitted before.
func (d *Decision) Permits() bool {
	return d.Effect == sdk.Permit.String() && !d.DryRun && !d.Repeat
}

// Overtaken reports whether a kill has come since that covers the call: what was permitted must not be sent on, nor a
// PERMIT be told. Whoever does neither at once asks again before.
func (d *Decision) Overtaken() bool {
	return d != nil && d.flight != nil && d.flight.ops.Overtaken(d.asked)
}

// Sent says that the answer has left, or that what it permitted has been sent on. Until then a kill waits for it (for
// two seconds at most). Each Decision needs it once, soon; more calls do nothing.
func (d *Decision) Sent() {
	if d != nil && d.flight != nil {
		d.flight.land()
	}
}

// flight is one answer on its way.
type flight struct {
	ops        Operations
	generation uint32
	up         atomic.Bool
}

// TakeOff counts the answer in, before its decision is committed.
func (f *flight) TakeOff() {
	if !f.up.Load() {
		f.generation = f.ops.Enter()
		f.up.Store(true)
	}
}

func (f *flight) land() {
	if f.up.CompareAndSwap(true, false) {
		f.ops.Leave(f.generation)
	}
}

// Authorize asks whether a call may run. q.Args and q.Context keep their bytes. The error is an *sdk.Error with what
// the caller may be told; then nothing is permitted.
func (a *Asker) Authorize(ctx context.Context, c Caller, q *wire.AuthorizeRequest) (*Decision, error) {
	o := wire.Object(nil)
	o.Str("agent_id", q.AgentID)
	o.Str("tool_id", q.ToolID)
	o.Opt("session_id", q.SessionID)
	o.Opt("operation", q.Operation)
	if q.Args.Exists() {
		o.Raw("args", []byte(q.Args.Raw()))
	}
	if q.Context.Exists() {
		o.Raw("context", []byte(q.Context.Raw()))
	}
	o.Opt("call_id", q.CallID)
	o.Opt("defer_token", q.DeferToken)
	o.Opt("redeem", q.Redeem)
	o.True("dry_run", q.DryRun)
	o.Opt("note", q.Note)
	f := &flight{ops: a.set.Operations}
	asked := &ops.Request{Flight: f}
	resp, err := a.runAs(ctx, a.authorize, c, o.Close(), asked)
	if err != nil {
		f.land()
		return nil, err
	}
	d, ok := resp.(*wire.AuthorizeResponse)
	if !ok || d == nil {
		f.land()
		return nil, sdk.Errf(sdk.CodeInternal, "%s gave no decision", a.authorize.Name)
	}
	return &Decision{AuthorizeResponse: d, flight: f, asked: asked}, nil
}

// Stopped reports whether nothing more may be done for a caller: its key is stopped, or a kill covers such a call.
func (a *Asker) Stopped(c Caller, agent, session, tool string) bool {
	return a.set.Operations.Halts(c.Key, agent, session, tool)
}

// Scan gives texts and JSON values to the scan chain. Exactly one of q.Output, q.OutputJSON and q.Outputs counts: the
// first that is not empty. The error is an *sdk.Error; then nothing may be passed on.
func (a *Asker) Scan(ctx context.Context, c Caller, q *wire.ScanRequest) (*wire.ScanResponse, error) {
	o := wire.Object(nil)
	o.Opt("tool_id", q.ToolID)
	o.Opt("operation", q.Operation)
	o.Opt("agent_id", q.AgentID)
	o.Opt("session_id", q.SessionID)
	o.Opt("content_type", q.ContentType)
	switch {
	case q.Outputs != nil:
		for i := range q.Outputs {
			if err := a.value(q.Outputs[i].OutputJSON); err != nil {
				return nil, err
			}
		}
		o.List("outputs", len(q.Outputs), func(i int, w *wire.Writer) { one(w, &q.Outputs[i]) })
	case q.OutputJSON != nil:
		if err := a.value(q.OutputJSON); err != nil {
			return nil, err
		}
		o.Raw("output_json", q.OutputJSON)
	default:
		o.Str("output", q.Output)
	}
	if q.StreamID != "" {
		o.Str("stream_id", q.StreamID)
		o.Int("offset", int64(q.Offset))
		o.True("final", q.Final)
	}
	resp, err := a.run(ctx, a.scan, c, o.Close())
	if err != nil {
		return nil, err
	}
	s, ok := resp.(*wire.ScanResponse)
	if !ok || s == nil {
		return nil, sdk.Errf(sdk.CodeInternal, "%s gave no verdict", a.scan.Name)
	}
	return s, nil
}

// value refuses what is not one JSON value: pasted into a request, it would bring members of its own.
func (a *Asker) value(raw []byte) error {
	if raw == nil {
		return nil
	}
	var doc exact.Doc
	if err := doc.Parse(string(raw), a.set.Limits.JSON()); err != nil {
		return &sdk.Error{Code: sdk.CodeInvalidJSON, Msg: err.Error()}
	}
	return nil
}

func one(w *wire.Writer, q *wire.ScanOutput) {
	w.Opt("tool_id", q.ToolID)
	w.Opt("content_type", q.ContentType)
	if q.OutputJSON != nil {
		w.Raw("output_json", q.OutputJSON)
		return
	}
	w.Str("output", q.Output)
}

// DeferStatus asks where a deferred call stands, and waits so many seconds while it is pending.
func (a *Asker) DeferStatus(ctx context.Context, c Caller, token string, wait int) (*wire.DeferStatusResponse, error) {
	o := wire.Object(nil)
	o.Str("defer_token", token)
	o.Int("wait_seconds", int64(wait))
	resp, err := a.run(ctx, a.status, c, o.Close())
	if err != nil {
		return nil, err
	}
	s, ok := resp.(*wire.DeferStatusResponse)
	if !ok || s == nil {
		return nil, sdk.Errf(sdk.CodeInternal, "%s gave no status", a.status.Name)
	}
	return s, nil
}

// The operations that Read runs.
const (
	Pending = "approvals_list" // the calls that wait for the key's answer
	Explain = "authorize"      // refused without dry_run
)

// Read runs an operation that changes nothing, and gives its answer as JSON. body is the request.
func (a *Asker) Read(ctx context.Context, c Caller, name string, body []byte) (string, error) {
	var doc exact.Doc
	if err := doc.Parse(string(body), a.set.Limits.JSON()); err != nil {
		return "", &sdk.Error{Code: sdk.CodeInvalidJSON, Msg: err.Error()}
	}
	if name != Pending && (name != Explain || !doc.Root().Get("dry_run").Bool()) {
		return "", sdk.Errf(sdk.CodeInternal, "%s changes something", name)
	}
	resp, err := a.run(ctx, named(name), c, body)
	if err != nil {
		return "", err
	}
	return string(resp.AppendJSON(nil)), nil
}

// run asks what no decision comes of.
func (a *Asker) run(ctx context.Context, op *ops.Op, c Caller, body []byte) (ops.Response, error) {
	return a.runAs(ctx, op, c, body, &ops.Request{})
}

// runAs is the way of every request into the table. r gets all but its Flight here.
func (a *Asker) runAs(ctx context.Context, op *ops.Op, c Caller, body []byte, r *ops.Request) (ops.Response, error) {
	if op == nil {
		return nil, sdk.Errf(sdk.CodeInternal, "the table of operations lacks what the door asks")
	}
	limit, name := a.set.Limits.AuthorizeBody, "limits.authorize_body"
	if op.Body == ops.ScanBody {
		limit, name = max(a.set.Limits.ScanBody, config.Size(a.set.Scan)), "limits.scan_body"
	}
	if int64(len(body)) > int64(limit) {
		return nil, sdk.Errf(sdk.CodeTooLarge, "what %s is asked is %d bytes long, more than the limit of %d (%s)", op.Name,
			len(body), limit, name)
	}
	start := a.set.Now()
	ctx, cancel := context.WithTimeout(ctx, a.set.Timeout)
	defer cancel()
	r.Ctx, r.Key, r.Who, r.Start, r.Raw, r.Stopping = ctx, c.Key, c.Who, start, string(body), c.Stopping
	if a.set.Trace != nil {
		r.Trace = a.set.Trace(c.Traceparent)
	}
	if err := a.set.Operations.Begin(op, r, len(body)); err != nil {
		return nil, err
	}
	defer r.End()
	var doc exact.Doc
	if err := doc.Parse(r.Raw, a.set.Limits.JSON()); err != nil {
		return nil, &sdk.Error{Code: sdk.CodeInvalidJSON, Msg: err.Error()}
	}
	r.Body = doc.Root()
	return a.set.Operations.Run(op, r)
}
