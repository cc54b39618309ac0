package prochost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
)

// deafStream is a stream whose other end reads one request and then no more.
type deafStream struct {
	grpc.ClientStream
	reading chan struct{} // the first Send is in
	over    chan struct{}
	sent    atomic.Int64
}

func (s *deafStream) SendMsg(any) error {
	if s.sent.Add(1) == 1 {
		close(s.reading)
	}
	<-s.over
	return io.EOF
}

// newChecks is a stream of checks without a process. failed gets the reason of its end.
func newChecks(t *testing.T, stream grpc.ClientStream) (c *checks, failed *atomic.Pointer[error]) {
	t.Helper()
	failed = &atomic.Pointer[error]{}
	c = &checks{stream: stream, fail: func(err error) { failed.CompareAndSwap(nil, &err) }, strays: &atomic.Uint64{},
		wake: make(chan struct{}, 1), pending: map[uint64]*ask{}}
	return c, failed
}

func requestOf(deadline time.Time) *request { return &request{deadline: deadline, call: tool("x")} }

// TestDeafPlugin: what a plugin does not read does not heap up. Its calls end at their deadlines and give their places
// back.
func TestDeafPlugin(t *testing.T) {
	stream := &deafStream{reading: make(chan struct{}), over: make(chan struct{})}
	c, _ := newChecks(t, stream)
	ctx, cancel := context.WithCancel(context.Background())
	var writer sync.WaitGroup
	writer.Go(func() { c.write(ctx) })
	defer func() { cancel(); close(stream.over); writer.Wait() }()

	first, err := c.begin(requestOf(time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	<-stream.reading
	if c.takeBack(1) {
		t.Error("the request that is being written was taken back")
	}
	var places atomic.Int64
	for range 100 {
		if _, err := c.check(context.Background(), requestOf(time.Now()), func() {
			places.Add(1)
		}); !errors.Is(err, errLate) {
			t.Fatal(err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) != 0 || len(c.pending) != 1 || c.pending[1] != first || places.Load() != 100 {
		t.Errorf("%d requests wait to be written, %d for an answer; %d of 100 places were given back", len(c.queue),
			len(c.pending), places.Load())
	}
}

// TestAnsweredTwice: one request, one answer. A second one ends the session, unless it may be the first of a call that
// was written down as lost.
func TestAnsweredTwice(t *testing.T) {
	c, _ := newChecks(t, nil)
	a, err := c.begin(requestOf(time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.completeCheck(&answer{id: 1}); err != nil {
		t.Fatal(err)
	}
	<-a.done
	if err := c.completeCheck(&answer{id: 1}); err == nil || !strings.Contains(err.Error(), "id 1 a second time") {
		t.Errorf("a second answer: %v", err)
	}

	places := 0
	if a, err = c.begin(requestOf(time.Now())); err != nil {
		t.Fatal(err)
	}
	c.queue = nil // the writer has it
	if err := c.leave(a, 2, func() { places++ }, errLate); err != errLate || places != 0 {
		t.Fatal(err, places)
	}
	if err := c.completeCheck(&answer{id: 2}); err != nil || places != 1 || c.strays.Load() != 1 {
		t.Errorf("the answer to a call that was late: %v, %d places, %d strays", err, places, c.strays.Load())
	}
	if err := c.completeCheck(&answer{id: 2}); err == nil {
		t.Error("a call that was late may be answered twice")
	}
	if a, err = c.begin(requestOf(time.Now())); err != nil {
		t.Fatal(err)
	}
	c.queue = nil
	if err := c.leave(a, 3, func() { places++ }, errLate); err != errLate {
		t.Fatal(err)
	}
	c.forget(3)
	if err := c.completeCheck(&answer{id: 3}); err != nil || places != 2 || c.strays.Load() != 2 {
		t.Errorf("the answer to a call that was written down as lost: %v, %d places, %d strays", err, places, c.strays.Load())
	}
	if err := c.completeCheck(&answer{id: 3}); err == nil {
		t.Error("a call that was written down as lost may be answered twice")
	}
}

// TestCacheKeyLengths: keys are the same for the same fields only, however long, and never long themselves.
func TestCacheKeyLengths(t *testing.T) {
	fields := []keyField{}
	for _, name := range []string{"tool_id", "agent_id", "args"} {
		f, ok := parseKeyField(name)
		if !ok {
			t.Fatal(name)
		}
		fields = append(fields, f)
	}
	seen := map[string]string{}
	for _, c := range [][3]string{{"a", "b", ""}, {"ab", "", ""}, {"", "ab", ""}, {"a", "b", "{}"}, {"a", "b", `{"x":1}`},
		{"a", "b", `{"x":1.0}`},
		{"a", "b", `{"x":"` + strings.Repeat("y", 100) + `"}`}, {"a", "b", `{"x":"` + strings.Repeat("y", 1000) + `"}`},
		{"a", "b", `{"x":"` + strings.Repeat("y", 1000) + `z"}`}, {"a" + strings.Repeat("y", 1000), "b", ""}, {"a", strings.Repeat("y", 1000) + "b", ""}} {
		call := tool(c[0])
		call.AgentID, call.Args = c[1], object(t, c[2])
		key := keyOf(fields, call, nil)
		if len(key) == 0 || len(key) > plainKey+1 {
			t.Errorf("a key of %d bytes for %.20q", len(key), c)
		}
		if other, twice := seen[string(key)]; twice {
			t.Errorf("%.20q has the key of %s", c, other)
		}
		seen[string(key)] = fmt.Sprintf("%.20q", c)
		if again := keyOf(fields, call, make([]byte, 0, 10)); string(again) != string(key) {
			t.Errorf("%.20q has two keys", c)
		}
	}
	long := tool(strings.Repeat("x", maxKey))
	if key := keyOf(fields, long, nil); key != nil {
		t.Errorf("a call that is too long to be cached has a key of %d bytes", len(key))
	}
}
