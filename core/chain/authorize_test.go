package chain_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
)

// says is a step that always answers the same.
type says struct {
	v   sdk.Verdict
	err error
}

func (s says) Check(context.Context, *chain.Call) (sdk.Verdict, error) { return s.v, s.err }

// steady is a clock that does not move.
func steady() time.Time { return time.Unix(1_700_000_000, 0) }

func step(name string, effect sdk.Effect) chain.Step {
	s := chain.Step{Name: name, Inline: true, OnError: sdk.Deny,
		Checker: says{v: sdk.Verdict{Effect: effect, Code: "BY_" + name}}}
	if effect == sdk.Abstain {
		s.Checker = says{}
	}
	return s
}

func fails(name string, onError sdk.Effect) chain.Step {
	return chain.Step{Name: name, OnError: onError,
		Checker: says{v: sdk.Verdict{Effect: sdk.Permit, Code: "IGNORED"}, err: errors.New("broken")}}
}

// halfway ends with an error while it looks at something of that effect.
// halfway are rules that could not be looked at to their end.
func halfway(name string, at, onError sdk.Effect) chain.Step {
	s := wrong(name, at, onError)
	s.Inline = true
	return s
}

// wrong is somebody else's code that gave a verdict which breaks a rule.
func wrong(name string, at, onError sdk.Effect) chain.Step {
	return chain.Step{Name: name, OnError: onError, Checker: says{v: sdk.Verdict{Effect: at}, err: errors.New("broken")}}
}

func shadow(s chain.Step) chain.Step { s.Shadow = true; return s }

func run(def sdk.Effect, steps ...chain.Step) chain.Result {
	a := &chain.Authorizer{Steps: steps, Budget: time.Minute, Default: def, Now: steady}
	return a.Run(context.Background(), &chain.Call{ToolID: "files/read", AgentID: "agent"}, nil)
}

func TestLattice(t *testing.T) {
	a, p, d, n := step("a", sdk.Abstain), step("p", sdk.Permit), step("d", sdk.Defer), step("n", sdk.Deny)
	odd := step("odd", sdk.Effect(9))
	mute := chain.Step{Name: "mute", OnError: sdk.Deny, Checker: says{v: sdk.Verdict{Effect: sdk.Permit}}}
	elsewhere := step("elsewhere", sdk.Deny)
	elsewhere.Match = chain.Match{Tools: []string{"payments/**"}}
	for _, c := range []struct {
		name  string
		def   sdk.Effect
		steps []chain.Step
		want  string
		rows  int
	}{
		{"no steps", sdk.Deny, nil, "DENY UNMATCHED_DENY", 0},
		{"no steps, no default", sdk.Abstain, nil, "DENY UNMATCHED_DENY", 0},
		{"odd default", sdk.Effect(9), nil, "DENY UNMATCHED_DENY", 0},
		{"default permit", sdk.Permit, []chain.Step{a}, "PERMIT UNMATCHED_PERMIT", 1},
		{"default defer", sdk.Defer, []chain.Step{a}, "DEFER UNMATCHED_DEFER", 1},
		{"a verdict beats the default", sdk.Permit, []chain.Step{d}, "DEFER BY_d", 1},
		{"permit", sdk.Deny, []chain.Step{a, p}, "PERMIT BY_p", 2},
		{"defer over permit", sdk.Deny, []chain.Step{p, d, p}, "DEFER BY_d", 3},
		{"deny ends it", sdk.Deny, []chain.Step{p, n, d}, "DENY BY_n", 2},
		{"the first of the winners speaks", sdk.Deny, []chain.Step{p, step("d1", sdk.Defer), step("d2", sdk.Defer)}, "DEFER BY_d1", 3},
		{"a shadow changes nothing", sdk.Deny, []chain.Step{shadow(n), p, shadow(d)}, "PERMIT BY_p", 3},
		{"a shadow permits nothing", sdk.Deny, []chain.Step{shadow(p)}, "DENY UNMATCHED_DENY", 1},
		{"a failing shadow changes nothing", sdk.Deny, []chain.Step{shadow(fails("f", sdk.Deny)), p}, "PERMIT BY_p", 2},
		{"a step for another tool", sdk.Deny, []chain.Step{elsewhere, p}, "PERMIT BY_p", 1},
		{"on_error deny", sdk.Deny, []chain.Step{p, fails("f", sdk.Deny), d}, "DENY STEP_ERROR", 2},
		{"on_error loosens no deny that was looked at", sdk.Deny, []chain.Step{p, halfway("h", sdk.Deny, sdk.Abstain)}, "DENY STEP_ERROR", 2},
		{"on_error loosens no defer that was looked at", sdk.Deny, []chain.Step{p, halfway("h", sdk.Defer, sdk.Abstain)}, "DEFER STEP_ERROR", 2},
		{"on_error tightens a defer that was looked at", sdk.Deny, []chain.Step{p, halfway("h", sdk.Defer, sdk.Deny)}, "DENY STEP_ERROR", 2},
		{"an invalid deny stays one", sdk.Deny, []chain.Step{p, wrong("w", sdk.Deny, sdk.Abstain)}, "DENY STEP_ERROR", 2},
		{"an invalid deny stays one where errors defer", sdk.Deny, []chain.Step{p, wrong("w", sdk.Deny, sdk.Defer)}, "DENY STEP_ERROR", 2},
		{"an invalid defer is a deny", sdk.Deny, []chain.Step{p, wrong("w", sdk.Defer, sdk.Abstain)}, "DENY STEP_ERROR", 2},
		{"an invalid defer where errors defer", sdk.Deny, []chain.Step{p, wrong("w", sdk.Defer, sdk.Defer)}, "DEFER STEP_ERROR", 2},
		{"an invalid permit is an error", sdk.Deny, []chain.Step{p, wrong("w", sdk.Permit, sdk.Abstain)}, "PERMIT BY_p", 2},
		{"a permit with an error is none", sdk.Deny, []chain.Step{halfway("h", sdk.Permit, sdk.Abstain)}, "DENY UNMATCHED_DENY", 1},
		{"on_error defer", sdk.Deny, []chain.Step{p, fails("f", sdk.Defer)}, "DEFER STEP_ERROR", 2},
		{"on_error abstain", sdk.Deny, []chain.Step{fails("f", sdk.Abstain), p}, "PERMIT BY_p", 2},
		{"on_error abstain alone", sdk.Deny, []chain.Step{fails("f", sdk.Abstain)}, "DENY UNMATCHED_DENY", 1},
		{"on_error permit is deny", sdk.Permit, []chain.Step{fails("f", sdk.Permit)}, "DENY STEP_ERROR", 1},
		{"odd on_error is deny", sdk.Permit, []chain.Step{fails("f", sdk.Effect(9))}, "DENY STEP_ERROR", 1},
		{"an unknown effect is an error", sdk.Permit, []chain.Step{p, odd}, "DENY STEP_ERROR", 2},
		{"a permit without a code is an error", sdk.Permit, []chain.Step{mute}, "DENY STEP_ERROR", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			res := run(c.def, c.steps...)
			if got := res.Verdict.Effect.String() + " " + res.Verdict.Code; got != c.want || len(res.Rows) != c.rows {
				t.Errorf("got %s with %d rows, want %s with %d", got, len(res.Rows), c.want, c.rows)
			}
			for _, r := range res.Rows {
				if _, broken := r.Step.Checker.(says); broken && r.Step.Checker.(says).err != nil && r.Err == nil {
					t.Errorf("step %s failed and its row does not say so", r.Step.Name)
				}
			}
		})
	}
}

func TestErrorCodes(t *testing.T) {
	for want, err := range map[string]error{
		sdk.ReasonStepTimeout:     fmt.Errorf("in it: %w", context.DeadlineExceeded),
		sdk.ReasonStepUnavailable: fmt.Errorf("pool: %w", chain.ErrUnavailable), sdk.ReasonStepError: errors.New("trap"),
	} {
		s := chain.Step{Name: "s", OnError: sdk.Deny, Checker: says{err: err}}
		if got := run(sdk.Permit, s).Verdict; got.Effect != sdk.Deny || got.Code != want {
			t.Errorf("%v: got %v %s, want %s", err, got.Effect, got.Code, want)
		}
	}
}

// The order of steps changes what it costs, never the effect, nor how many approvals it takes.
func TestOrderNeverChangesTheEffect(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	effects := []sdk.Effect{sdk.Abstain, sdk.Permit, sdk.Defer, sdk.Deny}
	for range 2000 {
		var steps []chain.Step
		for i := range 1 + rng.IntN(6) {
			s := step(fmt.Sprint(i), effects[rng.IntN(3+rng.IntN(2))])
			if says, ok := s.Checker.(says); ok && says.v.Effect == sdk.Defer {
				says.v.Approvals = rng.IntN(4)
				s.Checker = says
			}
			if rng.IntN(5) == 0 {
				s = fails(s.Name, effects[rng.IntN(4)])
			}
			s.Shadow = rng.IntN(6) == 0
			steps = append(steps, s)
		}
		def := effects[rng.IntN(4)]
		want := run(def, steps...).Verdict
		for range 5 {
			rng.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
			if got := run(def, steps...).Verdict; got.Effect != want.Effect || max(got.Approvals, 1) != max(want.Approvals, 1) {
				t.Fatalf("another order: %v with %d approvals, before %v with %d", got.Effect, got.Approvals, want.Effect,
					want.Approvals)
			}
		}
	}
}

// waits is a step that takes as long as it is given.
type waits struct{ deadline *time.Time }

func (w waits) Check(ctx context.Context, _ *chain.Call) (sdk.Verdict, error) {
	*w.deadline, _ = ctx.Deadline()
	<-ctx.Done()
	return sdk.Verdict{Effect: sdk.Permit, Code: "LATE"}, ctx.Err()
}

func TestBudget(t *testing.T) {
	t.Run("a step gets the sooner of its timeout and what is left", func(t *testing.T) {
		for _, c := range []struct{ timeout, budget, want time.Duration }{{0, time.Second, time.Second},
			{time.Hour, time.Second, time.Second}, {time.Second, time.Hour, time.Second}} {
			past := time.Unix(1000, 0) // so that deadlines are over when they are made
			var got time.Time
			a := &chain.Authorizer{Budget: c.budget, Default: sdk.Permit, Now: func() time.Time {
				return past
			}, Steps: []chain.Step{{Name: "w", Timeout: c.timeout, OnError: sdk.Deny, Checker: waits{&got}}}}
			if res := a.Run(context.Background(), &chain.Call{}, nil); res.Verdict.Code != sdk.ReasonStepTimeout ||
				res.Verdict.Effect != sdk.Deny {
				t.Errorf("%+v: %+v", c, res.Verdict)
			}
			if want := past.Add(c.want); !got.Equal(want) {
				t.Errorf("%+v: deadline %v, want %v", c, got, want)
			}
		}
	})
	t.Run("what does not fit does not run, and says so", func(t *testing.T) {
		now := steady()
		slow := chain.Step{Name: "slow", Inline: true, OnError: sdk.Deny,
			Checker: does(func() { now = now.Add(time.Second) })}
		for _, onError := range []sdk.Effect{sdk.Deny, sdk.Defer, sdk.Abstain} {
			never := chain.Step{Name: "never", Inline: true, OnError: onError, Checker: does(func() { t.Error("it ran") })}
			a := &chain.Authorizer{Budget: time.Second, Now: func() time.Time { return now }, Steps: []chain.Step{slow, never}}
			res := a.Run(context.Background(), &chain.Call{}, nil)
			want := onError
			if onError == sdk.Abstain {
				want = sdk.Permit // slow's
			}
			if res.Verdict.Effect != want || len(res.Rows) != 2 || res.Rows[1].Err == nil ||
				chain.CodeOf(res.Rows[1].Err) != sdk.ReasonStepTimeout {
				t.Errorf("on_error %v: %+v", onError, res)
			}
		}
	})
	t.Run("a caller that is gone permits nothing", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		a := &chain.Authorizer{Budget: time.Second, Now: steady, Default: sdk.Permit,
			Steps: []chain.Step{step("p", sdk.Permit)}}
		if res := a.Run(ctx, &chain.Call{}, nil); res.Verdict.Effect != sdk.Deny {
			t.Errorf("%+v", res.Verdict)
		}
	})
}

// does permits after doing something.
type does func()

func (d does) Check(context.Context, *chain.Call) (sdk.Verdict, error) {
	d()
	return sdk.Verdict{Effect: sdk.Permit, Code: "DONE"}, nil
}

// Rows of an earlier call in the reused slice never show in a later one.
func TestRowsAreReused(t *testing.T) {
	a := &chain.Authorizer{Budget: time.Minute, Now: steady, Steps: []chain.Step{step("n", sdk.Deny)}}
	first := a.Run(context.Background(), &chain.Call{}, make([]chain.Row, 3, 8))
	if len(first.Rows) != 1 || first.Rows[0].Step.Name != "n" {
		t.Errorf("%+v", first.Rows)
	}
}

// Whichever step speaks, each one that defers says which rule asks and how long the call may wait at most.
func TestEveryDeferCounts(t *testing.T) {
	defers := func(rule string, expires time.Duration) chain.Step {
		s := step(rule, sdk.Defer)
		s.Checker = says{v: sdk.Verdict{Effect: sdk.Defer, Code: "C", RuleID: rule, Approvals: 1, Expires: expires}}
		return s
	}
	long, short, usual := defers("long", time.Hour), defers("short", time.Second), defers("usual", 0)
	nameless := step("nameless", sdk.Defer)
	for _, c := range []struct {
		name    string
		steps   []chain.Step
		rules   []string
		expires time.Duration
		usual   bool
	}{
		{"one", []chain.Step{long}, []string{"long"}, time.Hour, false},
		{"the shortest first", []chain.Step{short, long}, []string{"short", "long"}, time.Second, false},
		{"the shortest last", []chain.Step{long, step("p", sdk.Permit), short}, []string{"long", "short"}, time.Second, false},
		{"one that names none, first", []chain.Step{usual, long}, []string{"usual", "long"}, time.Hour, true},
		{"one that names none, last", []chain.Step{long, usual}, []string{"long", "usual"}, time.Hour, true},
		{"none names any", []chain.Step{usual}, []string{"usual"}, 0, true},
		{"a shadow counts for nothing", []chain.Step{long, shadow(short)}, []string{"long"}, time.Hour, false},
		{"behind a permit", []chain.Step{step("p", sdk.Permit), long}, []string{"long"}, time.Hour, false},
		{"one without a rule", []chain.Step{nameless}, []string{"step nameless"}, 0, true},
		{"the chain's own", []chain.Step{step("a", sdk.Abstain)}, []string{""}, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			res := run(sdk.Defer, c.steps...)
			var rules []string
			for _, q := range res.Quorums {
				rules = append(rules, q.Rule)
			}
			if !slices.Equal(rules, c.rules) || res.Verdict.Expires != c.expires || res.Usual != c.usual {
				t.Errorf("got rules %q, %v, usual %v; want %q, %v, %v", rules, res.Verdict.Expires, res.Usual, c.rules, c.expires,
					c.usual)
			}
		})
	}
	if res := run(sdk.Deny, long, usual, step("n", sdk.Deny)); res.Usual || res.Quorums != nil {
		t.Errorf("a denied call asks for %+v", res)
	}
}

// hangs is a scanner that takes an hour of the clock for every text, and finds nothing.
type hangs struct{ clock *time.Time }

func (h hangs) Scan(context.Context, *chain.Input) ([]sdk.Finding, error) {
	*h.clock = h.clock.Add(time.Hour)
	return nil, nil
}
func (hangs) About() chain.About { return chain.About{} }

// A scanner that hangs while it masks what a step says takes no time of the steps behind it.
func TestMaskingTakesNoTimeOfSteps(t *testing.T) {
	clock := steady()
	words := chain.Step{Name: "words", OnError: sdk.Deny,
		Checker: says{v: sdk.Verdict{Effect: sdk.Permit, Code: "P", Reason: "why", Message: "what", RuleID: "which"}}}
	for name, last := range map[string]chain.Step{
		"a module":  {Name: "last", OnError: sdk.Deny, Checker: says{v: sdk.Verdict{Effect: sdk.Permit, Code: "P"}}},
		"a process": {Name: "last", Beside: true, OnError: sdk.Deny, Checker: says{v: sdk.Verdict{Effect: sdk.Permit, Code: "P"}}},
		"rules":     step("last", sdk.Permit),
	} {
		now := func() time.Time { return clock }
		a := &chain.Authorizer{Steps: []chain.Step{words, last}, Budget: time.Minute, Default: sdk.Deny, Now: now,
			Said: &chain.ScanChain{Budget: time.Minute, Now: now,
				Steps: []chain.ScanStep{{Name: "hangs", OnError: sdk.Deny, Scanner: hangs{&clock}}}}}
		res := a.Run(context.Background(), &chain.Call{ToolID: "files/read", AgentID: "agent"}, nil)
		if res.Verdict.Effect != sdk.Permit {
			t.Errorf("%s behind it: %v", name, res.Verdict)
		}
	}
}

// stutters is a scanner that fails at once, and takes an hour of the clock to mask what it has said then.
type stutters struct{ clock *time.Time }

func (s stutters) Scan(_ context.Context, in *chain.Input) ([]sdk.Finding, error) {
	if in.Masking {
		*s.clock = s.clock.Add(time.Hour)
	}
	return nil, &chain.Spoken{Err: errors.New("it failed"), Words: "why"}
}
func (stutters) About() chain.About { return chain.About{} }

// quiet finds nothing.
type quiet struct{}

func (quiet) Scan(context.Context, *chain.Input) ([]sdk.Finding, error) { return nil, nil }
func (quiet) About() chain.About                                        { return chain.About{} }

// Nor does it take time of the scanners behind one that fails.
func TestMaskingTakesNoTimeOfScanners(t *testing.T) {
	clock := steady()
	c := &chain.ScanChain{Budget: time.Minute, Now: func() time.Time { return clock },
		Steps: []chain.ScanStep{{Name: "stutters", OnError: sdk.Abstain, Scanner: stutters{&clock}},
			{Name: "quiet", OnError: sdk.Deny, Scanner: quiet{}}}}
	in := &chain.Input{Text: "text", ToolID: "t", AgentID: "a"}
	if res := c.Run(context.Background(), in); res.Outcome != chain.Pass {
		t.Errorf("at once: %s %s", res.Outcome, res.Reason)
	}
	if _, res := c.NewStream(in, 1<<10).Next(context.Background(), in.Text, true); res.Outcome != chain.Pass {
		t.Errorf("in a stream: %s %s", res.Outcome, res.Reason)
	}
}
