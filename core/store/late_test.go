package store

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/yett-dev/yett/sdk"
)

// laterRig is a store whose disk can be stopped, with people and keys.
type laterRig struct {
	*people
	disk              *stuck
	agent, boss, ward *Key
}

func newLaterRig(t *testing.T) *laterRig { return newLaterRigOn(t, vfs.NewMem()) }

// startOn goes on with the store that is on another file system, as the next process would.
func (l *laterRig) startOn(fs vfs.FS) {
	l.t.Helper()
	l.close()
	l.fs = fs
	l.open()
	l.loadAgain()
	l.agent, l.boss, l.ward = l.s.Key("agent"), l.s.Key("boss"), l.s.Key("ward")
}

// waiting is how many commands are queued.
func (l *laterRig) waiting() int {
	l.s.seq.mu.Lock()
	defer l.s.seq.mu.Unlock()
	return l.s.seq.queue.len()
}

func newLaterRigOn(t *testing.T, fs vfs.FS) *laterRig {
	l := &laterRig{disk: &stuck{}}
	r := &rig{t: t, fs: fs, clock: newClock()}
	set := settings(r.fs, r.clock, func(err error) { t.Errorf("fatal: %v", err) })
	set.Delay = l.disk.delay
	s, err := Open(set)
	if err != nil {
		t.Fatal(err)
	}
	r.s = s
	t.Cleanup(func() {
		l.disk.goOn() // a test that has failed may have stopped it
		r.close()
	})
	l.people = &people{rig: r}
	l.loadAgain()
	l.agent, l.boss, l.ward = r.key("agent", nil, "authorize"), r.key("boss", nil, "approve", "grants"),
		r.key("ward", nil, "kill")
	return l
}

// late commits in a batch whose disk stalls: the command is refused, and lands. It returns once what is to be done
// about that is on disk.
func (l *laterRig) late(cmd Command) {
	l.t.Helper()
	holds := false
	if c, ok := cmd.(taker); ok {
		_, holds = c.claim(l.s)
	}
	l.disk.stop()
	done := make(chan error)
	go func() { done <- l.s.Commit(context.Background(), cmd) }()
	<-l.disk.begun
	l.s.seq.look(l.clock.advance(time.Hour))
	err := <-done
	var e *sdk.Error
	if holds {
		if codeOf(err) != sdk.CodeNotDurable {
			l.t.Errorf("%T: got %v", cmd, err)
		}
	} else if !errors.As(err, &e) || e.Code != sdk.CodeAuditUnavailable || e.More["outcome"] != "unknown" {
		l.t.Errorf("%T: got %v", cmd, err) // not fatal: the disk must go on for the store to close
	}
	l.disk.goOn()
	healthyAgain(l.t, l.s)
	l.must(&Note{Type: "tick", By: system})
}

// longYes is an approval that an hour does not end.
func (l *laterRig) longYes(token string) *Approve {
	c := l.answer(l.boss, token, true)
	c.ApprovedTTL = 24 * time.Hour
	return c
}

func (l *laterRig) pending(args string) string {
	c := l.call(l.agent, args, sdk.Verdict{Effect: sdk.Defer})
	c.Defer.TTL = 24 * time.Hour
	l.must(c)
	return c.Out.Token
}

func (l *laterRig) action(args string, effect sdk.Effect) *ActionRow {
	c := l.submitted(l.agent, args, sdk.Verdict{Effect: effect})
	c.Defer.TTL = 24 * time.Hour
	l.must(c)
	return made(c)
}

// voids is how often the log says that something was taken back.
func (l *laterRig) voids() (n int) {
	l.t.Helper()
	rows, _, err := logOf(l.s)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, r := range rows {
		if r.Type == "voided" {
			n++
		}
	}
	return n
}

// lateCase is a command that came too late. check looks whether what it gave is gone, or what it took too; again, if
// not nil, is what its caller sends once more, and must work.
type lateCase struct {
	class class
	make  func(l *laterRig) (cmd Command, check func() bool, again Command)
}

func (l *laterRig) is(token, status string) func() bool {
	return func() bool { return l.status(l.agent, token) == status }
}

var lateCases = map[string]lateCase{
	"Decide": {giving, func(l *laterRig) (Command, func() bool, Command) {
		ask := func() *Decide {
			c := l.call(l.agent, "x", sdk.Verdict{Effect: sdk.Permit})
			c.Names.Hashes = [][16]byte{{7}}
			c.Limits.Charges = []Charge{charge(sdk.LimitRate, "agent", "1", "1", 24*time.Hour)}
			return c
		}
		again := ask()
		return ask(), func() bool { return true }, permits{again, l}
	}},
	"Decide, a redemption": {giving, func(l *laterRig) (Command, func() bool, Command) {
		token := l.pending("x")
		l.must(l.longYes(token))
		return l.redeem(l.agent, "x", token, sdk.Verdict{Effect: sdk.Defer}), l.is(token, Approved),
			permits{l.redeem(l.agent, "x", token, sdk.Verdict{Effect: sdk.Defer}), l}
	}},
	"Decide, by a grant": {giving, func(l *laterRig) (Command, func() bool, Command) {
		g := &Grant{ID: "stg_1", AgentID: "agent", ToolPattern: "**", MaxUses: 1, IssuedBy: "console:ann",
			Issuers: []string{"console:ann"}}
		l.must(&AddGrant{Grant: g, TTL: 24 * time.Hour, By: system, Most: 10})
		ask := func() *Decide {
			c := l.call(l.agent, "x", sdk.Verdict{Effect: sdk.Defer})
			c.Grants = []*Grant{g}
			return c
		}
		again := ask()
		return ask(), func() bool {
			return g.Uses() == 0 && len(l.s.GrantsFor(&GrantCall{AgentID: "agent", ToolID: "tool"})) == 1
		}, permits{again, l}
	}},
	"Decide, a denial": {taking, func(l *laterRig) (Command, func() bool, Command) {
		return l.call(l.agent, "x", sdk.Verdict{Effect: sdk.Deny}), func() bool { return true }, nil
	}},
	"Decide, a question": {noting, func(l *laterRig) (Command, func() bool, Command) {
		c := l.call(l.agent, "x", sdk.Verdict{Effect: sdk.Defer})
		c.Defer.TTL = 24 * time.Hour
		return c, func() bool { return l.is(c.Defer.Token, Pending)() }, nil
	}},
	"Decide, a new action": {giving, func(l *laterRig) (Command, func() bool, Command) {
		c := l.submitted(l.agent, "x", sdk.Verdict{Effect: sdk.Permit})
		c.Action.(*NewAction).Idem = &[16]byte{9}
		again := l.submitted(l.agent, "x", sdk.Verdict{Effect: sdk.Permit})
		again.Action.(*NewAction).Idem = &[16]byte{9}
		id := c.Action.id()
		return c, func() bool { return l.read(l.agent, id).Status == ActionDenied }, permits{again, l}
	}},
	"Decide, a start": {giving, func(l *laterRig) (Command, func() bool, Command) {
		a := l.action("x", sdk.Defer)
		yes := l.longYes(a.Token)
		l.must(yes)
		a = l.read(l.agent, a.ID)
		return l.start(a, l.agent, "x", sdk.Verdict{Effect: sdk.Defer}), func() bool {
			a := l.read(l.agent, a.ID)
			return l.is(a.Token, Approved)() && a.Status != ActionExecuting
		}, nil
	}},
	"Approve": {giving, func(l *laterRig) (Command, func() bool, Command) {
		token := l.pending("x")
		return l.longYes(token), l.is(token, Pending), l.longYes(token)
	}},
	"Approve, with other arguments and a grant": {giving, func(l *laterRig) (Command, func() bool, Command) {
		token := l.pending("x")
		yes := func() *Approve {
			c := l.longYes(token)
			c.Modified, c.ModifiedHash, c.View, c.NewToken = []byte(`{"a":1}`), [32]byte{1}, []byte(`{"args":{"a":1}}`),
				l.id("apr_")
			c.Verdict = sdk.Verdict{Effect: sdk.Defer, RuleID: "other", Code: "OTHER", Reason: "o", Priority: sdk.PriorityHigh}
			c.Policy, c.TTL = "pol_other", 7*time.Hour
			c.Grant, c.NewGrant = &GrantAsk{TTL: 24 * time.Hour}, l.id("stg_")
			c.Idem = &Idempotency{Hash: [16]byte{5}}
			return c
		}
		first := yes()
		before := &LookAt{Token: token, Key: l.boss}
		l.must(before)
		return first, func() bool {
			view, err := l.s.View(token)
			look := &LookAt{Token: token, Key: l.boss}
			l.must(look)
			was, d := &before.Out, &look.Out
			return d.RuleID == was.RuleID && d.Code == was.Code && d.Reason == was.Reason && d.Priority == was.Priority &&
				d.Policy == was.Policy && d.TTL == was.TTL && err == nil &&
				string(view) == `{"args":{}}` && look.Out.Modified == nil && look.Out.Changes == 0 &&
				look.Out.Approval == "" && len(look.Out.Signed) == 0 && l.s.grants.byID[first.NewGrant] == nil
		}, yes()
	}},
	"Approve, a denial": {taking, func(l *laterRig) (Command, func() bool, Command) {
		token := l.pending("x")
		return l.answer(l.boss, token, false), l.is(token, Denied), l.answer(l.boss, token, false)
	}},
	"ApproveAction": {giving, func(l *laterRig) (Command, func() bool, Command) {
		a := l.action("x", sdk.Defer)
		yes := func() Command { return &ApproveAction{ID: a.ID, Approve: *l.longYes(a.Token)} }
		return yes(), func() bool { return l.read(l.agent, a.ID).Status == ActionPending }, yes()
	}},
	"ApproveAction, a denial": {taking, func(l *laterRig) (Command, func() bool, Command) {
		a := l.action("x", sdk.Defer)
		no := func() Command { return &ApproveAction{ID: a.ID, Approve: *l.answer(l.boss, a.Token, false)} }
		return no(), func() bool { return l.read(l.agent, a.ID).Status == ActionDenied }, no()
	}},
	"FinishAction": {giving, func(l *laterRig) (Command, func() bool, Command) {
		a := l.action("x", sdk.Permit)
		l.must(l.start(a, l.agent, "x", sdk.Verdict{Effect: sdk.Permit}))
		end := func() Command {
			return &FinishAction{Key: l.agent, By: system, ID: a.ID, Result: ActionResult{Success: true, Value: `1`}}
		}
		return end(), func() bool { a := l.read(l.agent, a.ID); return a.Status == ActionExecuting && a.Result == nil }, end()
	}},
	"CreateKey": {giving, func(l *laterRig) (Command, func() bool, Command) {
		create := func(id string) Command {
			return &CreateKey{Key: &Key{ID: id, Name: "new", Scopes: []string{"authorize"}}, By: system}
		}
		return create("first"), func() bool { return l.s.Key("first").Revocation() != nil }, create("second")
	}},
	"RollKey": {giving, func(l *laterRig) (Command, func() bool, Command) {
		roll := func(id string) Command { return &RollKey{ID: "agent", New: &Key{ID: id}, By: system} }
		return roll("first"), func() bool {
			return l.s.Key("first").Revocation() != nil && l.s.Key("agent").Revocation() != nil
		}, roll("second")
	}},
	"RevokeKey": {taking, func(l *laterRig) (Command, func() bool, Command) {
		return &RevokeKey{ID: "agent", By: system}, func() bool { return l.s.Key("agent").Revocation() != nil }, nil
	}},
	"AddGrant": {giving, func(l *laterRig) (Command, func() bool, Command) {
		add := func() Command {
			return &AddGrant{Grant: &Grant{ID: l.id("stg_"), AgentID: "agent", ToolPattern: "**",
				Issuers: []string{"console:ann"}}, TTL: 24 * time.Hour, By: system, Most: 1}
		}
		return add(), func() bool { return len(l.s.GrantsFor(&GrantCall{AgentID: "agent", ToolID: "tool"})) == 0 }, add()
	}},
	"RevokeGrant": {taking, func(l *laterRig) (Command, func() bool, Command) {
		g := l.granted("agent", 0)
		return &RevokeGrant{ID: g.ID, By: system}, func() bool {
			is := l.s.grants.byID[g.ID]
			return is == nil || is.Revocation() != nil
		}, &RevokeGrant{ID: g.ID, By: system}
	}},
	"KillSwitch": {taking, func(l *laterRig) (Command, func() bool, Command) {
		return &KillSwitch{Kill: Kill{Scope: KillAgent, Target: "agent"}, By: system}, func() bool {
			return l.s.Killed(l.agent, "agent", "", "tool") != nil
		}, nil
	}},
	"KillSwitch, an undo": {giving, func(l *laterRig) (Command, func() bool, Command) {
		l.must(&KillSwitch{Kill: Kill{Scope: KillAgent, Target: "agent"}, By: system})
		undo := func() Command {
			return &KillSwitch{Kill: Kill{Scope: KillAgent, Target: "agent"}, By: system, Undo: true}
		}
		return undo(), func() bool { return l.s.Killed(l.agent, "agent", "", "tool") != nil }, undo()
	}},
	"PutOperator": {giving, func(l *laterRig) (Command, func() bool, Command) {
		put := func() Command {
			return &PutOperator{In: l.o, Operator: Operator{Name: "ann", Role: RoleAdmin, Hash: "h"}, First: true, By: system}
		}
		return put(), func() bool { return !l.o.HasOperators() }, put()
	}},
	"PutSession": {giving, func(l *laterRig) (Command, func() bool, Command) {
		l.add("ann", RoleAdmin)
		put := func(n int) Command {
			return &PutSession{In: l.o, Session: Session{IDHash: sid(n), Operator: "ann", Created: l.clock.Now(),
				Seen: l.clock.Now()}, By: system}
		}
		return put(1), func() bool { _, ok := l.o.Session(sid(1)); return !ok }, put(2)
	}},
	"EndSession": {taking, func(l *laterRig) (Command, func() bool, Command) {
		l.add("ann", RoleAdmin)
		l.must(&PutSession{In: l.o, Session: Session{IDHash: sid(1), Operator: "ann", Created: l.clock.Now(),
			Seen: l.clock.Now()}, By: system})
		return &EndSession{In: l.o, ID: sid(1), By: system}, func() bool { _, ok := l.o.Session(sid(1)); return !ok }, nil
	}},
	"DropCursor": {taking, func(l *laterRig) (Command, func() bool, Command) {
		l.must(&MoveCursor{Name: "siem", To: 1})
		return &DropCursor{Name: "siem", By: system}, func() bool { _, ok := l.s.Cursor("siem"); return !ok }, nil
	}},
	"MoveCursor": {noting, func(l *laterRig) (Command, func() bool, Command) {
		return &MoveCursor{Name: "siem", To: 1}, func() bool {
			c, _ := l.s.Cursor("siem")
			return c.Seq == 1
		}, &MoveCursor{Name: "siem", To: 1}
	}},
	"AcceptTool": {giving, func(l *laterRig) (Command, func() bool, Command) {
		l.must(sawTool("a", 1))
		l.must(sawTool("a", 2))
		accept := func() Command { return &AcceptTool{Server: "up", Tool: "a", Digest: digest(2), By: system} }
		return accept(), func() bool {
			t := l.s.Tool("up", "a")
			return t.Accepted.Digest == digest(1) && t.Pending.Digest == digest(2) && t.Before.Digest == ""
		}, accept()
	}},
	"SeeTool": {noting, func(l *laterRig) (Command, func() bool, Command) {
		l.must(sawTool("a", 1))
		return sawTool("a", 2), func() bool { return l.s.Tool("up", "a").Pending.Digest == digest(2) }, sawTool("a", 1)
	}},
	"Trim":          {class: taking},
	"forgetOver":    {class: noting},
	"takeAgain":     {class: taking},
	"BelieveClock":  {class: noting},
	"takeSince":     {class: taking},
	"beginLife":     {class: noting},
	"KeepClock":     {class: noting},
	"TouchSession":  {class: noting},
	"SignInRefused": {class: noting},
	"Note":          {class: noting},
	"Scanned":       {class: noting},
	"AnswerOnce":    {class: noting},
	"DeferStatus":   {class: reading},
	"StopWatch":     {class: reading},
	"countWaiting":  {class: reading},
	"LookAt":        {class: reading},
	"ListPending":   {class: reading},
	"Asked":         {class: reading},
	"ReadAction":    {class: reading},
	"Barrier":       {class: reading},
	"renewMark":     {class: reading},
	"settled":       {class: reading},
}

// permits is a decision that must be a PERMIT of its own, no repeat.
type permits struct {
	*Decide
	l *laterRig
}

func (c permits) apply(tx *tx) error {
	err := c.Decide.apply(tx)
	if err == nil && (c.Out.Effect != sdk.Permit || c.Out.Repeat || c.Out.DecisionID != c.ID) {
		c.l.t.Errorf("sent again: %+v", c.Out)
	}
	return err
}

// A command that reached the disk after its caller was refused stands where it takes something away. What it gave is
// void, after a restart too, and the log says so; sent again it works.
func TestLateCommands(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(lateCases)) {
		c := lateCases[name]
		if c.make == nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			l := newLaterRig(t)
			cmd, check, again := c.make(l)
			if before := l.voids(); before != 0 {
				t.Fatalf("%d voided already", before)
			}
			l.late(cmd)
			if got := cmd.class(); got != c.class {
				t.Errorf("its class is %d, want %d", got, c.class)
			}
			if !check() {
				t.Error("not as it has to be")
			}
			if got := l.voids() > 0; got != (c.class == giving) {
				t.Errorf("the log tells of something void: %v", got)
			}
			if err := consistent(l.s); err != nil {
				t.Error(err)
			}
			if again != nil {
				l.must(again)
			}
			l.restart()
			if err := consistent(l.s); err != nil {
				t.Errorf("after a restart: %v", err)
			}
		})
	}
}

// What was void is void after a restart.
func TestVoidOutlivesARestart(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(lateCases)) {
		c := lateCases[name]
		if c.class != giving {
			continue
		}
		t.Run(name, func(t *testing.T) {
			l := newLaterRig(t)
			cmd, check, _ := c.make(l)
			l.late(cmd)
			l.restart()
			l.agent, l.boss = l.s.Key("agent"), l.s.Key("boss")
			// its check looks at an object of the store before
			if strings.Contains(name, "grant") && strings.HasPrefix(name, "Decide") {
				g := l.s.grants.byID["stg_1"]
				if g == nil || g.Uses() != 0 {
					t.Errorf("the grant: %+v", g)
				}
				return
			}
			if !check() {
				t.Error("not as it has to be")
			}
		})
	}
}

// What took something away after a command, in the same late batch, stands when the command is taken back.
func TestLateBatchKeepsWhatTakes(t *testing.T) {
	l := newLaterRig(t)
	token := l.pending("x")
	l.lateTogether(l.longYes(token), &RollKey{ID: "agent", New: &Key{ID: "rolled"}, By: system},
		&CreateKey{Key: &Key{ID: "new", Name: "new"}, By: system})
	asked := &LookAt{Token: token, Key: l.boss}
	l.refused(asked, sdk.CodeAlreadyResolved) // by the roll, which ended the key that had asked
	for _, id := range []string{"agent", "rolled", "new"} {
		if l.s.Key(id).Revocation() == nil {
			t.Errorf("the key %s lives", id)
		}
	}
	if err := consistent(l.s); err != nil {
		t.Error(err)
	}
}

// Every command has a class here and, if it gives something, a case above that shows that it can be taken back.
func TestEveryCommandHasAClass(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Name.Name != "apply" || fn.Recv == nil {
				continue
			}
			typ := fn.Recv.List[0].Type
			if star, ok := typ.(*ast.StarExpr); ok {
				typ = star.X
			}
			name := typ.(*ast.Ident).Name
			found++
			c, ok := lateCases[name]
			switch {
			case !ok:
				t.Errorf("%s has no case in lateCases: say what becomes of it when it reaches the disk after its caller "+
					"was refused", name)
			case c.class == giving && c.make == nil:
				t.Errorf("%s gives something, and no case shows that it can be taken back", name)
			}
		}
	}
	if found < 25 {
		t.Errorf("only %d commands were found", found)
	}
}
