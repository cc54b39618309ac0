package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/yett-dev/yett/cmd/internal/e2e"
	"github.com/yett-dev/yett/core/testkit"
)

// smallDisk is a directory on a disk of its own of 96 MiB.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=96m,mode=700"); err != nil {
		if errors.Is(err, syscall.EPERM) {
			t.Skip("to mount a small disk takes root")
		}
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func freeBytes(t *testing.T, dir string) uint64 {
	t.Helper()
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	return uint64(st.Bavail) * uint64(st.Frsize)
}

// fill takes all that is free, as another program would.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	for size := 1 << 20; size >= 1<<12; size /= 256 {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

var servingOn = regexp.MustCompile(`serving on (http://\S+),`)

// serveOn runs `yett serve` on a data directory.
func serveOn(t *testing.T, config, data string, env ...string) *server {
	t.Helper()
	s := &server{t: t, stderr: &syncBuffer{}, rest: make(chan string, 1), client: newClient(t), Data: data}
	s.cmd = exec.Command(e2e.Binary(t), "serve", "--config", config, "--data", data)
	s.cmd.Env = append(append(os.Environ(), generous[0]), env...)
	s.cmd.Stderr = s.stderr
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	ended := make(chan struct{})
	go func() {
		more, _ := io.ReadAll(stdout)
		s.rest <- string(more)
		close(ended)
	}()
	for end := deadline(); ; runtime.Gosched() {
		if at := servingOn.FindStringSubmatch(s.stderr.String()); at != nil {
			s.URL = at[1]
			return s
		}
		select {
		case <-ended:
			err := s.wait()
			t.Fatalf("yett serve did not come up: %v\n%s", err, s.stderr)
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("yett serve does not come up\n%s", s.stderr)
		}
	}
}

// alive reports whether the process is there. One that has ended is waited for.
func (s *server) alive() bool {
	if s.ended {
		return false
	}
	if len(s.rest) == 0 {
		return true
	}
	_ = s.wait() // how it has ended is the caller's to judge
	return false
}

// askers asks whether calls may run until it is told to end.
type askers struct {
	mu      sync.Mutex
	permits map[string]bool // decision ids
	wrong   []string
	denied  int
	slowest time.Duration // of the denials
	at      atomic.Pointer[server]
	end     chan struct{}
	wg      sync.WaitGroup
}

func newAskers(s *server, key string) *askers {
	c := &askers{permits: map[string]bool{}, end: make(chan struct{})}
	c.at.Store(s)
	for n := range 8 {
		c.wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-c.end:
					return
				default:
					c.ask(key, n, i)
				}
			}
		})
	}
	return c
}

func (c *askers) ask(key string, n, i int) {
	start := time.Now()
	a, err := c.at.Load().send("POST", "/v1/authorize", key, fmt.Sprintf(
		`{"agent_id":"a","tool_id":"files/read","args":{"n":"%d-%d","text":%q}}`, n, i, strings.Repeat("x", 2000)))
	took := time.Since(start)
	if err != nil {
		return // the process has ended: nothing was answered
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch effect := a.str("effect"); {
	case a.status == 200 && effect == "PERMIT":
		c.permits[a.str("decision_id")] = true
	case a.status == 503 && effect == "DENY":
		c.denied++
		c.slowest = max(c.slowest, took)
	default:
		c.wrong = append(c.wrong, fmt.Sprintf("%d %s", a.status, a.body))
	}
}

func (c *askers) counts() (permits, denied int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.permits), c.denied
}

// until waits for what the askers is answered.
func (c *askers) until(t *testing.T, what string, is func(permits, denied int) bool) {
	t.Helper()
	for end := deadline(); !is(c.counts()); runtime.Gosched() {
		if time.Now().After(end) {
			permits, denied := c.counts()
			t.Fatalf("%s does not come: %d permits, %d denials\n%s", what, permits, denied, c.at.Load().stderr)
		}
	}
}

func (c *askers) stop() {
	close(c.end)
	c.wg.Wait()
}

// readsOnly is a configuration that permits files/*.
func readsOnly(t *testing.T) string {
	t.Helper()
	conf := t.TempDir()
	for name, text := range map[string]string{
		"yett.yaml": "version: 1\nserver: {listen: \"127.0.0.1:0\", metrics: off}\nconsole: {enabled: false}\n" +
			"chains: {authorize: {steps: [{name: house, rules: [rules.yaml]}]}}\n",
		"rules.yaml": "rules: [{id: reads, tools: [\"files/*\"], effect: permit}]\n",
	} {
		if err := os.WriteFile(filepath.Join(conf, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(conf, "yett.yaml")
}

// TestDiskFull: another program fills the disk of a gateway under load. Nothing is permitted without a record; kills
// and revocations are recorded; the gateway starts on the full disk; and once there is room it permits, without a
// restart.
func TestDiskFull(t *testing.T) {
	testkit.Slow(t, "fills a disk")
	disk := smallDisk(t)
	data, junk, config := filepath.Join(disk, "data"), filepath.Join(disk, "junk"), readsOnly(t)
	s := serveOn(t, config, data)
	_, agent := s.madeKey("agent", "--agents", "*")
	_, boss := s.madeKey("boss", "--preset", "operator", "--agents", "*")
	var spare []string
	for n := range 4 {
		id, _ := s.madeKey(fmt.Sprint("spare", n), "--agents", "*")
		spare = append(spare, id)
	}
	c := newAskers(s, agent)
	defer c.stop()
	c.until(t, "the first permit", func(permits, _ int) bool { return permits > 100 })
	last := filepath.Join(data, "log", "ballast-15")
	for end := deadline(); ; runtime.Gosched() {
		if _, err := os.Stat(last); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("there is no %s\n%s", last, s.stderr)
		}
	}

	var killed []string
	starts := 0
	// full checks a gateway on a full disk
	full := func(round int) {
		t.Helper()
		if !s.alive() { // as its supervisor would
			t.Logf("the disk became full within a write:\n%s", s.stderr)
			s = serveOn(t, config, data)
			starts++
			c.at.Store(s)
		}
		_, before := c.counts()
		c.until(t, "a denial", func(_, denied int) bool { return denied > before+20 })
		target := fmt.Sprint("rogue-", round)
		a, err := s.send("POST", "/v1/kill", boss, fmt.Sprintf(`{"agent_id":%q,"reason":"full"}`, target))
		if err != nil || a.status != 200 {
			t.Fatalf("kill: %v: %d %s\n%s", err, a.status, a.body, s.stderr)
		}
		killed = append(killed, target)
		out, err := exec.Command(e2e.Binary(t), "keys", "revoke", spare[round], "--data", data).CombinedOutput()
		if err != nil {
			t.Fatalf("keys revoke: %v: %s\n%s", err, out, s.stderr)
		}
		ready, err := s.send("GET", "/readyz", "", "")
		if err != nil || ready.status != 503 || !strings.Contains(ready.body, "storage.min_free") {
			t.Errorf("/readyz: %v: %d %s", err, ready.status, ready.body)
		}
	}
	fill(t, junk)
	full(0)
	fill(t, junk) // also what the ballast left
	s.stop()
	s = serveOn(t, config, data)
	c.at.Store(s)
	full(1)
	fill(t, junk)
	s.kill()
	s = serveOn(t, config, data)
	c.at.Store(s)
	full(2)
	permits, _ := c.counts()
	pid := s.cmd.Process.Pid
	if err := os.Remove(junk); err != nil {
		t.Fatal(err)
	}
	c.until(t, "a permit once there is room", func(now, _ int) bool { return now > permits+20 })
	if !s.alive() || s.cmd.Process.Pid != pid {
		t.Error("that took a restart")
	}
	c.stop()
	c.end = make(chan struct{}) // the deferred stop finds nobody

	log := s.exported()
	recorded, kills, revoked := map[string]string{}, map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(log) {
		var r struct {
			Type, Effect, Target string
			DecisionID           string `json:"decision_id"`
			KeyID                string `json:"key_id"`
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		switch r.Type {
		case "decision":
			recorded[r.DecisionID] = r.Effect
		case "kill":
			kills[r.Target] = true
		case "key_revoked":
			revoked[r.KeyID] = true
		}
	}
	missing := 0
	for id := range c.permits {
		if recorded[id] != "PERMIT" {
			missing++
		}
	}
	if missing > 0 {
		t.Errorf("%d of %d permits have no record", missing, len(c.permits))
	}
	for n, target := range killed {
		if !kills[target] || !revoked[spare[n]] {
			t.Errorf("kill of %s recorded: %v, revocation of %s: %v", target, kills[target], spare[n], revoked[spare[n]])
		}
	}
	if len(c.wrong) > 0 {
		t.Errorf("%d other answers, such as %s", len(c.wrong), c.wrong[0])
	}
	verify := exec.Command(e2e.Binary(t), "audit", "verify", "-", "--invariants")
	verify.Stdin = bytes.NewReader([]byte(log))
	if out, err := verify.CombinedOutput(); err != nil {
		t.Errorf("verify: %v: %s", err, out)
	}
	t.Logf("%d permits, %d denials, the slowest after %v; %d starts after a failed write; %d bytes free at the end",
		len(c.permits), c.denied, c.slowest, starts, freeBytes(t, disk))
}

// TestStartThatCannotBeRecorded: on a disk with room for a start and for no record, and without ballast, the gateway
// starts, kills are in effect, and nothing is permitted. The start and the kill are recorded once there is room.
func TestStartThatCannotBeRecorded(t *testing.T) {
	testkit.Slow(t, "fills a disk")
	disk := smallDisk(t)
	data, junk, config := filepath.Join(disk, "data"), filepath.Join(disk, "junk"), readsOnly(t)
	s := serveOn(t, config, data, "YETT__STORAGE__BALLAST=0B")
	_, agent := s.madeKey("agent", "--agents", "*")
	_, boss := s.madeKey("boss", "--preset", "operator", "--agents", "*")
	s.stop()
	before := strings.Count(s.exported(), `"config_applied"`)
	fill(t, junk)
	st, err := os.Stat(junk)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(junk, st.Size()-700<<10); err != nil {
		t.Fatal(err)
	}
	s = serveOn(t, config, data, "YETT__STORAGE__BALLAST=0B")
	ask := func(agentID string) answer {
		a, err := s.send("POST", "/v1/authorize", agent, fmt.Sprintf(`{"agent_id":%q,"tool_id":"files/read"}`, agentID))
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	if a := ask("good"); a.status != 503 || a.str("effect") != "DENY" {
		t.Errorf("%d %s", a.status, a.body)
	}
	a, err := s.send("POST", "/v1/kill", boss, `{"agent_id":"rogue","reason":"full"}`)
	if err != nil || a.status != 503 || !strings.Contains(a.body, "in_effect_not_durable") {
		t.Fatalf("kill: %v: %d %s", err, a.status, a.body)
	}
	if err := os.Remove(junk); err != nil {
		t.Fatal(err)
	}
	for end := deadline(); ask("good").str("effect") != "PERMIT"; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("nothing is permitted\n%s", s.stderr)
		}
	}
	if a := ask("rogue"); a.str("effect") != "DENY" || a.status == 503 {
		t.Errorf("the killed agent: %d %s", a.status, a.body)
	}
	for end := deadline(); ; runtime.Gosched() {
		log := s.exported()
		if strings.Contains(log, `"target":"rogue"`) && strings.Count(log, `"config_applied"`) == before+1 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the start or the kill is not recorded: %s", log)
		}
	}
}
