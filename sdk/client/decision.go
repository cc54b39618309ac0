package client

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// Call is what an agent wants to do.
type Call struct {
	AgentID   string // required: the agent that wants to act
	ToolID    string // required: the tool; without a slash and with an Operation the tool is ToolID/Operation
	SessionID string
	Operation string
	Args      any // what the tool gets: anything that is a JSON object, or json.RawMessage to keep numbers as they are
	Context   any // what rules may want to know besides: as Args
	// CallID makes a repeat within 10 minutes spend nothing twice. The client makes one per logical call if it is empty.
	// The permit of a repeat permits nothing again: see Decision.Permitted.
	CallID           string
	DeferToken       string        // redeems an approved defer
	Note             string        // what the agent says about the call, at most 1024 bytes: shown and recorded, no more
	Redeem           string        // "auto" redeems an approval of exactly this call without its token; "": only with it
	Explain          bool          // ask for one row per step of the chain
	DryRun           bool          // run the chain only; a dry run's PERMIT permits nothing
	ExecutionTimeout time.Duration // how long the call is meant to run, whole milliseconds; recorded
}

// Decision is the gateway's answer to one Call.
type Decision struct {
	wire.AuthorizeResponse
	permit bool // set by the decoder alone, for a whole PERMIT
}

// Permitted reports whether the call may run now: only for a whole, well-formed PERMIT that is not a dry run's, nor the
// repeat of an earlier answer, on which the call may have run already. What this client's own retry of a lost answer
// gets is no such repeat, if the client made the CallID. A nil Decision permits nothing.
func (d *Decision) Permitted() bool {
	return d != nil && d.permit && !d.DryRun && d.Effect == sdk.Permit.String()
}

// Deferred reports whether the call waits for a person, and its DeferToken can be waited for.
func (d *Decision) Deferred() bool {
	return d != nil && d.Effect == sdk.Defer.String() && d.DeferToken != ""
}

func (in *Call) body() ([]byte, error) {
	if in.ExecutionTimeout < 0 {
		return nil, fieldErr(sdk.CodeInvalidField, "execution_timeout_ms", "must not be negative")
	}
	b := newBody()
	b.str("agent_id", in.AgentID)
	b.str("tool_id", in.ToolID)
	b.str("session_id", in.SessionID)
	b.str("operation", in.Operation)
	b.object("args", in.Args)
	b.object("context", in.Context)
	b.str("call_id", in.CallID)
	b.str("defer_token", in.DeferToken)
	b.str("redeem", in.Redeem)
	b.str("note", in.Note)
	b.yes("explain", in.Explain)
	b.yes("dry_run", in.DryRun)
	b.number("execution_timeout_ms", in.ExecutionTimeout.Milliseconds())
	return b.bytes()
}

// Authorize asks whether one call may run. Over both transports. A DENY or a DEFER is a Decision, not an error, and is
// never asked again; an error means that there is no decision, so the call must not run. A call with a DeferToken is
// not sent again once the server may have seen it, because an approval is spent once.
func (c *Client) Authorize(ctx context.Context, in Call) (*Decision, error) {
	made := in.CallID == ""
	if made {
		in.CallID = newID("call_")
	}
	return c.authorize(ctx, in, made)
}

// authorize is Authorize for a call with a CallID; made says that the client has made it for this call.
func (c *Client) authorize(ctx context.Context, in Call, made bool) (*Decision, error) {
	body, err := in.body()
	if err != nil {
		return nil, err
	}
	r, err := c.do(ctx, &request{op: opAuthorize, body: body, once: in.DeferToken != ""})
	if err != nil {
		return nil, err
	}
	d, err := decisionIn(r, in.CallID)
	if err != nil {
		return nil, fmt.Errorf("authorize: %w", err)
	}
	if d.Repeat && !(made && r.again) {
		d.permit = false // whoever was answered first may have run it
	}
	return d, nil
}

// decisionIn reads a decision strictly. callID is what was asked under: an answer to another call is malformed.
func decisionIn(r *reply, callID string) (*Decision, error) {
	effect, err := oneOf(r.root, "effect", sdk.Permit.String(), sdk.Deny.String(), sdk.Defer.String())
	if err != nil {
		return nil, err
	}
	d := new(Decision)
	if err := into(r.root, &d.AuthorizeResponse); err != nil {
		return nil, err
	}
	for _, name := range []string{"reason_code", "decision_id", "call_id", "policy_version"} {
		if _, err := text(r.root, name); err != nil {
			return nil, err
		}
	}
	said := r.header("X-Yett-Effect")
	switch {
	case d.CallID != callID:
		return nil, malformed("the decision is about another call")
	case said != "" && said != effect:
		return nil, malformed("header and body name different effects")
	case effect == sdk.Permit.String() && r.status != 200:
		return nil, malformed("a PERMIT with status %d", r.status)
	case effect == sdk.Defer.String() && d.DeferToken == "" && !d.DryRun:
		return nil, malformed("a DEFER without a defer_token")
	}
	d.permit = effect == sdk.Permit.String()
	return d, nil
}

// AuthorizeAndWait asks, and when the answer is DEFER waits for the approval and redeems it. args are the arguments to
// run the call with: those asked for, or the ones that the approver put in their place. A denial, and an approval that
// ran out, come back as a DENY (APPROVAL_DENIED, APPROVAL_TIMEOUT). When ctx ends while the call is pending, the DEFER
// comes back beside ctx's error: its DeferToken is good for WaitForApproval later.
func (c *Client) AuthorizeAndWait(ctx context.Context, in Call) (d *Decision, args json.RawMessage, err error) {
	made := in.CallID == ""
	if made {
		in.CallID = newID("call_")
	}
	if args, err = object("args", in.Args); err != nil {
		return nil, nil, err
	}
	in.Args = args
	if d, err = c.authorize(ctx, in, made); err != nil {
		return nil, nil, err
	}
	for d.Deferred() {
		st, err := c.WaitForApproval(ctx, d.DeferToken)
		if err != nil {
			return d, args, err
		}
		if st.Status != "approved" {
			return d.ended(st), args, nil
		}
		if st.ModifiedArgs != nil {
			args = st.ModifiedArgs
		}
		in.Args, in.DeferToken = args, d.DeferToken
		next, err := c.authorize(ctx, in, made)
		if err != nil {
			return d, args, err
		}
		d = next // a stricter rule may have made it pending again
	}
	return d, args, nil
}

// ended is the DENY that an approval that will not come amounts to.
func (d *Decision) ended(st *DeferStatus) *Decision {
	out := &Decision{AuthorizeResponse: d.AuthorizeResponse}
	out.Effect, out.Reason, out.Retry = sdk.Deny.String(), st.Reason, &wire.Retry{Class: "never"}
	switch st.Status {
	case "denied":
		out.ReasonCode = sdk.ReasonApprovalDenied
	case "expired":
		out.ReasonCode = sdk.ReasonApprovalTimeout
	default: // somebody else has redeemed it
		out.ReasonCode = sdk.ReasonApprovalMismatch
	}
	return out
}

// DeferStatus says where a deferred call stands.
type DeferStatus struct {
	Status            string          `json:"status"` // pending, approved, denied, expired or consumed
	DeferToken        string          `json:"defer_token"`
	Reason            string          `json:"reason,omitempty"`
	ResolvedBy        string          `json:"resolved_by,omitempty"` // over HTTP
	ResolvedByName    string          `json:"resolved_by_name,omitempty"`
	ModifiedArgs      json.RawMessage `json:"modified_args,omitempty"` // redeem, and run, with exactly these
	ExpiresAt         string          `json:"expires_at,omitempty"`    // RFC 3339
	Approvals         int             `json:"approvals"`
	ApprovalsRequired int             `json:"approvals_required"`
}

// maxWait is the longest that the server waits for one poll.
const maxWait = 60 * time.Second

// DeferStatus asks where a deferred call stands, and with wait > 0 (whole seconds, at most 60) waits so long for a
// pending one to move. Over both transports. ErrNotFound: there is no such defer, or not for this key.
func (c *Client) DeferStatus(ctx context.Context, token string, wait time.Duration) (*DeferStatus, error) {
	if wait < 0 || wait > maxWait {
		return nil, fieldErr(sdk.CodeInvalidField, "wait_seconds",
			fmt.Sprintf("must be 0 to %d seconds, not %v", maxWait/time.Second, wait))
	}
	b := newBody()
	b.str("defer_token", token)
	b.number("wait_seconds", int64(wait/time.Second))
	body, err := b.bytes()
	if err != nil {
		return nil, err
	}
	r, err := c.do(ctx, &request{op: opDeferStatus, body: body, wait: wait})
	if err != nil {
		return nil, err
	}
	st, err := statusIn(r.root, token)
	if err != nil {
		return nil, fmt.Errorf("defer status: %w", err)
	}
	return st, nil
}

func statusIn(root exact.Value, token string) (*DeferStatus, error) {
	word, err := oneOf(root, "status", "pending", "approved", "denied", "expired", "consumed", "unknown")
	if err != nil {
		return nil, err
	}
	if word == "unknown" {
		return nil, &Error{Status: 404, Code: sdk.CodeUnknownDefer,
			Detail: "there is no such deferred call, or it is not this key's to see"}
	}
	st := new(DeferStatus)
	if err := into(root, st); err != nil {
		return nil, err
	}
	switch k := root.Get("modified_args").Kind(); {
	case st.DeferToken != token:
		return nil, malformed("the status is of another deferred call")
	case k != exact.Absent && k != exact.Null && k != exact.Object:
		return nil, malformed("modified_args is %v, not an object", k)
	}
	return st, nil
}

// WaitForApproval waits until a deferred call is no longer pending, or ctx ends. It goes on over lost connections, a
// restarting server and too many open polls; every other error ends it.
func (c *Client) WaitForApproval(ctx context.Context, token string) (*DeferStatus, error) {
	for n := 0; ; {
		began := time.Now()
		st, err := c.DeferStatus(ctx, token, maxWait)
		switch {
		case err == nil && st.Status != "pending":
			return st, nil
		case ctx.Err() != nil:
			return nil, fmt.Errorf("wait for approval: %w", context.Cause(ctx))
		case err == nil && time.Since(began) > time.Second:
			n = 0
			continue
		case err != nil && !retryable(err):
			return nil, err
		}
		if !c.pause(ctx, backoff(n, retryAfter(err))) { // a draining server answers at once
			return nil, fmt.Errorf("wait for approval: %w", context.Cause(ctx))
		}
		n++
	}
}
