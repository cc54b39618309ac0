package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// decide answers govern requests: the tool says what.
func decide(p *peer, m map[string]any) {
	p.reply(m, decisionText(fmt.Sprint(m["tool_id"]), fmt.Sprint(m["call_id"])))
}

// TestPipelining: many calls at once share one connection, and each gets its own answer.
func TestPipelining(t *testing.T) {
	const calls = 600 // more than may wait at once
	s := newFakeSocket(t, func(p *peer) {
		var batch []map[string]any
		for m := p.read(); m != nil; m = p.read() {
			if batch = append(batch, m); len(batch) < 8 { // answers come late, and in order
				continue
			}
			for _, m := range batch {
				decide(p, m)
			}
			batch = nil
		}
	})
	c, _ := newClient(t, Options{Socket: s.path})
	ctx := waitCtx(t)
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() {
			effect := []string{"PERMIT", "DENY", "DEFER"}[i%3]
			d, err := c.Authorize(ctx, Call{AgentID: "a", ToolID: effect})
			if err != nil || d.Effect != effect {
				t.Errorf("asked for %s, got %+v, %v", effect, d, err)
			}
		})
	}
	wg.Wait()
	if s.n != 1 {
		t.Errorf("%d connections, want 1", s.n)
	}
}

// TestNoAnswerOfAnother: whatever a server mixes up, an answer to one request is never taken for that to another.
func TestNoAnswerOfAnother(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer func(p *peer, m map[string]any)
	}{
		{"another id", func(p *peer, m map[string]any) {
			p.write(`{"id":7,` + decisionText("PERMIT", fmt.Sprint(m["call_id"]))[1:])
		}},
		{"the id as text", func(p *peer, m map[string]any) {
			p.write(`{"id":"1",` + decisionText("PERMIT", fmt.Sprint(m["call_id"]))[1:])
		}},
		{"no id", func(p *peer, m map[string]any) { p.write(decisionText("PERMIT", fmt.Sprint(m["call_id"]))) }},
		{"another call", func(p *peer, m map[string]any) { p.reply(m, decisionText("PERMIT", "call_x")) }},
		{"a permit that failed", func(p *peer, m map[string]any) {
			p.reply(m, decisionText("PERMIT", fmt.Sprint(m["call_id"]), `"ok":false,"code":"internal"`))
		}},
		{"half a line", func(p *peer, m map[string]any) {
			p.Write([]byte(`{"id":1,` + decisionText("PERMIT", fmt.Sprint(m["call_id"]))[1:]))
			p.Close()
		}},
		{"no JSON", func(p *peer, m map[string]any) { p.write("PERMIT") }},
		{"bad UTF-8", func(p *peer, m map[string]any) {
			p.reply(m, decisionText("PERMIT", fmt.Sprint(m["call_id"]), "\"x\":\"\xff\""))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newFakeSocket(t, func(p *peer) {
				for m := p.read(); m != nil; m = p.read() {
					c.answer(p, m)
				}
			})
			cl, _ := newClient(t, Options{Socket: s.path, Retries: -1})
			if d, err := cl.Authorize(waitCtx(t), Call{AgentID: "a", ToolID: "t"}); err == nil || d.Permitted() {
				t.Errorf("%+v, %v", d, err)
			}
		})
	}
}

func TestUnaskedAnswerEndsTheConnection(t *testing.T) {
	s := newFakeSocket(t, func(p *peer) {
		if p.n == 0 {
			m := p.read()
			decide(p, m)
			p.write(`{"id":9,` + decisionText("PERMIT", "guess")[1:]) // before anything was asked
			for p.read() != nil {
			}
			return
		}
		for m := p.read(); m != nil; m = p.read() {
			decide(p, m)
		}
	})
	c, _ := newClient(t, Options{Socket: s.path})
	for i := range 3 {
		d, err := c.Authorize(waitCtx(t), Call{AgentID: "a", ToolID: "DENY"})
		if errors.Is(err, ErrMalformed) && i == 1 {
			continue // it fell into the moment: an error, and the next call has a new connection
		}
		if err != nil || d.Effect != "DENY" {
			t.Errorf("call %d: %+v, %v", i, d, err)
		}
	}
}

func TestReconnect(t *testing.T) {
	s := newFakeSocket(t, func(p *peer) {
		for n := 0; n < 2; n++ { // each connection ends while a third call waits
			m := p.read()
			if m == nil {
				return
			}
			decide(p, m)
		}
		p.read()
	})
	c, _ := newClient(t, Options{Socket: s.path})
	for i := range 9 {
		d, err := c.Authorize(waitCtx(t), Call{AgentID: "a", ToolID: "PERMIT"})
		if err != nil || !d.Permitted() {
			t.Fatalf("call %d: %+v, %v", i, d, err)
		}
	}
}

// TestSocketRepeats: what has no key that makes a repeat safe goes over a connection of its own and is sent once.
func TestSocketRepeats(t *testing.T) {
	for _, c := range []struct {
		name  string
		do    func(ctx context.Context, c *Client) error
		sends int
	}{
		{"kill", func(ctx context.Context, c *Client) error {
			_, err := c.Kill(ctx, wire.KillRequest{AgentID: "a"})
			return err
		}, 3},
		{"unkill", func(ctx context.Context, c *Client) error {
			_, err := c.Unkill(ctx, wire.KillRequest{AgentID: "a"})
			return err
		}, 1},
		{"grant add", func(ctx context.Context, c *Client) error {
			_, err := c.GrantAdd(ctx, wire.GrantAddRequest{AgentID: "a", ToolPattern: "t", TTLSeconds: 1})
			return err
		}, 1},
		{"approve", func(ctx context.Context, c *Client) error {
			_, err := c.Approve(ctx, Answer{DeferToken: "d", Approved: true})
			return err
		}, 1},
		{"poll", func(ctx context.Context, c *Client) error {
			_, err := c.DeferStatus(ctx, "d", 0)
			return err
		}, 3},
		{"redeem", func(ctx context.Context, c *Client) error {
			_, err := c.Authorize(ctx, Call{AgentID: "a", ToolID: "t", DeferToken: "d"})
			return err
		}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var mu sync.Mutex
			sends := 0
			s := newFakeSocket(t, func(p *peer) {
				if p.read() != nil {
					mu.Lock()
					sends++
					mu.Unlock()
				}
			})
			cl, _ := newClient(t, Options{Socket: s.path, Retries: 2})
			if err := c.do(waitCtx(t), cl); !errors.Is(err, ErrUnavailable) {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if sends != c.sends {
				t.Errorf("sent %d times, want %d", sends, c.sends)
			}
		})
	}
}

func TestSocketOperations(t *testing.T) {
	answers := map[string]string{
		"poll_defer":            `{"defer_token":"d","status":"approved","modified_args":{"n":1},"approvals":1,"approvals_required":1}`,
		"approve_defer":         `{"ok":true,"status":"pending","defer_token":"d","approvals":1,"approvals_required":2}`,
		"standing_grant_add":    `{"ok":true,"grant":{"id":"stg_1","agent_id":"a","tool_pattern":"t","expires_at":"e","max_uses":0,"uses":0,"status":"live","issued_by":"k","issuers":["k"],"created_at":"c"}}`,
		"standing_grant_revoke": `{"ok":false,"error":"no such grant","code":"unknown_grant","field":"grant_id"}`,
		"standing_grant_list":   `{"ok":true,"grants":[],"next_cursor":"n"}`,
		"scan_output":           `{"outcome":"PASS","sanitized_output":"x","reason_code":"SCAN_OK","findings":[],"scanned_by":[],"scan_id":"s"}`,
	}
	var mu sync.Mutex
	var sent []map[string]any
	s := newFakeSocket(t, func(p *peer) {
		for m := p.read(); m != nil; m = p.read() {
			mu.Lock()
			sent = append(sent, m)
			mu.Unlock()
			switch m["type"] {
			case "kill":
				p.reply(m, fmt.Sprintf(`{"ok":true,"killed":{"scope":"agent","target":"a","by":"k","at":"t","active":%v},"pending_denied":3}`, m["undo"] != true))
			default:
				p.reply(m, answers[fmt.Sprint(m["type"])])
			}
		}
	})
	c, _ := newClient(t, Options{Socket: s.path})
	ctx := waitCtx(t)
	if st, err := c.DeferStatus(ctx, "d", 0); err != nil || st.Status != "approved" ||
		string(st.ModifiedArgs) != `{"n":1}` {
		t.Errorf("poll: %+v, %v", st, err)
	}
	if a, err := c.Approve(ctx, Answer{DeferToken: "d", Approved: true, Grant: &wire.ApproveGrant{TTLSeconds: 60}}); err !=
		nil || a.Status != "pending" || a.ApprovalsRequired != 2 {
		t.Errorf("approve: %+v, %v", a, err)
	}
	if g, err := c.GrantAdd(ctx, wire.GrantAddRequest{AgentID: "a", ToolPattern: "t", TTLSeconds: 60}); err != nil ||
		g.Grant.ID != "stg_1" {
		t.Errorf("grant: %+v, %v", g, err)
	}
	var e *Error
	if err := c.GrantRevoke(ctx, "stg_9"); !errors.Is(err, ErrNotFound) || !errors.As(err, &e) ||
		e.Code != sdk.CodeUnknownGrant || e.Field != "grant_id" || e.Status != 404 {
		t.Errorf("revoke: %v", err)
	}
	if l, err := c.GrantList(ctx, wire.GrantListRequest{AgentID: "a", IncludeExpired: true}); err != nil ||
		l.NextCursor != "n" {
		t.Errorf("list: %+v, %v", l, err)
	}
	if k, err := c.Kill(ctx, wire.KillRequest{AgentID: "a", Undo: true}); err != nil || !k.Killed.Active ||
		k.PendingDenied != 3 {
		t.Errorf("kill: %+v, %v", k, err)
	}
	if k, err := c.Unkill(ctx, wire.KillRequest{AgentID: "a"}); err != nil || k.Killed.Active {
		t.Errorf("unkill: %+v, %v", k, err)
	}
	if out, err := c.ScanOutput(ctx, wire.ScanRequest{ToolID: "t", Output: "x\n"}); err != nil ||
		*out.SanitizedOutput != "x" {
		t.Errorf("scan: %+v, %v", out, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if g := sent[1]["grant"].(map[string]any); fmt.Sprint(g["ttl_seconds"]) != "60" || sent[1]["approved"] != true {
		t.Errorf("approve sent %v", sent[1])
	}
	if sent[5]["undo"] == true || sent[6]["undo"] != true {
		t.Errorf("kill sent %v, unkill %v", sent[5], sent[6])
	}
}

// TestLongPollsHaveTheirOwnConnection: answers come in order, so a poll that waits must not hold up a decision.
func TestLongPollsHaveTheirOwnConnection(t *testing.T) {
	polled, decided := make(chan struct{}), make(chan struct{})
	s := newFakeSocket(t, func(p *peer) {
		for m := p.read(); m != nil; m = p.read() {
			if m["type"] == "poll_defer" {
				close(polled)
				select {
				case <-decided:
				case <-t.Context().Done():
				}
				p.reply(m, `{"defer_token":"d","status":"denied"}`)
				continue
			}
			decide(p, m)
		}
	})
	c, _ := newClient(t, Options{Socket: s.path})
	ctx := waitCtx(t)
	done := make(chan error, 1)
	go func() {
		_, err := c.WaitForApproval(ctx, "d")
		done <- err
	}()
	<-polled
	if d, err := c.Authorize(ctx, Call{AgentID: "a", ToolID: "PERMIT"}); err != nil || !d.Permitted() {
		t.Errorf("%+v, %v", d, err)
	}
	close(decided)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestSocketRefusals(t *testing.T) {
	s := newFakeSocket(t, func(p *peer) {
		for m := p.read(); m != nil; m = p.read() {
			p.write(`{"ok":false,"error":"the line is too long","code":"too_large"}`) // it could not read the id
		}
	})
	c, _ := newClient(t, Options{Socket: s.path})
	if _, err := c.Authorize(waitCtx(t), Call{AgentID: "a", ToolID: "t"}); !errors.Is(err, ErrInvalid) {
		t.Errorf("too long a line: %v", err)
	}
	wrong, _ := newClient(t, Options{Socket: s.path, Key: "wrong"})
	if _, err := wrong.Authorize(waitCtx(t), Call{AgentID: "a", ToolID: "t"}); !errors.Is(err, ErrUnauthenticated) {
		t.Errorf("a wrong key: %v", err)
	}
	long, p := newClient(t, Options{Socket: "/" + strings.Repeat("x", 120)})
	if _, err := long.Authorize(waitCtx(t), Call{AgentID: "a", ToolID: "t"}); !errors.Is(err, ErrInvalid) ||
		len(p.all()) != 0 {
		t.Errorf("too long a path: %v", err)
	}
}

// TestCancelledCallHoldsUpNobody: its answer comes and finds nobody, and the next call gets its own.
func TestCancelledCallHoldsUpNobody(t *testing.T) {
	got, goOn := make(chan struct{}), make(chan struct{})
	s := newFakeSocket(t, func(p *peer) {
		for m := p.read(); m != nil; m = p.read() {
			if m["tool_id"] == "PERMIT" {
				close(got)
				<-goOn
			}
			decide(p, m)
		}
	})
	c, _ := newClient(t, Options{Socket: s.path})
	ctx, cancel := context.WithCancel(waitCtx(t))
	go func() {
		<-got
		cancel()
	}()
	if _, err := c.Authorize(ctx, Call{AgentID: "a", ToolID: "PERMIT"}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(goOn)
	if d, err := c.Authorize(waitCtx(t), Call{AgentID: "a", ToolID: "DENY"}); err != nil || d.Effect != "DENY" {
		t.Errorf("%+v, %v", d, err)
	}
	if s.n != 1 {
		t.Errorf("%d connections, want 1", s.n)
	}
}

func TestCloseEndsWaitingCalls(t *testing.T) {
	for name, do := range map[string]func(ctx context.Context, c *Client) error{
		"a decision": func(ctx context.Context, c *Client) error {
			_, err := c.Authorize(ctx, Call{AgentID: "a", ToolID: "t"})
			return err
		},
		"a long poll": func(ctx context.Context, c *Client) error {
			_, err := c.WaitForApproval(ctx, "d")
			return err
		},
	} {
		got := make(chan struct{})
		s := newFakeSocket(t, func(p *peer) {
			p.read()
			close(got)
			p.read()
		})
		c, _ := newClient(t, Options{Socket: s.path})
		go func() {
			<-got
			c.Close()
		}()
		if err := do(waitCtx(t), c); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
