package guardrails_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/doors/ask"
	"github.com/yett-dev/yett/core/doors/front"
	"github.com/yett-dev/yett/core/doors/guardrails"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/core/testkit/doortest"
	"github.com/yett-dev/yett/sdk/wire"
)

// The paths of the doors.
const (
	liteLLM   = "/beta/litellm_basic_guardrail_api"
	portkey   = "/portkey"
	agRequest = "/agentgateway/request"
	agAnswer  = "/agentgateway/response"
	moderate  = "/v1/moderations"
)

const console = "https://yett.example.com"

// rig is a front with all doors on real operations.
type rig struct {
	*doortest.Bench
	t   testing.TB
	url string
	key string
}

// allOn is a configuration with all doors on.
func allOn(t testing.TB, more ...string) config.Doors {
	t.Helper()
	flags := map[string]any{}
	for _, key := range []string{"litellm", "portkey", "agentgateway", "moderations"} {
		flags["doors."+key+".enabled"] = true
	}
	for _, s := range more {
		key, value, _ := strings.Cut(s, "=")
		flags[key] = value
		if n, err := strconv.Atoi(value); err == nil {
			flags[key] = n
		}
	}
	cfg, err := config.Load(config.Sources{Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	return cfg.Doors
}

// open serves the doors until the test ends. asker, if there is one, stands before the operations.
func open(t testing.TB, asker func(guardrails.Asker) guardrails.Asker, set ...string) *rig {
	t.Helper()
	b := doortest.New(t)
	behind := guardrails.Asker(b.Asker)
	if asker != nil {
		behind = asker(behind)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := front.New(front.Settings{Name: "doors", Keys: b.Service, Limits: b.Limits, HostKey: "doors.hosts",
		NewID: func() string { return "req_1" }, Log: func(string, ...any) {}},
		guardrails.Routes(guardrails.Settings{Config: allOn(t, set...), Limits: b.Limits, Asker: behind,
			Console: func() string { return console }}))
	ended := make(chan error, 1)
	go func() { ended <- f.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := errors.Join(f.Close(ctx), <-ended); err != nil {
			t.Error(err)
		}
	})
	return &rig{b, t, "http://" + ln.Addr().String(), b.Key("bot", "agent").Value}
}

// send posts a body with headers and gives the status with the answer.
func (r *rig) send(path, body string, headers ...string) string {
	r.t.Helper()
	req, err := http.NewRequest(http.MethodPost, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	if !json.Valid(answer) {
		r.t.Errorf("no JSON: %q", answer)
	}
	return fmt.Sprintf("%d %s", resp.StatusCode, answer)
}

// post sends a body with the rig's key.
func (r *rig) post(path, body string) string {
	r.t.Helper()
	return r.send(path, body, "Authorization", "Bearer "+r.key)
}

// decisionID is what differs from run to run.
var decisionID = regexp.MustCompile(`dec_[0-9A-Za-z]+`)

// shapes sends each body and compares the whole answer.
func shapes(t *testing.T, r *rig, path string, cases [][3]string) {
	t.Helper()
	for _, c := range cases {
		got := decisionID.ReplaceAllString(r.post(path, c[1]), "dec_1")
		if want := "200 " + c[2]; got != want {
			t.Errorf("%s: %.300s\n got %s\nwant %s", c[0], c[1], got, want)
		}
	}
}

// closed says whether an answer is the closed answer of a path's contract, and whether it is one that passes.
func closed(path, answer string) (refused, passes bool) {
	status, body, _ := strings.Cut(answer, " ")
	var v struct {
		Action        json.RawMessage
		BlockedReason string `json:"blocked_reason"`
		Verdict       *bool
		Results       []struct{ Flagged *bool }
		Error         *struct{ Message, Code string }
	}
	if json.Unmarshal([]byte(body), &v) != nil {
		return false, false
	}
	switch path {
	case liteLLM:
		action := string(v.Action)
		return status == "200" && action == `"BLOCKED"` && v.BlockedReason != "",
			status == "200" && (action == `"NONE"` || action == `"GUARDRAIL_INTERVENED"`)
	case portkey:
		return status == "200" && v.Verdict != nil && !*v.Verdict, status == "200" && v.Verdict != nil && *v.Verdict
	case agRequest, agAnswer:
		var a struct {
			Body       json.RawMessage
			StatusCode int `json:"status_code"`
			Reason     string
		}
		if json.Unmarshal(v.Action, &a) != nil {
			return false, false
		}
		text := strings.HasPrefix(string(a.Body), `"`)
		return status == "200" && text && a.StatusCode >= 400 && strings.Contains(body, `"messages":0`),
			status == "200" && !text && a.StatusCode == 0 && a.Reason != ""
	}
	flagged, whole := false, len(v.Results) > 0
	for _, r := range v.Results {
		whole = whole && r.Flagged != nil
		flagged = flagged || whole && *r.Flagged
	}
	return status == "200" && whole && flagged || status >= "400" && v.Error != nil && v.Error.Code != "" &&
		v.Error.Message != "", status == "200" && whole && !flagged
}

// bodies give a request to each path with one text.
var bodies = map[string]func(text string) string{
	liteLLM: func(s string) string {
		return `{"input_type":"response","texts":[` + quote(s) + `],"request_data":{}}`
	},
	portkey: func(s string) string {
		return `{"eventType":"beforeRequestHook","request":{"json":{"messages":[{"role":"user","content":` + quote(s) + `}]}}}`
	},
	agRequest: func(s string) string { return `{"body":{"messages":[{"role":"user","content":` + quote(s) + `}]}}` },
	agAnswer: func(s string) string {
		return `{"body":{"choices":[{"message":{"role":"assistant","content":` + quote(s) + `}}]}}`
	},
	moderate: func(s string) string { return `{"input":` + quote(s) + `}` },
}

func quote(s string) string {
	raw, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// Whatever fails, each door says no in the form that its client understands.
func TestFailuresAreClosed(t *testing.T) {
	for path, body := range bodies {
		t.Run(strings.Trim(path, "/"), func(t *testing.T) {
			r := open(t, nil)
			auth := []string{"Authorization", "Bearer " + r.key}
			gone, auditor := r.Key("gone", "agent"), r.Key("auditor", "auditor")
			r.Revoke(gone)
			hello := body("hello")
			if _, passes := closed(path, r.send(path, hello, auth...)); !passes {
				t.Fatalf("a clean text does not pass: %s", r.send(path, hello, auth...))
			}
			for _, c := range []struct {
				name, body string
				headers    []string
				says       string
			}{
				{"no key", hello, nil, "unauthenticated"},
				{"revoked key", hello, []string{"X-Api-Key", gone.Value}, "key_revoked"},
				{"two keys", hello, []string{"X-Api-Key", r.key, "X-Api-Key", r.key}, "unauthenticated"},
				{"lacks the scope", hello, []string{"Authorization", "Bearer " + auditor.Value}, "missing_scope"},
				{"foreign host", hello, append([]string{"Host", "evil.example"}, auth...), "bad_request"},
				{"foreign page", hello, append([]string{"Origin", "https://evil.example"}, auth...), "bad_request"},
				{"coded", hello, append([]string{"Content-Encoding", "gzip"}, auth...), "unsupported_coding"},
				{"oversized", body(strings.Repeat("x", int(r.Limits.ScanBody))), auth, "too_large"},
				{"no JSON", hello[:len(hello)-1], auth, "invalid_json"},
				{"a member twice", `{"input":"a","input":"a"}`, auth, "invalid_json"},
				{"no object", `[]`, auth, "invalid_json"},
				{"nothing", ``, auth, "invalid_json"},
				{"empty object", `{}`, auth, "field"},
				{"deep", strings.Repeat("[", 100) + strings.Repeat("]", 100), auth, "invalid_json"},
				{"late scanner", body(doortest.Late), auth, "SCAN_UNAVAILABLE"},
				{"denied", body(doortest.Forbidden), auth, "FORBIDDEN"},
			} {
				answer := r.send(path, c.body, c.headers...)
				if no, passes := closed(path, answer); !no || passes || !strings.Contains(answer, c.says) {
					t.Errorf("%s: %.400s", c.name, answer)
				}
			}
			r.BreakStore(true)
			if answer := r.send(path, hello, auth...); !strings.Contains(answer, "audit_unavailable") {
				t.Errorf("without a store: %s", answer)
			} else if no, _ := closed(path, answer); !no {
				t.Errorf("without a store: %s", answer)
			}
			r.BreakStore(false)
			r.kill("bot")
			if answer := r.send(path, hello, auth...); !strings.Contains(answer, "KILL_SWITCH_ACTIVE") {
				t.Errorf("killed: %s", answer)
			} else if no, _ := closed(path, answer); !no {
				t.Errorf("killed: %s", answer)
			}
		})
	}
}

// kill ends an agent.
func (r *rig) kill(agent string) {
	r.t.Helper()
	boss := r.Key("boss", "operator")
	ask := &ops.Request{Ctx: context.Background(), Key: boss.Key, Start: time.Now(),
		Who: store.Who{Principal: boss.Key.ID, Method: "api_key", Surface: "http"}}
	if _, err := r.Service.KillSwitch(ask, &wire.KillRequest{Scope: "agent", Target: agent}); err != nil {
		r.t.Fatal(err)
	}
}

// Any other method is refused in the contract's own form.
func TestOtherMethods(t *testing.T) {
	r := open(t, nil)
	for path := range bodies {
		req, err := http.NewRequest(http.MethodGet, r.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+r.key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		answer := fmt.Sprintf("%d %s", resp.StatusCode, body)
		if no, _ := closed(path, answer); !no || err != nil {
			t.Errorf("%s: %s, %v", path, answer, err)
		}
	}
}

// wrongly answers in the place of the operations.
type wrongly struct {
	guardrails.Asker

	scan func(q *wire.ScanRequest, whole *wire.ScanResponse) *wire.ScanResponse
}

// Scan implements guardrails.Asker.
func (w wrongly) Scan(ctx context.Context, c ask.Caller, q *wire.ScanRequest) (*wire.ScanResponse, error) {
	whole, err := w.Asker.Scan(ctx, c, q)
	if err != nil {
		return nil, err
	}
	return w.scan(q, whole), nil
}

// An answer of the operations that is not whole, and a panic, pass nothing.
func TestHalfVerdicts(t *testing.T) {
	half := map[string]func(q *wire.ScanRequest, s *wire.ScanResponse) *wire.ScanResponse{
		"fewer": func(_ *wire.ScanRequest, s *wire.ScanResponse) *wire.ScanResponse {
			s.Outputs = s.Outputs[:len(s.Outputs)-1]
			return s
		},
		"unknown outcome": func(_ *wire.ScanRequest, s *wire.ScanResponse) *wire.ScanResponse {
			s.Outputs[0].Outcome = "FINE"
			return s
		},
		"no text": func(_ *wire.ScanRequest, s *wire.ScanResponse) *wire.ScanResponse {
			s.Outputs[0].SanitizedOutput, s.Outputs[0].SanitizedJSON = nil, nil
			return s
		},
		"the whole denied": func(_ *wire.ScanRequest, s *wire.ScanResponse) *wire.ScanResponse {
			s.Outcome = "DENIED"
			return s
		},
		"panic": func(*wire.ScanRequest, *wire.ScanResponse) *wire.ScanResponse { panic("a mistake") },
	}
	for name, change := range half {
		r := open(t, func(a guardrails.Asker) guardrails.Asker { return wrongly{a, change} })
		for path, body := range bodies {
			answer := r.post(path, body("hello"))
			if no, passes := closed(path, answer); !no || passes || !strings.Contains(answer, "internal") {
				t.Errorf("%s: %s: %s", name, path, answer)
			}
		}
	}
}

// What the agent is called: as configured, the only one of the key, the key's name, or what the contract names.
func TestAgents(t *testing.T) {
	for _, c := range []struct{ set, path, body, want string }{
		{"", liteLLM, bodies[liteLLM]("x"), "bot"},
		{"doors.litellm.agent_id=fixed", liteLLM, bodies[liteLLM]("x"), "fixed"},
		{"doors.litellm.agent_from=key_alias", liteLLM,
			`{"input_type":"request","texts":["x"],"request_data":{"user_api_key_alias":"alice"}}`, "alice"},
		{"doors.litellm.agent_from=key_alias", liteLLM,
			`{"input_type":"request","texts":["x"],"request_data":{"user_api_key_alias":null}}`, "bot"},
		{"doors.portkey.agent_metadata=_user", portkey, `{"eventType":"beforeRequestHook","metadata":{"_user":"alice"},` +
			`"request":{"json":{}}}`, "alice"},
		{"doors.agentgateway.agent_header=x-agent-id", agRequest, bodies[agRequest]("x"), "header"},
		{"doors.moderations.agent_id=fixed", moderate, bodies[moderate]("x"), "fixed"},
	} {
		agents := make(chan string, 8)
		set := []string{}
		if c.set != "" {
			set = append(set, c.set)
		}
		r := open(t, func(a guardrails.Asker) guardrails.Asker {
			return wrongly{a, func(q *wire.ScanRequest, s *wire.ScanResponse) *wire.ScanResponse {
				agents <- q.AgentID
				return s
			}}
		}, set...)
		answer := r.send(c.path, c.body, "Authorization", "Bearer "+r.key, "X-Agent-Id", "header")
		if _, passes := closed(c.path, answer); !passes {
			t.Errorf("%s: %s", c.set, answer)
			continue
		}
		if got := <-agents; got != c.want {
			t.Errorf("%s: the agent is %q, want %q", c.set, got, c.want)
		}
	}
}
