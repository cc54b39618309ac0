package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/yett-dev/yett/cmd/internal/e2e"
	"github.com/yett-dev/yett/core/testkit"
)

// thrownAway finds where a printed tour keeps its data.
var thrownAway = regexp.MustCompile(`data in (\S+) \(thrown away at the end\)`)

// What `yett dev` prints can be pasted into a shell. It is the README's tour with the README's variables, and each line
// answers what the README says.
func TestTour(t *testing.T) {
	lines, want := readmeTour(t)
	printed := runDevTour(t, func(exports, curls []string) {
		if !slices.Equal(curls, lines) {
			t.Errorf("yett dev prints\n%s\nand the README has\n%s", strings.Join(curls, "\n"), strings.Join(lines, "\n"))
		}
		var names []string
		for _, line := range exports {
			name, _, _ := strings.Cut(strings.TrimPrefix(line, "export "), "=")
			names = append(names, name)
			if !strings.Contains(readmeText(t), "`"+name+"`") {
				t.Errorf("the README does not name %s", name)
			}
		}
		for _, used := range shellVariables.FindAllStringSubmatch(strings.Join(lines, "\n"), -1) {
			if used[1] != "TOKEN" && !slices.Contains(names, used[1]) {
				t.Errorf("the README uses $%s, which yett dev does not print", used[1])
			}
		}
		answers := bash(t, nil, slices.Concat(exports, lines))[len(exports):]
		for i, answer := range answers {
			for part := range strings.SplitSeq(want[i], " … ") {
				if !strings.Contains(answer, part) {
					t.Errorf("%s\nanswers %s\nwithout %s", lines[i], answer, part)
				}
			}
		}
	})
	m := thrownAway.FindStringSubmatch(printed)
	if m == nil {
		t.Fatalf("the tour does not say where the data are:\n%s", printed)
	}
	if _, err := os.Stat(m[1]); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", m[1], err)
	}
}

// runDevTour starts `yett dev` as a person does, hands the shell lines that it prints to fn, stops it, and returns all
// it printed.
func runDevTour(t *testing.T, fn func(exports, lines []string)) string {
	t.Helper()
	cmd := exec.Command(e2e.Binary(t), "dev", "--listen", "127.0.0.1:0")
	cmd.Env = slices.Concat(os.Environ(), []string{"XDG_CACHE_HOME=" + e2e.Cache()}, generous, generousDev)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	hung := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer hung.Stop()
	var printed strings.Builder
	var exports, lines []string
	for sc := bufio.NewScanner(stdout); sc.Scan(); {
		line := sc.Text()
		printed.WriteString(line + "\n")
		switch {
		case strings.HasPrefix(line, "export "):
			exports = append(exports, line)
		case strings.HasPrefix(line, "curl "), strings.HasPrefix(line, "TOKEN="):
			lines = append(lines, line)
		case strings.HasPrefix(line, "Stop with"):
			fn(exports, lines)
			_ = cmd.Process.Signal(syscall.SIGINT) // the loop ends with the output
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("yett dev ended with %v\n%s", err, &printed)
	}
	return printed.String()
}

// bash runs lines in one shell and returns what each of them printed.
func bash(t *testing.T, env, lines []string) []string {
	t.Helper()
	const mark = "--- end of answer"
	script := "set -eo pipefail\n"
	for _, line := range lines {
		script += line + "\necho; echo '" + mark + "'\n"
	}
	cmd := exec.Command("bash", "-c", script)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("bash: %v\n%s", err, out)
	}
	answers := strings.Split(string(out), mark)
	return answers[:len(answers)-1]
}

func readmeText(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// readme gives the fenced blocks of the README that are in one language.
func readme(t *testing.T, language string) []string {
	t.Helper()
	var blocks []string
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```").FindAllStringSubmatch(readmeText(t), -1) {
		blocks = append(blocks, m[1])
	}
	if len(blocks) == 0 {
		t.Fatalf("the README has no %s", language)
	}
	return blocks
}

var shellVariables = regexp.MustCompile(`\$([A-Z_]+)`)

// readmeTour gives the lines of shell of the README's tour, and what each "#> " below one says of its answer.
func readmeTour(t *testing.T) (lines, want []string) {
	t.Helper()
	for _, block := range readme(t, "bash") {
		for line := range strings.Lines(block) {
			switch line = strings.TrimSuffix(line, "\n"); {
			case strings.HasPrefix(line, "#> "):
				want = append(want, strings.TrimPrefix(line, "#> "))
			case strings.HasPrefix(line, "curl "), strings.HasPrefix(line, "TOKEN="):
				lines = append(lines, line)
			}
		}
	}
	if len(lines) < 6 || len(want) != len(lines) {
		t.Fatalf("the README's tour has %d lines and %d answers", len(lines), len(want))
	}
	return lines, want
}

// Each command that the README names exists, with its flags.
func TestReadmeCommands(t *testing.T) {
	yett := e2e.Binary(t)
	seen := 0
	for _, block := range readme(t, "sh") {
		for line := range strings.Lines(block) {
			line, _, _ = strings.Cut(line, "#")
			for _, prefix := range []string{"go run ./cmd/yett ", "yett "} {
				args, ok := strings.CutPrefix(strings.TrimSpace(line), prefix)
				if !ok {
					continue
				}
				seen++
				if out, err := exec.Command(yett, append(strings.Fields(args), "--help")...).CombinedOutput(); err != nil {
					t.Errorf("%s: %v\n%s", line, err, out)
				}
			}
		}
	}
	all := strings.Join(readme(t, "sh"), "\n")
	for _, must := range []string{"go run ./cmd/yett dev", "go test ./..."} {
		if !strings.Contains(all, must) {
			t.Errorf("the README does not say %q", must)
		}
	}
	if seen < 3 {
		t.Errorf("only %d commands found", seen)
	}
}

// The README's scanner compiles, finds what it should natively, and is taken by the README's configuration as a module.
func TestReadmeScanner(t *testing.T) {
	testkit.Slow(t, "builds a scanner")
	dir := t.TempDir()
	yett := e2e.Binary(t)
	source := filepath.Join(dir, "main.go")
	code := readme(t, "go")[0]
	if n := strings.Count(code, "\n"); n > 20 {
		t.Errorf("the scanner has %d lines, the README promises about 15", n)
	}
	write(t, source, code)
	run := exec.Command("go", "run", source)
	run.Stdin = strings.NewReader("ask about Bluebird")
	if out, err := run.CombinedOutput(); err != nil ||
		!strings.Contains(string(out), `"kind":"CODENAME","start":10,"end":18`) {
		t.Fatalf("go run: %v\n%s", err, out)
	}
	module := filepath.Join(dir, "codename.wasm")
	build := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o",
		module, source)
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	wasm, err := os.ReadFile(module)
	if err != nil {
		t.Fatal(err)
	}
	yaml := readme(t, "yaml")
	config := strings.Replace(yaml[0], `digest: "sha256:…"`, fmt.Sprintf(`digest: "sha256:%x"`, sha256.Sum256(wasm)), 1)
	if config == yaml[0] {
		t.Fatalf("the README's chain does not use the scanner with its digest:\n%s", config)
	}
	write(t, filepath.Join(dir, "yett.yaml"), config)
	write(t, filepath.Join(dir, "rules.yaml"), yaml[1])
	if out, err := exec.Command(yett, "config", "check", filepath.Join(dir, "yett.yaml")).CombinedOutput(); err != nil {
		t.Fatalf("config check: %v\n%s", err, out)
	}
	s := startDev(t, []string{"YETT__PLUGINS__CODENAME__LIMITS__TIMEOUT=30s"}, "--config", filepath.Join(dir, "yett.yaml"))
	a := s.post(s.Keys.Agent, "/v1/scan_output",
		text(map[string]any{"tool_id": "mail/read", "output": "ask about Bluebird"}))
	var got struct {
		Outcome   string `json:"outcome"`
		Sanitized string `json:"sanitized_output"`
	}
	if err := json.Unmarshal([]byte(a.body), &got); err != nil || got.Outcome != "REDACTED" ||
		strings.Contains(got.Sanitized, "Bluebird") {
		t.Errorf("scan_output: %s", a.body)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
