package store

import (
	"time"

	"github.com/yett-dev/yett/sdk"
)

// taker is a command that only takes something away: a kill, a denial, a revocation, the end of a session. When the
// disk does not take it in time it holds all the same: it is in effect at once, its caller is told that it is not on
// disk, and the next batch begins with it.
type taker interface {
	Command
	// claim names what the command takes away and on whose word; "" if it gives something. sure says that nothing but the
	// disk can be in its way, as far as that can be seen beside the sequencer. It is asked before the command is queued.
	claim(s *Store) (name string, sure bool)
	// hold puts it in effect in memory. q.mu is held: it waits for nothing.
	hold(s *Store)
	// settleOwed does what was held, at the head of a batch, before anything that could use what is taken away, and
	// nothing if it is done. That the key of its caller has ended since changes nothing.
	settleOwed(tx *tx)
	// noun is what its caller is told of.
	noun() string
}

var _ = []taker{&KillSwitch{}, &Approve{}, &ApproveAction{}, &RevokeGrant{}, &RevokeKey{}, &EndSession{}}

// owed are the commands that hold although the disk did not take them. q.mu guards it.
type owed struct {
	list []taker
	of   map[string]bool // their claims
}

// claimed notes on the ticket what its command takes away.
func (t *ticket) claimed(s *Store) {
	t.claim, t.sure = "", false
	if c, ok := t.cmd.(taker); ok {
		t.claim, t.sure = c.claim(s)
	}
}

// owe keeps a refused command that takes something away for the next batch, and gives what its caller is told. One that
// something else may be in the way of is refused like any other. q.mu is held.
func (q *sequencer) owe(t *ticket, err error) error {
	c, ok := t.cmd.(taker)
	if e, is := c.(ender); is && t.sure {
		t.sure = e.inTime(q.s)
	}
	if !ok || t.claim == "" || !t.sure && !q.owed.of[t.claim] {
		return again(t, err)
	}
	if !q.owed.of[t.claim] {
		q.owed.of[t.claim] = true
		q.owed.list = append(q.owed.list, c)
	}
	c.hold(q.s)
	return &sdk.Error{Code: sdk.CodeNotDurable, Op: "commit", Err: err,
		Msg: c.noun() + " is in effect, but the disk does not take it: it is written when the disk does; a restart before " +
			"that would forget it, so send it again"}
}

// ender is a taker that comes too late where what was ahead of it is on disk by the time that it is refused.
type ender interface {
	// inTime reports whether what the command takes away, by its claim, can still be taken away.
	inTime(s *Store) bool
}

var _ = []ender{&Approve{}, &ApproveAction{}}

// again says of a refused denial or withdrawal that it was not done: nothing else takes away what it would have.
func again(t *ticket, err error) error {
	e, ok := err.(*sdk.Error)
	if _, is := t.cmd.(ender); !is || !ok || t.claim == "" || e.More["outcome"] != "" {
		return err
	}
	out := *e
	out.Msg += "; " + t.cmd.(taker).noun() + " was not done: send it again"
	return &out
}

// takeOwed gives what is owed, and owes it no more. q.mu is held.
func (q *sequencer) takeOwed() []taker {
	list := q.owed.list
	q.owed.list = nil
	clear(q.owed.of)
	return list
}

// writeOwed does what was owed, the oldest first.
func (tx *tx) writeOwed(owed []taker) {
	for _, c := range owed {
		c.settleOwed(tx)
	}
}

// unanswered is the Idempotency-Key of a command that is settled late; nil if something was answered under it before.
func (i *Idempotency) unanswered(tx *tx) *Idempotency {
	if i == nil {
		return nil
	}
	look := *i
	if done, err := look.look(tx); done || err != nil {
		return nil
	}
	return i
}

func (c *KillSwitch) claim(*Store) (string, bool) {
	if c.Undo || c.Held == nil {
		return "", false
	}
	return "kill\x00" + c.Held.Scope + "\x00" + c.Held.Target, true
}

// hold leaves the kill in effect that Hold has put there: it can be undone like any other.
func (c *KillSwitch) hold(s *Store) {
	s.kills.change(func(t *killTable) {
		delete(t.held, c.Held)
		if name := (killName{c.Held.Scope, c.Held.Target}); t.kept[name] == nil {
			t.kept[name] = c.Held
			c.owed = &sweep{Kill: c.Held, At: always, By: c.By, Why: "killed"}
		}
	})
	if c.owed != nil { // else one of that name has denied already, or will
		s.open.owed.Add(1)
		s.open.begins(c.owed)
	}
}

// always is later than any call.
var always = time.Unix(1<<40, 0)

// settleOwed writes the kill, unless it was undone or sent again since.
func (c *KillSwitch) settleOwed(tx *tx) {
	if c.owed != nil {
		tx.onSync = append(tx.onSync, func(bool) {
			tx.s.open.ends(c.owed)
			tx.s.open.owed.Add(-1)
		})
	}
	name := killName{c.Held.Scope, c.Held.Target}
	if is, _, _ := tx.s.kills.committed(name); is != c.Held {
		return
	}
	c.Kill.At, c.Denied = c.Held.At, 0
	c.stop(tx, name)
	if idem := c.Idem.unanswered(tx); idem != nil {
		idem.keep(tx, c.Answer(c.Out, c.Denied))
	}
}

func (*KillSwitch) noun() string { return "the kill" }

func (c *Approve) claim(s *Store) (string, bool) {
	if c.Yes {
		return "", false
	}
	d := s.open.find(c.Token, func(d *openCall) bool { return d.token == c.Token && c.mayEnd(s, d) })
	return c.claimOf("denial\x00" + c.Token), c.claimed(d)
}

// claimed keeps which call it is that the command ends.
func (c *Approve) claimed(d *openCall) bool {
	c.ends = ""
	if d != nil {
		c.ends = d.token
	}
	return d != nil
}

func (c *Approve) inTime(s *Store) bool {
	left, times := s.dooms(), s.Times()
	s.keys.mu.RLock()
	defer s.keys.mu.RUnlock()
	return s.open.find(c.ends, func(d *openCall) bool { return c.Withdraw || d.waits(s, times, left) }) != nil
}

func (c *Approve) claimOf(what string) string {
	if c.Withdraw {
		what = "withdrawal of " + what
	}
	return what + "\x00" + c.Key.ID
}

// mayEnd reports whether nothing but the disk keeps the caller from ending that call.
func (c *Approve) mayEnd(s *Store, d *openCall) bool {
	left, times := s.dooms(), s.Times()
	s.keys.mu.RLock()
	defer s.keys.mu.RUnlock()
	return c.Key.live(c.Key.At(times)) == nil && c.Key.Sees(d.agent) && !s.sameLine(c.Key.ID, d.key) &&
		!c.Key.ActsAs(d.agent) &&
		times.Now.Before(d.expires) && (c.Withdraw || d.waits(s, times, left))
}

// hold has nothing to do: whatever could use the approval is decided behind settleOwed.
func (c *Approve) hold(*Store) {}

// settleOwed ends the call, if nothing else has.
func (c *Approve) settleOwed(tx *tx) {
	c.Idem = c.Idem.unanswered(tx)
	if ended, err := c.endHeld(tx); err != nil {
		tx.held(err)
	} else if ended && c.Idem != nil {
		c.Idem.keep(tx, c.Answer(&c.Out))
	}
}

// endHeld takes away what there still is: a call that waits or is approved, and the standing grant of one that has
// ended otherwise. What the caller may do was seen when it was claimed. It reports whether the call has ended with this
// answer.
func (c *Approve) endHeld(tx *tx) (bool, error) {
	d, err := tx.find(c.ends)
	if err != nil || d == nil {
		return false, err
	}
	switch {
	case d.open():
		err = c.end(tx, d)
	case !c.repeats(tx, d):
		return false, c.endGrantOf(tx, d)
	}
	c.Out.Defer, c.was = tx.shown(d), nil
	return err == nil, err
}

// endGrantOf revokes the standing grant that an approval of d has made.
func (c *Approve) endGrantOf(tx *tx, d *Defer) error {
	if d.GrantID == "" {
		return nil
	}
	g, err := tx.grant(d.GrantID)
	if err == nil && g != nil && g.revoked.Load() == nil {
		tx.endGrant(g, c.By)
	}
	return err
}

func (c *Approve) noun() string {
	if c.Withdraw {
		return "the withdrawal"
	}
	return "the denial"
}

func (c *ApproveAction) claim(s *Store) (string, bool) {
	if c.Approve.Yes {
		return "", false
	}
	d := s.open.find(c.Approve.Token, func(d *openCall) bool {
		return d.answers(c.ID, c.Approve.Token) && c.Approve.mayEnd(s, d)
	})
	return c.Approve.claimOf("action\x00" + c.ID), c.Approve.claimed(d)
}

func (c *ApproveAction) inTime(s *Store) bool { return c.Approve.inTime(s) }

func (c *ApproveAction) hold(*Store) {}

func (c *ApproveAction) settleOwed(tx *tx) {
	c.Idem = c.Idem.unanswered(tx)
	ended, err := c.Approve.endHeld(tx)
	if err != nil || !ended || c.Idem == nil {
		tx.held(err)
		return
	}
	a, err := tx.whole(c.ID)
	if err != nil || a == nil {
		tx.held(err)
		return
	}
	c.Out = *a.At(tx.decided(a))
	c.Idem.keep(tx, c.Answer(&c.Out))
}

func (c *ApproveAction) noun() string { return c.Approve.noun() }

func (c *RevokeGrant) claim(s *Store) (string, bool) {
	s.grants.mu.RLock()
	g := s.grants.byID[c.ID]
	s.grants.mu.RUnlock()
	who := ""
	if c.Key != nil {
		who = c.Key.ID
	}
	return "grant\x00" + c.ID + "\x00" + who, g != nil &&
		(c.Key == nil || c.Key.live(c.Key.At(s.Times())) == nil && sdk.CoversAgent(c.Key.Agents, g.AgentID))
}

// hold has nothing to do: grants are spent behind settleOwed.
func (c *RevokeGrant) hold(*Store) {}

func (c *RevokeGrant) settleOwed(tx *tx) {
	c.Idem = c.Idem.unanswered(tx)
	tx.held(c.revoke(tx))
}

func (*RevokeGrant) noun() string { return "the revocation" }

// claim is none for a key that has a grace time left: it stays valid for now.
func (c *RevokeKey) claim(s *Store) (string, bool) {
	if c.Grace > 0 {
		return "", false
	}
	k := s.Key(c.ID)
	return "key\x00" + c.ID, k != nil && k.Revoked(s.Now()) == nil
}

// hold ends the key for all who ask for it.
func (c *RevokeKey) hold(s *Store) {
	s.Key(c.ID).held.CompareAndSwap(nil, &Revocation{At: s.Now(), By: c.By.Principal})
}

func (c *RevokeKey) settleOwed(tx *tx) {
	tx.held(c.apply(tx))
	tx.s.keys.byID[c.ID].held.Store(nil) // it is revoked now
}

func (*RevokeKey) noun() string { return "the revocation" }

func (c *EndSession) claim(s *Store) (string, bool) {
	_, live := c.In.Session(c.ID)
	return "session\x00" + string(c.ID[:]), live
}

// hold ends the session for its browser.
func (c *EndSession) hold(*Store) {
	c.In.mu.Lock()
	defer c.In.mu.Unlock()
	if sess := c.In.sessions[c.ID]; sess != nil {
		sess.ended = true
	}
}

func (c *EndSession) settleOwed(tx *tx) { tx.held(c.apply(tx)) }

func (*EndSession) noun() string { return "the end of the session" }

// held is how settling a command ended: by an error where something else has taken away meanwhile what it would have,
// or where the store cannot read.
func (tx *tx) held(err error) {
	if unrecorded(err) {
		tx.s.set.Log("store: what was in effect without the disk could not be written: %v", err)
	}
}

// unrecorded reports whether an error is the store's fault, and not the command's.
func unrecorded(err error) bool {
	e, ok := err.(*sdk.Error)
	return err != nil && (!ok || e.Code == sdk.CodeAuditUnavailable || e.Code == sdk.CodeInternal)
}
