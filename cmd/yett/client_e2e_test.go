package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/sdk/client"
	"github.com/yett-dev/yett/sdk/wire"
)

// transports are clients of one server over HTTP and over its socket.
func transports(t *testing.T, s *server, key string) map[string]*client.Client {
	t.Helper()
	var at struct{ Socket string }
	if err := json.Unmarshal([]byte(s.line), &at); err != nil {
		t.Fatal(err)
	}
	return map[string]*client.Client{"http": dialed(t, client.Options{URL: s.URL, Key: key}),
		"socket": dialed(t, client.Options{Socket: at.Socket, Key: key})}
}

func dialed(t *testing.T, opts client.Options) *client.Client {
	t.Helper()
	opts.Timeout, opts.RetryFor = patience, patience
	c, err := client.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

var refundCall = client.Call{AgentID: "demo", ToolID: "payments/refund",
	Args: json.RawMessage(`{"order":"A-17","amount":120.50}`)}

// TestClientDecides runs the Go client against the real server, over both transports.
func TestClientDecides(t *testing.T) {
	t.Parallel()
	s := startDev(t, nil)
	ctx := patient(t)
	for name, c := range transports(t, s, s.Keys.Agent) {
		t.Run(name, func(t *testing.T) {
			for tool, effect := range map[string]string{"files/read": "PERMIT", "payments/refund": "DEFER",
				"unknown/tool": "DENY"} {
				d, err := c.Authorize(ctx, client.Call{AgentID: "demo", ToolID: tool, Explain: true})
				if err != nil || d.Effect != effect || d.Permitted() != (effect == "PERMIT") || len(d.Checks) == 0 {
					t.Errorf("%s: %+v, %v", tool, d, err)
				}
			}
			d, err := c.Authorize(ctx, client.Call{AgentID: "demo", ToolID: "files/read", DryRun: true})
			if err != nil || d.Effect != "PERMIT" || d.Permitted() {
				t.Errorf("dry run: %+v, %v", d, err)
			}
			out, err := c.ScanOutput(ctx, wire.ScanRequest{ToolID: "files/read", Output: "key " + sampleSecret() + " end"})
			if err != nil || out.Outcome != "REDACTED" || strings.Contains(*out.SanitizedOutput, sampleSecret()) ||
				!strings.HasSuffix(*out.SanitizedOutput, " end") {
				t.Errorf("scan: %+v, %v", out, err)
			}
			value := json.RawMessage(`{"n": 1.50, "k": "` + sampleSecret() + `", "e": "\u00e9"}`)
			out, err = c.ScanOutput(ctx, wire.ScanRequest{Outputs: []wire.ScanOutput{{ToolID: "files/read", Output: "clean"},
				{ToolID: "files/read", OutputJSON: value}}})
			if err != nil || out.Outcome != "REDACTED" || *out.Outputs[0].SanitizedOutput != "clean" ||
				!strings.HasPrefix(string(out.Outputs[1].SanitizedJSON), `{"n":1.50,"k":"[SECRET_`) ||
				!strings.HasSuffix(string(out.Outputs[1].SanitizedJSON), `]","e":"\u00e9"}`) {
				t.Errorf("scan of two: %+v, %v", out, err)
			}
			_, err = c.Authorize(ctx, client.Call{AgentID: "demo"})
			var e *client.Error
			who, whoErr := c.Whoami(ctx)
			if name == "socket" {
				if whoErr == nil {
					t.Error("the socket has no whoami")
				}
			} else if whoErr != nil || who.Name == "" || !strings.Contains(s.Keys.Agent, "_"+who.KeyID+"_") {
				t.Errorf("whoami: %+v, %v", who, whoErr)
			}
			if !errors.Is(err, client.ErrInvalid) || !errors.As(err, &e) || e.Field != "tool_id" || e.Status != 422 {
				t.Errorf("no tool: %v", err)
			}
			if _, err := c.DeferStatus(ctx, "dfr_none", 0); !errors.Is(err, client.ErrNotFound) {
				t.Errorf("unknown token: %v", err)
			}
			if _, err := c.Approve(ctx, client.Answer{DeferToken: "dfr_none"}); !errors.Is(err, client.ErrForbidden) {
				t.Errorf("without the scope: %v", err)
			}
		})
	}
	for name, c := range transports(t, s, s.Keys.Agent+"x") {
		if _, err := c.Authorize(ctx, refundCall); !errors.Is(err, client.ErrUnauthenticated) {
			t.Errorf("%s: a wrong key: %v", name, err)
		}
	}
}

// TestClientManyAtOnce: answers are never mixed up, however many wait.
func TestClientManyAtOnce(t *testing.T) {
	s := startDev(t, nil)
	ctx := patient(t)
	for name, c := range transports(t, s, s.Keys.Agent) {
		atOnce(64, 1000, func(i int) {
			tool, effect := "files/read", "PERMIT"
			if i%2 == 1 {
				tool, effect = "unknown/tool", "DENY"
			}
			d, err := c.Authorize(ctx, client.Call{AgentID: fmt.Sprint("a", i), ToolID: tool})
			if err != nil || d.Effect != effect {
				t.Errorf("%s: call %d: %+v, %v", name, i, d, err)
			}
		})
	}
}

// TestClientWaits: an agent waits for a person over each transport, while an operator's client follows and answers.
func TestClientWaits(t *testing.T) {
	t.Parallel()
	s := startDev(t, nil)
	operators := transports(t, s, s.Keys.Operator)
	for name, agent := range transports(t, s, s.Keys.Agent) {
		for _, c := range []struct {
			answer  client.Answer
			effect  string
			code    string
			runWith string
		}{
			{client.Answer{Approved: true}, "PERMIT", "APPROVAL_CONSUMED", `{"order":"A-17","amount":120.50}`},
			{client.Answer{Approved: true, ModifiedArgs: map[string]any{"order": "A-17", "amount": 50}}, "PERMIT", "APPROVAL_CONSUMED", `{"amount":50,"order":"A-17"}`},
			{client.Answer{Approved: false, Reason: "no"}, "DENY", "APPROVAL_DENIED", `{"order":"A-17","amount":120.50}`},
		} {
			t.Run(fmt.Sprintf("%s %s %v", name, c.code, c.answer.ModifiedArgs != nil), func(t *testing.T) {
				ctx := patient(t)
				asked, err := operators["socket"].Callbacks(ctx, wire.CallbackSubscribeRequest{Events: []string{"defer_created"}})
				if err != nil {
					t.Fatal(err)
				}
				defer asked.Close()
				var wg sync.WaitGroup
				wg.Go(func() {
					r, err := asked.Next(ctx)
					if err == nil {
						c.answer.DeferToken = r.Text("defer_token")
						_, err = operators[name].Approve(ctx, c.answer)
					}
					if err != nil {
						t.Errorf("the operator: %v", err)
					}
				})
				d, args, err := agent.AuthorizeAndWait(ctx, refundCall)
				wg.Wait()
				if err != nil || d.Effect != c.effect || d.ReasonCode != c.code || d.Permitted() != (c.effect == "PERMIT") ||
					string(args) != c.runWith {
					t.Errorf("%+v with %s, %v", d, args, err)
				}
			})
		}
	}
}

// TestClientOperates: what operators do, over each transport that serves it.
func TestClientOperates(t *testing.T) {
	t.Parallel()
	s := startDev(t, nil)
	agent := transports(t, s, s.Keys.Agent)["http"]
	approver := transports(t, s, s.Keys.Approver)["http"]
	operators := transports(t, s, s.Keys.Operator)
	ctx := patient(t)
	for name, c := range operators {
		g, err := c.GrantAdd(ctx, wire.GrantAddRequest{AgentID: "demo", ToolPattern: "payments/*", TTLSeconds: 60, MaxUses: 1,
			Note: name})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d, err := agent.Authorize(ctx, refundCall); err != nil || !d.Permitted() {
			t.Errorf("%s: the grant was not used: %+v, %v", name, d, err)
		}
		list, err := c.GrantList(ctx, wire.GrantListRequest{AgentID: "demo", IncludeExpired: true})
		if err != nil || len(list.Grants) == 0 || list.Grants[0].ID != g.Grant.ID || list.Grants[0].Uses != 1 {
			t.Errorf("%s: %+v, %v", name, list, err)
		}
		if err := c.GrantRevoke(ctx, "stg_none"); !errors.Is(err, client.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
		d, err := agent.Authorize(ctx, refundCall)
		if err != nil || !d.Deferred() {
			t.Fatalf("%s: %+v, %v", name, d, err)
		}
		pending, err := approver.Approvals(ctx, "demo", 10)
		if err != nil || pending.Total != 1 || pending.Approvals[0].DeferToken != d.DeferToken ||
			!strings.Contains(string(pending.Approvals[0].Call), `"amount":120.5`) {
			t.Errorf("%s: %+v, %v", name, pending, err)
		}
		k, err := c.Kill(ctx, wire.KillRequest{AgentID: "demo", Reason: "test"})
		if err != nil || k.PendingDenied != 1 {
			t.Errorf("%s: kill: %+v, %v", name, k, err)
		}
		kills, err := operators["http"].KillList(ctx)
		if err != nil || len(kills) != 1 || kills[0].Target != "demo" {
			t.Errorf("%s: kills: %+v, %v", name, kills, err)
		}
		if d, err := agent.Authorize(ctx, refundCall); err != nil || d.ReasonCode != "KILL_SWITCH_ACTIVE" {
			t.Errorf("%s: after the kill: %+v, %v", name, d, err)
		}
		if _, err := c.Unkill(ctx, wire.KillRequest{AgentID: "demo", Reason: "done"}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := c.Unkill(ctx, wire.KillRequest{AgentID: "demo"}); !errors.Is(err, client.ErrNotFound) {
			t.Errorf("%s: undone twice: %v", name, err)
		}
	}
}

// TestClientActions follows one action from submission to result, and sees it in the stream of events.
func TestClientActions(t *testing.T) {
	t.Parallel()
	s := startDev(t, nil)
	c, approver := transports(t, s, s.Keys.Agent)["http"], transports(t, s, s.Keys.Approver)["http"]
	ctx := patient(t)
	events, err := c.Events(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close()
	refund := client.Submission{AgentID: "demo", Tool: "payments", Operation: "refund",
		Params: map[string]any{"amount": 5}}
	a, err := c.SubmitAction(ctx, refund)
	if err != nil || a.Status != "pending_approval" || a.ApprovalToken == "" || a.MayRun() {
		t.Fatalf("%+v, %v", a, err)
	}
	if _, err := approver.ActionApproval(ctx, a.ID, "wrong", true, ""); !errors.Is(err, client.ErrForbidden) {
		t.Errorf("a wrong token: %v", err)
	}
	if got, err := approver.ActionApproval(ctx, a.ID, a.ApprovalToken, true, "fine"); err != nil ||
		got.Status != "approved" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := c.StartAction(ctx, a); err != nil || !got.MayRun() {
		t.Errorf("start: %+v, %v", got, err)
	}
	if _, err := approver.WithdrawAction(ctx, a.ID, a.ApprovalToken, "too late"); !errors.Is(err, client.ErrConflict) {
		t.Errorf("withdrawn after its start: %v", err)
	}
	if got, err := c.ResultAction(ctx, a.ID, client.Result{Success: true, Result: map[string]any{"ok": 1}}); err != nil ||
		got.Status != "succeeded" {
		t.Errorf("result: %+v, %v", got, err)
	}
	if got, err := c.GetAction(ctx, a.ID); err != nil || got.Status != "succeeded" || got.MayRun() {
		t.Errorf("get: %+v, %v", got, err)
	}
	page, _, err := c.ListActions(ctx, client.ActionFilter{AgentID: "demo"})
	if err != nil || len(page) != 1 || page[0].ID != a.ID {
		t.Errorf("list: %v, %v", page, err)
	}
	records, err := c.ActionEvents(ctx, a.ID)
	if err != nil || len(records) < 4 || records[0].EventType != "created" ||
		records[len(records)-1].EventType != "succeeded" {
		t.Errorf("events: %+v, %v", records, err)
	}
	if g, err := c.GateDecide(ctx, client.Submission{AgentID: "demo", Tool: "files", Operation: "read"}); err != nil ||
		!g.Execute() {
		t.Errorf("gate: %+v, %v", g, err)
	}
	if g, err := c.GateDecide(ctx, refund); err != nil || g.Execute() || g.Outcome == "EXECUTE" {
		t.Errorf("gate: %+v, %v", g, err)
	}
	e, err := events.Next(ctx)
	if err != nil || e.EventType != "action_created" || e.ActionID != a.ID || e.ID == "" {
		t.Errorf("first event: %+v, %v", e, err)
	}
	regretted, err := c.SubmitAction(ctx, client.Submission{AgentID: "demo", Tool: "payments", Operation: "refund",
		Params: map[string]any{"amount": 6}})
	if err == nil {
		_, err = approver.ActionApproval(ctx, regretted.ID, regretted.ApprovalToken, true, "")
	}
	if err != nil {
		t.Fatal(err)
	}
	if got, err := approver.WithdrawAction(ctx, regretted.ID, regretted.ApprovalToken, "no longer"); err != nil ||
		got.Status != "denied" {
		t.Errorf("withdrawn: %+v, %v", got, err)
	}
	if got, err := c.StartAction(ctx, regretted); err == nil && got.MayRun() {
		t.Errorf("started after it was withdrawn: %+v", got)
	}
	if _, err := c.StartAction(ctx, a); !errors.Is(err, client.ErrConflict) {
		t.Errorf("started twice: %v", err)
	}
}

// TestClientFollowsAcrossCrashes: while the server is killed and started again under load, the stream of the audit log
// brings exactly the log.
func TestClientFollowsAcrossCrashes(t *testing.T) {
	testkit.Slow(t, "kills gateways")
	data := t.TempDir()
	s := startDev(t, nil, "--data", data)
	key := s.Keys.Operator
	ctx := patient(t)
	stream, err := transports(t, s, key)["socket"].Audit(ctx, wire.AuditSubscribeRequest{FromSeq: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	for round := range 3 {
		agent := transports(t, s, s.Keys.Agent)["socket"]
		atOnce(8, 200, func(i int) {
			if _, err := agent.Authorize(ctx, client.Call{AgentID: fmt.Sprint("a", i), ToolID: "files/read"}); err != nil {
				t.Errorf("round %d: %v", round, err)
			}
		})
		if round == 1 {
			s.stop()
		} else {
			s.kill()
		}
		s = startDev(t, nil, "--data", data)
	}
	records := strings.Count(s.exported(), "\n") - 1 // one line is the header
	if records < 600 {
		t.Fatalf("the log has %d records", records)
	}
	for seq := 1; seq <= records; seq++ {
		r, err := stream.Next(ctx)
		if err != nil || r.Seq != uint64(seq) {
			t.Fatalf("record %d of %d: %d, %v", seq, records, r.Seq, err)
		}
	}
}

// sampleSecret is shaped like a GitHub token and is none. It is put together here so that no file holds it.
func sampleSecret() string {
	return "gh" + "p_" + "x7Kq2mV9tR4wZ1nB8cY5" + "dL3fH6jP0sGaT2uE"
}
