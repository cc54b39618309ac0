//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/yett-dev/yett/cmd/internal/cli"
	"github.com/yett-dev/yett/cmd/internal/e2e"
	"github.com/yett-dev/yett/core/testkit"
)

// fakeMode is one line of fake modes.
type fakeMode struct{ name, group string }

func fakeModes(t testing.TB) (all []fakeMode) {
	t.Helper()
	path, _ := e2e.Fake(t)
	out, err := exec.Command(path, "modes").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		f := strings.Split(line, "\t")
		all = append(all, fakeMode{f[0], f[1]})
	}
	return all
}

// operatorsBusiness are the modes that a gateway does not start with: only the operator can mend them.
var operatorsBusiness = []string{"refuse-configure", "error-configure", "wrong-api", "wrong-kind", "no-kind",
	"bad-name", "bad-version", "bad-schema", "outside-schema", "wrong-protocol", "net-rpc", "foreign-port",
	"foreign-socket", "no-tls"}

// putUpWith are the modes of the groups start and settings that a gateway puts up with: their answers are right.
var putUpWith = []string{"noise-before", "info-changes"}

// pluginSettings are what a mode is given beside the usual.
func pluginSettings(m fakeMode) (env, more string) {
	env, limits := "", "timeout: 200ms, start: 5s, drain: 2s"
	if m.group == "start" || m.group == "settings" {
		limits = "timeout: 200ms, start: 1s, drain: 2s"
	}
	switch m.name {
	case "info-changes":
		env = `, FAKE_ARG: "1000000"` // so long it is right; what comes of another version is the host's own test
	case "slow-handshake":
		env = ", FAKE_ARG: 1h"
	case "memory-hog":
		limits += ", memory: 512MiB"
	case "file-hog":
		limits += ", files: 256"
	case "fork-bomb":
		limits += ", processes: 96"
		uid := 20_000 + os.Getpid()%40_000 // the limit is of the user, over all runs of this test
		more = fmt.Sprintf(", user: {uid: %d, gid: %d}", uid, uid)
	case "crash-nth", "panic-nth", "grandchild-crash":
		limits += ", replicas: 2"
		if m.name == "grandchild-crash" {
			more = ", confine: off"
		}
	case "grandchild": // inside it could start nothing
		more = ", confine: off"
	case "huge":
		limits = "timeout: 5s, start: 5s, drain: 2s"
	}
	if m.group == "noise" || m.group == "good" || slices.Contains(putUpWith, m.name) ||
		slices.Contains(operatorsBusiness, m.name) {
		limits = "timeout: 20s, start: 20s, drain: 2s"
	}
	return env, ", limits: {" + limits + "}" + more
}

// suspects writes a configuration with these fakes: each step asks one of them about the tools of its name. A rule
// permits every call, so that only a step that speaks keeps a call from a permit.
func suspects(t testing.TB, token, secret string, modes ...fakeMode) string {
	t.Helper()
	path, digest := e2e.Fake(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	var plugins, steps strings.Builder
	for _, m := range modes {
		env, more := pluginSettings(m)
		fmt.Fprintf(&plugins, "  p-%s: {kind: authorizer, exec: %s, digest: %q, env: {FAKE_MODE: %s, FAKE_RUN: %s%s}, "+
			"secrets: {token: {file: token}}%s}\n",
			m.name, path, digest, m.name, token, env, more)
		fmt.Fprintf(&steps, "      - {use: p-%s, match: {tools: [\"fake/*/%s\"]}, on_error: deny}\n", m.name, m.name)
	}
	return writeConfig(t, dir, plugins.String(), steps.String(), "")
}

// writeConfig writes a configuration whose rules permit every call.
func writeConfig(t testing.TB, dir, plugins, steps, more string) string {
	t.Helper()
	rules := "rules:\n  - {id: all, tools: [\"**\"], effect: permit}\n"
	if err := os.WriteFile(filepath.Join(dir, "all.yaml"), []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "yett.yaml")
	text := "version: 1\nserver: {metrics: \"127.0.0.1:0\"}\nconsole: {listen: \"127.0.0.1:0\"}\nplugins:\n  secrets: " +
		"{kind: scanner, builtin: secrets}\n" + plugins +
		"chains:\n  scan_output: {steps: [{use: secrets}]}\n  authorize:\n    budget: 30s\n    steps:\n      - {name: " +
		"house, rules: [all.yaml]}\n" + steps + more
	rewrite(t, file, text)
	return file
}

// rewrite changes a file as an operator's tools do, in one step.
func rewrite(t testing.TB, file, text string) {
	t.Helper()
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// asked sends one call.
func (s *server) asked(tool string) (answer, error) {
	a, err := s.send("POST", "/v1/authorize", s.Keys.Agent,
		text(map[string]any{"agent_id": "a", "tool_id": tool, "args": map[string]any{"n": 1}}))
	if err == nil {
		err = a.wellFormed()
	}
	return a, err
}

// markedBy are the processes with a text in their environment: their ids and command lines.
func markedBy(token string) map[int]string {
	found := map[int]string{}
	entries, _ := os.ReadDir("/proc") // there is one: this is Linux
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		// whatever cannot be read is gone
		if env, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "environ")); bytes.Contains(env, []byte(token)) {
			line, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
			found[pid] = strings.ReplaceAll(string(line), "\x00", " ")
		}
	}
	return found
}

// becomes waits until something holds.
func becomes(holds func() bool) bool {
	end, tick := time.NewTimer(patience), time.NewTicker(20*time.Millisecond)
	defer end.Stop()
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-end.C:
			return false
		}
	}
	return true
}

// steady calls at a fixed rate what no plugin is asked about. Latencies count from when a call was due.
type steady struct {
	s    *server
	tool string
	mu   sync.Mutex
	took []time.Duration
	errs []error
	stop chan struct{}
	wg   sync.WaitGroup
}

func (s *server) steadily(tool string, every time.Duration) *steady {
	l := &steady{s: s, tool: tool, stop: make(chan struct{})}
	due := make(chan time.Time, 4096)
	l.wg.Go(func() {
		defer close(due)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case now := <-tick.C:
				select {
				case due <- now:
				default: // the workers are that late: what is queued says so
				}
			case <-l.stop:
				return
			}
		}
	})
	for range 16 {
		l.wg.Go(func() {
			for at := range due {
				a, err := s.asked(tool)
				took := time.Since(at)
				if err == nil && (a.status != 200 || a.str("effect") != "PERMIT") {
					err = fmt.Errorf("a neighbour's answer: %d %.300s", a.status, a.body)
				}
				l.mu.Lock()
				l.took = append(l.took, took)
				if err != nil {
					l.errs = append(l.errs, err)
				}
				l.mu.Unlock()
			}
		})
	}
	return l
}

// lap takes what was measured since the last one.
func (l *steady) lap() []time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.took
	l.took = nil
	return out
}

// end stops the load; every answer must have been right.
func (l *steady) end(t testing.TB) {
	t.Helper()
	close(l.stop)
	l.wg.Wait()
	if len(l.errs) > 0 {
		t.Errorf("%d neighbours were not served, the first: %v", len(l.errs), l.errs[0])
	}
}

func quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	d = slices.Sorted(slices.Values(d))
	return d[min(int(q*float64(len(d))), len(d)-1)]
}

// pluginRow is a plugin in `yett plugin status`.
type pluginRow struct {
	Name, State, Detail string
	Starts              uint64
	Subscriber          *struct {
		State      string
		Cursor     uint64
		LagRecords uint64 `json:"lag_records"`
		Detail     string
	}
}

func (s *server) plugins() map[string]pluginRow {
	s.t.Helper()
	out, err := exec.Command(e2e.Binary(s.t), "plugin", "status", "--data", s.Data, "-o", "jsonl").Output()
	if err != nil {
		s.t.Fatalf("plugin status: %v", err)
	}
	rows := map[string]pluginRow{}
	for line := range strings.Lines(string(out)) {
		var r pluginRow
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			s.t.Fatalf("plugin status: %v: %s", err, line)
		}
		rows[r.Name] = r
	}
	return rows
}

// beside are the latencies of neighbours beside a good plugin and beside one fake that is called as often.
type beside struct{ good, with []time.Duration }

// maySwitch says whether this process may start others as another user, and give files away: root in a container may
// not be able to.
var maySwitch = sync.OnceValue(func() bool {
	file := filepath.Join(e2e.Dir, "given-away")
	c := exec.Command("/bin/true")
	c.Dir = "/"
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 20_000, Gid: 20_000}}
	return os.WriteFile(file, nil, 0o600) == nil && os.Chown(file, 20_000, 20_000) == nil && c.Run() == nil
})

// TestHostilePlugins puts every fake beside neighbours: nothing that it does wrongly ends in a permit, the gateway
// stays up, its restarts are few, its processes are gone with the gateway, and the secret is in no environment and no
// argument. What it costs the neighbours is logged: what one of them costs by itself, with YETT_FAKES=name,name, which
// gives each a gateway of its own.
func TestHostilePlugins(t *testing.T) {
	testkit.Slow(t, "waits for dozens of plugins that hang")
	var groups [][]fakeMode
	var all []fakeMode
	together, alone := 20, strings.Split(os.Getenv("YETT_FAKES"), ",")
	if alone[0] != "" {
		together = 1
	}
	for _, m := range fakeModes(t) {
		switch {
		case together == 1 && !slices.Contains(alone, m.name):
		case m.group == "feed" || m.group == "conform" || m.group == "good" || slices.Contains(operatorsBusiness, m.name):
		case m.name == "fork-bomb" && !maySwitch():
			t.Log("no fork bomb: its limit counts what its user has, so it takes a user of its own, and the right to switch")
		default:
			all = append(all, m)
		}
	}
	groups = slices.Collect(slices.Chunk(all, together))
	costs := map[string]*beside{}
	calls := 0
	for round := range rounds(t, 1, 20) {
		for i, g := range groups {
			t.Run(fmt.Sprintf("round %d, group %d", round, i), func(t *testing.T) { calls += suffered(t, g, costs) })
		}
	}
	var total beside
	for _, name := range slices.Sorted(maps.Keys(costs)) {
		c := costs[name]
		total.good, total.with = append(total.good, c.good...), append(total.with, c.with...)
		a, w := quantile(c.good, 0.99), quantile(c.with, 0.99)
		t.Logf("%-20s neighbours' p99 %8v beside a good one, %8v beside it: %.2f× (%d and %d calls)", name,
			a.Round(time.Microsecond), w.Round(time.Microsecond), float64(w)/float64(max(a, 1)),
			len(c.good), len(c.with))
	}
	a, w := quantile(total.good, 0.99), quantile(total.with, 0.99)
	t.Logf("%d fakes, %d calls of fakes, no permit; all neighbours: p99 %v and %v: %.2f×", len(all), calls, a, w,
		float64(w)/float64(max(a, 1)))
}

// suffered runs one gateway with some fakes.
func suffered(t *testing.T, modes []fakeMode, costs map[string]*beside) (calls int) {
	token := fmt.Sprintf("run-%d-%d", os.Getpid(), time.Now().UnixNano())
	secret := "s" + "ecret-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	s := startDev(t, nil, "--config", suspects(t, token, secret, append([]fakeMode{{"good", "good"}}, modes...)...))
	start := time.Now()
	load := s.steadily("files/read", 4*time.Millisecond)
	pause(300 * time.Millisecond) // warm
	load.lap()
	for _, m := range modes {
		s.provoke(t, fakeMode{"good", "good"})
		good := load.lap()
		calls += s.provoke(t, m)
		c := costs[m.name]
		if c == nil {
			c = &beside{}
			costs[m.name] = c
		}
		c.good, c.with = append(c.good, good...), append(c.with, load.lap()...)
	}
	load.end(t)
	s.unspoken(t, token, secret)
	minutes := uint64(time.Since(start)/time.Minute) + 1
	rows := s.plugins()
	for _, m := range modes {
		r, ok := rows["p-"+m.name]
		if replicas := uint64(2); !ok || r.State == "" || r.Starts > 10*minutes*replicas {
			t.Errorf("%s: %+v", m.name, r)
		}
	}
	s.stop()
	if crash.MatchString(s.stderr.String()) {
		t.Errorf("%.3000s", s.stderr)
	}
	if strings.Contains(s.stderr.String(), secret) {
		t.Error("the secret is in the log")
	}
	if !becomes(func() bool { return len(markedBy(token)) == 0 }) {
		t.Errorf("still there: %v", markedBy(token))
	}
	return calls
}

// pause lets a load run for a while.
func pause(d time.Duration) { <-time.After(d) }

// provoke calls one fake from four sides for a while.
func (s *server) provoke(t *testing.T, m fakeMode) (calls int) {
	t.Helper()
	tool, right := "fake/deny/"+m.name, false
	if m.group == "noise" || m.group == "good" || slices.Contains(putUpWith, m.name) {
		tool, right = "fake/permit/"+m.name, true
		// it may still be starting
		if !becomes(func() bool { a, err := s.asked(tool); return err == nil && a.str("effect") == "PERMIT" }) {
			t.Errorf("%s: it never gives the right answer", m.name)
		}
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	end := time.Now().Add(300 * time.Millisecond)
	permits := 0
	for range 4 {
		wg.Go(func() {
			// so that one that fails at once is not called more than one that is slow
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for n := 0; n < 3 || time.Now().Before(end); n++ {
				a, err := s.asked(tool)
				mu.Lock()
				calls++
				switch {
				case err != nil || a.status != 200:
					t.Errorf("%s: %d %v %.300s", m.name, a.status, err, a.body)
				case a.str("effect") == "PERMIT":
					permits++
				case a.str("effect") != "DENY" && m.name != "bad-approvals":
					t.Errorf("%s: %.300s", m.name, a.body)
				}
				mu.Unlock()
				<-tick.C
			}
		})
	}
	wg.Wait()
	if permits > 0 && !right {
		t.Errorf("%s: %d permits of %d failed checks", m.name, permits, calls)
	}
	if permits == 0 && right {
		t.Errorf("%s: it is right, and not believed", m.name)
	}
	return calls
}

// unspoken looks for the secret and for anything of ours in what the plugins' processes were given.
func (s *server) unspoken(t *testing.T, token, secret string) {
	t.Helper()
	n := 0
	for pid := range markedBy(token) {
		env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)) // it may have ended
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if bytes.Contains(env, []byte(secret)) || bytes.Contains(args, []byte(secret)) {
			t.Errorf("process %d has the secret in its environment or arguments", pid)
		}
		for v := range strings.SplitSeq(strings.TrimRight(string(env), "\x00"), "\x00") {
			name, _, _ := strings.Cut(v, "=")
			if v != "" && !strings.HasPrefix(name, "FAKE_") && !strings.HasPrefix(name, "PLUGIN_") && name != "YETT_PLUGIN" &&
				name != "TMPDIR" && !strings.HasPrefix(v, "YETT_LAUNCH") {
				t.Errorf("process %d has %s, which nobody gave it", pid, name)
			}
		}
		n++
	}
	if n == 0 {
		t.Error("no plugin's process was found")
	}
}

// TestPluginsThatAreTheOperatorsBusiness offers each fake that only the operator can mend: config check and serve
// refuse it, and the reason names the plugin.
func TestPluginsThatAreTheOperatorsBusiness(t *testing.T) {
	testkit.Slow(t, "waits for plugins that fail")
	e2e.Binary(t)
	for _, name := range operatorsBusiness {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := suspects(t, "none", "none", fakeMode{name: name, group: "settings"})
			e := runBinary(t, "config", "check", file)
			judged(t, e)
			reason := strings.TrimSpace(e.stderr)
			if e.code != cli.ExitFailure || !strings.Contains(reason, "p-"+name) || strings.ContainsAny(reason, "\x1b\x00") ||
				len(reason) > 4000 {
				t.Errorf("config check: exit %d: %.5000q", e.code, reason)
			}
			e = runBinary(t, "serve", "--config", file, "--data", t.TempDir(), "--listen", "127.0.0.1:0")
			judged(t, e)
			if e.code != cli.ExitConfig || !strings.Contains(e.stderr, "p-"+name) {
				t.Errorf("serve: exit %d: %s", e.code, e.stderr)
			}
			t.Logf("%s", reason)
		})
	}
}

// TestSwappedPlugin changes a plugin's file: what was checked goes on, and the new bytes are never run.
func TestSwappedPlugin(t *testing.T) {
	testkit.Slow(t, "waits for restarts")
	path, digest := e2e.Fake(t)
	dir := t.TempDir()
	mine := filepath.Join(dir, "mine")
	code, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := testkit.WriteProgram(mine, code); err != nil {
		t.Fatal(err)
	}
	file := writeConfig(t, dir, fmt.Sprintf("  mine: {kind: authorizer, exec: %s, digest: %q, limits: {timeout: 20s}}\n",
		mine, digest), "      - {use: mine, match: {tools: [\"fake/**\"]}}\n", "")
	s := startDev(t, nil, "--config", file)
	if err := os.Remove(mine); err != nil { // a running program's file takes no writes
		t.Fatal(err)
	}
	if err := testkit.WriteProgram(mine, append(bytes.Clone(code), 0)); err != nil {
		t.Fatal(err)
	}
	if a, err := s.asked("fake/deny/x"); err != nil || a.str("reason_code") != "FAKE_DENY" {
		t.Errorf("the plugin that runs: %v %s", err, a.body)
	}
	e := runBinary(t, "config", "check", file)
	judged(t, e)
	if e.code != cli.ExitFailure || !strings.Contains(e.stderr, "mine") || !strings.Contains(e.stderr, digestOf(t, mine)) {
		t.Errorf("exit %d, want a refusal with the digest that is there: %s", e.code, e.stderr)
	}
	e = runBinary(t, "serve", "--config", file, "--data", t.TempDir(), "--listen", "127.0.0.1:0")
	if e.code != cli.ExitConfig {
		t.Errorf("serve: exit %d: %s", e.code, e.stderr)
	}
}
