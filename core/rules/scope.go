package rules

import (
	"context"
	"strings"
	"sync"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/interpreter"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk/exact"
)

const (
	// maxSteps is what one evaluation may read of a call's documents, in members and elements passed over plus one for
	// every bytesPerStep bytes of text and digits. A step takes a few nanoseconds.
	maxSteps     = 10_000_000
	bytesPerStep = 64

	// A check looks at its call's bound after freeSteps, and then every lookSteps: the usual check is done before, and the
	// time between two looks is some ten microseconds.
	freeSteps = 8192
	lookSteps = 1024

	// Before a condition that is dear by its estimate counts loopSteps for each byte of the call: how long its loops are
	// is not known.
	loopSteps = 8
)

// scope is what one Check works with: the variables of the call at hand, the budget of the evaluation at hand and the
// memory of the candidate walk. It is one goroutine's and goes back to a pool.
type scope struct {
	call    *chain.Call
	args    object
	context object
	steps   int // left; negative once the budget is spent
	made    meter
	texts   map[exact.Value]string // decoded texts of the call, so that reading one twice makes nothing
	cand    candidates
	reader  reader

	ctx    context.Context // of the check, with its bound's end once a condition that is dear has begun
	cancel context.CancelFunc
	work   int    // steps until the next look, over all evaluations of the check
	looked bool   // it has looked
	late   error  // what the last look said: nothing more is evaluated
	raw    *error // takes what CEL itself said of an error, for explanations; nil for calls that are decided
}

var scopes = sync.Pool{New: func() any { return new(scope) }}

func newScope(ctx context.Context, c *chain.Call) *scope {
	sc := scopes.Get().(*scope)
	sc.call, sc.ctx = c, ctx
	sc.work, sc.looked, sc.late = freeSteps, false, nil
	sc.args = object{v: c.Args, sc: sc}
	sc.context = object{v: c.Context, sc: sc}
	sc.reader.sc = sc
	return sc
}

func (sc *scope) release() {
	if sc.looked {
		sc.call.Bound.Release()
	}
	if sc.cancel != nil {
		sc.cancel()
	}
	sc.call, sc.ctx, sc.cancel, sc.late = nil, nil, nil, nil
	sc.args, sc.context, sc.texts = object{}, object{}, nil
	sc.raw, sc.reader = nil, reader{}
	sc.cand.release()
	scopes.Put(sc)
}

// charge takes n steps off the budget and reports whether it still holds. Readers that cannot answer with an error
// stop early; spent then turns the whole evaluation into one, whatever it came to.
func (sc *scope) charge(n int) bool {
	if sc.steps >= 0 {
		sc.steps -= n
	}
	if sc.work -= n; sc.work < 0 {
		sc.look()
	}
	return sc.steps >= 0
}

// look asks the call's bound whether to go on. Where it is not to, the evaluation ends as one whose budget is spent.
func (sc *scope) look() {
	sc.work = lookSteps
	if sc.late == nil {
		sc.looked = true
		sc.late = sc.call.Bound.Look(sc.ctx)
	}
	if sc.late != nil {
		sc.steps = -1
	}
}

// begin counts what is not known of a condition that is dear, and gives its context the bound's end, for the loops that
// read nothing of the call.
func (sc *scope) begin() {
	if sc.work -= loopSteps * (len(sc.call.Args.Raw()) + len(sc.call.Context.Raw())); sc.work < 0 {
		sc.look()
	}
	if sc.cancel == nil && !sc.call.Bound.End.IsZero() {
		sc.ctx, sc.cancel = context.WithDeadline(sc.ctx, sc.call.Bound.End)
	}
}

// inTime reports whether what was evaluated counts. Its last operation may have taken longer than there was time.
func (sc *scope) inTime() bool {
	if sc.looked {
		sc.look()
	}
	return sc.late == nil
}

// over says why nothing more is to be evaluated; nil if that is not so.
func (sc *scope) over() error {
	if sc.late == nil && sc.ctx.Err() != nil {
		sc.late = context.Cause(sc.ctx)
	}
	return sc.late
}

func (sc *scope) spent() bool { return sc.steps < 0 }

// ResolveName gives CEL a variable. See vars for their types.
func (sc *scope) ResolveName(name string) (any, bool) {
	c := sc.call
	switch name {
	case "args":
		return documentOf(&sc.args), true
	case "context":
		return documentOf(&sc.context), true
	case meterName:
		return &sc.made, true
	case readerName:
		return &sc.reader, true
	case "agent":
		return types.String(c.AgentID), true
	case "session":
		return types.String(c.SessionID), true
	case "tool":
		return types.String(c.ToolID), true
	case "operation":
		return types.String(c.Operation), true
	case "key":
		return map[string]string{"id": c.KeyID, "name": c.KeyName}, true
	case "now":
		return types.Timestamp{Time: c.Now}, true
	}
	return nil, false
}

// Parent is nil: there are no outer variables.
func (sc *scope) Parent() interpreter.Activation { return nil }

// longText is the shortest text whose decoded form is kept for the time of a check.
const longText = 256

// text is the text of a string of the call.
func (sc *scope) text(v exact.Value) string {
	raw := v.Raw()
	if len(raw) < longText || strings.IndexByte(raw, '\\') < 0 {
		return v.Str()
	}
	s, known := sc.texts[v]
	if !known {
		if s = v.Str(); sc.texts == nil {
			sc.texts = map[exact.Value]string{}
		}
		sc.texts[v] = s
	}
	return s
}

func documentOf(o *object) any {
	if k := o.v.Kind(); k != exact.Object && k != exact.Absent {
		return fail(errShape)
	}
	return o
}
