package mcpd_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/testkit/doortest"
)

// What is permitted reaches the server with the bytes that were decided, and its answer comes back with its own.
func TestBytes(t *testing.T) {
	const result = `{ "content":[{"type":"text","text":"\u00e9 \/ ok"},{"type":"sculpture","weight":1e400}], "isError" : false,` +
		`"structuredContent":{"n":12345678901234567890,"m":0.10},"_meta":{"big":9007199254740993},"x-new":[1.0]}`
	g := newRig(t, plain(result))
	body := ` {"jsonrpc":"2.0", "id":7,"method":"tools/call","params":{"name":"read","arguments":{"n":12345678901234567890,` +
		`"m":0.10,"s":"\u0041"},"x-unknown":{"a":1e400},"_meta":{"t":1.0}}} `
	status, _, got := g.send(body)
	if want := `{"jsonrpc":"2.0","id":7,"result":` + result + `}`; status != 200 || got != want {
		t.Errorf("%d\n got %s\nwant %s", status, got, want)
	}
	if sent := g.requests(); len(sent) != 1 || sent[0].body != body || sent[0].header.Get("Authorization") != "" {
		t.Errorf("the server got %+v", sent)
	}
	if calls := g.bench.Calls(); len(calls) != 1 ||
		calls[0] != `mcp.up/read {"m":0.1,"n":12345678901234567890,"s":"A"}` {
		t.Errorf("asked about %q", calls)
	}
}

// Nothing but a permit reaches the server.
func TestRefusals(t *testing.T) {
	g := newRig(t, plain(`{"content":[]}`))
	for _, c := range []struct{ name, body, want string }{
		{"deny", call(1, "deny", `{}`), `"isError":true`},
		{"defer", call(1, "defer", `{}`), `waits for a person's approval`},
		{"cannot be decided", call(1, "fails", `{}`), `"isError":true`},
		{"unknown method", `{"jsonrpc":"2.0","id":1,"method":"tools/run"}`, `"code":-32601`},
		{"resource", `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{}}`, `"code":-32602`},
		{"a tool named as a method", call(1, "resources/read", `{}`), `"code":-32602`},
		{"no name", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{}}}`, `"code":-32602`},
		{"arguments are no object", call(1, "read", `[]`), `"code":-32602`},
		{"batch", `[` + call(1, "read", `{}`) + `]`, `"code":-32600`},
		{"two methods", `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}`, `"code":-32700`},
		{"two names", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","name":"deny"}}`, `"code":-32700`},
		{"escaped name", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","n\u0061me":"deny"}}`,
			`"code":-32700`},
		{"no call of the protocol", `{"jsonrpc":"1.0","id":1,"method":"ping"}`, `"code":-32600`},
		{"method and result", `{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}`, `"code":-32600`},
		{"id is an object", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, `"code":-32600`},
		{"a call without an id", `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"read"}}`, `"code":-32600`},
		{"no JSON", `{`, `"code":-32700`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, got := g.send(c.body)
			if !strings.Contains(got, c.want) {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if sent := g.requests(); len(sent) != 0 {
				t.Errorf("the server got %+v", sent)
			}
		})
	}
}

func TestStrictRefusal(t *testing.T) {
	g := newRig(t, plain(`{"content":[]}`), func(m *config.MCP) { m.Refusal = config.MCPError })
	_, _, got := g.send(call(1, "deny", `{}`))
	if !strings.Contains(got, `"code":-32001`) || !strings.Contains(got, `"decision_id":"dec_`) {
		t.Error(got)
	}
}

// Without a decision nothing is forwarded, whatever is the matter.
func TestNoDecision(t *testing.T) {
	g := newRig(t, plain(`{"content":[]}`))
	g.bench.BreakStore(true)
	if _, _, got := g.send(call(1, "read", `{}`)); !strings.Contains(got, `"code":-32603`) {
		t.Error(got)
	}
	g.bench.BreakStore(false)
	for _, c := range []struct{ name, key string }{
		{"revoked", func() string { k := g.bench.Key("gone", "agent"); g.bench.Revoke(k); return k.Value }()},
		{"no scope", g.bench.Key("auditor", "auditor").Value}, {"none", ""}} {
		g.key = c.key
		if status, _, got := g.send(call(1, "read", `{}`)); status < 401 || status > 403 ||
			!strings.Contains(got, `"code":-32001`) {
			t.Errorf("%s: %d %s", c.name, status, got)
		}
	}
	if sent := g.requests(); len(sent) != 0 {
		t.Errorf("the server got %+v", sent)
	}
}

// What a server answers is scanned whole: texts, members' names, errors, and what stands beside them.
func TestScanned(t *testing.T) {
	for _, c := range []struct{ name, result, want string }{
		{"text", `{"content":[{"type":"text","text":"a S3CR3T b"}]}`, `{"content":[{"type":"text","text":"a [hidden] b"}]}`},
		{"escaped", `{"content":[{"type":"text","text":"a \u00533CR3T b"}]}`,
			`{"content":[{"type":"text","text":"a [hidden] b"}]}`},
		{"structured", `{"content":[{"type":"text","text":"{\"k\":\"S3CR3T\"}"}],"structuredContent":{"k":"S3CR3T","n":1.0}}`,
			`{"content":[{"type":"text","text":"{\"k\":\"[hidden]\"}"}],"structuredContent":{"k":"[hidden]","n":1.0}}`},
		{"name of a member", `{"structuredContent":{"S3CR3T":1}}`, `{"structuredContent":{"[hidden]@23":1}}`},
		{"beside", `{"x-new":{"deep":["S3CR3T"]},"content":[]}`, `{"x-new":{"deep":["[hidden]"]},"content":[]}`},
		{"denied", `{"content":[{"type":"text","text":"F0RB1D"}],"structuredContent":{"a":1}}`, `withheld by policy`},
		{"late", `{"content":[{"type":"text","text":"L4T3"}]}`, `withheld by policy`},
		{"image", `{"content":[{"type":"image","data":"/////w==","mimeType":"image/png"},{"type":"text","text":"S3CR3T"}]}`,
			`{"content":[{"type":"image","data":"/////w==","mimeType":"image/png"},{"type":"text","text":"[hidden]"}]}`},
		{"no image", `{"content":[{"type":"image","data":"S3CR3T"}]}`, `{"content":[{"type":"image","data":"[hidden]"}]}`},
		{"blob that is text", `{"contents":[{"uri":"a","blob":"UzNDUjNU"}]}`, `withheld by policy`},
		{"blob", `{"contents":[{"uri":"a","blob":"/////w=="}]}`, `{"contents":[{"uri":"a","blob":"/////w=="}]}`},
		{"flagged", `{"content":[{"type":"text","text":"FL4GG3D"}]}`, `{"content":[{"type":"text","text":"FL4GG3D"}]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t, plain(c.result))
			_, _, got := g.send(call(1, "read", `{}`))
			if !strings.Contains(got, c.want) || strings.Contains(got, doortest.Forbidden) {
				t.Errorf("got %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestServerErrors(t *testing.T) {
	said := `{"code":-32000,"message":"S3CR3T","data":{"x":"S3CR3T"}}`
	g := newRig(t, func(w http.ResponseWriter, r received) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":%s}`, idOf(r.body), said)
	})
	_, _, got := g.send(call(1, "read", `{}`))
	if !strings.Contains(got, `{"code":-32000,"message":"[hidden]","data":{"x":"[hidden]"}}`) {
		t.Error(got)
	}
	said = `{"code":-32000,"message":"F0RB1D"}`
	if _, _, got = g.send(call(1, "read", `{}`)); strings.Contains(got, doortest.Forbidden) {
		t.Error(got)
	}
}

// A server that cannot be used is an error for its own requests, and what it asks for is not passed on.
func TestBadServers(t *testing.T) {
	for _, c := range []struct {
		name string
		say  answer
	}{
		{"asks for credentials", func(w http.ResponseWriter, _ received) {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="https://evil.example"`)
			w.WriteHeader(401)
		}},
		{"redirects", func(w http.ResponseWriter, _ received) {
			w.Header().Set("Location", "https://evil.example")
			w.WriteHeader(307)
		}},
		{"speaks HTML", func(w http.ResponseWriter, _ received) { fmt.Fprint(w, "<html>S3CR3T") }},
		{"answers another request", func(w http.ResponseWriter, _ received) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":99,"result":{"content":[]}}`)
		}},
		{"answers twice in one", func(w http.ResponseWriter, _ received) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{},"result":{"content":[]}}`)
		}},
		{"ends within an event", func(w http.ResponseWriter, _ received) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n")
		}},
		{"codes its answer", func(w http.ResponseWriter, _ received) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Encoding", "gzip")
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{}}`)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t, c.say)
			_, h, got := g.send(call(1, "read", `{}`))
			if !strings.Contains(got, `"code":-32603`) || strings.Contains(got, "evil") || h.Get("Www-Authenticate") != "" {
				t.Errorf("%v %s", h, got)
			}
		})
	}
}

// A call is redeemed by sending it again, and runs once.
func TestApproval(t *testing.T) {
	g := newRig(t, plain(`{"content":[]}`))
	if _, _, got := g.send(call(1, "defer", `{"a":1}`)); !strings.Contains(got, "https://console.example/approvals/dec_") {
		t.Fatal(got)
	}
	g.bench.AnswerPending(true)
	if _, _, got := g.send(call(2, "defer", `{"a":2}`)); !strings.Contains(got, `"isError":true`) {
		t.Errorf("another call ran: %s", got)
	}
	if _, _, got := g.send(call(3, "defer", `{"a":1}`)); !strings.Contains(got, `"result":{"content":[]}`) {
		t.Errorf("the approved call did not run: %s", got)
	}
	if _, _, got := g.send(call(4, "defer", `{"a":1}`)); !strings.Contains(got, `"isError":true`) {
		t.Errorf("the approval counted twice: %s", got)
	}
	if sent := g.requests(); len(sent) != 1 {
		t.Errorf("the server got %+v", sent)
	}
}

// In the newer era the client is asked to show a page, and what it says of the page counts for nothing.
func TestInputRequired(t *testing.T) {
	g := newRig(t, plain(`{"resultType":"complete","content":[]}`))
	_, _, first := g.send(modern(1, "defer", `{"a":1}`, ""))
	state := member(first, "requestState")
	if !strings.Contains(first, `"resultType":"input_required"`) || state == "" {
		t.Fatal(first)
	}
	again := func(id int, args, state string) string {
		_, _, got := g.send(modern(id, "defer", args, `"requestState":"`+state+`","inputResponses":{"approval":`+
			`{"action":"accept"}},`))
		return got
	}
	if got := again(2, `{"a":1}`, state); !strings.Contains(got, "still waits") {
		t.Errorf("accept without an approval: %s", got)
	}
	g.bench.AnswerPending(true)
	for name, bad := range map[string]string{"other arguments": again(3, `{"a":2}`, state),
		"forged": again(4, `{"a":1}`, state[:len(state)-2]+"AA"), "cut": again(5, `{"a":1}`, "yett1.")} {
		if !strings.Contains(bad, `"code":-32602`) {
			t.Errorf("%s: %s", name, bad)
		}
	}
	own := g.key
	g.key = g.bench.Key("other", "agent").Value
	if got := again(6, `{"a":1}`, state); !strings.Contains(got, `"code":-32602`) {
		t.Errorf("another key: %s", got)
	}
	g.key = own
	if got := again(7, `{"a":1}`, state); !strings.Contains(got, `"resultType":"complete","content":[]`) {
		t.Errorf("the approved call did not run: %s", got)
	}
	if got := again(8, `{"a":1}`, state); !strings.Contains(got, `"isError":true`) {
		t.Errorf("replayed: %s", got)
	}
	sent := g.requests()
	if len(sent) != 1 || strings.Contains(sent[0].body, "requestState") ||
		strings.Contains(sent[0].body, "inputResponses") {
		t.Errorf("the server got %+v", sent)
	}
}

// member is a string member of an answer.
func member(answer, name string) string {
	_, rest, _ := strings.Cut(answer, `"`+name+`":"`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}
