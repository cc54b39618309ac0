package store

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/yett-dev/yett/sdk"
)

// past is a store with calls, actions and grants that are over, and others that are not.
type past struct {
	*rig
	gone, stays []string // the rows' keys, as text
	kept        uint64
}

// rows are those of a kind.
func (p *past) rows(prefix string) (out []string) {
	p.t.Helper()
	err := p.s.scan(prefix[0], func(key, _ []byte) error {
		if strings.HasPrefix(string(key), prefix) {
			out = append(out, string(key))
		}
		return nil
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

const ofPast = "dvnqgutjl" // the kinds of rows that leave with records

func newPast(t *testing.T, fs vfs.FS) *past {
	p := &past{rig: &rig{t: t, fs: fs, clock: newClock(), seal: 2 << 10}}
	p.open()
	agent, boss := p.key("agent", nil, "authorize"), p.key("boss", nil, "approve", "grants")
	over := func(row []byte) { p.gone = append(p.gone, string(row)) }
	action := func(id string) {
		over(keyAction(id))
		over(keyActionTexts(id))
		over(keyAgentAction("agent", id))
	}
	call := func(token string) {
		d, err := p.s.deferRow(token)
		if err != nil || d == nil {
			t.Fatal(err)
		}
		over(keyStr(prefixDefer, token))
		over(keyStr(prefixView, token))
		if d.Noted {
			over(keyStr(prefixNote, token))
		}
		over(keyStr(prefixAsked, d.DecisionID))
	}
	grant := func(id string, ttl time.Duration) {
		p.must(&AddGrant{Grant: &Grant{ID: id, AgentID: "agent", ToolPattern: "none/*", MaxUses: 9, IssuedBy: "console:ann",
			Issuers: []string{"console:ann"}}, TTL: ttl, By: system, Most: 10})
	}

	ids, spent := p.joins(agent, "spent", 4) // one is executed, the others are denied
	p.must(p.answer(boss, spent, true))
	p.must(p.start(p.read(agent, ids[0]), agent, "spent", sdk.Verdict{Effect: sdk.Defer}))
	p.must(&FinishAction{Key: agent, ID: ids[0], Result: ActionResult{Success: true, Value: "1"}})
	ids2, denied := p.joins(agent, "denied", 3)
	p.must(p.answer(boss, denied, false))
	says := p.call(agent, "plain", sdk.Verdict{Effect: sdk.Defer})
	says.Defer.Note.Text = "it is needed"
	p.must(says)
	plain := says.Out.Token
	p.must(p.answer(boss, plain, false))
	refused := p.submitted(agent, "refused", sdk.Verdict{Effect: sdk.Deny})
	p.must(refused)
	expires := p.deferred(agent, "expires", sdk.Verdict{})
	grant("stg_over", time.Minute)
	grant("stg_revoked", 24*time.Hour)
	p.must(&RevokeGrant{ID: "stg_revoked", By: system})
	p.clock.advance(10 * time.Minute)
	p.must(&Note{Type: "tick", By: system})

	live := p.rows("g")
	running := p.submitted(agent, "running", sdk.Verdict{Effect: sdk.Permit})
	p.must(running)
	p.must(p.start(made(running), agent, "running", sdk.Verdict{Effect: sdk.Permit}))
	waiting := p.call(agent, "waiting", sdk.Verdict{Effect: sdk.Defer})
	waiting.Defer.TTL = 24 * time.Hour
	p.must(waiting)
	grant("stg_live", 24*time.Hour)
	p.clock.advance(time.Second)
	p.must(&Note{Type: "tick", By: system})
	end := p.s.Seq()

	if len(p.rows(string(rune(prefixNote)))) != 1 {
		t.Fatal("there is no row of a note")
	}
	for _, token := range []string{spent, denied, plain, expires} {
		call(token)
	}
	for _, id := range append(append(ids, ids2...), made(refused).ID) {
		action(id)
	}
	for _, row := range live {
		over([]byte(row))
	}
	for _, kind := range ofPast {
		for _, row := range p.rows(string(kind)) {
			if !p.over(row) {
				p.stays = append(p.stays, row)
			}
		}
	}
	if len(p.stays) < 6 {
		t.Fatalf("%q stay", p.stays)
	}
	for behind := 0; behind == 0; { // what is over is in segments of its own, and one more is there
		p.must(p.call(agent, p.id("x"), sdk.Verdict{Effect: sdk.Permit}))
		sealed, _ := p.s.records.now()
		for _, r := range sealed {
			switch {
			case r.NextSeq > end && p.kept == 0:
				p.kept = r.NextSeq
			case p.kept > 0 && r.NextSeq > p.kept:
				behind++
			}
		}
	}
	return p
}

func (p *past) over(row string) bool {
	for _, g := range p.gone {
		if g == row {
			return true
		}
	}
	return false
}

// left is which rows are there of those that are to go, and which are not of those that stay.
func (p *past) left() (there, lost []string) {
	is := map[string]bool{}
	for _, kind := range ofPast {
		for _, row := range p.rows(string(kind)) {
			is[row] = true
		}
	}
	for _, row := range p.gone {
		if is[row] {
			there = append(there, row)
		}
	}
	for _, row := range p.stays {
		if !is[row] {
			lost = append(lost, row)
		}
	}
	return there, lost
}

// trimmed has retention leave what is kept, and waits until the rows have gone.
func (p *past) trimmed() {
	p.must(&Trim{Through: p.kept - 1, Reason: "max_age"})
	p.waitForRows()
}

func (p *past) tidy() uint64 {
	p.s.records.mu.RLock()
	defer p.s.records.mu.RUnlock()
	return p.s.records.tidy
}

func (p *past) waitForRows() {
	for p.tidy() < p.kept {
	}
	for range 100_000 { // the grants are looked at last
		if there, _ := p.left(); there == nil {
			return
		}
	}
}

// TestWhatIsOverLeavesWithItsRecords: and nothing else does.
func TestWhatIsOverLeavesWithItsRecords(t *testing.T) {
	p := newPast(t, vfs.NewMem())
	if there, _ := p.left(); len(there) < 20 {
		t.Fatalf("only %d rows are there", len(there))
	}
	p.trimmed()
	for range 2 {
		if there, lost := p.left(); there != nil || lost != nil {
			t.Errorf("there are still %q; lost are %q", there, lost)
		}
		p.reopen()
	}
	for _, d := range p.s.seq.state.live {
		p.must(p.answer(p.s.Key("boss"), d.Token, true))
	}
	if _, err := p.s.CheckLog(); err != nil {
		t.Error(err)
	}
	p.close()
}

// TestWhatIsOverIsForgottenByALaterStart: the process ends when retention has left the records, and nothing more.
func TestWhatIsOverIsForgottenByALaterStart(t *testing.T) {
	base := newCuttable()
	p := newPast(t, base)
	p.s.tidier.close()
	p.s.tidier = newTidier(p.s)
	close(p.s.tidier.done) // it looks for nothing
	p.must(&Trim{Through: p.kept - 1, Reason: "max_age"})
	p.must(&Note{Type: "tick", By: system})
	if err := p.s.records.seal(); err != nil {
		t.Fatal(err)
	}
	if sealed, _ := p.s.records.now(); sealed[0].FirstSeq != 1 {
		t.Fatal("a file has gone in front of the rows")
	}
	cut := base.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(1, 1))})
	if there, _ := p.left(); len(there) != len(p.gone) {
		t.Errorf("%d rows of %d are there", len(there), len(p.gone))
	}
	p.close()
	p.fs = cut
	p.open()
	p.waitForRows()
	if there, lost := p.left(); there != nil || lost != nil {
		t.Errorf("there are still %q; lost are %q", there, lost)
	}
	p.close()
}

// TestFullDiskForgetsNothing: files go all the same, because they are what makes room.
func TestFullDiskForgetsNothing(t *testing.T) {
	disk := newQuota(vfs.NewMem(), 128*mib)
	p := newPast(t, disk)
	p.close()
	var said struct {
		sync.Mutex
		text string
	}
	set := settings(disk, p.clock, func(err error) { t.Errorf("fatal: %v", err) })
	set.SealBytes = p.seal
	set.Log = func(format string, _ ...any) {
		said.Lock()
		defer said.Unlock()
		said.text += format
	}
	s, err := Open(set)
	if err != nil {
		t.Fatal(err)
	}
	p.s = s
	p.s.tidier.close()
	p.s.tidier = newTidier(p.s)
	close(p.s.tidier.done) // it looks for nothing yet
	p.must(&Trim{Through: p.kept - 1, Reason: "max_bytes"})
	p.must(&Note{Type: "tick", By: system})
	disk.leave(500_000)
	p.s.room.mu.Lock()
	p.s.room.look()
	p.s.room.mu.Unlock()
	p.s.tidier = newTidier(p.s)
	p.s.tidier.start()
	for p.tidy() < p.kept {
	}
	if there, lost := p.left(); len(there) == 0 || lost != nil {
		t.Errorf("%d rows are there, lost are %q", len(there), lost)
	}
	said.Lock()
	if !strings.Contains(said.text, "the rows of what ended in records") {
		t.Errorf("said %q", said.text)
	}
	said.Unlock()
	disk.leave(100 * mib)
	p.close()
}

// TestForgetOnlyWhatIsOver: what was taken for over, and is not by the time that its turn comes.
func TestForgetOnlyWhatIsOver(t *testing.T) {
	r, agent, boss := cast(t)
	ids, token := r.joins(agent, "x", 3)
	r.must(&AddGrant{Grant: &Grant{ID: "stg_1", AgentID: "agent", ToolPattern: "**", IssuedBy: "boss",
		Issuers: []string{"boss"}}, TTL: time.Hour, By: system, Most: 10})
	done := r.submitted(agent, "done", sdk.Verdict{Effect: sdk.Deny})
	r.must(done)
	seq := r.s.Seq()
	young := r.submitted(agent, "young", sdk.Verdict{Effect: sdk.Deny}) // a record of it is left
	r.must(young)
	r.must(&forgetOver{calls: []string{token, "none"}, actions: append(ids, made(done).ID, made(young).ID, "none"),
		through: seq, grants: []string{"stg_1", "none"}, before: r.clock.Now()})
	for _, id := range append(ids, made(young).ID) {
		if a := r.read(agent, id); a == nil || a.ID != id {
			t.Errorf("%s is gone", id)
		}
	}
	r.refused(&ReadAction{Key: agent, ID: made(done).ID}, sdk.CodeUnknownAction)
	r.must(r.answer(boss, token, true))
	if g := r.s.grants.byID["stg_1"]; g == nil {
		t.Error("the grant is gone")
	}
}

// TestGivenBackAndEndedAgain: a redemption that came too late is taken back, and the call ends otherwise. A record of
// that end is left when that of the redemption has gone, so the rows stay.
func TestGivenBackAndEndedAgain(t *testing.T) {
	for name, end := range map[string]func(l *laterRig, token string) Command{
		"denied": func(l *laterRig, token string) Command { return l.answer(l.boss, token, false) },
		"redeemed": func(l *laterRig, token string) Command {
			return l.redeem(l.agent, "x", token, sdk.Verdict{Effect: sdk.Defer})
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLaterRig(t)
			token := l.pending("x")
			l.must(l.longYes(token))
			late := l.redeem(l.agent, "x", token, sdk.Verdict{Effect: sdk.Defer})
			l.late(late)
			seq := l.s.Seq()
			cmd := end(l, token)
			if a, denies := cmd.(*Approve); denies {
				a.Withdraw = true
			}
			l.must(cmd)
			l.must(&forgetOver{calls: []string{token}, through: seq})
			if d, err := l.s.deferRow(token); err != nil || d == nil || d.open() {
				t.Errorf("a record of its end is left, and its row is %+v: %v", d, err)
			}
			l.must(&forgetOver{calls: []string{token}, through: l.s.Seq()})
			if d, err := l.s.deferRow(token); err != nil || d != nil {
				t.Errorf("no record of its end is left, and its row is %+v: %v", d, err)
			}
		})
	}
}

// TestRecordsOfWhatEnded: which records say that a call has ended.
func TestRecordsOfWhatEnded(t *testing.T) {
	for rec, want := range map[string]string{
		`{"type":"defer_resolved","defer_token":"t","status":"denied","action_ids":["a","b"]}`:                      "t|a b",
		`{"type":"defer_resolved","defer_token":"t","status":"approved","action_ids":["a"]}`:                        "|a",
		`{"type":"defer_expired","defer_token":"t","status":"expired"}`:                                             "t|",
		`{"type":"decision","effect":"PERMIT","reason_code":"APPROVAL_CONSUMED","defer_token":"t","action_id":"a"}`: "t|a",
		`{"type":"decision","effect":"DEFER","reason_code":"RULE_DEFER","defer_token":"t","action_id":"a"}`:         "|a",
		`{"type":"key_revoked","key_id":"k"}`:                                                                       "|",
	} {
		c := &forgetOver{}
		seen := map[string]bool{}
		for range 2 { // once is enough
			if err := c.record(json.RawMessage(rec), seen); err != nil {
				t.Fatal(err)
			}
		}
		if got := strings.Join(c.calls, " ") + "|" + strings.Join(c.actions, " "); got != want {
			t.Errorf("%s: %s, want %s", rec, got, want)
		}
	}
	if err := (&forgetOver{}).record([]byte("{"), nil); err == nil {
		t.Error("a record that is none says nothing")
	}
}

// TestAChangedRowOfAnEndedCall: what has ended is under no sum, so a row that says otherwise is believed by nobody.
func TestAChangedRowOfAnEndedCall(t *testing.T) {
	r, agent, boss := cast(t)
	spent, denied := r.approved(agent, boss, "spent"), r.deferred(agent, "denied", sdk.Verdict{})
	r.must(r.redeem(agent, "spent", spent, sdk.Verdict{Effect: sdk.Defer}))
	r.must(r.answer(boss, denied, false))
	for args, token := range map[string]string{"spent": spent, "denied": denied} {
		d, err := r.s.deferRow(token)
		if err != nil {
			t.Fatal(err)
		}
		d.Status, d.Signed = Approved, []SignOff{{Key: boss.ID, At: r.clock.Now()}}
		row, err := json.Marshal(d)
		if err == nil {
			err = r.s.db.Set(keyStr(prefixDefer, token), row, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		c := r.redeem(agent, args, token, sdk.Verdict{Effect: sdk.Defer})
		if err := r.commit(c); err == nil && c.Out.Effect == sdk.Permit {
			t.Errorf("%s: %+v", args, c.Out)
		}
	}
}

// TestActionsLeaveWithTheirCall: also those that no record of its end names, because another call has spent it.
func TestActionsLeaveWithTheirCall(t *testing.T) {
	r, agent, boss := cast(t)
	ids, token := r.joins(agent, "x", 3)
	r.must(r.answer(boss, token, true))
	seq := r.s.Seq() // up to here nothing has ended
	r.must(&forgetOver{actions: ids, through: seq})
	r.must(r.start(r.read(agent, ids[0]), agent, "x", sdk.Verdict{Effect: sdk.Defer}))
	r.must(&FinishAction{Key: agent, ID: ids[0], Result: ActionResult{Success: true}})
	r.must(&forgetOver{calls: []string{token}, actions: ids[:1], through: r.s.Seq()})
	for _, id := range ids {
		r.refused(&ReadAction{Key: agent, ID: id}, sdk.CodeUnknownAction)
	}
	page, _, err := r.s.Actions(t.Context(), &ActionQuery{Limit: 100, Sees: func(string) bool { return true }})
	if err != nil || len(page) != 0 {
		t.Errorf("%d actions are listed: %v", len(page), err)
	}
	plain := r.submitted(agent, "again", sdk.Verdict{Effect: sdk.Permit})
	if r.must(plain); plain.Out.Effect != sdk.Permit {
		t.Errorf("%+v", plain.Out)
	}
}

// TestRepeatsOfWhatHasLeft: nothing is permitted a second time, and nothing that was denied is an error.
func TestRepeatsOfWhatHasLeft(t *testing.T) {
	r, agent, boss := cast(t)
	submit := func() *Decide {
		c := r.submitted(agent, "once", sdk.Verdict{Effect: sdk.Permit})
		c.Action.(*NewAction).Idem = &[16]byte{1, 'i'}
		r.must(c)
		return c
	}
	id := made(submit()).ID
	r.must(r.start(r.read(agent, id), agent, "once", sdk.Verdict{Effect: sdk.Permit}))
	r.must(&FinishAction{Key: agent, ID: id, Result: ActionResult{Success: true}})
	if again := submit(); made(again).ID != id {
		t.Fatalf("the repeat is another action: %+v", again.Out)
	}
	r.must(&forgetOver{actions: []string{id}, through: r.s.Seq()})
	if again := submit(); again.Out.Effect != sdk.Deny || again.Out.Code != sdk.ReasonCallIDConflict {
		t.Errorf("it may be executed a second time: %+v", again.Out)
	}

	ask := func() *Decide {
		c := r.call(agent, "ask", sdk.Verdict{Effect: sdk.Defer})
		c.Names.Hashes = [][16]byte{{9, 'a'}}
		r.must(c)
		return c
	}
	token := ask().Out.Token
	r.must(r.answer(boss, token, false))
	r.must(&forgetOver{calls: []string{token}, through: r.s.Seq()})
	if again := ask(); again.Out.Effect != sdk.Deny {
		t.Errorf("a call that was denied: %+v", again.Out)
	}
}

// TestAStopDoesNotWaitForTheTidier: what it has not done yet is done by a later start.
func TestAStopDoesNotWaitForTheTidier(t *testing.T) {
	p := newPast(t, vfs.NewMem())
	p.s.tidier.close()
	p.s.tidier = newTidier(p.s)
	close(p.s.tidier.quit)
	p.must(&Trim{Through: p.kept - 1, Reason: "max_age"})
	if p.s.tidier.pass() {
		t.Error("it goes on")
	}
	if there, _ := p.left(); len(there) != len(p.gone) {
		t.Errorf("%d rows of %d are there", len(there), len(p.gone))
	}
	p.s.tidier = newTidier(p.s)
	p.s.tidier.start()
	p.close()
}
