package ops_test

import (
	"context"
	"slices"
	"testing"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
)

// path takes down the order of what happens to one request.
type path struct {
	ops.Store
	steps []string
}

func (p *path) TakeOff() { p.steps = append(p.steps, "takes off") }

func (p *path) Check(context.Context, *chain.Call) (sdk.Verdict, error) {
	p.steps = append(p.steps, "is checked")
	return sdk.Verdict{Effect: sdk.Permit, Code: "TEST"}, nil
}

func (p *path) Commit(ctx context.Context, cmd store.Command) error {
	if _, ok := cmd.(*store.Decide); ok {
		p.steps = append(p.steps, "is committed")
	}
	return p.Store.Commit(ctx, cmd)
}

// checkedBy has a checker decide every call.
func (b *bench) checkedBy(c chain.Checker) {
	a := *b.gen.Authorize
	a.Steps = []chain.Step{{Name: "tool", Inline: true, OnError: sdk.Deny, Checker: c}}
	b.swap(&a)
}

// request is an authorize request as a transport makes it.
func (b *bench) request(value, body string) *ops.Request {
	b.t.Helper()
	key, err := b.svc.KeyOf(value)
	if err != nil {
		b.t.Fatal(err)
	}
	var doc exact.Doc
	if err := doc.Parse(body, exact.DefaultLimits); err != nil {
		b.t.Fatal(err)
	}
	return &ops.Request{Ctx: context.Background(), Key: key,
		Who: store.Who{Principal: key.ID, Method: "api_key", Surface: "http"}, Start: b.now(), Body: doc.Root(), Raw: body}
}

// A kill waits for answers that may be PERMITs on their way. A call that a step still works on is none of them: its
// commit sees the kill, so a slow step keeps no kill waiting.
func TestCallsTakeOffBeforeTheirCommit(t *testing.T) {
	p := &path{}
	b := newBench(t, func(s ops.Store) ops.Store { p.Store = s; return p })
	b.checkedBy(p)
	bot := b.newKey("bot", "agent")
	for _, op := range []struct{ name, body string }{
		{"authorize", `{"agent_id":"bot","tool_id":"t"}`},
		{"govern", `{"agent_id":"bot","tool_id":"t"}`},
		{"evaluate", `{"agent_id":"bot","tool_id":"t"}`},
		{"action_submit", `{"agent_id":"bot","tool":"t"}`},
		{"gate_decide", `{"agent_id":"bot","tool":"t"}`},
	} {
		p.steps = nil
		r := b.request(bot.Value, op.body)
		r.Flight = p
		if _, err := b.svc.Run(opNamed(t, op.name), r); err != nil {
			t.Fatal(err)
		}
		if want := []string{"is checked", "takes off", "is committed"}; !slices.Equal(p.steps, want) {
			t.Errorf("%s: %q, want %q", op.name, p.steps, want)
		}
	}
}

// A transport that keeps answers waiting asks whether a kill came meanwhile. One that was undone meanwhile counts.
func TestKillUndoneMeanwhileOvertakesAnswers(t *testing.T) {
	b := newBench(t, nil)
	bot, boss := b.newKey("bot", "agent"), b.newKey("boss", "operator")
	before := b.request(bot.Value, `{"agent_id":"bot","tool_id":"permit"}`)
	if _, err := b.svc.Run(opNamed(t, "govern"), before); err != nil || !before.Permitted() || b.svc.Overtaken(before) {
		t.Fatalf("permitted %t, overtaken %t: %v", before.Permitted(), b.svc.Overtaken(before), err)
	}
	b.must(boss.Value, "kill", `{"agent_id":"bot"}`)
	b.must(boss.Value, "kill", `{"agent_id":"bot","undo":true}`)
	if !b.svc.Overtaken(before) {
		t.Error("a kill that was undone did not overtake the answer")
	}
	after := b.request(bot.Value, `{"agent_id":"bot","tool_id":"permit"}`)
	if _, err := b.svc.Run(opNamed(t, "govern"), after); err != nil || b.svc.Overtaken(after) {
		t.Errorf("a call after the undo is overtaken: %v", err)
	}
}
