package store

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"github.com/yett-dev/yett/sdk"
)

// modelKey, modelDefer and modelAnswer are the store as a few maps would keep it.
type (
	modelKey struct {
		revokedAt time.Time // zero: live
		approver  bool
		root      string // the first of a line of rolled keys
		explicit  bool
	}
	modelDefer struct {
		key, args, status, code string
		stands                  string // args, or what an approver put in their place
		changes                 int
		expires                 time.Time
		need                    int
		signed                  []string
		denier                  string
	}
	modelAnswer struct {
		at                       time.Time
		args, outcome, id, token string
	}
)

// modelled is a store and its model side by side.
type modelled struct {
	*rig
	keys    map[string]*modelKey
	defers  map[string]*modelDefer
	tokens  []string
	answers map[string]modelAnswer // by key and call_id
	cursors map[string]Cursor
	first   uint64 // the log begins with it
	killed  map[string]bool
}

func (m *modelled) now() time.Time { return m.clock.Now() }

func (m *modelled) live(id string) bool {
	k := m.keys[id]
	return k.revokedAt.IsZero() || m.now().Before(k.revokedAt)
}

// pass is what time does: whatever has run out is expired, and what a rolled key waits for ends with its grace.
func (m *modelled) pass() {
	for _, d := range m.defers {
		switch open := d.status == Pending || d.status == Approved; {
		case open && !m.now().Before(d.expires):
			d.status = Expired
		case open && !m.live(d.key):
			d.status = Denied
		}
	}
}

func (m *modelled) pick(t *rapid.T, approver bool) string {
	var ids []string
	for id, k := range m.keys {
		if k.approver == approver {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	if len(ids) == 0 {
		t.Skip("no such key yet")
	}
	return rapid.SampledFrom(ids).Draw(t, "key")
}

func (m *modelled) token(t *rapid.T) string {
	if len(m.tokens) == 0 {
		t.Skip("no defer yet")
	}
	return rapid.SampledFrom(m.tokens).Draw(t, "token")
}

func (m *modelled) create(t *rapid.T) {
	approver, scope := rapid.Bool().Draw(t, "approver"), "authorize"
	if approver {
		scope = "approve"
	}
	id, explicit := m.id("key"), rapid.IntRange(0, 3).Draw(t, "explicit") == 0
	m.must(&CreateKey{Key: &Key{ID: id, Name: id, Scopes: []string{scope}, Explicit: explicit}, By: system})
	m.keys[id] = &modelKey{approver: approver, root: id, explicit: explicit}
}

// gone is what a revocation does in the model.
func (m *modelled) gone(id string, at time.Time) {
	m.keys[id].revokedAt = at
	for _, d := range m.defers {
		if d.key == id && !at.After(m.now()) && (d.status == Pending || d.status == Approved) {
			d.status = Denied
		}
	}
}

func (m *modelled) revoke(t *rapid.T) {
	id := m.pick(t, rapid.Bool().Draw(t, "approver"))
	m.pass()
	want := sdk.Code("")
	if !m.live(id) {
		want = sdk.CodeConflict
	}
	m.refused(&RevokeKey{ID: id, By: system}, want)
	if want == "" {
		m.gone(id, m.now())
	}
}

func (m *modelled) roll(t *rapid.T) {
	id, grace := m.pick(t, rapid.Bool().Draw(t, "approver")),
		rapid.SampledFrom([]time.Duration{0, time.Minute}).Draw(t, "grace")
	m.pass()
	fresh := m.id("key")
	want := sdk.Code("")
	if !m.keys[id].revokedAt.IsZero() {
		want = sdk.CodeConflict
	}
	m.refused(&RollKey{ID: id, New: &Key{ID: fresh}, Grace: grace, By: system}, want)
	if want == "" {
		m.keys[fresh] = &modelKey{approver: m.keys[id].approver, root: m.keys[id].root,
			explicit: m.keys[id].explicit}
		m.gone(id, m.now().Add(grace))
	}
}

// decide asks, with or without a call_id, and redeems when a token is drawn.
func (m *modelled) decide(t *rapid.T, token string) {
	id := m.pick(t, false)
	args := rapid.SampledFrom([]string{"x", "y"}).Draw(t, "args")
	v := sdk.Verdict{Effect: rapid.SampledFrom([]sdk.Effect{sdk.Permit, sdk.Deny, sdk.Defer, sdk.Defer}).Draw(t,
		"verdict"), Approvals: rapid.IntRange(0, 2).Draw(t, "approvals")}
	call := rapid.SampledFrom([]string{"", "", "c1", "c2"}).Draw(t, "call_id")
	c := m.call(m.s.Key(id), args, v)
	c.Redeem.Token, c.Limits.MaxPending, c.ArgsHash = token, 2, sha256.Sum256([]byte(args))
	if token == "" && call == "" {
		c.Redeem.Auto = rapid.Bool().Draw(t, "auto")
	}
	if call != "" {
		c.Names.Hashes = [][16]byte{{call[1]}}
		copy(c.Names.Hashes[0][1:], id)
	}
	m.pass()
	err := m.commit(c)
	if !m.live(id) {
		if codeOf(err) != sdk.CodeKeyRevoked {
			t.Fatalf("a revoked key: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	want := ""
	if token != "" {
		want = m.redeemed(id, args, v, m.defers[token])
	} else {
		want = m.asked(id, args, call, v, c)
	}
	if got := c.Out.Effect.String() + " " + c.Out.Code; got != want {
		t.Fatalf("got %s (%s), want %s", got, c.Out.Reason, want)
	}
	if c.Out.Effect == sdk.Permit && v.Effect == sdk.Deny {
		t.Fatal("a DENY of the chain became a PERMIT")
	}
}

// redeemed is what redeeming d answers, and what it does to the model.
func (m *modelled) redeemed(id, args string, v sdk.Verdict, d *modelDefer) string {
	switch {
	case v.Effect == sdk.Deny:
		return "DENY RULE_DENY"
	case d.key != id || d.stands != args || d.status != Approved:
		// by its row: what waits only because sign-offs do not count says so
		return "DENY APPROVAL_MISMATCH"
	}
	d.dropRevoked(m)
	if v.Effect == sdk.Defer {
		d.need = max(d.need, v.Approvals)
	}
	if len(m.counting(d)) < d.need {
		d.status, d.expires = Pending, m.now().Add(5*time.Minute)
		return "DEFER " + d.code
	}
	d.status = Consumed
	return "PERMIT APPROVAL_CONSUMED"
}

// dropRevoked leaves the sign-offs whose key is live, or has been rolled to one that is. Where the newest of a line was
// revoked, one that is still in its grace does not speak for it.
func (d *modelDefer) dropRevoked(m *modelled) {
	d.signed = slices.DeleteFunc(d.signed, func(id string) bool {
		newest := id
		for other, k := range m.keys {
			if k.root == m.keys[id].root {
				newest = max(newest, other)
			}
		}
		return !m.live(id) && !m.live(newest)
	})
}

// asked is what a call without a token answers, and what it does to the model.
func (m *modelled) asked(id, args, call string, v sdk.Verdict, c *Decide) string {
	a, known := m.answers[id+call]
	if known = known && call != "" && m.now().Sub(a.at) < 10*time.Minute; known && a.args != args {
		return "DENY CALL_ID_CONFLICT"
	}
	if known != c.Out.Repeat {
		return fmt.Sprintf("repeat %v", known)
	}
	if known {
		if out, settled := m.again(a, v); settled {
			return out
		}
	}
	out := v.Effect.String() + " RULE_" + v.Effect.String()
	if v.Effect == sdk.Defer {
		out = m.deferOf(id, args, v, c, out)
	}
	if call != "" && (!known || c.Out.Effect == sdk.Defer) {
		m.answers[id+call] = modelAnswer{at: m.now(), args: args, outcome: out, id: c.ID, token: c.Out.Token}
	}
	return out
}

// again is what a repeat of a answers; settled is false where today's rules alone decide.
func (m *modelled) again(a modelAnswer, v sdk.Verdict) (out string, settled bool) {
	if v.Effect == sdk.Deny {
		return "DENY RULE_DENY", true
	}
	if d := m.defers[a.token]; d != nil {
		switch d.status {
		case Denied:
			return "DENY APPROVAL_DENIED", true
		case Expired:
			return "DENY APPROVAL_TIMEOUT", true
		case Consumed:
			return "", false
		}
		return a.outcome, true
	}
	return a.outcome, a.outcome[:4] == "DENY" || v.Effect == sdk.Permit
}

// is gives the state of d. An approved call is pending while too few of its sign-offs count.
func (m *modelled) is(d *modelDefer) string {
	if d.status == Approved && len(m.counting(d)) < d.need {
		return Pending
	}
	return d.status
}

// counting are the sign-offs that count now.
func (m *modelled) counting(d *modelDefer) []string {
	left := *d
	left.signed = slices.Clone(d.signed)
	left.dropRevoked(m)
	return slices.DeleteFunc(left.signed, func(id string) bool { return m.killed[m.keys[id].root] })
}

func (m *modelled) deferOf(id, args string, v sdk.Verdict, c *Decide, out string) string {
	pending, joinable, approved := 0, []string{}, []string{}
	for token, d := range m.defers {
		if d.key == id && d.args == args && m.is(d) == Approved {
			approved = append(approved, token)
		}
		if d.key != id || m.is(d) != Pending {
			continue
		}
		if d.status == Pending {
			pending++
		}
		if d.args == args {
			joinable = append(joinable, token)
		}
	}
	if c.Redeem.Auto && !m.keys[id].explicit {
		fits := slices.DeleteFunc(slices.Clone(approved), func(token string) bool { return m.defers[token].stands != args })
		switch {
		case len(fits) == 0:
		case !slices.Contains(fits, c.Out.Token):
			return fmt.Sprint("redeemed one of ", fits)
		default:
			return m.redeemed(id, args, v, m.defers[c.Out.Token])
		}
	}
	switch {
	case len(approved) > 0:
		if !slices.Contains(approved, c.Out.Token) || !c.Out.Approved {
			return fmt.Sprint("told of one of ", approved)
		}
	case len(joinable) > 0:
		if !slices.Contains(joinable, c.Out.Token) {
			return fmt.Sprint("joined one of ", joinable)
		}
	case pending >= 2:
		return "DENY RATE_EXCEEDED"
	default:
		m.defers[c.Defer.Token] = &modelDefer{key: id, args: args, stands: args, status: Pending, code: c.Policy.Verdict.Code,
			expires: m.now().Add(5 * time.Minute), need: max(v.Approvals, 1)}
		m.tokens = append(m.tokens, c.Defer.Token)
	}
	return out
}

// repeated reports whether the deferred call has ended with that answer of that approver.
func (m *modelled) repeated(d *modelDefer, id string, c *Approve, shown string) bool {
	switch {
	case !c.Yes:
		return d.status == Denied && d.denier == id
	case d.status != Approved && d.status != Consumed:
		return false
	case c.Modified == nil && !d.looked(shown), c.Modified != nil &&
		(d.changes == 0 || c.ModifiedCall != called(d.key, d.stands)):
		return false
	}
	return slices.ContainsFunc(d.signed, func(by string) bool { return m.keys[by].root == m.keys[id].root })
}

// looked reports whether who was shown that call may sign d off.
func (d *modelDefer) looked(shown string) bool {
	return shown == d.stands || shown == "" && d.changes == 0
}

func (m *modelled) sign(t *rapid.T) {
	id, token, yes := m.pick(t, true), m.token(t), rapid.Bool().Draw(t, "yes") || rapid.Bool().Draw(t, "yes after all")
	m.pass()
	d, c := m.defers[token], m.answer(m.s.Key(id), token, yes)
	shown := rapid.SampledFrom([]string{"", d.stands, d.stands, "x", "z"}).Draw(t, "shown")
	change := ""
	if yes && rapid.IntRange(0, 3).Draw(t, "change") == 0 {
		change = rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "other args")
		c.Modified, c.View, c.NewToken = []byte(`{"a":"`+change+`"}`), []byte(`{}`), m.id("apr_")
		c.ModifiedHash, c.ModifiedCall = sha256.Sum256([]byte(change)), called(d.key, change)
	}
	if shown != "" {
		c.Digest = m.s.CallDigest(called(d.key, shown))
	}
	c.Withdraw = !yes && rapid.Bool().Draw(t, "withdraw")
	want := m.signable(id, d, c, shown)
	m.refused(c, want)
	switch {
	case want != "" || m.is(d) != Pending && !(c.Withdraw && d.status == Approved):
		return
	case !yes:
		d.status, d.denier = Denied, id
		return
	case change != "" && d.changes > 0 && d.stands == change &&
		slices.ContainsFunc(d.signed, func(by string) bool { return m.keys[by].root == m.keys[id].root }):
		if d.status == Pending {
			m.settle(d)
		}
		return // sent again
	case change != "":
		d.stands, d.signed = change, nil
		d.changes++
	}
	mine := func(by string) bool { return m.keys[by].root == m.keys[id].root }
	if change == "" && d.status == Approved && slices.ContainsFunc(d.signed, mine) {
		return // it waits all the same, for others
	}
	if d.dropRevoked(m); !slices.ContainsFunc(d.signed, mine) {
		d.signed = append(d.signed, id)
	}
	d.status = Pending
	m.settle(d)
}

// settle approves d if enough have signed.
func (m *modelled) settle(d *modelDefer) {
	if len(m.counting(d)) >= d.need {
		d.status, d.expires = Approved, m.now().Add(5*time.Minute)
	}
}

// kill stops an approver, or undoes that.
func (m *modelled) kill(t *rapid.T) {
	id := m.pick(t, true)
	root := m.keys[id].root
	m.pass()
	m.must(m.rig.kill(KillKey, id, m.killed[root], nil))
	m.killed[root] = !m.killed[root]
}

// called is the digest of a call of that key.
func called(key, args string) (out Hash) {
	copy(out[:], key+"|"+args)
	return out
}

// signable is why an answer to d is refused, "" if it is not.
func (m *modelled) signable(id string, d *modelDefer, c *Approve, shown string) sdk.Code {
	switch {
	case !m.live(id):
		return sdk.CodeKeyRevoked
	case c.Yes && m.killed[m.keys[id].root]:
		return sdk.CodeKeyKilled
	case d.status == Expired:
		return sdk.CodeDeferExpired
	case (d.status == Pending || d.status == Approved) && !m.live(d.key): // its grace has run out
		d.status = Denied
		return sdk.CodeAlreadyResolved
	case c.Withdraw && d.status == Approved:
		return ""
	case m.is(d) != Pending && m.repeated(d, id, c, shown):
		return ""
	case m.is(d) != Pending:
		return sdk.CodeAlreadyResolved
	case !c.Yes:
		return ""
	case c.Modified != nil && d.changes > 0 && c.ModifiedCall == called(d.key, d.stands) &&
		slices.ContainsFunc(d.signed, func(by string) bool { return m.keys[by].root == m.keys[id].root }):
		return ""
	case !d.looked(shown):
		return sdk.CodeCallChanged
	case c.Modified != nil && d.changes >= mostChanges:
		return sdk.CodeConflict
	}
	return ""
}

// same compares everything that can be seen.
func (m *modelled) same(t *rapid.T) {
	m.must(&Note{Type: "tick", By: system}) // time passes with commands
	m.pass()
	for token, d := range m.defers {
		got, err := (&tx{s: m.s, q: m.s.seq, st: m.s.seq.state}).find(token)
		if err != nil || got == nil || got.Status != d.status || len(got.Signed) != len(d.signed) {
			t.Fatalf("defer %s is %+v %v, the model has %+v", token, got, err, d)
		}
		if asker := m.s.Key(got.KeyID); m.live(got.KeyID) {
			if is := m.status(asker, token); is != m.is(d) {
				t.Fatalf("defer %s is shown as %s, the model says %s: %+v", token, is, m.is(d), d)
			}
		}
	}
	for id := range m.keys {
		if live := m.s.Key(id).live(m.now()) == nil; live != m.live(id) {
			t.Fatalf("key %s: live %v, the model says %v", id, live, m.live(id))
		}
	}
	if err := consistent(m.s); err != nil {
		t.Fatal(err)
	}
}

func (m *modelled) move(t *rapid.T) {
	name, to, back := rapid.SampledFrom([]string{"siem", "mail"}).Draw(t, "subscriber"),
		rapid.Uint64Range(0, m.s.Seq()+2).Draw(t, "to"), rapid.Bool().Draw(t, "back")
	was, known := m.cursors[name]
	want := sdk.Code("")
	switch {
	case to > m.s.Seq():
		want = sdk.CodeInvalidField
	case known && to < was.Seq && !back:
		want = sdk.CodeConflict
	}
	c := &MoveCursor{Name: name, To: to, Back: back}
	if rapid.Bool().Draw(t, "event") {
		c.Events = []SubscriberEvent{{Type: SubscriberGap, First: 1, Last: to}}
	}
	before := m.s.Seq()
	m.refused(c, want)
	if want != "" {
		return
	}
	if made := m.s.Seq() - before; !(known && to == was.Seq) && made < uint64(len(c.Events)) { // time may have made more
		t.Fatalf("%d records for %d events", made, len(c.Events))
	}
	m.cursors[name] = Cursor{to, max(to, was.High)}
}

func (m *modelled) drop(t *rapid.T) {
	name, want := rapid.SampledFrom([]string{"siem", "mail"}).Draw(t, "subscriber"), sdk.Code("")
	if _, known := m.cursors[name]; !known {
		want = sdk.CodeNotFound
	}
	m.refused(&DropCursor{Name: name, By: system}, want)
	delete(m.cursors, name)
}

func (m *modelled) trim(t *rapid.T) {
	through := rapid.Uint64Range(0, m.s.Seq()-1).Draw(t, "through")
	m.must(&Trim{Through: through, Reason: "max_age"})
	is := m.s.First()
	if is < m.first || is > max(m.first, through+1) {
		t.Fatalf("trimmed through %d: the log began with %d and begins with %d", through, m.first, is)
	}
	m.first = is
}

// kept compares cursors and what retention has left.
func (m *modelled) kept(t *rapid.T) {
	if got := m.s.Cursors(); !maps.Equal(got, m.cursors) {
		t.Fatalf("cursors %v, the model has %v", got, m.cursors)
	}
	if got := m.s.First(); got != m.first {
		t.Fatalf("the log begins with %d, the model says %d", got, m.first)
	}
	next := m.first
	err := m.s.Records(1, func(seq uint64, _ []byte) error {
		if next++; seq != next-1 {
			return fmt.Errorf("record %d where %d should be", seq, next-1)
		}
		return nil
	})
	if err != nil || next != m.s.Seq()+1 {
		t.Fatalf("up to %d of %d: %v", next-1, m.s.Seq(), err)
	}
}

// TestModelOfRetention is apart from TestModel, which holds states against a log that is whole.
func TestModelOfRetention(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &modelled{rig: &rig{t: rt, fs: vfs.NewMem(), clock: newClock()}, keys: map[string]*modelKey{},
			cursors: map[string]Cursor{}, first: 1}
		m.open()
		defer m.close()
		m.notes(1)
		rt.Repeat(map[string]func(*rapid.T){
			"create key":  m.create,
			"revoke key":  m.revoke,
			"move cursor": m.move,
			"move it":     m.move,
			"drop cursor": m.drop,
			"trim":        m.trim,
			"restart":     func(*rapid.T) { m.reopen() },
			"":            m.kept,
		})
	})
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &modelled{rig: &rig{t: rt, fs: vfs.NewMem(), clock: newClock()}, keys: map[string]*modelKey{},
			defers: map[string]*modelDefer{}, answers: map[string]modelAnswer{}, killed: map[string]bool{}}
		m.open()
		defer m.close()
		rt.Repeat(map[string]func(*rapid.T){
			"create key": m.create,
			"revoke key": m.revoke,
			"roll key":   m.roll,
			"kill key":   m.kill,
			"ask":        func(t *rapid.T) { m.decide(t, "") },
			"ask again":  func(t *rapid.T) { m.decide(t, "") },
			"redeem":     func(t *rapid.T) { m.decide(t, m.token(t)) },
			"redeem it":  func(t *rapid.T) { m.decide(t, m.token(t)) },
			"sign":       m.sign,
			"sign again": m.sign,
			"wait": func(t *rapid.T) {
				m.clock.advance(rapid.SampledFrom([]time.Duration{time.Second, time.Minute, 5 * time.Minute,
					10 * time.Minute}).Draw(t, "how long"))
			},
			"restart": func(*rapid.T) { m.reopen() },
			"":        m.same,
		})
	})
}
