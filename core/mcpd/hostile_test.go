package mcpd_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/testkit/doortest"
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

// What a client's reader of events takes for a message was scanned, however it finds the ends of lines.
func TestHiddenEvents(t *testing.T) {
	const hidden = `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"data":"S3CR3T"}}` + "\n\n"
	const last = "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[]}}\n\n"
	for name, events := range map[string]string{
		"byte order mark":                     "\ufeff" + hidden,
		"carriage return where a buffer ends": ":" + strings.Repeat("x", 32<<10-2) + "\r" + hidden,
		"line separator in a comment":         ": \u2028" + hidden,
		"next line in a comment":              ": \u0085" + hidden,
		"line separator in an unknown field":  "x: \u2028" + hidden,
		"line separator in a type":            "event: \u2028" + hidden,
		"line separator in an id":             "id: \u2028" + hidden,
		"form feed in a comment":              ": \f" + hidden,
		"comment":                             ": S3CR3T\n\n",
		"type":                                "event: S3CR3T\n\n",
	} {
		g := newRig(t, withSessions(events+last))
		id := g.initialize(`{}`)
		_, _, got := g.send(call(1, "read", `{}`), "Mcp-Session-Id", id)
		if strings.Contains(got, doortest.Secret) {
			t.Errorf("%s: %.200q", name, got)
		}
	}
	g := newRig(t, withSessions(`data: {"jsonrpc":"2.0","id":1,"result":{"content":[],"a":"x`+"\u2028\u0085\u2029"+
		`y"}}`+"\n\n"))
	id := g.initialize(`{}`)
	if _, _, got := g.send(call(1, "read", `{}`), "Mcp-Session-Id", id); !strings.Contains(got,
		`"a":"x\u2028\u0085\u2029y"`) {
		t.Errorf("%q", got)
	}
}

// A message of several lines stays one event where the gateway answers on a stream of its own.
func TestLinesOnOurStream(t *testing.T) {
	g := newRig(t, func(w http.ResponseWriter, r received) {
		if strings.Contains(r.body, `"initialize"`) {
			withSessions("")(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, "{\n  \"jsonrpc\": \"2.0\",\r\n \r \"id\": %s,\n\n \"result\": {\"content\": []}\n}\n",
			idOf(r.body))
	})
	id := g.initialize(`{"elicitation":{"url":{}}}`)
	go eventually(func() bool { return g.bench.AnswerPending(true) > 0 })
	_, _, got := g.send(call(1, "defer", `{}`), "Mcp-Session-Id", id)
	_, got, _ = strings.Cut(got, "\n\n") // what shows the page
	data := ""
	for line := range strings.Lines(got[:strings.Index(got, "\n\n")+1]) {
		part, _ := strings.CutPrefix(line, "data: ")
		data += part
	}
	if data = strings.TrimPrefix(data, "event: message\n"); !json.Valid([]byte(data)) ||
		!strings.Contains(data, "content") {
		t.Errorf("%q", got)
	}
}

// Every string of a message is scanned, not only those in the members that MCP names.
func TestScannedBeside(t *testing.T) {
	for name, message := range map[string]string{
		"answer":               `{"jsonrpc":"2.0","id":1,"result":{},"x":{"y":"S3CR3T"}}`,
		"name":                 `{"jsonrpc":"2.0","id":1,"result":{},"S3CR3T":1}`,
		"result and Result":    `{"jsonrpc":"2.0","id":1,"result":{},"Result":{"content":"S3CR3T"}}`,
		"error":                `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"},"x":"S3CR3T"}`,
		"notification":         `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1},"x":"S3CR3T"}`,
		"its method":           `{"jsonrpc":"2.0","method":"notifications/S3CR3T"}`,
		"no method of MCP":     `{"jsonrpc":"2.0","method":"S3CR3T"}`,
		"request":              `{"jsonrpc":"2.0","id":7,"method":"ping","x":"S3CR3T"}`,
		"its id":               `{"jsonrpc":"2.0","id":"S3CR3T","method":"ping"}`,
		"its params":           `{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":"S3CR3T"}}`,
		"progress token":       `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"S3CR3T"}}`,
		"id of a cancellation": `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"S3CR3T"}}`,
	} {
		g := newRig(t, withSessions("data: "+message+"\n\n"))
		id := g.initialize(`{}`)
		_, _, got := g.send(call(1, "read", `{}`), "Mcp-Session-Id", id)
		if strings.Contains(got, doortest.Secret) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// The log gets no text of a server.
func TestLogOfServersTexts(t *testing.T) {
	const said = `{"jsonrpc":"2.0","id":7,"method":"S3CR3T"}`
	g := newRig(t, withSessions("data: "+said+"\n\ndata: "+strings.Replace(said, `"id":7,`, "", 1)+"\n\n"))
	id := g.initialize(`{}`)
	g.send(call(1, "read", `{}`), "Mcp-Session-Id", id)
	if got := g.logged(); !strings.Contains(got, "not passed on") || strings.Contains(got, doortest.Secret) {
		t.Error(got)
	}
}

// Only what can be no text is taken for a binary.
func TestNoBinaries(t *testing.T) {
	for name, result := range map[string]string{
		"a member called blob":    `{"content":[],"structuredContent":{"blob":"S3CR3T00"}}`,
		"an object like an image": `{"content":[],"structuredContent":{"type":"image","data":"S3CR3T00"}}`,
		"a resource":              `{"contents":[{"uri":"a","blob":"S3CR3T00"}]}`,
		"text as an image":        `{"content":[{"type":"image","mimeType":"image/svg+xml","data":"UzNDUjNU"}]}`,
		"text with other signs":   `{"contents":[{"uri":"a","blob":"UzND UjNU"}]}`,
		"text without its end":    `{"contents":[{"uri":"a","blob":"UzNDUjNUIQ"}]}`,
		"text for the web":        `{"contents":[{"uri":"a","blob":"UzNDUjNUPz8_"}]}`,
		"UTF-16":                  `{"contents":[{"uri":"a","blob":"//5TADMAQwBSADMAVAA="}]}`,
	} {
		g := newRig(t, plain(result))
		_, _, got := g.send(call(1, "read", `{}`))
		if strings.Contains(got, result) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// Binaries come back in their places, however many there are.
func TestManyBinaries(t *testing.T) {
	var want strings.Builder
	want.WriteString(`{"content":[{"type":"text","text":"S3CR3T"}`)
	for i := range 2_000 {
		fmt.Fprintf(&want, `,{"a":[{"uri":"","blob":"%s%08d"}]}`, strings.Repeat("////", 64), i)
	}
	want.WriteString(`]}`)
	g := newRig(t, plain(want.String()))
	_, _, got := g.send(call(1, "read", `{}`))
	if !strings.Contains(got, strings.Replace(want.String(), "S3CR3T", "[hidden]", 1)) {
		t.Errorf("%.300s", got)
	}
}

// A version that the gateway does not know may mean something else by the same bytes.
func TestVersions(t *testing.T) {
	g := newRig(t, plain(`{"content":[]}`))
	for _, v := range []string{"2099-01-01", "2026-07-29", "DRAFT-2027-v1", "9", "2026-07-28-rc"} {
		body := strings.Replace(modern(1, "read", `{}`, ""), "2026-07-28", v, 1)
		_, _, got := g.send(body, "Mcp-Protocol-Version", v)
		if sent := g.requests(); len(sent) != 0 || !strings.Contains(got, `"code":-32022`) ||
			!strings.Contains(got, `"supported":["2026-07-28"`) || !strings.Contains(got, `"requested":"`+v+`"`) {
			t.Errorf("%q: %s", v, got)
		}
	}
	for _, headers := range [][]string{{"Mcp-Method", "ping"}, {"Mcp-Name", "deny"},
		{"Mcp-Method", "tools/call", "Mcp-Name", "=?base64?ZGVueQ==?="}} { // the older era has none of them
		_, _, got := g.send(call(1, "read", `{}`), headers...)
		if sent := g.requests(); len(sent) != 0 || !strings.Contains(got, `"code":-32020`) {
			t.Errorf("%q: %s", headers, got)
		}
	}
}

// A status that is none is an error of the server, not of the gateway.
func TestNoStatus(t *testing.T) {
	g := newRig(t, func(w http.ResponseWriter, _ received) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		const body = `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 000 x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			len(body), body)
	})
	for _, body := range []string{call(1, "read", `{}`), `{"jsonrpc":"2.0","method":"notifications/initialized"}`} {
		if status, _, got := g.send(body); status == http.StatusInternalServerError {
			t.Errorf("%d %s", status, got)
		}
	}
	if strings.Contains(g.logged(), "panic") {
		t.Error(g.logged())
	}
}
