package core

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/yett-dev/yett/core/ops"
)

// taken is a collector, and what it has got.
func taken(t *testing.T) (endpoint string, got func() string) {
	var mu sync.Mutex
	var all strings.Builder
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		all.Write(body)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1/traces", func() string {
		mu.Lock()
		defer mu.Unlock()
		return all.String()
	}
}

// callersTrace is the trace of the caller's header.
const callersTrace = "4bf92f3577b34da6a3ce929d0e0e4736"

// A request over HTTP is followed when its traceparent says so, and its spans are in the caller's trace.
func TestTracesOverHTTP(t *testing.T) {
	endpoint, got := taken(t)
	g, _ := benchGatewayOf(t, fmt.Sprintf("version: 1\nserver: {metrics: \"off\"}\nconsole: {enabled: false}\nsocket: "+
		"{enabled: false}\ntraces: {endpoint: %q}\nchains: {authorize: {steps: [{name: house, rules: [rules.yaml]}]}}\n",
		endpoint))
	ctx := context.Background()
	if err := g.Start(ctx); err != nil {
		t.Fatal(err)
	}
	made, err := g.Service().CreateKey(ctx, ops.KeySpec{Name: "http", Preset: "agent"}, operator)
	if err != nil {
		t.Fatal(err)
	}
	for _, flags := range []string{"00", "01"} {
		req, err := http.NewRequest(http.MethodPost, g.URL()+"/v1/authorize",
			strings.NewReader(`{"agent_id":"a","tool_id":"files/read"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+made.Value)
		req.Header.Set("Traceparent", "00-"+callersTrace+"-00f067aa0ba902b7-"+flags)
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != http.StatusOK {
			t.Fatalf("it was answered %s", resp.Status)
		}
	}
	g.tracer.Close(ctx)
	g.tracer = nil
	raw, err := hex.DecodeString(callersTrace)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(got(), string(raw)); n != 3 {
		t.Errorf("%d spans are in the caller's trace, want those of one request, one step and one commit", n)
	}
}

// A request's trace goes to the collector, through each step and the commit, with no word of what was asked.
func TestTracesOfACall(t *testing.T) {
	endpoint, got := taken(t)
	w := newWorld(t, func(w *world) {
		w.write(w.guest("authorizer", "good:one"), guestStep, fmt.Sprintf("traces: {endpoint: %q}\n", endpoint))
	})
	for _, flags := range []string{"00", "01"} {
		for _, c := range []struct{ op, body string }{
			{"authorize", `{"agent_id":"agent-x","tool_id":"guest/x","args":{"secret":"of-the-call"}}`},
			{"scan_output", `{"tool_id":"guest/x","output":"db_password = \"of-the-text\""}`},
		} {
			call := newCaller(t, w.g, w.key, c.op, c.body)
			call.req.Trace = w.g.follow("00-" + callersTrace + "-00f067aa0ba902b7-" + flags)
			if _, err := call.call(); err != nil {
				t.Fatal(err)
			}
		}
		if sent, dropped := w.g.tracer.Counts(); flags == "00" && sent+dropped > 0 {
			t.Errorf("%d spans of a trace that is not sampled", sent+dropped)
		}
	}
	w.g.tracer.Close(context.Background())
	w.g.tracer = nil
	for _, want := range []string{"authorize house", "authorize guest", "scan secrets", "commit", "scan_output",
		"yett.decision_id", "dec_", "yett.result", "DENY"} {
		if !strings.Contains(got(), want) {
			t.Errorf("no span has %q", want)
		}
	}
	for _, secret := range []string{"of-the", "agent-x", "guest/x", "db_password"} {
		if strings.Contains(got(), secret) {
			t.Errorf("a span has %q of what was asked", secret)
		}
	}
	if n := strings.Count(got(), "commit"); n != 2 {
		t.Errorf("%d commits", n)
	}
}
