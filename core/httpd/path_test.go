package httpd

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"
)

// rawAnswer sends a request as it is written, which no client library would, and gives the status.
func (g *gate) rawAnswer(request string) int {
	g.t.Helper()
	c, err := net.Dial("tcp", g.addr)
	if err != nil {
		g.t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		g.t.Fatal(err)
	}
	if _, err := c.Write([]byte(request)); err != nil {
		g.t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		g.t.Fatalf("%.60q: %v", request, err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

func TestPathsThatAreNotExactAreNotServed(t *testing.T) {
	g := newGate(t, nil)
	operator := g.key("operator", "kill", "authorize")
	status := func(method, target, body string) int {
		return g.rawAnswer(fmt.Sprintf("%s %s HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\nContent-Length: "+
			"%d\r\n\r\n%s", method, target, operator, len(body), body))
	}
	const kill = `{"agent_id":"a","reason":"r"}`
	for _, target := range []string{"/v1/actions/%2e%2e/kill", "/v1/actions/../kill", "//v1//kill", "//v1/kill",
		"/v1//kill", "/v1/kill/", "/v1/./kill", "/v1/%6bill", "/v1%2fkill",
		"/v1/kill;x", "/V1/kill", "/v1/kill%20", "http://h//v1/kill", "http://h/v1/x/../kill", "/../v1/kill"} {
		if got := status("POST", target, kill); got != 404 {
			t.Errorf("POST %s: %d, want 404", target, got)
		}
		if got := status("GET", target, ""); got != 404 {
			t.Errorf("GET %s: %d, want 404", target, got)
		}
	}
	for _, target := range []string{"//healthz", "/%68ealthz", "/healthz/", "/x/../healthz", "/healthz;x"} {
		if got := status("GET", target, ""); got != 404 {
			t.Errorf("GET %s: %d, want 404", target, got)
		}
	}
	if got := status("POST", "/v1/kill#x", kill); got != 400 {
		t.Errorf("a fragment: %d", got)
	}
	if a := g.send(operator, "GET", "/v1/kill", ""); len(a.m["kills"].([]any)) != 0 {
		t.Errorf("kills by requests that nothing serves: %s", a.body)
	}
	for _, target := range []string{"/v1/kill", "http://h/v1/kill", "/v1/kill?x=//../%2e"} {
		if got := status("GET", target, ""); got != 200 {
			t.Errorf("GET %s: %d", target, got)
		}
	}
}

func TestDryRunIsNever2xxUnderDenyStatus(t *testing.T) {
	for _, configured := range []int{200, 403} {
		g := newGate(t, func(s *Settings) { s.Server.DenyStatus = configured })
		agent := g.key("agent", "authorize")
		for _, path := range []string{"/v1/authorize", "/v1/evaluate"} {
			for _, query := range []string{"", "?deny_status=403", "?deny_status=200"} {
				for _, tool := range []string{"permit", "deny", "defer"} {
					want := 403
					if configured == 200 && query != "?deny_status=403" {
						want = 200
					}
					a := g.send(agent, "POST", path+query, `{"agent_id":"a","tool_id":"`+tool+`","dry_run":true}`)
					if a.StatusCode != want || a.m["dry_run"] != true || a.m["effect"] == nil || a.Header.Get("X-Yett-Effect") != "" {
						t.Errorf("configured %d, %s%s, %s: %d %v %s, want %d", configured, path, query, tool, a.StatusCode, a.Header,
							a.body, want)
					}
				}
			}
			g.problem(g.send(agent, "POST", path+"?deny_status=4o3", `{"agent_id":"a","tool_id":"permit","dry_run":true}`), 422,
				"invalid_field")
		}
		if a := g.send(agent, "POST", "/v1/authorize", `{"agent_id":"a","tool_id":"permit"}`); a.StatusCode != 200 {
			t.Errorf("configured %d: a permit that counts: %d", configured, a.StatusCode)
		}
	}
}
