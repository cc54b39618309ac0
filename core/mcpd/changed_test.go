package mcpd_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/testkit/doortest"
	"github.com/yett-dev/yett/sdk/wire"
)

// Clients that listen are told when other rules are in force.
func TestToolsChanged(t *testing.T) {
	hold := make(chan struct{})
	defer close(hold)
	g := newRig(t, func(w http.ResponseWriter, r received) {
		if strings.Contains(r.body, "initialize") {
			w.Header().Set("Mcp-Session-Id", "s-1")
			plain(`{}`)(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, ": open\n\n")
		w.(http.Flusher).Flush()
		<-hold
	})
	id := g.initialize(`{}`)
	older := g.open(http.MethodGet, "", "Mcp-Session-Id", id)
	defer older.Body.Close()
	newer := g.open(http.MethodPost, `{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":`+
		`{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`)
	defer newer.Body.Close()
	a, b := bufio.NewReader(older.Body), bufio.NewReader(newer.Body)
	event(t, a)
	event(t, b)
	g.gw.ToolsChanged()
	if got := event(t, a); !strings.Contains(got, `"method":"notifications/tools/list_changed"`) {
		t.Error(got)
	}
	if got := event(t, b); !strings.Contains(got, `"io.modelcontextprotocol/subscriptionId":"l"`) {
		t.Error(got)
	}
}

// A killed agent's calls are not forwarded, and it is told of no tool.
func TestKilled(t *testing.T) {
	g := newRig(t, plain(`{"content":[],"tools":[{"name":"read"}]}`))
	if _, err := g.bench.Service.Kill(context.Background(), doortest.Operator, &wire.KillRequest{Scope: "agent",
		Target: "agent", Reason: "test"}); err != nil {
		t.Fatal(err)
	}
	if _, _, got := g.send(call(1, "read", `{}`)); !strings.Contains(got, `"isError":true`) {
		t.Error(got)
	}
	if sent := g.requests(); len(sent) != 0 {
		t.Errorf("the server got %+v", sent)
	}
	if _, _, got := g.send(list); strings.Contains(got, `"name":"read"`) {
		t.Error(got)
	}
}

// What is too long for the limits is refused before anything is asked.
func TestTooLong(t *testing.T) {
	g := newRig(t, plain(`{"content":[]}`))
	status, _, got := g.send(call(1, "read", `{"s":"`+strings.Repeat("x", int(g.bench.Limits.AuthorizeBody))+`"}`))
	if status != 413 || !strings.Contains(got, `"reason_code":"too_large"`) {
		t.Errorf("%d %s", status, got)
	}
	if calls := g.bench.Calls(); len(calls) != 0 {
		t.Errorf("asked about %q", calls)
	}
}
