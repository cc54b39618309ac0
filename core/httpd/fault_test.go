package httpd

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A request that no strict parser takes is 400 and ends the connection, also where its head alone would have been
// refused.
func TestFaultsOfABodyOutrankItsHead(t *testing.T) {
	t.Parallel()
	g := newGate(t, nil)
	for name, body := range map[string]string{
		"a chunk that ends with a bare CR": "5\r\r;ABCD\r\n34\r\nE\r\n0\r\n\r\n",
		"quotes that never end":            "5;a=\"b;c\r\nhello\r\n0\r\n",
		"no last chunk":                    "3\r\nfoo\r\n\r\n",
		"bytes behind the end":             "0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
	} {
		for _, target := range []string{"/nowhere", "/v1/authorize", "/healthz"} {
			t.Run(name+" "+target[1:], func(t *testing.T) {
				c := g.talk()
				c.write("POST %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n%s", target, body)
				if resp, m := c.answer(); resp.StatusCode != http.StatusBadRequest || m["code"] != "bad_request" {
					t.Errorf("%d %v", resp.StatusCode, m)
				}
				c.end()
			})
		}
	}
	c := g.talk()
	c.write("POST /nowhere HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s", 5, "he")
	if resp, m := c.answer(); resp.StatusCode != http.StatusNotFound {
		t.Error(fmt.Sprint(resp.StatusCode, m))
	}
}

// No error quotes an API key, wherever it stood in the request.
func TestErrorsQuoteNoKey(t *testing.T) {
	t.Parallel()
	g := newGate(t, nil)
	key, leaked := g.key("operator", "kill", "authorize"), g.key("leaked", "authorize")
	for _, body := range []string{fmt.Sprintf(`{"scope":%q}`, leaked),
		fmt.Sprintf(`{"scope":%q}`, "x "+strings.ReplaceAll(leaked, "_", "-")),
		fmt.Sprintf(`{"scope":"key","target":%q}`, leaked)} {
		a := g.send(key, "POST", "/v1/kill", body)
		if a.StatusCode < 400 || strings.Contains(a.body, leaked[20:]) {
			t.Errorf("%s: %d %s", body, a.StatusCode, a.body)
		}
	}
	for _, path := range []string{"/v1/actions/" + leaked, "/v1/actions?status=" + leaked, "/v1/actions?limit=" + leaked,
		"/v1/" + leaked} {
		if a := g.send(key, "GET", path, ""); strings.Contains(a.body, leaked) {
			t.Errorf("%s: %d %s", path, a.StatusCode, a.body)
		}
	}
}
