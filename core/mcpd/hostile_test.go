package mcpd_test

import (
	"net/http"
	"strings"
	"testing"
)

// Programs that read members without regard to case, as Go's encoding/json does, must not find another request in the
// bytes than the one that was asked about.
func TestMembersThatDifferInCase(t *testing.T) {
	g := newRig(t, plain(`{"content":[]}`))
	const rest = `"params":{"name":"deny","arguments":{}}}`
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call",` + rest,
		`{"jsonrpc":"2.0","id":1,"method":"ping","\u004dETHOD":"tools/call",` + rest,
		`{"jsonrpc":"2.0","id":1,"result":{},"Method":"tools/call",` + rest,
		`{"jsonrpc":"2.0","method":"notifications/x","METHOD":"tools/call","ID":1,` + rest,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"},"Params":{"name":"deny"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"},"param` + "\u017f" + `":{"name":"deny"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","Name":"deny"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","Arguments":{"a":1}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","arguments":{"path":"a","Path":"b"}}}`,
	} {
		_, _, got := g.send(body)
		if sent := g.requests(); len(sent) != 0 || !strings.Contains(got, `"error"`) {
			t.Errorf("%s\n got %s, the server got %d requests", body, got, len(sent))
		}
	}
}

// A server reads the body in the coding that it was decided in, whatever the client calls it.
func TestCharset(t *testing.T) {
	g := newRig(t, plain(`{"content":[]}`))
	for _, kind := range []string{"application/json; charset=utf-7", "application/json; charset=utf-16",
		"application/json;charset=latin1", "text/plain", "application/json; charset=utf-8; charset=utf-7", "",
		"application/x-www-form-urlencoded"} {
		status, _, got := g.send(call(1, "read", `{}`), "Content-Type", kind)
		if sent := g.requests(); len(sent) != 0 || status != http.StatusUnsupportedMediaType {
			t.Errorf("%q: %d %s, the server got %+v", kind, status, got, sent)
		}
	}
	for _, kind := range []string{"application/json", "Application/JSON ; charset=UTF-8"} {
		g.send(call(1, "read", `{}`), "Content-Type", kind)
		if sent := g.requests(); len(sent) != 1 || sent[0].header.Get("Content-Type") != "application/json" {
			t.Errorf("%q: the server got %+v", kind, sent)
		}
	}
}
