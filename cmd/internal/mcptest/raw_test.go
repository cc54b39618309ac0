package mcptest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/cmd/internal/e2e"
	"github.com/yett-dev/yett/cmd/internal/mcptest/rawmcp"
)

func TestMain(m *testing.M) { os.Exit(e2e.Run(m)) }

// madeSecret looks like nothing that a scanner of the house's rules knows.
const madeSecret = "the-secret-of-the-test"

// way is one way to reach a raw server.
type way struct {
	era     string
	conn    Conn
	records func() []rawmcp.Record
}

func (w *way) http() *HTTP { c, _ := w.conn.(*HTTP); return c }

// eachWay runs a test in both eras over HTTP and stdio. The connections are open.
func eachWay(t *testing.T, opt rawmcp.Options, run func(*testing.T, *way)) {
	opt.Secret = madeSecret
	for _, era := range []string{rawmcp.Modern, rawmcp.Legacy, rawmcp.Older} {
		t.Run("http "+era, func(t *testing.T) {
			server, url := ServeRaw(t, opt)
			w := &way{era, &HTTP{URL: url, Era: era}, server.Records}
			opened(t, w.conn)
			run(t, w)
		})
		t.Run("stdio "+era, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "records")
			c := StartStdio(t, era, nil, RawProgram(t), "-record", file, "-secret", madeSecret, "-mode",
				strings.Join(opt.Modes, ","))
			w := &way{era, c, func() []rawmcp.Record {
				records, err := rawmcp.ReadRecords(file)
				if err != nil {
					t.Fatal(err)
				}
				return records
			}}
			opened(t, w.conn)
			run(t, w)
		})
	}
}

func opened(t *testing.T, c Conn) {
	t.Helper()
	answer, err := c.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(answer, []byte(`"name":"yett-raw"`)) {
		t.Fatalf("opening: %s", answer)
	}
}

// call calls a tool and gives its messages.
func (w *way) call(t *testing.T, tool, arguments string) [][]byte {
	t.Helper()
	messages, err := do(t.Context(), w.conn, Call(w.era, "7", tool, arguments))
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	return messages
}

func (w *way) text(t *testing.T, tool, arguments string) string {
	t.Helper()
	messages := w.call(t, tool, arguments)
	return Text(messages[len(messages)-1])
}

// asEra is a fixed result in the bytes of an era.
func asEra(era, id, result string) string {
	if era == rawmcp.Modern {
		result = `{"resultType":"complete",` + result[1:]
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"result":` + result + `}`
}

func TestResultsAreTheirBytes(t *testing.T) {
	fixed := rawmcp.FixedResults()
	if len(fixed) < 12 {
		t.Fatalf("only %d tools have fixed results", len(fixed))
	}
	for _, sse := range []bool{false, true} {
		eachWay(t, rawmcp.Options{SSE: sse}, func(t *testing.T, w *way) {
			for tool, result := range fixed {
				if w.http() != nil && (tool == "challenge" || tool == "redirect") {
					continue
				}
				got := w.call(t, tool, `{}`)
				if want := asEra(w.era, "7", result); len(got) != 1 || string(got[0]) != want {
					t.Errorf("%s: %q, want %s", tool, got, want)
				}
			}
		})
	}
}

// TestProbesArriveAndReturn sends each probe over two connections, as a gateway's test does.
func TestProbesArriveAndReturn(t *testing.T) {
	eachWay(t, rawmcp.Options{}, func(t *testing.T, w *way) {
		_, url := ServeRaw(t, rawmcp.Options{SSE: true, Secret: madeSecret})
		probes := append(Probes(w.era), Lists(w.era)...)
		if w.http() == nil { // forms are those of HTTP
			probes = slices.DeleteFunc(probes, func(p Probe) bool { return p.Name == "forms" })
		}
		if len(probes) < 25 {
			t.Errorf("only %d probes", len(probes))
		}
		CompareProbes(t, probes, &HTTP{URL: url, Era: w.era}, w.conn)
		for _, problem := range Arrived(probes, w.records()) {
			t.Error(problem)
		}
		other := []Probe{{"never sent", []byte(`{}`)}}
		if got := Arrived(other, w.records()); len(got) != 1 {
			t.Errorf("what was never sent is not missed: %q", got)
		}
	})
}

func TestEchoGivesTheArguments(t *testing.T) {
	eachWay(t, rawmcp.Options{}, func(t *testing.T, w *way) {
		got := w.call(t, "echo", arguments)[0]
		if !bytes.Contains(got, []byte(`"structuredContent":`+arguments)) || Text(got) != arguments {
			t.Errorf("echo gave %s", got)
		}
	})
}

func TestLargeAnswers(t *testing.T) {
	eachWay(t, rawmcp.Options{}, func(t *testing.T, w *way) {
		if n := len(w.text(t, "large", "")); n != rawmcp.LargeText {
			t.Errorf("the text has %d bytes", n)
		}
		messages := w.call(t, "events", "")
		if len(messages) != rawmcp.Events+1 || !bytes.Contains(messages[rawmcp.Events-1], []byte(`{"n":9999,"f":0.10}`)) {
			t.Errorf("%d messages, the last but one is %s", len(messages), messages[len(messages)-2])
		}
	})
}

func TestNotificationsOfACall(t *testing.T) {
	eachWay(t, rawmcp.Options{}, func(t *testing.T, w *way) {
		messages := w.call(t, "progress", "")
		if len(messages) != 4 || !bytes.Contains(messages[2], []byte(`"progressToken":7,"progress":2.10,"total":1e3`)) {
			t.Errorf("progress: %q", messages)
		}
		messages = w.call(t, "log", "")
		if len(messages) != 2 || !bytes.Contains(messages[0], []byte(`"n":12345678901234567890`)) {
			t.Errorf("log: %q", messages)
		}
	})
}

// TestFormsOfEvents reads streams that the format allows and few servers send.
func TestFormsOfEvents(t *testing.T) {
	for _, era := range []string{rawmcp.Modern, rawmcp.Legacy} {
		_, url := ServeRaw(t, rawmcp.Options{})
		c := &HTTP{URL: url, Era: era}
		opened(t, c)
		x, err := c.Exchange(t.Context(), Call(era, "7", "forms", ""), nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(x.Events) != 7 || len(x.Messages) != 4 || x.Events[4].Name != "message" || x.Events[6].ID != "form-3" {
			t.Fatalf("%d events, %d messages: %s", len(x.Events), len(x.Messages), x.Raw)
		}
		var m struct{ ID int }
		if err := json.Unmarshal(x.Messages[3], &m); err != nil || m.ID != 7 || Text(x.Messages[3]) != "forms" {
			t.Errorf("the answer in two lines is %s: %v", x.Messages[3], err)
		}
		if !bytes.Equal(x.Raw, bytes.Join([][]byte{x.Events[0].Raw, x.Events[1].Raw, x.Events[2].Raw, x.Events[3].Raw,
			x.Events[4].Raw, x.Events[5].Raw, x.Events[6].Raw}, nil)) {
			t.Error("the events are not the stream's bytes")
		}
	}
}

// TestServerAsks has the server ask its client, by a request in the older era and by a result in the newer one.
func TestServerAsks(t *testing.T) {
	for tool, method := range map[string]string{"elicit": "elicitation/create", "elicit-url": "elicitation/create",
		"phish": "elicitation/create", "phish-form": "elicitation/create", "sample": "sampling/createMessage",
		"sample-secret": "sampling/createMessage", "roots": "roots/list", "flood": "sampling/createMessage"} {
		eachWay(t, rawmcp.Options{}, func(t *testing.T, w *way) {
			const answer = `{"action":"accept","n":12345678901234567890}`
			if w.era == rawmcp.Modern {
				modernAsks(t, w, tool, method, answer)
				return
			}
			asked := 0
			answerer := func(request []byte) []byte {
				asked++
				if tool == "flood" && asked < rawmcp.SamplingFlood {
					return nil
				}
				return AnswerTo(method, answer)(request)
			}
			if c := w.http(); c != nil {
				c.Answer = answerer
			} else {
				w.conn.(*Stdio).Answer = answerer
			}
			if got := w.text(t, tool, ""); got != "answered: "+answer {
				t.Errorf("%s: %q", tool, got)
			}
			if want := map[bool]int{true: rawmcp.SamplingFlood, false: 1}[tool == "flood"]; asked != want {
				t.Errorf("%s asked %d times, want %d", tool, asked, want)
			}
		})
	}
}

func modernAsks(t *testing.T, w *way, tool, method, answer string) {
	t.Helper()
	var m struct {
		Result struct {
			ResultType    string
			InputRequests map[string]struct{ Method string }
			RequestState  string
		}
	}
	messages := w.call(t, tool, "")
	if err := json.Unmarshal(messages[0], &m); err != nil || m.Result.ResultType != "input_required" {
		t.Fatalf("%s: %s: %v", tool, messages[0], err)
	}
	if tool == "flood" {
		if n := len(m.Result.InputRequests); n != rawmcp.SamplingFlood {
			t.Errorf("%d requests", n)
		}
		return
	}
	if got := m.Result.InputRequests["raw"].Method; got != method {
		t.Errorf("%s asks by %s", tool, got)
	}
	state, err := json.Marshal(m.Result.RequestState)
	if err != nil {
		t.Fatal(err)
	}
	repeat := func(state string) []byte {
		return Request(w.era, "8", "tools/call", fmt.Sprintf(`"name":%q,"inputResponses":{"raw":%s},"requestState":%s`, tool,
			answer, state))
	}
	messages, err = do(t.Context(), w.conn, repeat(string(state)))
	if err != nil || Text(messages[0]) != "answered: "+answer {
		t.Errorf("%s repeated: %q, %v", tool, messages, err)
	}
	messages, err = do(t.Context(), w.conn, repeat(`"another"`))
	if err != nil || !bytes.Contains(messages[0], []byte(`"code":-32602`)) {
		t.Errorf("%s repeated with another state: %q, %v", tool, messages, err)
	}
}

func TestSessionsCount(t *testing.T) {
	_, url := ServeRaw(t, rawmcp.Options{})
	for range 2 { // the second session counts from one again
		c := &HTTP{URL: url, Era: rawmcp.Legacy}
		opened(t, c)
		for n := 1; n < 3; n++ {
			messages, err := c.Do(t.Context(), Call(c.Era, "1", "counter", ""))
			if err != nil || Text(messages[0]) != fmt.Sprint(n) {
				t.Errorf("counted %q, %v; want %d", messages, err, n)
			}
		}
		if status, err := c.End(t.Context()); err != nil || status != http.StatusOK {
			t.Errorf("the session's end: %d, %v", status, err)
		}
		var status *StatusError
		if _, err := c.Do(t.Context(), Call(c.Era, "1", "counter", "")); !errors.As(err, &status) || status.Status != 404 {
			t.Errorf("after the end: %v", err)
		}
	}
}

// TestListChange sees the notification where each era and transport brings it.
func TestListChange(t *testing.T) {
	eachWay(t, rawmcp.Options{}, func(t *testing.T, w *way) {
		const changed = "notifications/tools/list_changed"
		ctx, cancel := context.WithTimeout(t.Context(), probeWithin)
		defer cancel()
		c := w.http()
		if c == nil {
			stdioListChange(ctx, t, w, changed)
			return
		}
		began, news := make(chan bool, 1), make(chan Event, 1)
		go func() {
			if w.era == rawmcp.Modern {
				resp, err := c.Post(ctx, Request(w.era, `"sub"`, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`), nil)
				if err != nil {
					t.Error(err)
					return
				}
				defer func() { _ = resp.Body.Close() }()
				_ = ReadEvents(resp.Body, func(e Event) bool { // the test's end ends it
					if bytes.Contains(e.Data, []byte("acknowledged")) {
						began <- true
					} else {
						news <- e
					}
					return true
				})
				return
			}
			began <- true // what comes before the stream begins is replayed
			_ = c.Listen(ctx, "", func(e Event) bool { news <- e; return false })
		}()
		<-began
		w.call(t, "change", "")
		select {
		case e := <-news:
			if !bytes.Contains(e.Data, []byte(changed)) {
				t.Errorf("event %s", e.Raw)
			}
		case <-ctx.Done():
			t.Fatal("no notification came")
		}
		if w.era != rawmcp.Modern { // resumption: only what came after
			w.call(t, "change", "")
			if err := c.Listen(ctx, "event-1", func(e Event) bool { news <- e; return false }); err != nil {
				t.Fatal(err)
			}
			if e := <-news; e.ID != "event-2" {
				t.Errorf("resumed with %q", e.ID)
			}
		}
	})
}

func stdioListChange(ctx context.Context, t *testing.T, w *way, changed string) {
	t.Helper()
	c := w.conn.(*Stdio)
	if w.era == rawmcp.Modern {
		if err := c.Send(Request(w.era, `"sub"`, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`)); err != nil {
			t.Fatal(err)
		}
		if line, err := c.Next(ctx); err != nil || !bytes.Contains(line, []byte("acknowledged")) {
			t.Fatalf("%s, %v", line, err)
		}
	}
	if err := c.Send(Call(w.era, "7", "change", "")); err != nil {
		t.Fatal(err)
	}
	var got []byte
	for range 2 { // the notification and the answer, in any order
		line, err := c.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, line...)
	}
	if !bytes.Contains(got, []byte(changed)) {
		t.Errorf("no notification: %s", got)
	}
}

// TestCancel sees that a call ends when its client cancels it, or goes.
func TestCancel(t *testing.T) {
	eachWay(t, rawmcp.Options{}, func(t *testing.T, w *way) {
		ctx, cancel := context.WithTimeout(t.Context(), probeWithin)
		defer cancel()
		request := Call(w.era, "7", "slow", "")
		cancelled := fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
		if c := w.http(); c != nil {
			resp, err := c.Post(ctx, request, nil)
			if err != nil {
				t.Fatal(err)
			}
			_ = ReadEvents(resp.Body, func(Event) bool { return false }) // it has begun
			if w.era == rawmcp.Modern {
				_ = resp.Body.Close() // which is how the newer era cancels
			} else {
				if err := c.Notify(ctx, cancelled); err != nil {
					t.Fatal(err)
				}
				defer func() { _ = resp.Body.Close() }()
			}
		} else {
			c := w.conn.(*Stdio)
			if err := c.Send(request); err != nil {
				t.Fatal(err)
			}
			if line, err := c.Next(ctx); err != nil || !bytes.Contains(line, []byte("begun")) {
				t.Fatalf("%s, %v", line, err)
			}
			if err := c.Send(cancelled); err != nil {
				t.Fatal(err)
			}
		}
		if err := WaitRecord(ctx, w.records, func(r rawmcp.Record) bool {
			return r.Event == rawmcp.Ended && bytes.Equal(r.Body, request)
		}); err != nil {
			t.Error(err)
		}
	})
}

// TestWaitRecord gives up when nothing comes.
func TestWaitRecord(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	server := rawmcp.New(rawmcp.Options{})
	if err := WaitRecord(ctx, server.Records, func(rawmcp.Record) bool { return true }); err == nil {
		t.Error("a record that never came was seen")
	}
}
