package log

import (
	"strings"
	"time"

	"github.com/yett-dev/yett/sdk"
)

// Checked says what a replay of records has looked at.
type Checked struct {
	Permits   uint64 `json:"permits"`   // that gave somebody something: no dry runs
	Approvals uint64 `json:"approvals"` // permits that spent an approval
	Spent     uint64 `json:"spent"`     // uses of standing grants
	Revoked   uint64 `json:"revoked"`   // keys
	Kills     uint64 `json:"kills"`
	// Unknown counts what could not be checked, because retention has removed the record that it began with.
	Unknown uint64 `json:"unknown"`
}

// Invariants replays records in order and tells of the first that the records before it forbid: a permit after the
// revoke of its key or under a kill, a grant beyond its uses, its end or its revoke, an approval that is spent twice,
// by another call, or without approvals of others before it. It is one goroutine's.
type Invariants struct {
	whole   bool // the log is there from its first record on
	from    uint64
	checked Checked

	lines   map[string]string    // key → the first of its line, for keys that were rolled
	revoked map[string]time.Time // key → from when on
	kills   map[[2]string]bool   // scope, target
	grants  map[string]*grantState
	defers  map[string]*deferState
	spent   [2]string // grant and decision of the grant_consumed in front of this record
	seq     uint64
	f       fields
}

type grantState struct {
	uses, most uint64
	ends       time.Time
	revoked    bool
	partly     bool // its beginning is not there
}

type deferState struct {
	status, agent, tool, session, asker, changed string
	ends                                         time.Time
	signers                                      []string
	partly                                       bool
}

// NewInvariants begins a replay with record from.
func NewInvariants(from uint64) *Invariants {
	return &Invariants{whole: from <= 1, from: from, lines: map[string]string{}, revoked: map[string]time.Time{},
		kills: map[[2]string]bool{}, grants: map[string]*grantState{}, defers: map[string]*deferState{}}
}

// Checked is what was looked at so far.
func (v *Invariants) Checked() *Checked { return &v.checked }

// Record takes the next record. Its error is a *Fault.
func (v *Invariants) Record(seq uint64, rec []byte) error {
	v.seq = seq
	f := &v.f
	f.read(rec)
	spent := v.spent
	v.spent = [2]string{}
	switch text(f.typ) {
	case "key_created":
		if line := text(f.line); line != "" {
			v.lines[text(f.key)] = line
		}
	case "key_revoked":
		v.revoke(text(f.key), instant(f.revokedAt))
	case "kill":
		v.checked.Kills++
		v.kills[[2]string{text(f.scope), text(f.target)}] = true
	case "unkill":
		delete(v.kills, [2]string{text(f.scope), text(f.target)})
	case "grant_added":
		v.grants[text(f.grant)] = &grantState{most: f.most, ends: instant(f.expires)}
	case "grant_revoked":
		v.grantOf(text(f.grant)).revoked = true
	case "grant_consumed":
		return v.spend(f)
	case "defer_created", "defer_signed", "defer_resolved", "defer_expired":
		return v.deferred(f)
	case "voided":
		v.void(f)
	case "decision":
		return v.decision(f, spent)
	}
	return nil
}

// End says what is wrong behind the last record.
func (v *Invariants) End() error {
	if v.spent[0] != "" {
		return v.unspent()
	}
	return nil
}

func (v *Invariants) unspent() error {
	return fault(v.seq, "a use of grant %s is counted, and no permit of decision %s follows", v.spent[0], v.spent[1])
}

func (v *Invariants) revoke(key string, at time.Time) {
	if was, known := v.revoked[key]; !known || at.Before(was) {
		v.revoked[key] = at
	}
	v.checked.Revoked = uint64(len(v.revoked))
}

// root is the first key of a line of rolled ones.
func (v *Invariants) root(key string) string {
	if line, rolled := v.lines[key]; rolled {
		return line
	}
	return key
}

func (v *Invariants) grantOf(id string) *grantState {
	g := v.grants[id]
	if g == nil {
		g = &grantState{partly: true}
		v.grants[id] = g
	}
	return g
}

func (v *Invariants) spend(f *fields) error {
	id := text(f.grant)
	g := v.grantOf(id)
	g.uses++
	v.spent = [2]string{id, text(f.decision)}
	v.checked.Spent++
	switch {
	case g.revoked:
		return fault(v.seq, "grant %s is spent after it was revoked", id)
	case g.partly && v.whole:
		return fault(v.seq, "grant %s is spent, and no record says that it was given", id)
	case g.partly:
		v.checked.Unknown++
	case g.most > 0 && g.uses > g.most:
		return fault(v.seq, "grant %s is spent %d times, it was given for %d", id, g.uses, g.most)
	case !instant(f.at).Before(g.ends):
		return fault(v.seq, "grant %s is spent after it expired", id)
	}
	return nil
}

func (v *Invariants) deferred(f *fields) error {
	token, typ := text(f.token), text(f.typ)
	d := v.defers[token]
	if d == nil {
		d = &deferState{partly: typ != "defer_created"}
		if d.partly && v.whole {
			return fault(v.seq, "deferred call %s is answered, and no record says that it was asked", token)
		}
		v.defers[token] = d
	}
	if changed := text(f.changed); changed != d.changed { // other arguments: what was signed before does not count
		d.changed, d.signers = changed, nil
	}
	d.agent, d.session, d.tool, d.asker = text(f.agent), text(f.session), text(f.tool), text(f.asker)
	d.status, d.ends = text(f.status), instant(f.expires)
	switch {
	case typ == "defer_signed":
		return v.signed(d, token, text(f.principal))
	case d.status == "approved" && typ == "defer_resolved":
		if uint64(len(d.signers)) < f.required && !d.partly {
			return fault(v.seq, "deferred call %s is approved by %d, %d have to approve it", token, len(d.signers), f.required)
		}
	case d.status != "pending" && d.status != "approved":
		delete(v.defers, token)
	}
	return nil
}

func (v *Invariants) signed(d *deferState, token, by string) error {
	line := v.root(by)
	if line == v.root(d.asker) {
		return fault(v.seq, "key %s approves deferred call %s, which it asked for itself", by, token)
	}
	if at, revoked := v.revoked[by]; revoked && !instant(v.f.at).Before(at) {
		return fault(v.seq, "key %s approves deferred call %s after it was revoked", by, token)
	}
	for _, s := range d.signers {
		if s == line {
			return nil
		}
	}
	d.signers = append(d.signers, line)
	return nil
}

// void takes back what a record gave that nobody was told of.
func (v *Invariants) void(f *fields) {
	switch text(f.what) {
	case "permit":
		started := text(f.event) == "started" // it stood on a use that its submission has spent
		if g := v.grants[text(f.grant)]; g != nil && g.uses > 0 && !started {
			g.uses--
		}
		v.reopen(f)
	case "approval":
		v.reopen(f)
	case "unkill":
		v.kills[[2]string{text(f.scope), text(f.target)}] = true
	}
}

// reopen puts a deferred call back to the state that a voided record names.
func (v *Invariants) reopen(f *fields) {
	token := text(f.token)
	if token == "" {
		return
	}
	d := v.defers[token]
	if d == nil {
		d = &deferState{partly: true}
		v.defers[token] = d
	}
	d.status = text(f.status)
	if f.expires != nil {
		d.ends = instant(f.expires)
	}
}

func (v *Invariants) decision(f *fields, spent [2]string) error {
	if text(f.effect) != "PERMIT" || f.dry {
		if spent[0] != "" {
			v.spent = spent
			return v.unspent()
		}
		return nil
	}
	v.checked.Permits++
	key, at := text(f.principal), instant(f.at)
	if from, revoked := v.revoked[key]; revoked && !at.Before(from) {
		return fault(v.seq, "key %s is permitted a call after it was revoked", key)
	}
	if scope, target, killed := v.killed(key, text(f.agent), text(f.session), text(f.tool)); killed {
		return fault(v.seq, "a call is permitted under a kill of scope %s, target %q", scope, target)
	}
	if f.repeat { // it spends nothing
		if token := text(f.token); v.defers[token] != nil {
			return fault(v.seq, "a repeat is permitted by the approval of %s, which nobody has spent before", token)
		}
		return nil
	}
	if grant := text(f.grant); grant != "" {
		return v.byGrant(f, grant, spent, at)
	}
	if token := text(f.token); token != "" {
		return v.byApproval(f, token, key, at)
	}
	return nil
}

// byGrant checks a permit by a standing grant. The start of an action stands on the use that its submission has spent.
func (v *Invariants) byGrant(f *fields, id string, spent [2]string, at time.Time) error {
	g := v.grantOf(id)
	started := text(f.event) == "started"
	switch {
	case !v.whole && v.seq == v.from: // what it has spent stood in front of it
		v.checked.Unknown++
	case !started && spent != [2]string{id, text(f.decision)}:
		return fault(v.seq, "a call is permitted by grant %s, and no use of it is counted", id)
	case g.revoked:
		return fault(v.seq, "a call is permitted by grant %s after that was revoked", id)
	case g.partly && v.whole:
		return fault(v.seq, "a call is permitted by grant %s, and no record says that it was given", id)
	case !g.partly && !at.Before(g.ends):
		return fault(v.seq, "a call is permitted by grant %s after that expired", id)
	}
	return nil
}

// byApproval checks a permit that spends an approval.
func (v *Invariants) byApproval(f *fields, token, key string, at time.Time) error {
	v.checked.Approvals++
	d := v.defers[token]
	switch {
	case d == nil && v.whole:
		return fault(v.seq, "a call is permitted by the approval of %s, which is not open: it was spent, ended, or never "+
			"given", token)
	case d == nil:
		v.checked.Unknown++
		return nil
	case d.status != "approved":
		return fault(v.seq, "a call is permitted by the approval of %s, which is %s", token, d.status)
	case d.partly:
		v.checked.Unknown++
	case d.asker != key || d.agent != text(f.agent) || d.session != text(f.session) || d.tool != text(f.tool):
		return fault(v.seq, "a call is permitted by the approval of %s, which is of another call", token)
	case at.After(d.ends):
		return fault(v.seq, "a call is permitted by the approval of %s after that expired", token)
	}
	delete(v.defers, token)
	return nil
}

// killed finds a kill that covers such a call of that key.
func (v *Invariants) killed(key, agent, session, tool string) (scope, target string, killed bool) {
	for k := range v.kills {
		scope, target = k[0], k[1]
		switch scope {
		case "global":
			return scope, target, true
		case "key":
			killed = target == v.root(key)
		case "agent":
			killed = target == agent || strings.Contains(target, "*") && sdk.MatchAgent([]string{target}, agent)
		case "session":
			killed = session != "" && (target == session ||
				strings.Contains(target, "*") && sdk.MatchAgent([]string{target}, session))
		case "tool":
			killed = sdk.CoversTool(target, tool)
		}
		if killed {
			return scope, target, true
		}
	}
	return "", "", false
}
