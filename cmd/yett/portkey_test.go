package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
)

// TestPortkey: an unmodified Portkey gateway, with the hooks that the README says, in front of a model.
func TestPortkey(t *testing.T) {
	program := os.Getenv("YETT_PORTKEY")
	if program == "" {
		t.Skip("YETT_PORTKEY is not set: it names build/start-server.js of the npm package @portkey-ai/gateway")
	}
	s, door, upstream, m := behindADoor(t, "portkey", "YETT__DOORS__PORTKEY__REDACTED=pass")
	var settings bytes.Buffer
	if err := json.Compact(&settings, []byte(strings.NewReplacer("127.0.0.1:8423", door, "YETT_API_KEY", s.Keys.Agent).
		Replace(blockOf(t, "portkey")))); err != nil {
		t.Fatal(err)
	}
	gateway := freePort(t)
	_, port, _ := strings.Cut(gateway, ":")
	launch(t, "http://"+gateway+"/", nil, "node", program, "--headless", "--port="+port)
	header := http.Header{"X-Portkey-Config": {fmt.Sprintf(`{"provider":"openai","api_key":"none","custom_host":"%s/v1",%s`,
		upstream, strings.TrimPrefix(settings.String(), "{"))}}
	ask := func(text string) string {
		t.Helper()
		raw, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		return chat(t, "http://"+gateway+"/v1/chat/completions", fmt.Sprintf(
			`{"model":"chat","messages":[{"role":"user","content":%s}]}`, raw), header)
	}
	for _, c := range []struct{ name, text, status, has, not string }{
		{"clean", "say hello", "200", "hello", ""},
		{"redacted", "say my token " + leaked() + " is here", "200", "is here", leaked()},
		{"redacted answer", "say the token LEAK is here", "200", "is here", leaked()},
		{"permitted call", `call read_file {"path":"a"}`, "200", "read_file", ""},
		{"denied call", `call unknown_tool {"path":"a"}`, "446", "UNMATCHED_DENY", `"choices"`},
		{"deferred call", `call refund_customer {"amount":1}`, "446", "/approvals/dec_", `"choices"`},
		{"call with a secret", `call read_file {"path":"LEAK"}`, "446", "takes no change", leaked()},
	} {
		t.Run(c.name, func(t *testing.T) {
			m.heard()
			answer := ask(c.text)
			if !strings.HasPrefix(answer, c.status) || !strings.Contains(answer, c.has) {
				t.Errorf("the answer: %s", answer)
			}
			if c.not != "" && strings.Contains(answer, c.not) {
				t.Errorf("the client has %s: %s", c.not, answer)
			}
			if asked := m.heard(); asked == "" || strings.Contains(asked, leaked()) {
				t.Errorf("the model has been asked %q", asked)
			}
		})
	}
	if answer := chat(t, "http://"+gateway+"/v1/chat/completions", `{"model":"chat","stream":true,"messages":[{"role":"user",`+
		`"content":"say hello"}]}`, header); !strings.HasPrefix(answer, "446") || m.heard() != "" {
		t.Errorf("a stream: %s", answer)
	}
	s.kill()
	if answer := ask("say hello"); !strings.HasPrefix(answer, "446") || m.heard() != "" {
		t.Errorf("without Yett: %s", answer)
	}
}
