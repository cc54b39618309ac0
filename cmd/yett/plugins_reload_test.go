//go:build linux

package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/cmd/internal/e2e"
	"github.com/yett-dev/yett/core/testkit"
)

// entitleVersion writes another version of the fake: other bytes, another digest.
func entitleVersion(t testing.TB, dir string, n int) (path, digest string) {
	t.Helper()
	from, _ := e2e.Fake(t)
	code, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, fmt.Sprintf("entitle-%d", n))
	if err := testkit.WriteProgram(path, append(bytes.Clone(code), byte(n))); err != nil {
		t.Fatal(err)
	}
	return path, digestOf(t, path)
}

// entitle is a plugin of some version as a configuration has it.
func entitle(path, digest, token, more string, n int) string {
	return fmt.Sprintf("  entitle: {kind: authorizer, exec: %s, digest: %q, env: {FAKE_VERSION: %d.0.0, FAKE_RUN: "+
		"%s%s}, limits: {timeout: 20s, start: 20s, drain: 20s}}\n", path, digest, n, token, more)
}

var startLimit = regexp.MustCompile(`start: [0-9a-z]+`)

// startsWithin gives a plugin of a configuration so long to start.
func startsWithin(plugin, limit string) string {
	return startLimit.ReplaceAllString(plugin, "start: "+limit)
}

const entitleStep = "      - {use: entitle, match: {tools: [\"fake/**\"]}, on_error: deny}\n"

// checked calls a plugin at a fixed rate: every answer must be its own, of whatever version.
type checked struct {
	s      *server
	stop   chan struct{}
	wg     sync.WaitGroup
	calls  atomic.Int64
	failed atomic.Int64
	first  atomic.Pointer[string]
	mu     sync.Mutex
	took   []time.Duration
}

func (s *server) checkedAt(rate int) *checked {
	c := &checked{s: s, stop: make(chan struct{})}
	tools := []string{"fake/permit/x", "fake/deny/x", "fake/slow/x"}
	due := make(chan time.Time, 8192)
	c.wg.Go(func() {
		defer close(due)
		tick := time.NewTicker(time.Second / time.Duration(rate))
		defer tick.Stop()
		for {
			select {
			case at := <-tick.C:
				select {
				case due <- at:
				default: // the machine is that late
				}
			case <-c.stop:
				return
			}
		}
	})
	for worker := range 64 {
		c.wg.Go(func() {
			for at := range due {
				n := c.calls.Add(1)
				tool := tools[n%2]
				if worker == 0 {
					tool = tools[2] // some are in flight at any time
				}
				a, err := s.asked(tool)
				if want := map[bool]string{true: "DENY", false: "PERMIT"}[tool == tools[1]]; err != nil ||
					a.str("effect") != want || want == "DENY" && a.str("reason_code") != "FAKE_DENY" {
					c.failed.Add(1)
					why := fmt.Sprintf("%s: %v %d %.400s", tool, err, a.status, a.body)
					c.first.CompareAndSwap(nil, &why)
				}
				c.mu.Lock()
				c.took = append(c.took, time.Since(at))
				c.mu.Unlock()
			}
		})
	}
	return c
}

func (c *checked) end(t testing.TB, start time.Time) {
	t.Helper()
	close(c.stop)
	c.wg.Wait()
	if n := c.failed.Load(); n > 0 {
		t.Errorf("%d of %d calls failed, the first: %s", n, c.calls.Load(), *c.first.Load())
	}
	t.Logf("%d calls in %v (%.0f/s), %d failed, p99 %v", c.calls.Load(), time.Since(start).Round(time.Millisecond),
		float64(c.calls.Load())/time.Since(start).Seconds(), c.failed.Load(), quantile(c.took, 0.99))
}

// reloads runs yett reload.
func (s *server) reloads() ended {
	s.t.Helper()
	return runBinary(s.t, "reload", "--data", s.Data)
}

// now is the version that answers.
func (s *server) now() string {
	a, err := s.asked("fake/deny/x")
	if err != nil {
		return err.Error()
	}
	return a.str("reason_code") + " " + a.str("reason")
}

// readyz is what /readyz says.
func (s *server) readyz() string {
	s.t.Helper()
	resp, err := s.client.Get(s.URL + "/readyz")
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return http.StatusText(resp.StatusCode) + " " + string(body)
}

// TestReloadOfAPlugin puts new versions of a plugin into service under load, good ones and bad ones: no call fails, the
// good ones take over, for the bad ones the old one serves on and the operator is told why.
func TestReloadOfAPlugin(t *testing.T) {
	testkit.Slow(t, "reloads beside calls")
	rate, hold := 300, 500*time.Millisecond
	if os.Getenv("YETT_FULL") != "" {
		rate, hold = 1000, 5*time.Second
	}
	token, dir := fmt.Sprintf("reload-%d-%d", os.Getpid(), time.Now().UnixNano()), t.TempDir()
	path, digest := entitleVersion(t, dir, 1)
	file := writeConfig(t, dir, entitle(path, digest, token, "", 1), entitleStep, "")
	s := startDev(t, nil, "--config", file, "--data", t.TempDir())
	start, load := time.Now(), s.checkedAt(rate)
	pause(hold)
	for n := 2; n <= 4; n++ {
		path, digest = entitleVersion(t, dir, n)
		writeConfig(t, dir, entitle(path, digest, token, "", n), entitleStep, "")
		if e := s.reloads(); e.code != 0 {
			t.Errorf("version %d: exit %d: %s", n, e.code, e.stderr)
		}
		if got := s.now(); !strings.Contains(got, fmt.Sprintf("version %d.0.0", n)) {
			t.Errorf("version %d is to answer: %s", n, got)
		}
		pause(hold)
	}
	if !becomes(func() bool { return len(markedBy(token)) == 1 }) {
		t.Errorf("old versions do not end: %v", markedBy(token))
	}
	for _, c := range []struct{ name, plugin, why, shown string }{ // shown to everybody on /readyz
		{"another digest", entitle(path, "sha256:"+strings.Repeat("0", 64), token, "", 5), "sha256", "sha256"},
		{"settings refused", entitle(path, digest, token, ", FAKE_MODE: refuse-configure", 5), "does not please", "does not please"},
		{"crash", entitle(path, digest, token, ", FAKE_MODE: crash-start", 5), "it says: fake: not today", "exit status 3)"},
		{"hang", startsWithin(entitle(path, digest, token, ", FAKE_MODE: hang-info", 5), "1s"), "Info", "Info"},
		{"bad answers", entitle(path, digest, token, ", FAKE_MODE: bad-first", 5), "not asked", "not asked"},
	} {
		writeConfig(t, dir, c.plugin, entitleStep, "")
		e := s.reloads()
		for _, longer := range []string{"5s", "20s"} { // a machine that is slow may come no further than the handshake
			if c.name == "hang" && !strings.Contains(e.stderr, c.why) {
				writeConfig(t, dir, startsWithin(c.plugin, longer), entitleStep, "")
				e = s.reloads()
			}
		}
		if e.code != cli.ExitFailure || !strings.Contains(e.stderr, "entitle") || !strings.Contains(e.stderr, c.why) {
			t.Errorf("%s: exit %d, want a reason with %q: %s", c.name, e.code, c.why, e.stderr)
		}
		if got := s.now(); !strings.Contains(got, "version 4.0.0") {
			t.Errorf("%s: version 4 is to serve on: %s", c.name, got)
		}
		if ready := s.readyz(); !strings.Contains(ready, c.shown) || strings.Contains(ready, "it says") {
			t.Errorf("%s: /readyz does not say %q, or quotes the plugin: %s", c.name, c.shown, ready)
		}
		pause(hold / 5)
	}
	path, digest = entitleVersion(t, dir, 6)
	writeConfig(t, dir, entitle(path, digest, token, "", 6), entitleStep, "")
	if e := s.reloads(); e.code != 0 || !strings.Contains(s.now(), "version 6.0.0") {
		t.Errorf("a good one after the bad ones: exit %d: %s; %s", e.code, e.stderr, s.now())
	}
	load.end(t, start)
	if !becomes(func() bool { return len(markedBy(token)) == 1 }) {
		t.Errorf("old versions do not end: %v", markedBy(token))
	}
	export := s.exported()
	if n := strings.Count(export, `"type":"config_refused"`); n < 5 {
		t.Errorf("%d records config_refused, want 5", n)
	}
	if n := strings.Count(export, `"type":"config_applied"`); n < 4 {
		t.Errorf("%d records config_applied, want 4", n)
	}
	s.stop()
	if !becomes(func() bool { return len(markedBy(token)) == 0 }) {
		t.Errorf("still there: %v", markedBy(token))
	}
}

// TestPluginSaysWhichLimit: an operator is told which limit has ended a plugin, how it is set, and what the plugin had.
func TestPluginSaysWhichLimit(t *testing.T) {
	t.Parallel()
	path, digest := e2e.Fake(t)
	hog := fmt.Sprintf("  hog: {kind: authorizer, exec: %s, digest: %q, env: {FAKE_MODE: memory-hog}, limits: {memory: "+
		"512MiB, timeout: 5s}}\n", path, digest)
	s := startDev(t, nil, "--config", writeConfig(t, t.TempDir(), hog,
		"      - {use: hog, match: {tools: [\"fake/**\"]}, on_error: deny}\n", ""))
	told := regexp.MustCompile(`ran out of memory: up to \d+ MiB were resident, limited to 512 MiB \(limits\.memory\)`)
	if !becomes(func() bool {
		a, err := s.asked("fake/permit/x")
		if err != nil || a.str("effect") != "DENY" {
			t.Errorf("%v %s", err, a.body)
		}
		return told.MatchString(s.plugins()["hog"].Detail)
	}) {
		t.Errorf("%+v", s.plugins()["hog"])
	}
	if !told.MatchString(s.stderr.String()) {
		t.Errorf("the log does not say it:\n%.3000s", s.stderr)
	}
}

// TestPluginQuarantine ends a plugin until it is given up, and resumes it: meanwhile its calls are denied at once, and
// an operator sees it.
func TestPluginQuarantine(t *testing.T) {
	testkit.Slow(t, "waits for restarts")
	token, dir := fmt.Sprintf("quarantine-%d-%d", os.Getpid(), time.Now().UnixNano()), t.TempDir()
	path, digest := e2e.Fake(t)
	s := startDev(t, nil, "--config", writeConfig(t, dir,
		entitle(path, digest, token, ", FAKE_MODE: crash-nth, FAKE_ARG: \"1\"", 1), entitleStep, ""), "--data", t.TempDir())
	down := func() bool {
		a, err := s.asked("fake/permit/x")
		if err != nil || a.str("effect") != "DENY" {
			t.Errorf("%v %s", err, a.body)
		}
		return s.plugins()["entitle"].State == "quarantined"
	}
	if !becomes(down) {
		t.Fatalf("%+v", s.plugins())
	}
	row := s.plugins()["entitle"]
	if row.Starts > 10 || !strings.Contains(s.readyz(), "quarantined") {
		t.Errorf("%+v; %s", row, s.readyz())
	}
	if !strings.Contains(s.exported(), `"to":"quarantined"`) {
		t.Error("it is not in the log")
	}
	out, err := exec.Command(e2e.Binary(t), "plugin", "resume", "entitle", "--data", s.Data).CombinedOutput()
	if err != nil {
		t.Errorf("%v %s", err, out)
	}
	if !becomes(func() bool { return s.plugins()["entitle"].Starts > row.Starts }) {
		t.Errorf("it was not resumed: %+v", s.plugins())
	}
}
