package authzen_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/core/testkit/doortest"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// moody is a rule that goes by the type of the resource.
type moody struct{}

// Check implements chain.Checker.
func (moody) Check(_ context.Context, c *chain.Call) (sdk.Verdict, error) {
	v := sdk.Verdict{Effect: sdk.Permit, Code: "MOOD"}
	switch kind, _, _ := strings.Cut(c.ToolID, "/"); kind {
	case "late":
		return v, context.DeadlineExceeded
	case "failing":
		return v, errors.New("the rule cannot decide")
	case "mad":
		panic("the rule is mad")
	case "silent":
		return sdk.Verdict{}, nil
	}
	return v, nil
}

// asks is an evaluation of a resource of that type.
func asks(kind string) string {
	return join(alice, read, `"resource":{"type":"`+kind+`","id":"1"}`)
}

// Whatever goes wrong, the answer is the closed one of this contract.
func TestClosed(t *testing.T) {
	b := open(t, doortest.WithRule(t, moody{}))
	key, revoked, auditor := b.Key("pep", "agent"), b.Key("revoked", "agent"), b.Key("auditor", "auditor")
	b.Revoke(revoked)
	bobs, err := b.Service.CreateKey(context.Background(), ops.KeySpec{Name: "bobs", Preset: "agent",
		Agents: []string{"user:bob"}}, doortest.Operator)
	if err != nil {
		t.Fatal(err)
	}
	kill := func(undo bool) {
		t.Helper()
		if _, err := b.Service.Kill(context.Background(), doortest.Operator, &wire.KillRequest{Scope: store.KillAgent,
			Target: "user:alice", Reason: "test", Undo: undo}); err != nil {
			t.Fatal(err)
		}
	}
	big := join(alice, read, record1, `"context":{"x":"`+strings.Repeat("x", int(b.Limits.AuthorizeBody))+`"}`)
	for _, c := range []struct {
		name, key, body string
		status          int // of the HTTP answer; 200 is a decision of false
		begin, end      func()
	}{
		{name: "denied", key: key.Value, body: asks("silent"), status: 200},
		{name: "late rule", key: key.Value, body: asks("late"), status: 200},
		{name: "failing rule", key: key.Value, body: asks("failing"), status: 200},
		{name: "a rule that panics", key: key.Value, body: asks("mad"), status: 500},
		{name: "killed agent", key: key.Value, body: asks("record"), status: 200, begin: func() { kill(false) },
			end: func() { kill(true) }},
		{name: "unreachable store", key: key.Value, body: asks("record"), status: 503,
			begin: func() { b.BreakStore(true) }, end: func() { b.BreakStore(false) }},
		{name: "no key", body: asks("record"), status: 401},
		{name: "unknown key", key: "ye" + "tt_nobody", body: asks("record"), status: 401},
		{name: "revoked key", key: revoked.Value, body: asks("record"), status: 401},
		{name: "scope", key: auditor.Value, body: asks("record"), status: 403},
		{name: "another's subject", key: bobs.Value, body: asks("record"), status: 403},
		{name: "malformed", key: key.Value, body: "{", status: 400},
		{name: "too large", key: key.Value, body: big, status: 413},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.begin != nil {
				c.begin()
				defer c.end()
			}
			r := b.send(c.key, "POST", "/access/v1/evaluation", c.body)
			message, isText := r.json.(string)
			switch {
			case r.status != c.status || permits(r.json):
				t.Errorf("single: %d %s, want %d", r.status, r.text, c.status)
			case c.status == 200 && r.at("decision") != false, c.status != 200 && (!isText || message == ""):
				t.Errorf("single: %s", r.text)
			case c.status == 401 && r.header.Get("WWW-Authenticate") == "", c.status == 503 && r.header.Get("Retry-After") == "":
				t.Errorf("single: %v", r.header)
			}
			r = b.send(c.key, "POST", "/access/v1/evaluations", `{"evaluations":[`+c.body+`]}`)
			if permits(r.json) || r.status == 200 && r.at("evaluations", 0, "decision") != false {
				t.Errorf("batch: %d %s", r.status, r.text)
			}
			if c.status == 503 && r.at("evaluations", 0, "context", "error", "status") != 503.0 {
				t.Errorf("batch: %s", r.text)
			}
			r = b.send(c.key, "POST", "/access/v1/requests", c.body)
			if r.status < 400 || r.header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("request: %d %s", r.status, r.text)
			}
		})
	}
	if yes, r := b.decide(key.Value, asks("record")); !yes {
		t.Errorf("the bench permits nothing: %s", r.text)
	}
	if r := b.send(bobs.Value, "POST", "/access/v1/evaluation", join(bob, read, record1)); r.at("decision") != true {
		t.Errorf("the key cannot act for its own subject: %s", r.text)
	}
}

// A store that fails while something waits leaves nothing permitted.
func TestStoreFailsBehindAnApproval(t *testing.T) {
	c, _ := waits(t)
	at, a := c.task(c.denied(waiting)), c.approved()
	text := strings.Replace(waiting, `"context":{`, `"context":{"approval":`+jsonOf(t, a)+`,`, 1)
	c.BreakStore(true)
	for _, r := range []*reply{c.send(c.key, "POST", "/access/v1/evaluation", text), c.status(at),
		c.send(c.key, "POST", at+"/cancel", "")} {
		if r.status != 503 || permits(r.json) || r.at("result") != nil {
			t.Errorf("%d %s", r.status, r.text)
		}
	}
	c.BreakStore(false)
	if yes, r := c.again(a, waiting); !yes {
		t.Errorf("the approval is gone: %s", r.text)
	}
}

// An approver who permits the call with other arguments only has not permitted this one.
func TestApprovedWithOtherArguments(t *testing.T) {
	c, _ := waits(t)
	at := c.task(c.denied(waiting))
	boss := c.Key("boss", "approver")
	var doc exact.Doc
	if err := doc.Parse(`{"resource":{"type":"defer","id":"invoice-8"}}`, exact.DefaultLimits); err != nil {
		t.Fatal(err)
	}
	yes, ctx := true, context.Background()
	caller := store.Who{Principal: boss.Key.ID, Method: "api_key", Surface: "test"}
	list, err := c.Service.ApprovalsList(&ops.Request{Ctx: ctx, Key: boss.Key, Who: caller, Start: c.Now()},
		&wire.ApprovalListRequest{})
	if err != nil || len(list.Approvals) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	if _, err := c.Service.Approve(&ops.Request{Ctx: ctx, Key: boss.Key, Who: caller, Start: c.Now()},
		&wire.ApproveRequest{DeferToken: list.Approvals[0].DeferToken, Approved: &yes,
			ModifiedArgs: doc.Root()}); err != nil {
		t.Fatal(err)
	}
	r := c.status(at)
	if r.str("task", "status") != "denied" || r.at("result") != nil ||
		!strings.Contains(r.str("task", "display", "description"), "invoice-8") {
		t.Errorf("%d %s", r.status, r.text)
	}
}

// What rules see is what was sent: every digit, and members that the specification does not know.
func TestWhatRulesSee(t *testing.T) {
	b := open(t, doortest.New(t))
	key := b.Key("pep", "agent").Value
	b.decide(key, `{"subject":{"type":"a:b","id":"c:d","x":1.50},"action":{"name":"e/f"},"resource":{"type":"g/h","id":"i",`+
		`"properties":{"n":12345678901234567890.10,"e":1e3}},"context":{"approval":{"id":"x"}}}`)
	want := `g%2Fh/e/f {"action":{"name":"e/f"},"resource":{"id":"i","properties":{"e":1000,"n":12345678901234567890.1},` +
		`"type":"g/h"},"subject":{"id":"c:d","type":"a:b","x":1.5}}`
	if calls := b.Calls(); len(calls) != 1 || calls[0] != want {
		t.Errorf("%q", calls)
	}
}
