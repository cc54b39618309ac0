package live

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yett-dev/yett/cmd/internal/agents/model"
	"github.com/yett-dev/yett/cmd/internal/agents/rig"
)

// programs are the agents' commands, as their installers name them.
var programs = map[string]string{"claude-code": "claude", "codex": "codex", "copilot": "copilot", "gemini": "gemini",
	"opencode": "opencode"}

// path puts the agent's command on the PATH of the run's user.
func path(t *testing.T, p *rig.Place, c rig.Client) string {
	t.Helper()
	name := programs[c.Name]
	p.Write("bin/"+name, "#!/bin/sh\nexec "+strings.Join(c.Argv(), " ")+" \"$@\"\n")
	return "PATH=" + filepath.Join(p.Home, "bin") + ":" + os.Getenv("PATH")
}

// TestDoctor connects each agent and asks the doctor, as the agent's user would: with hooks that hold, and then with
// hooks that the agent does not see.
func TestDoctor(t *testing.T) {
	g := start(t, "1m")
	for _, c := range rig.Table {
		if programs[c.Name] == "" {
			continue // doctor would have to change its settings
		}
		t.Run(c.Name, func(t *testing.T) {
			p := rig.New(t)
			s, err := model.Start(model.Script{}) // for the client's own configuration; doctor has a model of its own
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			if err := p.Configure(t.Context(), c, rig.Run{Model: s}); err != nil {
				t.Fatal(err)
			}
			g.connect(t, p, c.Name)
			doctor := func() (string, int) {
				env := []string{path(t, p, c), "CODEX_HOME=" + p.Home + "/.codex"}
				out, err := p.Exec(t.Context(), env, yett, "doctor", c.Name)
				if err != nil {
					t.Fatal(err)
				}
				return out.Stdout + out.Stderr, out.Code
			}
			text, code := doctor()
			for _, want := range []string{"a denied call did not run", "a permitted call ran", "was kept from the model",
				"accepts the key"} {
				if !strings.Contains(text, want) {
					t.Errorf("doctor does not say that %s", want)
				}
			}
			if code != 0 || t.Failed() {
				t.Errorf("exit %d\n%s", code, text)
			}
			if len(s.Sent()) > 0 {
				t.Error("the model of the user's own configuration was asked")
			}
			if managed[c.Name] {
				return
			}
			for _, name := range []string{".claude/settings.json", ".gemini/settings.json",
				".config/opencode/plugins/yett.js"} {
				if raw, err := os.ReadFile(filepath.Join(p.Home, name)); err == nil {
					p.Write(name, strings.NewReplacer("PreToolUse", "Stop", "BeforeTool", "SessionEnd", "tool.execute",
						"tool.other").Replace(string(raw)))
				}
			}
			if text, code := doctor(); code != 1 || !strings.Contains(text, "RAN in") {
				t.Errorf("hooks that are not seen: exit %d\n%s", code, text)
			}
		})
	}
}
