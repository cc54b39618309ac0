package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// Submission is a call in the words of the actions API.
type Submission struct {
	AgentID   string
	Tool      string
	Operation string
	Params    any // as Call.Args
	Context   any // as Call.Args
}

// Action is one call that is followed from its decision to its result. Members that are null are "" or nil here. A
// server that is older or newer than this client may also give it the status pending_decision or timeout.
type Action struct {
	wire.Action
	started bool
}

// MayRun reports whether the action was started: only for the answer of StartAction. An allowed or approved action has
// to be started first.
func (a *Action) MayRun() bool { return a != nil && a.started && a.Status == "executing" }

var statuses = []string{"pending_decision", "allowed", "denied", "pending_approval", "approved", "executing",
	"succeeded", "failed", "timeout"}

func actionIn(v exact.Value) (*Action, error) {
	if _, err := text(v, "id"); err != nil {
		return nil, err
	}
	if _, err := oneOf(v, "status", statuses...); err != nil {
		return nil, err
	}
	a := new(Action)
	if err := into(v, a); err != nil {
		return nil, err
	}
	return a, nil
}

// oneAction makes a call whose answer is an action. id "" is any action.
func (c *Client) oneAction(ctx context.Context, r *request) (*Action, error) {
	rep, err := c.do(ctx, r)
	if err != nil {
		return nil, err
	}
	a, err := actionIn(rep.root)
	if err == nil && r.id != "" && a.ID != r.id {
		err = malformed("the answer is another action")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.op.name, err)
	}
	return a, nil
}

func (in *Submission) body() ([]byte, error) {
	b := newBody()
	b.str("agent_id", in.AgentID)
	b.str("tool", in.Tool)
	b.str("operation", in.Operation)
	for _, part := range []struct {
		name string
		v    any
	}{{"params", in.Params}, {"context", in.Context}} {
		if part.v == nil {
			part.v = json.RawMessage("{}")
		}
		b.object(part.name, part.v)
	}
	return b.bytes()
}

// SubmitAction asks for a decision about a call and keeps it as an action. Over HTTP only, as all calls about actions;
// needs scope authorize. A denied action is an answer, not an error.
func (c *Client) SubmitAction(ctx context.Context, in Submission) (*Action, error) {
	body, err := in.body()
	if err != nil {
		return nil, err
	}
	return c.oneAction(ctx, &request{op: opSubmit, body: body})
}

// GetAction reads one action. Over HTTP only.
func (c *Client) GetAction(ctx context.Context, id string) (*Action, error) {
	return c.oneAction(ctx, &request{op: opGetAction, id: id})
}

// StartAction says that the action is about to run as it was shown: kill, approval and rules are looked at again. shown
// is what SubmitAction or GetAction gave last; ErrConflict if an approver has changed the params since. Over HTTP only;
// needs the key that submitted it. Run the call only when the answer's MayRun is true, with the answer's Params if it
// is Modified: it may be denied by now.
func (c *Client) StartAction(ctx context.Context, shown *Action) (*Action, error) {
	switch {
	case shown == nil:
		return nil, fieldErr(sdk.CodeInvalidField, "shown", "want the action that SubmitAction or GetAction gave")
	case shown.Digest == "" && (shown.Status == "" || shown.Status == "allowed" || shown.Status == "approved"):
		return nil, fieldErr(sdk.CodeInvalidField, "shown",
			"the action has no digest, so the server could not tell whether it has changed: read it with GetAction")
	}
	b := newBody()
	b.str("digest", shown.Digest)
	body, err := b.bytes()
	if err != nil {
		return nil, err
	}
	a, err := c.oneAction(ctx, &request{op: opStart, id: shown.ID, body: body})
	if err != nil {
		return nil, err
	}
	a.started = true
	return a, nil
}

// Result is how an action ended.
type Result struct {
	Success bool
	Error   string // what went wrong
	Result  any    // what came out, any JSON; it goes through the scan chain
}

// ResultAction says how a started action ended, once. Over HTTP only; needs the key that submitted it.
func (c *Client) ResultAction(ctx context.Context, id string, in Result) (*Action, error) {
	body, err := encode(struct {
		Success bool   `json:"success"`
		Error   string `json:"error,omitempty"`
		Result  any    `json:"result,omitempty"`
	}{in.Success, in.Error, in.Result})
	if err != nil {
		return nil, err
	}
	return c.oneAction(ctx, &request{op: opResult, id: id, body: body})
}

// ActionApproval answers an action that waits for approval, with its approval_token, which is of the arguments that the
// action was shown with: once they are changed it is void (ErrConflict). Over HTTP only; needs scope approve.
func (c *Client) ActionApproval(ctx context.Context, id, token string, approve bool, reason string) (*Action, error) {
	b := newBody()
	b.str("token", token)
	b.w.Bool("approve", approve)
	b.str("reason", reason)
	body, err := b.bytes()
	if err != nil {
		return nil, err
	}
	return c.oneAction(ctx, &request{op: opAnswer, id: id, body: body})
}

// WithdrawAction takes back the approval of an action that is not started, with its last approval_token: the action is
// denied, and a grant that came with the approval is revoked. Over HTTP only; needs scope approve. ErrConflict: it is
// started, or denied already.
func (c *Client) WithdrawAction(ctx context.Context, id, token, reason string) (*Action, error) {
	b := newBody()
	b.str("token", token)
	b.str("reason", reason)
	b.yes("withdraw", true)
	body, err := b.bytes()
	if err != nil {
		return nil, err
	}
	return c.oneAction(ctx, &request{op: opAnswer, id: id, body: body})
}

// ActionFilter says which actions to list. Zero members filter nothing.
type ActionFilter struct {
	AgentID, Tool, Status string
	Limit                 int    // 1 to 1000; 20 if 0
	Offset                int    // how many to leave out
	Cursor                string // of the page before
}

// ListActions lists one page of actions, newest first, and gives the cursor of the next one, "" on the last. Over HTTP
// only.
func (c *Client) ListActions(ctx context.Context, in ActionFilter) (page []*Action, next string, err error) {
	q := url.Values{}
	set(q, "agent_id", in.AgentID)
	set(q, "tool", in.Tool)
	set(q, "status", in.Status)
	set(q, "cursor", in.Cursor)
	number(q, "limit", in.Limit)
	number(q, "offset", in.Offset)
	rep, err := c.do(ctx, &request{op: opListActions, query: q, list: true})
	if err != nil {
		return nil, "", err
	}
	for v := range rep.root.Elements() {
		a, err := actionIn(v)
		if err != nil {
			return nil, "", fmt.Errorf("list actions: %w", err)
		}
		page = append(page, a)
	}
	return page, rep.header("X-Next-Cursor"), nil
}

// ActionRecord is one thing that happened to an action.
type ActionRecord struct {
	ID         string          `json:"id"`
	ActionID   string          `json:"action_id"`
	EventType  string          `json:"event_type"` // created decision_made approved denied started succeeded failed
	Meta       json.RawMessage `json:"meta"`
	CreatedAt  string          `json:"created_at"`
	PrevHash   string          `json:"prev_hash"`
	RecordHash string          `json:"record_hash"`
}

// ActionEvents lists what happened to one action, oldest first. Over HTTP only. Client.Events follows all actions.
func (c *Client) ActionEvents(ctx context.Context, id string) ([]ActionRecord, error) {
	rep, err := c.do(ctx, &request{op: opEvents, id: id, list: true})
	if err != nil {
		return nil, err
	}
	var out []ActionRecord
	for v := range rep.root.Elements() {
		var r ActionRecord
		if err := into(v, &r); err != nil {
			return nil, fmt.Errorf("events of action: %w", err)
		}
		if r.EventType == "" || r.ActionID != id {
			return nil, fmt.Errorf("events of action: %w", malformed("an event of no type or of another action"))
		}
		out = append(out, r)
	}
	return out, nil
}

// Gate is the answer of GateDecide.
type Gate struct {
	Outcome        string `json:"outcome"` // EXECUTE ABSTAIN HALT
	ReasonCode     string `json:"reason_code"`
	Reason         string `json:"reason"`
	RequestHash    string `json:"request_hash"`
	PolicyVersion  string `json:"policy_version"`
	PolicyHash     string `json:"policy_hash"`
	ProfileID      string `json:"profile_id"`
	ProfileVersion string `json:"profile_version"`
	ProfileHash    string `json:"profile_hash"`
	RuntimeVersion string `json:"runtime_version"`
	ProvenanceID   string `json:"provenance_id"`
	Repeat         bool   `json:"repeat"` // of this client's own retry: each GateDecide has an Idempotency-Key of its own
	whole          bool
}

// Execute reports whether the call may run now: only for a whole, well-formed EXECUTE.
func (g *Gate) Execute() bool { return g != nil && g.whole && g.Outcome == "EXECUTE" }

// GateDecide asks for a decision that makes no action and waits for nobody. Over HTTP only; needs scope authorize.
func (c *Client) GateDecide(ctx context.Context, in Submission) (*Gate, error) {
	body, err := in.body()
	if err != nil {
		return nil, err
	}
	g := new(Gate)
	root, err := c.ask(ctx, &request{op: opGate, body: body}, g)
	if err != nil {
		return nil, err
	}
	if _, err = oneOf(root, "outcome", "EXECUTE", "ABSTAIN", "HALT"); err == nil {
		_, err = text(root, "reason_code")
	}
	if err != nil {
		return nil, fmt.Errorf("gate decide: %w", err)
	}
	g.whole = true
	return g, nil
}
