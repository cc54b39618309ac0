package chain_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
)

// What is kept is masked whatever the operator does about outputs: actions, tool patterns and on_error do not count.
func TestMask(t *testing.T) {
	step := func(s chain.ScanStep, err error) chain.ScanStep {
		s.Name, s.Scanner = "words", wordScanner{"bad", err}
		return s
	}
	elsewhere := chain.Match{Tools: []string{"elsewhere/**"}}
	for _, c := range []struct {
		name   string
		steps  []chain.ScanStep
		want   string
		failed bool
	}{
		{"flagged outputs", []chain.ScanStep{step(chain.ScanStep{OnError: sdk.Deny}, nil)}, `{"a":"x [WORD]"}`, false},
		{"another tool's step", []chain.ScanStep{step(chain.ScanStep{Match: elsewhere}, nil)}, `{"a":"x [WORD]"}`, false},
		{"error although abstain", []chain.ScanStep{step(chain.ScanStep{OnError: sdk.Abstain}, errors.New("broken"))}, "", true},
		{"no scanner", nil, "", true},
		{"shadow only", []chain.ScanStep{step(chain.ScanStep{Shadow: true}, nil)}, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			scan := &chain.ScanChain{Budget: time.Minute, Now: time.Now, Steps: c.steps, Actions: []chain.ActionRule{{Action: sdk.Allow}}}
			got, err := scan.Mask(context.Background(), &chain.Input{Text: `{"a":"x bad"}`, ToolID: "t"})
			if got != c.want || (err != nil) != c.failed {
				t.Errorf("got %q %v, want %q", got, err, c.want)
			}
		})
	}
}

// A text that no enforcing scanner looked at is not clean, whatever the reason.
func TestUnscannedIsNotClean(t *testing.T) {
	skipped := chain.ScanStep{Name: "elsewhere", Match: chain.Match{Tools: []string{"elsewhere/**"}}, Scanner: wordScanner{"bad", nil}}
	shadow := chain.ScanStep{Name: "shadow", Shadow: true, Scanner: wordScanner{"bad", nil}}
	looks := chain.ScanStep{Name: "looks", Scanner: wordScanner{"bad", nil}}
	for _, c := range []struct {
		name  string
		steps []chain.ScanStep
		want  string
	}{{"no step", nil, chain.Denied}, {"all skipped", []chain.ScanStep{skipped}, chain.Denied}, {"shadow only", []chain.ScanStep{shadow}, chain.Denied},
		{"skipped and shadow", []chain.ScanStep{skipped, shadow}, chain.Denied}, {"one looks", []chain.ScanStep{skipped, shadow, looks}, chain.Pass}} {
		t.Run(c.name, func(t *testing.T) {
			scan := &chain.ScanChain{Budget: time.Minute, Now: time.Now, Steps: c.steps}
			if res := scan.Run(context.Background(), &chain.Input{Text: "fine", ToolID: "t"}); res.Outcome != c.want {
				t.Errorf("got %s %s", res.Outcome, res.Reason)
			}
		})
	}
}
