package checkpoints

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.uber.org/goleak"

	"github.com/yett-dev/yett/core/log"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// archive is a receiver that keeps the newest checkpoint and answers with it.
type archive struct {
	t        *testing.T
	verifier *standardwebhooks.Webhook
	answer   func(w http.ResponseWriter, kind string) bool // true: it has answered

	mu    sync.Mutex
	has   string
	kinds []string
	ids   []string
}

var webhookKey = bytes.Repeat([]byte{7}, 32)

// newArchive is an archive and the webhook that reaches it.
func newArchive(t *testing.T) (*archive, Webhook) {
	v, err := standardwebhooks.NewWebhook(base64.StdEncoding.EncodeToString(webhookKey))
	if err != nil {
		t.Fatal(err)
	}
	a := &archive{t: t, verifier: v}
	srv := httptest.NewServer(a)
	t.Cleanup(srv.Close)
	return a, Webhook{Name: "archive", URL: srv.URL + "/in?token=hidden", Key: webhookKey}
}

func (a *archive) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = a.verifier.Verify(body, r.Header)
	}
	if err != nil || r.Method != http.MethodPost || r.URL.RawQuery != "token=hidden" {
		a.t.Errorf("%s %s: %v", r.Method, r.URL, err)
	}
	var m struct {
		Type string
		Data checkpointData
	}
	if err := json.Unmarshal(body, &m); err != nil || m.Data.Origin != log.Origin(m.Data.StoreID) {
		a.t.Errorf("%s: %v", body, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.kinds, a.ids = append(a.kinds, m.Type), append(a.ids, r.Header.Get("Webhook-Id"))
	if a.answer != nil && a.answer(w, m.Type) {
		return
	}
	if m.Type == typeCheckpoint {
		a.has = m.Data.Checkpoint
		c, err := log.OpenCheckpoint(a.has, nil)
		if err != nil || c.Size != m.Data.Size || c.Root.String() != m.Data.Root || c.Origin != m.Data.Origin {
			a.t.Errorf("%+v is of %+v: %v", m.Data, c, err)
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, a.has)
}

func (a *archive) seen() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.ReplaceAll(strings.Join(a.kinds, " "), "yett.audit.checkpoint", "")
}

func (a *archive) set(answer func(w http.ResponseWriter, kind string) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer = answer
}

func withWebhook(t *testing.T, b *book, said *strings.Builder, w Webhook) Settings {
	set := settings(t, b, said)
	set.Webhooks = []Webhook{w}
	return set
}

// start is a whole start: Check, then what is handed out at once.
func start(t *testing.T, set Settings) *Keeper {
	t.Helper()
	k := keeper(t, set)
	if err := k.Check(); err != nil {
		t.Fatal(err)
	}
	k.started = true
	k.write(false)
	return k
}

// TestWebhook: it is asked first, gets each checkpoint once, and each message verifies.
func TestWebhook(t *testing.T) {
	a, w := newArchive(t)
	b, said := newBook("a", 20), &strings.Builder{}
	b.kept = 9
	k := start(t, withWebhook(t, b, said, w))
	defer k.Close()
	k.write(false)
	if got, want := a.seen(), "_query "; got != want {
		t.Errorf("it saw %q", got)
	}
	if !strings.Contains(said.String(), "webhook archive names no checkpoint of this log") {
		t.Errorf("said %q", said)
	}
	b.kept = 20
	k.write(false)
	if got, want := a.seen(), "_query  "; got != want {
		t.Errorf("it saw %q", got)
	}
	if s := k.of("archive"); s.Size != 20 || s.Err != nil || s.Kind != KindWebhook {
		t.Errorf("%+v", s)
	}
	if a.ids[0] == a.ids[1] || a.ids[1] == a.ids[2] {
		t.Errorf("ids %q", a.ids)
	}
	again := start(t, withWebhook(t, b, said, w))
	defer again.Close()
	if a.ids[4] != a.ids[2] || a.ids[3] == a.ids[0] {
		t.Errorf("the same checkpoint has another id, or two questions have one: %q", a.ids)
	}
}

// TestWebhookHoldsTheLog: what a start and a running gateway make of an answer.
func TestWebhookHoldsTheLog(t *testing.T) {
	of := func(b *book, seed byte, store string) string {
		text, err := signer(t, seed, store).Checkpoint(b.Seq(), b.roots[b.Seq()])
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	nine := of(newBook("a", 9), 1, "sto_1")
	for name, c := range map[string]struct {
		has string
		log *book
		err string
	}{
		"as it was":        {nine, newBook("a", 9), ""},
		"longer":           {nine, newBook("a", 90), ""},
		"shorter":          {nine, newBook("a", 8), "its end is missing"},
		"another one":      {nine, newBook("b", 9), "are not those that"},
		"another, long":    {nine, newBook("b", 90), "are not those that"},
		"several":          {of(newBook("a", 3), 1, "sto_1") + "\n" + nine + "\n" + of(newBook("a", 4), 1, "sto_1"), newBook("a", 8), "its end"},
		"nothing":          {"", newBook("a", 9), ""},
		"ok":               {"ok", newBook("a", 9), ""},
		"JSON":             {`{"ok":true}`, newBook("a", 9), ""},
		"of another store": {of(newBook("b", 9), 1, "sto_2"), newBook("a", 8), ""},
		"forged":           {of(newBook("b", 9), 2, "sto_1"), newBook("a", 8), ""},
		"cut":              {nine[:len(nine)-5], newBook("a", 8), ""},
	} {
		t.Run(name, func(t *testing.T) {
			a, w := newArchive(t)
			a.has = c.has
			err := check(t, withWebhook(t, c.log, &strings.Builder{}, w))
			if (err == nil) != (c.err == "") || err != nil && (!strings.Contains(err.Error(), c.err) || !Differs(err) ||
				!strings.Contains(err.Error(), "webhook archive: ")) {
				t.Errorf("a start: %v, want %q", err, c.err)
			}
			// the receiver is not there at the start, and has its checkpoint all the same
			a.set(func(w http.ResponseWriter, _ string) bool { w.WriteHeader(http.StatusBadGateway); return true })
			said := &strings.Builder{}
			k := start(t, withWebhook(t, c.log, said, w))
			defer k.Close()
			if !strings.Contains(said.String(), "it is asked again before it gets a checkpoint") || k.of("archive").Err == nil {
				t.Errorf("said %q", said)
			}
			a.set(nil)
			k.write(false)
			k.write(false)
			s := k.of("archive")
			if (s.Err == nil) != (c.err == "") || Differs(s.Err) != (c.err != "") || !strings.Contains(s.Detail, c.err) {
				t.Errorf("%+v, want %q", s, c.err)
			}
			if n := strings.Count(said.String(), "ALARM"); c.err == "" && n != 0 || c.err != "" && n != 1 {
				t.Errorf("said %q", said)
			}
			if c.err != "" && a.has != c.has {
				t.Error("what it had is written over")
			}
		})
	}
}

// TestWebhookThatLearns: a receiver that names another log while the gateway runs is told of, and asked before it gets
// more.
func TestWebhookThatLearns(t *testing.T) {
	a, w := newArchive(t)
	b, said := newBook("a", 20), &strings.Builder{}
	b.kept = 9
	k := start(t, withWebhook(t, b, said, w))
	defer k.Close()
	other := newBook("b", 30)
	text, err := signer(t, 1, "sto_1").Checkpoint(30, other.roots[30])
	if err != nil {
		t.Fatal(err)
	}
	a.set(func(w http.ResponseWriter, _ string) bool { _, _ = io.WriteString(w, text); return true })
	b.kept = 20
	k.write(false)
	k.write(false)
	if s := k.of("archive"); !Differs(s.Err) || s.Size != 9 || a.seen() != "_query   _query" {
		t.Errorf("%+v, it saw %q", s, a.seen())
	}
	a.set(nil)
	k.write(false)
	if s := k.of("archive"); s.Err != nil || s.Size != 20 || !strings.Contains(said.String(), "works again") {
		t.Errorf("%+v, said %q", s, said)
	}
}

// TestWebhookFailures: no answer keeps a start, and each is named without the URL's path and query.
func TestWebhookFailures(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter, kind string) bool
		want   string
	}{
		"refused": {func(w http.ResponseWriter, _ string) bool { w.WriteHeader(401); return true }, "it answered 401 Unauthorized"},
		"redirect": {func(w http.ResponseWriter, _ string) bool {
			w.Header().Set("Location", "/in?token=hidden")
			w.WriteHeader(307)
			return true
		}, "redirects are not followed"},
		"large": {func(w http.ResponseWriter, _ string) bool { _, _ = w.Write(make([]byte, maxAnswer+1)); return true },
			"is larger than 65536 bytes"},
		"lost": {func(http.ResponseWriter, string) bool { panic(http.ErrAbortHandler) }, "ask 127.0.0.1:"},
	} {
		t.Run(name, func(t *testing.T) {
			a, w := newArchive(t)
			a.set(c.answer)
			said := &strings.Builder{}
			k := start(t, withWebhook(t, newBook("a", 9), said, w))
			defer k.Close()
			s := k.of("archive")
			if s.Err == nil || !strings.Contains(s.Detail, c.want) || strings.Contains(s.Detail+said.String(), "hidden") ||
				!strings.Contains(said.String(), c.want) || Differs(s.Err) {
				t.Errorf("%+v, said %q", s, said)
			}
			if strings.Count(a.seen(), "_query") == 0 || strings.Contains(a.seen(), " _query ") {
				t.Errorf("it saw %q", a.seen())
			}
		})
	}
}

// TestWebhookThatHangs: neither a start nor a stop nor a file waits for it, and nothing of it is left.
func TestWebhookThatHangs(t *testing.T) {
	let, asked, gone := make(chan struct{}), make(chan struct{}, 9), make(chan struct{}, 9)
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so that the end of the connection is noticed
		asked <- struct{}{}
		select {
		case <-let:
		case <-r.Context().Done():
			gone <- struct{}{}
		}
	}))
	defer srv.Close()
	defer close(let)
	path, said := filepath.Join(t.TempDir(), "checkpoints"), &strings.Builder{}
	set := settings(t, newBook("a", 9), said, path)
	set.Webhooks = []Webhook{{Name: "archive", URL: srv.URL, Key: webhookKey}}
	k := keeper(t, set)
	late := make(chan time.Time)
	k.late = func() <-chan time.Time { return late }
	go func() {
		<-asked
		late <- time.Time{}
	}()
	if err := k.Check(); err != nil {
		// the file may not have been read yet either; then the start is refused
		if !strings.Contains(err.Error(), path) {
			t.Fatal(err)
		}
	}
	<-gone // the question is given up
	close(late)
	k.Start()
	for k.of(path).Size != 9 {
	}
	k.Close()
	if !errors.Is(k.of("archive").Err, errHangs) {
		t.Errorf("%+v", k.Status())
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}
