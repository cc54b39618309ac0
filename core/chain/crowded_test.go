package chain_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
)

// Where a scanner reports as many findings as it may, the last of them may stand for all the rest of the text. So
// nobody keeps or shows the text as if that were masked alone.
func TestMaskingSaysThatThereIsTooMuchToMask(t *testing.T) {
	for _, one := range []struct {
		name string
		n    int
		text string
		want bool
	}{
		{"one less than a scanner may", abi.MaxFindings - 1, strings.Repeat("key ", abi.MaxFindings-1), false},
		{"as many as a scanner may", abi.MaxFindings, strings.Repeat("key ", abi.MaxFindings), true},
		{"in what escapes stand for", abi.MaxFindings, strings.Repeat(`\u006bey `, abi.MaxFindings), true},
	} {
		t.Run(one.name, func(t *testing.T) {
			scan := &chain.ScanChain{Budget: time.Minute, Now: time.Now, Steps: []chain.ScanStep{
				{Name: "few", Scanner: literal("FEW", "pay")}, {Name: "many", Scanner: literal("MANY", "key")}, {Name: "none", Scanner: literal("NONE", "nothing")}}}
			if err := scan.Prepare(); err != nil {
				t.Fatal(err)
			}
			in := &chain.Input{Text: one.text + "pay Mallory", ToolID: "t"}
			for range 2 { // nothing is left of the first one
				m, err := scan.Look(context.Background(), in)
				var why *chain.UnmaskedError
				if got := errors.As(err, &why) && why.Cause == chain.CauseTooMany && why.Scanner == ""; got != one.want ||
					!one.want && err != nil {
					t.Fatalf("masking gave %v", err)
				}
				if err == nil {
					if got, err := m.Kept(); err != nil || got != strings.Repeat("[MANY] ", one.n)+"[FEW] Mallory" {
						t.Errorf("kept %q %v", got, err)
					}
				}
			}
			scan.Actions = []chain.ActionRule{{Action: sdk.Redact}}
			if res := scan.Run(context.Background(), in); res.Outcome != chain.Redacted { // an output is redacted as ever
				t.Errorf("the output is %s: %s", res.Outcome, res.Reason)
			}
		})
	}
}
