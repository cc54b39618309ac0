package chain_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
)

func beside(s chain.Step) chain.Step { s.Beside, s.Inline = true, false; return s }

// asks is a step that does as it is told.
type asks func(ctx context.Context) (sdk.Verdict, error)

func (f asks) Check(ctx context.Context, _ *chain.Call) (sdk.Verdict, error) { return f(ctx) }

func names(rows []chain.Row) string {
	var all []string
	for _, r := range rows {
		all = append(all, r.Step.Name)
	}
	return strings.Join(all, " ")
}

func TestBeside(t *testing.T) {
	a, p, d, n := step("a", sdk.Abstain), step("p", sdk.Permit), step("d", sdk.Defer), step("n", sdk.Deny)
	elsewhere := beside(step("elsewhere", sdk.Deny))
	elsewhere.Match = chain.Match{Tools: []string{"payments/**"}}
	for _, c := range []struct {
		name       string
		steps      []chain.Step
		want, rows string
	}{
		{"alone", []chain.Step{beside(p)}, "PERMIT BY_p", "p"},
		{"a deny in this process comes first", []chain.Step{beside(p), a, n, d}, "DENY BY_n", "a n"},
		{"rows are in list order", []chain.Step{beside(a), d, beside(p), p}, "DEFER BY_d", "a d p p"},
		{"the first of the winners speaks", []chain.Step{beside(step("d1", sdk.Defer)), d, beside(step("d2", sdk.Defer))}, "DEFER BY_d1", "d1 d d2"},
		{"behind a deny no row", []chain.Step{beside(p), beside(n), beside(step("n2", sdk.Deny)), beside(d)}, "DENY BY_n", "p n"},
		{"what is in this process keeps its row", []chain.Step{beside(n), p, beside(d)}, "DENY BY_n", "n p"},
		{"a shadow ends nothing", []chain.Step{shadow(beside(n)), beside(p)}, "PERMIT BY_p", "n p"},
		{"on_error deny", []chain.Step{beside(p), beside(fails("f", sdk.Deny)), beside(d)}, "DENY STEP_ERROR", "p f"},
		{"on_error abstain", []chain.Step{beside(p), beside(fails("f", sdk.Abstain)), beside(d)}, "DEFER BY_d", "p f d"},
		{"for another tool", []chain.Step{elsewhere, beside(p), elsewhere}, "PERMIT BY_p", "p"},
		{"only for another tool", []chain.Step{elsewhere, p}, "PERMIT BY_p", "p"},
	} {
		t.Run(c.name, func(t *testing.T) {
			res := run(sdk.Deny, c.steps...)
			if got := res.Verdict.Effect.String() + " " + res.Verdict.Code; got != c.want || names(res.Rows) != c.rows {
				t.Errorf("got %s of %s, want %s of %s", got, names(res.Rows), c.want, c.rows)
			}
		})
	}
}

// Each waits until all have been asked: one after the other none would ever answer.
func TestBesideAsksAtOnce(t *testing.T) {
	const n = 8
	var inside sync.WaitGroup
	inside.Add(n)
	var steps []chain.Step
	for i := range n {
		steps = append(steps, chain.Step{Name: fmt.Sprint(i), Beside: true, OnError: sdk.Deny,
			Checker: asks(func(context.Context) (sdk.Verdict, error) {
				inside.Done()
				inside.Wait()
				return sdk.Verdict{Effect: sdk.Permit, Code: "MET"}, nil
			})})
	}
	if res := run(sdk.Deny, steps...); res.Verdict.Code != "MET" || len(res.Rows) != n {
		t.Errorf("%+v", res)
	}
}

// What is said does not depend on who answers first, and after a deny nobody is waited for.
func TestBesideIsDeterministic(t *testing.T) {
	late, inside := make(chan struct{}), atomic.Int32{}
	hangs := chain.Step{Name: "hangs", Beside: true, OnError: sdk.Deny,
		Checker: asks(func(ctx context.Context) (sdk.Verdict, error) {
			inside.Add(1)
			defer inside.Add(-1)
			<-ctx.Done()
			return sdk.Verdict{}, ctx.Err()
		})}
	first := chain.Step{Name: "first", Beside: true, OnError: sdk.Deny,
		Checker: asks(func(context.Context) (sdk.Verdict, error) {
			<-late
			return sdk.Verdict{Effect: sdk.Deny, Code: "FIRST"}, nil
		})}
	second := chain.Step{Name: "second", Beside: true, OnError: sdk.Deny,
		Checker: asks(func(context.Context) (sdk.Verdict, error) {
			defer close(late)
			return sdk.Verdict{Effect: sdk.Deny, Code: "SECOND"}, nil
		})}
	a := &chain.Authorizer{Steps: []chain.Step{beside(step("p", sdk.Permit)), first, second, hangs, hangs},
		Budget: time.Hour, Default: sdk.Deny, Now: time.Now}
	res := a.Run(context.Background(), &chain.Call{}, nil)
	if res.Verdict.Code != "FIRST" || names(res.Rows) != "p first" {
		t.Errorf("%s of %s", res.Verdict.Code, names(res.Rows))
	}
	if n := inside.Load(); n != 0 {
		t.Errorf("%d have not returned, and they read the call", n)
	}
}

func TestBesideWithoutTime(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	a := &chain.Authorizer{Steps: []chain.Step{beside(step("p", sdk.Permit)), beside(step("q", sdk.Permit))},
		Budget: time.Hour, Default: sdk.Permit, Now: time.Now}
	if res := a.Run(ctx, &chain.Call{}, nil); res.Verdict.Effect != sdk.Deny ||
		!errors.Is(res.Rows[0].Err, context.Canceled) {
		t.Errorf("%+v", res)
	}
}

func TestBesidePanics(t *testing.T) {
	breaks := chain.Step{Name: "breaks", Beside: true, OnError: sdk.Deny,
		Checker: asks(func(context.Context) (sdk.Verdict, error) { panic("index out of range") })}
	for _, steps := range [][]chain.Step{{breaks}, {breaks, beside(step("p", sdk.Permit))},
		{beside(step("p", sdk.Permit)), breaks}} {
		res := run(sdk.Permit, steps...)
		if row := res.Rows[len(res.Rows)-1]; res.Verdict.Effect != sdk.Deny || res.Verdict.Code != sdk.ReasonStepError ||
			row.Err == nil || row.Step.Name != "breaks" {
			t.Errorf("%+v", res)
		}
	}
}

// Asking side by side changes what it costs, and as long as nobody denies not one word of what is said.
func TestBesideSaysTheSame(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 2))
	effects := []sdk.Effect{sdk.Abstain, sdk.Permit, sdk.Defer, sdk.Deny}
	for range 2000 {
		var steps, mixed []chain.Step
		for i := range 1 + rng.IntN(6) {
			s := step(fmt.Sprint(i), effects[rng.IntN(3+rng.IntN(2))])
			if rng.IntN(5) == 0 {
				s = fails(s.Name, effects[rng.IntN(4)])
			}
			s.Shadow = rng.IntN(6) == 0
			steps = append(steps, s)
			if rng.IntN(2) == 0 {
				s = beside(s)
			}
			mixed = append(mixed, s)
		}
		want, got := run(sdk.Deny, steps...), run(sdk.Deny, mixed...)
		if got.Verdict.Effect != want.Verdict.Effect || got.Verdict.Approvals != want.Verdict.Approvals {
			t.Fatalf("%+v, one after the other %+v", got.Verdict, want.Verdict)
		}
		if want.Verdict.Effect != sdk.Deny && (got.Verdict.Code != want.Verdict.Code || names(got.Rows) != names(want.Rows)) {
			t.Fatalf("%s of %s, one after the other %s of %s", got.Verdict.Code, names(got.Rows), want.Verdict.Code,
				names(want.Rows))
		}
	}
}
