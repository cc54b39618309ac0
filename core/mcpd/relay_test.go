package mcpd_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// streamed answers with a stream of events, in which ID is the request's id.
func streamed(stream string) answer {
	return func(w http.ResponseWriter, r received) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte(strings.ReplaceAll(stream, "ID", idOf(r.body)))) // in vain: the gateway has gone
	}
}

func resultEvent(name, text string) string {
	return fmt.Sprintf(`%sdata: {"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":%q}]}}`+"\n\n", name, text)
}

// TestOneAnswer has a server answer a request twice, and under names of events that clients pass over. A client gets
// one answer, the one that every client takes for it.
func TestOneAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		stream string
		want   []string
		not    []string
	}{
		"twice": {resultEvent("", "first") + resultEvent("", "second"), []string{`"first"`}, []string{"second"}},
		"an error after it": {resultEvent("", "first") + `data: {"jsonrpc":"2.0","id":ID,"error":{"code":1,"message":"late"}}` +
			"\n\n", []string{`"first"`}, []string{"late"}},
		"another name first": {resultEvent("event: vendor\n", "hidden") + resultEvent("event: message\n", "read"),
			[]string{"read", ":\n\n"}, []string{"hidden", "vendor"}},
		"another name alone": {resultEvent("event: vendor\n", "hidden"), []string{"ended its answer before the result"},
			[]string{"hidden"}},
		"the stream's time to try again": {"event: close\nretry: 50\ndata: hidden\n\n" + resultEvent("", "read"),
			[]string{":\nretry: 50\n\n", "read"}, []string{"hidden", "close"}},
		"no message": {"event: ping\ndata: 2026-11-28\n\n" + resultEvent("", "read"), []string{"read", ":\n\n"},
			[]string{"ping", "error"}},
		"a notification after it": {resultEvent("", "first") +
			`data: {"jsonrpc":"2.0","method":"notifications/message","params":{"data":"late"}}` + "\n\n",
			[]string{`"first"`, "late"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, streamed(c.stream))
			_, _, body := g.send(call(7, "read", `{}`))
			for _, want := range c.want {
				if !strings.Contains(body, want) {
					t.Errorf("no %q in %q", want, body)
				}
			}
			for _, not := range c.not {
				if strings.Contains(body, not) {
					t.Errorf("%q in %q", not, body)
				}
			}
		})
	}
}

// TestNoAnswerInTheNewerEra has a server of the newer era send a request, which there are none of: it is dropped, and
// nothing is posted to the server that it could take for something else.
func TestNoAnswerInTheNewerEra(t *testing.T) {
	g := newRig(t, streamed(`data: {"jsonrpc":"2.0","id":1,"method":"vendor/run","params":{}}`+"\n\n"+resultEvent("", "done")))
	_, _, body := g.send(modern(7, "read", `{}`, ""))
	if got := g.requests(); len(got) != 1 || strings.Contains(body, "vendor/run") || !strings.Contains(body, "done") {
		t.Errorf("the server got %d messages, the client %q", len(got), body)
	}
}
