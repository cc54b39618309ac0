package live

import (
	"path/filepath"
	"testing"

	"github.com/yett-dev/yett/cmd/internal/agents/model"
	"github.com/yett-dev/yett/cmd/internal/agents/rig"
)

// leaks are the ways in which a secret comes out of a tool.
var leaks = map[string]func(p *rig.Place) model.Turn{
	"stdout":         func(*rig.Place) model.Turn { return shell("touch ran; cat leak.txt") },
	"stderr":         func(*rig.Place) model.Turn { return shell("touch ran; cat leak.txt >&2") },
	"failed command": func(*rig.Place) model.Turn { return shell("touch ran; cat leak.txt; exit 3") },
	"file": func(p *rig.Place) model.Turn {
		return model.Turn{Calls: []model.Call{model.ReadFile(filepath.Join(p.Work, "leak.txt"))}}
	},
	"MCP": func(*rig.Place) model.Turn {
		return model.Turn{Calls: []model.Call{model.MCP("tester", "say", []byte(`{"about":"all"}`))}}
	},
}

// TestOutputs runs each agent with tools whose output holds a secret: the model never sees it.
func TestOutputs(t *testing.T) {
	g := start(t, "1m")
	for _, c := range rig.Table {
		for name, turn := range leaks {
			if c.Name == "codex" && name == "file" {
				continue // it reads by shell
			}
			t.Run(c.Name+" "+name, func(t *testing.T) {
				place := rig.New(t)
				p := g.playAt(t, place, c, nil, turn(place), done)
				if p.Contains(secret) {
					t.Error("the model SAW the secret")
				}
				if len(p.Calls()) == 0 || name != "file" && name != "MCP" && !p.made("ran") {
					t.Error("the tool did not run, so nothing was shown")
				}
			})
		}
	}
}

// TestClosedTool runs each agent with a tool of an MCP server that is denied.
func TestClosedTool(t *testing.T) {
	g := start(t, "1m")
	for _, c := range rig.Table {
		t.Run(c.Name, func(t *testing.T) {
			p := g.play(t, c, nil, model.Turn{Calls: []model.Call{model.MCP("tester", "fail", []byte(`{"about":"all"}`))}}, done)
			if p.called() != "" {
				t.Errorf("a denied tool was CALLED: %s", p.called())
			}
		})
	}
}
