package rig

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yett-dev/yett/cmd/internal/agents/model"
)

func TestMain(m *testing.M) { os.Exit(Main(m, fill)) }

// fill builds what the tests start.
func fill(share string) error {
	build := exec.Command("go", "build", "-o", filepath.Join(share, "mcpserver"), "./mcpserver")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return os.WriteFile(filepath.Join(share, "given"), []byte("from outside"), 0o644)
}

// play runs a client to its end against a script, and expects that it follows the script and exits with 0.
func play(t *testing.T, c Client, p *Place, mcp map[string][]string, turns ...model.Turn) *model.Server {
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
	out := p.Start(c, Run{Prompt: "Do as you are told.", Model: s, MCP: mcp})
	for _, r := range s.Sent() {
		t.Logf("%s %s: %s, turn %d %s", r.Method, r.Path, r.Kind, r.Turn, r.Why)
	}
	for _, call := range s.Calls() {
		for _, got := range s.Results(call.ID) {
			t.Logf("%s %s: %q", call.Tool, call.Arguments, got.Text)
		}
	}
	t.Logf("%s took %s", c.Name, out.Took)
	if err := s.Err(); err != nil {
		t.Error(err)
	}
	if out.Code != 0 || t.Failed() {
		t.Errorf("exit %d\nstdout: %.6000s\nstderr: %.6000s", out.Code, out.Stdout, out.Stderr)
	}
	return s
}

// TestClients runs each unmodified client against the scripted model: a shell command makes a file, and its output
// comes back to the model.
func TestClients(t *testing.T) {
	for _, c := range Table {
		t.Run(c.Name, func(t *testing.T) {
			p := New(t)
			s := play(t, c, p, nil, model.Turn{Calls: []model.Call{model.Shell("echo made > made.txt; printf it-was-%d 42")}},
				model.Turn{Text: "The file is made."})
			if text, err := os.ReadFile(filepath.Join(p.Work, "made.txt")); string(text) != "made\n" {
				t.Errorf("the file holds %q: %v", text, err)
			}
			if !s.Contains("it-was-42") {
				t.Error("the model did not see the command's output")
			}
		})
	}
}

// TestFileTools runs the clients with tools for files, two calls in a turn, and then a third.
func TestFileTools(t *testing.T) {
	for _, c := range Table {
		if c.Name == "codex" {
			continue // it reads by shell and writes by patch
		}
		t.Run(c.Name, func(t *testing.T) {
			p := New(t)
			p.Write("work/read-me.txt", "a line\nto be \"read\"\n")
			s := play(t, c, p, nil, model.Turn{Text: "First two calls.", Calls: []model.Call{
				model.WriteFile(filepath.Join(p.Work, "written.txt"), "by a tool\n"),
				model.ReadFile(filepath.Join(p.Work, "read-me.txt"))}},
				model.Turn{Calls: []model.Call{model.Shell("printf it-was-%d 42")}}, model.Turn{Text: "Done."})
			if text, err := os.ReadFile(filepath.Join(p.Work, "written.txt")); strings.TrimSpace(string(text)) != "by a tool" {
				t.Errorf("the file holds %q: %v", text, err)
			}
			if !s.Contains(`to be "read"`) || !s.Contains("it-was-42") {
				t.Error("the model did not see what the tools gave")
			}
		})
	}
}

// TestMCPTools runs each client with an MCP server: its tool gets the model's arguments, number by number, and the
// model gets its answer.
func TestMCPTools(t *testing.T) {
	for _, c := range Table {
		t.Run(c.Name, func(t *testing.T) {
			p := New(t)
			log := filepath.Join(p.Home, "calls")
			server := map[string][]string{"tester": {Share + "/mcpserver", "-text", "said \"this\"", "-log", log}}
			s := play(t, c, p, server,
				model.Turn{Calls: []model.Call{model.MCP("tester", "say", []byte(`{"about":"nothing"}`))}},
				model.Turn{Calls: []model.Call{model.MCP("tester", "fail", []byte(`{"about":"all"}`))}},
				model.Turn{Text: "Done."})
			want := "say {\"about\":\"nothing\"}\nfail {\"about\":\"all\"}\n"
			if text, err := os.ReadFile(log); string(text) != want {
				t.Errorf("the server was called with %q: %v", text, err)
			}
			if !s.Contains(`said "this"`) {
				t.Error("the model did not see the tool's answer")
			}
		})
	}
}

func TestPlace(t *testing.T) {
	p := New(t)
	p.Managed("/etc/yett-rig-test/managed.json", "{}")
	tests := []struct{ name, command, want string }{
		{"user", "id -un; id -gn", p.name + "\n" + p.name + "\n"},
		{"home", "echo $HOME; pwd; echo x > $HOME/x; cat $HOME/x", p.Home + "\n" + p.Work + "\nx\n"},
		{"variables", "env | grep -c -e ^YETT -e ^GO", "0\n"},
		{"machine's home", "ls /root 2>&1", "ls: cannot open directory '/root': Permission denied\n"},
		{"network", "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '", "lo\n"},
		{"managed", "cat /etc/yett-rig-test/managed.json; rm -f /etc/yett-rig-test/managed.json 2>/dev/null || echo no",
			"{}no\n"},
		{"shared", "cat " + Share + "/given", "from outside"},
		{"processes", "ls -d /proc/[0-9]* | wc -l | xargs test 9 -gt && echo few", "few\n"},
	}
	for _, tt := range tests {
		out, err := p.Exec(t.Context(), nil, "bash", "-c", tt.command)
		if err != nil {
			t.Fatal(err)
		}
		if out.Stdout != tt.want {
			t.Errorf("%s: got %q, expected %q; exit %d, %s", tt.name, out.Stdout, tt.want, out.Code, out.Stderr)
		}
	}
	if err := os.WriteFile("/usr/yett-rig-test", nil, 0o600); err == nil {
		t.Error("the machine's disk can be written", os.Remove("/usr/yett-rig-test"))
	}
}

func TestNothingStays(t *testing.T) {
	p := New(t)
	if _, err := p.Exec(t.Context(), nil, "bash", "-c", "setsid sleep 1000 & setsid sleep 1000 &"); err != nil {
		t.Fatal(err)
	}
	if pids, err := p.processes(); err != nil || len(pids) != 2 {
		t.Errorf("the processes before are %v: %v", pids, err)
	}
	if err := p.stopAll(); err != nil {
		t.Error(err)
	}
	if pids, err := p.processes(); err != nil || len(pids) != 0 {
		t.Errorf("the processes after are %v: %v", pids, err)
	}
}

// TestOutside runs everywhere: what is not the private place is told from it.
func TestOutside(t *testing.T) {
	if os.Getenv(insideVar) == "" {
		if err := outside(); err == nil || !strings.Contains(err.Error(), "this is not the private place") {
			t.Errorf("the machine itself is taken for the private place: %v", err)
		}
	}
	here, err := namespaces()
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]string{"": "shares mnt:", here: "shares mnt:", "a b c": "not the first of"} {
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestPlace$")
		cmd.Env = append(os.Environ(), Switch+"=1", insideVar+"=x", shareVar+"=x", hostVar+"="+host)
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) || !strings.Contains(string(out), insideVar) {
			t.Errorf("a process of this place, told that it is in another, says: %v\n%s", err, out)
		}
	}
}
