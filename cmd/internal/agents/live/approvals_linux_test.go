package live

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/yett-dev/yett/cmd/internal/agents/hookfile"
	"github.com/yett-dev/yett/cmd/internal/agents/model"
	"github.com/yett-dev/yett/cmd/internal/agents/rig"
	"github.com/yett-dev/yett/sdk/client"
)

// waits makes a hook wait for a person as long as its agent lets it.
func waits(f *hookfile.File) { f.Wait = nil }

// answer answers every call that waits, until the context ends.
func (g *gateway) answer(ctx context.Context, t *testing.T, how func(client.Pending) client.Answer) <-chan bool {
	over := make(chan bool)
	go func() {
		defer close(over)
		for {
			shown, err := g.pending(ctx)
			if err == nil {
				in := how(shown)
				in.DeferToken, in.Digest = shown.DeferToken, shown.Digest
				_, err = g.approver.Approve(ctx, in)
			}
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				t.Errorf("answer: %v", err)
				return
			}
		}
	}()
	return over
}

// TestApprovals runs each agent with calls on which a person decides while the hook waits.
func TestApprovals(t *testing.T) {
	g := start(t, "1m")
	for _, c := range rig.Table {
		t.Run(c.Name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			over := g.answer(ctx, t, func(shown client.Pending) client.Answer {
				var call struct{ Args json.RawMessage }
				if err := json.Unmarshal(shown.Call, &call); err != nil {
					t.Error(err)
				}
				args := string(call.Args)
				switch {
				case strings.Contains(args, "approved"):
					return client.Answer{Approved: true}
				case strings.Contains(args, "changed"):
					return client.Answer{Approved: true,
						ModifiedArgs: json.RawMessage(strings.ReplaceAll(args, "changed", "instead"))}
				}
				return client.Answer{Reason: "not today"}
			})
			p := g.play(t, c, waits, shell("touch approved # ask-first"), shell("touch changed # ask-first"),
				shell("touch refused # ask-first"), done)
			cancel()
			<-over
			if !p.made("approved") {
				t.Error("an approved call did not run")
			}
			if !p.made("instead") || p.made("changed") {
				t.Errorf("approved with other arguments: these ran: %v, those that were asked for RAN: %v", p.made("instead"),
					p.made("changed"))
			}
			if p.made("refused") {
				t.Error("a call that a person denied RAN")
			}
		})
	}
}

// TestRepetition runs each agent with a call that is approved when its hook has ended: repeated, it runs once, and the
// third time a person is asked again.
func TestRepetition(t *testing.T) {
	g := start(t, "1m")
	for _, c := range rig.Table {
		t.Run(c.Name, func(t *testing.T) {
			approved := make(chan error, 1)
			again := shell("echo ran >> count # ask-first")
			second := again
			second.When = func(*model.Request) bool {
				shown, err := g.pending(t.Context())
				if err == nil {
					_, err = g.approver.Approve(t.Context(), client.Answer{DeferToken: shown.DeferToken, Digest: shown.Digest,
						Approved: true})
				}
				approved <- err
				return true
			}
			p := g.play(t, c, nil, again, second, again, done)
			if err := <-approved; err != nil {
				t.Fatal(err)
			}
			if n := p.lines("count"); n != 1 {
				t.Errorf("the call ran %d times, approved once", n)
			}
			if len(p.Calls()) < 3 && c.Name != "cline" {
				t.Errorf("the agent called %d times", len(p.Calls()))
			}
			shown, err := g.pending(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			denied := client.Answer{DeferToken: shown.DeferToken, Digest: shown.Digest}
			if _, err := g.approver.Approve(t.Context(), denied); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestExpiry runs each agent with a call that nobody decides.
func TestExpiry(t *testing.T) {
	g := start(t, "3s")
	for _, c := range rig.Table {
		t.Run(c.Name, func(t *testing.T) {
			p := g.play(t, c, waits, shell("touch expired # ask-first"), done)
			if p.made("expired") {
				t.Error("a call that nobody approved RAN")
			}
		})
	}
}
