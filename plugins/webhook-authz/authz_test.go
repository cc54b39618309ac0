package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.uber.org/goleak"

	"github.com/yett-dev/yett/plugins/internal/signedhttp"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/plugin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func secretText(fill string) string {
	return "wh" + "sec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(fill, 32)))
}

func configured(t *testing.T, url, more string, secrets map[string]string) *asker {
	t.Helper()
	a := newAsker()
	in := plugin.Settings{Config: json.RawMessage(fmt.Sprintf(`{"url": %q%s}`, url, more)), Secrets: secrets,
		Log: slog.New(slog.DiscardHandler)}
	if err := a.configure(in); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return a
}

func call() *plugin.Call {
	return &plugin.Call{KeyID: "k1", KeyName: "agent-key", AgentID: "bot", SessionID: "s", ToolID: "payments/refund",
		CallID: "c1", Args: json.RawMessage(`{"amount": 1000004.10, "html": "<b>&"}`), Digest: [32]byte{0xab},
		Time: time.Unix(1_800_000_000, 5), Generation: "g1"}
}

// The request is signed, holds the call with its numbers as they were sent, and says how long the service has.
func TestRequest(t *testing.T) {
	var ids []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		for _, fill := range []string{"a", "b"} {
			v, err := standardwebhooks.NewWebhook(secretText(fill))
			if err != nil {
				t.Error(err)
				return
			}
			if err := v.Verify(body, r.Header); err != nil {
				t.Errorf("the published verifier refuses the request: %v", err)
			}
		}
		want := `{"type":"yett.check","timestamp":"2027-01-15T08:00:00.000000005Z","data":{"key_id":"k1","key_name":"agent-key","agent_id":"bot","session_id":"s","tool_id":"payments/refund","call_id":"c1",` +
			`"args":{"amount":1000004.10,"html":"<b>&"},"digest":"ab` + strings.Repeat("00", 31) + `","generation":"g1"}}`
		if string(body) != want {
			t.Errorf("body\n%s\nwant\n%s", body, want)
		}
		if ms, err := strconv.Atoi(r.Header.Get(headerDeadline)); err != nil || ms < 1 || ms > 12_000 {
			t.Errorf("%s is %q, want at most 12000", headerDeadline, r.Header.Get(headerDeadline))
		}
		if r.Header.Get("Authorization") != "Bearer x" {
			t.Error("no Authorization")
		}
		ids = append(ids, r.Header.Get("webhook-id"))
		w.Header().Set("Content-Type", "application/json; charset=UTF-8")
		_, _ = io.WriteString(w, `{"effect":"DEFER","code":"BIG","reason":"r","message":"m","rule_id":"x","approvals":2,"approvers":["key:ann","role:approver"],"expires_seconds":90,"ttl_seconds":5,"priority":"high"}`)
	}))
	defer srv.Close()
	a := configured(t, srv.URL, `, "timeout": "25s"`,
		map[string]string{signedhttp.SecretSigning: secretText("a"), signedhttp.SecretSigningOther: secretText("b"),
			signedhttp.SecretAuthorization: "Bearer x"})
	ctx, cancel := context.WithTimeout(context.Background(), 12*time.Second)
	defer cancel()
	want := sdk.Verdict{Effect: sdk.Defer, Code: "BIG", Reason: "r", Message: "m", RuleID: "x", Approvals: 2,
		From: []string{"key:ann", "role:approver"}, Expires: 90 * time.Second, TTL: 5 * time.Second,
		Priority: sdk.PriorityHigh}
	for range 2 {
		got, err := a.check(ctx, call())
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%+v, %v, want %+v", got, err, want)
		}
	}
	if len(ids) != 2 || ids[0] == ids[1] || len(ids[0]) < 20 {
		t.Errorf("webhook-ids %v, want two", ids)
	}
}

const permit = `{"effect":"PERMIT","code":"OK"}`

// Whatever is not exactly an answer is an error. None of these may be a permit, although most say PERMIT.
func TestNoAnswer(t *testing.T) {
	long := `{"effect":"PERMIT","code":"OK","reason":"` + strings.Repeat("x", 70_000) + `"}`
	for _, tc := range []struct {
		name, kind, body, err string
		status                int
	}{
		{"created", "application/json", permit, "only 200", 201},
		{"no content", "application/json", "", "only 200", 204},
		{"not found", "application/json", permit, "only 200", 404},
		{"down", "application/json", permit, "only 200", 503},
		{"redirect", "application/json", permit, "redirects are not followed", 302},
		{"text", "text/plain", permit, "Content-Type", 200},
		{"no type", "", permit, "Content-Type", 200},
		{"another charset", "application/json; charset=utf-16", permit, "Content-Type", 200},
		{"JSON's cousin", "application/jsonp", permit, "Content-Type", 200},
		{"too long", "application/json", long, "more than 65536 bytes", 200},
		{"padded beyond the limit", "application/json", permit + strings.Repeat(" ", 70_000), "more than 65536 bytes", 200},
		{"empty", "application/json", "", "the answer", 200},
		{"null", "application/json", "null", "not an object", 200},
		{"a list", "application/json", "[" + permit + "]", "not an object", 200},
		{"two answers", "application/json", permit + permit, "the answer", 200},
		{"cut", "application/json", permit[:20], "the answer", 200},
	} {
		t.Run(tc.name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/elsewhere" {
					t.Error("the redirect was followed")
				}
				w.Header()["Content-Type"] = nil
				if tc.kind != "" {
					w.Header().Set("Content-Type", tc.kind)
				}
				if tc.status == 302 {
					w.Header().Set("Location", "/elsewhere")
				}
				w.WriteHeader(tc.status)
				_, _ = io.WriteString(w, tc.body)
			}))
			defer srv.Close()
			a := configured(t, srv.URL, `, "unsigned": true`, nil)
			v, err := a.check(context.Background(), call())
			if err == nil || !strings.Contains(err.Error(), tc.err) || v.Effect != sdk.Abstain {
				t.Errorf("%+v, %v, want an error: %s", v, err, tc.err)
			}
		})
	}
}

// A deadline, a service that is gone, and a plugin that was closed are errors too.
func TestNobodyAnswers(t *testing.T) {
	release := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer srv.Close()
	defer close(release)
	a := configured(t, srv.URL, `, "unsigned": true, "timeout": "20ms"`, nil)
	if v, err := a.check(context.Background(), call()); err == nil || v.Effect != sdk.Abstain {
		t.Errorf("a service that hangs: %+v, %v", v, err)
	}
	past, cancel := context.WithTimeout(context.Background(), -time.Second)
	defer cancel()
	if _, err := a.check(past, call()); err == nil {
		t.Error("a check whose deadline is over was asked")
	}
	gone := configured(t, "http://127.0.0.1:1/", `, "unsigned": true`, nil)
	if _, err := gone.check(context.Background(), call()); err == nil {
		t.Error("a service that is not there answered")
	}
	if err := gone.close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := gone.check(context.Background(), call()); err == nil {
		t.Error("a closed plugin answered")
	}
}

// With signed answers nobody who has not the secret can make one, and no answer can be used for another question.
func TestSignedAnswers(t *testing.T) {
	key, err := standardwebhooks.NewWebhook(secretText("s"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := standardwebhooks.NewWebhook(secretText("x"))
	if err != nil {
		t.Fatal(err)
	}
	var replayed http.Header
	for _, tc := range []struct {
		name string
		sign func(h http.Header, id string)
		err  string
	}{
		{"signed", func(h http.Header, id string) { put(t, h, key, id, time.Now(), permit); replayed = h.Clone() }, ""},
		{"not signed", func(http.Header, string) {}, "webhook-id"},
		{"signed by another", func(h http.Header, id string) { put(t, h, other, id, time.Now(), permit) }, "no signature"},
		{"of another body", func(h http.Header, id string) { put(t, h, key, id, time.Now(), `{"effect":"DENY","code":"NO"}`) }, "no signature"},
		{"of another question", func(h http.Header, id string) { put(t, h, key, "chk_other", time.Now(), permit) }, "webhook-id"},
		{"of another question, with our id", func(h http.Header, id string) {
			put(t, h, key, "chk_other", time.Now(), permit)
			h.Set("webhook-id", id)
		}, "no signature"},
		{"an earlier answer again", func(h http.Header, id string) {
			for k, v := range replayed {
				h[k] = v
			}
		}, "webhook-id"},
		{"too old", func(h http.Header, id string) { put(t, h, key, id, time.Now().Add(-6*time.Minute), permit) }, "from the clock"},
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			tc.sign(w.Header(), r.Header.Get("webhook-id"))
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, permit)
		}))
		a := configured(t, srv.URL, `, "unsigned": true, "signed_answers": true`,
			map[string]string{secretAnswer: secretText("s")})
		v, err := a.check(context.Background(), call())
		srv.Close()
		if tc.err == "" && (err != nil || v.Effect != sdk.Permit) ||
			tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err) || v.Effect != sdk.Abstain) {
			t.Errorf("%s: %+v, %v, want %q", tc.name, v, err, tc.err)
		}
	}
}

func put(t *testing.T, h http.Header, key *standardwebhooks.Webhook, id string, at time.Time, body string) {
	sig, err := key.Sign(id, at, []byte(body))
	if err != nil {
		t.Error(err)
	}
	h.Set("webhook-id", id)
	h.Set("webhook-timestamp", strconv.FormatInt(at.Unix(), 10))
	h.Set("webhook-signature", sig)
}

func TestDecode(t *testing.T) {
	for _, tc := range []struct{ text, err string }{
		{`{"effect":"ABSTAIN"}`, ""},
		{`{"effect":"ABSTAIN","reason":"not mine","ttl_seconds":0}`, ""},
		{permit, ""},
		{`{"code":"X_1","effect":"DENY"}`, ""},
		{`{"effect":"permit","code":"OK"}`, "effect: must be"},
		{`{"effect":"ALLOW","code":"OK"}`, "effect: must be"},
		{`{"effect":" PERMIT","code":"OK"}`, "effect: must be"},
		{`{"effect":2,"code":"OK"}`, "effect: must be a string"},
		{`{"effect":null,"code":"OK"}`, "effect: must be a string"},
		{`{"code":"OK"}`, "effect: must be a string"},
		{`{"Effect":"PERMIT","code":"OK"}`, "effect: must be a string"},
		{`{"effect":"DENY","effect":"PERMIT","code":"OK"}`, "invalid JSON"},
		{`{"effect":"DENY","eff\u0065ct":"PERMIT","code":"OK"}`, "invalid JSON"},
		{`{"effect":"PERMIT"}`, "code: is required"},
		{`{"effect":"PERMIT","code":""}`, "code: must be"},
		{`{"effect":"PERMIT","code":"ok"}`, "code: must be"},
		{`{"effect":"PERMIT","code":"` + strings.Repeat("A", 65) + `"}`, "code: has more"},
		{`{"effect":"ABSTAIN","code":"OK"}`, "code: must be"},
		{`{"effect":"PERMIT","code":"OK","allow":true}`, "allow: is not a member"},
		{`{"effect":"PERMIT","code":"OK","reason":null}`, "reason: must be a string"},
		{`{"effect":"PERMIT","code":"OK","message":"` + strings.Repeat("x", 1025) + `"}`, "message: has more"},
		{`{"effect":"PERMIT","code":"OK","approvals":1}`, "approvals: allowed only with DEFER"},
		{`{"effect":"DEFER","code":"OK","approvals":0}`, "approvals: must be"},
		{`{"effect":"DEFER","code":"OK","approvals":1.0}`, "approvals: must be"},
		{`{"effect":"DEFER","code":"OK","approvals":"2"}`, "approvals: must be"},
		{`{"effect":"DEFER","code":"OK","approvers":[]}`, "approvers: must be"},
		{`{"effect":"DEFER","code":"OK","approvers":["ann"]}`, "approvers: each"},
		{`{"effect":"DEFER","code":"OK","approvers":["key:"]}`, "approvers: each"},
		{`{"effect":"DEFER","code":"OK","expires_seconds":99999999}`, "expires_seconds: must be"},
		{`{"effect":"DEFER","code":"OK","priority":"urgent"}`, "priority: must be"},
		{`{"effect":"PERMIT","code":"OK","ttl_seconds":-1}`, "ttl_seconds: must be"},
		{`{"effect":"PERMIT","code":"OK","ttl_seconds":18446744073709551617}`, "ttl_seconds: must be"},
		{"{\"effect\":\"PERMIT\",\"code\":\"OK\",\"reason\":\"\xff\"}", "invalid JSON"},
	} {
		v, err := decode([]byte(tc.text))
		if (err == nil) != (tc.err == "") || err != nil &&
			(!strings.Contains(err.Error(), tc.err) || v.Effect != sdk.Abstain) {
			t.Errorf("%s: %+v, %v, want %q", tc.text, v, err, tc.err)
		}
	}
}

// No text may become a permit that does not say so in exactly this way.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(permit))
	f.Add([]byte(`{"effect":"DEFER","code":"A","approvals":2,"approvers":["key:a"],"expires_seconds":5,"priority":"low"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := decode(text)
		if err != nil {
			if v.Effect != sdk.Abstain || v.Code != "" {
				t.Errorf("%q: an error with %+v", text, v)
			}
			return
		}
		var loose struct{ Effect, Code string }
		if json.Unmarshal(text, &loose) != nil || loose.Effect != v.Effect.String() || loose.Code != v.Code {
			t.Errorf("%q is %+v, and another parser reads %+v", text, v, loose)
		}
	})
}

func TestSettings(t *testing.T) {
	a := secretText("a")
	for _, tc := range []struct {
		config  string
		secrets map[string]string
		err     string
	}{
		{`{"demo": true}`, nil, ""},
		{`{"url": "https://x/"}`, map[string]string{signedhttp.SecretSigning: a}, ""},
		{`{"url": "https://x/"}`, nil, "secrets.signing"},
		{`{"url": "https://x/", "unsigned": true}`, map[string]string{signedhttp.SecretSigning: a}, "/unsigned"},
		{`{"url": "https://x/", "signed_answers": true}`, map[string]string{signedhttp.SecretSigning: a}, "secrets.answer_secret"},
		{`{"url": "https://x/"}`, map[string]string{signedhttp.SecretSigning: a, secretAnswer: a}, "/signed_answers"},
		{`{"url": "https://x/", "connections": 0}`, map[string]string{signedhttp.SecretSigning: a}, "/connections"},
		{`{"url": "https://x/", "timeout": "0s"}`, map[string]string{signedhttp.SecretSigning: a}, "/timeout"},
		{`{"url": "http://x/"}`, map[string]string{signedhttp.SecretSigning: a}, "/url"},
		{`{"demo": true, "URL": "x"}`, nil, "unknown member"},
		{`{"demo": true}`, map[string]string{signedhttp.SecretAuthorization: "Bearer x\r\nX-Other: y"}, "secrets.authorization: must be"},
	} {
		_, err := read(plugin.Settings{Config: json.RawMessage(tc.config), Secrets: tc.secrets})
		if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: %v, want %q", tc.config, err, tc.err)
		}
	}
}
