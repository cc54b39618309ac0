package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"

	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// Answer is what an approver says about a deferred call.
type Answer struct {
	DeferToken   string
	Approved     bool
	Reason       string             // recorded, and shown to the asking agent
	ModifiedArgs any                // approve the call with these arguments instead: as Call.Args
	Grant        *wire.ApproveGrant // approve and stand; also needs scope grants
	// Pending.Digest of what was shown: no other call is approved. Needed once the arguments were changed
	Digest   string
	Withdraw bool // take an approval back that is not redeemed; Approved must be false
}

// Approve answers a deferred call. Over both transports; needs scope approve. ErrConflict: it is resolved already, and
// the error says by whom; or it is not the call that was shown (code call_changed). ErrExpired: too late. ErrForbidden:
// nobody approves their own call.
func (c *Client) Approve(ctx context.Context, in Answer) (*wire.ApproveResponse, error) {
	b := newBody()
	b.str("defer_token", in.DeferToken)
	b.w.Bool("approved", in.Approved)
	b.str("reason", in.Reason)
	b.object("modified_args", in.ModifiedArgs)
	if in.Grant != nil {
		b.object("grant", in.Grant)
	}
	b.str("digest", in.Digest)
	b.yes("withdraw", in.Withdraw)
	body, err := b.bytes()
	if err != nil {
		return nil, err
	}
	out := new(wire.ApproveResponse)
	root, err := c.ask(ctx, &request{op: opApprove, body: body}, out)
	if err != nil {
		return nil, err
	}
	if _, err := oneOf(root, "status", "pending", "approved", "denied"); err != nil {
		return nil, fmt.Errorf("approve: %w", err)
	}
	if !out.OK || out.DeferToken != in.DeferToken {
		return nil, fmt.Errorf("approve: %w", malformed("the answer is not about this deferred call"))
	}
	return out, nil
}

// Withdraw takes an approval back that is not redeemed: the call is denied, and a grant that came with the approval is
// revoked. Over both transports; needs scope approve. ErrConflict: it is redeemed, or denied already.
func (c *Client) Withdraw(ctx context.Context, deferToken, reason string) (*wire.ApproveResponse, error) {
	return c.Approve(ctx, Answer{DeferToken: deferToken, Reason: reason, Withdraw: true})
}

// Whoami says which key the client has, and what it may do. Over HTTP only; any scope. A doctor asks this first: an
// answer shows that the gateway is there and that the key is live.
func (c *Client) Whoami(ctx context.Context) (*wire.WhoamiResponse, error) {
	out := new(wire.WhoamiResponse)
	if _, err := c.ask(ctx, &request{op: opWhoami}, out); err != nil {
		return nil, err
	}
	if out.KeyID == "" {
		return nil, fmt.Errorf("whoami: %w", malformed("the answer has no key_id"))
	}
	return out, nil
}

// ask makes a call and reads its answer into out.
func (c *Client) ask(ctx context.Context, r *request, out any) (exact.Value, error) {
	rep, err := c.do(ctx, r)
	if err != nil {
		return exact.Value{}, err
	}
	if err := into(rep.root, out); err != nil {
		return exact.Value{}, fmt.Errorf("%s: %w", r.op.name, err)
	}
	return rep.root, nil
}

// Pending is one deferred call as approvers see it.
type Pending struct {
	DeferToken string `json:"defer_token"`
	Status     string `json:"status"`
	KeyID      string `json:"key_id,omitempty"`   // of the key that asks
	KeyName    string `json:"key_name,omitempty"` // its name
	AgentID    string `json:"agent_id"`
	SessionID  string `json:"session_id,omitempty"`
	ToolID     string `json:"tool_id"`
	RuleID     string `json:"rule_id,omitempty"`
	// all that defer the call: a grant with the approval stands against each of them
	Rules             []string        `json:"rules,omitempty"`
	Steps             []string        `json:"steps,omitempty"` // the step of each rule
	ReasonCode        string          `json:"reason_code"`
	Reason            string          `json:"reason,omitempty"`
	Priority          string          `json:"priority,omitempty"`
	Call              json.RawMessage `json:"call"`                          // the canonical call that was hashed, secrets masked
	Digest            string          `json:"digest,omitempty"`              // names the call as it stands, for Answer.Digest
	AgentNote         string          `json:"agent_note,omitempty"`          // what the agent says about the call; it need not be true
	AgentNoteWithheld *wire.Withheld  `json:"agent_note_withheld,omitempty"` // why AgentNote is not shown
	Modified          bool            `json:"modified,omitempty"`            // an approver has changed the arguments
	// members of Call that are too long for a list: see Client.Approval
	Omitted           []string `json:"call_omitted,omitempty"`
	Bytes             int      `json:"call_bytes,omitempty"` // of the whole call, where members are left out
	CreatedAt         string   `json:"created_at"`
	ExpiresAt         string   `json:"expires_at"`
	Approvals         int      `json:"approvals"`
	ApprovalsRequired int      `json:"approvals_required"`
	From              []string `json:"approvals_from,omitempty"` // only these may approve
}

// PendingList is what waits for an answer, soonest expiry first.
type PendingList struct {
	Approvals []Pending `json:"approvals"`
	Total     int       `json:"total"` // how many there are, also beyond the limit
}

// Approvals lists the deferred calls that the key may answer. Over HTTP only; needs scope approve. agentID "" is every
// agent; limit is 1 to 1000, 0 the server's own (100).
func (c *Client) Approvals(ctx context.Context, agentID string, limit int) (*PendingList, error) {
	out, cursor := new(PendingList), ""
	for most := limit; ; most = limit - len(out.Approvals) {
		page, err := c.approvals(ctx, agentID, most, cursor)
		if err != nil {
			return nil, err
		}
		out.Approvals, out.Total = append(out.Approvals, page.Approvals...), page.Total
		if cursor = page.Next; cursor == "" || limit == 0 || len(out.Approvals) >= limit {
			return out, nil
		}
	}
}

// pendingPage is one answer.
type pendingPage struct {
	PendingList
	Next string `json:"next_cursor"`
}

func (c *Client) approvals(ctx context.Context, agentID string, limit int, cursor string) (*pendingPage, error) {
	q := url.Values{}
	set(q, "agent_id", agentID)
	set(q, "cursor", cursor)
	number(q, "limit", limit)
	out := new(pendingPage)
	root, err := c.ask(ctx, &request{op: opApprovals, query: q}, out)
	if err == nil && root.Get("approvals").Kind() != exact.Array {
		err = fmt.Errorf("approvals: %w", malformed("there is no list"))
	}
	if err == nil && out.Next != "" && out.Next == cursor {
		err = fmt.Errorf("approvals: %w", malformed("a page that leads to itself"))
	}
	if err != nil {
		return nil, err
	}
	for i := range out.Approvals {
		if out.Approvals[i].DeferToken == "" {
			return nil, fmt.Errorf("approvals: %w", malformed("an entry without a defer_token"))
		}
	}
	return out, nil
}

// Approval shows one pending call whole. Over both transports; needs scope approve.
func (c *Client) Approval(ctx context.Context, token string) (*Pending, error) {
	body, err := encode(wire.ApprovalGetRequest{DeferToken: token})
	if err != nil {
		return nil, fmt.Errorf("approval: %w", err)
	}
	out := new(Pending)
	if _, err := c.ask(ctx, &request{op: opApproval, query: url.Values{"defer_token": {token}}, body: body}, out); err !=
		nil {
		return nil, err
	}
	if out.DeferToken != token {
		return nil, fmt.Errorf("approval: %w", malformed("it is not the call that was asked for"))
	}
	return out, nil
}

func set(q url.Values, name, v string) {
	if v != "" {
		q.Set(name, v)
	}
}

func number(q url.Values, name string, v int) {
	if v != 0 {
		q.Set(name, strconv.Itoa(v))
	}
}

// GrantAdd makes a standing grant. The answer's Warning says why it may not be what was meant. Over both transports;
// needs scope grants.
func (c *Client) GrantAdd(ctx context.Context, in wire.GrantAddRequest) (*wire.GrantAddResponse, error) {
	out := new(wire.GrantAddResponse)
	if err := c.tell(ctx, opGrantAdd, in, out); err != nil {
		return nil, err
	}
	if !out.OK || out.Grant.ID == "" {
		return nil, fmt.Errorf("grant add: %w", malformed("there is no grant"))
	}
	return out, nil
}

// tell makes a call with a body that is a request type of sdk/wire.
func (c *Client) tell(ctx context.Context, op operation, in, out any) error {
	body, err := encode(in)
	if err != nil {
		return fmt.Errorf("%s: %w", op.name, err)
	}
	_, err = c.ask(ctx, &request{op: op, body: body}, out)
	return err
}

// GrantRevoke ends a standing grant at once. Over both transports; needs scope grants. ErrNotFound: no such grant, or
// not this key's to see.
func (c *Client) GrantRevoke(ctx context.Context, grantID string) error {
	out := new(wire.OKResponse)
	if err := c.tell(ctx, opGrantRevoke, wire.GrantRevokeRequest{GrantID: grantID}, out); err != nil {
		return err
	}
	if !out.OK {
		return fmt.Errorf("grant revoke: %w", malformed("ok is not true"))
	}
	return nil
}

// GrantList lists one page of standing grants, newest first. Over both transports; needs scope grants.
func (c *Client) GrantList(ctx context.Context, in wire.GrantListRequest) (*wire.GrantListResponse, error) {
	body, err := encode(in)
	if err != nil {
		return nil, err
	}
	q := url.Values{}
	set(q, "agent_id", in.AgentID)
	set(q, "cursor", in.Cursor)
	number(q, "limit", in.Limit)
	if in.IncludeExpired {
		q.Set("include_expired", "true")
	}
	out := new(wire.GrantListResponse)
	root, err := c.ask(ctx, &request{op: opGrantList, query: q, body: body}, out)
	if err == nil && root.Get("grants").Kind() != exact.Array {
		err = fmt.Errorf("grant list: %w", malformed("there is no list"))
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Kill stops everything of one agent, session, key or tool, or everything: once it returns no call that it covers is
// permitted. Over both transports; needs scope kill. It is sent again until it is answered: killing twice harms
// nothing. An error with code in_effect_not_durable means that it is in effect, but would not outlive the server.
func (c *Client) Kill(ctx context.Context, in wire.KillRequest) (*wire.KillResponse, error) {
	in.Undo = false
	return c.kill(ctx, opKill, in)
}

// Unkill lets go on again what a Kill stopped. Over both transports; needs scope kill. Who is killed does not undo it,
// and a global kill is undone by yett unkill --global on the server's machine only: ErrForbidden.
func (c *Client) Unkill(ctx context.Context, in wire.KillRequest) (*wire.KillResponse, error) {
	in.Undo = true
	return c.kill(ctx, opUnkill, in)
}

func (c *Client) kill(ctx context.Context, op operation, in wire.KillRequest) (*wire.KillResponse, error) {
	out := new(wire.KillResponse)
	if err := c.tell(ctx, op, in, out); err != nil {
		return nil, err
	}
	if !out.OK || out.Killed.Scope == "" || out.Killed.Active == in.Undo {
		return nil, fmt.Errorf("%s: %w", op.name, malformed("it does not say that this was done"))
	}
	return out, nil
}

// KillList lists the kills in effect. Over HTTP only; needs scope kill or audit.
func (c *Client) KillList(ctx context.Context) ([]wire.Killed, error) {
	var all []wire.Killed
	for cursor := ""; ; {
		q := url.Values{}
		set(q, "cursor", cursor)
		out := new(wire.KillListResponse)
		root, err := c.ask(ctx, &request{op: opKillList, query: q}, out)
		if err == nil && root.Get("kills").Kind() != exact.Array {
			err = fmt.Errorf("kill list: %w", malformed("there is no list"))
		}
		if err == nil && out.Next != "" && out.Next == cursor {
			err = fmt.Errorf("kill list: %w", malformed("a page that leads to itself"))
		}
		if err != nil {
			return nil, err
		}
		all = append(all, out.Kills...)
		if cursor = out.Next; cursor == "" {
			return all, nil
		}
	}
}

// Reveal puts the values of a session's tokens back into a text. The agent and the session are those of the scan that
// made the tokens. Over HTTP only; needs scope reveal. Tokens of other sessions stay, and are counted.
func (c *Client) Reveal(ctx context.Context, in wire.RevealRequest) (*wire.RevealResponse, error) {
	b := newBody()
	b.str("agent_id", in.AgentID)
	b.str("session_id", in.SessionID)
	b.w.Str("text", in.Text)
	body, err := b.bytes()
	if err != nil {
		return nil, err
	}
	out := new(wire.RevealResponse)
	if _, err := c.ask(ctx, &request{op: opReveal, body: body}, out); err != nil {
		return nil, err
	}
	return out, nil
}
