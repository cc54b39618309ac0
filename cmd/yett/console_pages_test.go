//go:build linux

package main

import (
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/cmd/internal/e2e"
	"github.com/yett-dev/yett/core/testkit"
)

// signUp makes the first operator over the one-time link.
func signUp(s *server) *visitor {
	s.t.Helper()
	v, token := visit(s)
	const password = "correct horse battery"
	v.do(303, "/setup", url.Values{"token": {token}, "name": {"ada"}, "password": {password}, "again": {password}})
	return v
}

var shownCall = regexp.MustCompile(`name="digest" value="([0-9a-f]{64})"`)

// TestConsoleApproves: an agent waits, a person follows the link of a message, reads the call and approves it, and the
// agent goes on. The call is still to be seen after the server was killed.
func TestConsoleApproves(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := startDev(t, nil, "--data", data)
	v := signUp(s)
	const call = `{"agent_id":"a","tool_id":"payments/refund","args":{"amount":120.50,"order":"A-17"}`
	asked := s.post(s.Keys.Agent, "/v1/authorize", call+"}")
	asked.wantDecision(t, "DEFER", "RULE_DEFER")
	token, page := asked.str("defer_token"), "/approvals/"+asked.str("decision_id")
	waiting := s.holdPoll(token)
	if list := v.do(200, "/approvals", nil); !strings.Contains(list, "Approvals (1)") || !strings.Contains(list, page) {
		t.Errorf("the list: %s", list)
	}
	body := v.do(200, page, nil)
	seen := shownCall.FindStringSubmatch(body)
	if seen == nil || !strings.Contains(body, "A-17") || strings.Contains(body, token) {
		t.Fatalf("the page: %s", body)
	}
	v.do(303, page+"/approve", url.Values{"digest": {seen[1]}, "reason": {"order checked"}})
	if a := <-waiting; a.str("status") != "approved" || a.str("resolved_by") != "console:ada" ||
		a.str("reason") != "order checked" {
		t.Errorf("the agent is told %s", a.body)
	}
	s.post(s.Keys.Agent, "/v1/authorize", call+`,"defer_token":"`+token+`"}`).wantDecision(t, "PERMIT",
		"APPROVAL_CONSUMED")
	other := s.post(s.Keys.Agent, "/v1/authorize", `{"agent_id":"a","tool_id":"payments/refund","args":{"order":"A-18"}}`)
	s.kill()
	s = startDev(t, nil, "--data", data)
	again, _ := visit(s)
	again.cookie = v.cookie
	if body := again.do(200, page, nil); !strings.Contains(body, "was approved and is used") ||
		!strings.Contains(body, "console:ada") {
		t.Errorf("after a kill: %s", body)
	}
	page = "/approvals/" + other.str("decision_id")
	again.do(303, page+"/deny", url.Values{"reason": {"wrong customer"}})
	if a := s.post(s.Keys.Approver, "/v1/defer/status", `{"token":"`+other.str("defer_token")+`"}`); a.str("status") !=
		"denied" {
		t.Errorf("the other one: %s", a.body)
	}
	if log := s.exported(); strings.Count(log, `"principal_id":"console:ada","principal_method":"console"`) < 4 {
		t.Errorf("the log does not name who: %s", log)
	}
}

// TestConsoleShowsPlugins: a plugin that was given up and a reload that was refused are on the page; whoever resumes it
// is in the log.
func TestConsoleShowsPlugins(t *testing.T) {
	t.Parallel()
	testkit.Slow(t, "waits for restarts")
	token, dir := fmt.Sprintf("console-%d-%d", os.Getpid(), time.Now().UnixNano()), t.TempDir()
	path, digest := e2e.Fake(t)
	config := writeConfig(t, dir, entitle(path, digest, token, ", FAKE_MODE: crash-nth, FAKE_ARG: \"1\"", 1), entitleStep,
		"")
	s := startDev(t, nil, "--config", config, "--data", t.TempDir())
	v := signUp(s)
	if body := v.do(200, "/plugins", nil); !strings.Contains(body, "entitle") || !strings.Contains(body, "authorizer") ||
		!strings.Contains(body, strings.TrimPrefix(digest, "sha256:")) ||
		!strings.Contains(body, "not reloaded since") {
		t.Errorf("the page: %s", body)
	}
	if !becomes(func() bool {
		_, err := s.asked("fake/permit/x")
		return err == nil && s.plugins()["entitle"].State == "quarantined"
	}) {
		t.Fatalf("%+v", s.plugins())
	}
	if body := v.do(200, "/plugins", nil); !strings.Contains(body, "quarantined") ||
		!strings.Contains(body, "/plugins/entitle/resume") {
		t.Errorf("the page: %s", body)
	}
	starts := s.plugins()["entitle"].Starts
	v.do(200, "/plugins/entitle/resume", nil)
	v.do(303, "/plugins/entitle/resume", url.Values{})
	if !becomes(func() bool { return s.plugins()["entitle"].Starts > starts }) {
		t.Errorf("it was not resumed: %+v", s.plugins())
	}
	if log := s.exported(); !regexp.MustCompile(`"type":"plugin_resumed"[^\n]*"principal_id":"console:ada"`).MatchString(log) {
		t.Error("the log does not say who resumed it")
	}
	if err := os.WriteFile(config, []byte("version: 1\nno-such-key: <b>1</b>\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.reloads()
	if body := v.do(200, "/plugins", nil); !strings.Contains(body, "was refused") ||
		!strings.Contains(body, "no-such-key") {
		t.Errorf("the page: %s", body)
	}
}
