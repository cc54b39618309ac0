package live

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/yett-dev/yett/cmd/internal/agents/hook"
	"github.com/yett-dev/yett/cmd/internal/agents/rig"
)

type object = map[string]any

func text(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// install writes the hooks of one agent, where its users keep them or, where only a managed place holds, there.
func (g *gateway) install(t *testing.T, p *rig.Place, c rig.Client, r rig.Run, file string) {
	t.Helper()
	if err := p.Configure(t.Context(), c, r); err != nil {
		t.Fatal(err)
	}
	line := func(phase hook.Phase) string { return g.guard(c.Name, phase, file) }
	seconds := func(phase hook.Phase) int { return int(hook.TimingOf(hook.Agent(c.Name), phase).Agent.Seconds()) }
	command := func(phase hook.Phase) object {
		return object{"type": "command", "command": line(phase), "timeout": seconds(phase)}
	}
	switch c.Name {
	case "claude-code":
		one := func(phase hook.Phase) []object {
			h := command(phase)
			h["onFailure"] = "block"
			return []object{{"hooks": []object{h}}}
		}
		p.Write(".claude/settings.json", text(t, object{"hooks": object{"PreToolUse": one(hook.Before),
			"PostToolUse": one(hook.After), "PostToolBatch": one(hook.AfterBatch)}}))
	case "codex":
		toml := "allow_managed_hooks_only = true\n[hooks]\nmanaged_dir = \"/etc/codex/hooks\"\n"
		for name, phase := range map[string]hook.Phase{"PreToolUse": hook.Before, "PostToolUse": hook.After} {
			h := command(phase)
			toml += "[[hooks." + name + "]]\n[[hooks." + name + ".hooks]]\ntype = \"command\"\ncommand = " +
				text(t, h["command"]) + "\ntimeout = " + text(t, h["timeout"]) + "\n"
		}
		p.Managed("/etc/codex/requirements.toml", toml)
	case "copilot":
		one := func(phase hook.Phase) []object {
			return []object{{"type": "command", "bash": line(phase), "timeoutSec": seconds(phase)}}
		}
		p.Managed("/etc/github-copilot/policy.d/yett.json", text(t, object{"version": 1, "hooks": object{
			"preToolUse": one(hook.Before), "postToolUse": one(hook.After)}}))
	case "gemini":
		one := func(phase hook.Phase) []object {
			h := command(phase)
			h["name"], h["timeout"] = "yett", 1000*seconds(phase)
			return []object{{"matcher": "*", "hooks": []object{h}}}
		}
		path := filepath.Join(p.Home, ".gemini/settings.json")
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var settings object
		if err := json.Unmarshal(raw, &settings); err != nil {
			t.Fatal(err)
		}
		settings["hooks"] = object{"BeforeTool": one(hook.Before), "AfterTool": one(hook.After)}
		p.Write(".gemini/settings.json", text(t, settings))
	case "opencode":
		p.Write(".config/opencode/plugins/yett.js", line(hook.Before))
	case "cline":
		p.Write(".cline/hooks/PreToolUse", line(hook.Before))
		p.Write(".cline/hooks/PostToolUse", line(hook.After))
	default:
		t.Fatalf("no hooks are known for %s", c.Name)
	}
}
