package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// visitor is a person at the console of a real server. The Go client keeps no Secure cookie over http as browsers do
// for this very machine, so it is carried by hand.
type visitor struct {
	s            *server
	base, cookie string
}

// visit gives the console's address and, when nobody can sign in yet, the token of the one-time link.
func visit(s *server) (v *visitor, token string) {
	s.t.Helper()
	var line struct{ Console string }
	if err := json.Unmarshal([]byte(s.line), &line); err != nil {
		s.t.Fatal(err)
	}
	u, err := url.Parse(line.Console)
	if err != nil || u.Host == "" {
		s.t.Fatalf("the console is at %q: %v", line.Console, err)
	}
	return &visitor{s: s, base: u.Scheme + "://" + u.Host}, u.Query().Get("token")
}

// do sends a form, or gets a page when there are no fields. It follows no redirect.
func (v *visitor) do(status int, path string, fields url.Values, headers ...string) string {
	v.s.t.Helper()
	method := "GET"
	if fields != nil {
		method = "POST"
	}
	req, err := http.NewRequestWithContext(context.Background(), method, v.base+path, strings.NewReader(fields.Encode()))
	if err != nil {
		v.s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if v.cookie != "" {
		req.Header.Set("Cookie", v.cookie)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	client := *v.s.client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	res, err := client.Do(req)
	if err != nil {
		v.s.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != status {
		v.s.t.Fatalf("%s %s: status %d, want %d, %v\n%s", method, path, res.StatusCode, status, err, body)
	}
	for _, c := range res.Cookies() {
		if c.Name == "__Host-yett" { // the session's; this visitor's device is known to nobody
			v.cookie = c.Name + "=" + c.Value
		}
	}
	return string(body)
}

var shownValue = regexp.MustCompile(`yett_([0-9A-Za-z]{12})_[0-9A-Za-z]{49}`)

// TestConsoleOfTheServer signs up over the link that dev prints, makes a key, uses it over HTTP, and sees it refused
// once it is revoked; the session outlives the server.
func TestConsoleOfTheServer(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := startDev(t, nil, "--data", data)
	v, token := visit(s)
	if token == "" {
		t.Fatalf("no one-time link in %s", s.line)
	}
	const password = "correct horse battery"
	v.do(303, "/keys", nil)
	v.do(403, "/keys", url.Values{"name": {"x"}})
	v.do(303, "/setup", url.Values{"token": {token}, "name": {"ada"}, "password": {password}, "again": {password}})
	v.do(403, "/setup?token="+token, nil)
	v.do(403, "/keys", url.Values{"name": {"x"}}, "Sec-Fetch-Site", "cross-site")
	v.do(421, "/keys", nil, "Host", "evil.example")

	made := shownValue.FindStringSubmatch(v.do(200, "/keys", url.Values{"name": {"from the console"}}))
	if made == nil {
		t.Fatal("the answer shows no value")
	}
	call := func() answer {
		return s.post(made[0], "/v1/authorize", `{"agent_id":"a","tool_id":"files/read"}`)
	}
	call().wantDecision(t, "PERMIT", "RULE_PERMIT")
	if list := v.do(200, "/keys", nil); strings.Contains(list, made[0]) || !strings.Contains(list, made[1]) {
		t.Error("the list shows the value, or not the id")
	}
	s.kill()
	if strings.Contains(s.stderr.String(), made[0]) || strings.Contains(s.stderr.String(), password) {
		t.Error("a secret is in the log")
	}

	s = startDev(t, nil, "--data", data)
	again, token := visit(s)
	if token != "" {
		t.Error("a second one-time link although there is an operator")
	}
	again.cookie = v.cookie
	again.do(200, "/keys", nil)
	call().wantDecision(t, "PERMIT", "RULE_PERMIT")
	again.do(303, "/keys/"+made[1]+"/revoke", url.Values{})
	call().want(t, 401, "key_revoked")
	again.do(303, "/signout", url.Values{})
	again.do(303, "/keys", nil)
}
