package main

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/yett-dev/yett/core/testkit"
)

// fullPipe is where a server may write its log: a pipe that nobody reads until drain is called, which gives what comes
// out of it. fill leaves no room in it.
type fullPipe struct {
	t    *testing.T
	in   *os.File // the server's
	path string
	out  *os.File
}

func newFullPipe(t *testing.T) *fullPipe {
	t.Helper()
	p := &fullPipe{t: t, path: filepath.Join(t.TempDir(), "stderr")}
	err := syscall.Mkfifo(p.path, 0o600)
	if err == nil {
		p.out, err = os.OpenFile(p.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	}
	if err == nil {
		p.in, err = os.OpenFile(p.path, os.O_WRONLY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if left := make([]byte, 64<<10); t.Failed() {
			n, err := p.out.Read(left)
			t.Logf("the log: %s, %v", strings.TrimRight(string(left[:max(n, 0)]), "\n"), err)
		}
		p.in.Close()
		p.out.Close()
	})
	return p
}

func (p *fullPipe) fill() {
	p.t.Helper()
	fd, err := syscall.Open(p.path, syscall.O_WRONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	defer syscall.Close(fd)
	for err == nil {
		_, err = syscall.Write(fd, []byte("\n"))
	}
	if !errors.Is(err, syscall.EAGAIN) {
		p.t.Fatal(err)
	}
}

// lines gives what comes out of the pipe, line by line.
func (p *fullPipe) lines() *bufio.Scanner { return bufio.NewScanner(p.out) }

// TestNobodyReadsTheLog: a server whose stderr takes nothing answers, stops agents, puts every reload in force and
// ends.
func TestNobodyReadsTheLog(t *testing.T) {
	testkit.Slow(t, "fills pipes")
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	rule := func(effect string) {
		t.Helper()
		text := "rules:\n  - {id: all, tools: [\"**\"], effect: " + effect + "}\n"
		if err := os.WriteFile(rules, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, read := range []bool{false, true} {
		t.Run(map[bool]string{true: "read in the end", false: "never read"}[read], func(t *testing.T) {
			rule("permit")
			config := filepath.Join(t.TempDir(), "yett.yaml")
			text := "version: 1\nserver: {metrics: \"127.0.0.1:0\"}\nplugins: {secrets: {kind: scanner, builtin: secrets}}\n" +
				"chains:\n  authorize: {steps: [{name: r, rules: [" + rules + "]}]}\n  scan_output: {steps: [{use: secrets}]}\n"
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			pipe := newFullPipe(t)
			s := &server{t: t, stderr: &syncBuffer{}, rest: make(chan string, 1), client: newClient(t)}
			s.command("--config", config)
			s.cmd.Stderr = pipe.in
			s.start()
			pipe.fill()
			s.asks("a", "PERMIT")
			for _, effect := range []string{"deny", "defer", "permit", "deny"} {
				rule(effect)
				if e := s.reloads(); e.code != 0 {
					t.Fatalf("reload: %+v", e)
				}
				s.asks("b", strings.ToUpper(effect))
			}
			if a := s.post(s.Keys.Operator, "/v1/kill", `{"agent_id":"a","reason":"test"}`); a.status != 200 {
				t.Errorf("kill: %d %s", a.status, a.body)
			}
			if ready := s.readyz(); !strings.Contains(ready, `"status":"ready"`) {
				t.Error(ready)
			}
			if !read {
				return // it has to end all the same
			}
			said := pipe.lines()
			reloads := 0
			for reloads < 4 && said.Scan() {
				if strings.Contains(said.Text(), " is in force (was ") {
					reloads++
				}
			}
			s.stop()
			pipe.in.Close() // the server's is closed too: the pipe has an end
			last := ""
			for said.Scan() {
				last = said.Text()
			}
			if err := said.Err(); err != nil || !strings.HasSuffix(last, " stopping") {
				t.Errorf("the last line is %q (%v)", last, err)
			}
		})
	}
}

// TestNobodyReadsTheLogAnyMore: a server goes on when the reader of its log goes away, says that lines are lost, and
// ends as asked.
func TestNobodyReadsTheLogAnyMore(t *testing.T) {
	pipe := newFullPipe(t)
	s := &server{t: t, stderr: &syncBuffer{}, rest: make(chan string, 1), client: newClient(t)}
	s.command()
	s.cmd.Stderr = pipe.in
	s.start()
	if err := pipe.out.Close(); err != nil {
		t.Fatal(err)
	}
	for lost := false; !lost; lost = strings.Contains(s.readyz(), "lines of the server's log are being lost") {
		s.reloads()
	}
	s.asks("a", "DENY")
}

// asks fails unless an agent's call has that effect.
func (s *server) asks(agent, effect string) {
	s.t.Helper()
	if a := s.post(s.Keys.Agent, "/v1/authorize", `{"agent_id":"`+agent+`","tool_id":"x"}`); a.str("effect") != effect {
		s.t.Errorf("%d %s, want %s", a.status, a.body, effect)
	}
}
