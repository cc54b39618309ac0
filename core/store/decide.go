package store

import (
	"crypto/sha256"
	"slices"
	"strconv"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

func appendUint(dst []byte, n uint64) []byte { return strconv.AppendUint(dst, n, 10) }

// Decide settles one call: what the chain said becomes the decision, unless the key died meanwhile, an approval is
// redeemed, the call is a repeat, or the defer joins or exceeds what is pending. One decision function: every surface
// that decides commits this.
type Decide struct {
	DecideCall
	Out Decision

	// What apply works with. It begins with the call's own, and an action or a repeat may make it stricter.
	verdict sdk.Verdict
	quorums []sdk.Quorum
	grants  []*Grant
	// the grant that permitted the call before, when an action is started: it permits that, and is not spent again
	spent   string
	before  []charged // what that permit charged: it is given back when the start is charged
	charged []charged // by this permit
	decided bool      // Out is recorded, and no earlier answer
	auto    bool      // an approval may be redeemed without its token: a repeat spends none
}

func (c *Decide) apply(tx *tx) error {
	c.begin()
	if err := tx.live(c.Key); err != nil {
		return err
	}
	var err error
	if c.Action != nil {
		if done, err := c.Action.begin(tx, c); done || err != nil {
			return err
		}
	}
	kill := tx.s.KilledSince(c.Began, c.Key, c.AgentID, c.SessionID, c.ToolID)
	switch {
	case kill != nil:
		c.killed(kill)
	case c.DryRun:
	default:
		err = c.settleCall(tx)
	}
	if err != nil || c.Out.NeedsView {
		return err
	}
	if c.Out.Effect != sdk.Permit && c.Out.Effect != sdk.Defer {
		c.Out.Effect = sdk.Deny // no corruption of a verdict can look like a permit
	}
	tx.touch(c.Key)
	c.record(tx)
	c.decided = true
	if c.Action != nil {
		c.Action.decided(tx, c)
	}
	return nil
}

// begin forgets an earlier try.
func (c *Decide) begin() {
	v := &c.Policy.Verdict
	c.Out = Decision{Effect: v.Effect, Code: v.Code, Reason: v.Reason, RuleID: v.RuleID, Message: v.Message,
		DecisionID: c.ID}
	c.verdict, c.quorums, c.grants, c.spent, c.decided = *v, c.Policy.Quorums, c.Grants, "", false
	c.before, c.charged, c.auto = nil, nil, c.Redeem.Auto && !c.Key.Explicit
	if c.quorums == nil && v.Effect == sdk.Defer {
		c.quorums = []sdk.Quorum{{N: max(v.Approvals, 1), From: v.From, Rule: v.RuleID}}
	}
}

func (c *Decide) deny(code, reason string) {
	c.Out.Effect, c.Out.Code, c.Out.Reason, c.Out.RuleID, c.Out.Message = sdk.Deny, code, reason, "", ""
}

// killed turns whatever was to be decided into the denial of a kill.
func (c *Decide) killed(k *Kill) {
	if k == forgotten {
		c.deny(sdk.ReasonKillSwitch, "more kills have come and gone since the call began than are remembered; ask again")
		return
	}
	c.deny(sdk.ReasonKillSwitch, "stopped by a kill of scope "+k.Scope)
}

// settleCall tells a redemption, a repeat and a new call apart.
func (c *Decide) settleCall(tx *tx) error {
	token, err := c.redeems(tx)
	switch {
	case err != nil:
		return err
	case token != "":
		return c.redeem(tx, token)
	case len(c.Names.Hashes) > 0:
		return c.repeat(tx)
	}
	if err := c.fresh(tx); err != nil || c.Out.NeedsView {
		return err
	}
	if c.Names.Made != [16]byte{} && c.Out.Effect == sdk.Defer && c.Out.Token != "" {
		tx.remember(prefixRepeat, c.Names.Made, RepeatFor, c.Digest, c.Out.memo())
	}
	return nil
}

// fresh settles a call that redeems and repeats nothing: its limits, then a standing grant, then a defer.
func (c *Decide) fresh(tx *tx) error {
	if c.verdict.Effect != sdk.Permit && c.verdict.Effect != sdk.Defer {
		return nil
	}
	if err := tx.giveBack(c.before, false); err != nil {
		return err
	}
	if err := c.settleFresh(tx); err != nil || !c.Out.NeedsView {
		return err
	}
	return tx.giveBack(c.before, true) // nothing is decided: the call is committed once more
}

// settleFresh is fresh without what an earlier permit of the call has charged.
func (c *Decide) settleFresh(tx *tx) error {
	if done, err := c.redeemFound(tx, tx.approved(c)); done || err != nil {
		return err
	}
	sums, over, err := tx.within(c.Limits.Charges, false)
	switch {
	case err != nil:
		return err
	case over != nil:
		c.overrun(over)
		return nil
	case c.verdict.Effect == sdk.Permit:
		c.charged = tx.charge(c.Limits.Charges, sums, false)
		return nil
	case c.NoDefer:
		return nil
	}
	if c.spent != "" {
		if err := c.standing(tx); err != nil || c.Out.Effect != sdk.Permit {
			return err
		}
		c.charged = tx.charge(c.Limits.Charges, sums, false)
		return nil
	}
	if g := tx.spend(c.grants, c.quorums); g != nil {
		c.charged = tx.charge(c.Limits.Charges, sums, false)
		tx.use(g, c)
		c.Out.Effect, c.Out.Code, c.Out.GrantID, c.Out.Message = sdk.Permit, sdk.ReasonStandingConsumed, g.ID, ""
		c.Out.Reason = "permitted by standing grant " + g.ID
		return nil
	}
	c.deferCall(tx)
	return nil
}

// standing permits the start of an action that a grant has permitted, while that grant still permits such a call.
func (c *Decide) standing(tx *tx) error {
	stands, err := c.granted(tx, c.spent)
	if err != nil {
		return err
	}
	if !stands {
		c.deferCall(tx)
		return nil
	}
	c.Out.Effect, c.Out.Code, c.Out.GrantID, c.Out.Message = sdk.Permit, sdk.ReasonStandingConsumed, c.spent, ""
	c.Out.Reason = "permitted by standing grant " + c.spent
	return nil
}

// granted reports whether the grant that has permitted the call before would still do so: it is neither revoked nor
// expired, enough of its issuers could sign it now, and it covers the call under today's rules. Its uses do not matter:
// one of them is this call's.
func (c *Decide) granted(tx *tx, id string) (bool, error) {
	g, err := tx.grant(id)
	if err != nil || g == nil {
		return false, err
	}
	call := GrantCall{AgentID: c.AgentID, ToolID: c.ToolID, Operation: c.Operation, SessionID: c.SessionID,
		RuleID: c.verdict.RuleID, Policy: c.Policy.Version, Quorums: c.quorums}
	return g.revoked.Load() == nil && g.At(tx.times).Before(g.Expires) && g.covers(&call) &&
		tx.enough(c.quorums, tx.inTime(g.Issuers)), nil
}

func (c *Decide) overrun(o *overrun) {
	c.deny(o.code(), o.why())
	c.Out.RuleID, c.Out.RetryAfter = o.Rule, o.left
}

// deferCall turns a Defer verdict into a pending defer.
func (c *Decide) deferCall(tx *tx) {
	if d := tx.approved(c); d != nil {
		c.Out.Token, c.Out.Expires, c.Out.Approved, c.Out.joined = d.Token, d.Expires, true, true
		return
	}
	if d := tx.waiting(c.Digest); d != nil {
		if c.unhide(tx, d) {
			return
		}
		if c.attach(tx, d) {
			c.Out.Token, c.Out.Expires, c.Out.joined = d.Token, d.Expires, true
		}
		return
	}
	if c.Defer.View == nil {
		c.Out.NeedsView = true
		return
	}
	if more := tx.st.pending[c.Key.ID] - c.Limits.MaxPending; more >= 0 {
		tx.endOver(c.Key.ID, min(more+1, tx.s.set.share))
	}
	if tx.st.pending[c.Key.ID] >= c.Limits.MaxPending {
		c.deny(sdk.ReasonRateExceeded, "this key has "+strconv.Itoa(c.Limits.MaxPending)+
			" calls pending already (limits.pending_per_key)")
		return
	}
	d := &Defer{Token: c.Defer.Token, Status: Pending, KeyID: c.Key.ID, AgentID: c.AgentID, SessionID: c.SessionID,
		ToolID: c.ToolID, Operation: c.Operation, CallID: c.CallID, DecisionID: c.ID, Digest: c.Digest,
		RuleID: c.verdict.RuleID, Code: c.verdict.Code, Reason: c.verdict.Reason, Policy: c.Policy.Version,
		Created: tx.begun(), Expires: tx.now.Add(c.Defer.TTL), Quorums: merged(nil, c.quorums),
		TTL: min(c.verdict.Expires, c.Defer.TTL), Priority: c.verdict.Priority, ArgsHash: c.ArgsHash,
		ContextHash: c.ContextHash, Hidden: c.Defer.Hidden, Noted: !c.Defer.Note.none()}
	if c.Action != nil && c.Action.id() != "" {
		d.Actions = []string{c.Action.id()}
	}
	tx.st.add(d)
	tx.st.remind(d, tx.s.ends(d))
	tx.putDefer(d)
	tx.setFresh(keyStr(prefixView, d.Token), c.Defer.View) // a row of its own: it may be large, and is not held in memory
	if d.Noted {
		tx.putNote(d.Token, &c.Defer.Note)
	}
	tx.set(keyStr(prefixLive, d.Token), nil)
	tx.set(keyStr(prefixAsked, d.DecisionID), []byte(d.Token))
	c.Out.Token, c.Out.Expires = d.Token, d.Expires
	tx.deferRecord("defer_created", d, c.By, d.Reason)
}

// attach lets an action follow a deferred call that waits already, and reports whether there is room for it.
func (c *Decide) attach(tx *tx, d *Defer) bool {
	if c.Action == nil || c.Action.id() == "" || slices.Contains(d.actions(), c.Action.id()) {
		return true
	}
	if c.Limits.MaxJoined > 0 && len(d.actions()) >= c.Limits.MaxJoined {
		c.deny(sdk.ReasonRateExceeded, strconv.Itoa(c.Limits.MaxJoined)+
			" actions wait for the approval of this call already (limits.actions_per_approval)")
		return false
	}
	tx.join(d, c.Action.id())
	return true
}

func (c *Decide) record(tx *tx) {
	o := tx.record("decision")
	c.By.write(&o)
	o.Str("decision_id", c.Out.DecisionID)
	o.Str("call_id", c.CallID)
	o.Str("agent_id", c.AgentID)
	o.Str("session_id", c.SessionID)
	o.Str("tool_id", c.ToolID)
	o.Opt("operation", c.Operation)
	o.Str("effect", c.Out.Effect.String())
	o.Str("reason_code", c.Out.Code)
	o.Opt("reason", c.Out.Reason)
	o.Opt("rule_id", c.Out.RuleID)
	o.Opt("defer_token", c.Out.Token)
	o.Opt("grant_id", c.Out.GrantID)
	o.Str("policy_version", c.Policy.Version)
	o.Int("latency_us", c.Record.LatencyUS)
	var named [2 * sha256.Size]byte
	tx.s.nameCall(&named, c.Digest) // readers of the log may not try out what is masked in args
	o.Ascii("digest", named[:])
	if c.Record.Args != nil {
		o.Raw("args", c.Record.Args)
	}
	if c.Record.ArgsWithheld != nil {
		o.Raw("args_withheld", c.Record.ArgsWithheld.JSON())
	}
	c.Record.Note.members(&o)
	if c.DryRun {
		o.Bool("dry_run", true)
	}
	if c.Out.Repeat {
		o.Bool("repeat", true)
	}
	if c.Out.joined {
		o.Bool("joined", true)
	}
	if c.Record.TimeoutMS != 0 {
		o.Int("execution_timeout_ms", int64(c.Record.TimeoutMS))
	}
	o.List("checks", len(c.Policy.Checks), func(i int, w *wire.Writer) {
		k := &c.Policy.Checks[i]
		w.Str("name", k.Name)
		w.Str("effect", k.Effect)
		w.Opt("reason_code", k.ReasonCode)
		w.Opt("error", k.Error)
		if k.Mode == "shadow" {
			w.Bool("shadow", true)
		}
	})
	if c.Action != nil {
		c.Action.members(&o)
	}
	tx.end(o)
}

// Note records something that happened without changing state: a start, a configuration, refused keys.
type Note struct {
	Type   string
	By     Who
	Fields [][2]string
}

func (c *Note) apply(tx *tx) error {
	o := tx.record(c.Type)
	c.By.write(&o)
	for _, f := range c.Fields {
		o.Str(f[0], f[1])
	}
	tx.end(o)
	return nil
}
