package front_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/doors/front"
	"github.com/yett-dev/yett/core/testkit/doortest"
	"github.com/yett-dev/yett/sdk"
)

// open serves routes on a port of its own until the test ends.
func open(t *testing.T, b *doortest.Bench, routes ...front.Route) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := front.New(front.Settings{Name: "doors", Keys: b.Service, Limits: b.Limits, Hosts: []string{"pdp.example"},
		HostKey: "doors.hosts", NewID: func() string { return "req_test" }, Log: t.Logf}, routes)
	ended := make(chan error, 1)
	go func() { ended <- f.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := errors.Join(f.Close(ctx), <-ended); err != nil {
			t.Error(err)
		}
	})
	return "http://" + ln.Addr().String()
}

func refuse(w http.ResponseWriter, _ *front.Request, err *sdk.Error) {
	w.WriteHeader(http.StatusTeapot)
	fmt.Fprintf(w, "closed: %s", err.Code)
}

var echoes = front.Route{Pattern: "POST /echo", Needs: sdk.ScopeAuthorize, Body: 16, Refuse: refuse, Handle: echo}

// echo answers with the body, and panics where the body says so.
func echo(w http.ResponseWriter, r *front.Request) {
	switch string(r.Body) {
	case "panic":
		panic("the door has a mistake")
	case "half":
		fmt.Fprint(w, "half of an answer")
		panic("the door has a mistake")
	}
	fmt.Fprintf(w, "open: %s", r.Body)
}

func TestRequests(t *testing.T) {
	b := doortest.New(t)
	agent, auditor := b.Key("agent", "agent"), b.Key("auditor", "auditor")
	gone := b.Key("gone", "agent")
	b.Revoke(gone)
	url := open(t, b, echoes)
	for _, c := range []struct{ name, key, host, origin, coding, path, body, want string }{
		{"served", agent.Value, "", "", "", "/echo", "hello", "200 open: hello"},
		{"no key", "", "", "", "", "/echo", "hello", "418 closed: unauthenticated"},
		{"revoked key", gone.Value, "", "", "", "/echo", "hello", "418 closed: key_revoked"},
		{"scope", auditor.Value, "", "", "", "/echo", "hello", "418 closed: missing_scope"},
		{"long body", agent.Value, "", "", "", "/echo", strings.Repeat("x", 17), "418 closed: too_large"},
		{"coded body", agent.Value, "", "", "gzip", "/echo", "hello", "418 closed: unsupported_coding"},
		{"panic", agent.Value, "", "", "", "/echo", "panic", "418 closed: internal"},
		{"foreign host", agent.Value, "evil.example", "", "", "/echo", "hello", "403 This listener"},
		{"configured host", agent.Value, "pdp.example", "", "", "/echo", "hello", "200 open: hello"},
		{"foreign origin", agent.Value, "", "http://evil.example", "", "/echo", "hello", "403 Pages of this origin"},
		{"opaque origin", agent.Value, "", "null", "", "/echo", "hello", "403 Pages of this origin"},
		{"own origin", agent.Value, "pdp.example", "https://pdp.example", "", "/echo", "hello", "200 open: hello"},
		{"inexact path", agent.Value, "", "", "", "/./echo", "hello", "404"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := http.NewRequest(http.MethodPost, url+c.path, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			r.Host = c.host
			for name, v := range map[string]string{"Origin": c.origin, "Content-Encoding": c.coding} {
				if v != "" {
					r.Header.Set(name, v)
				}
			}
			if c.key != "" {
				r.Header.Set("Authorization", "Bearer "+c.key)
			}
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprintf("%d %s", resp.StatusCode, body); !strings.HasPrefix(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// A protocol whose clients take a bare error for a pass has its own refusal for strangers as well.
func TestAlwaysRefusesInItsOwnForm(t *testing.T) {
	b := doortest.New(t)
	always := echoes
	always.Pattern, always.Always = "/always", true
	url := open(t, b, echoes, always)
	for path, want := range map[string]int{"/echo": http.StatusForbidden, "/always": http.StatusTeapot} {
		for _, origin := range []string{"", "https://evil.example"} {
			r, err := http.NewRequest(http.MethodPost, url+path, strings.NewReader("hello"))
			if err != nil {
				t.Fatal(err)
			}
			if r.Host = "evil.example"; origin != "" {
				r.Host = ""
				r.Header.Set("Origin", origin)
			}
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("%s from %q: %d, want %d", path, origin, resp.StatusCode, want)
			}
		}
	}
}

// Half an answer must not look whole.
func TestPanicInAnAnswerCutsIt(t *testing.T) {
	b := doortest.New(t)
	url := open(t, b, echoes)
	r, err := http.NewRequest(http.MethodPost, url+"/echo", strings.NewReader("half"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+b.Key("agent", "agent").Value)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return // cut before a byte of it came
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("the answer looks whole: %q", body)
	}
}

// A stranger's body is not read: the answer comes while it is still to be sent.
func TestKeyBeforeBody(t *testing.T) {
	b := doortest.New(t)
	url := open(t, b, echoes)
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := fmt.Fprintf(c, "POST /echo HTTP/1.1\r\nHost: %s\r\nContent-Length: 10\r\n\r\n",
		strings.TrimPrefix(url, "http://")); err != nil {
		t.Fatal(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 418 ") {
		t.Errorf("%q, %v", answer, err)
	}
}
