package mcpd_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/testkit/doortest"
	"github.com/yett-dev/yett/sdk/wire"
)

// A call that was permitted and has not been handed over when a kill returns is never handed over.
func TestKillBeforeTheServerReads(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	g := newRig(t, plain(`{}`), func(m *config.MCP) {
		m.Servers = map[string]config.MCPServer{"up": {URL: "https://" + ln.Addr().String(),
			Timeout: config.Duration(time.Minute)}}
	})
	answered := make(chan string, 1)
	go func() {
		_, _, got := g.send(call(1, "read", `{}`))
		answered <- got
	}()
	conn, err := ln.Accept() // and no handshake: the call waits to be written
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if took := g.kill("tool", "mcp.up/read"); took > 1900*time.Millisecond {
		t.Errorf("the kill waited for %s, in vain", took)
	}
	select {
	case got := <-answered:
		if !strings.Contains(got, "stopped by a kill") {
			t.Error(got)
		}
	case <-time.After(10 * time.Second):
		t.Error("the call still waits for the server")
	}
}

// Nothing goes on for a key that is revoked or an agent that is killed: no stream, and no answer of a call that runs.
func TestStoppedStreams(t *testing.T) {
	for name, stop := range map[string]func(g *rig, b *doortest.Bench){
		"kill":        func(g *rig, _ *doortest.Bench) { g.kill("agent", "tester") },
		"global kill": func(g *rig, _ *doortest.Bench) { g.kill("global", "") },
		"revoked":     func(g *rig, b *doortest.Bench) { b.Revoke(g.made) },
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			goOn := make(chan struct{})
			g := newRig(t, func(w http.ResponseWriter, r received) {
				if strings.Contains(r.body, `"initialize"`) {
					withSessions("")(w, r)
					return
				}
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, ":\n\n")
				_ = http.NewResponseController(w).Flush()
				<-goOn
				_, _ = io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n"+
					"data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[]}}\n\n")
			})
			id, body := g.initialize(`{}`), ""
			if method == http.MethodPost {
				body = call(1, "read", `{}`)
			}
			resp := g.open(method, body, "Mcp-Session-Id", id)
			if _, err := io.ReadFull(resp.Body, make([]byte, 3)); err != nil {
				t.Fatal(err)
			}
			stop(g, g.bench)
			ended := make(chan string, 1)
			go func() {
				rest, _ := io.ReadAll(resp.Body) // an end by force is one too
				ended <- string(rest)
			}()
			select {
			case got := <-ended:
				if strings.Contains(got, "list_changed") || strings.Contains(got, "content") {
					t.Errorf("%s, %s: %q", name, method, got)
				}
			case <-time.After(5 * time.Second):
				t.Errorf("%s, %s: the stream goes on", name, method)
			}
			close(goOn)
			resp.Body.Close()
			g.requests()
			notice := `{"jsonrpc":"2.0","method":"notifications/initialized"}`
			for verb, body := range map[string]string{http.MethodGet: "", http.MethodPost: notice} {
				if status, _, got := g.do(verb, body, "Mcp-Session-Id", id); status < 401 || status > 403 {
					t.Errorf("%s: a new %s: %d %s", name, verb, status, got)
				}
			}
			if sent := g.requests(); len(sent) != 0 {
				t.Errorf("%s: the server got %+v", name, sent)
			}
		}
	}
}

// kill stops something, as an operator does. It gives how long that took.
func (g *rig) kill(scope, target string) time.Duration {
	g.t.Helper()
	began := time.Now()
	if _, err := g.bench.Service.Kill(context.Background(), doortest.Operator,
		&wire.KillRequest{Scope: scope, Target: target}); err != nil {
		g.t.Error(err)
	}
	return time.Since(began)
}
