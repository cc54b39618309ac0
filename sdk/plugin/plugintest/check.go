package plugintest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/plugin"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

// checks is one CheckStream, which is how the host asks too.
type checks struct {
	stream  grpc.BidiStreamingClient[pluginv1.CheckRequest, pluginv1.CheckResponse]
	cancel  context.CancelFunc
	done    chan struct{}
	sending chan struct{} // holds one token while a request is sent

	mu      sync.Mutex // never held while sending: a plugin that takes no more would keep its own answers from being read
	waiting map[uint64]chan *pluginv1.CheckResponse
	err     error // of Recv
}

// Check asks for one decision, on one stream for all. The deadline is ctx's, or 10 s. A Digest, Time or Generation that
// is zero is filled in.
func (c *Client) Check(ctx context.Context, call *plugin.Call) (sdk.Verdict, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	s, err := c.checks()
	if err != nil {
		return sdk.Verdict{}, err
	}
	deadline, _ := ctx.Deadline()
	req := &pluginv1.CheckRequest{
		Id: c.id(), DeadlineUnixNano: deadline.UnixNano(), Generation: call.Generation,
		Call: &pluginv1.Call{
			KeyId: call.KeyID, KeyName: call.KeyName, AgentId: call.AgentID, SessionId: call.SessionID, ToolId: call.ToolID,
			Operation: call.Operation, CallId: call.CallID, Args: bytes.Clone(call.Args), Context: bytes.Clone(call.Context),
			Digest: call.Digest[:], TimeUnixNano: call.Time.UnixNano(),
		},
	}
	if call.Time.IsZero() {
		req.Call.TimeUnixNano = time.Now().UnixNano()
	}
	if call.Generation == "" {
		req.Generation = "test"
	}
	if call.Digest == [32]byte{} {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s\n%s", call.ToolID, call.AgentID, call.Args, call.Context))
		req.Call.Digest = sum[:]
	}
	m, err := s.ask(ctx, req)
	if err != nil {
		return sdk.Verdict{}, err
	}
	return verdictOf(m)
}

func verdictOf(m *pluginv1.CheckResponse) (sdk.Verdict, error) {
	if m.GetError() != "" {
		return sdk.Verdict{}, fmt.Errorf("check: %s", m.GetError())
	}
	v := sdk.Verdict{
		Code: m.GetCode(), Reason: m.GetReason(), RuleID: m.GetRuleId(), Message: m.GetMessage(),
		Approvals: int(m.GetApprovals()), Expires: time.Duration(m.GetExpiresMs()) * time.Millisecond,
		TTL: time.Duration(m.GetTtlMs()) * time.Millisecond, From: m.GetApprovers(), Priority: sdk.Priority(m.GetPriority()),
	}
	switch m.GetEffect() {
	case pluginv1.CheckResponse_EFFECT_ABSTAIN:
		v.Effect = sdk.Abstain
	case pluginv1.CheckResponse_EFFECT_PERMIT:
		v.Effect = sdk.Permit
	case pluginv1.CheckResponse_EFFECT_DEFER:
		v.Effect = sdk.Defer
	case pluginv1.CheckResponse_EFFECT_DENY:
		v.Effect = sdk.Deny
	default:
		return sdk.Verdict{}, fmt.Errorf("check: unknown effect %v", m.GetEffect())
	}
	return v, nil
}

// checks gives the stream, a new one after the old one ended.
func (c *Client) checks() (*checks, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream != nil {
		select {
		case <-c.stream.done:
		default:
			return c.stream, nil
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := c.authorizer.CheckStream(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	c.stream = &checks{stream: stream, cancel: cancel, done: make(chan struct{}), sending: make(chan struct{}, 1),
		waiting: map[uint64]chan *pluginv1.CheckResponse{}}
	go c.stream.read()
	return c.stream, nil
}

func (c *Client) closeStream() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream != nil {
		c.stream.cancel()
		<-c.stream.done
		c.stream.sending <- struct{}{} // and nobody sends any more
	}
}

func (s *checks) read() {
	defer s.cancel()
	defer close(s.done)
	for {
		m, err := s.stream.Recv()
		s.mu.Lock()
		if err != nil {
			s.err = err
			s.mu.Unlock()
			return
		}
		if to := s.waiting[m.GetId()]; to != nil {
			to <- m // has room for one
		}
		delete(s.waiting, m.GetId())
		s.mu.Unlock()
	}
}

func (s *checks) ask(ctx context.Context, req *pluginv1.CheckRequest) (*pluginv1.CheckResponse, error) {
	answer := make(chan *pluginv1.CheckResponse, 1)
	s.mu.Lock()
	s.waiting[req.GetId()] = answer
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.waiting, req.GetId())
		s.mu.Unlock()
	}()
	select {
	case s.sending <- struct{}{}:
		go func() { // a plugin that takes no more must not outlast ctx
			_ = s.stream.Send(req) // when it fails, Recv has the reason
			<-s.sending
		}()
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.done:
		return nil, s.over()
	}
	select {
	case m := <-answer:
		return m, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.done:
		select {
		case m := <-answer: // it came before the end
			return m, nil
		default:
			return nil, s.over()
		}
	}
}

// over is why the stream ended. It is for after done.
func (s *checks) over() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(errors.New("the stream of checks ended"), s.err)
}
