package prochost

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/places"
	"github.com/yett-dev/yett/core/supervise"
	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"golang.org/x/sys/unix"
)

const patience = time.Minute // for what must happen; reached only when it does not

// generous has time enough for a loaded machine.
func generous(s *Spec) { s.Timeout = 30 * time.Second; s.Breaker.Off = true }

func with(changes ...func(*Spec)) func(*Spec) {
	return func(s *Spec) {
		generous(s)
		for _, c := range changes {
			c(s)
		}
	}
}

func object(t testing.TB, text string) exact.Value {
	t.Helper()
	if text == "" {
		return exact.Value{}
	}
	var doc exact.Doc
	if err := doc.Parse(text, exact.DefaultLimits); err != nil {
		t.Fatal(err)
	}
	return doc.Root()
}

func tool(id string) *chain.Call { return &chain.Call{ToolID: id, Now: time.Unix(1, 2)} }

func check(p *Plugin, id string) (sdk.Verdict, error) {
	return p.Check(context.Background(), tool(id))
}

// until polls for what nothing announces.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(patience); !ok(); <-tick.C {
		if time.Now().After(limit) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

func wantNothing(t *testing.T, v sdk.Verdict, err error) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, and verdict %+v", v)
	}
	if v.Effect != sdk.Abstain || v.Code != "" || v.Reason != "" {
		t.Fatalf("beside the error %v stands a verdict %+v", err, v)
	}
}

func modes(t *testing.T, f func(t *testing.T, mode string)) {
	for _, mode := range []string{"stock", "stock-unary"} {
		if testkit.Quick() && mode != "stock" {
			continue
		}
		t.Run(mode, func(t *testing.T) { f(t, mode) })
	}
}

// TestAnswers: what may be said arrives, all else is an error.
func TestAnswers(t *testing.T) {
	long := strings.Repeat("x", 1025)
	bad := map[string]string{
		"no effect":          `effect: EFFECT_UNSPECIFIED`,
		"unknown effect":     `effect: 9`,
		"negative effect":    `effect: -1`,
		"no code":            `code: ""`,
		"lower case code":    `code: "rule_permit"`,
		"long code":          `code: "` + strings.Repeat("A", 65) + `"`,
		"abstain, bad code":  `effect: EFFECT_ABSTAIN code: "x"`,
		"long reason":        `reason: "` + long + `"`,
		"long rule":          `rule_id: "` + long[:257] + `"`,
		"long message":       `message: "` + long + `"`,
		"error":              `error: "no connection"`,
		"negative ttl":       `ttl_ms: -1`,
		"endless ttl":        `ttl_ms: 9223372036854775807`,
		"approvals":          `approvals: 2`,
		"approvers":          `approvers: "key:root"`,
		"expiry":             `expires_ms: 5`,
		"priority":           `priority: "high"`,
		"defer, approvals":   `effect: EFFECT_DEFER approvals: 101`,
		"defer, approver":    `effect: EFFECT_DEFER approvers: "everybody"`,
		"defer, no key":      `effect: EFFECT_DEFER approvers: "key:"`,
		"defer, no approver": `effect: EFFECT_DEFER approvers: "role:auditor"`,
		"defer, too few":     `effect: EFFECT_DEFER approvals: 3 approvers: "key:a" approvers: "key:b" approvers: "key:a"`,
		"defer, no preset":   `effect: EFFECT_DEFER approvers: "role:king"`,
		"defer, expiry":      `effect: EFFECT_DEFER expires_ms: -5`,
		"defer, priority":    `effect: EFFECT_DEFER priority: "extreme"`,
	}
	for name, text := range map[string]string{
		"deny, long reason": `reason: "` + long + `"`,
		"deny, no code":     `code: ""`,
		"deny, approvals":   `approvals: 2`,
		"deny, error":       `error: "the verdict breaks a rule"`,
	} {
		bad[name] = `effect: EFFECT_DENY ` + text
	}
	wanted := map[string]sdk.Effect{} // what an answer that breaks a rule wanted to stop stays stopped
	for name := range bad {
		switch kind, _, _ := strings.Cut(name, ","); kind {
		case "deny":
			wanted[name] = sdk.Deny
		case "defer":
			wanted[name] = sdk.Defer
		}
	}
	good := map[string]sdk.Verdict{
		`reason: "r" rule_id: "1" message: "m" ttl_ms: 1500`: {Effect: sdk.Permit, Code: "RULE_PERMIT", Reason: "r", RuleID: "1", Message: "m", TTL: 1500 * time.Millisecond},
		`effect: EFFECT_DENY code: "NO_1" reason: "é"`:       {Effect: sdk.Deny, Code: "NO_1", Reason: "é"},
		`effect: EFFECT_ABSTAIN code: "" reason: ""`:         {},
		`effect: EFFECT_ABSTAIN message: "m" reason: ""`:     {},
		`effect: EFFECT_DEFER code: "D" reason: "" approvals: 2 approvers: "key:a" approvers: "role:operator" expires_ms: 5000 priority: "low"`: {Effect: sdk.Defer, Code: "D",
			Approvals: 2, From: []string{"key:a", "role:operator"}, Expires: 5 * time.Second, Priority: sdk.PriorityLow},
	}
	modes(t, func(t *testing.T, mode string) {
		p := loaded(t, guestSpec(mode), Options{}, generous)
		ask := func(text string) (sdk.Verdict, error) {
			// what is sent need not be JSON: the guest reads it as it is
			return p.Check(context.Background(), &chain.Call{ToolID: "set", Args: object(t, `{"set":1}`), CallID: text})
		}
		for name, text := range bad {
			v, err := ask(text)
			if wanted[name] != sdk.Abstain {
				if v.Effect != wanted[name] {
					t.Errorf("%s: beside the error is %v, want %v", name, v.Effect, wanted[name])
				}
				v.Effect = sdk.Abstain
			}
			if wantNothing(t, v, err); !errors.Is(err, ErrAnswer) {
				t.Errorf("%s: %v is no ErrAnswer", name, err)
			}
		}
		for text, want := range good {
			got, err := ask(text)
			if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: got %+v, %v", text, got, err)
			}
		}
		if s := p.Stats(); s.Wrong != uint64(len(bad)) || s.Errors != s.Wrong || s.Crashes != 0 {
			t.Errorf("counters: %+v", s)
		}
	})
}

// TestWrongID: an answer to something else is never taken for the answer.
func TestWrongID(t *testing.T) {
	modes(t, func(t *testing.T, mode string) {
		p := loaded(t, guestSpec(mode), Options{}, generous)
		v, err := p.Check(context.Background(), &chain.Call{ToolID: "set", CallID: "id: 123456"})
		wantNothing(t, v, err)
	})
}

func TestHugeAnswer(t *testing.T) {
	modes(t, func(t *testing.T, mode string) {
		p := loaded(t, guestSpec(mode), Options{}, generous)
		v, err := check(p, "huge")
		wantNothing(t, v, err)
	})
}

// TestCallAsItIs: the plugin sees the call as it was sent.
func TestCallAsItIs(t *testing.T) {
	modes(t, func(t *testing.T, mode string) {
		p := loaded(t, guestSpec(mode), Options{}, with(func(s *Spec) { s.Generation = "g7" }))
		c := &chain.Call{KeyID: "k", KeyName: "n", AgentID: "a", SessionID: "s", ToolID: "say/call", Operation: "call",
			CallID: "c", Args: object(t, `{"n":1.50, "x":[]}`), Now: time.Unix(1, 2)}
		c.Digest[31] = 'z'
		v, err := p.Check(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`key_id:"k"`, `key_name:"n"`, `agent_id:"a"`, `session_id:"s"`, `tool_id:"say/call"`,
			`operation:"call"`,
			`call_id:"c"`, `args:"{\"n\":1.50, \"x\":[]}"`, `z"`, `time_unix_nano:1000000002`, " g7"} {
			if !strings.Contains(strings.ReplaceAll(v.Reason, ":  ", ":"), want) &&
				!strings.Contains(strings.ReplaceAll(v.Reason, ": ", ":"), want) {
				t.Errorf("%s is not in %s", want, v.Reason)
			}
		}
		if strings.Contains(v.Reason, "context") {
			t.Errorf("absent context was sent: %s", v.Reason)
		}
	})
}

// TestLate: an answer after the deadline is an error, and is not taken for the answer to the next call.
func TestLate(t *testing.T) {
	modes(t, func(t *testing.T, mode string) {
		p := loaded(t, guestSpec(mode), Options{}, func(s *Spec) { s.Timeout = 250 * time.Millisecond; s.Breaker.Off = true })
		v, err := check(p, "wait/400ms")
		if wantNothing(t, v, err); !errors.Is(err, context.DeadlineExceeded) || chain.CodeOf(err) != sdk.ReasonStepTimeout {
			t.Fatalf("late: %v", err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		v, err = p.Check(ctx, tool("silent"))
		wantNothing(t, v, err)
		until(t, "an answer of its own", func() bool {
			v, err := p.Check(context.Background(), &chain.Call{ToolID: "set", CallID: `reason: "own"`})
			if err == nil && v.Reason != "own" {
				t.Fatalf("somebody else's answer: %+v", v)
			}
			return err == nil
		})
		if mode == "stock" {
			until(t, "the stray answer", func() bool { return p.Stats().Stray >= 1 }) // more where others were late too
		}
		if s := p.Stats(); s.Late < 2 || s.Crashes != 0 {
			t.Errorf("counters: %+v", s)
		}
	})
}

// TestCancelled: who leaves gets his context's error, and the plugin none of the blame.
func TestCancelled(t *testing.T) {
	p := loaded(t, guestSpec("stock"), Options{}, generous)
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(10*time.Millisecond, cancel)
	v, err := p.Check(ctx, tool("silent"))
	if wantNothing(t, v, err); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// TestCrashInFlight: the calls in flight fail, nothing is permitted, calls meanwhile are refused at once, and the
// plugin comes back.
func TestCrashInFlight(t *testing.T) {
	modes(t, func(t *testing.T, mode string) {
		changes := make(chan Change, 100)
		p := loaded(t, guestSpec(mode), Options{Notify: func(c Change) { changes <- c }}, generous)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				v, err := check(p, "silent")
				if err == nil {
					t.Errorf("a verdict %+v", v)
				}
			})
		}
		until(t, "calls in flight", func() bool { return p.Status().InFlight == 8 })
		v, err := check(p, "crash")
		if wantNothing(t, v, err); !errors.Is(err, ErrLost) {
			t.Errorf("crash: %v", err)
		}
		all.Wait()
		v, err = check(p, "permit")
		if err == nil {
			t.Logf("it was quick: %+v", v)
		} else if !errors.Is(err, chain.ErrUnavailable) && !errors.Is(err, ErrLost) { // asked before the end was noticed
			t.Errorf("down: %v", err)
		}
		until(t, "it is back", func() bool { _, err := check(p, "permit"); return err == nil })
		for c := range changes {
			if c.To == supervise.StateBackoff {
				if c.From != supervise.StateReady || !strings.Contains(c.Reason, "exit status 3") || c.Crashes != 1 ||
					c.Plugin != "guest" {
					t.Errorf("change: %+v", c)
				}
				break
			}
		}
		if s := p.Stats(); s.Crashes != 1 || s.Starts != 2 {
			t.Errorf("counters: %+v", s)
		}
	})
}

// TestRetry: what one replica lost another one answers, once.
func TestRetry(t *testing.T) {
	s := guestSpec("stock")
	notes := t.TempDir()
	s.Env["PROCHOST_FILE"], s.Confine.Write = filepath.Join(notes, "crashed"), []string{notes}
	p := loaded(t, s, Options{}, with(func(s *Spec) { s.Replicas = 2 }))
	v, err := check(p, "crash-if")
	if err != nil || v.Effect != sdk.Permit {
		t.Fatalf("%+v, %v", v, err)
	}
	if s := p.Stats(); s.Retried != 1 {
		t.Errorf("counters: %+v", s)
	}
	until(t, "both are ready", func() bool {
		st := p.Status()
		return st.Replicas[0].State == supervise.StateReady && st.Replicas[1].State == supervise.StateReady
	})
	v, err = check(p, "crash") // takes the second one down too
	wantNothing(t, v, err)
	if s := p.Stats(); s.Retried != 2 || s.Lost != 1 {
		t.Errorf("counters: %+v", s)
	}
}

// TestAnswersAreNotRetried: a plugin that answers wrongly is not asked again.
func TestAnswersAreNotRetried(t *testing.T) {
	p := loaded(t, guestSpec("stock"), Options{}, with(func(s *Spec) { s.Replicas = 2 }))
	v, err := p.Check(context.Background(), &chain.Call{ToolID: "set", CallID: `error: "no"`})
	wantNothing(t, v, err)
	if s := p.Stats(); s.Retried != 0 {
		t.Errorf("counters: %+v", s)
	}
}

// TestLimits: so many calls are with the plugin, so many wait, and the next one is refused at once.
func TestLimits(t *testing.T) {
	modes(t, func(t *testing.T, mode string) {
		p := loaded(t, guestSpec(mode), Options{}, with(func(s *Spec) { s.MaxInFlight, s.Queue = 2, 3 }))
		ctx, cancel := context.WithCancel(context.Background())
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() { p.Check(ctx, tool("silent")) })
		}
		until(t, "the queue is full", func() bool { return p.Status().Waiting == 3 })
		if n := p.places.InUse(); n != 2 {
			t.Errorf("%d places are taken", n)
		}
		v, err := check(p, "permit")
		if wantNothing(t, v, err); !errors.Is(err, chain.ErrUnavailable) || !errors.Is(err, places.ErrFull) {
			t.Errorf("full: %v", err)
		}
		cancel()
		all.Wait()
	})
}

// TestPluginsOwnLimit: a plugin may ask for less at once than the operator allows.
func TestPluginsOwnLimit(t *testing.T) {
	p := loaded(t, guestSpec("stock-two-at-once"), Options{}, with(func(s *Spec) { s.Queue = -1 }))
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() { p.Check(ctx, tool("silent")) })
	}
	until(t, "two in flight", func() bool { return p.Status().InFlight == 2 })
	until(t, "both have a place", func() bool { return p.places.InUse() == 2 })
	if v, err := check(p, "permit"); !errors.Is(err, places.ErrFull) {
		t.Errorf("a third: %+v, %v", v, err)
	}
	cancel()
	all.Wait()
}

// TestBreaker: opens after failures, refuses at once, tries again, closes.
func TestBreaker(t *testing.T) {
	p := loaded(t, guestSpec("stock"), Options{}, func(s *Spec) {
		s.Timeout, s.Breaker = 30*time.Second, Breaker{Calls: 4, Delay: time.Hour, Trials: 2}
	})
	fail := func() error {
		_, err := p.Check(context.Background(), &chain.Call{ToolID: "set", CallID: `error: "no"`})
		return err
	}
	for n := 0; p.Status().Breaker == "closed"; n++ {
		if n > 5 {
			t.Fatal("it never opens")
		}
		fail()
	}
	asked := p.Stats().Wrong
	v, err := check(p, "permit")
	if wantNothing(t, v, err); !errors.Is(err, chain.ErrUnavailable) || !errors.Is(err, errOpen) {
		t.Fatalf("open: %v", err)
	}
	if after := chain.RetryAfter(err); after < 59*time.Minute || after > time.Hour {
		t.Errorf("the breaker is open for an hour, and callers are told to come back in %v", after)
	}
	if s := p.Stats(); s.Wrong != asked || s.Refused != 1 || s.BreakerOpen != 1 {
		t.Errorf("counters: %+v", s)
	}
	p.Resume()
	if v, err := check(p, "permit"); err != nil || v.Effect != sdk.Permit {
		t.Fatalf("after Resume: %+v, %v", v, err)
	}
}

// TestUnready: a plugin that says it cannot serve is not asked, and not killed.
func TestUnready(t *testing.T) {
	changes := make(chan Change, 100)
	p := loaded(t, guestSpec("stock"), Options{Notify: func(c Change) { changes <- c }}, generous)
	if _, err := check(p, "unready"); err != nil {
		t.Fatal(err)
	}
	until(t, "it is unready", func() bool { return p.Status().State == StateUnready })
	v, err := check(p, "permit")
	if wantNothing(t, v, err); !errors.Is(err, chain.ErrUnavailable) || !strings.Contains(err.Error(), "(unready)") ||
		strings.Contains(err.Error(), "directory") {
		t.Errorf("unready: %v", err)
	}
	if s := p.Status(); s.Detail != "not serving" || s.Words != "the directory is away" {
		t.Errorf("for operators: %+v", s)
	}
	if s := p.Stats(); s.Crashes != 0 || s.Starts != 1 {
		t.Errorf("counters: %+v", s)
	}
	for c := range changes {
		if c.To == StateUnready {
			if c.From != supervise.StateReady || c.Reason != "not serving" {
				t.Errorf("change: %+v", c)
			}
			break
		}
	}
}

// TestWedged: a plugin that stands still is noticed by its silence and started anew.
func TestWedged(t *testing.T) {
	if testing.Short() {
		t.Skip("takes three intervals of the health stream")
	}
	p := loaded(t, guestSpec("stock"), Options{}, with(func(s *Spec) { s.Timeout = 100 * time.Millisecond }))
	v, err := check(p, "freeze")
	wantNothing(t, v, err)
	until(t, "it is started anew", func() bool {
		return p.Stats().Starts >= 2 && p.Status().State == supervise.StateReady
	})
	until(t, "it answers", func() bool { _, err := check(p, "permit"); return err == nil })
}

// TestGrandchild: what a plugin started is gone after Close, though it held the plugin's pipes.
func TestGrandchild(t *testing.T) {
	s := guestSpec("stock")
	s.Unconfined = true // inside, it could start nothing
	p := loaded(t, s, Options{}, generous)
	v, err := check(p, "spawn")
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(v.Reason)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	until(t, "the grandchild is gone", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(b), ") Z ") || unix.Kill(pid, 0) != nil
	})
}

// TestPrints: what a plugin prints goes to the log, at a bounded rate, and does not stop it.
func TestPrints(t *testing.T) {
	var mu sync.Mutex
	lines := map[string]int{}
	o := Options{Log: func(_ string, level int, line string) {
		mu.Lock()
		defer mu.Unlock()
		lines[fmt.Sprint(level, line[:1])]++
	}}
	p := loaded(t, guestSpec("stock"), o, generous)
	for range 3 {
		if _, err := check(p, "print"); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if lines["1o"] == 0 || lines["1p"] == 0 || lines["1o"]+lines["1p"] > 3*4096 {
		t.Errorf("lines: %v", lines)
	}
}

// TestCache: answers are kept for calls that are the same in the declared fields, and not beyond the plugin's life.
func TestCache(t *testing.T) {
	p := loaded(t, guestSpec("stock"), Options{}, with(func(s *Spec) { s.Cache = Cache{Entries: 8} }))
	ask := func(id, args string) string {
		t.Helper()
		c := tool(id)
		c.Args = object(t, args)
		v, err := p.Check(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		return v.Reason
	}
	first := ask("count", `{"to":"a","n":1}`)
	if again := ask("count", `{"n":2,"to":"a"}`); again != first {
		t.Errorf("not kept: %s, then %s", first, again)
	}
	for _, args := range []string{`{"to":"b"}`, `{"to":null}`, `{"to":""}`, `{}`, ``} {
		if other := ask("count", args); other == first {
			t.Errorf("%s got the answer of another call", args)
		}
	}
	for _, id := range []string{"count/defer", "count/nottl"} {
		if one, two := ask(id, "{}"), ask(id, "{}"); one == two {
			t.Errorf("%s was kept", id)
		}
	}
	if _, err := check(p, "crash"); err == nil {
		t.Error("no error of a crash")
	}
	until(t, "it is back", func() bool { _, err := check(p, "permit"); return err == nil })
	if misses := p.Stats().CacheMisses; ask("count", `{"to":"a","n":1}`) == "" || p.Stats().CacheMisses != misses+1 {
		t.Error("kept beyond the life of the plugin that said it")
	}
}

// TestClose: what is in flight is answered, what comes later is refused.
func TestClose(t *testing.T) {
	modes(t, func(t *testing.T, mode string) {
		p := loaded(t, guestSpec(mode), Options{}, generous)
		got := make(chan error, 1)
		go func() { _, err := check(p, "wait/300ms"); got <- err }()
		until(t, "in flight", func() bool { return p.Status().InFlight == 1 && p.places.InUse() == 1 })
		closed := make(chan error, 1)
		go func() { closed <- p.Close(context.Background()) }()
		<-p.closing
		v, err := check(p, "permit")
		if wantNothing(t, v, err); !errors.Is(err, chain.ErrUnavailable) {
			t.Errorf("while closing: %v", err)
		}
		if err := <-got; err != nil {
			t.Errorf("in flight: %v", err)
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if s := p.Status(); s.State != supervise.StateStopped {
			t.Errorf("status: %+v", s)
		}
	})
}

// TestCloseOfABusyOne: DrainTimeout bounds what is waited for.
func TestCloseOfABusyOne(t *testing.T) {
	p := loaded(t, guestSpec("stock"), Options{}, with(func(s *Spec) { s.DrainTimeout = 50 * time.Millisecond }))
	got := make(chan error, 1)
	go func() { _, err := check(p, "silent"); got <- err }()
	until(t, "in flight", func() bool { return p.Status().InFlight == 1 })
	if err := p.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-got; err == nil {
		t.Error("a verdict")
	}
}
