package store

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// Grant is a standing grant: a call that a rule would defer is permitted while it lasts. What is fixed is in fields,
// what changes is behind methods. Safe for concurrent use.
type Grant struct {
	ID          string `json:"id"`
	AgentID     string `json:"agent_id"` // exact or a pattern
	ToolPattern string `json:"tool_pattern"`
	Operation   string `json:"operation,omitempty"` // of a call whose tool does not end with it; "" for every one
	SessionID   string `json:"session_id,omitempty"`
	RuleID      string `json:"rule_id,omitempty"`
	// with an approval: all rules that deferred the call, "" for the chain's default. Made by hand: RuleID, if a step was
	// named
	Rules     []string  `json:"rules,omitempty"`
	Steps     []string  `json:"steps,omitempty"` // the step of each rule: steps may have rules of the same name
	Policy    string    `json:"policy_version,omitempty"`
	ArgsMatch string    `json:"args_match,omitempty"` // CEL
	MaxUses   uint64    `json:"max_uses,omitempty"`   // 0 is no limit
	Created   time.Time `json:"created_at"`
	Expires   time.Time `json:"expires_at"`
	IssuedBy  string    `json:"issued_by"` // key id, or who at the console
	Issuers   []string  `json:"issuers"`
	Token     string    `json:"defer_token,omitempty"` // the approval that it came with
	Note      string    `json:"note,omitempty"`

	line    string // whose share of all grants it is of
	next    *Grant // of the same agent, in the table's list
	uses    atomic.Uint64
	revoked atomic.Pointer[Revocation]
}

// Uses is how often it was spent.
func (g *Grant) Uses() uint64 { return g.uses.Load() }

// Revocation is when and by whom it was revoked, or nil.
func (g *Grant) Revocation() *Revocation { return g.revoked.Load() }

// Status is live, used_up, expired or revoked.
func (g *Grant) Status(now time.Time) string {
	switch {
	case g.revoked.Load() != nil:
		return "revoked"
	case g.MaxUses > 0 && g.uses.Load() >= g.MaxUses:
		return "used_up"
	case !now.Before(g.Expires):
		return "expired"
	}
	return "live"
}

// covers reports whether a call of that policy and rule is of the kind that the grant permits, its args_match apart.
func (g *Grant) covers(c *GrantCall) bool {
	return (g.AgentID == c.AgentID || isPattern(g.AgentID) && sdk.MatchAgent([]string{g.AgentID}, c.AgentID)) &&
		sdk.MatchGlob(g.ToolPattern, c.ToolID) && (g.Operation == "" || g.Operation == c.Operation) &&
		(g.SessionID == "" || g.SessionID == c.SessionID) && g.standsAgainst(c) && (g.Policy == "" || g.Policy == c.Policy)
}

// standsAgainst reports whether the grant lifts the defer of every step that defers the call. A grant with rules lifts
// only those. If several steps defer the call, a rule without its step lifts nothing: the name alone does not tell
// which step's rule is meant.
func (g *Grant) standsAgainst(c *GrantCall) bool {
	if len(c.Quorums) == 0 {
		return g.lifts("", c.RuleID)
	}
	if g.RuleID != "" && len(g.Rules) == 0 && slices.ContainsFunc(c.Quorums[1:], func(q sdk.Quorum) bool {
		return q.Step != c.Quorums[0].Step
	}) {
		return false
	}
	for i := range c.Quorums {
		q := &c.Quorums[i]
		if named := q.Named != "" && !sdk.OwnRule(q.Named) && g.lifts(q.Step, q.Named); !named && !g.lifts(q.Step, q.Rule) {
			return false
		}
	}
	return true
}

// lifts reports whether the grant stands against a rule of a step. A grant made by hand may name the rule without its
// step.
func (g *Grant) lifts(step, rule string) bool {
	if len(g.Rules) == 0 {
		return g.RuleID == "" || g.RuleID == rule
	}
	for i, r := range g.Rules {
		if r == rule && i < len(g.Steps) && g.Steps[i] == step {
			return true
		}
	}
	return false
}

// narrower orders grants: exact agent, then session, then the longest literal tool pattern, then args_match, then the
// earliest expiry, then id.
func narrower(a, b *Grant) int {
	first := func(x, y bool) int {
		switch {
		case x == y:
			return 0
		case x:
			return -1
		}
		return 1
	}
	for _, c := range [...]int{first(!isPattern(a.AgentID), !isPattern(b.AgentID)),
		first(a.SessionID != "", b.SessionID != ""),
		sdk.Literals(b.ToolPattern) - sdk.Literals(a.ToolPattern), first(a.ArgsMatch != "", b.ArgsMatch != ""),
		a.Expires.Compare(b.Expires)} {
		if c != 0 {
			return c
		}
	}
	return strings.Compare(a.ID, b.ID)
}

type grantWriter = wire.Writer

// grantState is what of a grant's row changes. In memory it is behind a method.
type grantState struct {
	RevokedAt time.Time `json:"revoked_at,omitzero"`
	RevokedBy string    `json:"revoked_by,omitempty"`
}

func (tx *tx) putGrant(g *Grant, is grantState) {
	row, err := storedGrant{g, is}.appendRow(tx.row[:0])
	if err != nil {
		tx.keep(fmt.Errorf("the row of grant %q: %w", g.ID, err))
		return
	}
	tx.row = row
	tx.set(keyStr(prefixGrant, g.ID), row)
}

func (tx *tx) grantRecord(typ string, g *Grant, by Who, fill func(o *grantWriter)) {
	o := tx.record(typ)
	by.write(&o)
	o.Str("grant_id", g.ID)
	o.Str("agent_id", g.AgentID)
	o.Str("tool_pattern", g.ToolPattern)
	o.Opt("operation", g.Operation)
	o.Opt("session_id", g.SessionID)
	o.Opt("rule_id", g.RuleID)
	if len(g.Rules) > 0 {
		o.Strs("rules", g.Rules)
		o.Strs("steps", g.Steps)
	}
	o.Opt("args_match", g.ArgsMatch)
	o.Str("issued_by", g.IssuedBy)
	o.Int("max_uses", int64(g.MaxUses))
	o.Int("uses", int64(g.Uses()))
	o.Str("expires_at", g.Expires.UTC().Format(time.RFC3339Nano))
	if fill != nil {
		fill(&o)
	}
	tx.end(o)
}

// AddGrant makes a standing grant.
type AddGrant struct {
	Grant  *Grant
	TTL    time.Duration // how long it lasts
	Key    *Key          // nil for an operator at the console
	By     Who
	Most   int // live grants there may be
	Each   int // and of one issuer, its rolled keys together; 0 is as many
	Idem   *Idempotency
	Answer func(*Grant) []byte
	Told   func(answer []byte) (grant string) // the id in what Answer has made
}

func (c *AddGrant) apply(tx *tx) error {
	done, err := tx.admit(c.Key, c.Idem)
	switch {
	case err != nil:
		return err
	case done:
		return c.stillTrue(tx)
	}
	if err := tx.maySign(c.Key); err != nil {
		return err
	}
	if err := tx.mayGrant(c.Key, c.Grant.AgentID); err != nil {
		return err
	}
	if err := tx.grantsFit(c.Grant.IssuedBy, c.Most, c.Each, ""); err != nil {
		return err
	}
	tx.addGrant(c.Grant, c.TTL, c.By)
	if c.Idem != nil {
		c.Idem.keep(tx, c.Answer(c.Grant))
	}
	return nil
}

// mayGrant refuses a grant that reaches beyond what the key sees, or covers an agent that the key acts as.
func (tx *tx) mayGrant(k *Key, agent string) error {
	if k == nil {
		return nil
	}
	if !sdk.CoversAgent(k.Agents, agent) {
		return sdk.FieldErrf(sdk.CodeAgentNotAllowed, "agent_id", "the key %q may not answer for every agent that %q covers",
			k.Name, agent)
	}
	if k.scope&sdk.ScopeAuthorize != 0 && sdk.OverlapsAgent(k.Agents, agent) {
		return sdk.Errf(sdk.CodeSelfApproval, "the key %q acts as an agent that the grant would cover", k.Name)
	}
	return nil
}

// grantsFit refuses one grant more than there may be, of all or of its issuer; nothing says what did not happen either.
func (tx *tx) grantsFit(issuer string, most, each int, nothing string) error {
	t, line := &tx.s.grants, tx.s.line(issuer)
	full := func() bool { return len(t.byID) >= most || each > 0 && t.lines[line] >= each }
	if full() {
		tx.sweepGrants()
	}
	switch {
	case !full():
		return nil
	case len(t.byID) >= most:
		return sdk.Errf(sdk.CodeTooManyRequests, "there are %d live grants already (limits.grants)%s", most, nothing)
	}
	return sdk.Errf(sdk.CodeTooManyRequests, "this key has issued %d grants that are live (limits.grants_per_key)%s; "+
		"revoke some, or wait for one to expire", each, nothing)
}

// line identifies an issuer, its rolled keys together.
func (s *Store) line(issuer string) string {
	s.keys.mu.RLock()
	defer s.keys.mu.RUnlock()
	if k := s.keys.byID[issuer]; k != nil {
		return k.root()
	}
	return issuer // an operator at the console
}

func (tx *tx) addGrant(g *Grant, ttl time.Duration, by Who) {
	g.Created, g.Expires, g.line = tx.now, tx.now.Add(ttl), tx.s.line(g.IssuedBy)
	tx.putGrant(g, grantState{})
	tx.grantRecord("grant_added", g, by, nil)
	tx.s.grants.add(g)
}

// sweepGrants drops expired grants from memory, once a second at most: whoever is refused again and again costs no
// more.
func (tx *tx) sweepGrants() {
	t := &tx.s.grants
	if since := tx.now.Sub(t.swept); since >= 0 && since < time.Second {
		return
	}
	t.swept = tx.now
	for _, g := range t.byID {
		if g.Status(tx.now) != "live" {
			t.drop(g)
		}
	}
}

// grant is the grant with that id, ended ones too, or nil.
func (tx *tx) grant(id string) (*Grant, error) {
	if g := tx.s.grants.byID[id]; g != nil {
		return g, nil
	}
	row, found, err := tx.get(keyStr(prefixGrant, id))
	if err != nil {
		return nil, unavailable(err)
	}
	if !found {
		return nil, nil
	}
	g, err := tx.s.readGrant(row)
	if err != nil {
		return nil, unavailable(err)
	}
	return g, nil
}

// inTime leaves out issuers whose key has expired. A sign-off counts by when it was given; a grant stands on who could
// sign it now.
func (tx *tx) inTime(issuers []string) []string {
	expired := func(id string) bool {
		k := tx.s.keys.byID[id]
		return k != nil && k.Expired(k.At(tx.times))
	}
	if !slices.ContainsFunc(issuers, expired) {
		return issuers
	}
	return slices.DeleteFunc(slices.Clone(issuers), expired)
}

// Signed reports whether somebody who signed the grant may still do so: a grant of issuers that are all revoked, killed
// or expired is not spent.
func (s *Store) Signed(g *Grant) bool {
	s.keys.mu.RLock()
	defer s.keys.mu.RUnlock()
	times := s.Times()
	for _, id := range g.Issuers {
		k := s.keys.byID[id]
		if k == nil || s.lives(k, times) && !k.Expired(k.At(times)) && s.killsKey(k) == nil {
			return true
		}
	}
	return false
}

// RevokeGrant ends a grant.
type RevokeGrant struct {
	ID     string
	Key    *Key // nil for an operator at the console
	By     Who
	Idem   *Idempotency
	Answer []byte // what a repeat is answered
}

func (c *RevokeGrant) apply(tx *tx) error {
	if done, err := tx.admit(c.Key, c.Idem); done || err != nil {
		return err
	}
	return c.revoke(tx)
}

func (c *RevokeGrant) revoke(tx *tx) error {
	g, err := tx.grant(c.ID)
	if err != nil {
		return err
	}
	if g == nil || c.Key != nil && !sdk.CoversAgent(c.Key.Agents, g.AgentID) {
		return sdk.FieldErrf(sdk.CodeUnknownGrant, "grant_id", "there is no such grant, or it is not this key's to see")
	}
	if c.Idem != nil {
		c.Idem.keep(tx, c.Answer)
	}
	if g.revoked.Load() != nil {
		tx.anchor()
		return nil // revoked is revoked; a retry is no error
	}
	tx.endGrant(g, c.By)
	return nil
}

func (tx *tx) endGrant(g *Grant, by Who) {
	g.revoked.Store(&Revocation{At: tx.now, By: by.Principal})
	tx.onSync = append(tx.onSync, func(bool) { tx.s.grants.drop(g) })
	tx.putGrant(g, grantState{tx.now, by.Principal})
	tx.grantRecord("grant_revoked", g, by, nil)
}

// ready takes the state of the row.
func (g *Grant) ready(is grantState) {
	if !is.RevokedAt.IsZero() {
		g.revoked.Store(&Revocation{At: is.RevokedAt, By: is.RevokedBy})
	}
}

// spend takes one use of the first of the candidates that is live and signed by enough issuers. It gives nil if there
// is none.
func (tx *tx) spend(candidates []*Grant, quorums []sdk.Quorum) *Grant {
	for _, g := range candidates {
		if g.Status(g.At(tx.times)) == "live" && tx.enough(quorums, tx.inTime(g.Issuers)) {
			return g
		}
	}
	return nil
}

func (tx *tx) use(g *Grant, c *Decide) {
	n := g.uses.Add(1)
	tx.journal(undo{grant: g})
	tx.set(keyStr(prefixUses, g.ID), binary.BigEndian.AppendUint64(nil, n))
	tx.grantRecord("grant_consumed", g, c.By, func(o *grantWriter) {
		o.Str("decision_id", c.ID)
		o.Str("call_id", c.CallID)
		o.Str("tool_id", c.ToolID)
	})
	if g.Status(tx.now) != "live" {
		tx.onSync = append(tx.onSync, func(bool) { tx.s.grants.drop(g) }) // until then its row is behind
	}
}
