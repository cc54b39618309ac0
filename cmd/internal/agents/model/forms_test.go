package model

import (
	"bufio"
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// argumentsIn puts the arguments of the first call together from an answer, as a client does.
func argumentsIn(t *testing.T, f Form, stream bool, answer []byte) string {
	t.Helper()
	if !stream {
		answer = append([]byte("data: "), answer...)
	}
	var out strings.Builder
	lines := bufio.NewScanner(bytes.NewReader(answer))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		raw, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok || raw == "[DONE]" {
			continue
		}
		out.WriteString(argumentsOf(t, f, stream, raw))
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func argumentsOf(t *testing.T, f Form, stream bool, raw string) string {
	t.Helper()
	type calls = []struct {
		Function struct{ Arguments string }
	}
	var e struct {
		Type    string
		Content []struct{ Input json.RawMessage }
		Output  []struct{ Arguments string }
		Delta   json.RawMessage
		Choices []struct {
			Delta, Message struct {
				ToolCalls calls `json:"tool_calls"`
			}
		}
		Candidates []struct {
			Content struct {
				Parts []struct {
					FunctionCall *struct{ Args json.RawMessage }
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(raw), &e); err != nil {
		t.Fatalf("an event is not JSON: %v\n%.300s", err, raw)
	}
	switch {
	case f == Messages && !stream:
		return string(e.Content[0].Input)
	case f == Messages:
		var d struct {
			JSON string `json:"partial_json"`
		}
		if len(e.Delta) > 0 && json.Unmarshal(e.Delta, &d) != nil {
			t.Fatalf("unreadable delta %s", e.Delta)
		}
		return d.JSON
	case f == Responses && !stream:
		return e.Output[0].Arguments
	case f == Responses && e.Type == "response.function_call_arguments.delta":
		var d string
		if err := json.Unmarshal(e.Delta, &d); err != nil {
			t.Fatal(err)
		}
		return d
	case f == Chat && len(e.Choices) > 0:
		out := ""
		for _, c := range append(e.Choices[0].Delta.ToolCalls, e.Choices[0].Message.ToolCalls...) {
			out += c.Function.Arguments
		}
		return out
	case f == Gemini && len(e.Candidates[0].Content.Parts) > 0:
		if call := e.Candidates[0].Content.Parts[0].FunctionCall; call != nil {
			return string(call.Args)
		}
	}
	return ""
}

func TestArgumentsAreExact(t *testing.T) {
	tests := []struct{ name, args string }{
		{"numbers", `{"a":12345678901234567890,"b":0.10,"c":1e400,"d":-0,"e":1E+2}`},
		{"duplicate keys", `{"a":1,"a":2}`},
		{"lone surrogate", `{"a":"\ud800"}`},
		{"escapes", `{"a":"\/\u0041<>&\u2028\n"}`},
		{"characters", "{\"a\":\"<>&\u2028é😀\x7f\"}"},
		{"not an object", `[1,"two"]`},
		{"5 MiB", `{"a":"` + strings.Repeat("ä€😀x", 5<<20/10) + `"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			each(t, func(t *testing.T, f Form, stream bool) {
				s := serve(t, Script{Turns: []Turn{run(tt.args)}})
				r := ask(t, s, f, stream, first(f, stream))
				if got := argumentsIn(t, f, stream, r.Answer); got != tt.args {
					t.Errorf("got %.200s\nexpected %.200s", got, tt.args)
				}
			})
		})
	}
}

func TestContains(t *testing.T) {
	tests := []struct {
		body, text string
		want       bool
	}{
		{`{"a":"x"}`, "x", true},
		{`{"a":"x"}`, "y", false},
		{`{"a":"x\ny"}`, "x\ny", true},
		{`{"a":["\u0078y"]}`, "xy", true},
		{`{"\u0078y":1}`, "xy", true},
		{`{"a":"{\"b\":\"x\\ny\"}"}`, "x\ny", true},
		{`{"a":"{\"b\":\"[\\\"x\\\\ny\\\"]\"}"}`, "x\ny", true},
		{`{"a":"\"x\\ny\""}`, "x\ny", true},
		{`{"a":"x"} not JSON x`, "not JSON", true},
		{`{"a":"x"}{"b":"\u0079"}`, "y", true},
		{`{"a":12345678901234567890}`, "12345678901234567890", true},
		{`{"a":"\u0078"`, "x", true},
	}
	for _, tt := range tests {
		if got := (&Request{Body: []byte(tt.body)}).Contains(tt.text); got != tt.want {
			t.Errorf("%s contains %q: %t", tt.body, tt.text, got)
		}
	}
	if r := (&Request{Path: "/a", Query: "b=c"}); !r.Contains("/a") || !r.Contains("b=c") {
		t.Error("Contains does not look at path and query")
	}
}

func TestTexts(t *testing.T) {
	tests := []struct {
		form Form
		raw  string // a result with the id "i"
		text string
	}{
		{Messages, `{"type":"tool_result","tool_use_id":"i","content":"plain"}`, "plain"},
		{Messages, `{"type":"tool_result","tool_use_id":"i","content":[{"type":"text","text":"a"},{"type":"image"},` +
			`{"type":"text","text":"b"}]}`, "a\nb"},
		{Messages, `{"type":"tool_result","tool_use_id":"i"}`, ""},
		{Messages, `{"type":"tool_result","tool_use_id":"i","content":"a","is_error":true}`, "a"},
		{Responses, `{"type":"function_call_output","call_id":"i","output":[{"type":"input_text","text":"a"}]}`, "a"},
		{Responses, `{"type":"custom_tool_call_output","call_id":"i","output":"a"}`, "a"},
		{Chat, `{"role":"tool","tool_call_id":"i","content":[{"type":"text","text":"a"}]}`, "a"},
		{Gemini, `{"functionResponse":{"id":"i","name":"n","response":{"output":"a"}}}`, "a"},
		{Gemini, `{"function_response":{"id":"i","name":"n","response":{"output":"a"}}}`, "a"},
		{Gemini, `{"functionResponse":{"id":"i","name":"n","response":{"error":"a"}}}`, "a"},
		{Gemini, `{"functionResponse":{"id":"i","name":"n","response":{"other":"a"}}}`, `{"other":"a"}`},
	}
	for _, tt := range tests {
		r := &Request{}
		text := "{" + strings.Replace(histories[tt.form], "%s", tt.raw, 1) + "}"
		if err := forms[tt.form].read([]byte(text), r); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		got, ok := r.Result("i")
		if !ok || got.Text != tt.text || string(got.Raw) == "" {
			t.Errorf("%s: got %+v", tt.raw, got)
		}
		if wantFailed := strings.Contains(tt.raw, "error\":"); got.Failed != wantFailed {
			t.Errorf("%s: failed is %t", tt.raw, got.Failed)
		}
	}
}

func TestAuxiliaryReply(t *testing.T) {
	tests := []struct {
		form       Form
		body, want string
	}{
		{Messages, `{}`, "ok"},
		{Messages, `{"output_config":{"format":{"type":"json_schema","schema":{"type":"object","required":["title"],` +
			`"properties":{"title":{"type":"string"}}}}}}`, `{"title":"ok"}`},
		{Responses, `{"text":{"format":{"type":"json_object"}}}`, "{}"},
		{Chat, `{"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"array"}}}}`, "[]"},
		{Gemini, `{"generationConfig":{"responseMimeType":"application/json","responseSchema":{"type":"OBJECT",` +
			`"required":["b","e","n","k","u"],"properties":{"b":{"type":"BOOLEAN"},"e":{"enum":["x"]},` +
			`"n":{"type":["null","integer"]},"k":{"const":7},"u":{"anyOf":[{"type":"string"}]}}}}}`,
			`{"b":false,"e":"x","k":7,"n":1,"u":"ok"}`},
		{Gemini, `{"generationConfig":{"responseMimeType":"application/json","responseJsonSchema":{"type":"odd"}}}`, "{}"},
		{Gemini, `{"generation_config":{"response_mime_type":"application/json","response_json_schema":{"type":"array"}}}`, "[]"},
	}
	for _, tt := range tests {
		r := &Request{}
		if err := forms[tt.form].read([]byte(tt.body), r); err != nil {
			t.Fatal(err)
		}
		if got := AuxiliaryReply(r); got != tt.want {
			t.Errorf("%s: got %s, expected %s", tt.body, got, tt.want)
		}
	}
}

// fuzzReader holds a reader to two promises: it never panics, and what it says came back is in the body.
func fuzzReader(f *testing.F, form Form) {
	f.Add(first(form, true))
	f.Add(after(form, false, "i", "text"))
	f.Add(`{"messages":[{"content":[null]}],"input":[null],"contents":[null],"tools":[null]}`)
	f.Fuzz(func(t *testing.T, body string) {
		r := &Request{Body: []byte(body)}
		if forms[form].read(r.Body, r) != nil {
			return
		}
		for _, res := range r.Results {
			if !strings.Contains(body, string(res.Raw)) {
				t.Errorf("the result %q is not in the body", res.Raw)
			}
			if res.CallID != "" && !r.Contains(res.CallID) && json.Valid(r.Body) {
				t.Errorf("Contains does not find the id %q", res.CallID)
			}
		}
		AuxiliaryReply(r)
		if _, err := Shell("true").Pick(r); err == nil && len(r.Tools) == 0 {
			t.Error("a tool was picked where none is offered")
		}
	})
}

func FuzzMessages(f *testing.F)  { fuzzReader(f, Messages) }
func FuzzResponses(f *testing.F) { fuzzReader(f, Responses) }
func FuzzChat(f *testing.F)      { fuzzReader(f, Chat) }
func FuzzGemini(f *testing.F)    { fuzzReader(f, Gemini) }
