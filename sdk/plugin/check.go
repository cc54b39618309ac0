package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// Check decides one call.
func (s *server) Check(ctx context.Context, req *pluginv1.CheckRequest) (*pluginv1.CheckResponse, error) {
	release, err := s.enter(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	defer release()
	call, err := s.callOf(req)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	var out pluginv1.CheckResponse
	s.decide(ctx, req, call, &out)
	return &out, nil
}

// admit refuses calls that cannot be worked on.
func (s *server) admit(id uint64) error {
	switch {
	case id == 0:
		return status.Error(codes.InvalidArgument, "id: must not be 0")
	case !s.ready.Load():
		return status.Error(codes.FailedPrecondition, "not configured: Configure comes first")
	case s.refusing.Load():
		return status.Error(codes.Unavailable, "the plugin was told to end")
	}
	return nil
}

// enter admits one unary call and waits until it may run. The caller must call release.
func (s *server) enter(ctx context.Context, id uint64) (release func(), err error) {
	if err := s.admit(id); err != nil {
		return nil, err
	}
	return s.slot(ctx)
}

// slot waits until one more unary call may run. The caller must call release.
func (s *server) slot(ctx context.Context) (release func(), err error) {
	s.inFlight.Add(1)
	select {
	case s.slots <- struct{}{}:
		return func() { <-s.slots; s.inFlight.Add(-1) }, nil
	case <-ctx.Done():
		s.inFlight.Add(-1)
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// decide asks the author's function and fills in the answer: the verdict, or the error if there is none that counts.
func (s *server) decide(parent context.Context, req *pluginv1.CheckRequest, call *Call, out *pluginv1.CheckResponse) {
	out.Id = req.GetId()
	ctx, end := within(parent, req.GetDeadlineUnixNano())
	defer end()
	if ctx.Err() != nil {
		out.Error = "the deadline was over before the check began"
		return
	}
	v, err := s.checkGuarded(ctx, call)
	switch {
	case err != nil:
		out.Error = failure(err)
	case ctx.Err() != nil:
		out.Error = "the verdict came after the deadline"
	default:
		if err := answer(out, &v); err != nil {
			out.Reset()
			out.Id, out.Error = req.GetId(), clip("the verdict breaks a rule: "+err.Error())
			if v.Effect == sdk.Deny || v.Effect == sdk.Defer {
				out.Effect = effects[v.Effect] // it is not let through because of a rule that it breaks
			}
		}
	}
	if out.Error != "" {
		// an error may hold arguments, which the gateway masks
		s.log.Warn("check failed; the gateway has the error", "tool_id", call.ToolID, "call_id", call.CallID)
	}
}

func (s *server) checkGuarded(ctx context.Context, call *Call) (v sdk.Verdict, err error) {
	defer func() {
		if r := recover(); r != nil {
			v, err = sdk.Verdict{}, s.panicked("Check", r)
		}
	}()
	v, err = s.parts.check(ctx, call)
	touch(err)
	return v, err
}

// failure is an author's error as the host is told it, which is never empty.
func failure(err error) string {
	if text := clip(err.Error()); text != "" {
		return text
	}
	return "failed without a reason"
}

// within gives the context of one call. The caller must call end.
func within(parent context.Context, deadline int64) (ctx context.Context, end func()) {
	if deadline <= 0 {
		return context.WithCancel(parent)
	}
	c := &callContext{parent: parent, at: time.Unix(0, deadline)}
	return c, c.end
}

var docs = sync.Pool{New: func() any { return new(exact.Doc) }}

// callOf refuses what is no call.
func (s *server) callOf(req *pluginv1.CheckRequest) (*Call, error) {
	m := req.GetCall()
	switch {
	case m == nil:
		return nil, errors.New("call: is missing")
	case req.GetDeadlineUnixNano() < 0:
		return nil, errors.New("deadline_unix_nano: is negative")
	case m.GetToolId() == "":
		return nil, errors.New("call.tool_id: is missing")
	case len(m.GetDigest()) != 32:
		return nil, fmt.Errorf("call.digest: %d bytes, must be 32", len(m.GetDigest()))
	}
	if err := objectOrNone(m.GetArgs()); err != nil {
		return nil, fmt.Errorf("call.args: %w", err)
	}
	if err := objectOrNone(m.GetContext()); err != nil {
		return nil, fmt.Errorf("call.context: %w", err)
	}
	return &Call{
		KeyID: m.GetKeyId(), KeyName: m.GetKeyName(), AgentID: m.GetAgentId(), SessionID: m.GetSessionId(),
		ToolID: m.GetToolId(), Operation: m.GetOperation(), CallID: m.GetCallId(), Args: m.GetArgs(), Context: m.GetContext(),
		Digest: [32]byte(m.GetDigest()), Time: time.Unix(0, m.GetTimeUnixNano()), Generation: req.GetGeneration(),
	}, nil
}

// argLimits are wider than those of the gateway, which has read the text already: what is wanted here is that it is
// JSON.
var argLimits = exact.Limits{Depth: 256, Tokens: maxMessage}

func objectOrNone(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	d, _ := docs.Get().(*exact.Doc)
	defer docs.Put(d)
	if err := d.Parse(string(b), argLimits); err != nil {
		return err
	}
	if k := d.Root().Kind(); k != exact.Object {
		return errors.New("must be a JSON object, not " + k.String())
	}
	return nil
}

// CheckStream decides many calls side by side.
func (s *server) CheckStream(stream grpc.BidiStreamingServer[pluginv1.CheckRequest, pluginv1.CheckResponse]) error {
	if !s.ready.Load() {
		return status.Error(codes.FailedPrecondition, "not configured: Configure comes first")
	}
	c := &checkStream{server: s, stream: stream, work: make(chan *pluginv1.CheckRequest), done: make(chan error, 1)}
	s.readers.Add(1)
	go c.read()
	select {
	case err := <-c.done:
		return err
	case <-s.ended:
		return nil
	}
}

// checkStream is one stream: a reader that hands requests to workers, which are started when there is more to do than
// there are and kept until the stream ends. A worker that has an answer while another one is sending leaves it to that
// one: so answers go out one after the other without a goroutine of their own, which would have to be woken for each.
type checkStream struct {
	*server
	stream  grpc.BidiStreamingServer[pluginv1.CheckRequest, pluginv1.CheckResponse]
	work    chan *pluginv1.CheckRequest
	workers sync.WaitGroup
	done    chan error

	mu      sync.Mutex
	queue   []*pluginv1.CheckResponse // answers to be sent by whoever is sending
	spare   []*pluginv1.CheckResponse // the other buffer
	sending bool
	failed  error // of Send: nothing more can be sent
}

func (c *checkStream) read() {
	defer c.readers.Done()
	err := c.readAll()
	close(c.work)
	c.workers.Wait()
	c.done <- err
}

// readAll ends with the stream: nil when the host has no more requests.
func (c *checkStream) readAll() error {
	for running := 0; ; {
		req, err := c.stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if req.GetId() == 0 {
			return status.Error(codes.InvalidArgument, "id: must not be 0")
		}
		c.inFlight.Add(1)
		select {
		case c.work <- req:
			continue
		default:
		}
		if running < cap(c.slots) {
			running++
			c.workers.Go(c.serve)
		}
		c.work <- req
	}
}

// serve is one worker.
func (c *checkStream) serve() {
	for req := range c.work {
		c.send(c.respond(req))
		c.inFlight.Add(-1)
	}
}

func (c *checkStream) respond(req *pluginv1.CheckRequest) *pluginv1.CheckResponse {
	out := &pluginv1.CheckResponse{}
	call, err := c.callOf(req)
	if err == nil {
		err = c.admit(req.GetId())
	}
	if err != nil {
		out.Id, out.Error = req.GetId(), clip(err.Error())
		return out
	}
	c.decide(c.stream.Context(), req, call, out)
	return out
}

// send hands over one answer. It returns when the answer is sent or another goroutine has taken it on.
func (c *checkStream) send(out *pluginv1.CheckResponse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed != nil {
		return
	}
	c.queue = append(c.queue, out)
	if c.sending {
		return
	}
	c.sending = true
	for len(c.queue) > 0 && c.failed == nil {
		batch := c.queue
		c.queue = c.spare[:0]
		c.mu.Unlock()
		err := c.sendAll(batch)
		c.mu.Lock()
		clear(batch)
		c.spare, c.failed = batch, err
	}
	c.sending = false
}

func (c *checkStream) sendAll(batch []*pluginv1.CheckResponse) error {
	for _, out := range batch {
		if err := c.stream.Send(out); err != nil {
			return err
		}
	}
	return nil
}
