package live

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yett-dev/yett/cmd/internal/agents/hookfile"
	"github.com/yett-dev/yett/cmd/internal/agents/model"
	"github.com/yett-dev/yett/cmd/internal/agents/rig"
)

// played is one run of an agent and what it left.
type played struct {
	*model.Server
	place *rig.Place
	out   rig.Output
}

// called is what the MCP server has logged of its calls.
func (p *played) called() string {
	raw, err := os.ReadFile(filepath.Join(p.place.Home, "calls"))
	if err != nil {
		return ""
	}
	return string(raw)
}

// lines counts the lines of a file that the agent's tools write.
func (p *played) lines(name string) int {
	raw, err := os.ReadFile(filepath.Join(p.place.Work, name))
	if err != nil {
		return 0
	}
	return strings.Count(string(raw), "\n")
}

// made says whether the agent's tool has made a file.
func (p *played) made(name string) bool {
	_, err := os.Stat(filepath.Join(p.place.Work, name))
	return err == nil
}

// play runs an agent under its hooks against a script.
func (g *gateway) play(t *testing.T, c rig.Client, change func(*hookfile.File), turns ...model.Turn) *played {
	t.Helper()
	return g.playAt(t, rig.New(t), c, change, turns...)
}

// leak is a file of the project that holds the secret.
const leak = "work/leak.txt"

func (g *gateway) playAt(t *testing.T, p *rig.Place, c rig.Client, change func(*hookfile.File),
	turns ...model.Turn) *played {
	t.Helper()
	s, err := model.Start(model.Script{Turns: turns})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	r := rig.Run{Prompt: "Do as you are told.", Model: s, MCP: map[string][]string{"tester": {rig.Share + "/mcpserver",
		"-text", "the answer holds " + secret, "-log", filepath.Join(p.Home, "calls")}}}
	g.install(t, p, c, r, g.hookFile(p, c.Name, change))
	p.Write(leak, "token="+secret+"\n")
	out := &played{Server: s, place: p}
	out.out = p.Start(c, r)
	for _, call := range s.Calls() {
		for _, got := range s.Results(call.ID) {
			t.Logf("%s %s: %.300q", call.Tool, call.Arguments, got.Text)
		}
	}
	t.Logf("%s took %s, exit %d", c.Name, out.out.Took, out.out.Code)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("stdout: %.3000s\nstderr: %.3000s", out.out.Stdout, out.out.Stderr)
		}
	})
	return out
}

func shell(format string, args ...any) model.Turn {
	return model.Turn{Calls: []model.Call{model.Shell(fmt.Sprintf(format, args...))}}
}

var done = model.Turn{Text: "Done."}

// secret looks like a token of a well-known service; a scanner takes it for one.
var secret = "gh" + "p_" + random(36)

func random(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return hex.EncodeToString(b)[:n]
}

// TestDecisions runs each agent with a call that is permitted and one that is denied.
func TestDecisions(t *testing.T) {
	g := start(t, "1m")
	for _, c := range rig.Table {
		t.Run(c.Name, func(t *testing.T) {
			p := g.play(t, c, nil, shell("touch permitted; printf it-was-%%d 42"), shell("touch denied # never-this"), done)
			if !p.made("permitted") || !p.Contains("it-was-42") {
				t.Error("a permitted call did not run")
			}
			if p.made("denied") {
				t.Error("a denied call RAN")
			}
		})
	}
}
