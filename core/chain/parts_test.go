package chain_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/prefilter"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
)

// counted is a window scanner that counts how it is called.
type counted struct {
	pieces
	whole, parts *int
	longest      *int
	incomplete   *int
}

func (c counted) Scan(ctx context.Context, in *chain.Input) ([]sdk.Finding, error) {
	*c.whole++
	return c.pieces.Scan(ctx, in)
}

func (c counted) ScanPiece(ctx context.Context, w *chain.Window) ([]sdk.Finding, []byte, error) {
	*c.parts++
	*c.longest = max(*c.longest, len(w.Text))
	if !w.HitsComplete {
		*c.incomplete++
	}
	return c.pieces.ScanPiece(ctx, w)
}

// partsChain has one step that asks for pairs of digits and finds what marked finds.
func partsChain(t *testing.T, find pieces, stream abi.Stream) (*chain.ScanChain, counted) {
	t.Helper()
	s := counted{find, new(int), new(int), new(int), new(int)}
	c := &chain.ScanChain{Budget: time.Minute, Now: steady, Actions: []chain.ActionRule{{Action: sdk.Redact}},
		Steps: []chain.ScanStep{{Name: "numbers", OnError: sdk.Deny, Scanner: s, Stream: stream,
			Triggers: []abi.Trigger{{Class: "digits", Min: 2}}}}}
	if err := c.Prepare(); err != nil {
		t.Fatal(err)
	}
	return c, s
}

// TestParts scans texts with more places of triggers than are told: in parts they give what they give whole, wherever
// the parts meet.
func TestParts(t *testing.T) {
	t.Parallel()
	unkeyed := pieces{find: func(text string, _ []byte) (found []sdk.Finding, _ []byte) {
		for i := range len(text) - 1 {
			if text[i:i+2] == "12" && !strings.Contains(text[max(0, i-4):i], "<") {
				found = append(found, find("UNKEYED", i, i+2, sdk.High))
			}
		}
		return found, nil
	}}
	r := rand.New(rand.NewPCG(7, 7))
	for i := range 40 {
		find := marked
		if i%2 > 0 {
			find = unkeyed
		}
		n := 70_000 + r.IntN(100_000)
		var b strings.Builder
		for b.Len() < n {
			b.WriteString([]string{"<abc>", "<é>a", "12 ", "<12>", "<", "345a"}[r.IntN(6)])
		}
		text := b.String()
		whole, all := partsChain(t, find, abi.Stream{Mode: abi.StreamNone})
		parts, some := partsChain(t, find, abi.Stream{Mode: abi.StreamWindow, Lookbehind: 8 + i})
		want := whole.Run(t.Context(), &chain.Input{Text: text})
		got := parts.Run(t.Context(), &chain.Input{Text: text})
		if len(want.Findings) < 100 || !reflect.DeepEqual(want.Findings, got.Findings) || want.Text != got.Text {
			t.Errorf("%d bytes: %d findings in parts, %d whole", n, len(got.Findings), len(want.Findings))
		}
		if *all.whole != 1 || *all.parts != 0 || *some.whole != 0 || *some.parts < 2 || *some.longest > 50_000 {
			t.Errorf("%d bytes: %d and %d calls, expected one; %d and %d in parts of at most %d bytes", n, *all.whole,
				*all.parts, *some.whole, *some.parts, *some.longest)
		}
	}
}

// TestWholeWhereItFits leaves texts whole whose triggers' places are all told.
func TestWholeWhereItFits(t *testing.T) {
	t.Parallel()
	c, s := partsChain(t, marked, abi.Stream{Mode: abi.StreamWindow, Lookbehind: 8})
	text := strings.Repeat("12 "+strings.Repeat("word ", 20), prefilter.Cap-1) + "<abc>a"
	res := c.Run(t.Context(), &chain.Input{Text: text})
	if res.Outcome != chain.Redacted || *s.whole != 1 || *s.parts != 0 {
		t.Errorf("%s, %d whole and %d parts", res.Outcome, *s.whole, *s.parts)
	}
}

// TestDenseParts: where a part has too many places of triggers again, it becomes smaller until all are told.
func TestDenseParts(t *testing.T) {
	t.Parallel()
	c, s := partsChain(t, marked, abi.Stream{Mode: abi.StreamWindow, Lookbehind: 8})
	text := strings.Repeat("12 ", 40_000) + "<abc>a"
	if res := c.Run(t.Context(), &chain.Input{Text: text}); res.Outcome != chain.Redacted || len(res.Findings) != 2 {
		t.Errorf("%s, %d findings", res.Outcome, len(res.Findings))
	}
	if *s.longest > 3*prefilter.Cap+100 || *s.incomplete > 0 {
		t.Errorf("a part has %d bytes; %d of %d parts were not told all places", *s.longest, *s.incomplete, *s.parts)
	}
}

// TestPartsThatFail deny the text, and say where.
func TestPartsThatFail(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("12 ", 40_000)
	for name, find := range map[string]pieces{
		"error": {find: func(string, []byte) ([]sdk.Finding, []byte) { return nil, nil }, err: context.Canceled},
		"outside": {find: func(text string, _ []byte) ([]sdk.Finding, []byte) {
			return []sdk.Finding{find("X", len(text)-1, len(text)+1, sdk.Low)}, nil
		}},
	} {
		c, _ := partsChain(t, find, abi.Stream{Mode: abi.StreamWindow, Lookbehind: 8})
		if res := c.Run(t.Context(), &chain.Input{Text: text}); res.Outcome != chain.Denied || res.Text != "" {
			t.Errorf("%s: %s", name, res.Outcome)
		}
	}
}

// TestFoldedParts: a part that is full covers all that follows in it, and says so.
func TestFoldedParts(t *testing.T) {
	t.Parallel()
	full := pieces{find: func(text string, _ []byte) (found []sdk.Finding, _ []byte) {
		for i := range abi.MaxFindings - 1 {
			found = append(found, find("X", 2*i, 2*i+1, sdk.High))
		}
		return append(found, find("X", 2*(abi.MaxFindings-1), len(text), sdk.High)), nil
	}}
	c, s := partsChain(t, full, abi.Stream{Mode: abi.StreamWindow, Lookbehind: 1024})
	res := c.Run(t.Context(), &chain.Input{Text: strings.Repeat("12 ", 40_000)})
	var why *chain.UnmaskedError
	if _, err := c.Look(t.Context(), &chain.Input{Text: strings.Repeat("12 ", 40_000)}); !errors.As(err, &why) ||
		why.Cause != chain.CauseTooMany {
		t.Errorf("masking gave %v", err)
	}
	if left := strings.Count(res.Text, "12"); res.Outcome != chain.Redacted || *s.parts < 3 || left > 0 {
		t.Errorf("%s, %d parts, %d numbers left", res.Outcome, *s.parts, left)
	}
}
