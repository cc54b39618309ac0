package trace

import (
	"bytes"
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/yett-dev/yett/sdk"
)

const (
	callersTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	callersSpan  = "00f067aa0ba902b7"
)

// collector takes spans, and can be made to answer late or badly.
type collector struct {
	*httptest.Server
	mu     sync.Mutex
	spans  []*tracepb.Span
	heads  []http.Header
	status int
	hold   chan struct{} // nil: it answers at once
	held   chan struct{} // gets each request that is held
}

func newCollector(t *testing.T) *collector {
	c := &collector{status: http.StatusOK}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var m tracepb.TracesData // whose wire form an ExportTraceServiceRequest has
		if err == nil {
			err = proto.UnmarshalOptions{DiscardUnknown: false}.Unmarshal(body, &m)
		}
		if err != nil || len(m.ProtoReflect().GetUnknown()) > 0 {
			t.Errorf("the collector cannot read it: %v", err)
		}
		c.mu.Lock()
		hold := c.hold
		c.heads = append(c.heads, r.Header)
		for _, res := range m.GetResourceSpans() {
			for _, scope := range res.GetScopeSpans() {
				c.spans = append(c.spans, scope.GetSpans()...)
			}
		}
		status := c.status
		c.mu.Unlock()
		if hold != nil {
			c.held <- struct{}{}
			select {
			case <-hold:
			case <-r.Context().Done():
			}
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(c.Close)
	return c
}

// counter is randomness that a test knows: 1, 2, 3…
func counter() func([]byte) {
	var mu sync.Mutex
	n := byte(0)
	return func(b []byte) {
		mu.Lock()
		defer mu.Unlock()
		n++
		for i := range b {
			b[i] = n
		}
	}
}

func newTracer(t *testing.T, c *collector, change func(*Settings)) *Tracer {
	set := Settings{Endpoint: c.URL + "/v1/traces", Version: "v1", Now: time.Now, Random: counter(), Log: t.Logf}
	if change != nil {
		change(&set)
	}
	return New(set)
}

// What a request does arrives as OTLP: one trace, its spans below that of the request, that one below the caller's.
func TestSpans(t *testing.T) {
	c := newCollector(t)
	tr := newTracer(t, c, func(s *Settings) { s.Token = "a-token" })
	at := time.Unix(1_800_000_000, 5)
	r := tr.Begin("00-" + callersTrace + "-" + callersSpan + "-01")
	r.Stepped("authorize", "house", "", "PERMIT", false, at.Add(time.Millisecond), time.Millisecond)
	r.Stepped("authorize", "gate", "entitle", "DENY", true, at.Add(2*time.Millisecond), time.Second)
	r.Committed("", at.Add(3*time.Second), 2*time.Millisecond)
	r.Committed(sdk.CodeAuditUnavailable, at.Add(4*time.Second), time.Millisecond)
	r.Ended("authorize", "DENY", "dec_1", "", at, at.Add(5*time.Second))
	r.Stepped("authorize", "late", "", "", false, at, 0) // it has ended
	tr.Close(context.Background())
	if len(c.spans) != 5 {
		t.Fatalf("%d spans arrived", len(c.spans))
	}
	if h := c.heads[0]; h.Get("Authorization") != "Bearer a-token" || h.Get("Content-Type") != "application/x-protobuf" {
		t.Errorf("the headers are %v", h)
	}
	whole := c.spans[4]
	for i, want := range []string{"authorize house|yett.chain=authorize yett.step=house yett.outcome=PERMIT|1ms|",
		"authorize gate|yett.chain=authorize yett.step=gate yett.plugin=entitle yett.outcome=DENY|1s|STATUS_CODE_ERROR",
		"commit||2ms|", "commit|error.type=audit_unavailable|1ms|STATUS_CODE_ERROR",
		"authorize|yett.operation=authorize yett.result=DENY yett.decision_id=dec_1|5s|"} {
		s := c.spans[i]
		var attrs []string
		for _, a := range s.GetAttributes() {
			attrs = append(attrs, a.GetKey()+"="+a.GetValue().GetStringValue())
		}
		status := ""
		if s.GetStatus() != nil {
			status = s.GetStatus().GetCode().String() + s.GetStatus().GetMessage()
		}
		took := time.Duration(s.GetEndTimeUnixNano() - s.GetStartTimeUnixNano())
		if got := strings.Join([]string{s.GetName(), strings.Join(attrs, " "), took.String(), status}, "|"); got != want {
			t.Errorf("span %d is %s\nwant %s", i, got, want)
		}
		parent := hex.EncodeToString(s.GetParentSpanId())
		if hex.EncodeToString(s.GetTraceId()) != callersTrace || s != whole && !bytes.Equal(s.GetParentSpanId(),
			whole.GetSpanId()) || s == whole && parent != callersSpan || len(s.GetSpanId()) != 8 {
			t.Errorf("span %d stands elsewhere: %v", i, s)
		}
	}
	if whole.GetKind() != tracepb.Span_SPAN_KIND_SERVER || whole.GetStartTimeUnixNano() != uint64(at.UnixNano()) ||
		c.spans[0].GetKind() != tracepb.Span_SPAN_KIND_INTERNAL {
		t.Errorf("the request is %v", whole)
	}
	if sent, dropped := tr.Counts(); sent != 5 || dropped != 1 {
		t.Errorf("%d sent, %d dropped", sent, dropped)
	}
}

func TestTraceparent(t *testing.T) {
	c := newCollector(t)
	tr := newTracer(t, c, nil)
	defer tr.Close(context.Background())
	good := "00-" + callersTrace + "-" + callersSpan
	for header, want := range map[string]bool{good + "-01": true, good + "-03": true, good + "-00": false,
		"cc" + good[2:] + "-01-more": true, "cc" + good[2:] + "-01": true, "ff" + good[2:] + "-01": false,
		good + "-01-more": false, "cc" + good[2:] + "-01more": false, "": false, good: false, good + "-0x": false,
		strings.ToUpper(good) + "-01": false, "00-" + strings.Repeat("0", 32) + "-" + callersSpan + "-01": false,
		"00-" + callersTrace + "-" + strings.Repeat("0", 16) + "-01": false,
		strings.ReplaceAll(good, "-", "_") + "_01":                   false} {
		r := tr.Begin(header)
		if (r != nil) != want {
			t.Errorf("%q: followed %v", header, r != nil)
		}
		if r != nil && (hex.EncodeToString(r.trace[:]) != callersTrace || hex.EncodeToString(r.from[:]) != callersSpan) {
			t.Errorf("%q: %x-%x", header, r.trace, r.from)
		}
	}
	all := newTracer(t, c, func(s *Settings) { s.Share = 1 })
	defer all.Close(context.Background())
	if r := all.Begin("00-" + callersTrace + "-" + callersSpan + "-zz"); r == nil || r.from != [8]byte{} ||
		hex.EncodeToString(r.trace[:]) == callersTrace {
		t.Error("a header that does not hold is the parent")
	}
	if all.Begin(good+"-00") != nil {
		t.Error("a trace that its caller does not sample is followed")
	}
	if low, half := share(make([]byte, 8)), share([]byte{0x80, 7: 0}); low != 0 || half != 0.5 {
		t.Errorf("the least share is %v, a half is %v", low, half)
	}
	if got := share(bytes.Repeat([]byte{0xff}, 8)); got >= 1 {
		t.Errorf("the largest share is %v", got)
	}
}

// A collector that stands still holds up nobody: what finds no room is dropped, counted and said.
func TestNobodyWaitsForTheCollector(t *testing.T) {
	c := newCollector(t)
	c.hold, c.held = make(chan struct{}), make(chan struct{}, 100)
	var mu sync.Mutex
	var said []string
	tr := newTracer(t, c, func(s *Settings) {
		s.Share = 1
		s.Log = func(format string, _ ...any) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, format)
		}
	})
	ask := func() {
		r := tr.Begin("")
		r.Committed("", time.Now(), 0)
		r.Ended("authorize", "", "", "", time.Now(), time.Now())
	}
	ask()
	<-c.held
	for range mostWaiting {
		ask()
	}
	tr.mu.Lock()
	waiting := len(tr.waiting)
	tr.mu.Unlock()
	if _, dropped := tr.Counts(); waiting != mostWaiting || dropped != mostWaiting {
		t.Errorf("%d wait, %d are dropped", waiting, dropped)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	tr.Close(ctx)
	if sent, dropped := tr.Counts(); sent != 0 || dropped != 2*mostWaiting+2 {
		t.Errorf("%d sent, %d dropped", sent, dropped)
	}
	if mu.Lock(); len(said) == 0 {
		t.Error("the log does not say that spans were dropped")
	}
	mu.Unlock()
	close(c.hold)
}

// What a collector refuses, or sends elsewhere, is dropped.
func TestCollectorRefuses(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusServiceUnavailable, http.StatusFound} {
		c := newCollector(t)
		c.status = status
		tr := newTracer(t, c, func(s *Settings) { s.Share = 1 })
		tr.Begin("").Ended("authorize", "", "", "", time.Now(), time.Now())
		tr.Close(context.Background())
		if sent, dropped := tr.Counts(); sent != 0 || dropped != 1 || len(c.heads) != 1 {
			t.Errorf("%d: %d sent, %d dropped, %d requests", status, sent, dropped, len(c.heads))
		}
	}
}

// One request cannot fill the queue.
func TestSpansOfOneRequest(t *testing.T) {
	c := newCollector(t)
	tr := newTracer(t, c, func(s *Settings) { s.Share = 1 })
	r := tr.Begin("")
	for range 10 * mostSpans {
		r.Committed("", time.Now(), 0)
	}
	r.Ended("authorize", "", "", "", time.Now(), time.Now())
	tr.Close(context.Background())
	if sent, dropped := tr.Counts(); sent != mostSpans+1 || dropped != 9*mostSpans {
		t.Errorf("%d sent, %d dropped", sent, dropped)
	}
}

// FuzzTraceparent: what is taken for a header is one, and means what it says.
func FuzzTraceparent(f *testing.F) {
	f.Add("00-" + callersTrace + "-" + callersSpan + "-01")
	f.Add("cc-" + callersTrace + "-" + callersSpan + "-01-what-the-future-brings")
	f.Fuzz(func(t *testing.T, h string) {
		r := &Request{}
		if _, ok := r.parse(h); !ok {
			if r.trace != [16]byte{} || r.from != [8]byte{} {
				t.Errorf("%q leaves something", h)
			}
			return
		}
		if want := h[:3] + hex.EncodeToString(r.trace[:]) + "-" + hex.EncodeToString(r.from[:]) + "-"; h[:53] != want {
			t.Errorf("%q is read as %q", h, want)
		}
	})
}
