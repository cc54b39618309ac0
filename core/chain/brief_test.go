package chain_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
)

// hushing is a chain that finds every occurrence of the values, and what it makes of an error of a step.
func hushing(t *testing.T, values ...string) func(err error) (text, words string) {
	t.Helper()
	scan := &chain.ScanChain{Budget: time.Minute, Now: steady}
	for _, v := range values {
		scan.Steps = append(scan.Steps, chain.ScanStep{Name: "s", Builtin: true, Scanner: literal("TOKEN", v)})
	}
	if err := scan.Prepare(); err != nil {
		t.Fatal(err)
	}
	return func(err error) (text, words string) {
		s := chain.Step{Name: "plugin", OnError: sdk.Deny, Checker: says{err: err}}
		a := &chain.Authorizer{Steps: []chain.Step{s}, Budget: time.Minute, Default: sdk.Deny, Now: steady, Said: scan}
		res := a.Run(context.Background(), &chain.Call{ToolID: "files/read", AgentID: "agent"}, nil)
		return res.Verdict.Reason + "\n" + res.Rows[0].Err.Error(), chain.Words(res.Rows[0].Err)
	}
}

// A text that is too long is masked before it is cut: wherever a secret lies, no part of it is left at the cut.
func TestErrorsAreMaskedBeforeTheyAreCut(t *testing.T) {
	secret := "tok" + "_" + strings.Repeat("k9", 16)
	hush := hushing(t, secret)
	for at := range 1200 {
		long := strings.Repeat("y", at) + secret + strings.Repeat(" z", 2000)
		text, words := hush(errors.Join(errors.New(long)))
		_, said := hush(&chain.Spoken{Err: errors.New("failed"), Words: long})
		for name, got := range map[string]string{"error": text, "words": said} {
			if strings.Contains(got, "tok"+"_") || strings.Contains(got, "k9") {
				t.Fatalf("%s, %d bytes before the secret: %s", name, at, got)
			}
			if len(got) > 5000 || !strings.Contains(got, "…") {
				t.Fatalf("%s of %d bytes is kept as %d", name, len(long), len(got))
			}
		}
		if words != "" {
			t.Fatalf("words %q", words)
		}
	}
	if _, said := hush(&chain.Spoken{Err: errors.New("failed"),
		Words: strings.Repeat("y", 1000) + " " + secret[:23]}); strings.Contains(said, "k9") {
		t.Errorf("what the plugin cut itself: %s", said)
	}
	if said := hushSaid(t, secret, strings.Repeat("y", 508)+secret); strings.Contains(said, "tok"+"_") ||
		!strings.HasSuffix(said, "y[TOKEN]") {
		t.Errorf("said: %s", said)
	}
}

// Long secrets in front, which become short when they are masked, bring nothing into view that was cut before it could
// be masked.
func TestMaskingBringsNoCutEndIntoView(t *testing.T) {
	secret, filler := "tok"+"_"+strings.Repeat("k9", 16), strings.Repeat("f7", 480)
	hush := hushing(t, secret, filler)
	said := strings.Repeat(filler+" ", 8) + strings.Repeat("y", 20)
	said = said[:min(len(said), chain.HeardMost-10)]
	long := said + strings.Repeat("y", chain.HeardMost-10-len(said)) + secret
	text, _ := hush(fmt.Errorf("%s", long[:chain.HeardMost]))
	_, words := hush(&chain.Spoken{Err: errors.New("failed"), Words: long[:chain.HeardMost]})
	if strings.Contains(text+words, "tok"+"_") {
		t.Errorf("%s\n%s", text, words)
	}
}

func hushSaid(t *testing.T, secret, text string) string {
	t.Helper()
	scan := &chain.ScanChain{Budget: time.Minute, Now: steady,
		Steps: []chain.ScanStep{{Name: "s", Builtin: true, Scanner: literal("TOKEN", secret)}}}
	if err := scan.Prepare(); err != nil {
		t.Fatal(err)
	}
	return scan.Said(context.Background(), text)
}

// What somebody else's code said is made printable so that masking sees through it: the text itself is one of its
// readings.
func TestHeardIsReadAsItWasSaid(t *testing.T) {
	for _, said := range []string{"plain é 日", "two\nlines\r\n\tand a tab", "a\x1b[31mcolour", "zero\u200bwidth",
		"turned \u202e", "\x00\x7f\u2028", "beyond \U000e0041"} {
		got := chain.Heard(said)
		if strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q is heard as %q", said, got)
		}
		if !slices.Contains(slices.Collect(chain.Readings(got)), said) {
			t.Errorf("%q is heard as %q, of which it is no reading", said, got)
		}
	}
	for _, c := range []string{"y", "é", "\n", "\U000e0041", "\xff"} {
		if got := chain.Heard(strings.Repeat(c, 3*chain.HeardMost)); len(got) > chain.HeardMost ||
			len(got) < chain.HeardMost-16 || !utf8.ValidString(got) {
			t.Errorf("of many %q %d bytes are heard: …%q", c, len(got), got[max(0, len(got)-20):])
		}
	}
}
