package prochost

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

func TestScan(t *testing.T) {
	p := loaded(t, guestSpec("stock"), Options{}, with(func(s *Spec) { s.Kind = Scanner }))
	const text = "aé b"
	ask := func(answer string) ([]sdk.Finding, error) {
		return p.Scan(context.Background(), &chain.Input{Text: text, ContentType: answer})
	}
	f := func(more string) string {
		out := "findings: {"
		for _, field := range []string{`kind: "SECRET_ACME"`, `start: 1`, `end: 3`, `confidence: 0.5`,
			`severity: SEVERITY_LOW`} {
			if name, _, _ := strings.Cut(field, ":"); !strings.Contains(" "+more, " "+name+":") {
				out += field + " "
			}
		}
		return out + more + "}"
	}
	got, err := ask(f(`suggested: ACTION_REPLACE replacement: "x"`))
	want := sdk.Finding{Kind: "SECRET_ACME", Scanner: "guest", Start: 1, End: 3, Confidence: 0.5, Severity: sdk.Low,
		Suggested: sdk.Replace, Replacement: "x"}
	if err != nil || len(got) != 1 || got[0] != want {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := ask(""); err != nil || len(got) != 0 {
		t.Errorf("clean: %+v, %v", got, err)
	}
	for name, answer := range map[string]string{
		"error":            f("") + ` error: "no"`,
		"other id":         f("") + ` id: 99999`,
		"undeclared":       f(`kind: "OTHER"`),
		"empty span":       f(`start: 3`),
		"backwards":        f(`start: 3 end: 1`),
		"beyond":           f(`end: 6`),
		"far beyond":       f(`end: 18446744073709551615`),
		"cuts a character": f(`start: 2`),
		"ends within one":  f(`end: 2`),
		"confidence":       f(`confidence: 1.5`),
		"no number":        f(`confidence: nan`),
		"negative":         f(`confidence: -0.1`),
		"no severity":      f(`severity: SEVERITY_UNSPECIFIED`),
		"unknown severity": f(`severity: 6`),
		"unknown action":   f(`suggested: 5`),
		"replacement":      f(`suggested: ACTION_REDACT replacement: "x"`),
		"too many":         strings.Repeat(f("")+" ", 257),
	} {
		if got, err := ask(answer); !errors.Is(err, ErrAnswer) || got != nil {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, err := p.Scan(context.Background(), &chain.Input{Text: text, ToolID: "fail"}); err == nil ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("status: %v", err)
	}
	if _, err := p.Scan(context.Background(), &chain.Input{Text: strings.Repeat("x", maxMessage)}); err == nil {
		t.Error("a text beyond a message was scanned")
	}
	if v, err := check(p, "permit"); err == nil {
		t.Errorf("a scanner decided: %+v", v)
	}
}

func TestConsume(t *testing.T) {
	p := loaded(t, guestSpec("stock"), Options{}, with(func(s *Spec) { s.Kind = Subscriber }))
	s, err := p.Consume(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(&pluginv1.Batch{FirstSeq: 1, LastSeq: 9}); err != nil {
		t.Fatal(err)
	}
	if a, err := s.Recv(); err != nil || a.Seq != 9 {
		t.Fatalf("%v, %v", a, err)
	}
	if err := p.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if _, err := s.Recv(); err == nil {
		t.Error("the stream outlived the plugin")
	}
	if _, err := p.Consume(context.Background()); !errors.Is(err, chain.ErrUnavailable) {
		t.Errorf("closed: %v", err)
	}
}
