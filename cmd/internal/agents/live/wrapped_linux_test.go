package live

import (
	"testing"

	"github.com/yett-dev/yett/cmd/internal/agents/hook"
	"github.com/yett-dev/yett/cmd/internal/agents/hookfile"
	"github.com/yett-dev/yett/cmd/internal/agents/model"
	"github.com/yett-dev/yett/cmd/internal/agents/rig"
)

// TestWrapped runs each agent with commands that the hook wraps in yett exec: what they print comes without its secret,
// also from a command that fails, and the run goes on.
func TestWrapped(t *testing.T) {
	g := start(t, "1m")
	wraps := func(f *hookfile.File) { f.Wrap = yett }
	for _, c := range rig.Table {
		if hook.NoWrap(hook.Agent(c.Name)) != "" {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			p := g.play(t, c, wraps, shell("touch one; echo first-$((40+2)); cat leak.txt"),
				shell("touch two; cat leak.txt >&2; exit 3"), shell("touch denied # never-this"), shell("touch three"), done)
			for _, name := range []string{"one", "two", "three"} {
				if !p.made(name) {
					t.Errorf("command %s did not run", name)
				}
			}
			if p.made("denied") {
				t.Error("a denied call RAN")
			}
			if p.Contains(secret) {
				t.Error("the model SAW the secret")
			}
			if !p.Contains("first-42") || !p.Contains("token=[SECRET_") {
				t.Error("the model has not seen what remains of the output")
			}
		})
	}
}

// TestWrappedStays holds that a wrapped command acts on the agent's shell as it would alone.
func TestWrappedStays(t *testing.T) {
	g := start(t, "1m")
	for _, c := range rig.Table {
		if c.Name != "claude-code" { // the others start a shell for each command
			continue
		}
		p := g.play(t, c, func(f *hookfile.File) { f.Wrap = yett }, shell("mkdir sub; cd sub"), shell("touch here"),
			model.Turn{Calls: []model.Call{model.Shell("cd ..; touch above")}}, done)
		if !p.made("sub/here") || !p.made("above") {
			t.Errorf("the directory did not stay: %v %v", p.made("sub/here"), p.made("above"))
		}
	}
}
