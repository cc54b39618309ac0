package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/yett-dev/yett/sdk"
)

// people is a rig with its operators loaded.
type people struct {
	*rig
	o *Operators
}

func newPeople(t *testing.T) *people {
	p := &people{rig: newRig(t)}
	p.loadAgain()
	return p
}

func (p *people) loadAgain() {
	p.t.Helper()
	o, err := LoadOperators(context.Background(), p.s)
	if err != nil {
		p.t.Fatal(err)
	}
	p.o = o
}

func (p *people) restart() {
	p.t.Helper()
	p.reopen()
	p.loadAgain()
}

func (p *people) add(name, role string) {
	p.t.Helper()
	p.must(&PutOperator{In: p.o, Operator: Operator{Name: name, Role: role, Hash: "phc of " + name,
		CreatedAt: p.clock.Now(), CreatedBy: "console:" + name}, By: system})
}

func sid(n int) (id [32]byte) {
	copy(id[:], fmt.Sprintf("session %d", n))
	return id
}

func (p *people) session(n int, operator string) *PutSession {
	now := p.clock.Now()
	return &PutSession{In: p.o, Session: Session{IDHash: sid(n), Operator: operator, Created: now, Seen: now,
		SignedInAt: now, Peer: "127.0.0.1"}, By: Who{Principal: "console:" + operator, Method: "console", Surface: "console"}}
}

// log is one line a record: its type and what the console's records add.
func (p *people) log() string {
	p.t.Helper()
	var b strings.Builder
	err := p.s.Records(1, func(_ uint64, rec []byte) error {
		var r struct {
			Type, Operator, Role, How, Why, Session string
			Unrecorded                              *int
		}
		if err := json.Unmarshal(rec, &r); err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %s", r.Type, r.Operator)
		for _, s := range []string{r.Role, r.How, r.Why} {
			if s != "" {
				fmt.Fprintf(&b, " %s", s)
			}
		}
		if r.Unrecorded != nil {
			fmt.Fprintf(&b, " unrecorded=%d", *r.Unrecorded)
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return b.String()
}

func (p *people) logIs(want ...string) {
	p.t.Helper()
	if got := p.log(); got != strings.Join(want, "\n")+"\n" {
		p.t.Errorf("the log says\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

func TestOperatorsSurviveARestart(t *testing.T) {
	p := newPeople(t)
	if p.o.HasOperators() {
		t.Fatal("a new store has operators")
	}
	ctx := context.Background()
	if err := p.o.AddFirstOperator(ctx, Operator{Name: "ada", Role: RoleAdmin, Hash: "phc"}, system); err != nil {
		t.Fatal(err)
	}
	p.add("eve", RoleAuditor)
	p.must(p.session(1, "ada"))
	p.restart()
	got, ok := p.o.Operator("ada")
	if !ok || got.Role != RoleAdmin || got.Hash != "phc" || !p.o.HasOperators() {
		t.Errorf("after a restart: %+v %v", got, ok)
	}
	sess, ok := p.o.Session(sid(1))
	if !ok || sess.Operator != "ada" || sess.IDHash != sid(1) || !sess.SignedInAt.Equal(p.clock.Now()) ||
		sess.Peer != "127.0.0.1" {
		t.Errorf("after a restart: %+v %v", sess, ok)
	}
	p.logIs("operator_added ada admin one_time_link", "operator_added eve auditor", "console_sign_in ada admin")
}

func TestOperatorsRefused(t *testing.T) {
	p := newPeople(t)
	p.add("ada", RoleAdmin)
	for _, c := range []struct {
		about string
		cmd   Command
		code  sdk.Code
	}{
		{"a second first one", &PutOperator{In: p.o, Operator: Operator{Name: "eve", Role: RoleAdmin, Hash: "x"}, First: true}, sdk.CodeConflict},
		{"a taken name", &PutOperator{In: p.o, Operator: Operator{Name: "ada", Role: RoleAdmin, Hash: "x"}}, sdk.CodeNameTaken},
		{"an unknown role", &PutOperator{In: p.o, Operator: Operator{Name: "eve", Role: "root", Hash: "x"}}, sdk.CodeInvalidField},
		{"no password", &PutOperator{In: p.o, Operator: Operator{Name: "eve", Role: RoleAdmin}}, sdk.CodeInvalidField},
		{"no name", &PutOperator{In: p.o, Operator: Operator{Role: RoleAdmin, Hash: "x"}}, sdk.CodeInvalidField},
		{"a session of nobody", p.session(1, "eve"), sdk.CodeConflict},
	} {
		if got := codeOf(p.commit(c.cmd)); got != c.code {
			t.Errorf("%s: got %q, want %q", c.about, got, c.code)
		}
	}
	p.must(p.session(1, "ada"))
	p.refused(p.session(1, "ada"), sdk.CodeConflict)
	p.logIs("operator_added ada admin", "console_sign_in ada admin")
	for n := 1; n < maxOperators; n++ {
		p.add(fmt.Sprint("n", n), RoleAuditor)
	}
	p.refused(&PutOperator{In: p.o, Operator: Operator{Name: "more", Role: RoleAuditor, Hash: "x"}}, sdk.CodeConflict)
}

// Two people open the link at the same time: one of them becomes the operator.
func TestOneFirstOperator(t *testing.T) {
	p := newPeople(t)
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() {
			errs[i] = p.o.AddFirstOperator(context.Background(), Operator{Name: fmt.Sprint("n", i), Role: RoleAdmin, Hash: "x"},
				system)
		})
	}
	wg.Wait()
	made := 0
	for _, err := range errs {
		if err == nil {
			made++
		} else if codeOf(err) != sdk.CodeConflict {
			t.Error(err)
		}
	}
	if made != 1 || len(p.o.byName) != 1 {
		t.Errorf("%d first operators, %d in all", made, len(p.o.byName))
	}
}

func TestSessionEnds(t *testing.T) {
	p := newPeople(t)
	ctx := context.Background()
	p.add("ada", RoleAdmin)
	p.must(p.session(1, "ada"))
	again := p.session(2, "ada")
	old := sid(1)
	again.Replaces = &old
	p.must(again)
	if _, ok := p.o.Session(sid(1)); ok {
		t.Error("a replaced session is still there")
	}
	if err := p.o.EndSession(ctx, sid(2), "signed_out", system); err != nil {
		t.Fatal(err)
	}
	if err := p.o.EndSession(ctx, sid(2), "signed_out", system); err != nil {
		t.Errorf("ending it twice: %v", err)
	}
	p.must(&TouchSession{In: p.o, ID: sid(2)}) // was on its way when the session ended
	p.restart()
	for n := 1; n <= 2; n++ {
		if _, ok := p.o.Session(sid(n)); ok {
			t.Errorf("session %d came back with a restart", n)
		}
	}
	p.logIs("operator_added ada admin", "console_sign_in ada admin", "console_sign_out ada replaced",
		"console_sign_in ada admin", "console_sign_out ada signed_out")
}

func TestExpiredSessionsAreDroppedAtLoad(t *testing.T) {
	for _, c := range []struct {
		about string
		steps []time.Duration // the session is touched after each
		down  time.Duration   // how long the gateway is down then
		lives bool
	}{
		{"seen just now", nil, SessionIdle - 1, true},
		{"idle", nil, SessionIdle, false},
		{"kept alive", []time.Duration{SessionIdle - 1, SessionIdle - 1}, SessionIdle - 1, true},
		{"whole", slicesOf(8*6-1, 10*time.Minute), 10 * time.Minute, false},
		{"almost whole", slicesOf(8*6-1, 10*time.Minute), 10*time.Minute - 1, true},
	} {
		t.Run(c.about, func(t *testing.T) {
			p := newPeople(t)
			p.add("ada", RoleAdmin)
			p.must(p.session(1, "ada"))
			for _, d := range c.steps {
				if err := p.o.TouchSession(context.Background(), sid(1), p.clock.advance(d)); err != nil {
					t.Fatal(err)
				}
			}
			p.clock.advance(c.down)
			p.restart()
			if _, ok := p.o.Session(sid(1)); ok != c.lives {
				t.Errorf("after a restart the session is there: %v, want %v", ok, c.lives)
			}
			if rows := p.rows(); rows != map[bool]int{true: 1, false: 0}[c.lives] {
				t.Errorf("%d rows", rows)
			}
			if !c.lives && !strings.HasSuffix(p.log(), "console_sign_out ada expired\n") {
				t.Errorf("no record of its end:\n%s", p.log())
			}
		})
	}
}

func slicesOf(n int, d time.Duration) []time.Duration {
	out := make([]time.Duration, n)
	for i := range out {
		out[i] = d
	}
	return out
}

func (p *people) rows() (n int) {
	p.t.Helper()
	if err := p.s.scan(prefixSession, func(_, _ []byte) error { n++; return nil }); err != nil {
		p.t.Fatal(err)
	}
	return n
}

// A use is exact in memory and written once a minute, without a record.
func TestTouchSession(t *testing.T) {
	p := newPeople(t)
	ctx := context.Background()
	p.add("ada", RoleAdmin)
	p.must(p.session(1, "ada"))
	begun, seq := p.clock.Now(), p.s.Seq()
	stored := func() time.Time {
		t.Helper()
		row, found, err := p.s.get(keyStr(prefixSession, string(asBytes(sid(1)))))
		if err != nil || !found {
			t.Fatal(found, err)
		}
		var s Session
		if err := json.Unmarshal(row, &s); err != nil {
			t.Fatal(err)
		}
		return s.Seen
	}
	for _, c := range []struct{ at, memory, disk time.Duration }{
		{59 * time.Second, 59 * time.Second, 0},
		{60 * time.Second, 60 * time.Second, 60 * time.Second},
		{30 * time.Second, 60 * time.Second, 60 * time.Second}, // a clock that is set back
		{119 * time.Second, 119 * time.Second, 60 * time.Second},
		{120 * time.Second, 120 * time.Second, 120 * time.Second},
	} {
		if err := p.o.TouchSession(ctx, sid(1), begun.Add(c.at)); err != nil {
			t.Fatal(err)
		}
		sess, _ := p.o.Session(sid(1))
		if got := sess.Seen.Sub(begun); got != c.memory {
			t.Errorf("seen at %v: memory says %v, want %v", c.at, got, c.memory)
		}
		if got := stored().Sub(begun); got != c.disk {
			t.Errorf("seen at %v: the disk says %v, want %v", c.at, got, c.disk)
		}
	}
	if p.s.Seq() != seq {
		t.Errorf("%d records for uses", p.s.Seq()-seq)
	}
	if err := p.o.TouchSession(ctx, sid(9), begun); err != nil {
		t.Errorf("a use of no session: %v", err)
	}
}

func asBytes(id [32]byte) []byte { return id[:] }

func TestSessionsPerOperatorAreLimited(t *testing.T) {
	p := newPeople(t)
	p.add("ada", RoleAdmin)
	p.add("eve", RoleAdmin)
	p.must(p.session(100, "eve"))
	for n := range maxSessions {
		p.must(p.session(n, "ada"))
		p.clock.advance(time.Second)
	}
	if err := p.o.TouchSession(context.Background(), sid(0), p.clock.Now()); err != nil { // the first one is in use
		t.Fatal(err)
	}
	p.must(p.session(50, "ada"))
	for n, want := range map[int]bool{0: true, 1: false, 2: true, maxSessions - 1: true, 50: true, 100: true} {
		if _, ok := p.o.Session(sid(n)); ok != want {
			t.Errorf("session %d is there: %v, want %v", n, ok, want)
		}
	}
	if got := p.rows(); got != maxSessions+1 {
		t.Errorf("%d rows, want %d", got, maxSessions+1)
	}
}

func TestSignInRefusedIsRecorded(t *testing.T) {
	p := newPeople(t)
	ctx := context.Background()
	if err := p.o.NoteRefused(ctx, "", "wrong", 0,
		Who{Principal: "console:", Method: "console", Surface: "console"}); err != nil {
		t.Fatal(err)
	}
	if err := p.o.NoteRefused(ctx, "ada", "too_many", 7,
		Who{Principal: "console:ada", Method: "console", Surface: "console"}); err != nil {
		t.Fatal(err)
	}
	p.logIs("console_sign_in_refused  wrong unrecorded=0", "console_sign_in_refused ada too_many unrecorded=7")
	if _, _, err := logOf(p.s); err != nil {
		t.Error(err)
	}
}

// Neither the password's hash nor what a session id could be worked out from is in the log.
func TestNoSecretsInOperatorRecords(t *testing.T) {
	p := newPeople(t)
	p.must(&PutOperator{In: p.o, Operator: Operator{Name: "ada", Role: RoleAdmin, Hash: "hash-of-the-password"},
		By: system})
	p.must(p.session(1, "ada"))
	err := p.s.Records(1, func(_ uint64, rec []byte) error {
		if s := string(rec); strings.Contains(s, "hash-of") || strings.Contains(s, fmt.Sprintf("%x", sid(1))) {
			t.Errorf("a record holds a secret: %s", s)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A row that cannot be read ends the start: a console without an operator would hand out a new first link.
func TestBrokenOperatorRows(t *testing.T) {
	for _, c := range []struct{ about, key, value, want string }{
		{"no JSON", "oada", "{", `operator "ada"`},
		{"another name", "oada", `{"name":"eve","role":"admin","hash":"x"}`, `its row says "eve"`},
		{"short session id", "sshort", `{}`, "session key of the wrong length"},
		{"session without JSON", "s" + strings.Repeat("x", 32), `[`, "session 7878"},
	} {
		t.Run(c.about, func(t *testing.T) {
			r := newRig(t)
			if err := r.s.db.Set([]byte(c.key), []byte(c.value), nil); err != nil {
				t.Fatal(err)
			}
			if _, err := LoadOperators(context.Background(), r.s); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
