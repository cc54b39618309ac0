package host

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/testkit"
	"github.com/yett-dev/yett/scanners"
	"github.com/yett-dev/yett/sdk"
)

// decoy is shaped like an access key and is none.
func decoy(i int) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	x := uint64(i)*0x9E3779B97F4A7C15 + 12345
	b := make([]byte, 16)
	for k := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[k] = letters[x>>40&31]
	}
	return "AK" + "IA" + string(b)
}

// TestDecoysHideNothing puts more findings into a text than a call may report, so that the last one stands for all that
// follow it, and a token behind them: whole or in pieces, and whatever is done about the decoys, the token is not
// released.
func TestDecoysHideNothing(t *testing.T) {
	testkit.Long(t, "it compiles a built-in scanner")
	code, _ := scanners.Builtin("secrets")
	m, err := newHost(t, Options{CacheDir: CompiledDir()}).Load(t.Context(),
		Spec{Name: "secrets", Code: code, Instances: 1, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	meta := m.Metadata()
	token := "gh" + "p_wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO0pINUx"
	var decoys strings.Builder
	for i := range 400 {
		decoys.WriteString(decoy(i) + "\n")
	}
	first, second := decoys.String()+strings.Repeat("- ", 9000), token+"\n"+strings.Repeat("- ", 100)
	for name, actions := range map[string][]chain.ActionRule{
		"all redacted":        {{Action: sdk.Redact, Replacement: "#"}},
		"decoys only flagged": {{Kinds: []string{"SECRET_AWS_ACCESS_KEY_ID"}, Action: sdk.Flag}, {Action: sdk.Redact, Replacement: "#"}},
		"tokens denied":       {{Kinds: []string{"SECRET_GITHUB_*"}, Action: sdk.Drop}, {Action: sdk.Redact, Replacement: "#"}},
	} {
		if testkit.Quick() && name != "tokens denied" {
			continue
		}
		c := &chain.ScanChain{Budget: time.Minute, Now: time.Now, Actions: actions,
			Steps: []chain.ScanStep{{Name: "secrets", OnError: sdk.Deny, Scanner: m,
				Triggers: meta.Triggers, Kinds: meta.Kinds, Stream: meta.Stream}}}
		if err := c.Prepare(); err != nil {
			t.Fatal(err)
		}
		whole := c.Run(t.Context(), &chain.Input{ToolID: "t", Text: first + second})
		if strings.Contains(whole.Text, token) || whole.Outcome == chain.Pass ||
			name == "tokens denied" && whole.Outcome != chain.Denied {
			t.Errorf("%s, whole: %s, the token is released: %v", name, whole.Outcome, strings.Contains(whole.Text, token))
		}
		s := c.NewStream(&chain.Input{ToolID: "t"}, 4<<20)
		s, one := s.Next(t.Context(), first, false)
		text, outcome := one.Text, one.Outcome
		if s != nil && one.Outcome != chain.Denied {
			_, two := s.Next(t.Context(), second, true)
			text, outcome = text+two.Text, two.Outcome
		}
		if strings.Contains(text, token) || name == "tokens denied" && outcome != chain.Denied {
			t.Errorf("%s, in pieces: %s, the token is released: %v", name, outcome, strings.Contains(text, token))
		}
	}
}

// TestDenseStreams cuts a text in which every line is a finding: nothing of it is released raw, however long the pieces
// are.
func TestDenseStreams(t *testing.T) {
	testkit.Long(t, "it compiles a built-in scanner")
	code, _ := scanners.Builtin("secrets")
	m, err := newHost(t, Options{CacheDir: CompiledDir()}).Load(t.Context(),
		Spec{Name: "secrets", Code: code, Instances: 1, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	meta := m.Metadata()
	c := &chain.ScanChain{Budget: time.Minute, Now: time.Now,
		Actions: []chain.ActionRule{{Action: sdk.Redact, Replacement: "#"}},
		Steps: []chain.ScanStep{{Name: "secrets", OnError: sdk.Deny, Scanner: m, Triggers: meta.Triggers, Kinds: meta.Kinds,
			Stream: meta.Stream}}}
	if err := c.Prepare(); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for i := range testkit.Rounds(6000, 1000) {
		fmt.Fprintf(&b, "%s\n", decoy(i))
	}
	text := b.String()
	for _, size := range []int{5000, 30_000, 65_536} {
		s := c.NewStream(&chain.Input{ToolID: "t"}, 4<<20)
		var out strings.Builder
		for at := 0; at < len(text); at += size {
			end := min(at+size, len(text))
			var res chain.StreamResult
			if s, res = s.Next(t.Context(), text[at:end], end == len(text)); res.Outcome == chain.Denied {
				break
			}
			out.WriteString(res.Text)
		}
		if n := strings.Count(out.String(), "AK"+"IA"); n > 0 {
			t.Errorf("pieces of %d bytes: %d keys are released raw", size, n)
		}
	}
}
