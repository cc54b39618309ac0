package ops_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
)

// meddled is a store in which something happens whenever the view of a deferred call is about to be read.
type meddled struct {
	ops.Store
	before func()
}

func (m *meddled) View(token string) (json.RawMessage, error) {
	m.before()
	return m.Store.View(token)
}

// twoSign defers every call until two approvers have signed it.
type twoSign struct{}

func (twoSign) Check(context.Context, *chain.Call) (sdk.Verdict, error) {
	return sdk.Verdict{Effect: sdk.Defer, Code: "TEST", Approvals: 2}, nil
}

// TestViewIsOfWhatIsApproved: other arguments that come and go while a page is made are not on it under the name of
// those that its form would approve.
func TestViewIsOfWhatIsApproved(t *testing.T) {
	m := &meddled{before: func() {}}
	b := newBench(t, func(s ops.Store) ops.Store { m.Store = s; return m })
	agent, boss := b.newKey("agent", "agent"), b.newKey("boss", "approver")
	b.swap(&chain.Authorizer{Budget: time.Hour, Now: b.now, Default: sdk.Deny,
		Steps: []chain.Step{{Name: "two", Inline: true, OnError: sdk.Deny, Checker: twoSign{}}}})
	asked := b.decides(agent.Value, `,"args":{"amount":1}`, "DEFER TEST")
	decision, token := member(asked, "decision_id"), member(asked, "defer_token")
	put := func(amount string) {
		was := m.before
		m.before = func() {}
		digest := member(b.must(boss.Value, "approvals_list", `{}`), "digest")
		b.must(boss.Value, "approve_defer", fmt.Sprintf(`{"defer_token":%q,"approved":true,"digest":%q,"modified_args":{"amount":%s}}`, token, digest, amount))
		m.before = was
	}
	shown := func() (*ops.Deferral, error) { return b.svc.Deferral(context.Background(), decision) }
	put(`1000000,"note":"<b> \" \u00e9 & 1.50"`)
	if d, err := shown(); err != nil || !strings.Contains(string(d.Call), `"amount":1000000`) {
		t.Fatalf("%+v, %v", d, err)
	}
	m.before = func() { put("2") }
	if d, err := shown(); code(err) != string(sdk.CodeConflict) {
		t.Fatalf("%s is shown with the hash of other arguments: %v", d.Call, err)
	}
	m.before = func() {}
	d, err := shown()
	if err != nil || !strings.Contains(string(d.Call), `"amount":2`) {
		t.Fatalf("%+v, %v", d, err)
	}
	put("3")
	ada := store.Operator{Name: "ada", Role: store.RoleAdmin}
	if _, err := b.svc.AnswerAs(context.Background(), ada, admin,
		ops.Answer{Decision: decision, Approved: true, Digest: d.Digest}); code(err) != string(sdk.CodeCallChanged) {
		t.Errorf("what was shown is not approved any more: %v", err)
	}
}

// stalled refuses a list of what waits, as a store does whose disk has stalled, and goes on with it.
type stalled struct{ ops.Store }

func (s stalled) Commit(ctx context.Context, cmd store.Command) error {
	list, ok := cmd.(*store.ListPending)
	if !ok {
		return s.Store.Commit(ctx, cmd)
	}
	list.Out.Calls, list.Out.Total = append(list.Out.Calls, store.Defer{}), 1
	return &sdk.Error{Code: sdk.CodeAuditUnavailable}
}

func TestWaitingWhenStalled(t *testing.T) {
	b := newBench(t, func(s ops.Store) ops.Store { return stalled{s} })
	list, total, err := b.svc.Waiting(context.Background(), store.Operator{Name: "ada", Role: store.RoleAdmin}, 10)
	if code(err) != string(sdk.CodeAuditUnavailable) || list != nil || total != 0 {
		t.Errorf("%v, %d, %v", list, total, err)
	}
}

// deaf takes no questions, as a store whose disk has stalled, and says of denials that they are not on disk.
type deaf struct{ ops.Store }

func (s deaf) Commit(ctx context.Context, cmd store.Command) error {
	switch c := cmd.(type) {
	case *store.Asked:
		return &sdk.Error{Code: sdk.CodeAuditUnavailable}
	case *store.Approve:
		if err := s.Store.Commit(ctx, c); err != nil {
			return err
		}
		return &sdk.Error{Code: sdk.CodeNotDurable}
	}
	return s.Store.Commit(ctx, cmd)
}

// An operator's denial does not hang on a question that the disk would have to take first.
func TestOperatorDeniesInAStall(t *testing.T) {
	b := newBench(t, func(s ops.Store) ops.Store { return deaf{s} })
	agent := b.newKey("agent", "agent")
	b.swap(&chain.Authorizer{Budget: time.Hour, Now: b.now, Default: sdk.Deny,
		Steps: []chain.Step{{Name: "two", Inline: true, OnError: sdk.Deny, Checker: twoSign{}}}})
	asked := b.decides(agent.Value, `,"args":{"amount":1}`, "DEFER TEST")
	ada := store.Operator{Name: "ada", Role: store.RoleAdmin}
	answer := func(a ops.Answer) string {
		_, err := b.svc.AnswerAs(context.Background(), ada, admin, a)
		return code(err)
	}
	decision := member(asked, "decision_id")
	for _, c := range []struct {
		a    ops.Answer
		want sdk.Code
	}{
		{ops.Answer{Decision: "dec_none"}, sdk.CodeAuditUnavailable}, {ops.Answer{Decision: member(asked, "defer_token")}, sdk.CodeAuditUnavailable},
		{ops.Answer{Decision: decision, Approved: true, Digest: "x"}, sdk.CodeAuditUnavailable}, {ops.Answer{Decision: decision}, sdk.CodeNotDurable},
	} {
		if got := answer(c.a); got != string(c.want) {
			t.Errorf("%+v: got %q, want %q", c.a, got, c.want)
		}
	}
	if got := member(b.must(agent.Value, "defer_status", fmt.Sprintf(`{"defer_token":%q}`, member(asked, "defer_token"))),
		"status"); got != store.Denied {
		t.Errorf("it is %s", got)
	}
}
