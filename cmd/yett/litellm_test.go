package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// model is a server that speaks as OpenAI's chat completions do. What it says is what the last message asks for:
// "say TEXT", or "call NAME ARGUMENTS", with LEAK for a secret. It keeps the requests.
type model struct {
	mu    sync.Mutex
	asked []string
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var q struct {
		Stream   bool
		Messages []struct{ Content any }
	}
	if json.Unmarshal(body, &q) != nil || len(q.Messages) == 0 {
		http.Error(w, "{}", http.StatusBadRequest)
		return
	}
	m.mu.Lock()
	m.asked = append(m.asked, string(body))
	m.mu.Unlock()
	word, rest, _ := strings.Cut(fmt.Sprint(q.Messages[len(q.Messages)-1].Content), " ")
	rest = strings.ReplaceAll(rest, "LEAK", leaked())
	var pieces []map[string]any
	finish, whole := "stop", map[string]any{"role": "assistant", "content": rest}
	if word == "call" {
		name, args, _ := strings.Cut(rest, " ")
		call := func(args string) []map[string]any {
			return []map[string]any{{"index": 0, "id": "call_1", "type": "function",
				"function": map[string]any{"name": name, "arguments": args}}}
		}
		finish, whole = "tool_calls", map[string]any{"role": "assistant", "content": nil, "tool_calls": call(args)}
		pieces = append(pieces, map[string]any{"role": "assistant", "tool_calls": call(args)})
	} else {
		for i := 0; i < len(rest); i += 7 {
			pieces = append(pieces, map[string]any{"role": "assistant", "content": rest[i:min(i+7, len(rest))]})
		}
	}
	answer := map[string]any{"id": "chatcmpl-1", "created": 1, "model": "chat", "object": "chat.completion",
		"usage": map[string]int{"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}
	if !q.Stream {
		answer["choices"] = []map[string]any{{"index": 0, "message": whole, "finish_reason": finish}}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
		return
	}
	answer["object"] = "chat.completion.chunk"
	w.Header().Set("Content-Type", "text/event-stream")
	for i := range len(pieces) + 1 {
		choice := map[string]any{"index": 0, "delta": map[string]any{}, "finish_reason": finish}
		if i < len(pieces) {
			choice["delta"], choice["finish_reason"] = pieces[i], nil
		}
		answer["choices"] = []map[string]any{choice}
		raw, _ := json.Marshal(answer)
		fmt.Fprintf(w, "data: %s\n\n", raw)
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// heard are the requests since the last call.
func (m *model) heard() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := strings.Join(m.asked, "\n")
	m.asked = nil
	return out
}

// blockOf is a configuration in the README of the doors.
func blockOf(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../core/doors/guardrails/README.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)\n```[a-z]+ " + name + "\n(.*?)```\n").FindSubmatch(text)
	if m == nil {
		t.Fatalf("the README has no configuration of %s", name)
	}
	return string(m[1])
}

// launch starts a program of somebody else's, and stops it when the test ends.
func launch(t *testing.T, up string, env []string, program string, args ...string) {
	t.Helper()
	out := &syncBuffer{}
	cmd := exec.Command(program, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + cmd.Dir}, env...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-ended
		if t.Failed() {
			t.Logf("%s: %.60000s", program, out)
		}
	})
	tick, late := time.NewTicker(200*time.Millisecond), time.After(3*time.Minute)
	defer tick.Stop()
	for {
		if resp, err := http.Get(up); err == nil {
			resp.Body.Close()
			return
		}
		select {
		case <-tick.C:
		case end := <-ended:
			ended <- end
			t.Fatalf("%s ended: %v", program, end)
		case <-late:
			t.Fatalf("%s does not come up", program)
		}
	}
}

// chat asks url, and gives the status with the body.
func chat(t *testing.T, url, body string, header http.Header) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name := range header {
		r.Header.Set(name, header.Get(name))
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer bytes.Buffer
	_, err = answer.ReadFrom(resp.Body)
	return fmt.Sprint(resp.StatusCode, " ", answer.String(), " ", err)
}

// said is the text of an answer, streamed or not.
func said(answer string) string {
	var out strings.Builder
	for _, m := range regexp.MustCompile(`"content":\s*("(?:[^"\\]|\\.)*")`).FindAllStringSubmatch(answer, -1) {
		var s string
		if json.Unmarshal([]byte(m[1]), &s) == nil {
			out.WriteString(s)
		}
	}
	return out.String()
}

// behindADoor starts a gateway with a door, and a model.
func behindADoor(t *testing.T, name string, more ...string) (s *server, door, upstream string, m *model) {
	t.Helper()
	m, door = &model{}, freePort(t)
	up := httptest.NewServer(m)
	t.Cleanup(up.Close)
	s = startDev(t, append([]string{"YETT__DOORS__LISTEN=" + door,
		"YETT__DOORS__" + strings.ToUpper(name) + "__ENABLED=true"}, more...))
	return s, door, up.URL, m
}

// leaked is a secret that the model says in the place of LEAK, and that the scanners of `yett dev` find.
func leaked() string { return "gh" + "p_" + "R7kQ2mX9vB4nL8sT1wZ6cF3hJ5pD0yG2aKeU" }

// liteLLM starts an unmodified LiteLLM proxy, configured as the README says but for what change does, in front of a
// gateway and a model. ask sends a list of messages.
func liteLLM(t *testing.T, program string, change *strings.Replacer, more ...string) (s *server, m *model,
	ask func(stream bool, messages string) string) {
	t.Helper()
	s, door, upstream, m := behindADoor(t, "litellm", more...)
	conf := strings.NewReplacer("http://127.0.0.1:8423", "http://"+door, "http://127.0.0.1:9000", upstream).
		Replace(blockOf(t, "litellm"))
	if change != nil {
		conf = change.Replace(conf)
	}
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	proxy := freePort(t)
	host, port, _ := strings.Cut(proxy, ":")
	master := "sk-" + rand.Text()
	launch(t, "http://"+proxy+"/health/liveliness", []string{"YETT_API_KEY=" + s.Keys.Agent, "UPSTREAM_KEY=none",
		"LITELLM_LOCAL_MODEL_COST_MAP=True", "LITELLM_MASTER_KEY=" + master},
		program, "--config", file, "--host", host, "--port", port)
	return s, m, func(stream bool, messages string) string {
		return chat(t, "http://"+proxy+"/v1/chat/completions", fmt.Sprintf(`{"model":"chat","stream":%t,"messages":%s}`,
			stream, messages), http.Header{"Authorization": {"Bearer " + master}})
	}
}

// liteLLMProgram is the program of the environment, without which the test is skipped.
func liteLLMProgram(t *testing.T) string {
	t.Helper()
	program := os.Getenv("YETT_LITELLM")
	if program == "" {
		t.Skip("YETT_LITELLM is not set: it names the program litellm of an environment with litellm[proxy]")
	}
	return program
}

// TestLiteLLM: an unmodified LiteLLM proxy, configured as the README says, in front of a model.
func TestLiteLLM(t *testing.T) {
	s, m, ask := liteLLM(t, liteLLMProgram(t), nil)
	for _, c := range []struct {
		name, text string
		stream     bool
		status     string
		has, not   string // of the answer
		asked      bool   // whether the model was asked
	}{
		{"clean", "say hello", false, "200", "hello", "", true},
		{"redacted", "say my token " + leaked() + " is here", false, "200", "is here", leaked(), true},
		{"clean stream", "say " + strings.Repeat("hello ", 40), true, "200", "hello hello", "", true},
		{"redacted stream", "say " + strings.Repeat("word ", 30) + "token LEAK " + strings.Repeat("more ", 30), true, "200",
			"more more", leaked(), true},
		{"redacted answer", "say the token LEAK is here", false, "200", "is here", leaked(), true},
		{"permitted call", `call read_file {"path":"a"}`, false, "200", "read_file", "", true},
		{"denied call", `call unknown_tool {"path":"a"}`, false, "400", "Yett refused this", "tool_calls", true},
		{"deferred call", `call refund_customer {"amount":12345678901234567890}`, false, "400", "/approvals/dec_", "", true},
		{"call with a secret", `call read_file {"path":"LEAK"}`, false, "400", "something is to be redacted", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			m.heard()
			answer := ask(c.stream, fmt.Sprintf(`[{"role":"user","content":%q}]`, c.text))
			asked := m.heard()
			if !strings.HasPrefix(answer, c.status) || !strings.Contains(answer+said(answer), c.has) {
				t.Errorf("the answer: %s", answer)
			}
			if c.not != "" && strings.Contains(answer+said(answer), c.not) {
				t.Errorf("the client has %s: %s", c.not, answer)
			}
			if (asked != "") != c.asked || strings.Contains(asked, leaked()) {
				t.Errorf("the model has been asked %q", asked)
			}
		})
	}
	// What LiteLLM does with calls in a stream: it asks when the client has them.
	if answer := ask(true, `[{"role":"user","content":"call unknown_tool {}"}]`); !strings.Contains(answer, "Yett refused this") {
		t.Errorf("the stream does not end with a refusal: %s", answer)
	}
	m.heard()
	answer := ask(false, `[{"role":"user","content":[{"type":"text","text":"say a"},{"type":"image_url","image_url":`+
		`{"url":"data:image/png;base64,QQ=="}}]}]`)
	if asked := m.heard(); !strings.HasPrefix(answer, "400") || asked != "" {
		t.Errorf("an image: %s, asked %q", answer, asked)
	}
	s.kill()
	for _, stream := range []bool{false, true} {
		if answer := ask(stream, `[{"role":"user","content":"say hello"}]`); strings.HasPrefix(answer, "200") || m.heard() != "" {
			t.Errorf("without Yett: %s", answer)
		}
	}
}

// With a number of characters to hold back, a stream comes in pieces, and what is found in it is still redacted.
func TestLiteLLMHoldsBack(t *testing.T) {
	_, _, ask := liteLLM(t, liteLLMProgram(t), strings.NewReplacer("streaming_end_of_stream_only: true", ""),
		"YETT__DOORS__LITELLM__STREAM_HOLDBACK=100")
	answer := ask(true, `[{"role":"user","content":"say `+strings.Repeat("word ", 60)+"token LEAK "+
		strings.Repeat("more ", 60)+`"}]`)
	if pieces := strings.Count(answer, `"content":"`); pieces < 3 || strings.Contains(said(answer), leaked()) ||
		!strings.Contains(said(answer), "word token [") || !strings.HasSuffix(strings.TrimSpace(said(answer)), "more") {
		t.Errorf("%d pieces: %s", pieces, answer)
	}
}

// OpenAI's own client reads the answers of the moderation door, and raises an error where the door cannot answer.
func TestOpenAIClientOfModerations(t *testing.T) {
	python := filepath.Join(filepath.Dir(liteLLMProgram(t)), "python")
	s, door, _, _ := behindADoor(t, "moderations")
	const script = `
import os, openai
c = openai.OpenAI(base_url=os.environ["DOOR"], max_retries=0)
for r in c.moderations.create(input=["hello", os.environ["LEAKED"]]).results:
    kind = "SECRET_GITHUB_PAT"
    print(r.flagged, r.categories.violence, r.categories.model_extra.get(kind), r.category_scores.model_extra.get(kind, 0) > 0)
for call in (lambda: c.moderations.create(input=[{"type": "image_url", "image_url": {"url": "data:,"}}]),
             lambda: openai.OpenAI(base_url=os.environ["DOOR"], api_key="none").moderations.create(input="hello")):
    try:
        print("passed", call())
    except openai.APIStatusError as e:
        print(type(e).__name__, e.code)
`
	cmd := exec.Command(python, "-c", script)
	cmd.Env = []string{"DOOR=http://" + door + "/v1", "OPENAI_API_KEY=" + s.Keys.Agent, "LEAKED=" + leaked()}
	out, err := cmd.CombinedOutput()
	const want = "False False None False\nTrue False True True\nBadRequestError invalid_field\n" +
		"AuthenticationError unauthenticated\n"
	if got := string(out); err != nil || got != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
}
