package rules

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
)

// twice is a condition that reads the whole of an agent's list for each of its elements.
const twice = `args.items.exists(x, args.items.exists(y, x.id != y.id && x.iban == y.iban))`

func items(n int) string {
	var b strings.Builder
	b.WriteString(`{"items":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":%d,"iban":"DE%020d"}`, i, i)
	}
	b.WriteString(`]}`)
	return b.String()
}

// ticking is a clock that moves by one with each look, and what a chain gives the calls of a key.
type ticking struct {
	looks        int64
	taken, given int
	refuse       error
}

func (c *ticking) now() time.Time { c.looks++; return time.Unix(c.looks, 0) }

func (c *ticking) Take(_ context.Context, key string, _ time.Time) error {
	if c.refuse != nil {
		return c.refuse
	}
	if c.taken++; key != "key_1" {
		panic("a place for " + key)
	}
	return nil
}

func (c *ticking) Give(string) { c.given++ }

func (c *ticking) call(t *testing.T, args string, looks int64) *chain.Call {
	call := callWith(t, args)
	call.Bound = chain.Bound{Places: c, Key: "key_1", Now: c.now, End: time.Unix(looks, 0)}
	// the metered conditions' context is that of a real clock, and must not end the test's
	call.Bound.End = call.Bound.End.AddDate(100, 0, 0)
	return call
}

// Each of many conditions is within its own bounds. Together they end when the step's time is over, and then nothing is
// permitted.
func TestConditionsEndWithTheStepsTime(t *testing.T) {
	var list []Rule
	for i := range 4 {
		list = append(list, Rule{ID: fmt.Sprint("twice", i), When: fmt.Sprintf("%s && args.items.size() > %d", twice, i),
			Effect: sdk.Deny})
	}
	list = append(list, Rule{ID: "rest", Effect: sdk.Permit})
	s, err := Compile(list)
	if err != nil {
		t.Fatal(err)
	}
	clock := &ticking{}
	if v, err := s.Check(t.Context(), clock.call(t, items(100), 0)); err != nil || v.Effect != sdk.Permit {
		t.Fatalf("with time enough: %+v, %v", v, err)
	}
	all := clock.looks
	if all < 20 || clock.taken != 1 || clock.given != 1 {
		t.Fatalf("%d looks, %d places taken, %d given back", all, clock.taken, clock.given)
	}
	for n := int64(1); n <= all; n += max(all/20, 1) {
		clock := &ticking{}
		call := clock.call(t, items(100), 0)
		call.Bound.Now = func() time.Time {
			if clock.now().Unix() >= n {
				return call.Bound.End
			}
			return time.Unix(0, 0)
		}
		v, err := s.Check(t.Context(), call)
		if !errors.Is(err, context.DeadlineExceeded) || v.Effect == sdk.Permit {
			t.Fatalf("time over at look %d of %d: %+v, %v", n, all, v, err)
		}
		if clock.taken != clock.given {
			t.Fatalf("time over at look %d: %d places taken, %d given back", n, clock.taken, clock.given)
		}
	}
}

// What is beside the error is no looser than the rule that was looked at.
func TestWhatEndsWithoutTime(t *testing.T) {
	rate := []Rate{{Limit: 1, Window: time.Minute, Per: "key"}}
	for _, c := range []struct {
		rule Rule
		want sdk.Effect
	}{
		{Rule{Effect: sdk.Permit}, sdk.Abstain},
		{Rule{Effect: sdk.Deny}, sdk.Deny},
		{Rule{Effect: sdk.Defer, Approvals: 2}, sdk.Defer},
		{Rule{Effect: sdk.Defer, Rates: rate}, sdk.Deny},
	} {
		c.rule.When = twice
		s := compileOne(t, c.rule)
		call := (&ticking{}).call(t, items(100), 0)
		call.Bound.Now = func() time.Time { return call.Bound.End }
		v, err := s.Check(t.Context(), call)
		if !errors.Is(err, context.DeadlineExceeded) || v.Effect != c.want || v.Approvals != c.rule.Approvals ||
			v.Code != "" {
			t.Errorf("%v: %+v, %v", c.rule.Effect, v, err)
		}
		if got := s.Explain(t.Context(), call); !errors.Is(got.Err, context.DeadlineExceeded) ||
			got.Verdict.Effect != c.want {
			t.Errorf("%v, explained: %+v", c.rule.Effect, got)
		}
	}
}

// The usual check asks for nothing; one that works on takes a place, and one that gets none decides nothing.
func TestDearConditionsTakeAPlace(t *testing.T) {
	loop := compileOne(t, Rule{When: twice + " || true", Effect: sdk.Permit})
	quick := compileOne(t, Rule{When: `args.amount < 5 && args.s.contains("a")`, Effect: sdk.Permit})
	clock := &ticking{}
	if v, err := quick.Check(t.Context(), clock.call(t, `{"amount":1,"s":"`+strings.Repeat("a", 4000)+`"}`, 0)); err !=
		nil || v.Effect != sdk.Permit || clock.looks+int64(clock.taken) != 0 {
		t.Errorf("a quick one: %+v, %v, %+v", v, err, clock)
	}
	if v, err := loop.Check(t.Context(), clock.call(t, items(5), 0)); err != nil || v.Effect != sdk.Permit ||
		clock.taken != 0 {
		t.Errorf("a short list: %+v, %v, %+v", v, err, clock)
	}
	if v, err := loop.Check(t.Context(), clock.call(t, items(100), 0)); err != nil || v.Effect != sdk.Permit ||
		clock.taken != 1 || clock.given != 1 {
		t.Errorf("a long list: %+v, %v, %+v", v, err, clock)
	}
	if v, err := quick.Check(t.Context(), clock.call(t, `{"amount":1,"s":"`+strings.Repeat("a", 1<<20)+`"}`, 0)); err !=
		nil || v.Effect != sdk.Permit || clock.taken != 2 || clock.given != 2 {
		t.Errorf("a long text: %+v, %v, %+v", v, err, clock)
	}
	clock.refuse = context.DeadlineExceeded
	if v, err := loop.Check(t.Context(), clock.call(t, items(100), 0)); !errors.Is(err, context.DeadlineExceeded) ||
		v.Effect != sdk.Abstain || clock.given != 2 {
		t.Errorf("no place: %+v, %v, %+v", v, err, clock)
	}
}

// A list made by the condition itself is looped over without reading the call.
func TestLoopsThatReadNothingEnd(t *testing.T) {
	s := compileOne(t, Rule{When: `[args.l.map(x, x)].exists(l, l.exists(a, l.exists(b, a == b + 1000)))`,
		Effect: sdk.Permit})
	call := callWith(t, bigList(300))
	// only the context knows that this is over
	call.Bound = chain.Bound{Now: func() time.Time { return time.Time{} }, End: time.Unix(1, 0)}
	if v, err := s.Check(t.Context(), call); !errors.Is(err, context.DeadlineExceeded) || v.Effect != sdk.Abstain {
		t.Errorf("got %+v, %v", v, err)
	}
}

// Of standing grants there are many, so none works on without a place.
func TestMatchTakesAPlace(t *testing.T) {
	m, err := CompileMatch("!(" + twice + ")")
	if err != nil {
		t.Fatal(err)
	}
	clock := &ticking{}
	if !m.Holds(t.Context(), clock.call(t, items(3), 0)) || clock.taken != 1 || clock.given != 1 {
		t.Errorf("got %+v", clock)
	}
	clock.refuse = context.DeadlineExceeded
	if m.Holds(t.Context(), clock.call(t, items(3), 0)) {
		t.Error("it holds without a place")
	}
}
