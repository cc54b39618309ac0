package core

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/admin"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
)

// Clients that listen are told to list the tools again once an operator has accepted a definition.
func TestAcceptedToolsAreHeardOf(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, ": open\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer up.Close()
	g, _ := benchGatewayOf(t, "version: 1\nserver: {metrics: off}\nconsole: {enabled: false}\nsocket: {enabled: false}\n"+
		"mcp: {enabled: true, listen: \"127.0.0.1:0\", servers: {up: {url: \""+up.URL+"\"}}}\n"+
		"chains: {authorize: {steps: [{name: rules, rules: [rules.yaml]}]}}\n")
	ctx := context.Background()
	if err := g.Start(ctx); err != nil {
		t.Fatal(err)
	}
	key, err := g.Service().CreateKey(ctx, ops.KeySpec{Name: "listener", Preset: "agent"}, operator)
	if err != nil {
		t.Fatal(err)
	}
	digest := "sha256:" + strings.Repeat("0", 64)
	if _, err := g.store.NoteTool(ctx, store.SeeTool{Server: "up", Tool: "read", Digest: digest, Text: "{}", Ask: true,
		By: operator}); err != nil {
		t.Fatal(err)
	}
	listening, stop := context.WithTimeout(ctx, 20*time.Second)
	defer stop()
	r, err := http.NewRequestWithContext(listening, http.MethodPost, g.MCPURL()+"/mcp/up", strings.NewReader(
		`{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},`+
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key.Value)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), ":") { // what the server said first
	}
	c, err := admin.Dial(g.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var done admin.AcceptRequest
	if err := c.Do(ctx, "POST", "/mcp/accept", admin.AcceptRequest{Server: "up", Tool: "read", Digest: digest},
		&done); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
		if strings.Contains(lines.Text(), "notifications/tools/list_changed") {
			return
		}
	}
	t.Errorf("the stream has ended: %v", lines.Err())
}
