package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/yett-dev/yett/sdk/plugin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start is when the records of the tests were made; the clock of the plugin begins there.
var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// token is what no message may hold.
const token = "dfr_01M7TOKENTOKENTOKEN_secret"

type rec map[string]any

// created, resolved and expired are records as the store writes them.
func created(n int, more ...rec) rec {
	r := rec{"v": 1, "store_id": "sto_A", "timestamp": start.Format(time.RFC3339Nano), "type": "defer_created",
		"principal_id": "k1", "defer_token": token,
		"status": "pending", "agent_id": "bot", "session_id": "s1", "tool_id": "payments/refund", "call_id": "c1",
		"decision_id": fmt.Sprintf("dec_%d", n), "asked_by": "k1",
		"rule_id": "money", "reason": "money moves", "approvals": 0, "approvals_required": 1,
		"expires_at": start.Add(5 * time.Minute).Format(time.RFC3339Nano)}
	for _, m := range more {
		for k, v := range m {
			r[k] = v
		}
	}
	return r
}

func resolved(n int, status string, more ...rec) rec {
	return created(n, append([]rec{{"type": "defer_resolved", "status": status, "approved": status == "approved",
		"approver_id": "ann", "reason": "looks right"}}, more...)...)
}

func expired(n int) rec {
	return created(n, rec{"type": "defer_expired", "status": "expired", "reason": "APPROVAL_TIMEOUT"})
}

func batch(first uint64, records ...rec) *plugin.Batch {
	b := &plugin.Batch{StoreID: "sto_A", First: first, Last: first + uint64(len(records)) - 1}
	for i, r := range records {
		r["seq"] = first + uint64(i)
		text, err := json.Marshal(r)
		if err != nil {
			text = []byte("null")
		}
		b.Records = append(b.Records, plugin.Record{Seq: first + uint64(i), JSON: text})
	}
	return b
}

// clockwork is a notifier whose clock moves with its waits.
func clockwork(t *testing.T, config string, credentials map[string]string) *notifier {
	t.Helper()
	n := newNotifier()
	var mu sync.Mutex
	now := start
	n.clock.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	n.clock.Wait = func(_ context.Context, d time.Duration) error {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(d)
		return nil
	}
	in := plugin.Settings{Config: json.RawMessage(config), Secrets: map[string]string{},
		Log: slog.New(slog.DiscardHandler)}
	if credentials != nil {
		text, err := json.Marshal(credentials)
		if err != nil {
			t.Fatal(err)
		}
		in.Secrets[secretCredentials] = string(text)
	}
	if err := n.configure(in); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func consume(t *testing.T, n *notifier, batches ...*plugin.Batch) {
	t.Helper()
	for _, b := range batches {
		if err := n.consume(context.Background(), b); err != nil {
			t.Fatal(err)
		}
	}
}

// request is one that came to a web server.
type request struct {
	path, body, auth string
	header           http.Header
}

// web is a service that keeps what it is sent.
type web struct {
	*httptest.Server
	mu     sync.Mutex
	got    []request
	answer func(n int, r request) (status int, body string)
}

func newWeb(t *testing.T, answer func(n int, r request) (int, string)) *web {
	w := &web{answer: answer}
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		req := request{r.URL.Path, string(body), r.Header.Get("Authorization"), r.Header}
		w.mu.Lock()
		w.got = append(w.got, req)
		n := len(w.got)
		w.mu.Unlock()
		if strings.Contains(req.body, token) {
			t.Errorf("a message holds the token: %s", req.body)
		}
		if w.answer != nil {
			status, text := w.answer(n, req)
			rw.WriteHeader(status)
			_, _ = io.WriteString(rw, text)
		}
	}))
	t.Cleanup(w.Close)
	return w
}

func (w *web) requests() []request {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]request(nil), w.got...)
}

// post is a mail server for tests. It takes mail for everybody.
type post struct {
	t        *testing.T
	address  string
	caFile   string
	conf     *tls.Config
	implicit bool // TLS from the start
	startTLS bool // offered
	auth     string
	refuse   map[string]string // answers to commands, such as "RCPT": "550 no"
	letter   string            // answer to a whole mail; "": it is taken

	mu    sync.Mutex
	mails []string
	auths []string
}

func newPost(t *testing.T, set func(p *post)) *post {
	t.Helper()
	p := &post{t: t, startTLS: true, auth: "PLAIN LOGIN", refuse: map[string]string{}}
	set(p)
	certs := httptest.NewUnstartedServer(http.NotFoundHandler())
	certs.StartTLS()
	p.conf = &tls.Config{Certificates: certs.TLS.Certificates}
	certs.Close()
	p.caFile = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(p.caFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: p.conf.Certificates[0].Certificate[0]}), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.address = l.Addr().String()
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	return p
}

func (p *post) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	if p.implicit {
		c = tls.Server(c, p.conf)
	}
	secure := p.implicit
	r := bufio.NewReader(c)
	say := func(line string) { _, _ = io.WriteString(c, line+"\r\n") }
	ask := func() string { line, _ := r.ReadString('\n'); return strings.TrimRight(line, "\r\n") }
	say("220 test")
	for {
		line := ask()
		verb, rest, _ := strings.Cut(line, " ")
		verb = strings.ToUpper(verb)
		if answer := p.refuse[verb]; answer != "" {
			say(answer)
			continue
		}
		switch verb {
		case "":
			return
		case "EHLO":
			say("250-test")
			if p.startTLS && !secure {
				say("250-STARTTLS")
			}
			say("250 AUTH " + p.auth)
		case "STARTTLS":
			say("220 go")
			c, secure = tls.Server(c, p.conf), true
			r = bufio.NewReader(c)
		case "AUTH":
			p.login(rest, say, ask)
		case "DATA":
			say("354 go")
			var text strings.Builder
			for line := ask(); line != "."; line = ask() {
				text.WriteString(strings.TrimPrefix(line, ".") + "\n")
			}
			if p.letter != "" {
				say(p.letter)
				continue
			}
			p.mu.Lock()
			p.mails = append(p.mails, text.String())
			p.mu.Unlock()
			say("250 taken")
		case "QUIT":
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}

func (p *post) login(how string, say func(string), ask func() string) {
	said := how
	if how == "LOGIN" {
		for _, q := range []string{"Username:", "Password:"} {
			say("334 " + base64.StdEncoding.EncodeToString([]byte(q)))
			text, _ := base64.StdEncoding.DecodeString(ask())
			said += " " + string(text)
		}
	} else if _, coded, ok := strings.Cut(how, " "); ok {
		text, _ := base64.StdEncoding.DecodeString(coded)
		said = "PLAIN" + strings.ReplaceAll(string(text), "\x00", " ")
	}
	p.mu.Lock()
	p.auths = append(p.auths, said)
	p.mu.Unlock()
	say("235 welcome")
}

func (p *post) taken() ([]string, []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.mails...), append([]string(nil), p.auths...)
}
