package live

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yett-dev/yett/cmd/internal/agents/model"
	"github.com/yett-dev/yett/cmd/internal/agents/rig"
)

// managed are the agents that skip hooks which their user has not looked at: only a managed place holds there.
var managed = map[string]bool{"codex": true, "copilot": true}

// connect runs yett connect as the agent's user, or as root for a managed place.
func (g *gateway) connect(t *testing.T, p *rig.Place, agent string, more ...string) {
	t.Helper()
	args := append([]string{"connect", agent}, more...)
	if managed[agent] {
		args = append(args, "--managed", "--data", g.data())
		if len(more) == 0 {
			args = append(args, "--group", fmt.Sprint(p.User))
		}
		if out, err := exec.Command(yett, args...).CombinedOutput(); err != nil {
			t.Fatalf("yett %v: %v\n%s", args, err, out)
		}
		return
	}
	p.Write("key", g.key)
	if len(more) == 0 {
		args = append(args, "--socket", filepath.Join(g.dir, "yett.sock"), "--key-file", filepath.Join(p.Home, "key"),
			"--mcp-server", "tester")
	}
	out, err := p.Exec(t.Context(), nil, append([]string{yett}, args...)...)
	if err != nil || out.Code != 0 {
		t.Fatalf("yett %v: %v, exit %d\n%s\n%s", args, err, out.Code, out.Stdout, out.Stderr)
	}
}

// files are all files below directories, by path; a link is where it leads.
func files(t *testing.T, dirs ...string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) && path == dir {
				return nil
			}
			if err != nil || d.IsDir() {
				return err
			}
			raw, err := os.ReadFile(path)
			out[path] = string(raw)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func contains(text string, words ...string) bool {
	for _, w := range words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

// TestConnected connects each agent with the command that its user runs, looks that a call is permitted, one denied and
// a secret kept, and takes the hooks out again: every file is as it was.
func TestConnected(t *testing.T) {
	g := start(t, "1m")
	for _, c := range rig.Table {
		t.Run(c.Name, func(t *testing.T) {
			p := rig.New(t)
			s, err := model.Start(model.Script{Turns: []model.Turn{shell("touch permitted"), shell("touch denied # never-this"),
				shell("touch shown; cat leak.txt"), done}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			r := rig.Run{Prompt: "Do as you are told.", Model: s}
			if err := p.Configure(t.Context(), c, r); err != nil {
				t.Fatal(err)
			}
			p.Write(leak, "token="+secret+"\n")
			p.Write("key", g.key)
			places := []string{p.Home, "/etc/codex", "/etc/github-copilot", "/etc/yett"}
			before := files(t, places...)
			g.connect(t, p, c.Name)
			if len(files(t, places...)) == len(before) {
				t.Error("connect wrote nothing")
			}
			ran := &played{Server: s, place: p, out: p.Start(c, r)}
			if !ran.made("permitted") {
				t.Errorf("a permitted call did not run\n%.2000s\n%.2000s", ran.out.Stdout, ran.out.Stderr)
			}
			if ran.made("denied") {
				t.Error("a denied call RAN")
			}
			if !ran.made("shown") || s.Contains(secret) {
				t.Errorf("an output was shown: %v, the model SAW the secret: %v", ran.made("shown"), s.Contains(secret))
			}
			g.connect(t, p, c.Name, "--undo")
			after := files(t, places...)
			for path, text := range before {
				if now, is := after[path]; (!is || now != text) && filepath.Dir(path) != filepath.Join(p.Home, "tmp") {
					t.Logf("%s differs: the agent may have written it", path)
				}
			}
			for path, text := range after {
				if _, was := before[path]; !was && contains(text, "yett hook", g.dir) {
					t.Errorf("%s stays behind", path)
				}
			}
		})
	}
}
