package mesh_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/doors/front"
	"github.com/yett-dev/yett/core/doors/mesh"
	"github.com/yett-dev/yett/core/testkit/doortest"
)

// open serves the HTTP form until the test ends.
func open(t *testing.T, b *doortest.Bench, set mesh.Settings) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := front.New(front.Settings{Name: "doors", Keys: b.Service, Limits: b.Limits, HostKey: "doors.hosts",
		NewID: func() string { return "req_test" }, Log: t.Logf}, mesh.Routes(set))
	ended := make(chan error, 1)
	go func() { ended <- f.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := errors.Join(f.Close(ctx), <-ended); err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

// send is a request as Envoy sends it: the client's own, with the prefix before its path.
func send(t *testing.T, addr, key, method, host, path, body string, pairs ...string) (int, http.Header, string) {
	t.Helper()
	r, err := http.NewRequest(method, "http://"+addr+"/", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.URL.Opaque = "/envoy/ext_authz" + path // as it is: Envoy tidies nothing
	r.Host = host
	if key != "" {
		r.Header.Set("X-Yett-Authorization", "Bearer "+key)
	}
	for i := 0; i < len(pairs); i += 2 {
		r.Header.Add(pairs[i], pairs[i+1])
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(got)
}

func TestHTTPEffects(t *testing.T) {
	b := doortest.New(t)
	key := b.Key("agent", "agent").Value
	addr := open(t, b, settings(t, b, allOn()))
	for _, c := range []struct {
		name, method, host, path, body string
		pairs                          []string
		want                           int
		effect                         string
	}{
		{"permit", "GET", "api.example:443", "/v1//x/../%2e?q=1", "", nil, 200, ""},
		{"permit with a body", "POST", "api.example", "/p", `{"a":1.50}`, []string{"Content-Type", "application/json",
			"X-Envoy-Auth-Partial-Body", "false"}, 200, ""},
		{"a body that may be cut", "POST", "api.example", "/p", `{"a":1.50}`, nil, 400, "DENY"},
		{"the client's own Authorization", "GET", "api.example", "/", "", []string{"Authorization", "Bearer theirs"}, 200, ""},
		{"a page's origin", "GET", "api.example", "/", "", []string{"Origin", "https://page.example"}, 200, ""},
		{"deny", "GET", "deny.example", "/", "", nil, 403, "DENY"},
		{"defer", "GET", "defer.example", "/", "", nil, 403, "DEFER"},
		{"a rule that fails", "GET", "fails.example", "/", "", nil, 403, "DENY"},
		{"no body", "POST", "api.example", "/", "", nil, 400, "DENY"},
		{"partial body", "POST", "api.example", "/", "x", []string{"X-Envoy-Auth-Partial-Body", "true"}, 413, "DENY"},
		{"compressed", "POST", "api.example", "/", "x", []string{"Content-Encoding", "gzip"}, 415, "DENY"},
		{"oversized", "POST", "api.example", "/", strings.Repeat("x", int(b.Limits.AuthorizeBody)+1), nil, 413, "DENY"},
		{"two keys", "GET", "api.example", "/", "", []string{"X-Yett-Authorization", "Bearer x"}, 403, "DENY"},
	} {
		status, _, body := send(t, addr, key, c.method, c.host, c.path, c.body, c.pairs...)
		if status != c.want {
			t.Errorf("%s: %d %s", c.name, status, body)
		}
		if status != 200 && told(t, body)["effect"] != c.effect {
			t.Errorf("%s: %s", c.name, body)
		}
	}
	if got := b.Calls()[0]; got != `http.api.example/GET {"headers":{},"host":"api.example","method":"GET",`+
		`"path":"/v1//x/../%2e","port":"443","query":"q=1"}` {
		t.Error(got)
	}
}

// No failure is a pass, and none is 5xx: failure_mode_allow would make a pass of it.
func TestHTTPFailsClosed(t *testing.T) {
	for _, f := range append([]failure{killed}, failures...) {
		t.Run(f.name, func(t *testing.T) {
			b := doortest.New(t)
			addr := open(t, b, settings(t, b, allOn()))
			if status, _, body := send(t, addr, f.make(t, b), "GET", "api.example", "/", ""); status != 403 {
				t.Errorf("%d %s", status, body)
			}
		})
	}
	b := doortest.New(t)
	set := settings(t, b, allOn())
	set.Asker = nil // whatever is asked panics
	addr := open(t, b, set)
	if status, _, body := send(t, addr, b.Key("agent", "agent").Value, "GET", "api.example", "/", ""); status != 403 {
		t.Errorf("panic: %d %s", status, body)
	}
	if status, _, body := send(t, addr, b.Key("other", "agent").Value, "GET", "", "x", ""); status < 300 {
		t.Errorf("beside the prefix: %d %s", status, body)
	}
}

func TestHTTPRemovesOwnHeaders(t *testing.T) {
	b := doortest.New(t)
	addr := open(t, b, settings(t, b, allOn()))
	status, h, _ := send(t, addr, b.Key("agent", "agent").Value, "GET", "api.example", "/", "", "X-Yett-Defer-Token", "x")
	got := strings.Split(h.Get("X-Envoy-Auth-Headers-To-Remove"), ",")
	slices.Sort(got)
	if status != 200 || !slices.Equal(got, []string{"x-yett-authorization", "x-yett-defer-token"}) {
		t.Errorf("%d %q", status, got)
	}
}
