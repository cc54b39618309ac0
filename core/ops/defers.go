package ops

import (
	"context"
	"sync"
	"time"

	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// reasonBytes bounds what an approver may write.
const reasonBytes = 1024

// noteBytes bounds what an agent may say about its call.
const noteBytes = 1024

// maxWait bounds a long poll, seconds.
const maxWait = 60

// replayed is an earlier answer, byte for byte.
type replayed []byte

// AppendJSON appends the answer.
func (r replayed) AppendJSON(dst []byte) []byte { return append(dst, r...) }

// Replay is the way out of an operation with an earlier answer instead of a new one.
type Replay struct{ Answer []byte }

func (*Replay) Error() string { return "an earlier answer is to be sent again" }

// Response is the earlier answer.
func (p *Replay) Response() Response { return replayed(p.Answer) }

// DeferStatus says where a deferred call stands, and waits for its end if asked to.
func (s *Service) DeferStatus(r *Request, in *wire.DeferStatusRequest) (*wire.DeferStatusResponse, error) {
	token := in.DeferToken
	if token == "" {
		token = in.Token
	}
	switch {
	case token == "":
		return nil, sdk.FieldErrf(sdk.CodeMissingField, "defer_token", "defer_token is required, in the body or as ?token=")
	case in.DeferToken != "" && in.Token != "" && in.DeferToken != in.Token:
		return nil, sdk.FieldErrf(sdk.CodeInvalidField, "token", "token and defer_token differ")
	case in.WaitSeconds < 0 || in.WaitSeconds > maxWait:
		return nil, sdk.FieldErrf(sdk.CodeInvalidField, "wait_seconds", "wait_seconds must be 0 to %d, not %d", maxWait,
			in.WaitSeconds)
	}
	d, err := s.await(r, token, time.Duration(in.WaitSeconds)*time.Second)
	if err != nil {
		return nil, unknownStatus(err)
	}
	out := &wire.DeferStatusResponse{Status: d.Status, Token: d.Token, DeferToken: d.Token, Reason: d.EndReason,
		ResolvedBy: d.ResolvedBy, ResolvedByName: s.keyName(d.ResolvedBy),
		ExpiresAt: d.Expires.UTC().Format(time.RFC3339Nano), Approvals: len(d.Signed), ApprovalsRequired: d.Required,
		ModifiedArgs: d.Modified}
	switch d.Status {
	case store.Approved:
		out.Effect = sdk.Permit.String()
	case store.Denied, store.Expired, store.Consumed:
		out.Effect = sdk.Deny.String()
	}
	return out, nil
}

// PollDefer is DeferStatus as the socket's clients ask it.
func (s *Service) PollDefer(r *Request, in *wire.PollDeferRequest) (*wire.PollDeferResponse, error) {
	d, err := s.DeferStatus(r, &wire.DeferStatusRequest{DeferToken: in.DeferToken, WaitSeconds: in.WaitSeconds})
	if codeOf(err) == sdk.CodeUnknownDefer {
		return &wire.PollDeferResponse{DeferToken: in.DeferToken, Status: "unknown"}, nil
	}
	if err != nil {
		return nil, err
	}
	return &wire.PollDeferResponse{DeferToken: d.DeferToken, Status: d.Status, ModifiedArgs: d.ModifiedArgs,
		Reason: d.Reason, ExpiresAt: d.ExpiresAt, Approvals: d.Approvals, Required: d.ApprovalsRequired}, nil
}

// unknownStatus gives the problem of an unknown token the member that pollers look at.
func unknownStatus(err error) error {
	if e, ok := err.(*sdk.Error); ok && e.Code == sdk.CodeUnknownDefer {
		marked := *e
		marked.More = map[string]string{"status": "unknown"} // replaces the HTTP status member: see AppendProblem
		return &marked
	}
	return err
}

// await reads the defer, and while it is pending waits up to that long for it to move.
func (s *Service) await(r *Request, token string, wait time.Duration) (*store.Defer, error) {
	if wait > 0 {
		if err := s.polls.enter(r.Key.ID); err != nil {
			return nil, err
		}
		defer s.polls.leave(r.Key.ID)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	var look <-chan time.Time
	if r.Gone != nil && wait > 0 {
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		look = tick.C
	}
	for {
		cmd := &store.DeferStatus{Token: token, Key: r.Key, Watch: wait > 0}
		if err := s.commit(r, cmd); err != nil {
			return nil, err
		}
		if cmd.Changed == nil {
			return &cmd.Out, nil
		}
		for waiting := true; waiting; {
			select {
			case <-cmd.Changed:
				waiting = false
				continue
			case <-look:
				if !r.Gone() {
					continue
				}
			case <-timer.C:
			case <-r.Stopping:
			case <-r.Ctx.Done():
			}
			return s.enough(r, cmd)
		}
	}
}

// lookEvery is how often a long poll looks whether its caller is still there.
const lookEvery = time.Second

// enough ends a long poll that has waited in vain.
func (s *Service) enough(r *Request, cmd *store.DeferStatus) (*store.Defer, error) {
	err := s.set.Store.Commit(context.WithoutCancel(r.Ctx), &store.StopWatch{Token: cmd.Token, Changed: cmd.Changed})
	if err != nil {
		return nil, err
	}
	return &cmd.Out, nil
}

// pollCounter bounds long polls per key.
type pollCounter struct {
	max   int
	mu    sync.Mutex
	byKey map[string]int
}

func (p *pollCounter) enter(key string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byKey == nil {
		p.byKey = map[string]int{}
	}
	if p.byKey[key] >= p.max {
		return sdk.Errf(sdk.CodeTooManyRequests, "this key has %d long polls open already (limits.long_polls_per_key)", p.max)
	}
	p.byKey[key]++
	return nil
}

func (p *pollCounter) leave(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byKey[key]--; p.byKey[key] <= 0 {
		delete(p.byKey, key)
	}
}
