// Package trace follows requests for OpenTelemetry: a span for each request, for each step of a chain that it was put
// to, and for each time that it waited for the log's disk. It owns what a span says, the queue in which spans wait, and
// how they are sent. It must never see or say an argument, a text, a name that an agent has chosen, or a key; nothing
// waits for it, and what it cannot send it drops, counts and says. Spans come from core/ops through its Trace.
package trace

import (
	"encoding/hex"
	"sync"
	"sync/atomic"
	"time"

	"github.com/yett-dev/yett/sdk"
)

// kind is what a span is to its trace, as OTLP numbers it.
type kind byte

const (
	internal kind = 1
	server   kind = 2
)

// attr is one attribute of a span.
type attr struct{ key, value string }

// span is one piece of time of a request.
type span struct {
	trace      [16]byte
	id, parent [8]byte // no parent: zero
	name       string
	kind       kind
	begin, end time.Time
	attrs      []attr
	failed     bool
}

// Request is one request that is followed. Safe for concurrent use.
type Request struct {
	t     *Tracer
	trace [16]byte
	id    [8]byte
	from  [8]byte

	mu    sync.Mutex
	spans []span
	ended bool
}

// mostSpans bounds what is kept of one request; what is beyond it is counted as dropped.
const mostSpans = 128

// Begin follows a request that brought this traceparent header, or gives nil: where the header says that its trace is
// not sampled; and, without a header that holds, for all but a share of requests.
func (t *Tracer) Begin(traceparent string) *Request {
	r := &Request{t: t}
	sampled, ok := r.parse(traceparent)
	if !ok {
		var raw [24]byte
		t.set.Random(raw[:])
		copy(r.trace[:], raw[:])
		sampled = share(raw[16:]) < t.set.Share
	}
	if !sampled {
		return nil
	}
	t.set.Random(r.id[:])
	return r
}

// share is a number from 0 up to 1, not included.
func share(random []byte) float64 {
	n := uint64(0)
	for _, b := range random[:8] {
		n = n<<8 | uint64(b)
	}
	return float64(n>>11) / (1 << 53)
}

// parse reads a traceparent header of W3C Trace Context: version, trace, parent, flags. Later versions may go on
// behind the flags.
func (r *Request) parse(h string) (sampled, ok bool) {
	if len(h) < 55 || h[2] != '-' || h[35] != '-' || h[52] != '-' || len(h) > 55 && (h[:2] == "00" || h[55] != '-') {
		return false, false
	}
	var version, flags [1]byte
	for _, part := range []struct {
		to   []byte
		text string
	}{{version[:], h[:2]}, {r.trace[:], h[3:35]}, {r.from[:], h[36:52]}, {flags[:], h[53:55]}} {
		for i := range len(part.text) {
			if c := part.text[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
				return false, r.forget()
			}
		}
		if _, err := hex.Decode(part.to, []byte(part.text)); err != nil {
			return false, r.forget()
		}
	}
	if version[0] == 0xff || r.trace == [16]byte{} || r.from == [8]byte{} {
		return false, r.forget()
	}
	return flags[0]&1 == 1, true
}

// forget takes back what was read of a header that does not hold; it is false.
func (r *Request) forget() bool {
	r.trace, r.from = [16]byte{}, [8]byte{}
	return false
}

// add keeps one span below that of the request.
func (r *Request) add(name string, began time.Time, took time.Duration, failed bool, attrs ...attr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || len(r.spans) == mostSpans {
		r.t.dropped.Add(1)
		return
	}
	s := span{trace: r.trace, parent: r.id, name: name, kind: internal, begin: began, end: began.Add(took), failed: failed}
	r.t.set.Random(s.id[:])
	for _, a := range attrs {
		if a.value != "" {
			s.attrs = append(s.attrs, a)
		}
	}
	r.spans = append(r.spans, s)
}

// Stepped implements ops.Trace. The names are the operator's.
func (r *Request) Stepped(chain, step, plugin, outcome string, failed bool, began time.Time, took time.Duration) {
	r.add(chain+" "+step, began, took, failed, attr{"yett.chain", chain}, attr{"yett.step", step},
		attr{"yett.plugin", plugin}, attr{"yett.outcome", outcome})
}

// Committed implements ops.Trace.
func (r *Request) Committed(code sdk.Code, began time.Time, took time.Duration) {
	r.add("commit", began, took, code != "", attr{"error.type", string(code)})
}

// Ended implements ops.Trace.
func (r *Request) Ended(operation, result, decision string, code sdk.Code, began, ended time.Time) {
	whole := span{trace: r.trace, id: r.id, parent: r.from, name: operation, kind: server, begin: began, end: ended,
		failed: code == sdk.CodeInternal || code == sdk.CodeAuditUnavailable}
	for _, a := range []attr{{"yett.operation", operation}, {"yett.result", result}, {"yett.decision_id", decision},
		{"error.type", string(code)}} {
		if a.value != "" {
			whole.attrs = append(whole.attrs, a)
		}
	}
	r.mu.Lock()
	spans := append(r.spans, whole)
	r.spans, r.ended = nil, true
	r.mu.Unlock()
	r.t.queue(spans)
}

// counts are what became of spans.
type counts struct{ sent, dropped atomic.Uint64 }
