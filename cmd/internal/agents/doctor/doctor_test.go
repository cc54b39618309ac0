package doctor

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yett-dev/yett/cmd/internal/agents/connect"
	"github.com/yett-dev/yett/cmd/internal/agents/hook"
	"github.com/yett-dev/yett/cmd/internal/agents/hookfile"
	"github.com/yett-dev/yett/cmd/internal/agents/hookrun"
	"github.com/yett-dev/yett/cmd/internal/agents/model"
	"github.com/yett-dev/yett/cmd/internal/agents/wrap"
	"github.com/yett-dev/yett/core/testkit"
)

func TestTimeOf(t *testing.T) {
	for id, want := range map[string]int64{"01ARYZ6S41TSV4RRFFQ69G5FAV": 1469918176385, "01ARYZ6S41": -1,
		"u1ARYZ6S41TSV4RRFFQ69G5FAV": -1, "": -1} {
		at, ok := timeOf(id)
		if ok != (want >= 0) || ok && at.UnixMilli() != want {
			t.Errorf("%q: %v %v", id, at.UnixMilli(), ok)
		}
	}
}

// has says which lines there are with a status and a text.
func has(lines []Line, status Status, text string) bool {
	for _, l := range lines {
		if l.Status == status && strings.Contains(l.Saw, text) {
			return true
		}
	}
	return false
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestChecks holds what is said of hooks and of their file, without an agent and without a gateway.
func TestChecks(t *testing.T) {
	me, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name  string
		file  func(*hookfile.File)
		hooks bool
		want  map[Status]string
	}{
		{"nothing", nil, false, map[Status]string{Fail: "is not connected"}},
		{"no hooks", func(*hookfile.File) {}, false, map[Status]string{Fail: "runs its tools without asking", Open: "advisory"}},
		{"hooks", func(*hookfile.File) {}, true, map[Status]string{OK: "has the hooks of gemini (user)",
			Fail: "does not answer"}},
		{"wraps", func(f *hookfile.File) { f.Wrap = me }, true, map[Status]string{OK: me + " exec", Open: "matches its user's own"}},
		{"wraps in nothing", func(f *hookfile.File) { f.Wrap = "/opt/none/yett" }, true,
			map[Status]string{Fail: "shell commands cannot be wrapped"}},
		{"wraps with open tickets", func(f *hookfile.File) { f.Wrap = me }, true,
			map[Status]string{Fail: "is open to others"}},
		{"another agent's", func(f *hookfile.File) { f.Agent = "codex" }, true, map[Status]string{Fail: "is the file of codex"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			home := t.TempDir()
			file := &hookfile.File{Agent: "gemini", URL: "https://127.0.0.1:1", Key: "k",
				Pins: []string{"sha256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="}}
			c := hook.Command{Yett: "/opt/yett", Timeout: "/usr/bin/timeout"}
			own := filepath.Join(home, ".config/yett/hooks/gemini.json")
			if row.hooks {
				r := connect.Request{Agent: hook.Gemini, Scope: connect.User, Places: connect.Places{Home: home}, UID: os.Getuid(),
					Command: c, Group: -1, Given: *file}
				if _, err := connect.Connect(t.Context(), r); err != nil {
					t.Fatal(err)
				}
			}
			if row.file != nil {
				row.file(file)
				text, err := file.Marshal()
				if err != nil {
					t.Fatal(err)
				}
				write(t, own, string(text))
			}
			if row.name == "wraps with open tickets" {
				if err := os.Mkdir(wrap.Tickets(own), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			d := &Doctor{Agent: hook.Gemini, Places: connect.Places{Home: home, Etc: t.TempDir()}, UID: os.Getuid(), Command: c,
				NoProbe: true}
			lines, err := d.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for status, text := range row.want {
				if !has(lines, status, text) {
					t.Errorf("no line %s %q in %+v", status, text, lines)
				}
			}
			if !Failed(lines) {
				t.Error("nothing has failed")
			}
		})
	}
}

// TestVerdict holds that no line sums up as good what was not seen.
func TestVerdict(t *testing.T) {
	seen := Line{Status: OK, Saw: Obeys + " in codex"}
	for _, row := range []struct {
		lines []Line
		want  string
	}{
		{nil, "no denial was seen to hold"},
		{[]Line{{Status: OK, Saw: "the gateway answers"}}, "no denial was seen to hold"},
		{[]Line{{Status: Warn, Saw: Obeys}}, "no denial was seen to hold"},
		{[]Line{seen}, "codex asks Yett and obeys."},
		{[]Line{seen, {Status: Open}}, "codex asks Yett and obeys."},
		{[]Line{seen, {Status: Warn}}, "marked warn"},
		{[]Line{seen, {Status: Warn}, {Status: Fail}}, "cannot be relied on"},
	} {
		if got := verdict("codex", row.lines); !strings.Contains(got, row.want) {
			t.Errorf("%v: %s, want %s", row.lines, got, row.want)
		}
	}
}

// TestJudge holds that only what was seen is called good.
func TestJudge(t *testing.T) {
	for _, row := range []struct {
		name  string
		turns int       // how many calls the agent makes
		ran   bool      // the denied one
		said  [3]string // the results that the model reads
		want  []Line
	}{
		{"no call", 0, false, [3]string{}, []Line{{Fail, "did not call a tool", ""}}},
		{"one call", 1, false, [3]string{}, []Line{{Warn, "no call was seen to be denied", ""},
			{Warn, "no call was seen to run", ""}, {Warn, "no command with a secret", ""}}},
		{"nothing is seen", 3, false, [3]string{"x", "permission denied", "x"}, []Line{
			{Warn, "no call was seen to be denied", ""}, {Warn, "no call was seen to run", ""},
			{Warn, "no command with a secret", ""}}},
		{"all hold", 3, false, [3]string{"it says seen", "error: " + hookrun.Probed, "beside token=[X]"}, []Line{
			{OK, "a denied call did not run", ""}, {OK, "a permitted call ran", ""}, {OK, "was kept from the model", ""}}},
		{"it ran", 3, true, [3]string{"it says seen", "", "beside token=secret"}, []Line{{Fail, "RAN in", ""},
			{OK, "a permitted call ran", ""}, {Fail, "SAW a secret", ""}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			s, err := model.Start(model.Script{Turns: []model.Turn{{Calls: []model.Call{model.Shell("one")}},
				{Calls: []model.Call{model.Shell("two")}}, {Calls: []model.Call{model.Shell("three")}}}})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			history := `{"role":"user","content":"go"}`
			for i := range row.turns {
				converse(t, s, history)
				call := s.Calls()[i]
				history += `,{"role":"assistant","content":[{"type":"tool_use","id":"` + call.ID + `","name":"Bash","input":{}}]},` +
					`{"role":"user","content":[{"type":"tool_result","tool_use_id":"` + call.ID + `","content":"` + row.said[i] + `"}]}`
			}
			if row.turns == 3 { // it ends as it should
				converse(t, s, history)
			}
			if row.ran {
				write(t, filepath.Join(dir, "ran"), "")
			}
			d := &Doctor{Agent: hook.ClaudeCode}
			d.judge(s, dir, words{"seen", "beside", "secret"}, "out", errors.New("exit status 1"))
			if len(d.lines) != len(row.want) {
				t.Fatalf("%+v", d.lines)
			}
			for i, l := range d.lines {
				if l.Status != row.want[i].Status || !strings.Contains(l.Saw, row.want[i].Saw) {
					t.Errorf("line %d: %+v, want %+v", i, l, row.want[i])
				}
			}
		})
	}
}

// converse sends the model one request, as Claude Code does.
func converse(t *testing.T, s *model.Server, history string) {
	t.Helper()
	body := `{"model":"m","max_tokens":1,"messages":[` + history + `],"tools":[{"name":"Bash","input_schema":{"type":"object",` +
		`"properties":{"command":{"type":"string"}}}}]}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+"/v1/messages", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("x-api-key", s.Key())
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("status %d", res.StatusCode)
	}
}

// TestProbeWithoutAnAgent holds that an agent which is not there, or is no agent, is not called good.
func TestProbeWithoutAnAgent(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	for _, agent := range hook.Agents() {
		d := &Doctor{Agent: agent}
		d.probe(t.Context(), nil)
		if len(d.lines) != 1 || d.lines[0].Status != Warn || !strings.Contains(d.lines[0].Saw, "was not run") {
			t.Errorf("%s: %+v", agent, d.lines)
		}
	}
	if err := testkit.WriteProgram(filepath.Join(dir, "claude"), []byte("#!/bin/sh\necho 9.9.9\n")); err != nil {
		t.Fatal(err)
	}
	d := &Doctor{Agent: hook.ClaudeCode, Env: []string{}, Places: connect.Places{Home: dir}}
	d.probe(t.Context(), nil)
	if !has(d.lines, Warn, "were tried with") || !has(d.lines, Fail, "did not call a tool") {
		t.Errorf("%+v", d.lines)
	}
}

// TestElsewhere holds that an agent whose settings name a real model is not run.
func TestElsewhere(t *testing.T) {
	for _, row := range []struct {
		agent hook.Agent
		file  string
		text  string
		run   bool
	}{
		{hook.ClaudeCode, ".claude/settings.json", "", true},
		{hook.ClaudeCode, ".claude/settings.json", `{"hooks":{}}`, true},
		{hook.ClaudeCode, ".claude/settings.json", `{"env":{"ANTHROPIC_BASE_URL":"https://x"}}`, false},
		{hook.ClaudeCode, ".claude/settings.json", `{"env":{"CLAUDE_CODE_USE_BEDROCK":"1"}}`, false},
		{hook.Codex, ".codex/config.toml", "model = \"x\"\n", true},
		{hook.Codex, ".codex/config.toml", "profile = \"work\"\n", false},
		{hook.Gemini, ".gemini/settings.json", "", false},
		{hook.Gemini, ".gemini/settings.json", `{"security":{"auth":{"selectedType":"oauth-personal"}}}`, false},
		{hook.Gemini, ".gemini/settings.json", `{"security":{"auth":{"selectedType":"gemini-api-key"}}}`, true},
		{hook.Copilot, "x", "", true},
	} {
		home := t.TempDir()
		if row.text != "" {
			write(t, filepath.Join(home, row.file), row.text)
		}
		d := &Doctor{Agent: row.agent, Places: connect.Places{Home: home}}
		why, err := d.elsewhere()
		if err != nil || (why == "") != row.run {
			t.Errorf("%s %s: %q %v", row.agent, row.text, why, err)
		}
	}
	env := here([]string{"PATH=/bin", "HTTPS_PROXY=x", "http_proxy=x", "CLAUDE_CODE_USE_VERTEX=1", "ANTHROPIC_MODEL=x",
		"OPENAI_API_KEY=k", "HOME=/h"})
	if len(env) != 4 || env[2] != "PATH=/bin" || env[3] != "HOME=/h" {
		t.Errorf("%v", env)
	}
}
