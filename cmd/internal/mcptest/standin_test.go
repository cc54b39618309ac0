package mcptest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/yett-dev/yett/cmd/internal/mcptest/rawmcp"
)

// TestForwardKeepsBytes has a forwarder stand where a gateway will: it changes no byte, in either direction.
func TestForwardKeepsBytes(t *testing.T) {
	for _, era := range []string{rawmcp.Modern, rawmcp.Legacy} {
		server, url := ServeRaw(t, rawmcp.Options{Key: "a-key"})
		_, other := ServeRaw(t, rawmcp.Options{})
		forwarded := Forward(t, url, Bearer("a-key"))
		probes := append(Probes(era), Lists(era)...)
		CompareProbes(t, probes, &HTTP{URL: other, Era: era}, &HTTP{URL: forwarded, Era: era})
		for _, problem := range Arrived(probes, server.Records()) {
			t.Error(problem)
		}
	}
}

// TestForwardStreams sees an event before the call has ended, and the call end when its client goes.
func TestForwardStreams(t *testing.T) {
	server, url := ServeRaw(t, rawmcp.Options{})
	c := &HTTP{URL: Forward(t, url, nil), Era: rawmcp.Modern}
	resp, err := c.Post(t.Context(), Call(c.Era, "7", "slow", ""), nil)
	if err != nil {
		t.Fatal(err)
	}
	var came bool
	err = ReadEvents(resp.Body, func(e Event) bool { came = bytes.Contains(e.Data, []byte("begun")); return false })
	_ = resp.Body.Close()
	if err != nil || !came {
		t.Fatalf("the event did not come: %v", err)
	}
	if err := WaitRecord(t.Context(), server.Records, GivenUp); err != nil {
		t.Error(err)
	}
}

func TestForwardHost(t *testing.T) {
	server, url := ServeRaw(t, rawmcp.Options{})
	for _, keeps := range []bool{true, false} {
		to := Forward(t, url, nil)
		if !keeps {
			to = ForwardOwnHost(t, url)
		}
		c := &HTTP{URL: to, Era: rawmcp.Modern, Header: http.Header{"Host": {"evil.example"}}}
		opened(t, c)
		records := server.Records()
		if got := records[len(records)-1].Host; (got == "evil.example") != keeps {
			t.Errorf("keeps Host: %t, the server saw %s", keeps, got)
		}
		c.Header = http.Header{"Origin": {strings.TrimSuffix(to, "/mcp")}}
		opened(t, c)
		records = server.Records()
		last, want := records[len(records)-1], strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/mcp")
		if got := last.Header["Origin"][0]; last.Host != want || got != "http://"+want {
			t.Errorf("the forwarder's own address became Host %s and Origin %s, want %s", last.Host, got, want)
		}
	}
}

// reencode is what a gateway must not do: it decodes what passes into Go's values and encodes these.
func reencode(t *testing.T, to string, requests, answers bool) string {
	again := func(raw []byte) []byte {
		var v any
		if json.Unmarshal(raw, &v) != nil {
			return raw
		}
		out, err := json.Marshal(v)
		if err != nil {
			return raw
		}
		return out
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if requests {
			body = again(body)
		}
		out, err := http.NewRequestWithContext(r.Context(), r.Method, to, bytes.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		out.Header = r.Header.Clone()
		resp, err := raw.Do(out)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = resp.Body.Close() }()
		for name, values := range resp.Header {
			if name != "Content-Length" {
				w.Header()[name] = values
			}
		}
		w.WriteHeader(resp.StatusCode)
		answer, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Error(err)
		}
		if answers && strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
			answer = again(answer)
		}
		_, _ = w.Write(answer)
	}))
	t.Cleanup(web.Close)
	return web.URL
}

// TestProbesFindEncoders has the rig look at what it is for: a gateway that encodes anew is found, on each way.
func TestProbesFindEncoders(t *testing.T) {
	for _, era := range []string{rawmcp.Modern, rawmcp.Legacy} {
		_, url := ServeRaw(t, rawmcp.Options{})
		probes := Probes(era)
		problems := Differences(t.Context(), probes, &HTTP{URL: url, Era: era},
			&HTTP{URL: reencode(t, url, false, true), Era: era})
		for _, name := range []string{"numbers", "unicode", "echo", "meta", "blob", "rpc-error"} {
			if !slices.ContainsFunc(problems, func(p string) bool { return strings.HasPrefix(p, name+":") }) {
				t.Errorf("%s: %s passes an encoder: %q", era, name, problems)
			}
		}
		server, behind := ServeRaw(t, rawmcp.Options{})
		sent := []Probe{{"echo", Call(era, "9007199254740993", "echo", arguments)}}
		Differences(t.Context(), sent, &HTTP{URL: url, Era: era}, &HTTP{URL: reencode(t, behind, true, false), Era: era})
		if got := Arrived(sent, server.Records()); len(got) != 1 || len(server.Records()) < 2 {
			t.Errorf("%s: a request that was encoded anew passes among %d: %q", era, len(server.Records()), got)
		}
	}
}
