package guardrails_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/testkit/doortest"
)

// lite is a request of LiteLLM's proxy with these members.
func lite(kind, members string) string {
	return `{"input_type":"` + kind + `","litellm_call_id":"c","litellm_trace_id":null,"request_data":{},` + members +
		`,"litellm_version":"1.106.2","request_headers":{"authorization":"[present]"},"model":"m"}`
}

// toolCall is a call as LiteLLM sends it.
func toolCall(name, args string) string {
	return `[{"id":"call_1","type":"function","index":0,"function":{"name":"` + name + `","arguments":` + quote(args) + `}}]`
}

func TestLiteLLMShapes(t *testing.T) {
	const blocked = `{"action":"BLOCKED","blocked_reason":"Yett refused this: `
	r := open(t, nil)
	shapes(t, r, liteLLM, [][3]string{
		{"a request", lite("request", `"texts":["hello","world"]`), `{"action":"NONE"}`},
		{"a response", lite("response", `"texts":["hello","world"]`),
			`{"action":"NONE","stream_holdback_chars":[1073741824,1073741824]}`},
		{"nulls", lite("request", `"texts":null,"images":null,"tools":null,"tool_calls":null,"structured_messages":null`),
			`{"action":"NONE"}`},
		{"redacted", lite("request", `"texts":["a","b S3CR3T c","d"]`),
			`{"action":"GUARDRAIL_INTERVENED","texts":["a","b [hidden] c","d"]}`},
		{"redacted response", lite("response", `"texts":["","S3CR3T"]`),
			`{"action":"GUARDRAIL_INTERVENED","texts":["","[hidden]"],"stream_holdback_chars":[1073741824,1073741824]}`},
		{"flagged", lite("request", `"texts":["FL4GG3D"]`), `{"action":"NONE"}`},
		{"denied", lite("request", `"texts":["a","F0RB1D"]`), blocked +
			`FORBIDDEN found by words (OUTPUT_FORBIDDEN)."}`},
		{"a permitted call", lite("response", `"texts":[],"tool_calls":`+toolCall("read", `{"n":1.0}`)), `{"action":"NONE"}`},
		{"a denied call", lite("response", `"texts":["x"],"tool_calls":`+toolCall("deny", `{}`)), blocked +
			`by the name of the tool (NAME)."}`},
		{"an undecided call", lite("response", `"texts":["x"],"tool_calls":`+toolCall("fails", `{}`)), blocked +
			`step names did not run to its end: the rule cannot decide (STEP_ERROR)."}`},
		{"a deferred call", lite("response", `"texts":["x"],"tool_calls":`+toolCall("defer", `{}`)), blocked +
			`the call of defer waits for approval (NAME). Ask for approval at ` + console +
			`/approvals/dec_1 and send the request again."}`},
		{"a call that would change", lite("response", `"texts":["x"],"tool_calls":`+toolCall("read", `{"k":"S3CR3T"}`)),
			blocked + `something is to be redacted in the arguments of a call of read, and this gateway takes no change of ` +
				`it (OUTPUT_SECRET)."}`},
		{"calls in the history", lite("request", `"texts":["x"],"tool_calls":`+toolCall("deny", `{}`)+
			`,"structured_messages":[{"role":"user","content":"x"}]`), `{"action":"NONE"}`},
		{"a call in a request without messages", lite("request", `"texts":["x"],"tool_calls":`+toolCall("deny", `{}`)),
			blocked + `by the name of the tool (NAME)."}`},
		{"a history that would change", lite("request", `"texts":["x"],"tool_calls":`+toolCall("read", `{"k":"S3CR3T"}`)+
			`,"structured_messages":[{"role":"user","content":"x"}]`), blocked + `something is to be redacted in the arguments ` +
			`of a call of read, and this gateway takes no change of it (OUTPUT_SECRET)."}`},
		{"texts of the messages are texts", lite("request", `"texts":["a S3CR3T"],"structured_messages":`+
			`[{"role":"user","content":[{"type":"text","text":"a S3CR3T"}]}]`),
			`{"action":"GUARDRAIL_INTERVENED","texts":["a [hidden]"]}`},
		{"more in the messages", lite("request", `"texts":["a"],"structured_messages":[{"role":"user","name":"S3CR3T"}]`),
			blocked + `something is to be redacted in a member of the messages that is not among the texts, and this gateway ` +
				`takes no change of it (OUTPUT_SECRET)."}`},
		{"more in the messages is denied", lite("request", `"texts":["a"],"structured_messages":[{"F0RB1D":1}]`), blocked +
			`FORBIDDEN found by words (OUTPUT_FORBIDDEN)."}`},
		{"tools", lite("request", `"texts":["a"],"tools":[{"type":"function","function":{"name":"f","description":"S3CR3T",`+
			`"parameters":{"n":1.50}}}]`), `{"action":"GUARDRAIL_INTERVENED","texts":["a"],"tools":[{"type":"function",` +
			`"function":{"name":"f","description":"[hidden]","parameters":{"n":1.50}}}]}`},
		{"an image", lite("request", `"texts":["a"],"images":["https://example.com/a.png"]`), blocked +
			`no scanner can look at a part of type image (doors.litellm.unscanned) (UNSCANNABLE)."}`},
		{"sound", lite("request", `"texts":["a"],"structured_messages":[{"role":"user","content":[{"type":"input_audio",`+
			`"input_audio":{"data":"QQ=="}}]}]`), blocked +
			`no scanner can look at a part of type input_audio (doors.litellm.unscanned) (UNSCANNABLE)."}`},
	})
	const ours = `{"action":"BLOCKED","blocked_reason":"Yett could not decide, so this is refused: `
	shapes(t, r, liteLLM, [][3]string{
		{"another input_type", lite("result", `"texts":["a"]`), ours +
			`input_type must be \"request\" or \"response\" (invalid_field)."}`},
		{"texts of another kind", lite("request", `"texts":["a",7]`), ours +
			`texts must be a list of strings, not a number (invalid_field)."}`},
		{"texts are no list", lite("request", `"texts":"a"`), ours + `texts must be a list, not a string (invalid_field)."}`},
		{"messages are no list", lite("request", `"texts":["a"],"structured_messages":{}`), ours +
			`structured_messages must be a list, not an object (invalid_field)."}`},
		{"a call of no function", lite("response", `"texts":["a"],"tool_calls":[{"type":"custom"}]`), ours +
			`tool_calls has a call that is not one of a function (invalid_field)."}`},
		{"a call without a name", lite("response", `"tool_calls":[{"function":{"name":null,"arguments":"{}"}}]`), ours +
			`tool_calls has a call without the name of its function (invalid_field)."}`},
		{"arguments that are no object", lite("response", `"tool_calls":`+toolCall("read", `[1]`)), ours +
			`the arguments of a call in tool_calls must be an object, not an array (invalid_field)."}`},
		{"half of the arguments", lite("response", `"tool_calls":`+toolCall("read", `{"a":`)), ours +
			`the arguments of a call in tool_calls are no JSON: invalid JSON at byte 5: unexpected end of text ` +
			`(invalid_field)."}`},
	})
}

// The bytes of the arguments are what is decided.
func TestArgumentsKeepTheirBytes(t *testing.T) {
	r := open(t, nil, "doors.litellm.tool_prefix=chat.")
	for _, args := range []string{`{"n": 12345678901234567890.10, "e":1e2}`, ``, ` {} `} {
		if got := r.post(liteLLM, lite("response", `"tool_calls":`+toolCall("read", args))); got != `200 {"action":"NONE"}` {
			t.Errorf("%s: %s", args, got)
		}
	}
	if got := fmt.Sprint(r.Calls()); got != `[chat.read {"e":100,"n":12345678901234567890.1} chat.read {} chat.read {}]` {
		t.Errorf("decided: %s", got)
	}
}

// An approval lets the same call pass once.
func TestApprovedCallPassesOnce(t *testing.T) {
	r := open(t, nil)
	body := lite("response", `"texts":["x"],"tool_calls":`+toolCall("defer", `{"a":1}`))
	if got := r.post(liteLLM, body); !strings.Contains(got, "waits for approval") {
		t.Fatal(got)
	}
	if n := r.AnswerPending(true); n != 1 {
		t.Fatalf("%d calls wait", n)
	}
	another := lite("response", `"texts":["x"],"tool_calls":`+toolCall("defer", `{"a":2}`))
	if got := r.post(liteLLM, another); strings.Contains(got, "NONE") {
		t.Errorf("another call passes: %s", got)
	}
	if got := r.post(liteLLM, body); !strings.Contains(got, `"NONE"`) {
		t.Errorf("the approved call: %s", got)
	}
	if got := r.post(liteLLM, body); strings.Contains(got, `"NONE"`) {
		t.Errorf("it passes twice: %s", got)
	}
}

// Texts keep their number and order, however many there are; too many are refused, and none is skipped.
func TestManyTexts(t *testing.T) {
	r := open(t, nil)
	for n, want := range map[int]bool{1: true, 255: true, 256: true, 257: true, 600: true, 4096: true, 4097: false} {
		texts := make([]string, n)
		for i := range texts {
			texts[i] = fmt.Sprintf("%d %s", i, doortest.Secret)
		}
		raw, err := json.Marshal(texts)
		if err != nil {
			t.Fatal(err)
		}
		answer := r.post(liteLLM, lite("request", `"texts":`+string(raw)))
		var got struct {
			Action string
			Texts  []string
		}
		if err := json.Unmarshal([]byte(answer[4:]), &got); err != nil {
			t.Fatal(err)
		}
		if !want {
			if got.Action != "BLOCKED" || got.Texts != nil {
				t.Errorf("%d texts: %.200s", n, answer)
			}
			continue
		}
		if got.Action != "GUARDRAIL_INTERVENED" || len(got.Texts) != n {
			t.Fatalf("%d texts: %s with %d", n, got.Action, len(got.Texts))
		}
		for i, s := range got.Texts {
			if s != fmt.Sprintf("%d %s", i, doortest.Mask) {
				t.Fatalf("%d texts: the one at %d is %q", n, i, s)
			}
		}
	}
	for _, at := range []int{0, 256, 511, 599} {
		texts := make([]string, 600)
		texts[at] = doortest.Forbidden
		raw, err := json.Marshal(texts)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.post(liteLLM, lite("request", `"texts":`+string(raw))); !strings.Contains(got, "BLOCKED") {
			t.Errorf("a denied text at %d: %.200s", at, got)
		}
	}
}

// The settings that open the door wider do that and no more.
func TestLiteLLMSettings(t *testing.T) {
	r := open(t, nil, "doors.litellm.tool_calls=scan", "doors.litellm.unscanned=pass", "doors.litellm.stream_holdback=20")
	shapes(t, r, liteLLM, [][3]string{
		{"a call", lite("response", `"texts":["x"],"tool_calls":`+toolCall("deny", `{}`)),
			`{"action":"NONE","stream_holdback_chars":[20]}`},
		{"an image", lite("request", `"texts":["x"],"images":["data:image/png;base64,QQ=="],"structured_messages":[{"role":`+
			`"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,QQ=="}}]}]`), `{"action":"NONE"}`},
	})
	for name, body := range map[string]string{
		"arguments":          lite("response", `"tool_calls":`+toolCall("read", `{"k":"F0RB1D"}`)),
		"a link to an image": lite("request", `"texts":["x"],"images":["https://example.com/F0RB1D"]`),
		"text beside an image": lite("request", `"texts":["x"],"images":["data:,"],"structured_messages":[{"content":[`+
			`{"type":"text","text":"F0RB1D"}]}]`),
	} {
		if got := r.post(liteLLM, body); !strings.Contains(got, `"BLOCKED"`) {
			t.Errorf("%s: %s", name, got)
		}
	}
}
