package model

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

var errPick = errors.New("nothing fits")

func run(args string) Turn { return Turn{Calls: []Call{{Tool: "run", Arguments: []byte(args)}}} }

func TestState(t *testing.T) {
	const other = `"model":"fast","messages":[{"role":"user","content":"a title"}]`
	tests := []struct {
		name   string
		script Script
		send   []string // %0, %1 … stand for the ids of calls so far
		want   string   // kind and turn of each
	}{
		{"without tools is auxiliary", Script{Turns: []Turn{{Text: "done"}}},
			[]string{body(Messages, true, other), first(Messages, true)}, "auxiliary -1, scripted 0"},
		{"never auxiliary", Script{Turns: []Turn{{Text: "done"}}, Auxiliary: Never},
			[]string{body(Messages, true, other)}, "scripted 0"},
		{"by model", Script{Turns: []Turn{{Text: "done"}}, Auxiliary: AnyOf(ByModel("script"), ByText("title"))},
			[]string{first(Messages, true), body(Messages, true, other)}, "auxiliary -1, auxiliary -1"},
		{"a retry gets the same call", Script{Turns: []Turn{run(`{}`), {Text: "done"}}},
			[]string{first(Messages, true), first(Messages, true), after(Messages, true, "%0", "ok")},
			"scripted 0, retried 0, scripted 1"},
		{"a result is missing", Script{Turns: []Turn{{Calls: []Call{{Tool: "run", Arguments: []byte(`1`)},
			{Tool: "run", Arguments: []byte(`2`)}}}, {Text: "done"}}},
			[]string{first(Messages, true), after(Messages, true, "%1", "ok"), after(Messages, true, "%0", "a", "%1", "b")},
			"scripted 0, extra -1, scripted 1"},
		{"the result of another call", Script{Turns: []Turn{run(`{}`), run(`{}`), {Text: "done"}}},
			[]string{first(Messages, true), after(Messages, true, "%0", "a"), after(Messages, true, "%0", "b"),
				after(Messages, true, "%0", "a", "%1", "b")},
			"scripted 0, scripted 1, extra -1, scripted 2"},
		{"a text closes the calls", Script{Turns: []Turn{run(`{}`), {Text: "done"}, {Text: "again"}}},
			[]string{first(Messages, true), after(Messages, true, "%0", "a"), first(Messages, true)},
			"scripted 0, scripted 1, scripted 2"},
		{"a matcher goes before order", Script{Turns: []Turn{run(`{}`),
			{Text: "sub", When: func(r *Request) bool { return r.Contains("subagent") }}, {Text: "done"}}},
			[]string{first(Messages, true), after(Messages, true, "x", "subagent"), after(Messages, true, "%0", "ok")},
			"scripted 0, scripted 1, scripted 2"},
		{"a matcher that accepts nothing", Script{Turns: []Turn{{Text: "no", When: func(*Request) bool { return false }}}},
			[]string{first(Messages, true)}, "extra -1"},
		{"a call that cannot be picked", Script{Turns: []Turn{{Calls: []Call{
			{Pick: func(*Request) (Call, error) { return Call{}, errPick }}}}}},
			[]string{first(Messages, true)}, "extra -1"},
		{"arguments that are not JSON", Script{Turns: []Turn{run(`{`)}},
			[]string{first(Messages, true)}, "extra -1"},
		{"not a request", Script{Turns: []Turn{{Text: "done"}}},
			[]string{`{"model":7}`, `[]`, ``, `{"tools":{}}`, `{"messages":[{"content":7}]}`},
			"refused -1, refused -1, refused -1, refused -1, refused -1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, tt.script)
			var got []string
			for _, one := range tt.send {
				for i, c := range s.Calls() {
					one = strings.ReplaceAll(one, fmt.Sprintf("%%%d", i), c.ID)
				}
				r := post(t, s, "/v1/messages", one)
				got = append(got, fmt.Sprintf("%s %d", r.Kind, r.Turn))
				if (r.Kind == Extra || r.Kind == Refused || r.Kind == Auxiliary) && r.Why == "" {
					t.Errorf("no reason for %s", r.Kind)
				}
			}
			if strings.Join(got, ", ") != tt.want {
				t.Errorf("got %s\nexpected %s", strings.Join(got, ", "), tt.want)
			}
		})
	}
}

func TestRetryIsTheSameAnswer(t *testing.T) {
	s := serve(t, Script{Turns: []Turn{run(`{}`)}})
	one, two := post(t, s, "/v1/messages", first(Messages, true)), post(t, s, "/v1/messages", first(Messages, true))
	if !bytes.Equal(one.Answer, two.Answer) || len(s.Calls()) != 1 {
		t.Errorf("the retry got another call:\n%s\n%s", one.Answer, two.Answer)
	}
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "no result came back for the call toolu_n0010") {
		t.Errorf("the call without a result is not told: %v", err)
	}
}

// TestNamelessResults are results of Gemini without ids: they come in the order of the calls.
func TestNamelessResults(t *testing.T) {
	s := serve(t, Script{Turns: []Turn{{Calls: []Call{{Tool: "run", Arguments: []byte(`{}`)},
		{Tool: "run", Arguments: []byte(`{}`)}}}, {Text: "done"}}})
	ask(t, s, Gemini, true, first(Gemini, true))
	text := after(Gemini, true, "", "one", "", "two")
	ask(t, s, Gemini, true, strings.ReplaceAll(text, `"id":"",`, ""))
	for i, want := range []string{"one", "two"} {
		if got := s.Results(s.Calls()[i].ID); len(got) != 1 || got[0].Text != want {
			t.Errorf("call %d got %+v, expected %s", i, got, want)
		}
	}
	if err := s.Err(); err != nil {
		t.Error(err)
	}
}

func TestRefused(t *testing.T) {
	tests := []struct {
		name, method, path, key, encoding, body string
		status                                  int
		why                                     string
	}{
		{"no key", "POST", "/v1/messages", "", "", first(Messages, true), 401, "key"},
		{"another key", "POST", "/v1/messages", testKey + "x", "", first(Messages, true), 401, "key"},
		{"unknown path", "POST", "/v1/embeddings", testKey, "", "{}", 404, "no such path"},
		{"unknown method", "GET", "/v1/messages", testKey, "", "", 404, "no such path"},
		{"unknown method of Gemini", "POST", "/v1beta/models/m:embedContent", testKey, "", "{}", 404, "no such path"},
		{"not a path of Gemini", "POST", "/else/models/m:generateContent", testKey, "", "{}", 404, "no such path"},
		{"encoding", "POST", "/v1/messages", testKey, "zstd", "x", 415, `content encoding "zstd": expected none or gzip`},
		{"not gzip", "POST", "/v1/messages", testKey, "gzip", "x", 400, "the body is not gzip"},
		{"too long", "POST", "/v1/messages", testKey, "", strings.Repeat(" ", maxBody+1), 413, "over the limit"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, Script{Turns: []Turn{{Text: "done"}}})
			in := httptest.NewRequest(tt.method, tt.path, strings.NewReader(tt.body))
			in.Header.Set("X-Api-Key", tt.key)
			in.Header.Set("Content-Encoding", tt.encoding)
			out := httptest.NewRecorder()
			s.ServeHTTP(out, in)
			r := s.Sent()[0]
			if out.Code != tt.status || r.Kind != Refused || !strings.Contains(r.Why, tt.why) ||
				!strings.Contains(out.Body.String(), "scripted model: ") {
				t.Errorf("got %d, %s %q: %s", out.Code, r.Kind, r.Why, out.Body)
			}
			if tt.status == 401 && r.Body != nil {
				t.Error("the body of a stranger is kept")
			}
		})
	}
}

func TestKeysAreNotKept(t *testing.T) {
	for _, name := range []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key", "key"} {
		s := serve(t, Script{Turns: []Turn{{Text: "done"}}})
		target := paths[Gemini][0]
		if name == "key" {
			target += "&key=" + testKey
		}
		in := httptest.NewRequest(http.MethodPost, target, strings.NewReader(first(Gemini, true)))
		in.Header.Set("Cookie", testKey)
		switch name {
		case "key":
		case "Authorization":
			in.Header.Set(name, "Bearer "+testKey)
		default:
			in.Header.Set(name, testKey)
		}
		s.ServeHTTP(httptest.NewRecorder(), in)
		r := s.Sent()[0]
		if r.Kind != Scripted {
			t.Errorf("%s: %s %s", name, r.Kind, r.Why)
		}
		if text := fmt.Sprint(r.Header, r.Query, r.Path); strings.Contains(text, testKey) {
			t.Errorf("%s is kept: %s", name, text)
		}
	}
}

func TestListing(t *testing.T) {
	tests := []struct{ method, path, version, want string }{
		{"GET", "/v1/models", "", `{"data":[{"created":1,"id":"m","object":"model","owned_by":"scripted"}],"object":"list"}`},
		{"GET", "/models", "", `"object":"list"`},
		{"GET", "/v1/models", "2023-06-01", `"has_more":false`},
		{"GET", "/v1beta/models", "", `"name":"models/m"`},
		{"GET", "/v1/models", "goog", `"name":"models/m"`},
		{"POST", "/v1/messages/count_tokens", "", `{"input_tokens":1}`},
		{"POST", "/v1beta/models/m:countTokens", "", `{"totalTokens":1}`},
		{"HEAD", "/", "", `{}`},
	}
	for _, tt := range tests {
		s := serve(t, Script{Turns: []Turn{{Text: "done"}}, Models: []string{"m"}})
		in := httptest.NewRequest(tt.method, tt.path, nil)
		if tt.method != http.MethodHead {
			in.Header.Set("X-Api-Key", testKey)
		}
		switch tt.version {
		case "":
		case "goog":
			in.Header.Set("X-Goog-Api-Key", testKey)
		default:
			in.Header.Set("Anthropic-Version", tt.version)
		}
		s.ServeHTTP(httptest.NewRecorder(), in)
		r := s.Sent()[0]
		if r.Kind != Listing || !strings.Contains(string(r.Answer), tt.want) {
			t.Errorf("%s %s: %s %s", tt.method, tt.path, r.Kind, r.Answer)
		}
	}
}

func TestConcurrentRequests(t *testing.T) {
	const many = 40
	s := serve(t, Script{Turns: slices.Repeat([]Turn{{Text: "done"}}, many)})
	var wg sync.WaitGroup
	for range many {
		wg.Go(func() {
			in := httptest.NewRequest(http.MethodPost, "/v1/messages", strings.NewReader(first(Messages, true)))
			in.Header.Set("X-Api-Key", testKey)
			s.ServeHTTP(httptest.NewRecorder(), in)
			s.Contains("nothing")
		})
	}
	wg.Wait()
	if err := s.Err(); err != nil {
		t.Error(err)
	}
	for i, r := range s.Of(Scripted) {
		if r.Turn != i {
			t.Errorf("request %d got turn %d", i, r.Turn)
		}
	}
}

func TestGzip(t *testing.T) {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write([]byte(first(Messages, true))); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	s := serve(t, Script{Turns: []Turn{{Text: "done"}}})
	in := httptest.NewRequest(http.MethodPost, "/v1/messages", &zipped)
	in.Header.Set("X-Api-Key", testKey)
	in.Header.Set("Content-Encoding", "gzip")
	s.ServeHTTP(httptest.NewRecorder(), in)
	if r := s.Sent()[0]; r.Kind != Scripted || string(r.Body) != first(Messages, true) {
		t.Errorf("got %s %s, body %q", r.Kind, r.Why, r.Body)
	}
}

func TestLimitOfRequests(t *testing.T) {
	s := serve(t, Script{})
	for range maxRequests + 5 {
		in := httptest.NewRequest(http.MethodHead, "/", nil)
		in.Header.Set("X-Api-Key", testKey)
		s.ServeHTTP(httptest.NewRecorder(), in)
	}
	sent := s.Sent()
	if last := sent[len(sent)-1]; len(sent) != maxRequests || last.Kind != Refused || last.Status != 429 {
		t.Errorf("%d requests are kept, the last is %s", len(sent), last.Kind)
	}
	if s.Err() == nil {
		t.Error("the limit is not told")
	}
}

func TestScriptIsChecked(t *testing.T) {
	bad := "\xff"
	pick := func(*Request) (Call, error) { return Call{}, nil }
	tests := []struct {
		script Script
		want   string
	}{
		{Script{Turns: []Turn{{Text: "a"}, {}}}, "turn 1 is empty"},
		{Script{Turns: []Turn{{Text: bad}}}, "the text of turn 0 is not UTF-8"},
		{Script{Closing: bad}, "the closing text is not UTF-8"},
		{Script{Turns: []Turn{{Calls: []Call{{}}}}}, "call 0 of turn 0: the call names no tool"},
		{Script{Turns: []Turn{{Calls: []Call{{Tool: "t", Arguments: []byte(bad)}}}}}, "the arguments of t are not UTF-8"},
		{Script{Turns: []Turn{{Calls: []Call{{Tool: "t", Pick: pick}}}}}, "has Pick and Tool"},
	}
	for _, tt := range tests {
		if _, err := Start(tt.script); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, expected %s", err, tt.want)
		}
	}
}
