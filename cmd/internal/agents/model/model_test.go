package model

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const testKey = "key-of-the-test"

// paths are where each form is asked, for a stream and for a whole answer.
var paths = map[Form][2]string{
	Messages:  {"/v1/messages?beta=true", "/v1/messages?beta=true"},
	Responses: {"/v1/responses", "/v1/responses"},
	Chat:      {"/v1/chat/completions", "/chat/completions"},
	Gemini:    {"/v1beta/models/scripted:streamGenerateContent?alt=sse", "/v1beta/models/scripted:generateContent"},
}

// offers is a request's members that offer the tools run and, in Responses, the custom tool patch and the grouped
// tool pay.
var offers = map[Form]string{
	Messages: `"model":"scripted","max_tokens":9,"tools":[{"name":"run","input_schema":{"type":"object"}}]`,
	Responses: `"model":"scripted","tools":[{"type":"function","name":"run","parameters":{"type":"object"}},` +
		`{"type":"custom","name":"patch"},{"type":"web_search"},` +
		`{"type":"namespace","name":"mcp__shop","tools":[{"type":"function","name":"pay"}]},` +
		`{"type":"namespace","name":"mcp__bank","tools":[{"type":"function","name":"pay"}]}]`,
	Chat: `"model":"scripted","stream_options":{"include_usage":true},` +
		`"tools":[{"type":"function","function":{"name":"run","parameters":{"type":"object"}}}]`,
	Gemini: `"tools":[{"functionDeclarations":[{"name":"run","parametersJsonSchema":{"type":"object"}}]}]`,
}

// histories are a request's member that holds the conversation. %s are results, made by resultOf.
var histories = map[Form]string{
	Messages:  `"messages":[{"role":"user","content":"go"},{"role":"user","content":[%s]}]`,
	Responses: `"input":[{"type":"message","role":"user","content":[]},%s]`,
	Chat:      `"messages":[{"role":"user","content":"go"},%s]`,
	Gemini:    `"contents":[{"role":"user","parts":[{"text":"go"}]},{"role":"user","parts":[%s]}]`,
}

var resultForms = map[Form]string{
	Messages:  `{"type":"tool_result","tool_use_id":%q,"content":[{"type":"text","text":%q}]}`,
	Responses: `{"type":"function_call_output","call_id":%q,"output":%q}`,
	Chat:      `{"role":"tool","tool_call_id":%q,"content":%q}`,
	Gemini:    `{"functionResponse":{"id":%q,"name":"run","response":{"output":%q}}}`,
}

func body(f Form, stream bool, more string) string {
	flag := ""
	if f != Gemini {
		flag = fmt.Sprintf(`"stream":%t,`, stream)
	}
	return "{" + flag + more + "}"
}

// first is the first request of a conversation; after adds results as pairs of a call's id and a text.
func first(f Form, stream bool) string { return after(f, stream) }

func after(f Form, stream bool, pairs ...string) string {
	var results []string
	for i := 0; i < len(pairs); i += 2 {
		results = append(results, fmt.Sprintf(resultForms[f], pairs[i], pairs[i+1]))
	}
	history := fmt.Sprintf(histories[f], strings.Join(results, ","))
	return body(f, stream, offers[f]+","+strings.Replace(history, ",]", "]", 1))
}

func serve(t *testing.T, s Script) *Server {
	t.Helper()
	server, err := newServer(s, testKey, "n")
	if err != nil {
		t.Fatal(err)
	}
	return server
}

func post(t *testing.T, s *Server, path, body string) *Request {
	t.Helper()
	in := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	in.Header.Set("Authorization", "Bearer "+testKey)
	out := httptest.NewRecorder()
	s.ServeHTTP(out, in)
	sent := s.Sent()
	last := sent[len(sent)-1]
	if out.Code != last.Status || out.Body.String() != string(last.Answer) {
		t.Errorf("the client got %d %q, but %d %q was kept", out.Code, out.Body, last.Status, last.Answer)
	}
	return last
}

func ask(t *testing.T, s *Server, f Form, stream bool, body string) *Request {
	t.Helper()
	if stream {
		return post(t, s, paths[f][0], body)
	}
	return post(t, s, paths[f][1], body)
}

// each runs a test for all forms, streamed and whole.
func each(t *testing.T, test func(t *testing.T, f Form, stream bool)) {
	for f := range forms {
		for _, stream := range []bool{true, false} {
			name := string(f) + "-whole"
			if stream {
				name = string(f) + "-stream"
			}
			t.Run(name, func(t *testing.T) { test(t, f, stream) })
		}
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if os.Getenv("GOLDEN") == "write" {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("the answer is not that of %s; look at the change, then run with GOLDEN=write\ngot:\n%s\nwant:\n%s",
			file, got, want)
	}
}

func TestAnswersAreGolden(t *testing.T) {
	each(t, func(t *testing.T, f Form, stream bool) {
		s := serve(t, Script{Turns: []Turn{
			{Text: "two <calls> & a text", Calls: []Call{
				{Tool: "run", Arguments: []byte("{\"n\": 12345678901234567890,\n \"x\": 0.10}")},
				{Tool: "run", Arguments: []byte(`{"b":1,"a":1e400,"b":"\ud800"}`)}}},
			{Text: "done"}}})
		var got []byte
		got = append(got, ask(t, s, f, stream, first(f, stream)).Answer...)
		calls := s.Calls()
		got = append(got, "\n=== after the results ===\n"...)
		got = append(got, ask(t, s, f, stream, after(f, stream, calls[0].ID, "one", calls[1].ID, "two")).Answer...)
		if err := s.Err(); err != nil {
			t.Error(err)
		}
		golden(t, strings.ReplaceAll(t.Name()[len("TestAnswersAreGolden/"):], "/", "-")+".golden", got)
	})
	t.Run("responses-custom", func(t *testing.T) {
		s := serve(t, Script{Turns: []Turn{{Calls: []Call{
			{Tool: "patch", Arguments: []byte("*** Begin Patch\n")}, {Tool: "pay", Arguments: []byte(`{}`)},
			{Tool: "pay", Namespace: "mcp__bank", Arguments: []byte(`{}`)}}}}})
		golden(t, "responses-custom.golden", post(t, s, "/v1/responses", first(Responses, true)).Answer)
	})
	t.Run("gemini-array", func(t *testing.T) {
		s := serve(t, Script{Turns: []Turn{{Text: "hello"}}})
		r := post(t, s, "/v1beta/models/scripted:streamGenerateContent", first(Gemini, true))
		golden(t, "gemini-array.golden", r.Answer)
	})
}

func TestConversation(t *testing.T) {
	each(t, func(t *testing.T, f Form, stream bool) {
		s := serve(t, Script{Turns: []Turn{{Calls: []Call{{Tool: "run", Arguments: []byte(`{}`)}}}, {Text: "done"}}})
		r := ask(t, s, f, stream, first(f, stream))
		if r.Kind != Scripted || r.Turn != 0 || r.Model != "scripted" || r.Stream != stream || r.Form != f {
			t.Fatalf("the first request is %+v", r)
		}
		if _, ok := r.Tool("run"); !ok {
			t.Errorf("the offered tools are %+v", r.Tools)
		}
		err := s.Err()
		for _, want := range []string{"no request asked for turn 1", "no result came back for the call"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("a script that is not at its end: got %v, expected %s", err, want)
			}
		}
		id := s.Calls()[0].ID
		r = ask(t, s, f, stream, after(f, stream, id, "a \"b\"\nc"))
		if r.Kind != Scripted || r.Turn != 1 {
			t.Fatalf("the second request is %s, turn %d: %s", r.Kind, r.Turn, r.Why)
		}
		if got := s.Results(id); len(got) != 1 || got[0].Text != "a \"b\"\nc" || !json.Valid(got[0].Raw) {
			t.Errorf("the results are %+v", got)
		}
		if !s.Contains("\"b\"\nc") || s.Contains("\"b\"\nd") {
			t.Error("Contains does not look into decoded strings")
		}
		if err := s.Err(); err != nil {
			t.Error(err)
		}
		r = ask(t, s, f, stream, after(f, stream, id, "again"))
		if r.Kind != Extra || !strings.Contains(string(r.Answer), "The script is over.") {
			t.Errorf("a request beyond the script is %s: %s", r.Kind, r.Answer)
		}
		if err := s.Err(); err == nil || !strings.Contains(err.Error(), "no more turns") {
			t.Errorf("the extra request is not told: %v", err)
		}
		if got := s.Results(id); len(got) != 2 || got[1].Text != "again" {
			t.Errorf("a result that changed is not told: %+v", got)
		}
	})
}

func TestStart(t *testing.T) {
	s, err := Start(Script{Turns: []Turn{{Text: "hello"}}})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(s.URL(), "http://127.0.0.1:") {
		t.Errorf("the server listens on %s", s.URL())
	}
	client := &http.Client{Transport: &http.Transport{Proxy: nil}}
	defer client.CloseIdleConnections()
	send := func(key string) int {
		in, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+"/v1/messages",
			strings.NewReader(first(Messages, true)))
		if err != nil {
			t.Fatal(err)
		}
		in.Header.Set("X-Api-Key", key)
		out, err := client.Do(in)
		if err != nil {
			t.Fatal(err)
		}
		defer out.Body.Close()
		return out.StatusCode
	}
	if got := send(s.Key()); got != http.StatusOK {
		t.Errorf("the status is %d", got)
	}
	if got := send("another"); got != http.StatusUnauthorized {
		t.Errorf("the status with another key is %d", got)
	}
	if err := s.Await(t.Context(), func(sent []*Request) bool { return len(sent) == 2 }); err != nil {
		t.Error(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Await(over, func(sent []*Request) bool { return len(sent) == 3 }); err == nil {
		t.Error("waiting ended without a third request")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := client.Get(s.URL() + "/v1/models"); err == nil {
		t.Error("the server answers after Close")
	}
}
