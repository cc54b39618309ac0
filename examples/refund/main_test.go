package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait; a hang fails the test.
const patience = 2 * time.Minute

// gateway starts `yett dev` with this example's configuration.
func gateway(t *testing.T) (url, agent, approver string) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds and runs the gateway; not in -short")
	}
	dir := t.TempDir()
	yett := filepath.Join(dir, "yett")
	if out, err := exec.Command("go", "build", "-o", yett, "../../cmd/yett").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	cmd := exec.Command(yett, "dev", "-o", "json", "--config", "yett.yaml", "--data", filepath.Join(dir, "data"),
		"--listen", "127.0.0.1:0", "--metrics", "off")
	// a busy machine is no error here
	cmd.Env = append(os.Environ(), "YETT__CHAINS__SCAN_OUTPUT__BUDGET=30s", "YETT__PLUGINS__SECRETS__LIMITS__TIMEOUT=20s")
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() {
		timer.Stop()
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("yett dev ended with %v", err)
		}
	})
	var ready struct {
		URL  string
		Keys struct{ Agent, Approver string }
	}
	if err := json.NewDecoder(bufio.NewReader(stdout)).Decode(&ready); err != nil {
		t.Fatalf("yett dev is not ready: %v", err)
	}
	return ready.URL, ready.Keys.Agent, ready.Keys.Approver
}

// person answers each call that waits, as soon as the agent says that it waits.
type person struct {
	t        *testing.T
	url, key string
	yes      bool
	giveUp   context.CancelFunc
	wg       sync.WaitGroup
}

var token = regexp.MustCompile(`dfr_\S+`)

// Write takes the agent's log.
func (p *person) Write(b []byte) (int, error) {
	if tok := token.FindString(string(b)); tok != "" {
		p.wg.Go(func() {
			gate := &Gate{URL: p.url, Key: p.key}
			var out struct{ OK bool }
			if err := gate.post(context.Background(), "/v1/approve",
				map[string]any{"defer_token": tok, "approved": p.yes, "reason": "order checked"}, &out); err != nil || !out.OK {
				p.t.Errorf("approve: %v", err)
				p.giveUp()
			}
		})
	}
	return len(b), nil
}

func TestWork(t *testing.T) {
	url, agent, approver := gateway(t)
	for _, tt := range []struct {
		name   string
		yes    bool
		refund string
	}{
		{"approved", true, "payments/refund: refunded 120.50 EUR\n"},
		{"denied", false, "payments/refund: not done: APPROVAL_denied: order checked\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			p := &person{t: t, url: url, key: approver, yes: tt.yes, giveUp: cancel}
			var out bytes.Buffer
			err := work(ctx, &Gate{URL: url, Key: agent, Agent: "refund-demo", Log: p}, &out)
			p.wg.Wait()
			if err != nil {
				t.Fatal(err)
			}
			want := "orders/read: order A-17: 120.50 EUR, paid. export GITHUB_TOKEN=[SECRET_GITHUB_PAT]\n" + tt.refund +
				"shell/run: not done: UNMATCHED_DENY: no rule permits this call\n"
			if out.String() != want {
				t.Errorf("the agent says\n%swant\n%s", &out, want)
			}
		})
	}
}

// Whatever a gateway answers but PERMIT, the tool does not run.
func TestOnlyPermitRuns(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		body   string
	}{
		{"a problem", 503, `{"code":"audit_unavailable","detail":"x","effect":"DENY"}`},
		{"a problem that says permit", 500, `{"effect":"PERMIT"}`},
		{"no JSON", 200, `PERMIT`},
		{"nothing", 200, ``},
		{"no effect", 200, `{}`},
		{"an unknown effect", 200, `{"effect":"permit"}`},
		{"a denial", 200, `{"effect":"DENY","reason_code":"RULE_DENY"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			}))
			defer srv.Close()
			gate := &Gate{URL: srv.URL, Key: "k", Agent: "a", Log: io.Discard}
			_, err := gate.Call(t.Context(), "orders/read", nil, func() string {
				t.Error("the tool ran")
				return ""
			})
			if err == nil {
				t.Error("no error")
			}
		})
	}
}
