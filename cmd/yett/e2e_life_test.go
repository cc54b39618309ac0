package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/testkit"
)

func deadline() time.Time { return time.Now().Add(patience) }

// TestDevPrintsOneLine looks at the line that scripts wait for. That nothing follows it is checked whenever a server
// ends.
func TestDevPrintsOneLine(t *testing.T) {
	t.Parallel()
	s := startDev(t, nil)
	if strings.Count(s.line, "\n") != 1 || !strings.HasPrefix(s.line, `{"url":"http://127.0.0.1:`) {
		t.Errorf("the line is %q", s.line)
	}
	for _, name := range []string{`"socket":`, `"metrics":`, `"console":`, `"data":"/`, `"keys":{"agent":"yett_`,
		`"approver":"yett_`, `"operator":"yett_`} {
		if !strings.Contains(s.line, name) {
			t.Errorf("the line has no %s: %s", name, s.line)
		}
	}
}

// TestRestart ends a server in both ways and starts it again on its data: defers, approvals and keys are still there.
func TestRestart(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*server){"SIGTERM": (*server).stop, "SIGKILL": (*server).kill} {
		t.Run(name, func(t *testing.T) {
			data := t.TempDir()
			s := startDev(t, nil, "--data", data)
			old := s.Keys
			pending, approved := s.deferred("payments/refund", `{"n":1}`), s.deferred("payments/refund", `{"n":2}`)
			denied := s.deferred("payments/refund", `{"n":3}`)
			s.post(old.Approver, "/v1/approve", `{"defer_token":"`+approved+`","approved":true}`).want(t, 200, "")
			s.post(old.Approver, "/v1/approve", `{"defer_token":"`+denied+`","approved":false,"reason":"no"}`).want(t, 200, "")
			first := s.post(old.Agent, "/v1/authorize", `{"agent_id":"a","tool_id":"files/read","call_id":"before"}`)
			end(s)

			s = startDev(t, nil, "--data", data)
			if s.Keys == old || s.Keys.Agent == "" {
				t.Error("the second start made no keys of its own")
			}
			redeem := func(key, n, token string) answer {
				return s.post(key, "/v1/authorize", `{"agent_id":"a","tool_id":"payments/refund","args":{"n":`+n+
					`},"defer_token":"`+
					token+`"}`)
			}
			redeem(old.Agent, "2", approved).wantDecision(t, "PERMIT", "APPROVAL_CONSUMED")
			redeem(old.Agent, "2", approved).wantDecision(t, "DENY", "APPROVAL_MISMATCH")
			redeem(old.Agent, "3", denied).wantDecision(t, "DENY", "APPROVAL_MISMATCH")
			redeem(s.Keys.Agent, "1", pending).wantDecision(t, "DENY", "APPROVAL_MISMATCH")
			if a := s.post(old.Agent, "/v1/defer/status?token="+pending, ""); a.str("status") != "pending" {
				t.Errorf("status after the restart: %s", a.body)
			}
			s.post(s.Keys.Approver, "/v1/approve", `{"defer_token":"`+pending+`","approved":true}`).want(t, 200, "")
			redeem(old.Agent, "1", pending).wantDecision(t, "PERMIT", "APPROVAL_CONSUMED")
			again := s.post(old.Agent, "/v1/authorize", `{"agent_id":"a","tool_id":"files/read","call_id":"before"}`)
			if again.json["repeat"] != true || again.str("decision_id") != first.str("decision_id") {
				t.Errorf("a repeat after the restart: %s", again.body)
			}
		})
	}
}

// TestDeferExpires waits for the end of a pending defer on a long poll: timeout is denial.
func TestDeferExpires(t *testing.T) {
	t.Parallel()
	s := startDev(t, []string{"YETT__DEFERS__TTL=1s"})
	token := s.deferred("payments/refund", `{}`)
	a := s.post(s.Keys.Agent, "/v1/defer/status", `{"token":"`+token+`","wait_seconds":30}`)
	if a.status != 200 || a.str("status") != "expired" || a.str("effect") != "DENY" {
		t.Errorf("%d %s", a.status, a.body)
	}
	s.post(s.Keys.Approver, "/v1/approve", `{"defer_token":"`+token+`","approved":true}`).want(t, 410, "defer_expired")
	s.post(s.Keys.Agent, "/v1/authorize", `{"agent_id":"a","tool_id":"payments/refund","args":{},"defer_token":"`+token+
		`"}`).wantDecision(t, "DENY", "APPROVAL_MISMATCH")
}

// TestDrain ends a server while a poll is held and a request is half sent: the poll is answered, the late request is
// answered with a refusal or not at all, and the process ends well.
func TestDrain(t *testing.T) {
	s := startDev(t, []string{"YETT__LIMITS__LONG_POLLS_PER_KEY=1"})
	token := s.deferred("payments/refund", `{"n":1}`)
	ended := s.holdPoll(token)
	s.until429(func() answer {
		return s.post(s.Keys.Agent, "/v1/defer/status", `{"token":"`+token+`","wait_seconds":1}`)
	}, "limits.long_polls_per_key")
	late := s.dial()
	whole := rawPost("/v1/authorize", s.Keys.Agent, `{"agent_id":"late.","tool_id":"read"}`)
	if _, err := io.WriteString(late, whole[:len(whole)-1]); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if a := <-ended; a.status != 200 || a.str("status") != "pending" {
		t.Errorf("the poll that was held: %d %s", a.status, a.body)
	}
	if ready, err := http.Get(s.URL + "/readyz"); err == nil { // refused connections are as good
		if ready.StatusCode != 503 {
			t.Errorf("/readyz of a draining server: %d", ready.StatusCode)
		}
		_ = ready.Body.Close()
	}
	_, writeErr := io.WriteString(late, whole[len(whole)-1:])
	got, readErr := readAnswers(late, false)
	for _, a := range got {
		if a.status != 503 || !strings.Contains(a.body, `"effect":"DENY"`) || a.header.Get("Retry-After") == "" {
			t.Errorf("a request of a draining server: %d %s", a.status, a.body)
		}
	}
	t.Logf("the late request: %d answers, write: %v, read: %v", len(got), writeErr, readErr)
	if err := s.wait(); err != nil {
		t.Errorf("yett dev ended with %v\n%s", err, s.stderr)
	}
}

// TestDrainUnderLoad ends a server that many callers ask: each answer is a decision or says that the server goes down,
// and every PERMIT that was answered is in the log.
func TestDrainUnderLoad(t *testing.T) {
	testkit.Slow(t, "drains under load")
	data := t.TempDir()
	s := startDev(t, nil, "--data", data)
	permits := make(chan string, 1<<16)
	enough := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		atOnce(8, 8, func(worker int) {
			for i := range 1 << 12 {
				a, err := s.send("POST", "/v1/authorize", s.Keys.Agent,
					fmt.Sprintf(`{"agent_id":"w%d","tool_id":"read","args":{"i":%d}}`, worker, i))
				switch {
				case err != nil, a.status == 503 && a.str("effect") == "DENY":
					return
				case a.status == 200 && a.str("effect") == "PERMIT":
					permits <- a.str("decision_id")
				default:
					t.Errorf("%d %s", a.status, a.body)
				}
				if worker == 0 && i == 100 {
					close(enough)
				}
			}
		})
	}()
	<-enough
	s.stop()
	<-done
	close(permits)
	log, n := s.exported(), 0
	for id := range permits {
		n++
		if !strings.Contains(log, id) {
			t.Errorf("the decision %s was answered and is not in the log", id)
		}
	}
	t.Logf("%d decisions were answered before the end", n)
}
