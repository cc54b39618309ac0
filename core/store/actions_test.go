package store

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/sdk"
)

// submitted is a submission by that key whose chain says v.
func (r *rig) submitted(k *Key, args string, v sdk.Verdict) *Decide {
	c := r.call(k, args, v)
	c.Action = &NewAction{Action: ActionRow{ID: r.id("act_"), Tool: "tool", Params: `{}`, Context: `{}`, RequestHash: "h"}}
	c.CallID = c.Action.id()
	c.Names.Hashes = [][16]byte{{byte(r.n), byte(r.n >> 8), 'c'}}
	return c
}

func made(c *Decide) *ActionRow { return &c.Action.(*NewAction).Out }

// start is the start of an action; the chain says v.
func (r *rig) start(a *ActionRow, k *Key, args string, v sdk.Verdict) *Decide {
	c := r.call(k, args, v)
	c.Action, c.CallID = &StartAction{ID: a.ID}, a.ID
	if a.Status == ActionApproved {
		c.Redeem.Token = a.Token
	}
	return c
}

func (r *rig) read(k *Key, id string) *ActionRow {
	r.t.Helper()
	c := &ReadAction{Key: k, ID: id}
	r.must(c)
	return &c.Out
}

func TestActionFollowsItsDefer(t *testing.T) {
	for _, c := range []struct {
		name   string
		do     func(r *rig, k, boss *Key, a *ActionRow)
		status string
		reason string
		events int
	}{
		{"pending", func(*rig, *Key, *Key, *ActionRow) {}, ActionPending, "", 2},
		{"approved", func(r *rig, _, boss *Key, a *ActionRow) { r.must(r.answer(boss, a.Token, true)) }, ActionApproved, "", 3},
		{"denied", func(r *rig, _, boss *Key, a *ActionRow) { r.must(r.answer(boss, a.Token, false)) }, ActionDenied, "because", 3},
		{"expired", func(r *rig, _, _ *Key, _ *ActionRow) { r.clock.advance(5 * time.Minute) }, ActionDenied, ActionExpired, 3},
		{"approved and expired", func(r *rig, _, boss *Key, a *ActionRow) {
			r.must(r.answer(boss, a.Token, true))
			r.clock.advance(5 * time.Minute)
		}, ActionDenied, ActionExpired, 4},
		{"its approval was spent elsewhere", func(r *rig, k, boss *Key, a *ActionRow) {
			r.must(r.answer(boss, a.Token, true))
			r.must(r.redeem(k, "x", a.Token, sdk.Verdict{Effect: sdk.Defer}))
			r.refused(r.start(r.read(k, a.ID), k, "x", sdk.Verdict{Effect: sdk.Defer}), sdk.CodeConflict)
		}, ActionDenied, ActionSpent, 3},
	} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprint(c.name, restart), func(t *testing.T) {
				r := newRig(t)
				k, boss := r.key("asker", nil, "authorize"), r.key("boss", nil, "approve")
				d := r.submitted(k, "x", sdk.Verdict{Effect: sdk.Defer})
				r.must(d)
				c.do(r, k, boss, made(d))
				if restart {
					r.reopen()
				}
				a := r.read(r.s.Key("asker"), made(d).ID)
				if a.Status != c.status || a.Reason != c.reason && c.reason != "" || len(a.Events) != c.events {
					t.Errorf("%+v", a)
				}
				if a.Code != made(d).Code && a.Code != sdk.ReasonApprovalMismatch {
					t.Errorf("reason_code became %s", a.Code)
				}
			})
		}
	}
}

// TestNothingExecutesWithoutAPermit holds every way to start against the log: an executing action has a decision record
// with effect PERMIT in the same write.
func TestNothingExecutesWithoutAPermit(t *testing.T) {
	for _, v := range []sdk.Effect{sdk.Abstain, sdk.Permit, sdk.Defer, sdk.Deny, sdk.Effect(9)} {
		r := newRig(t)
		k := r.key("asker", nil, "authorize")
		d := r.submitted(k, "x", sdk.Verdict{Effect: sdk.Permit})
		r.must(d)
		before := r.s.Seq()
		c := r.start(made(d), k, "x", sdk.Verdict{Effect: v, Code: "C"})
		r.must(c)
		permits := 0
		rows, _, err := logOf(r.s)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows[before:] {
			if row.Type == "decision" && row.Effect == "PERMIT" {
				permits++
			}
		}
		a := r.read(k, made(d).ID)
		if (a.Status == ActionExecuting) != (permits == 1) || (a.Status == ActionExecuting) != (v == sdk.Permit) {
			t.Errorf("a start whose chain says %v: %s with %d permits", v, a.Status, permits)
		}
	}
}

func TestStartWantsTheSameCall(t *testing.T) {
	r := newRig(t)
	k, other := r.key("asker", nil, "authorize"), r.key("other", nil, "authorize")
	d := r.submitted(k, "x", sdk.Verdict{Effect: sdk.Permit})
	r.must(d)
	r.refused(r.start(made(d), k, "y", sdk.Verdict{Effect: sdk.Permit}), sdk.CodeInternal)
	r.refused(r.start(made(d), other, "x", sdk.Verdict{Effect: sdk.Permit}), sdk.CodeUnknownAction)
	if a := r.read(k, made(d).ID); a.Status != ActionAllowed {
		t.Errorf("%+v", a)
	}
	r.must(r.start(made(d), k, "x", sdk.Verdict{Effect: sdk.Permit}))
	r.refused(&FinishAction{Key: other, ID: made(d).ID, Result: ActionResult{Success: true}}, sdk.CodeUnknownAction)
	r.must(&FinishAction{Key: k, ID: made(d).ID, Result: ActionResult{Success: true, Value: "1"}})
	r.refused(&FinishAction{Key: k, ID: made(d).ID}, sdk.CodeConflict)
	r.reopen()
	if a := r.read(r.s.Key("asker"), made(d).ID); a.Status != ActionSucceeded || a.Result.Value != "1" ||
		a.Params != `{}` {
		t.Errorf("%+v", a)
	}
}

func TestActionPageIsBounded(t *testing.T) {
	r := newRig(t)
	k := r.key("asker", nil, "authorize")
	large := `{"p":"` + strings.Repeat("x", 3<<20) + `"}`
	for i := range 5 {
		d := r.submitted(k, fmt.Sprint(i), sdk.Verdict{Effect: sdk.Permit})
		d.Action.(*NewAction).Action.Params = large
		r.must(d)
	}
	seen, before := 0, ""
	for pages := 0; ; pages++ {
		page, next, err := r.s.Actions(context.Background(), &ActionQuery{Limit: 1000, Before: before, Sees: k.Sees})
		if err != nil {
			t.Fatal(err)
		}
		seen += len(page)
		if len(page) > 2 {
			t.Errorf("a page of %d actions", len(page))
		}
		if before = next; next == "" {
			break
		}
	}
	if seen != 5 {
		t.Errorf("by pages %d actions, want 5", seen)
	}
}
