//go:build linux && amd64

package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/yett-dev/yett/cmd/internal/e2e"
	"github.com/yett-dev/yett/core/admin"
	"github.com/yett-dev/yett/core/testkit"
)

// faultCall is one call that changes the data directory.
type faultCall struct {
	name, path string
}

var digits = regexp.MustCompile(`[0-9]+`)

// kind is the same for calls that are alike.
func (c faultCall) kind(dir string) string {
	return c.name + " " + digits.ReplaceAllString(strings.TrimPrefix(c.path, dir), "N")
}

// mayTrace skips where a program cannot be traced.
func mayTrace(t *testing.T) {
	t.Helper()
	testkit.Slow(t, "makes calls to the system fail, one in each run")
	if os.Geteuid() != 0 {
		t.Skip("to look at the descriptors of a gateway, which hides itself, takes root")
	}
	c := exec.Command("/bin/true")
	c.Env = append(os.Environ(), faultEnv+"="+text(faultOrder{Args: []string{"/bin/true"}, Dir: "/none",
		Log: filepath.Join(t.TempDir(), "log")}))
	c.Path = testBinary(t)
	if out, err := c.CombinedOutput(); err != nil {
		t.Skipf("nothing can be traced here: %v: %s", err, out)
	}
}

func testBinary(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// underFault is a command whose at-th call that changes dir fails with EIO; 0 is none.
func underFault(t *testing.T, dir string, at int, args ...string) (cmd *exec.Cmd, log string) {
	t.Helper()
	log = filepath.Join(t.TempDir(), "calls")
	cmd = exec.Command(testBinary(t))
	cmd.Env = append(os.Environ(), generous[0], faultEnv+"="+text(faultOrder{
		Args: append([]string{e2e.Binary(t)}, args...), Dir: dir, At: at, Log: log}))
	return cmd, log
}

// callsOf reads the calls that a tracer has counted.
func callsOf(t *testing.T, log string) (calls []faultCall) {
	t.Helper()
	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var n int
		var c faultCall
		if _, err := fmt.Sscanf(line, "call %d %s %s", &n, &c.name, &c.path); err == nil {
			calls = append(calls, c)
		}
	}
	return calls
}

// places are the calls that fail, one in each run: all with YETT_FULL, else of one of every so many kinds the one in
// the middle.
func places(t *testing.T, dir string, calls []faultCall, every int) (at []int) {
	t.Helper()
	kinds := map[string][]int{}
	for i, c := range calls {
		kinds[c.kind(dir)] = append(kinds[c.kind(dir)], i+1)
	}
	for i, kind := range slices.Sorted(maps.Keys(kinds)) {
		all := kinds[kind]
		if os.Getenv("YETT_FULL") != "" {
			at = append(at, all...)
		} else if i%every == 0 {
			at = append(at, all[len(all)/2])
		}
	}
	slices.Sort(at)
	if len(calls) == 0 {
		t.Fatal("a run without a fault changes nothing")
	}
	t.Logf("%d calls change the directory, %d of them fail in turn", len(calls), len(at))
	return at
}

// faultWorld is what each run of a gateway begins with.
type faultWorld struct {
	config, template       string
	agent, approver, admin string
	spares                 [][2]string // ids and values of keys that can be revoked
	known                  *outside
}

// nearlySealed is a little less than the records that are sealed at once.
const nearlySealed = 8<<20 - 160<<10

func newFaultWorld(t *testing.T) *faultWorld {
	t.Helper()
	w := &faultWorld{config: filepath.Join(t.TempDir(), "yett.yaml"), template: filepath.Join(t.TempDir(), "data"),
		known: newOutside()}
	for name, text := range map[string]string{
		w.config: "version: 1\nserver: {listen: \"127.0.0.1:0\", metrics: off}\nconsole: {enabled: false}\n" +
			"storage: {ballast: 128KiB, min_free: 32MiB}\naudit: {args: full}\n" +
			"chains: {authorize: {steps: [{name: house, rules: [rules.yaml]}]}}\n",
		filepath.Join(filepath.Dir(w.config), "rules.yaml"): "rules:\n" +
			"  - {id: reads, tools: [\"files/*\"], effect: permit}\n  - {id: money, tools: [\"pay/*\"], effect: defer}\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := serveOn(t, w.config, w.template)
	key := func(args ...string) (id, value string) {
		id, value = s.madeKey(args...)
		w.known.keys[value] = id
		return id, value
	}
	_, w.agent = key("agent", "--agents", "*")
	_, w.approver = key("approver", "--preset", "approver")
	_, w.admin = key("admin", "--preset", "operator", "--agents", "*")
	for i := range 4 {
		id, value := key(fmt.Sprint("spare ", i), "--agents", "*")
		w.spares = append(w.spares, [2]string{id, value})
	}
	body, each := bigCall("before", 60<<10), 60<<10
	atOnce(8, nearlySealed/each, func(int) {
		a, err := s.send("POST", "/v1/authorize", w.agent, body)
		if err != nil || a.str("effect") != "PERMIT" {
			t.Errorf("%v: %d %.300s", err, a.status, a.body)
			return
		}
		w.known.answered(func() { w.known.ids[a.str("decision_id")] = "PERMIT" })
	})
	s.stop()
	if sealed, _ := filepath.Glob(filepath.Join(w.template, "log", "*.seg")); len(sealed) > 0 {
		t.Fatalf("sealed already: %v", sealed)
	}
	return w
}

func bigCall(name string, size int) string {
	return fmt.Sprintf(`{"agent_id":"a","tool_id":"files/read","args":{"n":%q,"text":%q}}`, name, strings.Repeat("x", size))
}

// beginning is what is known before a run.
func (w *faultWorld) beginning() *faultClient {
	c := &faultClient{w: w, outside: newOutside(), killed: map[string]bool{}, grants: map[string]bool{}}
	maps.Copy(c.ids, w.known.ids)
	maps.Copy(c.keys, w.known.keys)
	return c
}

// faultClient is all clients of one run.
type faultClient struct {
	*outside
	w       *faultWorld
	s       *server
	killed  map[string]bool // agents; false once the undoing was answered
	grants  map[string]bool // ids
	refused int
	gone    bool
}

// call sends one request. It is true if it was answered with 200: what was refused has 503.
func (c *faultClient) call(key, path, body string) (answer, bool) {
	if c.gone {
		return answer{}, false
	}
	a, err := c.s.send("POST", path, key, body)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		c.gone = true
	case os.IsTimeout(err):
		c.gone, c.wrong = true, append(c.wrong, fmt.Errorf("%s %.200s: no answer: %w", path, body, err))
	case err != nil: // it ended in between
	case a.status == 200:
		c.answers++
		return a, true
	case a.status != 503 || a.json["effect"] != nil && a.str("effect") != "DENY":
		c.wrong = append(c.wrong, fmt.Errorf("%s %.200s: %d %s", path, body, a.status, a.body))
	default:
		c.refused++
	}
	return a, false
}

func (c *faultClient) decide(body, want string) (answer, bool) {
	a, ok := c.call(c.w.agent, "/v1/authorize", body)
	if ok {
		c.ids[a.str("decision_id")] = a.str("effect")
		if a.str("effect") != want {
			c.wrong = append(c.wrong, fmt.Errorf("%.200s: want %s, got %s", body, want, a.body))
		}
	}
	return a, ok
}

// hundred does a hundred operations of every kind.
func (c *faultClient) hundred() {
	for i := range 11 {
		c.decide(bigCall(fmt.Sprint("n", i), 30<<10), "PERMIT")
		c.decide(`{"agent_id":"a","tool_id":"shell/run"}`, "DENY")
		if a, ok := c.call(c.w.agent, "/v1/scan_output", `{"tool_id":"t","output":"nothing to see"}`); ok {
			c.ids[a.str("scan_id")] = a.str("outcome")
		}
		c.waits(i)
		if a, ok := c.call(c.w.admin, "/v1/grants", fmt.Sprintf(`{"agent_id":"g%d","tool_pattern":"pay/*","ttl_seconds":3600}`, i)); ok {
			c.grants[a.str("grant_id")] = true
		}
		c.kills(i)
		c.manage(i)
	}
}

// waits has a call wait, and somebody answer it.
func (c *faultClient) waits(i int) {
	body := fmt.Sprintf(`{"agent_id":"a","tool_id":"pay/refund","args":{"order":%d},"defer_token":"%%s"}`, i)
	a, ok := c.decide(fmt.Sprintf(body, ""), "DEFER")
	if !ok {
		return
	}
	token := a.str("defer_token")
	c.defers[token] = asked{key: c.w.agent, status: "pending"}
	yes, ok := c.call(c.w.approver, "/v1/approve", fmt.Sprintf(`{"defer_token":%q,"approved":%v}`, token, i%4 != 3))
	if !ok {
		return
	}
	c.defers[token] = asked{key: c.w.agent, status: yes.str("status")}
	if i%4 == 3 {
		return
	}
	if _, ok := c.decide(fmt.Sprintf(body, token), "PERMIT"); ok {
		c.defers[token] = asked{key: c.w.agent, status: "consumed"}
	}
}

func (c *faultClient) kills(i int) {
	rogue := fmt.Sprint("rogue-", i)
	if _, ok := c.call(c.w.admin, "/v1/kill", fmt.Sprintf(`{"agent_id":%q,"reason":"it loops"}`, rogue)); !ok {
		return
	}
	c.killed[rogue] = true
	if i%2 == 0 {
		return
	}
	_, ok := c.call(c.w.admin, "/v1/kill", fmt.Sprintf(`{"agent_id":%q,"reason":"fixed","undo":true}`, rogue))
	if c.killed[rogue] = !ok; !ok {
		delete(c.killed, rogue) // it may hold or not
	}
}

// manage makes and revokes keys over the operators' socket.
func (c *faultClient) manage(i int) {
	if i%3 != 0 || c.gone {
		return
	}
	socket, err := admin.Dial(c.s.Data)
	if err != nil {
		return // it has ended
	}
	defer socket.Close()
	var k admin.NewKey
	if socket.Do(c.s.t.Context(), "POST", "/keys", admin.CreateRequest{Name: fmt.Sprint("made ", i)}, &k) == nil {
		c.keys[k.Key] = k.ID
	}
	spare := c.w.spares[i/3]
	delete(c.keys, spare[1]) // from here on it may work or not
	if socket.Do(c.s.t.Context(), "POST", "/keys/"+spare[0]+"/revoke", nil, nil) == nil {
		c.revoked[spare[1]] = spare[0]
	}
}

// startUnderFault runs `yett serve` until it serves or ends.
func startUnderFault(t *testing.T, config, data string, at int) (s *server, log string) {
	t.Helper()
	s = &server{t: t, stderr: &syncBuffer{}, rest: make(chan string, 1), client: newClient(t), Data: data}
	s.client.Timeout = patience
	s.cmd, log = underFault(t, data, at, "serve", "--config", config, "--data", data)
	up, ended := make(chan struct{}), make(chan struct{})
	serves := sync.OnceFunc(func() { close(up) })
	s.cmd.Stderr = writes(func(p []byte) {
		_, _ = s.stderr.Write(p)
		if servingOn.MatchString(s.stderr.String()) {
			serves()
		}
	})
	stdout, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		more, _ := io.ReadAll(stdout)
		s.rest <- string(more)
		close(ended)
	}()
	select {
	case <-up:
		s.URL = servingOn.FindStringSubmatch(s.stderr.String())[1]
	case <-ended:
	case <-time.After(patience):
		t.Errorf("yett serve neither serves nor ends\n%s", s.stderr)
		_ = s.cmd.Process.Kill()
	}
	return s, log
}

type writes func(p []byte)

func (w writes) Write(p []byte) (int, error) { w(p); return len(p), nil }

// run is one run of a gateway with a fault. It tells how that ended, and the calls up to the fault.
func (w *faultWorld) run(t *testing.T, at int) (end string, calls []faultCall) {
	data := filepath.Join(t.TempDir(), "data")
	if out, err := exec.Command("cp", "-a", w.template, data).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c := w.beginning()
	s, log := startUnderFault(t, w.config, data, at)
	c.s = s
	if s.URL != "" {
		c.hundred()
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	err := s.wait()
	switch {
	case s.URL == "":
		end = "no start"
	case c.gone || c.refused > 0:
		end = "ended"
	case err != nil:
		end = "failed at its stop"
	default:
		end = "went on"
	}
	if calls = callsOf(t, log); at > 0 && len(calls) < at {
		return "not reached", calls
	}
	if end != "went on" && err == nil && s.URL == "" {
		t.Errorf("yett serve ended with 0 and has not served\n%s", s.stderr)
	}
	if len(c.wrong) > 0 {
		t.Errorf("%d wrong answers, such as %v\n%s", len(c.wrong), c.wrong[0], s.stderr)
	}
	w.holds(t, c, data)
	return end, calls
}

// holds starts a gateway on what a run has left, and looks for all that was answered.
func (w *faultWorld) holds(t *testing.T, c *faultClient, data string) {
	t.Helper()
	s := serveOn(t, w.config, data)
	if err := c.outside.holds(s, 0); err != nil {
		t.Error(err)
	}
	for agent, killed := range c.killed {
		want := map[bool]string{true: "DENY", false: "PERMIT"}[killed]
		a, err := s.send("POST", "/v1/authorize", w.agent, fmt.Sprintf(`{"agent_id":%q,"tool_id":"files/read"}`, agent))
		if err != nil || a.str("effect") != want {
			t.Errorf("the kill of %s was answered, in force: %v; now %v %s", agent, killed, err, a.body)
		}
	}
	list, err := s.send("GET", "/v1/grants?limit=100", w.admin, "")
	for id := range c.grants {
		if err != nil || !strings.Contains(list.body, id) {
			t.Errorf("the grant %s was answered: %v %s", id, err, list.body)
		}
	}
	s.stop()
	if out, err := exec.Command(e2e.Binary(t), "store", "check", "--data", data).CombinedOutput(); err != nil {
		t.Errorf("store check: %v: %s", err, out)
	}
	if err := os.RemoveAll(data); err != nil {
		t.Error(err)
	}
}

// TestEveryChangeOfAServerFails: in a start, a hundred operations with a seal, and a stop, each call that changes the
// data directory fails in one run. Everything is answered or refused; the next start has all that was answered.
func TestEveryChangeOfAServerFails(t *testing.T) {
	mayTrace(t)
	w := newFaultWorld(t)
	end, calls := w.run(t, 0)
	data := filepath.Dir(calls[0].path)
	kinds := map[string]bool{}
	for _, c := range calls {
		kinds[c.kind(data)] = true
	}
	t.Log(strings.Join(slices.Sorted(maps.Keys(kinds)), "\n"))
	if end != "went on" || !kinds["openat /log/N.seg.tmp"] && !kinds["openat /log/N.seg"] {
		t.Fatalf("without a fault: %s", end)
	}
	var mu sync.Mutex
	ends := map[string]int{}
	t.Run("at", func(t *testing.T) {
		for _, at := range places(t, data, calls, 2) {
			t.Run(fmt.Sprint(at), func(t *testing.T) {
				t.Parallel()
				end, reached := w.run(t, at)
				if t.Failed() && len(reached) > 0 {
					t.Logf("%s: %v", end, reached[len(reached)-1])
				}
				mu.Lock()
				defer mu.Unlock()
				ends[end]++
			})
		}
	})
	t.Log(ends)
	if ends["ended"] == 0 {
		t.Error("no fault ended a server")
	}
}

// TestEveryChangeOfAFirstStartFails: a start on no directory at all, a key, and a stop. Whatever call fails, the next
// start works, and has the key if it was answered.
func TestEveryChangeOfAFirstStartFails(t *testing.T) {
	mayTrace(t)
	w := &faultWorld{config: readsOnly(t), known: newOutside()}
	run := func(t *testing.T, at int) (ended bool, data string, calls []faultCall) {
		data = filepath.Join(t.TempDir(), "data")
		c := w.beginning()
		s, log := startUnderFault(t, w.config, data, at)
		if socket, err := admin.Dial(data); s.URL != "" && err == nil {
			var k admin.NewKey
			if socket.Do(t.Context(), "POST", "/keys", admin.CreateRequest{Name: "first"}, &k) == nil {
				c.keys[k.Key] = k.ID
			}
			socket.Close()
		}
		_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		ended = s.wait() == nil
		w.holds(t, c, data)
		return ended, data, callsOf(t, log)
	}
	ended, data, calls := run(t, 0)
	if !ended {
		t.Fatal("without a fault it failed")
	}
	t.Run("at", func(t *testing.T) {
		for _, at := range places(t, data, calls, 4) {
			t.Run(fmt.Sprint(at), func(t *testing.T) {
				t.Parallel()
				if _, _, reached := run(t, at); t.Failed() && len(reached) > 0 {
					t.Log(reached[len(reached)-1])
				}
			})
		}
	})
}

// TestEveryChangeOfAnUpgradeFails: whatever call of an upgrade fails, it can be run again, and the records are those
// of an upgrade in which none did.
func TestEveryChangeOfAnUpgradeFails(t *testing.T) {
	mayTrace(t)
	run := func(t *testing.T, at int) (data, records string, calls []faultCall) {
		data = filepath.Join(t.TempDir(), "data")
		script := `mkdir -m 700 "$1" && tar -xzf ../../core/store/testdata/layout1.tar.gz -C "$1" && umask 77 && ` +
			`head -c 32 /dev/zero >"$1/pepper" && head -c 32 /dev/zero >"$1/audit.key"`
		if out, err := exec.Command("sh", "-c", script, "sh", data).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		upgrade, log := underFault(t, data, at, "store", "upgrade", "--data", data, "--yes")
		hung := time.AfterFunc(patience, func() { _ = upgrade.Process.Kill() })
		out, err := upgrade.CombinedOutput()
		if !hung.Stop() {
			t.Errorf("the upgrade does not end: %s", out)
		}
		if at == 0 && err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if err != nil && len(out) == 0 {
			t.Error("it failed, and said nothing")
		}
		for _, args := range [][]string{{"upgrade", "--yes"}, {"check"}} {
			again, err := exec.Command(e2e.Binary(t), append(append([]string{"store"}, args...), "--data",
				data)...).CombinedOutput()
			if err != nil {
				t.Errorf("store %v: %v: %s; at first it said: %s", args, err, again, out)
			}
		}
		s := &server{t: t, Data: data}
		_, records, _ = strings.Cut(s.exported(), "\n")
		return data, records, callsOf(t, log)
	}
	data, want, calls := run(t, 0)
	t.Run("at", func(t *testing.T) {
		for _, at := range places(t, data, calls, 4) {
			t.Run(fmt.Sprint(at), func(t *testing.T) {
				t.Parallel()
				_, got, reached := run(t, at)
				if got != want {
					t.Errorf("%d bytes of records, want %d", len(got), len(want))
				}
				if t.Failed() && len(reached) > 0 {
					t.Log(reached[len(reached)-1])
				}
			})
		}
	})
}
