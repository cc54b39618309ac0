package guardrails_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/doors/ask"
	"github.com/yett-dev/yett/core/doors/guardrails"
	"github.com/yett-dev/yett/core/testkit/doortest"
	"github.com/yett-dev/yett/sdk/wire"
)

// hook is what Portkey sends.
func hook(event, member, value string) string {
	return `{"eventType":"` + event + `","provider":"openai","requestType":"chatComplete","metadata":{},"` + member +
		`":{"text":"ignored","json":` + value + `}}`
}

func TestPortkeyShapes(t *testing.T) {
	const no = `{"verdict":false,"data":{"reason_code":`
	const yes = `{"verdict":true,"data":{"reason_code":"SCAN_OK","explanation":"Nothing was found that must not pass."}}`
	before := func(v string) string { return hook("beforeRequestHook", "request", v) }
	after := func(v string) string { return hook("afterRequestHook", "response", v) }
	answer := func(call string) string {
		return after(`{"choices":[{"message":{"role":"assistant","content":null,"tool_calls":` + call + `}}]}`)
	}
	r := open(t, nil)
	shapes(t, r, portkey, [][3]string{
		{"a request", before(`{"messages":[{"role":"user","content":"hi"}],"n":1.0}`), yes},
		{"a response", after(`{"choices":[{"message":{"content":"hi"}}]}`), yes},
		{"to be redacted", before(`{"messages":[{"content":"S3CR3T"}]}`), no + `"OUTPUT_SECRET","explanation":"Yett refused ` +
			`this: something is to be redacted, and doors.portkey.redacted is block (OUTPUT_SECRET)."}}`},
		{"denied", before(`{"messages":[{"content":"F0RB1D"}]}`), no + `"OUTPUT_FORBIDDEN","explanation":"Yett refused this: ` +
			`FORBIDDEN found by words (OUTPUT_FORBIDDEN)."}}`},
		{"a denied call", answer(toolCall("deny", `{}`)), no + `"NAME","explanation":"Yett refused this: by the name of the ` +
			`tool (NAME)."}}`},
		{"a permitted call", answer(toolCall("read", `{}`)), yes},
		{"a deferred call", answer(toolCall("defer", `{}`)), no + `"NAME","explanation":"Yett refused this: the call of ` +
			`defer waits for approval (NAME). Ask for approval at ` + console + `/approvals/dec_1 and send the request again."}}`},
		{"an old call", after(`{"choices":[{"message":{"function_call":{"name":"deny","arguments":"{}"}}}]}`),
			no + `"NAME","explanation":"Yett refused this: by the name of the tool (NAME)."}}`},
		{"a call of the responses API", after(`{"output":[{"type":"function_call","name":"deny","arguments":"{}"}]}`),
			no + `"NAME","explanation":"Yett refused this: by the name of the tool (NAME)."}}`},
		{"a call of Anthropic", after(`{"content":[{"type":"text","text":"x"},{"type":"tool_use","name":"deny","input":{}}]}`),
			no + `"NAME","explanation":"Yett refused this: by the name of the tool (NAME)."}}`},
		{"a call in a request", before(`{"messages":[{"role":"assistant","tool_calls":` + toolCall("deny", `{}`) + `}]}`), yes},
		{"an image", before(`{"messages":[{"content":[{"type":"image_url","image_url":{"url":"data:,"}}]}]}`),
			no + `"UNSCANNABLE","explanation":"Yett refused this: no scanner can look at a part of type image_url ` +
				`(doors.portkey.unscanned) (UNSCANNABLE)."}}`},
		{"a stream", before(`{"stream":true,"messages":[]}`), no + `"STREAM","explanation":"Yett refused this: Portkey asks ` +
			`about a streamed answer when the client has it: ask without stream (doors.portkey.streams) (STREAM)."}}`},
		{"no stream", before(`{"stream":false,"messages":[]}`), yes},
		{"sound", after(`{"choices":[{"message":{"audio":{"data":"QQ=="}}}]}`), no + `"UNSCANNABLE","explanation":"Yett ` +
			`refused this: no scanner can look at a part of type audio (doors.portkey.unscanned) (UNSCANNABLE)."}}`},
		{"a file of Gemini", before(`{"contents":[{"parts":[{"inlineData":{"data":"QQ=="}}]}]}`), no + `"UNSCANNABLE",` +
			`"explanation":"Yett refused this: no scanner can look at a part of type inlineData (doors.portkey.unscanned) ` +
			`(UNSCANNABLE)."}}`},
		{"another event", hook("afterHook", "response", `{}`), no + `"invalid_field","explanation":"Yett could not decide, so ` +
			`this is refused: eventType must be beforeRequestHook or afterRequestHook (invalid_field)."}}`},
		{"no JSON to look at", after(`null`), no + `"invalid_field","explanation":"Yett could not decide, so this is refused: ` +
			`response.json must be an object, not null (invalid_field)."}}`},
	})
	r = open(t, nil, "doors.portkey.redacted=pass", "doors.portkey.streams=pass")
	shapes(t, r, portkey, [][3]string{
		{"a stream", before(`{"stream":true,"messages":[]}`), yes},
		{"redacted", before(`{"messages":[{"content":"S3CR3T"}],"n":1.0}`), `{"verdict":true,"data":{"reason_code":` +
			`"OUTPUT_SECRET","explanation":"The text was redacted."},"transformedData":{"request":{"json":{"messages":` +
			`[{"content":"[hidden]"}],"n":1.0}}}}`},
		{"redacted response", after(`{"choices":[{"message":{"content":"S3CR3T"}}]}`), `{"verdict":true,"data":{"reason_code"` +
			`:"OUTPUT_SECRET","explanation":"The text was redacted."},"transformedData":{"response":{"json":{"choices":` +
			`[{"message":{"content":"[hidden]"}}]}}}}`},
		{"arguments are not redacted", answer(toolCall("read", `{"k":"S3CR3T"}`)), no + `"OUTPUT_SECRET","explanation":"Yett ` +
			`refused this: something is to be redacted in the arguments of a call of read, and this gateway takes no change ` +
			`of it (OUTPUT_SECRET)."}}`},
	})
}

// slow answers late.
type slow struct{ guardrails.Asker }

// Scan implements guardrails.Asker.
func (s slow) Scan(ctx context.Context, c ask.Caller, q *wire.ScanRequest) (*wire.ScanResponse, error) {
	whole, err := s.Asker.Scan(ctx, c, q)
	<-ctx.Done()
	return whole, err
}

// Portkey lets pass what takes too long, so the door answers first, and an answer that is late counts for nothing.
func TestPortkeyIsNeverLate(t *testing.T) {
	r := open(t, func(a guardrails.Asker) guardrails.Asker { return slow{a} }, "doors.portkey.timeout=200ms")
	began := time.Now()
	if got := r.post(portkey, bodies[portkey]("hello")); !strings.Contains(got, `"verdict":false`) ||
		!strings.Contains(got, "timeout") || time.Since(began) > 5*time.Second {
		t.Errorf("%s after %s", got, time.Since(began))
	}
}

func TestAgentgatewayShapes(t *testing.T) {
	const passes = `{"action":{"reason":"Nothing was found that must not pass."}}`
	reject := func(status int, why string) string {
		return fmt.Sprintf(`{"action":{"body":%s,"status_code":%d,"reason":%[1]s},"messages":0}`, quote(why), status)
	}
	const ours = "Yett could not decide, so this is refused: "
	r := open(t, nil)
	shapes(t, r, agRequest, [][3]string{
		{"pass", bodies[agRequest]("hi"), passes},
		{"nothing", `{"body":{"messages":[]}}`, passes},
		{"mask", `{"body":{"messages":[{"role":"system","content":"a"},{"role":"user","content":"S3CR3T"}]}}`,
			`{"action":{"body":{"messages":[{"role":"system","content":"a"},{"role":"user","content":"[hidden]"}]},` +
				`"reason":"The text was redacted."}}`},
		{"reject", bodies[agRequest]("F0RB1D"), reject(403,
			"Yett refused this: FORBIDDEN found by words (OUTPUT_FORBIDDEN).")},
		{"raw messages", `{"messages":[{"role":"user","content":"a"}],"model":"m"}`, reject(503, ours+
			"body is missing: expected an object (missing_field).")},
		{"a body with more", `{"body":{"messages":[],"more":"F0RB1D"}}`, reject(503, ours+
			"body has a member that this door does not know: expected messages (invalid_field).")},
		{"a message with more", `{"body":{"messages":[{"role":"user","content":"a","name":"F0RB1D"}]}}`, reject(503, ours+
			"body.messages has a member that this door does not know: expected role, content (invalid_field).")},
		{"parts", `{"body":{"messages":[{"role":"user","content":[]}]}}`, reject(503, ours+
			"body.messages content must be a string, not an array (invalid_field).")},
		{"a long role", `{"body":{"messages":[{"role":"` + strings.Repeat("x", 33) + `","content":"a"}]}}`, reject(503, ours+
			"body.messages has a message without a role (invalid_field).")},
		{"choices", bodies[agAnswer]("hi"), reject(503, ours+"body.messages is missing: expected a list (missing_field).")},
	})
	shapes(t, r, agAnswer, [][3]string{
		{"pass", bodies[agAnswer]("hi"), passes},
		{"mask", `{"body":{"choices":[{"message":{"role":"assistant","content":"S3CR3T"}},{"message":{"role":"assistant",` +
			`"content":"b"}}]}}`, `{"action":{"body":{"choices":[{"message":{"role":"assistant","content":"[hidden]"}},` +
			`{"message":{"role":"assistant","content":"b"}}]},"reason":"The text was redacted."}}`},
		{"reject", bodies[agAnswer]("F0RB1D"), reject(403,
			"Yett refused this: FORBIDDEN found by words (OUTPUT_FORBIDDEN).")},
		{"no message", `{"body":{"choices":[{}]}}`, reject(503, ours+
			"body.choices is missing: expected a list of objects (missing_field).")},
	})
	r = open(t, nil, "doors.agentgateway.agent_header=x-agent-id")
	if got := r.send(agRequest, bodies[agRequest]("hi"), "Authorization", "Bearer "+r.key, "X-Agent-Id", "a", "X-Agent-Id",
		"b"); !strings.Contains(got, "send one") {
		t.Errorf("two agents: %s", got)
	}
}

// categories is a result with OpenAI's names and one more.
func categories(flagged bool, kind string, score string) string {
	var cats, scores, types strings.Builder
	for _, name := range []string{"harassment", "harassment/threatening", "hate", "hate/threatening", "illicit",
		"illicit/violent", "self-harm", "self-harm/instructions", "self-harm/intent", "sexual", "sexual/minors", "violence",
		"violence/graphic"} {
		fmt.Fprintf(&cats, "%q:false,", name)
		fmt.Fprintf(&scores, "%q:0,", name)
		fmt.Fprintf(&types, "%q:[],", name)
	}
	if kind != "" {
		fmt.Fprintf(&cats, "%q:true,", kind)
		fmt.Fprintf(&scores, "%q:%s,", kind, score)
		fmt.Fprintf(&types, "%q:[\"text\"],", kind)
	}
	cut := func(b *strings.Builder) string { return "{" + strings.TrimSuffix(b.String(), ",") + "}" }
	return fmt.Sprintf(`{"flagged":%t,"categories":%s,"category_scores":%s,"category_applied_input_types":%s}`, flagged,
		cut(&cats), cut(&scores), cut(&types))
}

func TestModerationShapes(t *testing.T) {
	whole := func(results ...string) string {
		return `{"id":"modr-req_1","model":"yett-scan","results":[` + strings.Join(results, ",") + `]}`
	}
	clean := categories(false, "", "")
	r := open(t, nil)
	shapes(t, r, moderate, [][3]string{
		{"a string", `{"input":"hi","model":"omni-moderation-latest"}`, whole(clean)},
		{"an empty string", `{"input":""}`, whole(clean)},
		{"strings", `{"input":["a","b S3CR3T","","F0RB1D"]}`, whole(clean, categories(true, "SECRET", "1"), clean,
			strings.NewReplacer(`"FORBIDDEN":true`, `"FORBIDDEN":true,"OUTPUT_FORBIDDEN":true`, `"FORBIDDEN":1`,
				`"FORBIDDEN":1,"OUTPUT_FORBIDDEN":1`, `"FORBIDDEN":["text"]`,
				`"FORBIDDEN":["text"],"OUTPUT_FORBIDDEN":["text"]`).Replace(categories(true, "FORBIDDEN", "1")))},
		{"flagged", `{"input":"FL4GG3D"}`, whole(categories(true, "FLAGGED", "1"))},
		{"parts", `{"input":[{"type":"text","text":"a"},{"type":"text","text":"S3CR3T"}]}`,
			whole(categories(true, "SECRET", "1"))},
		{"a late scanner", `{"input":"L4T3"}`, whole(categories(true, "SCAN_UNAVAILABLE", "1"))},
	})
	for body, want := range map[string]string{
		`{"input":[]}`:   "input must be a string",
		`{"input":null}`: "input must be a string",
		`{"input":[1]}`:  "no text",
		`{"input":["a",{"type":"text","text":"b"}]}`:                                       "mixes",
		`{"input":[{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]}`: "nothing here looks at images",
	} {
		got := r.post(moderate, body)
		if !strings.HasPrefix(got, `400 {"error":{"message":"Yett could not decide, so `) ||
			!strings.Contains(got, want) ||
			!strings.HasSuffix(got, `"type":"invalid_request_error","param":"input","code":"invalid_field"}}`) {
			t.Errorf("%s: %s", body, got)
		}
	}
	texts := strings.TrimSuffix(strings.Repeat(`"x",`, 300), ",")
	got := r.post(moderate, `{"input":[`+texts+`,"`+doortest.Secret+`"]}`)
	if strings.Count(got, `"flagged":false`) != 300 || !strings.Contains(got, `"flagged":true`) {
		t.Errorf("many: %.200s", got)
	}
}
