package ops

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// unreadable names no grant.
const unreadable = "(unreadable)"

// The bounds of a standing grant.
const (
	maxGrantTTL  = 30 * 24 * time.Hour
	maxGrantUses = 1_000_000_000
	matchBytes   = 2048
)

func grantTTL(field string, seconds int) (time.Duration, error) {
	if seconds < 1 || seconds > int(maxGrantTTL/time.Second) {
		return 0, sdk.FieldErrf(sdk.CodeInvalidField, field, "%s must be 1 to %d (30 days), not %d", field,
			int(maxGrantTTL/time.Second), seconds)
	}
	return time.Duration(seconds) * time.Second, nil
}

func usesInRange(field string, n int) error {
	if n < 0 || n > maxGrantUses {
		return sdk.FieldErrf(sdk.CodeInvalidField, field, "%s must be 0 (no limit) to %d, not %d", field, maxGrantUses, n)
	}
	return nil
}

// AddGrant makes a standing grant.
func (s *Service) AddGrant(r *Request, in *wire.GrantAddRequest) (*wire.GrantAddResponse, error) {
	ttl, err := grantTTL("ttl_seconds", in.TTLSeconds)
	if err != nil {
		return nil, err
	}
	if err := usesInRange("max_uses", in.MaxUses); err != nil {
		return nil, err
	}
	if len(in.Note) > reasonBytes {
		return nil, sdk.FieldErrf(sdk.CodeInvalidField, "note", "note is %d bytes long, more than the limit of %d",
			len(in.Note), reasonBytes)
	}
	if in.Step != "" && in.RuleID == "" {
		return nil, sdk.FieldErrf(sdk.CodeInvalidField, "step",
			"step needs rule_id: the rule of that step which the grant is for")
	}
	if err := noKeys(in.AgentID, in.ToolPattern, in.SessionID, in.PolicyVersion, in.RuleID, in.Step, in.ArgsMatch,
		in.IssuedBy, in.Note, r.Idempotency); err != nil {
		return nil, err
	}
	if in.ArgsMatch != "" {
		if len(in.ArgsMatch) > matchBytes {
			return nil, sdk.FieldErrf(sdk.CodeInvalidField, "args_match",
				"args_match is %d bytes long, more than the limit of %d", len(in.ArgsMatch), matchBytes)
		}
		if _, err := s.matchers.get(in.ArgsMatch, s.set.Match); err != nil {
			return nil, sdk.FieldErrf(sdk.CodeInvalidField, "args_match", "args_match is no condition: %v", err)
		}
	}
	g := &store.Grant{ID: s.ids.id("stg_"), AgentID: in.AgentID, ToolPattern: in.ToolPattern, SessionID: in.SessionID,
		RuleID: in.RuleID, Policy: in.PolicyVersion, ArgsMatch: in.ArgsMatch, MaxUses: uint64(in.MaxUses),
		IssuedBy: r.Who.Principal, Issuers: []string{r.Who.Principal}, Note: in.Note}
	if in.Step != "" {
		g.Rules, g.Steps = []string{in.RuleID}, []string{in.Step}
	}
	cmd := &store.AddGrant{Grant: g, TTL: ttl, Key: r.Key, By: r.Who, Most: s.set.Limits.Grants,
		Each: s.set.Limits.GrantsPerKey, Idem: idempotency(r, "standing_grant_add")}
	if in.IssuedBy != "" {
		cmd.By.Note = in.IssuedBy
	}
	gen := s.pin()
	warning := warnings(warnOfPattern("agent_id", in.AgentID), warnOfPattern("tool_pattern", in.ToolPattern),
		warnOfRule(gen.Authorize, in.Step, in.RuleID))
	gen.unpin()
	cmd.Answer = func(g *store.Grant) []byte { return s.added(g, warning).AppendJSON(nil) }
	cmd.Told = func(answer []byte) string {
		var told struct {
			Grant struct {
				ID string `json:"id"`
			} `json:"grant"`
		}
		if err := json.Unmarshal(answer, &told); err != nil || told.Grant.ID == "" {
			return unreadable
		}
		return told.Grant.ID
	}
	if err := s.commit(r, cmd); err != nil {
		return nil, err
	}
	if cmd.Idem != nil && cmd.Idem.Replay != nil {
		return nil, &Replay{cmd.Idem.Replay}
	}
	return s.added(g, warning), nil
}

func (s *Service) added(g *store.Grant, warning string) *wire.GrantAddResponse {
	return &wire.GrantAddResponse{OK: true, Grant: s.grant(g), Warning: warning}
}

func (s *Service) grant(g *store.Grant) wire.Grant {
	out := wire.Grant{ID: g.ID, AgentID: g.AgentID, ToolPattern: g.ToolPattern, Operation: g.Operation,
		SessionID: g.SessionID, PolicyVersion: g.Policy, RuleID: g.RuleID, Rules: g.Rules, Steps: g.Steps,
		ArgsMatch: g.ArgsMatch,
		ExpiresAt: rfc3339(g.Expires), MaxUses: int(g.MaxUses), Uses: int(g.Uses()),
		Status:   g.Status(g.At(s.set.Store.Times())),
		IssuedBy: g.IssuedBy, IssuedByName: s.keyName(g.IssuedBy), Issuers: g.Issuers, Note: g.Note,
		CreatedAt: rfc3339(g.Created)}
	if out.Status == "live" && !s.set.Store.Signed(g) {
		out.Status = "issuer_revoked"
	}
	if rev := g.Revocation(); rev != nil {
		out.RevokedAt, out.RevokedBy = rfc3339(rev.At), rev.By
	}
	return out
}

// RevokeGrant ends a standing grant at once. A grant that is revoked already stays so.
func (s *Service) RevokeGrant(r *Request, in *wire.GrantRevokeRequest) (*wire.OKResponse, error) {
	if err := noKeys(r.Idempotency); err != nil {
		return nil, err
	}
	out := &wire.OKResponse{OK: true}
	cmd := &store.RevokeGrant{ID: in.GrantID, Key: r.Key, By: r.Who, Idem: idempotency(r, "standing_grant_revoke"),
		Answer: out.AppendJSON(nil)}
	if err := s.commit(r, cmd); err != nil {
		return nil, err
	}
	return out, nil
}

// ListGrants lists the grants that the key may see, newest first.
func (s *Service) ListGrants(r *Request, in *wire.GrantListRequest) (*wire.GrantListResponse, error) {
	limit, err := pageSize(in.Limit)
	if err != nil {
		return nil, err
	}
	leave, err := s.pages.enter(r)
	if err != nil {
		return nil, err
	}
	defer leave()
	out, size := &wire.GrantListResponse{OK: true}, 0
	times := s.set.Store.Times()
	after, err := s.pages.place("grants", in.Cursor)
	if err != nil {
		return nil, err
	}
	err = s.set.Store.Grants(after, func(g *store.Grant) bool {
		if !sdk.CoversAgent(r.Key.Agents, g.AgentID) ||
			in.AgentID != "" && !sdk.MatchAgent([]string{g.AgentID}, in.AgentID) ||
			!in.IncludeExpired && g.Status(g.At(times)) != "live" {
			return r.Ctx.Err() == nil
		}
		if size += len(g.ArgsMatch) + len(g.Note) + memberBytes/4; len(out.Grants) == limit ||
			len(out.Grants) > 0 && size > pageBytes {
			out.NextCursor = s.pages.cursor("grants", out.Grants[len(out.Grants)-1].ID)
			return false
		}
		out.Grants = append(out.Grants, s.grant(g))
		return true
	})
	if err == nil {
		err = r.Ctx.Err()
	}
	if err != nil {
		return nil, &sdk.Error{Code: sdk.CodeInternal, Op: "list grants", Err: err}
	}
	// no use is shown that a crash could take back
	if err := s.commit(r, store.Barrier{Key: r.Key}); err != nil {
		return nil, err
	}
	return out, nil
}

// matchTime bounds how long the conditions of all standing grants together are looked at for one call.
const matchTime = 50 * time.Millisecond

// candidates lists the grants that may permit a call that such steps defer, the narrowest first. Where their conditions
// take too long, the rest of the grants permit nothing; late counts them.
func (s *Service) candidates(r *Request, c *chain.Call, res *chain.Result, policy string) (out []*store.Grant,
	late int) {
	var ctx context.Context // none until there is a condition
	for _, g := range s.set.Store.GrantsFor(&store.GrantCall{AgentID: c.AgentID, ToolID: c.ToolID, Operation: c.Operation,
		SessionID: c.SessionID, RuleID: res.Verdict.RuleID, Policy: policy, Quorums: res.Quorums}) {
		if g.ArgsMatch != "" {
			m, err := s.matchers.get(g.ArgsMatch, s.set.Match)
			if ctx == nil {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(r.Ctx, matchTime)
				defer cancel()
				c.Bound.End, _ = ctx.Deadline()
			}
			holds := err == nil && m.Holds(ctx, c)
			if !holds && ctx.Err() != nil {
				late++
			}
			if !holds {
				continue // an error is no match
			}
		}
		out = append(out, g)
	}
	return out, late
}

// Matcher is a compiled args_match.
type Matcher interface {
	// Holds reports whether the condition holds for the call; an error in it is a no.
	Holds(ctx context.Context, c *chain.Call) bool
}

// matchers keeps compiled args_match conditions.
type matchers struct {
	mu  sync.Mutex
	all map[string]Matcher
}

// maxMatchers bounds the conditions that stay compiled.
const maxMatchers = 10_000

func (m *matchers) get(text string, compile func(string) (Matcher, error)) (Matcher, error) {
	m.mu.Lock()
	got := m.all[text]
	m.mu.Unlock()
	if got != nil {
		return got, nil
	}
	got, err := compile(text)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil || len(m.all) >= maxMatchers {
		m.all = map[string]Matcher{}
	}
	m.all[text] = got
	return got, nil
}
