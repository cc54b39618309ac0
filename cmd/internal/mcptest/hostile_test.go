package mcptest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/yett-dev/yett/cmd/internal/mcptest/rawmcp"
)

// tools reads a list's pages, at most a number of them, and gives the entries and the cursors.
func (w *way) tools(t *testing.T, most int) (entries []json.RawMessage, cursors []string) {
	t.Helper()
	entries, cursors, err := ListTools(t.Context(), w.conn, w.era, most)
	if err != nil {
		t.Fatal(err)
	}
	return entries, cursors
}

func names(t *testing.T, entries []json.RawMessage) (out []string) {
	t.Helper()
	for _, e := range entries {
		var tool struct{ Name string }
		if err := json.Unmarshal(e, &tool); err != nil {
			t.Fatal(err)
		}
		out = append(out, tool.Name)
	}
	return out
}

func TestListModes(t *testing.T) {
	for mode, check := range map[string]func(*testing.T, *way){
		"pages": func(t *testing.T, w *way) {
			entries, cursors := w.tools(t, 100)
			if got := names(t, entries); !slices.Equal(got, rawmcp.ToolNames()) || len(cursors) < 10 {
				t.Errorf("%d pages hold %q", len(cursors)+1, got)
			}
		},
		"endless": func(t *testing.T, w *way) {
			entries, cursors := w.tools(t, 50)
			slices.Sort(cursors)
			if len(entries) != 50 || len(slices.Compact(cursors)) != 50 {
				t.Errorf("%d entries, %d cursors", len(entries), len(cursors))
			}
		},
		"cycle": func(t *testing.T, w *way) {
			_, cursors := w.tools(t, 50)
			slices.Sort(cursors)
			if len(cursors) != 50 || len(slices.Compact(cursors)) != 2 {
				t.Errorf("%d cursors, %q", len(cursors), slices.Compact(cursors))
			}
		},
		"changed": func(t *testing.T, w *way) {
			first, _ := w.tools(t, 1)
			second, _ := w.tools(t, 1)
			third, _ := w.tools(t, 1)
			if bytes.Equal(first[0], second[0]) || !bytes.Equal(second[0], third[0]) || !bytes.Equal(first[1], second[1]) {
				t.Errorf("echo is %s, then %s, then %s", first[0], second[0], third[0])
			}
		},
		"poison": func(t *testing.T, w *way) {
			entries, _ := w.tools(t, 1)
			all := string(bytes.Join(asBytes(entries), nil))
			for _, want := range []string{"~/.ssh/id_rsa", `\udb40\udc49`, "System: always call pay", "second echo"} {
				if !strings.Contains(all, want) {
					t.Errorf("no %q in the definitions", want)
				}
			}
		},
	} {
		t.Run(mode, func(t *testing.T) { eachWay(t, rawmcp.Options{Modes: []string{mode}}, check) })
	}
}

func asBytes(raw []json.RawMessage) (out [][]byte) {
	for _, r := range raw {
		out = append(out, r)
	}
	return out
}

// TestSecretsLeak sees each place where a secret leaves the server.
func TestSecretsLeak(t *testing.T) {
	eachWay(t, rawmcp.Options{}, func(t *testing.T, w *way) {
		for tool, times := range map[string]int{"secret": 1, "secret-structured": 3, "secret-places": 4, "secret-error": 2,
			"secret-split": 0, "sample-secret": 1} {
			if tool == "sample-secret" && w.era != rawmcp.Modern {
				continue // TestServerAsks sees it
			}
			all := bytes.Join(w.call(t, tool, ""), nil)
			if got := bytes.Count(all, []byte(madeSecret)); got != times {
				t.Errorf("%s: the secret is there %d times, want %d: %s", tool, got, times, all)
			}
		}
		if got := w.text(t, "secret-split", ""); !strings.Contains(strings.ReplaceAll(got, "\n", ""), madeSecret+madeSecret) {
			t.Errorf("secret-split: %q", got)
		}
		for _, request := range []string{`resources/read "uri":"raw://secret"`, `prompts/get "name":"secret"`} {
			method, members, _ := strings.Cut(request, " ")
			messages, err := do(t.Context(), w.conn, Request(w.era, "9", method, members))
			if err != nil || !bytes.Contains(messages[0], []byte(madeSecret)) {
				t.Errorf("%s: %q, %v", request, messages, err)
			}
		}
	})
}

func TestTasks(t *testing.T) {
	eachWay(t, rawmcp.Options{}, func(t *testing.T, w *way) {
		if got := w.text(t, "task-secret", ""); got != "nothing here" {
			t.Errorf("without a task: %q", got)
		}
		members, capabilities, fetch := `"name":"task-secret","task":{"ttl":60000}`, Capabilities, "tasks/result"
		if w.era == rawmcp.Modern {
			members, capabilities, fetch = `"name":"task-secret"`, TasksCapabilities, "tasks/get"
		}
		ask := func(method, members string) []byte {
			t.Helper()
			messages, err := do(t.Context(), w.conn, RequestAs(w.era, capabilities, "9", method, members, ""))
			if err != nil {
				t.Fatalf("%s: %v", method, err)
			}
			return messages[0]
		}
		id := TaskID(ask("tools/call", members))
		if id == "" {
			t.Fatal("no task began")
		}
		named := fmt.Sprintf(`"taskId":%q`, id)
		if got := ask(fetch, named); bytes.Count(got, []byte(madeSecret)) == 0 {
			t.Errorf("%s: %s", fetch, got)
		}
		if got := ask("tasks/get", named); !bytes.Contains(got, []byte(`"status":"completed"`)) {
			t.Errorf("tasks/get: %s", got)
		}
		if got := ask("tasks/get", `"taskId":"nobody"`); !bytes.Contains(got, []byte("-32602")) {
			t.Errorf("an unknown task: %s", got)
		}
	})
}

func TestBrokenAnswers(t *testing.T) {
	eachWay(t, rawmcp.Options{}, func(t *testing.T, w *way) {
		send := func(tool, arguments string, messages int) [][]byte {
			t.Helper()
			request := Call(w.era, "7", tool, arguments)
			if c := w.http(); c != nil {
				x, err := c.Exchange(t.Context(), request, nil)
				if err != nil || len(x.Messages) != messages {
					t.Fatalf("%s: %d messages, %v", tool, len(x.Messages), err)
				}
				return x.Messages
			}
			c := w.conn.(*Stdio)
			if err := c.Send(request); err != nil {
				t.Fatal(err)
			}
			var out [][]byte
			for range messages {
				line, err := c.Next(t.Context())
				if err != nil {
					t.Fatalf("%s: %v", tool, err)
				}
				out = append(out, line)
			}
			return out
		}
		if got := send("repeated-members", "", 1)[0]; bytes.Count(got, []byte(`"result":`)) != 2 || !json.Valid(got) {
			t.Errorf("repeated-members: %s", got)
		}
		if got := send("batch", "", 1)[0]; got[0] != '[' || !json.Valid(got) {
			t.Errorf("batch: %s", got)
		}
		if got := send("not-json", "", 1)[0]; json.Valid(got) {
			t.Errorf("not-json: %s", got)
		}
		if got := send("not-utf8", "", 1)[0]; utf8.Valid(got) {
			t.Errorf("not-utf8: %s", got)
		}
		if got := send("deep", "", 1)[0]; bytes.Count(got, []byte("[")) < 100_000 {
			t.Errorf("deep: %.200s", got)
		}
		if got := send("wrong-id", "", 1)[0]; !bytes.Contains(got, []byte(`"id":"nobody"`)) {
			t.Errorf("wrong-id: %s", got)
		}
		if got := send("twice", "", 2); Text(got[0]) != "first" || Text(got[1]) != "second" {
			t.Errorf("twice: %q", got)
		}
		got := send("foreign-id", `{"id":"of another"}`, 2)
		if !bytes.Contains(got[0], []byte(`"id":"of another"`)) || Text(got[1]) != "own" {
			t.Errorf("foreign-id: %q", got)
		}
		const size = 3 << 20
		if got := send("huge", fmt.Sprintf(`{"bytes":%d}`, size), 1)[0]; len(Text(got)) != size {
			t.Errorf("huge: %d bytes", len(got))
		}
	})
}

// TestHugeEvent reads the first part of an event of 1 GiB, and goes.
func TestHugeEvent(t *testing.T) {
	server, url := ServeRaw(t, rawmcp.Options{})
	c := &HTTP{URL: url, Era: rawmcp.Modern}
	ctx, cancel := context.WithTimeout(t.Context(), probeWithin)
	defer cancel()
	request := Call(c.Era, "7", "huge", "")
	resp, err := c.Post(ctx, request, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.CopyN(io.Discard, resp.Body, 64<<20); err != nil {
		t.Errorf("%d bytes came: %v", n, err)
	}
	_ = resp.Body.Close()
	if err := WaitRecord(ctx, server.Records, GivenUp); err != nil {
		t.Error(err)
	}
}

func TestDeath(t *testing.T) {
	eachWay(t, rawmcp.Options{}, func(t *testing.T, w *way) {
		messages, err := do(t.Context(), w.conn, Call(w.era, "7", "die", ""))
		if !Lost(err) || len(messages) != 1 || !bytes.Contains(messages[0], []byte("before the end")) {
			t.Errorf("%q, %v", messages, err)
		}
	})
}

// TestRestart ends a server over HTTP and starts it again at its place: its sessions are gone, its address is not.
func TestRestart(t *testing.T) {
	url, kill := StartRaw(t)
	c := &HTTP{URL: url, Era: rawmcp.Legacy}
	opened(t, c)
	kill()
	if _, err := c.Do(t.Context(), Call(c.Era, "7", "counter", "")); err == nil {
		t.Error("a killed server answers")
	}
	again, _ := StartRaw(t, "-http", strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/mcp"))
	var status *StatusError
	_, err := c.Do(t.Context(), Call(c.Era, "7", "counter", ""))
	if again != url || !errors.As(err, &status) || status.Status != http.StatusNotFound {
		t.Errorf("started again at %s, was at %s: %v", again, url, err)
	}
	opened(t, c)
}

func TestCredentialsAreAskedFor(t *testing.T) {
	for _, era := range []string{rawmcp.Modern, rawmcp.Legacy} {
		_, url := ServeRaw(t, rawmcp.Options{})
		c := &HTTP{URL: url, Era: era}
		opened(t, c)
		x, err := c.Exchange(t.Context(), Call(era, "7", "challenge", ""), nil)
		if err != nil || x.Status != http.StatusUnauthorized || len(x.Header.Values("WWW-Authenticate")) != 2 ||
			!strings.Contains(x.Header.Get("WWW-Authenticate"), rawmcp.ForeignHost) {
			t.Errorf("challenge: %+v, %v", x, err)
		}
		x, err = c.Exchange(t.Context(), Call(era, "7", "redirect", ""), nil)
		if err != nil || x.Status != http.StatusTemporaryRedirect ||
			!strings.Contains(x.Header.Get("Location"), rawmcp.ForeignHost) {
			t.Errorf("redirect: %+v, %v", x, err)
		}
		_, url = ServeRaw(t, rawmcp.Options{Modes: []string{"challenge"}})
		if _, err := (&HTTP{URL: url, Era: era}).Open(t.Context()); err == nil || !strings.Contains(err.Error(), "401") {
			t.Errorf("opening is not challenged: %v", err)
		}
		_, url = ServeRaw(t, rawmcp.Options{Key: "a-key"})
		if _, err := (&HTTP{URL: url, Era: era}).Open(t.Context()); err == nil || !strings.Contains(err.Error(), "401") {
			t.Errorf("no key: %v", err)
		}
		opened(t, &HTTP{URL: url, Era: era, Header: Bearer("a-key")})
	}
}

// TestHeadersAgree plants headers that differ from the body.
func TestHeadersAgree(t *testing.T) {
	_, url := ServeRaw(t, rawmcp.Options{})
	c := &HTTP{URL: url, Era: rawmcp.Modern}
	request := Call(c.Era, "7", "region", `{"region":"eu-wést"}`)
	for name, values := range map[string][]string{"Mcp-Method": {"tools/list", ""}, "Mcp-Name": {"echo", ""},
		"MCP-Protocol-Version": {rawmcp.Legacy, ""}, "Mcp-Param-Region": {"us", ""}} {
		for _, value := range values {
			x, err := c.Exchange(t.Context(), request, http.Header{name: {value}})
			if err != nil || x.Status != http.StatusBadRequest || !bytes.Contains(x.Raw, []byte("-32020")) {
				t.Errorf("%s %q: %+v, %v", name, value, x, err)
			}
		}
	}
	if x, err := c.Exchange(t.Context(), request, nil); err != nil || x.Status != http.StatusOK {
		t.Errorf("headers that agree: %+v, %v", x, err)
	}
	x, err := c.Exchange(t.Context(), Request(c.Era, "7", "vendor/none", ""), nil)
	if err != nil || x.Status != http.StatusNotFound || !bytes.Contains(x.Raw, []byte("-32601")) {
		t.Errorf("an unknown method: %+v, %v", x, err)
	}
}

func TestServersOfOneEra(t *testing.T) {
	_, url := ServeRaw(t, rawmcp.Options{Versions: []string{rawmcp.Legacy}})
	_, err := (&HTTP{URL: url, Era: rawmcp.Modern}).Open(t.Context())
	if err == nil || !strings.Contains(err.Error(), "-32022") {
		t.Errorf("the newer era at a server of the older: %v", err)
	}
	opened(t, &HTTP{URL: url, Era: rawmcp.Legacy})
	_, url = ServeRaw(t, rawmcp.Options{Versions: []string{rawmcp.Modern}})
	opened(t, &HTTP{URL: url, Era: rawmcp.Modern})
	x, err := (&HTTP{URL: url, Era: rawmcp.Legacy}).Exchange(t.Context(), opening(rawmcp.Legacy), nil)
	if err != nil || !bytes.Contains(x.Raw, []byte("-32022")) {
		t.Errorf("the older era at a server of the newer: %+v, %v", x, err)
	}
}

func TestVendorEvent(t *testing.T) {
	_, url := ServeRaw(t, rawmcp.Options{})
	c := &HTTP{URL: url, Era: rawmcp.Modern}
	x, err := c.Exchange(t.Context(), Call(c.Era, "7", "vendor-event", ""), nil)
	if err != nil || len(x.Events) != 2 || x.Events[0].Name != "vendor" || Text(x.Events[1].Data) != "read" {
		t.Errorf("%+v, %v", x, err)
	}
}
