package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/testkit"
)

// endings are ways in which a command may end, as scripts, with whether the tool may run or the output be shown.
var endings = map[string]struct {
	script string
	good   bool
	slow   bool
}{
	"permit":           {`printf %s '{"ok":1}'`, true, false},
	"refusal":          {`printf %s '{"no":1}'; echo refused >&2; exit 2`, false, false},
	"status 1":         {`printf %s '{"ok":1}'; exit 1`, false, false},
	"a panic":          {`echo 'panic: x' >&2; exit 2`, false, false},
	"killed":           {`printf %s '{"ok"'; kill -9 $$`, false, false},
	"half an answer":   {`printf %s '{"ok"'; exit 3`, false, false},
	"a hang":           {`printf %s '{"ok":1}'; exec sleep 60`, false, true},
	"ignores the term": {`trap '' TERM; printf %s '{"ok":1}'; exec sleep 60`, false, true},
	"not executable":   {"", false, false},
	"missing":          {"", false, false},
}

// TestGuards runs each guard line with sh around commands that fail in every way.
func TestGuards(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	timeout, err := exec.LookPath("timeout")
	if err != nil {
		t.Fatal(err)
	}
	for name, end := range endings {
		for _, agent := range Agents() {
			for _, phase := range []Phase{Before, After} {
				if agent == OpenCode || end.slow && (testing.Short() || !(agent == ClaudeCode || agent == Cline)) {
					continue // the slow ends need one agent for each form of line
				}
				t.Run(name+" "+string(agent)+" "+phase.String(), func(t *testing.T) {
					t.Parallel()
					guarded(t, sh, timeout, agent, phase, end.script, name, end.good)
				})
			}
		}
	}
}

func guarded(t *testing.T, sh, timeout string, agent Agent, phase Phase, script, name string, good bool) {
	bin := filepath.Join(t.TempDir(), "it's a $HOME dir", "yett")
	if err := os.MkdirAll(filepath.Dir(bin), 0o755); err != nil {
		t.Fatal(err)
	}
	mode := os.FileMode(0o755)
	if name == "not executable" {
		mode = 0o644
	}
	if name != "missing" {
		if err := os.WriteFile(bin, []byte("#!"+sh+"\n"+script+"\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	line, err := Guard(agent, phase, Command{Yett: bin, Config: "/etc/yett/h.json", Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	limit := " " + strings.TrimSuffix(TimingOf(agent, phase).Guard.String(), "s") + " "
	if strings.Count(line, limit) != 1 {
		t.Fatalf("the limit%sis not in %s", limit, line)
	}
	line = strings.Replace(line, limit, " 1 ", 1) // a test cannot wait for the real one
	var r Reply
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(sh, "-c", line)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			t.Fatal(err)
		}
		r.Exit = exit.ExitCode()
	}
	r.Stdout, r.Stderr = stdout.Bytes(), stderr.Bytes()
	if good {
		if r.Exit != 0 || string(r.Stdout) != `{"ok":1}` || len(r.Stderr) != 0 {
			t.Errorf("a permit becomes %s", show(r))
		}
		return
	}
	if name == "refusal" && r.Exit == 2 && string(r.Stderr) != "refused\n" {
		t.Errorf("a refusal loses its own text: %s", show(r))
	}
	if r.Exit == 2 {
		r.Stdout = nil // whatever was printed: the status and the text decide
	}
	r.Uncovered = "see Gaps"
	if why := closed(agent, phase, r); why != "" {
		t.Errorf("%s: %s\n%s", why, show(r), line)
	}
}

// TestGuardText holds the guard lines, which stand in files of other programs.
func TestGuardText(t *testing.T) {
	for name, row := range map[string]struct {
		agent   Agent
		phase   Phase
		timeout string
		want    string
	}{
		"claude before": {ClaudeCode, Before, "/usr/bin/timeout", `/usr/bin/timeout -k 1 55 /opt/yett hook claude-code ` +
			`--config /e/h || ` +
			`{ [ $? -eq 2 ] || echo "yett: no decision, call refused" >&2; exit 2; }`},
		"claude after": {ClaudeCode, After, "/usr/bin/timeout", `if o=$(/usr/bin/timeout -k 1 25 /opt/yett hook ` +
			`claude-code --config /e/h); then printf %s "$o"; else ` +
			`printf %s '{"continue":false,"stopReason":"yett: output not scanned, ` +
			`withheld"}'; fi`},
		"codex after": {Codex, After, "/usr/bin/timeout", `/usr/bin/timeout -k 1 25 /opt/yett hook codex --config /e/h || ` +
			`{ [ $? -eq 2 ] || echo "yett: output not scanned, withheld" >&2; exit 2; }`},
		"copilot after": {Copilot, After, "/usr/bin/timeout", `if o=$(/usr/bin/timeout -k 1 25 /opt/yett hook copilot ` +
			`--config /e/h) ` +
			`&& [ -n "$o" ]; then printf %s "$o"; else printf %s '{"modifiedResult":{"resultType":"success",` +
			`"textResultForLlm":"yett: output not scanned, withheld"}}'; fi`},
		"cline": {Cline, Before, "/usr/bin/timeout", "#!/bin/sh\n" + `if o=$(/usr/bin/timeout -k 1 50 /opt/yett hook ` +
			`cline --config /e/h) && [ -n "$o" ]; then printf %s "$o"; else ` +
			`printf %s '{"cancel":true,"errorMessage":"yett: no decision, ` +
			`call refused"}'; fi` + "\n"},
		"without timeout": {Codex, Before, "", `/opt/yett hook codex --config /e/h || ` +
			`{ [ $? -eq 2 ] || echo "yett: no decision, call refused" >&2; exit 2; }`},
		"gemini before": {Gemini, Before, "", `if o=$(/opt/yett hook gemini --config /e/h); then printf %s "$o"; else ` +
			`[ $? -eq 2 ] || echo "yett: no decision, call refused" >&2; exit 2; fi`},
		"gemini after": {Gemini, After, "", `if o=$(/opt/yett hook gemini --config /e/h); then printf %s "$o"; else ` +
			`[ $? -eq 2 ] || echo "yett: output not scanned, withheld" >&2; exit 2; fi`},
	} {
		got, err := Guard(row.agent, row.phase, Command{"/opt/yett", "/e/h", row.timeout})
		if err != nil || got != row.want {
			t.Errorf("%s: %v\ngot  %s\nwant %s", name, err, got, row.want)
		}
	}
}

// TestGuardRefusesPaths holds that no line is made of a path that a shell, or a reader of the file, would take apart.
func TestGuardRefusesPaths(t *testing.T) {
	for _, bad := range []string{"", "yett", "./yett", "/opt//yett", "/opt/../yett", "/opt/yett/", "/opt/y\nett",
		"/a\x00"} {
		for _, agent := range Agents() {
			for _, c := range []Command{{Yett: bad, Config: "/e/h"}, {Yett: "/opt/yett", Config: bad}} {
				if line, err := Guard(agent, Before, c); err == nil {
					t.Errorf("%s: %q: %s", agent, bad, line)
				}
			}
			if line, err := Guard(agent, Before, Command{"/opt/yett", "/e/h", bad}); err == nil &&
				bad != "" && agent != OpenCode {
				t.Errorf("%s: timeout %q: %s", agent, bad, line)
			}
		}
	}
	for _, phase := range []Phase{Unknown, Notice} {
		if line, err := Guard(Codex, phase, Command{Yett: "/opt/yett", Config: "/e/h"}); err == nil {
			t.Errorf("phase %s: %s", phase, line)
		}
	}
	if _, err := Guard("nobody", Before, Command{Yett: "/opt/yett", Config: "/e/h"}); err == nil {
		t.Error("a guard for an unknown agent")
	}
}

// TestTimings holds that each limit ends before the one around it.
func TestTimings(t *testing.T) {
	for _, agent := range Agents() {
		for _, phase := range []Phase{Before, After, AfterBatch, Prompt} {
			x := TimingOf(agent, phase)
			if x.Watchdog <= 0 || x.Watchdog >= x.Guard || x.Agent != 0 && x.Guard >= x.Agent {
				t.Errorf("%s %s: %+v", agent, phase, x)
			}
		}
	}
}

// TestPluginText holds that the plugin has the path as a JavaScript string and nothing left to fill in.
func TestPluginText(t *testing.T) {
	const bin = `/opt/it's "$x" \ ${y}/yett`
	src, err := Guard(OpenCode, Before, Command{Yett: bin, Config: bin + ".json"})
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(src, "const yett = ")
	literal, _, _ := strings.Cut(rest, "\n")
	var got string
	if err := json.Unmarshal([]byte(literal), &got); err != nil || got != bin {
		t.Errorf("%v: %s", err, literal)
	}
	if strings.Contains(src, "{{") || !strings.Contains(src, "const limit = 55000\n") {
		t.Errorf("the plugin is not filled in:\n%s", src)
	}
}

// TestPlugin runs the plugin with Node.js, whose path is in YETT_TEST_NODE.
func TestPlugin(t *testing.T) {
	node := os.Getenv("YETT_TEST_NODE")
	if node == "" {
		t.Skip("set YETT_TEST_NODE to the path of Node.js")
	}
	for name, row := range map[string]struct {
		script string
		want   string
	}{
		"permit":         {`printf %s '{"effect":"permit"}'`, `ran {"command":"ls","n":1}`},
		"rewrite":        {`printf %s '{"effect":"permit","args":{"command":"pwd"}}'`, `ran {"command":"pwd"}`},
		"deny":           {`printf %s '{"effect":"deny","message":"m"}'; echo no >&2; exit 2`, "threw no"},
		"deny at 0":      {`printf %s '{"effect":"deny","message":"m"}'`, "threw yett: an unknown answer, refused"},
		"another word":   {`printf %s '{"effect":"pass"}'`, "threw yett: an unknown answer, refused"},
		"empty":          {"", "threw yett: an answer that is not JSON, refused"},
		"text":           {"echo hello", "threw yett: an answer that is not JSON, refused"},
		"null":           {"echo null", "threw yett: an answer that is not JSON, refused"},
		"two values":     {`printf %s '{"effect":"permit"}{}'`, "threw yett: an answer that is not JSON, refused"},
		"permit, killed": {`printf %s '{"effect":"permit"}'; kill -9 $$`, "threw yett: no decision, refused"},
		"permit, failed": {`printf %s '{"effect":"permit"}'; exit 1`, "threw yett: no decision, refused"},
		"pass":           {`printf %s '{"effect":"pass"}'`, `saw {"output":"SECRET","metadata":1}`},
		"replace":        {`printf %s '{"effect":"replace","output":{"output":"x"}}'`, `saw {"output":"x","metadata":1}`},
		"withhold":       {`printf %s '{"effect":"withhold","message":"w"}'`, `saw {"output":"w","metadata":1}`},
		"warn":           {`printf %s '{"effect":"warn","message":"w"}'`, `saw {"output":"SECRET\nw","metadata":1}`},
		"no such word":   {`printf %s '{"effect":"permit"}'`, "threw yett: an unknown answer, withheld"},
		"missing":        {"missing", "threw yett: cannot be started, refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			bin := filepath.Join(dir, "yett")
			if row.script != "missing" {
				if err := testkit.WriteProgram(bin, []byte("#!/bin/sh\ncat >/dev/null\n"+row.script+"\n")); err != nil {
					t.Fatal(err)
				}
			}
			src, err := Guard(OpenCode, Before, Command{Yett: bin, Config: bin + ".json"})
			if err != nil {
				t.Fatal(err)
			}
			run := "tool.execute.before"
			if strings.HasPrefix(row.want, "saw") || strings.HasSuffix(row.want, "withheld") {
				run = "tool.execute.after"
			}
			src += `
const p = await Yett({ directory: "/r" })
const ids = { tool: "bash", sessionID: "s", callID: "c", args: {} }
const held = { args: { command: "ls", n: 1 } }
const out = { output: "SECRET", metadata: 1 }
try {
  if ("` + run + `" === "tool.execute.before") {
    await p["tool.execute.before"](ids, held)
    console.log("ran " + JSON.stringify(held.args))
  } else {
    await p["tool.execute.after"](ids, out)
    console.log("saw " + JSON.stringify(out))
  }
} catch (e) {
  console.log("threw " + e.message)
}
`
			file := filepath.Join(dir, "yett.mjs")
			if err := os.WriteFile(file, []byte(src), 0o644); err != nil {
				t.Fatal(err)
			}
			got, err := exec.Command(node, file).CombinedOutput()
			if err != nil || strings.TrimSpace(string(got)) != row.want {
				t.Errorf("%v: got %s, want %s", err, got, row.want)
			}
		})
	}
}

// TestGaps holds that every agent says what its hooks cannot cover, and which agents nobody has run.
func TestGaps(t *testing.T) {
	for _, agent := range Agents() {
		list := Gaps(agent)
		if len(list) < 3 {
			t.Errorf("%s: %d gaps", agent, len(list))
		}
		unrun := false
		for _, g := range list {
			unrun = unrun || strings.Contains(g.What, "adapter is written from documents. It has not been run")
			if !strings.HasSuffix(g.What, ".") || g.Do != "" && !strings.HasSuffix(g.Do, ".") {
				t.Errorf("%s: not a sentence: %+v", agent, g)
			}
		}
		if unrun != (agent == Cursor || agent == VSCode || agent == Windsurf) {
			t.Errorf("%s: unrun is %v", agent, unrun)
		}
	}
	for i, a := range Agents() {
		if got, err := ParseAgent(string(a)); err != nil || got != a {
			t.Errorf("agent %d: %v %v", i, got, err)
		}
	}
	if _, err := ParseAgent("Claude"); err == nil || !strings.Contains(err.Error(), "claude-code") {
		t.Errorf("an unknown agent: %v", err)
	}
}
