// Package main holds no program: this example is a page, a hook and two jobs for CI. The test runs each command of the
// page in a repository of its own, and commits through the hook.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// password is what the scanner finds. It is none, and no file of ours holds it.
func password(n int) string { return fmt.Sprintf("k3%cmvr0q%d", '!', n) }

// repository is a working tree with the program on its path.
type repository struct {
	*testing.T
	dir string
	env []string
}

func start(t *testing.T) *repository {
	if testing.Short() {
		t.Skip("-short: the real binary is not built")
	}
	bin, dir := t.TempDir(), t.TempDir()
	if out, err := exec.Command("go", "build", "-o", filepath.Join(bin, "yett"), "../../cmd/yett").CombinedOutput(); err !=
		nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r := &repository{t, dir, append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"),
		"GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@example.invalid",
		"GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@example.invalid")}
	r.sh(0, "git init -q")
	hook, err := os.ReadFile("pre-commit")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "pre-commit"), hook, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *repository) write(name, text string) {
	r.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
		r.Fatal(err)
	}
}

// sh runs a line of a shell, which must end with that code.
func (r *repository) sh(want int, line string) string {
	r.Helper()
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir, cmd.Env = r.dir, r.env
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		r.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != want {
		r.Fatalf("%s: exit %d, want %d\n%s", line, got, want, out)
	}
	if strings.Contains(string(out), password(1)[:6]) {
		r.Errorf("%s prints a value: %s", line, out)
	}
	return string(out)
}

// commands are the lines of the page's shells.
func commands(t *testing.T) (out []string) {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	inside := false
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "```") {
			inside = !inside && strings.HasPrefix(line, "```sh")
			continue
		}
		if line, _, _ = strings.Cut(line, " #"); inside && strings.TrimSpace(line) != "" {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}

// TestReadme: the page's commands do what it says, in its order.
func TestReadme(t *testing.T) {
	r := start(t)
	r.write("config.env", "db_password = \""+password(1)+"\"\n")
	r.write("app.log", "login with password = \""+password(2)+"\"\n")
	r.write(".gitignore", "*.log\nyett.sarif\n")
	codes := map[string]int{"yett scan .": 1, "yett scan --verbose .": 1,
		"yett scan --min-severity high --format json .":  1,
		"cat app.log | yett scan --redact - > clean.log": 1}
	all := commands(t)
	if len(all) < 9 {
		t.Fatalf("the page has %d commands", len(all))
	}
	for _, line := range all {
		r.sh(codes[line], line)
	}
	for name, want := range map[string]string{"yett.sarif": `"version": "2.1.0"`, "clean.log": "[SECRET_PASSWORD]"} {
		text, err := os.ReadFile(filepath.Join(r.dir, name))
		if err != nil || !strings.Contains(string(text), want) || strings.Contains(string(text), password(1)[:6]) {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}

// TestHook: a commit with a finding is refused; one without, and one whose finding is known or allowed, is not.
func TestHook(t *testing.T) {
	r := start(t)
	r.sh(0, "cp pre-commit .git/hooks/pre-commit")
	r.write("a", "clean\n")
	r.sh(0, "git add a && git commit -q -m clean")
	r.write("a", "password = \""+password(1)+"\"\n")
	r.sh(0, "git add a")
	r.write("a", "clean again, and not staged\n")
	if out := r.sh(1, "git commit -q -m secret"); !strings.Contains(out, "a:1:13: ") ||
		!strings.Contains(out, "the commit is refused") {
		t.Error(out)
	}
	r.sh(0, "git add a && git commit -q -m clean")
	r.write("a", "password = \""+password(1)+"\"\n")
	r.sh(1, "git commit -q -a -m secret")
	r.write("a", "password = \""+password(1)+"\" # yett:allow SECRET_PASSWORD sample\n")
	r.sh(0, "git commit -q -a -m allowed")
	r.write("b", "password = \""+password(2)+"\"\n")
	r.sh(0, "yett scan --baseline .yett-baseline.json --write-baseline . && git add . && git commit -q -m known")
	r.write("b", "\npassword = \""+password(2)+"\"\n")
	r.sh(0, "git commit -q -a -m moved")
	r.write("b", "\npassword = \""+password(3)+"\"\n")
	r.sh(1, "git commit -q -a -m new")
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	if out := r.sh(1, "PATH="+filepath.Dir(git)+":/bin git commit -q -a -m unscanned"); !strings.Contains(out,
		"nothing was scanned") {
		t.Error(out)
	}
}

// TestJobs: the jobs run commands that there are.
func TestJobs(t *testing.T) {
	r := start(t)
	r.write("a", "clean\n")
	r.sh(0, "yett scan --baseline .yett-baseline.json --write-baseline .")
	for _, name := range []string{"github-workflow.yaml", "gitlab-ci.yaml"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		ran := 0
		for line := range strings.Lines(string(text)) {
			if _, command, ok := strings.Cut(line, "yett scan --"); ok {
				r.sh(0, "yett scan --"+command)
				ran++
			}
		}
		if ran != 1 {
			t.Errorf("%s runs yett scan %d times", name, ran)
		}
	}
}
