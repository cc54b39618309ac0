package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"regexp"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/yett-dev/yett/sdk/plugin"
)

func clocklessLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

// hostile is a tool's name by somebody who wants attention, a link, another header, or another line.
const hostile = "x` <!channel> <https://evil|click> @here *b* &amp; <script>alert(1)</script>\r\nBcc: evil@example.com\u202e\u200b"

func slackText(t *testing.T, r request) string {
	t.Helper()
	var m struct {
		Text                                string
		UnfurlLinks, UnfurlMedia, LinkNames bool
	}
	if err := json.Unmarshal([]byte(r.body), &m); err != nil {
		t.Fatal(err)
	}
	return m.Text
}

func TestSlackHook(t *testing.T) {
	w := newWeb(t, nil)
	n := clockwork(t, fmt.Sprintf(`{"console_url": %q, "show_args": true, "targets": [{"name": "s", "kind": "slack", "credential_name": "hook"}]}`, console+"/"), map[string]string{"hook": w.URL + "/services/T/B/x"})
	consume(t, n, batch(1, created(1, rec{"tool_id": hostile}),
		rec{"type": "decision", "decision_id": "dec_1", "args": rec{"note": "<!channel>", "amount": json.Number("1.50")}}),
		batch(3, resolved(1, "approved", rec{"tool_id": hostile, "reason": "ok <!here>"})))
	got := w.requests()
	if len(got) != 2 || got[0].path != "/services/T/B/x" || got[0].header.Get("webhook-signature") != "" {
		t.Fatalf("%d requests: %+v", len(got), got)
	}
	want := "*Approval needed*\n" +
		"• Tool: `xˋ &lt;!channel&gt; &lt;https://evil|click&gt; @\u200bhere *b* &amp;amp; &lt;script&gt;alert(1)&lt;/script&gt;⟨U+000D⟩⟨U+000A⟩Bcc: evil@\u200bexample.com⟨U+202E⟩⟨U+200B⟩`\n" +
		"• Agent: `bot`\n• Session: `s1`\n• Asked by key: `k1`\n• Rule: `money`\n• Reason: `money moves`\n• Arguments: " +
		"`{\"amount\":1.50,\"note\":\"&lt;!channel&gt;\"}`\n• Expires: `2026-01-01 12:05:00 UTC`\n" +
		"<https://yett.example.com:8422/approvals/dec_1|Sign in to the console to decide>"
	text := strings.ReplaceAll(strings.ReplaceAll(slackText(t, got[0]), `\u003c`, "&lt;"), `\u003e`, "&gt;")
	if text != want {
		t.Errorf("text\n%s\nwant\n%s", text, want)
	}
	if text := slackText(t, got[1]); !strings.HasPrefix(text, "*Approved*\n") || !strings.Contains(text, "By: `ann`") ||
		!strings.Contains(text, "`ok &lt;!here&gt;`") {
		t.Errorf("the end: %s", text)
	}
	if strings.Contains(got[0].body, "blocks") || strings.Contains(got[0].body, "button") {
		t.Error("a message has what could be pressed")
	}
}

func TestSlackBot(t *testing.T) {
	secret := "xo" + "xb-1-" + "abc"
	for _, tc := range []struct {
		name   string
		update string // Slack's answer to chat.update
		want   string
	}{
		{"edited", `{"ok":true}`, "postMessage:C1:: update:C1:1.5:"},
		{"gone", `{"ok":false,"error":"message_not_found"}`, "postMessage:C1:: update:C1:1.5: postMessage:C1::1.5"},
	} {
		posts := 0
		w := newWeb(t, func(n int, r request) (int, string) {
			if r.auth != "Bearer "+secret {
				t.Errorf("Authorization %q", r.auth)
			}
			if strings.HasSuffix(r.path, "chat.update") {
				return 200, tc.update
			}
			if posts++; posts == 1 {
				return 200, `{"ok":false,"error":"ratelimited"}`
			}
			return 200, `{"ok":true,"channel":"C1","ts":"1.5"}`
		})
		n := clockwork(t, fmt.Sprintf(`{"console_url": %q, "targets": [{"name": "s", "kind": "slack_bot", "credential_name": "bot", "channel": "C1", "url": %q}]}`, console, w.URL+"/api"), map[string]string{"bot": secret})
		consume(t, n, batch(1, created(1)), batch(2, resolved(1, "denied")))
		var calls []string
		for _, r := range w.requests()[1:] {
			var m slackMessage
			if err := json.Unmarshal([]byte(r.body), &m); err != nil {
				t.Fatal(err)
			}
			calls = append(calls, fmt.Sprintf("%s:%s:%s:%s", strings.TrimPrefix(r.path, "/api/chat."), m.Channel, m.TS,
				m.ThreadTS))
		}
		if got := strings.Join(calls, " "); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}

func TestWebhookSigned(t *testing.T) {
	secret := "wh" + "sec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("n", 32)))
	w := newWeb(t, nil)
	n := clockwork(t, fmt.Sprintf(`{"console_url": %q, "targets": [{"name": "h", "kind": "webhook", "credential_name": "sign", "url": %q}]}`, console, w.URL), map[string]string{"sign": secret})
	consume(t, n, batch(7, created(1)), batch(8, resolved(1, "approved")))
	v, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	got := w.requests()
	for i, id := range []string{"dec_1-7", "dec_1-8"} {
		if err := v.VerifyIgnoringTimestamp([]byte(got[i].body), got[i].header); err != nil ||
			got[i].header.Get("webhook-id") != id {
			t.Errorf("event %d: %v, id %s", i, err, got[i].header.Get("webhook-id"))
		}
	}
	if want := `{"type":"yett.approval.requested","timestamp":"2026-01-01T12:00:00Z","data":{"id":"dec_1","status":"pending","tool_id":"payments/refund","agent_id":"bot","session_id":"s1","asked_by":"k1","rule_id":"money",` +
		`"reason":"money moves","approvals":0,"approvals_required":1,"expires_at":"2026-01-01T12:05:00Z","url":"https://yett.example.com:8422/approvals/dec_1"}}`; got[0].body != want {
		t.Errorf("body\n%s\nwant\n%s", got[0].body, want)
	}
}

func mailConfig(p *post, more string) string {
	return fmt.Sprintf(`{"console_url": %q, "retry_for": "1s", "targets": [{"name": "m", "kind": "email", "from": "Yett <yett@example.com>", "to": ["ann@example.com", "Bob <bob@example.com>"], "smtp": {"address": %q%s}, "tls": {"ca_file": %q}, "credential_name": "pw"}]}`,
		console, p.address, more, p.caFile)
}

var password = map[string]string{"pw": "s3" + "cret"}

func TestMail(t *testing.T) {
	for _, tc := range []struct{ name, security, auth, said string }{
		{"STARTTLS and PLAIN", "starttls", "PLAIN LOGIN", "PLAIN yett s3cret"},
		{"TLS and LOGIN", "tls", "LOGIN", "LOGIN yett s3cret"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newPost(t, func(p *post) { p.auth, p.implicit = tc.auth, tc.security == "tls" })
			n := clockwork(t, mailConfig(p, fmt.Sprintf(`, "security": %q, "username": "yett"`, tc.security)), password)
			consume(t, n, batch(1, created(1, rec{"tool_id": hostile, "agent_id": "=?utf-8?q?evil?="})),
				batch(2, resolved(1, "denied", rec{"tool_id": hostile})))
			mails, auths := p.taken()
			if len(mails) != 2 || len(auths) == 0 || auths[0] != tc.said {
				t.Fatalf("%d mails, AUTH %q", len(mails), auths)
			}
			first, second := parse(t, mails[0]), parse(t, mails[1])
			if len(first.Header["Bcc"]) > 0 || first.Header.Get("Message-ID") != "<dec_1-1.yett@example.com>" ||
				second.Header.Get("In-Reply-To") != first.Header.Get("Message-ID") ||
				second.Header.Get("Message-ID") == first.Header.Get("Message-ID") {
				t.Errorf("headers %v and %v", first.Header, second.Header)
			}
			subject, err := new(mime.WordDecoder).DecodeHeader(first.Header.Get("Subject"))
			if err != nil || !strings.HasPrefix(subject, "[Yett] Approval needed: x` <!channel>") ||
				!strings.Contains(subject, "= ?utf-8?q?evil?=") || strings.ContainsAny(subject, "\r\n\u202e") {
				t.Errorf("subject %q, %v", subject, err)
			}
			parts := bodies(t, first)
			if !strings.Contains(parts[0], "\nTool: x` <!channel>") ||
				!strings.Contains(parts[0], console+"/approvals/dec_1\n") || strings.Contains(parts[0], "\nBcc") {
				t.Errorf("text part:\n%s", parts[0])
			}
			if strings.Contains(parts[1], "<script>") || !strings.Contains(parts[1], "&lt;script&gt;") || !strings.Contains(parts[1], `<a href="https://yett.example.com:8422/approvals/dec_1">`) || strings.Contains(parts[1], "<form") {
				t.Errorf("HTML part:\n%s", parts[1])
			}
			for _, m := range append(parts, mails...) {
				if strings.Contains(m, token) {
					t.Error("a mail holds the token")
				}
			}
		})
	}
}

func parse(t *testing.T, text string) *mail.Message {
	t.Helper()
	m, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func bodies(t *testing.T, m *mail.Message) []string {
	t.Helper()
	_, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	r := multipart.NewReader(m.Body, params["boundary"])
	for {
		p, err := r.NextPart()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(base64.NewDecoder(base64.StdEncoding, p))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(text))
	}
}

// A mail server that cannot be talked to safely gets neither mail nor password, and its answers are read right.
func TestMailRefused(t *testing.T) {
	for _, tc := range []struct {
		name string
		set  func(p *post)
		more string
		err  string
	}{
		{"the mail is spam", func(p *post) { p.letter = "554 spam" }, "", "DATA: 554"},
		{"the mail is for later", func(p *post) { p.letter = "451 later" }, "", "DATA: 451"},
		{"no STARTTLS", func(p *post) { p.startTLS = false }, "", "offers no STARTTLS"},
		{"no AUTH we know", func(p *post) { p.auth = "GSSAPI" }, "", "neither AUTH PLAIN"},
		{"mailbox unknown", func(p *post) { p.refuse["RCPT"] = "550 no" }, "", "RCPT of the address 1"},
		{"busy", func(p *post) { p.refuse["MAIL"] = "451 later" }, "", "451"},
		{"TLS from the start, against a server in clear", func(*post) {}, `, "security": "tls"`, "not taken after"},
	} {
		p := newPost(t, tc.set)
		n := clockwork(t, mailConfig(p, tc.more+`, "username": "yett"`), password)
		err := n.consume(t.Context(), batch(1, created(1)))
		mails, auths := p.taken()
		if err == nil || !strings.Contains(err.Error(), tc.err) || len(mails) > 0 {
			t.Errorf("%s: %v, %d mails, want %q", tc.name, err, len(mails), tc.err)
		}
		var bad *plugin.RecordError
		if errors.As(err, &bad) != (tc.name == "the mail is spam") {
			t.Errorf("%s: %#v: a record is to blame for a mail that is refused, and for nothing else", tc.name, err)
		}
		if tc.name == "no STARTTLS" && len(auths) > 0 {
			t.Error("the password was sent in clear")
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: the error shows the password", tc.name)
		}
	}
	stranger := newPost(t, func(*post) {})
	if _, err := (smtpClientTo(stranger)).send(t.Context(), &mail.Address{Address: "a@b"}, nil, nil); err == nil {
		t.Error("a certificate of somebody else was trusted")
	}
}

func smtpClientTo(p *post) *smtpClient {
	conf := p.conf.Clone()
	conf.Certificates = nil
	return &smtpClient{address: p.address, security: securityStartTLS, conf: conf, hello: "localhost"}
}

func TestVisible(t *testing.T) {
	for in, want := range map[string]string{"plain": "plain", "a\nb": "a⟨U+000A⟩b", "a\u202eb": "a⟨U+202E⟩b",
		"ünï 漢": "ünï 漢", "a\u00a0b": "a⟨U+00A0⟩b", "a\u3164b\u2800\ufe0f": "a⟨U+3164⟩b⟨U+2800⟩⟨U+FE0F⟩", "\xff": "\ufffd",
		"0123456789abc": "0123456789… (3 more bytes)"} {
		if got := visible(in, 10); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
}

func TestMailFromAnyDomain(t *testing.T) {
	p := newPost(t, func(*post) {})
	n := clockwork(t, strings.Replace(mailConfig(p, `, "username": "yett"`), "yett@example.com", "yett@[127.0.0.1]", 1),
		password)
	consume(t, n, batch(1, created(1)))
	if mails, _ := p.taken(); len(mails) != 1 || len(bodies(t, parse(t, mails[0]))) != 2 {
		t.Errorf("%q", mails)
	}
}

// Nothing that an agent wrote is a link in a mail: programs make links of plain text too.
func TestMailHasOneLink(t *testing.T) {
	p := newPost(t, func(*post) {})
	n := clockwork(t, strings.Replace(mailConfig(p, `, "username": "yett"`), `"targets"`, `"show_args": true, "targets"`,
		1), password)
	consume(t, n, batch(1, created(1, rec{"tool_id": "see https://evil.example/approve", "agent_id": "www.evil.example", "reason": "ask boss@evil.example"}),
		rec{"type": "decision", "decision_id": "dec_1", "args": rec{"n": json.Number("1.50"), "u": "http://evil.example"}}))
	mails, _ := p.taken()
	for _, part := range bodies(t, parse(t, mails[0])) {
		for _, link := range []string{"https://evil", "http://evil", "evil.example", "www.evil", "boss@evil"} {
			if strings.Contains(part, link) {
				t.Errorf("%q can become a link in\n%s", link, part)
			}
		}
		if !strings.Contains(part, "1.50") || strings.Count(part, "https://yett.example.com") != 1 {
			t.Errorf("our own link, or a number, is not as it was in\n%s", part)
		}
	}
}

// A target that asks to be left alone is left alone, also when the batch comes again meanwhile.
func TestLeftAlone(t *testing.T) {
	posts := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if posts++; posts == 1 {
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer srv.Close()
	n := clockwork(t, hookConfig(srv.URL, ""), nil)
	for range 3 {
		if err := n.consume(t.Context(), batch(1, created(1))); err == nil || posts != 1 {
			t.Fatalf("%v after %d requests, want an error after 1", err, posts)
		}
	}
	if err := n.clock.Wait(t.Context(), 50*time.Second); err != nil {
		t.Fatal(err)
	}
	if err := n.consume(t.Context(), batch(1, created(1))); err != nil || posts != 2 {
		t.Errorf("%v after %d requests, want 2", err, posts)
	}
}

func TestBucket(t *testing.T) {
	b, now := bucket{perMinute: 60, burst: 2}, start
	taken := func() (n int) {
		for b.takeToken(now) {
			n++
		}
		return n
	}
	if n := taken(); n != 2 {
		t.Errorf("a burst of 2 is %d", n)
	}
	if d := b.next(now); d <= 0 || d > time.Second {
		t.Errorf("the next one goes in %v", d)
	}
	now = now.Add(time.Hour)
	if n := taken(); n != 2 {
		t.Errorf("an hour saves up %d, more than the burst", n)
	}
}

// The gateway takes the value of a setting with such a name for a secret in clear, and refuses the configuration.
func TestNoSettingLooksLikeASecret(t *testing.T) {
	looks := regexp.MustCompile(`(?i)"([a-z_]*_)?(secret|token|password|passwd|passphrase|credentials?|api_?key|private_?key)": ?\{`)
	if found := looks.FindString(schema); found != "" {
		t.Errorf("the schema has the setting %s", found)
	}
}

func TestSettings(t *testing.T) {
	target := func(text string) string { return fmt.Sprintf(`{"console_url": %q, "targets": [%s]}`, console, text) }
	mailTo := `{"name": "m", "kind": "email", "from": "a@example.com", "to": ["b@example.com"], `
	for _, tc := range []struct{ config, credentials, err string }{
		{target(`{"name": "l", "kind": "log"}`), "", ""},
		{target(`{"name": "s", "kind": "slack", "credential_name": "c"}`), `{"c": "https://hooks.slack.com/services/x"}`, ""},
		{target(mailTo + `"smtp": {"address": "127.0.0.1:25", "security": "none"}}`), "", ""},
		{`{"targets": []}`, "", "/console_url: must be"},
		{`{"console_url": "https://x/?a=b", "targets": []}`, "", "/console_url: must be"},
		{`{"console_url": "https://x/|a>", "targets": []}`, "", "/console_url: must be"},
		{target(``), "", "/targets: must be 1 to 16"},
		{target(`{"name": "a", "kind": "log"}, {"name": "a", "kind": "log"}`), "", "/targets/1/name"},
		{target(`{"name": "a b", "kind": "log"}`), "", "/targets/0/name"},
		{target(`{"name": "a", "kind": "pager"}`), "", "/targets/0/kind"},
		{target(`{"name": "a", "kind": "log", "channel": "x"}`), "", "/targets/0/channel: does not go with log"},
		{target(`{"name": "a", "kind": "log", "on_failure": "panic"}`), "", "/targets/0/on_failure"},
		{target(`{"name": "a", "kind": "log", "per_minute": 1}`), "", "/targets/0/per_minute"},
		{target(`{"name": "a", "kind": "log", "digest_over": 99}`), "", "/targets/0/digest_over"},
		{target(`{"name": "a", "kind": "log", "tools": [""]}`), "", "/targets/0/tools"},
		{target(`{"name": "a", "kind": "log", "priorities": ["urgent"]}`), "", "/targets/0/priorities"},
		{target(`{"name": "s", "kind": "slack", "credential_name": "c"}`), "", "/targets/0/credential_name: is not in the secret"},
		{target(`{"name": "s", "kind": "slack", "credential_name": "c"}`), `{"c": "http://hooks.example.com/x"}`, "/targets/0/credential_name: the URL of the incoming webhook must be https"},
		{target(`{"name": "s", "kind": "slack"}`), "", "/targets/0/credential_name: the URL of the incoming webhook is required"},
		{target(`{"name": "s", "kind": "slack_bot", "credential_name": "c"}`), `{"c": "x"}`, "/targets/0/channel"},
		{target(`{"name": "s", "kind": "slack_bot", "channel": "C"}`), "", "/targets/0/credential_name: must name the bot's token"},
		{target(`{"name": "w", "kind": "webhook", "url": "https://x/"}`), "", "unsigned: true"},
		{target(`{"name": "w", "kind": "webhook", "unsigned": true}`), "", "/targets/0/url: is required"},
		{target(mailTo + `"smtp": {"address": "mail"}}`), "", "/targets/0/smtp/address"},
		{target(mailTo + `"smtp": {"address": "mail:25", "security": "none"}}`), "", "/targets/0/smtp/security: none is for this machine"},
		{target(mailTo + `"insecure": true, "credential_name": "c", "smtp": {"address": "mail:25", "security": "none", "username": "u"}}`), `{"c": "x"}`, "no password is sent in clear"},
		{target(mailTo + `"smtp": {"address": "mail:25", "username": "u"}}`), "", "/targets/0/smtp/username"},
		{target(strings.Replace(mailTo, "b@example.com", `b@example.com\r\nRCPT TO:<x>`, 1) + `"smtp": {"address": "mail:25"}}`), "", "/targets/0/to/0"},
		{target(strings.Replace(mailTo, "b@example.com", `\"b> SIZE=1 <c\"@example.com`, 1) + `"smtp": {"address": "mail:25"}}`), "", "/targets/0/to/0"},
		{target(strings.Replace(mailTo, "a@example.com", "yett@bücher.example", 1) + `"smtp": {"address": "mail:25"}}`), "", "/targets/0/from"},
		{target(strings.Replace(mailTo, "a@example.com", "nobody", 1) + `"smtp": {"address": "mail:25"}}`), "", "/targets/0/from"},
		{target(`{"name": "l", "kind": "log"}`), `["top-secret"]`, "secrets.credentials: must be"},
	} {
		in := plugin.Settings{Config: json.RawMessage(tc.config), Secrets: map[string]string{}}
		if tc.credentials != "" {
			in.Secrets[secretCredentials] = tc.credentials
		}
		_, _, err := read(in)
		if (err == nil) != (tc.err == "") || err != nil &&
			(!strings.Contains(err.Error(), tc.err) || strings.Contains(err.Error(), "top-secret")) {
			t.Errorf("%s %s: %v, want %q", tc.config, tc.credentials, err, tc.err)
		}
	}
}
