package core

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/wasm/host"
	"github.com/yett-dev/yett/scanners"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
)

// secretParts are texts with secrets of several kinds in them, made here so that no scanner of repositories takes them
// for real.
func secretParts(rng *rand.Rand) []string {
	word := func(n int) string {
		const letters = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789"
		b := make([]byte, n)
		for i := range b {
			b[i] = letters[rng.IntN(len(letters))]
		}
		return string(b)
	}
	return []string{"gh" + "p_" + word(36), "AK" + "IA" + strings.ToUpper(word(16)), "sk" + "_live_" + word(24), "xo" + "xb-123456789012-123456789012-" + word(24), "https://user:" + word(12) + "@host/é ",
		"password = \"" + word(14) + "\"\n", "api_key: " + word(32) + "\n",
		"-----BEGIN RSA " + "PRIVATE KEY-----\n" + strings.Repeat(word(64)+"\n", 12) + "-----END RSA " + "PRIVATE KEY-----\n",
		"Authorization: Bearer " + word(30) + "\n", "ey" + "J" + word(20) + ".ey" + "J" + word(30) + "." + word(40),
		"plain text, 🙂 and more of it. ", "func page(n int) int { return n * 4 }\n", " ", "\n", `","b":"`}
}

// The built-in scanners give the same over texts that are cut anywhere, also where a text is longer than what they look
// back.
func TestBuiltinStreams(t *testing.T) {
	ctx := context.Background()
	h, err := host.New(ctx, host.Options{CacheDir: compiled})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := h.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	c := &chain.ScanChain{Budget: time.Minute, Now: time.Now,
		Actions: []chain.ActionRule{{Kinds: []string{"SECRET_GENERIC*"}, Action: sdk.Flag}, {Action: sdk.Redact}}}
	for _, name := range scanners.Names() {
		code, _ := scanners.Builtin(name)
		m, err := h.Load(ctx, host.Spec{Name: name, Code: code, Instances: 2})
		if err != nil {
			t.Fatal(err)
		}
		if m.Metadata().Stream.Mode == abi.StreamNone {
			t.Logf("%s takes whole texts only", name)
		}
		c.Steps = append(c.Steps, chain.ScanStep{Name: name, OnError: sdk.Deny, Scanner: m, Triggers: m.Triggers(),
			Stream: m.Metadata().Stream})
	}
	if err := c.Prepare(); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 9))
	held := 0
	for range 30 {
		text := ""
		for size := 1 << (6 + rng.IntN(11)); len(text) < size; {
			parts := secretParts(rng)
			text += parts[rng.IntN(len(parts))]
			if n := rng.IntN(40); n == 0 {
				text += strings.Repeat("filler without anything in it. ", 1+rng.IntN(600))
			}
		}
		if rng.IntN(3) == 0 {
			text = `{"a":"` + strings.NewReplacer("\n", `\n`, `"`, `\"`).Replace(text) + `","n":12}`
		}
		in := chain.Input{Text: text, ToolID: "t"}
		want := c.Run(ctx, &in)
		if len(want.Findings) >= abi.MaxFindings {
			continue // folded
		}
		for range 4 {
			n, early := streamed(t, c, rng, text, &want)
			held = max(held, n-early)
		}
	}
	if held > 64<<10 {
		t.Errorf("%d bytes were held back", held)
	}
}

// streamed sends a text in random pieces and gives the largest amount that was held back, as taken and settled.
func streamed(t *testing.T, c *chain.ScanChain, rng *rand.Rand, text string,
	want *chain.ScanResult) (taken, settled int) {
	t.Helper()
	s := c.NewStream(&chain.Input{ToolID: "t"}, 1<<20)
	var out strings.Builder
	var found []sdk.Finding
	most := 1 << rng.IntN(16)
	for at := 0; s != nil; {
		n := min(1+rng.IntN(max(most, len(text)/50)), len(text)-at)
		next, res := s.Next(context.Background(), text[at:at+n], at+n == len(text))
		if res.Outcome == chain.Denied {
			t.Fatal(res.Reason)
		}
		at += n
		if at-res.Settled > taken-settled && !strings.HasPrefix(text, "{") && n < 1<<14 {
			taken, settled = at, res.Settled
		}
		out.WriteString(res.Text)
		found, s = append(found, res.Findings...), next
	}
	if got, want := fmt.Sprint(found), fmt.Sprint(want.Findings); got != want {
		t.Fatalf("%d bytes: found %s\nwant %s", len(text), got, want)
	}
	if out.String() != want.Text {
		t.Fatalf("%d bytes: other text is released than by one scan", len(text))
	}
	return taken, settled
}
