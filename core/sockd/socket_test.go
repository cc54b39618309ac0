package sockd

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
)

var changing = regexp.MustCompile(`"(decision_id|call_id|key_id|defer_token|defer_expires_at|latency_ms|scan_id)":("[^"]*"|[0-9]+)`)

// steady replaces what differs from run to run.
func steady(line string) string { return changing.ReplaceAllString(line, `"$1":"?"`) }

// permit and the others are what govern answers here, without the id.
const (
	permit = `"effect":"PERMIT","reason_code":"TEST","decision_id":"?","call_id":"?","policy_version":"p","latency_ms":"?","structured_denial":null}`
	deny   = `"effect":"DENY","reason_code":"TEST","decision_id":"?","call_id":"?","policy_version":"p","latency_ms":"?","retry":{"class":"never"},` +
		`"structured_denial":{"code":"TEST","rule_ref":"p","human_message":"The call was not permitted (TEST)."}}`
)

// story is what goes over one connection: a line that starts with ">" is sent, one with "<" is the next answer, "end"
// wants the end of what the server sends. {KEY} is the agent's key, {OTHER} another one, {DEAD} a revoked one.
type story struct{ name, text string }

var stories = []story{
	{"flat govern", `
> {"type":"govern","api_key":"{KEY}","agent_id":"a","tool_id":"permit"}
< {` + permit + `
> {"type":"govern","id":7,"api_key":"{KEY}","agent_id":"a","tool_id":"deny"}
< {"id":7,` + deny},
	{"a message without a name is a govern", `
> {"api_key":"{KEY}","agent_id":"a","tool_id":"permit","id":"x"}
< {"id":"x",` + permit},
	{"JSON-RPC govern, after hello the connection goes on", `
> {"jsonrpc":"2.0","id":1,"method":"hello","params":{"protocol":[1,2]}}
< {"jsonrpc":"2.0","id":1,"result":{"ok":true,"protocol":1,"server":"yett/1.2.3","features":["govern-half-close","echo","who","hold","list","wait","broken","nothing","lines",TABLE]}}
> {"jsonrpc":"2.0","id":2,"method":"govern","params":{"api_key":"{KEY}","agent_id":"a","tool_id":"permit"}}
< {"jsonrpc":"2.0","id":2,"result":{` + permit + `}
> {"jsonrpc":"2.0","id":3,"api_key":"{KEY}","method":"govern","params":{"agent_id":"a","tool":"deny"}}
< {"jsonrpc":"2.0","id":3,"result":{` + deny + `}`},
	{"JSON-RPC govern without hello or auth half-closes", `
> {"jsonrpc":"2.0","id":1,"method":"govern","params":{"api_key":"{KEY}","agent_id":"a","tool_id":"permit"}}
< {"jsonrpc":"2.0","id":1,"result":{` + permit + `}
end`},
	{"an error quotes no key", `
> {"type":"callback_subscribe","api_key":"{KEY}","events":["{OTHER}"]}
< {"ok":false,"error":"there is no event \"[YETT_API_KEY]\"; events are decision, defer_created, defer_resolved, defer_expired, grant_added, grant_revoked, grant_consumed, kill, unkill","code":"invalid_field","field":"events"}
> {"jsonrpc":"2.0","id":1,"method":"callback_subscribe","api_key":"{KEY}","params":{"events":["{OTHER}"]}}
< {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"there is no event \"[YETT_API_KEY]\"; events are decision, defer_created, defer_resolved, defer_expired, grant_added, grant_revoked, grant_consumed, kill, unkill","data":{"code":"invalid_field","field":"events"}}}`},
	{"a refused one half-closes too", `
> {"jsonrpc":"2.0","id":1,"method":"govern","params":{"agent_id":"a","tool_id":"permit"}}
< {"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"UNAUTH","data":{"code":"unauthenticated","effect":"DENY","reason_code":"UNAUTHENTICATED"}},"result":{"effect":"DENY","reason_code":"UNAUTHENTICATED","reason":"UNAUTH"}}
end`},
	{"nothing behind a one-shot govern is run", `
>> {"jsonrpc":"2.0","id":1,"method":"govern","params":{"api_key":"{KEY}","agent_id":"a","tool_id":"deny"}}
> {"api_key":"{KEY}","agent_id":"a","tool_id":"permit"}
< {"jsonrpc":"2.0","id":1,"result":{` + deny + `}
end`},
	{"what was asked before it is answered before it", `
>> {"type":"echo","api_key":"{KEY}","say":1}
> {"jsonrpc":"2.0","id":1,"method":"govern","params":{"api_key":"{KEY}","agent_id":"a","tool_id":"deny"}}
< {"said":1}
< {"jsonrpc":"2.0","id":1,"result":{` + deny + `}
end`},
	{"other operations and flat govern do not half-close", `
> {"jsonrpc":"2.0","id":1,"method":"echo","params":{"api_key":"{KEY}","say":1}}
< {"jsonrpc":"2.0","id":1,"result":{"said":1}}
> {"type":"govern","api_key":"{KEY}","agent_id":"a","tool_id":"permit"}
< {` + permit + `
> {"type":"echo","api_key":"{KEY}","say":2}
< {"said":2}`},
	{"ids come back as they were sent", `
> {"type":"auth","api_key":"{KEY}"}
< {"ok":true,"key_id":"?","name":"agent","scopes":["authorize","scan"]}
> {"type":"echo","id":12345678901234567890.10}
< {"id":12345678901234567890.10}
> {"type":"echo","id":"\u00e9 \"x\"","say":1}
< {"id":"\u00e9 \"x\"","said":1}
> {"type":"echo","id":null}
< {"id":null}
> {"jsonrpc":"2.0","method":"echo","id":1e2}
< {"jsonrpc":"2.0","id":1e2,"result":{}}
> {"jsonrpc":"2.0","method":"echo","id":null,"params":{"say":[null]}}
< {"jsonrpc":"2.0","id":null,"result":{"said":[null]}}
> {"type":"echo","id":[1]}
< {"ok":false,"error":"id must be a string, a number or null, not an array","code":"bad_request","field":"id","effect":"DENY","reason_code":"BAD_REQUEST","result":{"effect":"DENY","reason_code":"BAD_REQUEST","reason":"id must be a string, a number or null, not an array"}}`},
	{"hello", `
> {"type":"hello","protocol":[1]}
< {"ok":true,"protocol":1,"server":"yett/1.2.3","features":["govern-half-close","echo","who","hold","list","wait","broken","nothing","lines",TABLE]}
> {"type":"hello","id":1,"protocol":[2,3]}
< {"id":1,"ok":false,"error":"no version in common: this server speaks [1]","code":"no_common_version","field":"protocol","protocol":[1]}
> {"jsonrpc":"2.0","id":1,"method":"hello","params":{"protocol":[]}}
< {"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no version in common: this server speaks [1]","data":{"code":"no_common_version","field":"protocol","protocol":[1]}}}
> {"type":"hello"}
< {"ok":false,"error":"protocol is required: a list of versions, such as [1]","code":"missing_field","field":"protocol"}
> {"type":"hello","protocol":["1"]}
< {"ok":false,"error":"protocol must be a list of numbers; it has a string","code":"invalid_field","field":"protocol"}
> {"type":"hello","protocol":1.0}
< {"ok":true,"protocol":1,"server":"yett/1.2.3","features":["govern-half-close","echo","who","hold","list","wait","broken","nothing","lines",TABLE]}
> {"type":"echo"}
< {"ok":false,"error":"UNAUTH","code":"unauthenticated"}`},
	{"nothing but a key lets in", `
> {"type":"govern","agent_id":"a","tool_id":"permit"}
< {"ok":false,"error":"UNAUTH","code":"unauthenticated","effect":"DENY","reason_code":"UNAUTHENTICATED"}
> {"type":"govern","agent_id":"a","tool_id":"permit","principal_token":"{KEY}"}
< {"ok":false,"error":"UNAUTH","code":"unauthenticated","effect":"DENY","reason_code":"UNAUTHENTICATED"}
> {"type":"echo","api_key":""}
< {"ok":false,"error":"UNAUTH","code":"unauthenticated"}
> {"type":"echo","api_key":"{WRONG}"}
< {"ok":false,"error":"UNAUTH","code":"unauthenticated"}
> {"type":"echo","api_key":7}
< {"ok":false,"error":"api_key must be a string, not a number","code":"bad_request","field":"api_key","effect":"DENY","reason_code":"BAD_REQUEST","result":{"effect":"DENY","reason_code":"BAD_REQUEST","reason":"api_key must be a string, not a number"}}
> {"type":"echo","api_key":null}
< {"ok":false,"error":"UNAUTH","code":"unauthenticated"}
> {"type":"echo","api_key":"{DEAD}"}
< {"ok":false,"error":"REVOKED","code":"key_revoked"}
> {"type":"auth","api_key":"{DEAD}"}
< {"ok":false,"error":"REVOKED","code":"key_revoked"}
> {"type":"auth"}
< {"ok":false,"error":"api_key is required","code":"missing_field","field":"api_key"}
> {"jsonrpc":"2.0","id":1,"method":"echo","api_key":"{KEY}","params":{"api_key":"{OTHER}"}}
< {"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"api_key is there twice, with different values","data":{"code":"bad_request","field":"api_key","effect":"DENY","reason_code":"BAD_REQUEST"}},"result":{"effect":"DENY","reason_code":"BAD_REQUEST","reason":"api_key is there twice, with different values"}}
> {"jsonrpc":"2.0","id":1,"method":"echo","api_key":"{KEY}","params":{"api_key":"{KEY}"}}
< {"jsonrpc":"2.0","id":1,"result":{}}`},
	{"a key in the message counts before auth", `
> {"type":"auth","api_key":"{KEY}"}
< {"ok":true,"key_id":"?","name":"agent","scopes":["authorize","scan"]}
> {"type":"who"}
< WHO agent socket_auth 2
> {"type":"who","api_key":"{OTHER}"}
< WHO other api_key 3
> {"type":"who","api_key":"{WRONG}"}
< {"ok":false,"error":"UNAUTH","code":"unauthenticated"}
> {"type":"who"}
< WHO agent socket_auth 5
> {"type":"auth","api_key":"{OTHER}"}
< {"ok":true,"key_id":"?","name":"other","scopes":["authorize","audit"]}
> {"type":"who"}
< WHO other socket_auth 7
> {"type":"auth","api_key":"{WRONG}"}
< {"ok":false,"error":"UNAUTH","code":"unauthenticated"}
> {"type":"who"}
< {"ok":false,"error":"UNAUTH","code":"unauthenticated"}`},
	{"scopes are the operation's", `
> {"type":"auth","api_key":"{OTHER}"}
< {"ok":true,"key_id":"?","name":"other","scopes":["authorize","audit"]}
> {"type":"scan_output","tool_id":"t","output":"x"}
< {"ok":false,"error":"the key \"other\" lacks scope scan","code":"missing_scope"}
> {"jsonrpc":"2.0","id":1,"method":"approve_defer","params":{"defer_token":"x","approved":true}}
< {"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"the key \"other\" lacks scope approve","data":{"code":"missing_scope"}}}`},
	{"errors are told in the spelling of the message", `
> {"type":"auth","api_key":"{KEY}"}
< {"ok":true,"key_id":"?","name":"agent","scopes":["authorize","scan"]}
> {"jsonrpc":"2.0","id":1,"method":"nope"}
< {"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"NOSUCH","data":{"code":"unknown_operation","field":"method","effect":"DENY","reason_code":"UNKNOWN_OPERATION"}},"result":{"effect":"DENY","reason_code":"UNKNOWN_OPERATION","reason":"NOSUCH"}}
> {"type":"authorize","agent_id":"a","tool_id":"permit"}
< {"ok":false,"error":"NOSUCH","code":"unknown_operation","field":"type","effect":"DENY","reason_code":"UNKNOWN_OPERATION"}
> {"jsonrpc":"2.0","id":2,"method":"govern","params":{"tool_id":"permit"}}
< {"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"agent_id is required","data":{"code":"missing_field","field":"agent_id","effect":"DENY","reason_code":"MISSING_FIELD"}},"result":{"effect":"DENY","reason_code":"MISSING_FIELD","reason":"agent_id is required"}}
> {"type":"govern","tool_id":"permit","agent_id":7}
< {"ok":false,"error":"agent_id must be a string, not a number","code":"invalid_field","field":"agent_id","effect":"DENY","reason_code":"INVALID_FIELD"}
> {"jsonrpc":"2.0","id":2,"method":"poll_defer","params":[]}
< {"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"params must be an object, not an array","data":{"code":"invalid_field","field":"params"}}}
> {"jsonrpc":"2.0","id":2,"method":"govern","params":[]}
< {"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"params must be an object, not an array","data":{"code":"invalid_field","field":"params","effect":"DENY","reason_code":"INVALID_FIELD"}},"result":{"effect":"DENY","reason_code":"INVALID_FIELD","reason":"params must be an object, not an array"}}
> {"jsonrpc":"2.0","id":2,"method":"govern","type":"echo"}
< {"jsonrpc":"2.0","id":2,"error":{"code":-32600,"message":"a message has type or method, not both","data":{"code":"bad_request","field":"type","effect":"DENY","reason_code":"BAD_REQUEST"}},"result":{"effect":"DENY","reason_code":"BAD_REQUEST","reason":"a message has type or method, not both"}}
> {"jsonrpc":"1.0","id":2,"method":"echo"}
< RPCREQ 2 jsonrpc jsonrpc must be \"2.0\"
> {"id":2,"method":"echo"}
< RPCREQ 2 jsonrpc jsonrpc must be \"2.0\"
> {"jsonrpc":"2.0","id":2,"params":{"agent_id":"a","tool_id":"permit"}}
< RPCREQ 2 method method must be a string, not nothing
> {"jsonrpc":"2.0","id":2,"result":{"effect":"PERMIT"}}
< RPCREQ 2 method method must be a string, not nothing
> {"jsonrpc":"2.0","id":{},"method":"echo"}
< RPCREQ null id id must be a string, a number or null, not an object
> [{"jsonrpc":"2.0","id":1,"method":"echo"}]
< RPCREQ null - batches are not served: send one message a line
> {"type":"echo","type":"govern"}
< PARSE invalid JSON at byte 15: a member name is there twice
> {"type":"echo"} x
< PARSE invalid JSON at byte 16: data after the end of the value
> {"type":"govern","agent_id":"a","args":{"n":NaN}}
< PARSE invalid JSON at byte 44: unexpected character
> {"jsonrpc": "2.0", "id": 1, "method": "govern", "params": {"args": {"n": NaN}}}
< {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"invalid JSON at byte 73: unexpected character","data":{"code":"invalid_json","effect":"DENY","reason_code":"INVALID_JSON"}},"result":{"effect":"DENY","reason_code":"INVALID_JSON","reason":"invalid JSON at byte 73: unexpected character"}}
> "govern"
< {"ok":false,"error":"a message must be a JSON object, not a string","code":"bad_request","effect":"DENY","reason_code":"BAD_REQUEST","result":{"effect":"DENY","reason_code":"BAD_REQUEST","reason":"a message must be a JSON object, not a string"}}
> {"type":null,"agent_id":"a","tool_id":"permit"}
< {"ok":false,"error":"type must be a string, not null","code":"bad_request","field":"type","effect":"DENY","reason_code":"BAD_REQUEST","result":{"effect":"DENY","reason_code":"BAD_REQUEST","reason":"type must be a string, not null"}}
> {"type":"broken"}
< {"ok":false,"error":"Internal error.","code":"internal","effect":"DENY","reason_code":"INTERNAL"}
> {"jsonrpc":"2.0","id":1,"method":"nothing"}
< {"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"Internal error.","data":{"code":"internal","effect":"DENY","reason_code":"INTERNAL"}},"result":{"effect":"DENY","reason_code":"INTERNAL","reason":"Internal error."}}`},
	{"blank lines say nothing, carriage returns are space", "\n> \n> \t \r\n> {\"type\":\"echo\",\"api_key\":\"{KEY}\",\"say\":1}\r\n< {\"said\":1}"},
	{"a notification is run and not answered", `
>> {"type":"auth","api_key":"{KEY}"}
>> {"jsonrpc":"2.0","method":"echo","params":{"say":1}}
>> {"jsonrpc":"2.0","method":"nope"}
>> {"jsonrpc":"2.0","method":"govern","params":{"agent_id":"a","tool_id":"permit"}}
>> {"jsonrpc":"2.0","method":"auth","params":{"api_key":"{OTHER}"}}
> {"type":"who"}
< {"ok":true,"key_id":"?","name":"agent","scopes":["authorize","scan"]}
< WHO other socket_auth 6
> {"jsonrpc":"2.0","method":"lines"}
< {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"a subscription needs an id","data":{"code":"bad_request","field":"id"}}}`},
	{"scan_output and poll_defer as over HTTP", `
> {"type":"auth","api_key":"{KEY}"}
< {"ok":true,"key_id":"?","name":"agent","scopes":["authorize","scan"]}
> {"type":"scan_output","id":1,"tool_id":"t","output":"é"}
< {"id":1,"outcome":"PASS","sanitized_output":"é","reason_code":"SCAN_OK","findings":[],"scanned_by":SCANNED
> {"type":"poll_defer","agent_id":"a","defer_token":"dfr_none"}
< {"defer_token":"?","status":"unknown"POLL
> {"jsonrpc":"2.0","id":1,"method":"poll_defer","params":{"defer_token":"dfr_none"}}
< {"jsonrpc":"2.0","id":1,"result":{"defer_token":"?","status":"unknown"POLL`},
}

// expand writes out the short forms of a story.
func expand(line, fullAnswer string, op func() string) string {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "RPCREQ":
		id, rest, _ := strings.Cut(rest, " ")
		field, msg, _ := strings.Cut(rest, " ")
		if field == "-" {
			field = ""
		} else {
			field = `"field":"` + field + `",`
		}
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32600,"message":"%s","data":{"code":"bad_request",%s"effect":"DENY","reason_code":"BAD_REQUEST"}},"result":{"effect":"DENY","reason_code":"BAD_REQUEST","reason":"%s"}}`, id, msg, field, msg)
	case "PARSE":
		return fmt.Sprintf(`{"ok":false,"error":"%s","code":"invalid_json","effect":"DENY","reason_code":"INVALID_JSON","result":{"effect":"DENY","reason_code":"INVALID_JSON","reason":"%s"}}`, rest, rest)
	case "WHO":
		var key, method, n string
		_, _ = fmt.Sscan(rest, &key, &method, &n)
		return fmt.Sprintf(`{"key":"%s","method":"%s","surface":"socket","principal":"PRINCIPAL","peer":"uid:%d,pid:%d","request_id":"soc_1-%s"}`, key, method, os.Geteuid(), os.Getpid(), n)
	}
	// What comes from the operations is compared up to where their own tests begin.
	for _, cut := range []string{"SCANNED", "POLL"} {
		if head, _, found := strings.Cut(line, cut); found && strings.HasPrefix(fullAnswer, head) {
			return fullAnswer
		}
	}
	return strings.ReplaceAll(line, "TABLE", op())
}

var principal = regexp.MustCompile(`"principal":"[0-9A-Za-z]{12}"`)

// otherThan is a letter that is not this one.
func otherThan(letter byte) string {
	if letter == 'x' {
		return "y"
	}
	return "x"
}

func TestStories(t *testing.T) {
	r := newRig(t, nil)
	agent, other, dead := r.key("agent", "authorize", "scan"), r.key("other", "authorize", "audit"),
		r.key("dead", "authorize")
	if err := r.revoke(dead.Key.ID); err != nil {
		t.Fatal(err)
	}
	wrong := agent.Value[:20] + otherThan(agent.Value[20]) + agent.Value[21:]
	words := strings.NewReplacer("{KEY}", agent.Value, "{OTHER}", other.Value, "{DEAD}", dead.Value, "{WRONG}", wrong)
	unauth := strings.Trim(quoted(unauthenticated().Msg), `"`)
	_, deadErr := r.svc.KeyOf(dead.Value)
	short := strings.NewReplacer("UNAUTH\"", unauth+"\"", "REVOKED\"", strings.Trim(quoted(shown(deadErr).Msg), `"`)+"\"",
		"NOSUCH\"", "there is no such operation on the socket; there are "+r.s.names+"hello auth\"")
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			c := r.dial()
			c.t = t
			pending := ""
			for _, line := range strings.Split(strings.TrimPrefix(s.text, "\n"), "\n") {
				switch rest, kind := line[min(2, len(line)):], strings.TrimRight(line[:min(2, len(line))], " "); kind {
				case ">>":
					pending += words.Replace(strings.TrimPrefix(rest, " ")) + "\n"
				case ">":
					c.write(pending + words.Replace(rest) + "\n")
					pending = ""
				case "<":
					got := principal.ReplaceAllString(steady(c.line()), `"principal":"PRINCIPAL"`)
					if want := expand(short.Replace(rest), got, r.tableNames); got != want {
						t.Fatalf("got\n%s\nwant\n%s", got, want)
					}
				case "en":
					c.end()
				default:
					t.Fatalf("no such step: %q", line)
				}
			}
		})
	}
}

// TestEveryAnswerIsOneWrite reads as one-shot clients do: once, 64 KiB.
func TestEveryAnswerIsOneWrite(t *testing.T) {
	r := newRig(t, nil)
	key := r.key("agent", "authorize").Value
	for range 200 {
		c := r.dial()
		c.write(`{"jsonrpc": "2.0", "id": 1, "method": "govern", "params": {"agent_id": "a", "tool": "defer", "tool_id": "defer", "args": {}, "action_type": "", "api_key": "` + key + `"}}` + "\n")
		buf := make([]byte, 64<<10)
		n, err := c.Read(buf)
		if err != nil || !strings.HasSuffix(string(buf[:n]), "}}\n") ||
			!strings.Contains(string(buf[:n]), `"effect":"DEFER"`) {
			t.Fatalf("one read gives %q, %v", buf[:n], err)
		}
		if n, err := c.Read(buf); err != io.EOF {
			t.Fatalf("no end behind it: %d %v", n, err)
		}
		c.Close()
	}
}
