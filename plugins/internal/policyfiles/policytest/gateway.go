// Package policytest is what the tests of authorizers whose policies are files have in common: the real gateway with
// such plugins, content that changes on disk, and settings that are refused. It judges through the testing.T it is
// handed, is no part of any program, and knows no policy language: texts of policies are its caller's. Nothing but
// tests may import it.
package policytest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Gateway is a running yett, started as anybody starts it.
type Gateway struct {
	URL, Key   string
	yett, data string
}

// Decision is what /v1/authorize answered.
type Decision struct {
	Status     int
	Effect     string `json:"effect"`
	ReasonCode string `json:"reason_code"`
	Reason     string `json:"reason"`
	RuleID     string `json:"rule_id"`
	Detail     string `json:"detail"` // of a refusal
	DecisionID string `json:"decision_id"`
}

// build builds a command of this module and gives its path and digest.
func build(t *testing.T, dir, pkg string) (file, digest string) {
	t.Helper()
	file = filepath.Join(dir, filepath.Base(pkg))
	if out, err := exec.Command("go", "build", "-o", file, pkg).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", pkg, err, out)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return file, fmt.Sprintf("sha256:%x", sha256.Sum256(b))
}

// StartGateway runs `yett dev` (YETT_BINARY, or what is built here) with one authorizer of the package pkg for each of
// the configs; calls to the tool "p<i>/case" reach the i-th only. It ends with the test.
func StartGateway(t *testing.T, dir, pkg string, configs []map[string]any) *Gateway {
	t.Helper()
	yett := os.Getenv("YETT_BINARY")
	if yett == "" {
		yett, _ = build(t, dir, "github.com/yett-dev/yett/cmd/yett")
	}
	self, digest := build(t, dir, pkg)
	plugins, steps := map[string]any{}, []any{}
	for i, c := range configs {
		name := fmt.Sprintf("p%d", i)
		plugins[name] = map[string]any{
			"kind": "authorizer", "exec": self, "digest": digest, "config": c,
			"limits": map[string]any{"timeout": "10s", "start": "60s"}, "breaker": map[string]any{"failures": 0},
		}
		steps = append(steps, map[string]any{"use": name, "match": map[string]any{"tools": []string{name + "/**"}}})
	}
	file := filepath.Join(dir, "yett.json")
	b, err := json.Marshal(map[string]any{"version": 1, "plugins": plugins,
		"chains": map[string]any{"authorize": map[string]any{"budget": "20s", "steps": steps}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(yett, "dev", "-o", "json", "--config", file, "--data", filepath.Join(dir, "data"),
		"--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--socket", filepath.Join(dir, "s"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_, _ = io.Copy(io.Discard, stdout)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the gateway's log ends with: %.4000s", stderr.String()[max(0, stderr.Len()-4000):])
		}
		http.DefaultClient.CloseIdleConnections()
	})
	var ready struct {
		URL  string
		Keys struct{ Agent string }
	}
	if err := json.NewDecoder(stdout).Decode(&ready); err != nil {
		t.Fatalf("yett dev: %v\n%s", err, stderr.String())
	}
	return &Gateway{ready.URL, ready.Keys.Agent, yett, filepath.Join(dir, "data")}
}

// Failures are, by decision, what the audit log says of steps that failed: the plugin's own words are there, and in no
// answer.
func (g *Gateway) Failures(t *testing.T) map[string]string {
	t.Helper()
	log, err := exec.Command(g.yett, "audit", "export", "--data", g.data, "--out", "-").Output()
	if err != nil {
		t.Fatalf("audit export: %v", err)
	}
	out := map[string]string{}
	for line := range bytes.Lines(log) {
		var r struct {
			DecisionID string                   `json:"decision_id"`
			Checks     []struct{ Error string } `json:"checks"`
		}
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("audit export: %v: %.200s", err, line)
		}
		for _, c := range r.Checks {
			out[r.DecisionID] += c.Error
		}
	}
	return out
}

// Authorize asks for one decision.
func (g *Gateway) Authorize(t *testing.T, tool string, args json.RawMessage) Decision {
	t.Helper()
	body, err := json.Marshal(map[string]any{"agent_id": "published", "tool_id": tool, "args": args})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL+"/v1/authorize", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+g.Key)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	d := Decision{Status: res.StatusCode}
	if err := json.NewDecoder(res.Body).Decode(&d); err != nil {
		t.Fatal(err)
	}
	return d
}

// Await asks until the answer speaks of marker: newer content is in force then.
func (g *Gateway) Await(t *testing.T, tool string, args json.RawMessage, marker string) bool {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range 1500 {
		if d := g.Authorize(t, tool, args); strings.Contains(d.RuleID+" "+d.Reason+" ", marker) {
			return true
		}
		<-tick.C
	}
	return false
}

// Point makes link lead to target, in one step.
func Point(t *testing.T, link, target string) {
	t.Helper()
	tmp := link + ".new"
	if err := os.Symlink(target, tmp); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp, link); err != nil {
		t.Fatal(err)
	}
}
