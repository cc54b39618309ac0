package host

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
)

// TestChainStreams runs the guests in a chain, in this process and in one of their own, over texts that are cut
// everywhere: joined, the pieces are what one scan gives. Each guest's neighbour overlaps it.
func TestChainStreams(t *testing.T) {
	for _, g := range streamGuests {
		t.Run(g.name, func(t *testing.T) {
			here, there, other := load(t, g.g, nil), spawn(t, g.g, nil, tuning(nil)), load(t, behindB(), nil)
			for name, one := range map[string]interface {
				chain.PieceScanner
			}{"module": here, "worker": there} {
				meta := here.Metadata()
				c := &chain.ScanChain{Budget: time.Minute, Now: time.Now,
					Actions: []chain.ActionRule{{Action: sdk.Redact, Replacement: "#"}},
					Steps: []chain.ScanStep{{Name: "other", OnError: sdk.Deny, Scanner: other, Stream: other.Metadata().Stream},
						{Name: "one", OnError: sdk.Deny, Scanner: one, Triggers: meta.Triggers, Stream: meta.Stream}}}
				if err := c.Prepare(); err != nil {
					t.Fatal(err)
				}
				for _, text := range g.texts {
					for cut := 0; cut <= len(text); cut++ {
						wantChainStream(t, c, name, text, text[:cut], text[cut:])
					}
					wantChainStream(t, c, name, text, append(strings.Split(text, ""), "")...)
				}
			}
		})
	}
}

func wantChainStream(t *testing.T, c *chain.ScanChain, name, text string, pieces ...string) {
	t.Helper()
	in := chain.Input{Text: text, ToolID: "t"}
	want := c.Run(context.Background(), &in)
	var out strings.Builder
	var found []sdk.Finding
	s := c.NewStream(&in, 1<<20)
	for i, piece := range pieces {
		next, res := s.Next(context.Background(), piece, i == len(pieces)-1)
		if res.Outcome == chain.Denied {
			t.Fatalf("%s, %q: %s", name, pieces, res.Reason)
		}
		out.WriteString(res.Text)
		found, s = append(found, res.Findings...), next
	}
	if out.String() != want.Text || fmt.Sprint(found) != fmt.Sprint(want.Findings) {
		t.Errorf("%s, %q: %q %v, want %q %v (%s)", name, pieces, out.String(), found, want.Text, want.Findings, want.Reason)
	}
}
