package doctor

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/yett-dev/yett/cmd/internal/agents/hook"
	"github.com/yett-dev/yett/cmd/internal/agents/hookfile"
	"github.com/yett-dev/yett/cmd/internal/agents/hookrun"
	"github.com/yett-dev/yett/cmd/internal/agents/model"
	"github.com/yett-dev/yett/core/regular"
)

// runner is how an agent is started without a person, with its own configuration, and pointed at a scripted model.
type runner struct {
	program string
	tried   string // the version that this was tried with
	args    func(s *model.Server) []string
	env     func(s *model.Server) []string
	why     string // why it cannot be run so; then there are no args
}

const prompt = "This is a probe of yett doctor."

var runners = map[hook.Agent]runner{
	hook.ClaudeCode: {program: "claude", tried: "2.1.330",
		args: func(*model.Server) []string {
			return []string{"--permission-mode", "bypassPermissions", "--strict-mcp-config", "-p", prompt}
		},
		env: func(s *model.Server) []string {
			return []string{"ANTHROPIC_BASE_URL=" + s.URL(), "ANTHROPIC_API_KEY=" + s.Key(), "ANTHROPIC_AUTH_TOKEN=",
				"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1"}
		}},
	hook.Codex: {program: "codex", tried: "0.169.0",
		args: func(s *model.Server) []string {
			provider := fmt.Sprintf(`model_providers.yett_doctor={name="doctor",base_url="%s/v1",wire_api="responses",`+
				`env_key="YETT_DOCTOR_KEY",request_max_retries=0,stream_max_retries=0}`, s.URL())
			return []string{"exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-c", provider,
				"-c", `model_provider="yett_doctor"`, "-c", `model="scripted"`, prompt}
		},
		env: func(s *model.Server) []string { return []string{"YETT_DOCTOR_KEY=" + s.Key()} }},
	hook.Copilot: {program: "copilot", tried: "1.0.102",
		args: func(*model.Server) []string { return []string{"--allow-all-tools", "--no-color", "-p", prompt} },
		env: func(s *model.Server) []string {
			return []string{"COPILOT_OFFLINE=true", "COPILOT_PROVIDER_BASE_URL=" + s.URL() + "/v1",
				"COPILOT_MODEL=scripted", "COPILOT_PROVIDER_API_KEY=" + s.Key()}
		}},
	hook.Gemini: {program: "gemini", tried: "0.61.0",
		args: func(*model.Server) []string {
			return []string{"--approval-mode=yolo", "-m", "gemini-2.5-pro", "-p", prompt}
		},
		env: func(s *model.Server) []string {
			return []string{"GOOGLE_GEMINI_BASE_URL=" + s.URL(), "GEMINI_API_KEY=" + s.Key(),
				"GEMINI_CLI_TRUST_WORKSPACE=true"}
		}},
	hook.OpenCode: {program: "opencode", tried: "1.18.33",
		args: func(*model.Server) []string { return []string{"run", "-m", "yett-doctor/scripted", prompt} },
		env: func(s *model.Server) []string {
			return []string{"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_CONFIG_CONTENT=" +
				`{"provider":{"yett-doctor":{"npm":"@ai-sdk/openai-compatible","name":"doctor","options":{"baseURL":"` +
				s.URL() + `/v1","apiKey":"` + s.Key() + `"},"models":{"scripted":{"name":"scripted","tool_call":true,` +
				`"limit":{"context":200000,"output":8192}}}}},"small_model":"yett-doctor/scripted"}`}
		}},
	hook.Cline:  {program: "cline", tried: "3.0.65", why: "its model is a part of its settings, which doctor does not change"},
	hook.Cursor: {why: "it needs its vendor's service"}, hook.VSCode: {why: "it needs a person"},
	hook.Windsurf: {why: "it needs its vendor's service"},
}

// probeMost is how long an agent may take for the whole probe.
const probeMost = 3 * time.Minute

// probe runs the agent against a scripted model, and looks what happened and what the model was sent.
func (d *Doctor) probe(ctx context.Context, file *hookfile.File) {
	how := runners[d.Agent]
	if how.args == nil {
		d.say(Warn, "", "%s was not run: %s", d.Agent, how.why)
		return
	}
	program, err := exec.LookPath(how.program)
	if err != nil {
		d.say(Warn, "Run doctor where "+how.program+" is installed.", "%s was not run: there is no %s on the PATH", d.Agent,
			how.program)
		return
	}
	d.version(ctx, program, how.tried)
	switch where, err := d.elsewhere(); {
	case err != nil:
		d.say(Fail, "", "%s was not run: its settings cannot be read: %v", d.Agent, err)
		return
	case where != "":
		d.say(Warn, "", "%s was not run, so that nothing is sent to a real model: ~/%s", d.Agent, where)
		return
	}
	dir, err := os.MkdirTemp("", "yett-doctor-")
	if err != nil {
		d.say(Fail, "", "the probe has no directory: %v", err)
		return
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			d.say(Warn, "Remove it.", "the probe left %s behind: %v", dir, err)
		}
	}()
	seen, beside, secret := random(12), random(12), "gh"+"p_"+random(36)
	for name, text := range map[string]string{"seen.txt": "it says " + seen,
		"token.txt": beside + " token=" + secret + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			d.say(Fail, "", "the probe: %v", err)
			return
		}
	}
	s, err := model.Start(model.Script{Turns: []model.Turn{
		{Calls: []model.Call{model.Shell("cat seen.txt")}},
		{Calls: []model.Call{model.Shell("touch ran # " + hookrun.Marker)}},
		{Calls: []model.Call{model.Shell("cat token.txt")}},
		{Text: "Done."}}})
	if err != nil {
		d.say(Fail, "", "the scripted model does not start: %v", err)
		return
	}
	defer func() {
		if err := s.Close(); err != nil {
			d.say(Warn, "", "the scripted model: %v", err)
		}
	}()
	out, err := d.run(ctx, dir, program, how.args(s), how.env(s))
	d.judge(s, dir, words{seen, beside, secret}, out, err)
}

// run runs the agent in the probe's directory.
func (d *Doctor) run(ctx context.Context, dir, program string, args, env []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeMost)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, append(here(d.env()), env...), 5*time.Second
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err := cmd.Run()
	if ctx.Err() != nil {
		err = fmt.Errorf("it did not end in %v", probeMost)
	}
	return said.String(), err
}

// words are what the probe's files hold.
type words struct {
	seen   string // in the first
	beside string // in the second, in front of the secret
	secret string
}

// here leaves out of the environment what would lead the agent to another model than the scripted one.
func here(env []string) []string {
	out := []string{"NO_PROXY=127.0.0.1,localhost", "no_proxy=127.0.0.1,localhost"}
	for _, e := range env {
		name, _, _ := strings.Cut(strings.ToUpper(e), "=")
		if !strings.HasSuffix(name, "_PROXY") && !strings.HasPrefix(name, "CLAUDE_CODE_USE_") &&
			!strings.HasPrefix(name, "ANTHROPIC_") && !strings.HasPrefix(name, "OPENAI_") &&
			!strings.HasPrefix(name, "GOOGLE_") && !strings.HasPrefix(name, "GEMINI_API") &&
			!strings.HasPrefix(name, "COPILOT_") {
			out = append(out, e)
		}
	}
	return out
}

// elsewhere says what in an agent's own settings could lead it to a real model although the probe names another, ""
// where nothing does. Without a file there is nothing.
func (d *Doctor) elsewhere() (string, error) {
	var file, why string
	var words []string
	switch d.Agent {
	case hook.ClaudeCode:
		file, words = ".claude/settings.json", []string{"ANTHROPIC_", "CLAUDE_CODE_USE_", "apiKeyHelper"}
		why = "names a model service of its own (env or apiKeyHelper)"
	case hook.Codex:
		file, words, why = ".codex/config.toml", []string{"profile"}, "has profiles, which may name another model provider"
	case hook.Gemini:
		file, why = ".gemini/settings.json", "does not select gemini-api-key as the way to sign in"
	default:
		return "", nil
	}
	text, err := regular.Read(filepath.Join(d.Places.Home, file), 1<<20)
	if errors.Is(err, os.ErrNotExist) && d.Agent != hook.Gemini {
		return "", nil
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	if d.Agent == hook.Gemini {
		if strings.Contains(string(text), `"gemini-api-key"`) {
			return "", nil
		}
		return file + " " + why, nil
	}
	for _, w := range words {
		if strings.Contains(string(text), w) {
			return file + " " + why, nil
		}
	}
	return "", nil
}

// Obeys begins the line about an agent that was seen to heed a denial.
const Obeys = "a denied call did not run"

// judge says what the probe has shown. Only what was seen is good.
func (d *Doctor) judge(s *model.Server, dir string, w words, out string, ended error) {
	calls := s.Calls()
	if len(calls) == 0 {
		d.say(Fail, "Run it by hand, and look why.", "%s did not call a tool of the scripted model: %s", d.Agent,
			brief(out, ended))
		return
	}
	_, err := os.Lstat(filepath.Join(dir, "ran"))
	switch {
	case err == nil:
		d.say(Fail, "Do not rely on these hooks: see the lines above.", "a call that Yett's hook denied RAN in %s", d.Agent)
	case !errors.Is(err, os.ErrNotExist):
		d.say(Fail, "", "whether a denied call ran is not known: %v", err)
	case len(calls) > 1 && told(s, calls[1].ID, hookrun.Probed):
		d.say(OK, "", Obeys+" in %s, and the model read so (the hook denies this probe without asking)", d.Agent)
	default:
		d.say(Warn, "Run it by hand, and look why.", "no call was seen to be denied in %s: %s", d.Agent, brief(out, ended))
	}
	switch {
	case told(s, calls[0].ID, w.seen):
		d.say(OK, "", "a permitted call ran in %s, and the model read its output", d.Agent)
	default:
		d.say(Warn, "Permit `cat seen.txt` in the policy to see it: yett init coding-agent does.",
			"no call was seen to run in %s: the policy may not permit it", d.Agent)
	}
	switch {
	case s.Contains(w.secret):
		d.say(Fail, "Let chains.scan_output redact secrets, and look at the output hooks.",
			"the model SAW a secret in a command's output")
	case len(calls) > 2 && told(s, calls[2].ID, w.beside):
		d.say(OK, "", "a secret in a command's output was kept from the model, which read the rest")
	default:
		d.say(Warn, "", "no command with a secret in its output was seen to run")
	}
}

// told says whether the model was sent a result of a call that holds a text.
func told(s *model.Server, call, text string) bool {
	for _, r := range s.Results(call) {
		if strings.Contains(r.Text, text) {
			return true
		}
	}
	return false
}

// version says which version there is, and whether this program was tried with it.
func (d *Doctor) version(ctx context.Context, program, tried string) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "--version")
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	text, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	switch {
	case err != nil:
		d.say(Warn, "", "%s does not say its version: %v", program, err)
	case strings.Contains(text, tried):
		d.say(OK, "", "%s is %s", program, printable(text))
	default:
		d.say(Warn, "", "%s is %s; Yett's hooks were tried with %s", program, printable(text), tried)
	}
}

// brief is the end of what an agent said.
func brief(out string, ended error) string {
	out = strings.TrimSpace(out)
	if i := strings.LastIndexByte(out, '\n'); i >= 0 {
		out = out[i+1:]
	}
	text := fmt.Sprintf("it said %q", printable(out))
	if ended != nil {
		text += " and ended with " + ended.Error()
	}
	return text
}

func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < 0x20 || r >= 0x7f && r < 0xa0 {
			return -1
		}
		return r
	}, s)
	return s[:min(len(s), 200)]
}

func random(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)[:n]
}
