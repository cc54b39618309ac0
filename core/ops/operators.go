package ops

import (
	"context"
	"crypto/sha256"
	"encoding/json"

	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// Deferral is a deferred call as operators see it.
type Deferral struct {
	store.Defer
	Open   bool            // an operator may sign it off: some of the approvals that it takes may be anybody's
	Call   json.RawMessage // the canonical call that was hashed, secrets masked
	Digest string          // of the call as it stands, for an Answer
	Note   store.AgentNote // what the agent says about the call
}

// Waiting lists the pending calls for an operator, soonest expiry first, and says how many there are.
func (s *Service) Waiting(ctx context.Context, op store.Operator, most int) ([]store.Defer, int, error) {
	cmd := &store.ListPending{Key: op.Approver(), Most: most}
	s.set.Store.FindPending(cmd)
	if err := s.set.Store.Commit(ctx, cmd); err != nil {
		return nil, 0, err // a stalled store may still be at the command
	}
	return cmd.Out.Calls, cmd.Out.Total, nil
}

// Deferral is the deferred call that a decision began, in any state.
func (s *Service) Deferral(ctx context.Context, decision string) (*Deferral, error) {
	cmd := &store.Asked{Decision: decision}
	if err := s.set.Store.Commit(ctx, cmd); err != nil {
		return nil, err
	}
	view, err := s.set.Store.View(cmd.Out.Token)
	if err != nil || view == nil {
		return nil, &sdk.Error{Code: sdk.CodeInternal, Op: "read a deferred call", Err: err}
	}
	if !shows(view, &cmd.Out) {
		return nil, sdk.Errf(sdk.CodeConflict, "another approver is changing the deferred call; look at it again")
	}
	note, err := s.set.Store.AgentNote(&cmd.Out)
	if err != nil {
		return nil, &sdk.Error{Code: sdk.CodeInternal, Op: "read an agent's note", Err: err}
	}
	return &Deferral{Defer: cmd.Out, Open: cmd.Open, Call: view, Digest: s.set.Store.CallDigest(cmd.Out.Stands()),
		Note: note}, nil
}

// shows reports whether a view, which is read after the state, is of the call as it stood then. If other arguments took
// the place of those that were asked for, they never come back, so a digest stands for no view of these; but of what
// approvers put in place, one can go and come back while somebody looks at the other. Such arguments are in the view as
// they were hashed.
func shows(view []byte, d *store.Defer) bool {
	if d.Modified == nil {
		return true
	}
	same := false
	ok := log.Members(view, func(name, value []byte) bool {
		if string(name) != "args" {
			return true
		}
		same = sha256.Sum256(value) == d.ModifiedHash
		return false
	})
	return ok && same
}

// Answer is what an operator answers to a deferred call.
type Answer struct {
	Decision string // the decision that began it
	Approved bool
	Reason   string
	Withdraw bool   // a denial that also ends an approval which is not redeemed
	Digest   string // with Approved: Deferral.Digest of what was shown
}

// AnswerAs is Approve for an operator, who has no key and never sees the token, which is the asking key's.
func (s *Service) AnswerAs(ctx context.Context, op store.Operator, by store.Who, a Answer) (*wire.ApproveResponse,
	error) {
	k := op.Approver()
	switch {
	case k.Scope()&sdk.ScopeApprove == 0:
		return nil, sdk.Errf(sdk.CodeMissingScope, "an operator with the role %s answers no calls", op.Role)
	case a.Approved && a.Digest == "":
		return nil, sdk.FieldErrf(sdk.CodeMissingField, "digest", "digest is required: it says which call is approved")
	}
	token := ""
	if !a.Approved {
		token = s.set.Store.OpenCall(a.Decision) // a denial holds while the disk takes nothing, not even a question
	}
	if token == "" {
		cmd := &store.Asked{Decision: a.Decision}
		if err := s.set.Store.Commit(ctx, cmd); err != nil {
			return nil, err
		}
		token = cmd.Out.Token
	}
	return s.Approve(&Request{Ctx: ctx, Key: k, Who: by, Start: s.set.Now()},
		&wire.ApproveRequest{DeferToken: token, Approved: &a.Approved, Withdraw: a.Withdraw, Digest: a.Digest,
			Reason: a.Reason})
}
