package authzen_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/doors/authzen"
	"github.com/yett-dev/yett/core/doors/front"
	"github.com/yett-dev/yett/core/loaded"
	"github.com/yett-dev/yett/core/testkit/doortest"
)

// pdp is the address under which clients of the tests know the door.
const pdp = "https://pdp.example.com"

// bench is the door on a port of its own.
type bench struct {
	*doortest.Bench

	t   testing.TB
	url string
}

// open serves the door until the test ends.
func open(t testing.TB, b *doortest.Bench) *bench {
	t.Helper()
	return openAs(t, b, pdp)
}

// openAs is open for a door with another identifier.
func openAs(t testing.TB, b *doortest.Bench, identifier string) *bench {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := config.AuthZEN{Enabled: true, URL: identifier, Evaluations: 100}
	f := front.New(front.Settings{Name: "doors", Keys: b.Service, Limits: b.Limits, HostKey: "doors.hosts",
		NewID: func() string { return "req_test" }, Log: t.Logf},
		authzen.Routes(authzen.Settings{Config: cfg, Limits: b.Limits, Asker: b.Asker, Now: b.Now,
			Random: func(p []byte) { _, _ = rand.Read(p) }, Log: t.Logf}))
	ended := make(chan error, 1)
	go func() { ended <- f.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := errors.Join(f.Close(ctx), <-ended); err != nil {
			t.Error(err)
		}
	})
	return &bench{Bench: b, t: t, url: "http://" + ln.Addr().String()}
}

// byRules decides by a rules file, as an operator has written it.
func byRules(t testing.TB, file string) chain.Checker {
	t.Helper()
	sets, err := config.ReadRules(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	rules, err := loaded.CompileRules(sets)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// reply is an answer of the door.
type reply struct {
	status int
	header http.Header
	text   string
	json   any
}

// at gives what stands at a path of names and, in lists, places; nil where there is nothing.
func (r *reply) at(path ...any) any {
	v := r.json
	for _, p := range path {
		switch p := p.(type) {
		case string:
			o, _ := v.(map[string]any)
			v = o[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

// str is at for a string.
func (r *reply) str(path ...any) string {
	s, _ := r.at(path...).(string)
	return s
}

// send asks the door. With no header given, the body is JSON.
func (b *bench) send(key, method, path, body string, header ...string) *reply {
	b.t.Helper()
	path = strings.TrimPrefix(path, pdp)
	req, err := http.NewRequest(method, b.url+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	out := &reply{status: resp.StatusCode, header: resp.Header, text: string(text)}
	if strings.Contains(resp.Header.Get("Content-Type"), "json") {
		if err := json.Unmarshal(text, &out.json); err != nil {
			b.t.Errorf("%s %s: %v in %s", method, path, err, text)
		}
	}
	return out
}

// decide is one evaluation; it fails the test unless it is answered with a decision.
func (b *bench) decide(key, body string) (bool, *reply) {
	b.t.Helper()
	r := b.send(key, "POST", "/access/v1/evaluation", body)
	yes, said := r.at("decision").(bool)
	if r.status != http.StatusOK || !said || r.header.Get("Content-Type") != "application/json" {
		b.t.Fatalf("no decision: %d %s", r.status, r.text)
	}
	return yes, r
}

// permits reports whether a decision of true is anywhere in an answer.
func permits(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		if v["decision"] == true {
			return true
		}
		for _, m := range v {
			if permits(m) {
				return true
			}
		}
	case []any:
		for _, m := range v {
			if permits(m) {
				return true
			}
		}
	}
	return false
}
