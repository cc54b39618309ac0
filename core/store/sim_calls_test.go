package store

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing/synctest"
	"time"

	"github.com/yett-dev/yett/sdk"
)

const (
	limitedTool = "limited" // a call of it is charged
	limitMost   = 4
	limitWindow = time.Hour
)

// fact is what is known of something that answers have given or taken.
type fact int

const (
	unsure fact = iota // a command was sent and not answered, or refused in front of a power cut
	no
	yes
)

// simKey, simGrant, simDefer and simKill are what the clients know.
type (
	simKey struct {
		id    string
		boss  bool
		gone  fact // revoked
		asked int  // commands about it so far
	}
	simGrant struct {
		id, agent string
		uses      int // answered
		most      int
		until     time.Duration // by what is certain of the time
		expires   time.Time     // by the store's clock
		gone      fact
		asked     int
	}
	simDefer struct {
		token, args, agent string
		key                *simKey
		until              time.Duration
		approved, denied   fact // by an answer
		spent              bool
		asked              int
	}
	simKill struct {
		on    fact
		asked int
	}
	// refusal is a command that would have given something, and was refused.
	refusal struct {
		what    string
		settled bool // something was answered since: whatever landed of it is taken back
		check   func() error
		shown   func() error // holds whenever readers are shown something; nil: that is not certain
	}
)

// send commits in a goroutine. note is told the answer, if there is one before the process ends.
func (s *sim) send(what string, cmd Command, note func(err error)) {
	l := s.life
	p := &sent{what: what, at: s.clock.real(), note: note}
	l.sent = append(l.sent, p)
	s.note("sent: %s", what)
	go func() {
		err := l.s.Commit(context.Background(), cmd)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.done, p.err = true, err
	}()
	synctest.Wait() // it is queued in front of whatever is sent next
}

// hear takes in the answers that have come.
func (s *sim) hear() {
	l := s.life
	left := l.sent[:0]
	var came []*sent
	for _, p := range l.sent {
		if _, done := p.answer(); done {
			came = append(came, p)
		} else {
			left = append(left, p)
		}
	}
	l.sent = left
	if len(came) > 0 || l.s != nil && l.failed() == nil {
		s.see()
	}
	for _, p := range came {
		err, _ := p.answer()
		s.note("answered: %s: %s", p.what, codeOf(err))
		switch code := codeOf(err); {
		case code == sdk.CodeInternal || strings.HasPrefix(string(code), "not an"):
			s.fail("%s: %w", p.what, err)
		case code == "":
			s.settle1(p)
		}
		p.note(err)
	}
}

// settle1 knows that what was refused in front of an answered command was dealt with.
func (s *sim) settle1(p *sent) {
	for _, r := range s.refused {
		r.settled = r.settled || p.at > 0
	}
}

// refuse remembers what must not have been given.
func (s *sim) refuse(what string, check func() error) *refusal {
	r := &refusal{what: what, check: check}
	s.refused = append(s.refused, r)
	s.seen.Refused++
	return r
}

// sure knows that log/head tells of what was taken away: its answer waits for that, unless the disk stalls or fails.
func (s *sim) sure(what string, sent time.Time) {
	if s.life.failed() == nil && time.Since(sent) < simStall {
		s.anchored = max(s.anchored, s.takenBy[what])
	}
}

// unanswered makes what is on its way unsure, since nobody hears of it any more. After a power cut what was refused
// and landed stands.
func (s *sim) unanswered(power bool) {
	for _, p := range s.life.sent {
		s.note("never answered: %s", p.what)
	}
	if !power {
		return
	}
	left := s.refused[:0]
	for _, r := range s.refused {
		if r.settled {
			left = append(left, r)
		}
	}
	s.refused = left
	for _, k := range s.kills {
		if k.asked < 0 {
			k.on, k.asked = unsure, -k.asked
		}
	}
}

// reborn is what another process forgets: what held without the disk.
func (s *sim) reborn() {
	for k := range s.held {
		s.held[k] = false
	}
}

func refused(err error) bool { return codeOf(err) == sdk.CodeAuditUnavailable }

// id makes an id.
func (s *sim) id(kind string) string { s.n++; return fmt.Sprintf("%s_%d", kind, s.n) }

// late is when something has ended that lasts so long, whatever the clocks said: a clock that was set back goes a tenth
// slower, steps of a minute are believed, and a machine that was off does not know for how long.
func (s *sim) late(ttl time.Duration) time.Duration {
	return s.clock.real() + ttl + ttl/8 + 70*time.Second
}

// over reports whether something has ended, at whatever the clocks said.
func (s *sim) over(until time.Duration, at time.Duration) bool { return at > until+s.lag }

func (s *sim) createKey(boss bool) {
	scope := "authorize"
	if boss {
		scope = "approve"
	}
	k := &simKey{id: s.id("key"), boss: boss}
	key := &Key{ID: k.id, Name: k.id, Scopes: []string{scope, "scan"}, MAC: []byte(k.id)}
	if boss {
		key.Scopes = []string{scope}
	}
	s.send("create "+k.id, &CreateKey{Key: key, By: system}, func(err error) {
		switch {
		case err == nil:
			k.gone = no
			s.keys = append(s.keys, k)
		case refused(err):
			s.refuse("create "+k.id, func() error {
				if is := s.life.s.Key(k.id); is != nil && is.Revocation() == nil {
					return fmt.Errorf("key %s was refused, and is there", k.id)
				}
				return nil
			})
		}
	})
}

func (s *sim) revokeKey(k *simKey) {
	k.asked++
	sent := time.Now()
	s.send("revoke "+k.id, &RevokeKey{ID: k.id, By: system}, func(err error) {
		switch codeOf(err) {
		case "":
			k.gone = yes
			s.sure("key "+k.id, sent)
		case sdk.CodeNotDurable:
			s.held[k.id] = true
		}
	})
	if k.gone == no {
		k.gone = unsure
	}
}

// call is a call of that key.
func (s *sim) call(k *simKey, agent, args string, effect sdk.Effect) *Decide {
	v := sdk.Verdict{Effect: effect, Code: "RULE_" + effect.String()}
	d := &Decide{DecideCall: DecideCall{Call: Call{Key: s.life.s.Key(k.id), By: Who{Principal: k.id, Method: "api_key"},
		AgentID: agent, SessionID: "session", ToolID: "tool", CallID: s.id("call"), Began: s.life.s.Began()},
		ID: s.id("dec"), Policy: PolicyOutcome{Version: "p", Verdict: v}, Limits: CallLimits{MaxPending: 100},
		Defer: NewDefer{TTL: callTTL}}}
	copy(d.Digest[:], k.id+"|"+args)
	d.ArgsHash = sha256.Sum256([]byte(args))
	d.Names.Hashes = [][16]byte{{byte(s.n), byte(s.n >> 8)}}
	if effect == sdk.Defer {
		d.Defer.Token, d.Defer.View = s.id("dfr"), []byte(`{"args":{}}`)
	}
	return d
}

const callTTL = 10 * time.Minute

// decide sends a call and holds its answer against what was answered before it was sent.
func (s *sim) decide(what string, k *simKey, d *Decide, note func(err error)) {
	revoked, kill := k.gone == yes || s.held[k.id], s.kills[d.AgentID]
	killed, asked := kill.on == yes || s.held[d.AgentID], kill.asked
	s.send(fmt.Sprintf("%s %s by %s as %s", what, d.ID, k.id, d.AgentID), d, func(err error) {
		s.note("  %s %s %s", d.Out.Effect, d.Out.Code, d.Out.Token)
		if err == nil {
			s.answered[d.ID] = d.Out.Effect.String()
			s.seen.Answers++
		}
		switch {
		case err == nil && revoked:
			s.fail("%s: key %s was revoked before it was sent, and the answer is %v", what, k.id, d.Out.Effect)
		case err == nil && d.Out.Effect == sdk.Permit && killed && kill.asked == asked:
			s.fail("%s: agent %s was killed before it was sent, and it is permitted", what, d.AgentID)
		case refused(err):
			r := s.refuse("decision "+d.ID, func() error {
				if s.effects[d.ID] == "PERMIT" && !s.voided[d.ID] {
					return fmt.Errorf("decision %s was refused, and the log permits it", d.ID)
				}
				return nil
			})
			r.shown = r.check
		}
		note(err)
	})
}

func (s *sim) permit(k *simKey, agent string) {
	d := s.call(k, agent, s.id("args"), sdk.Permit)
	d.Names.Hashes = nil
	s.decide("permit", k, d, func(error) {})
}

// limited is a call that a limit is charged with.
func (s *sim) limited(k *simKey, agent string) {
	d := s.call(k, agent, s.id("args"), sdk.Permit)
	d.ToolID, d.Names.Hashes = limitedTool, nil
	d.Limits.Charges = []Charge{{Counter: [16]byte{1}, Step: "rules", Limit: sdk.Limit{Kind: sdk.LimitRate, Rule: "r",
		Per: "agent", Window: limitWindow, Amount: "1", Max: fmt.Sprint(limitMost)}}}
	s.decide("limited", k, d, func(err error) {
		switch {
		case err != nil:
		case d.Out.Effect == sdk.Permit:
			s.permits++
			// windows are of a fixed length: so many of them at most have been begun
			if most := limitMost * (int((s.clock.real()+s.lag)/limitWindow) + 2 + s.boots); s.permits > most {
				s.fail("%d permits in %v, and %d an hour are the limit", s.permits, s.clock.real(), limitMost)
			}
		case d.Out.Code == sdk.ReasonRateExceeded:
			s.exceeded(d)
		}
	})
}

// exceeded checks that a limit was reached by permits that count.
func (s *sim) exceeded(d *Decide) {
	for i, r := range s.rows {
		if r.DecisionID != d.ID || r.Type != "decision" {
			continue
		}
		var x simRow
		if err := json.Unmarshal(s.records[i], &x); err != nil {
			s.fail("%w", err)
			return
		}
		w := x.Time.Unix() / int64(limitWindow/time.Second)
		if s.fullest[w] < limitMost && s.windows[w] < limitMost {
			s.fail("%s: the limit is called reached after %d permits that count, of %d", d.ID, s.windows[w], limitMost)
		}
		s.seen.Limits++
		return
	}
	s.fail("%s was answered, and is not in the log", d.ID)
}

func (s *sim) deferCall(k *simKey, agent string) {
	f := &simDefer{args: s.id("args"), agent: agent, key: k, approved: no, denied: no}
	d := s.call(k, agent, f.args, sdk.Defer)
	s.decide("defer", k, d, func(err error) {
		if err == nil && d.Out.Effect == sdk.Defer {
			f.token, f.until = d.Out.Token, s.late(callTTL)
			s.defers = append(s.defers, f)
		}
	})
}

func (s *sim) approve(boss *simKey, f *simDefer, yesNo bool) {
	f.asked++
	asked, revoked, denied := f.asked, boss.gone == yes || s.held[boss.id], f.denied == yes
	c := &Approve{ApproveCall: ApproveCall{Token: f.token, Key: s.life.s.Key(boss.id),
		By: Who{Principal: boss.id, Method: "api_key"}, Yes: yesNo, Reason: "because", ApprovedTTL: callTTL}}
	if c.Withdraw = !yesNo && f.approved == yes; yesNo {
		f.approved = max(f.approved, unsure)
	}
	was := f.approved
	if yesNo && was == no {
		f.approved = unsure
	}
	s.send(fmt.Sprintf("approve %s %v by %s", f.token, yesNo, boss.id), c, func(err error) {
		switch code := codeOf(err); {
		case err == nil && (revoked || yesNo && denied):
			s.fail("%s was approved (%v) by %s, which is revoked: %v; denied before: %v", f.token, yesNo, boss.id, revoked,
				denied)
		case err == nil && yesNo:
			f.approved = yes
			f.until = max(f.until, s.late(callTTL))
		case err == nil:
			f.denied = yes
		case code == sdk.CodeNotDurable:
			s.held["deny "+f.token] = true
		case refused(err) && yesNo && was == no && f.asked == asked:
			f.approved = no
			s.refuse("approval of "+f.token, func() error {
				if f.asked != asked || f.approved == yes {
					return nil
				}
				d, err := (&tx{s: s.life.s, q: s.life.s.seq, st: s.life.s.seq.state}).find(f.token)
				if err == nil && d != nil && (d.Status == Approved || d.Status == Consumed) {
					err = fmt.Errorf("the approval of %s was refused, and it is %+v", f.token, d)
				}
				return err
			})
		}
	})
}

func (s *sim) redeem(f *simDefer) {
	d := s.call(f.key, f.agent, f.args, sdk.Defer)
	d.Redeem.Token, d.Names.Hashes = f.token, nil
	denied := f.denied == yes || s.held["deny "+f.token]
	s.decide("redeem "+f.token, f.key, d, func(err error) {
		if err != nil || d.Out.Effect != sdk.Permit {
			return
		}
		s.seen.Redeemed++
		switch {
		case denied:
			s.fail("%s was denied, and is spent", f.token)
		case f.spent:
			s.fail("%s is spent twice", f.token)
		case f.approved == no:
			s.fail("%s was not approved, and is spent", f.token)
		case s.over(f.until, s.clock.real()) && f.approved == yes:
			s.fail("%s is spent at %v, it ended at %v", f.token, s.clock.real(), f.until)
		}
		f.spent = true
	})
}

const grantTTL = 20 * time.Minute

func (s *sim) addGrant(agent string) {
	g := &simGrant{id: s.id("stg"), agent: agent, most: 1 + s.rng.IntN(3), gone: no}
	c := &AddGrant{Grant: &Grant{ID: g.id, AgentID: agent, ToolPattern: "**", MaxUses: uint64(g.most),
		IssuedBy: "console:ann", Issuers: []string{"console:ann"}}, TTL: grantTTL, By: Who{Principal: "console:ann"},
		Most: 1000}
	s.send("grant "+g.id, c, func(err error) {
		switch {
		case err == nil:
			g.until, g.expires = s.late(grantTTL), c.Grant.Expires
			s.grants[g.id] = g
			s.granted = append(s.granted, g)
		case refused(err):
			s.refuse("grant "+g.id, func() error {
				is, err := (&tx{s: s.life.s, q: s.life.s.seq, st: s.life.s.seq.state}).grant(g.id)
				if err == nil && is != nil && is.Revocation() == nil {
					return fmt.Errorf("grant %s was refused, and is there", g.id)
				}
				return err
			})
		}
	})
}

func (s *sim) revokeGrant(g *simGrant) {
	g.asked++
	sent := time.Now()
	s.send("revoke "+g.id, &RevokeGrant{ID: g.id, By: system}, func(err error) {
		switch codeOf(err) {
		case "":
			g.gone = yes
			s.sure("grant "+g.id, sent)
		case sdk.CodeNotDurable:
			s.held[g.id] = true
		}
	})
}

// spend is a deferred call that grants may permit.
func (s *sim) spend(k *simKey, agent string) {
	d := s.call(k, agent, s.id("args"), sdk.Defer)
	d.Grants = s.life.s.GrantsFor(&GrantCall{AgentID: d.AgentID, ToolID: d.ToolID, SessionID: d.SessionID,
		Policy: d.Policy.Version})
	gone := map[string]bool{}
	for _, g := range s.granted {
		gone[g.id] = g.gone == yes || s.held[g.id]
	}
	s.decide("spend", k, d, func(err error) {
		if err != nil || d.Out.GrantID == "" {
			return
		}
		s.seen.Spent++
		g := s.grants[d.Out.GrantID]
		if g == nil {
			return // its answer was lost
		}
		if g.uses++; g.uses > g.most || gone[g.id] || s.over(g.until, s.clock.real()) {
			s.fail("grant %s is spent for the %d. time of %d at %v; it ended at %v; revoked: %v", g.id, g.uses, g.most,
				s.clock.real(), g.until, gone[g.id])
		}
	})
}

func (s *sim) kill(agent string, undo bool) {
	k := s.kills[agent]
	k.asked++
	asked, was := k.asked, k.on
	kill := Kill{Scope: KillAgent, Target: agent, By: "ward"}
	c := &KillSwitch{Kill: kill, By: system, Undo: undo, Answer: func(Kill, int) []byte { return nil }}
	if !undo {
		c.Held = s.life.s.Hold(kill)
	}
	k.on = unsure
	what, sent := "kill ", time.Now()
	if undo {
		what, s.held[agent] = "unkill ", false
	}
	s.send(what+agent, c, func(err error) {
		if !undo && codeOf(err) != sdk.CodeNotDurable {
			s.life.s.Release(c.Held)
		}
		if err == nil && !undo {
			s.sure("kill "+agent, sent)
		}
		if (err == nil || codeOf(err) == sdk.CodeNotDurable) && !undo && k.asked == asked &&
			s.life.s.Killed(&Key{}, agent, "", "") == nil {
			s.fail("the kill of %s was answered %q, and is not in effect", agent, codeOf(err))
		}
		switch code := codeOf(err); {
		case k.asked != asked:
		case err == nil && undo:
			k.on = no
		case err == nil:
			k.on = yes
		case code == sdk.CodeNotDurable:
			s.held[agent] = true
		case undo && was == yes && refused(err):
			k.on = yes
			s.shaky[agent] = true
		}
	})
}

func (s *sim) scan(k *simKey) {
	c := &Scanned{Key: s.life.s.Key(k.id), By: system, ScanID: s.id("scn"), ToolID: "tool", Outcome: "PASS",
		Code: "SCAN_OK"}
	s.send("scan "+c.ScanID, c, func(err error) {
		if err == nil {
			s.answered[c.ScanID] = "scan"
		}
	})
}

// nothingWaits checks that no call waits whose time is over. A full disk lets nothing end.
func (s *sim) nothingWaits() {
	for _, f := range s.defers {
		if d := s.life.s.seq.state.live[f.token]; d != nil && f.approved != unsure && s.over(f.until, s.clock.real()) {
			s.fail("defer %s is %s at %v, it ended at %v", f.token, d.Status, s.clock.real(), f.until)
		}
	}
}

// answersHold checks that everything that was answered is there, and nothing that was refused.
func (s *sim) answersHold() error {
	st := s.life.s
	for id, effect := range s.answered {
		if s.effects[id] != effect {
			return fmt.Errorf("%s was answered %s, and the log says %q", id, effect, s.effects[id])
		}
		if s.voided[id] {
			return fmt.Errorf("%s was answered %s, and is void", id, effect)
		}
	}
	for _, k := range s.keys {
		is := st.Key(k.id)
		switch {
		case is == nil:
			return fmt.Errorf("key %s was answered, and is missing", k.id)
		case k.gone == yes && is.Revocation() == nil:
			return fmt.Errorf("key %s was revoked, and is live", k.id)
		case k.gone == no && is.Revocation() != nil:
			return fmt.Errorf("key %s is revoked, and nobody has asked for that", k.id)
		}
	}
	for agent, k := range s.kills {
		if kept := st.Kept(Kill{Scope: KillAgent, Target: agent}); k.on == yes && !kept || k.on == no && kept {
			return fmt.Errorf("the kill of %s is in force: %v, and the answers say otherwise", agent, kept)
		}
	}
	oldest, err := st.oldestTime()
	if err != nil {
		return err
	}
	for _, g := range s.granted {
		is, err := (&tx{s: st, q: st.seq, st: st.seq.state}).grant(g.id)
		if err != nil {
			return err
		}
		if is == nil && g.gone == no && g.asked == 0 && !g.expires.Before(oldest) {
			return fmt.Errorf("grant %s ends at %v, the oldest record is of %v, and its row has gone", g.id, g.expires, oldest)
		}
		if g.gone == yes && is != nil && is.Revocation() == nil {
			return fmt.Errorf("grant %s was revoked, and is live", g.id)
		}
		if is != nil && int(is.Uses()) < g.uses {
			return fmt.Errorf("grant %s was spent %d times, and has %d uses", g.id, g.uses, is.Uses())
		}
		if is != nil && int(is.Uses()) != s.used[g.id] {
			return fmt.Errorf("grant %s has %d uses, and the log tells of %d", g.id, is.Uses(), s.used[g.id])
		}
	}
	for _, f := range s.defers {
		d, err := (&tx{s: st, q: st.seq, st: st.seq.state}).find(f.token)
		switch {
		case err != nil:
			return err
		case d == nil: // agree says whether it may be
		case f.spent && d.Status != Consumed, !f.spent && f.denied == yes && d.Status != Denied,
			f.approved == yes && d.Status == Pending:
			return fmt.Errorf("defer %s is %s; spent %v, approved %v, denied %v", f.token, d.Status, f.spent, f.approved,
				f.denied)
		}
	}
	for _, r := range s.refused {
		if !r.settled {
			continue
		}
		if err := r.check(); err != nil {
			return err
		}
	}
	return nil
}
