package mcptest

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/yett-dev/yett/cmd/internal/mcptest/rawmcp"
)

// eras are those that a gateway must carry.
var eras = []string{rawmcp.Modern, rawmcp.Legacy, rawmcp.Older}

// TestGatewayKeepsBytes holds the gateway against no gateway: with rules that permit everything and scanners that find
// nothing, both directions carry the same bytes. Among the probes are a result of 4 MiB and an answer of 10 000 events.
func TestGatewayKeepsBytes(t *testing.T) {
	server, url := ServeRaw(t, rawmcp.Options{})
	streamed, streamURL := ServeRaw(t, rawmcp.Options{SSE: true, Modes: []string{"pages"}})
	_, direct := ServeRaw(t, rawmcp.Options{})
	_, directStream := ServeRaw(t, rawmcp.Options{SSE: true, Modes: []string{"pages"}})
	g := startGateway(t, setup{Servers: behind("raw", url) + behind("stream", streamURL)})
	for _, era := range eras {
		t.Run(era, func(t *testing.T) {
			probes := append(Probes(era), Lists(era)...)
			CompareProbes(t, probes, private{&HTTP{URL: direct, Era: era}}, g.client("raw", era))
			for _, problem := range Arrived(probes, server.Records()) {
				t.Error(problem)
			}
			if era == rawmcp.Older {
				return // it differs from Legacy in its name
			}
			few := append(without(probes, "events"), Probe{"tools/list of a page", Request(era, "300", "tools/list", "")})
			CompareProbes(t, few, private{&HTTP{URL: directStream, Era: era}}, g.client("stream", era))
			for _, problem := range Arrived(few, streamed.Records()) {
				t.Error(problem)
			}
		})
	}
}

// private is a server whose lists of tools are for one caller. That is the one thing that a gateway must change: it
// shows each caller the tools that its key may call.
type private struct{ Conn }

func (p private) Do(ctx context.Context, request []byte) ([][]byte, error) {
	messages, err := p.Conn.Do(ctx, request)
	if open(request).Method == "tools/list" {
		for i, m := range messages {
			messages[i] = bytes.Replace(m, []byte(`"cacheScope":"public"`), []byte(`"cacheScope":"private"`), 1)
		}
	}
	return messages, err
}

// without leaves out the probes of one name.
func without(probes []Probe, name string) (out []Probe) {
	for _, p := range probes {
		if p.Name != name {
			out = append(out, p)
		}
	}
	return out
}

// TestGatewayKeepsEvents compares streams as they came: numbers, names and ends of lines, too. Comments are emptied,
// and lines that no reader knows are left out.
func TestGatewayKeepsEvents(t *testing.T) {
	_, url := ServeRaw(t, rawmcp.Options{})
	g := startGateway(t, setup{Servers: behind("raw", url)})
	for _, era := range eras {
		for _, tool := range []string{"forms", "progress", "log"} {
			var raws [][]byte
			for _, c := range []*HTTP{{URL: url, Era: era}, g.client("raw", era)} {
				opened(t, c)
				x, err := c.Exchange(t.Context(), Call(era, "7", tool, ""), nil)
				if err != nil {
					t.Fatal(err)
				}
				raws = append(raws, x.Raw)
			}
			// what clients pass over is not scanned, so it does not go on
			want := strings.NewReplacer(": a comment", ":", "unknown: field\n", "").
				Replace(string(raws[0]))
			if want == "" || want != string(raws[1]) {
				t.Errorf("%s %s: direct %q, through the gateway %q", era, tool, raws[0], raws[1])
			}
		}
	}
}
