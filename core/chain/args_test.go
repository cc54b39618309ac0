package chain_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
)

type wordScanner struct {
	word string
	err  error
}

func (w wordScanner) About() chain.About { return chain.About{} }
func (w wordScanner) Scan(_ context.Context, in *chain.Input) ([]sdk.Finding, error) {
	if i := strings.Index(in.Text, w.word); i >= 0 {
		return []sdk.Finding{{Kind: "WORD", Scanner: "words", Start: i, End: i + len(w.word), Confidence: 1}}, w.err
	}
	return nil, w.err
}

type permits struct{}

func (permits) Check(context.Context, *chain.Call) (sdk.Verdict, error) {
	return sdk.Verdict{Effect: sdk.Permit, Code: sdk.ReasonRulePermit}, nil
}

func TestScanArgs(t *testing.T) {
	for _, c := range []struct {
		name, args string
		action     sdk.Action
		err        error
		want       sdk.Effect
		failed     bool
	}{
		{"clean", `{"a":"fine"}`, sdk.Redact, nil, sdk.Permit, false},
		{"redact is deny", `{"a":["x","bad"]}`, sdk.Redact, nil, sdk.Deny, false},
		{"deny", `{"bad":1}`, sdk.Drop, nil, sdk.Deny, false},
		{"redact is deny, in JSON in a string", `{"a":"{\"b\":\"b\\u0061d\"}"}`, sdk.Redact, nil, sdk.Deny, false},
		{"flag passes", `{"a":"bad"}`, sdk.Flag, nil, sdk.Permit, false},
		{"error fails the step", `{"a":"fine"}`, sdk.Flag, errors.New("broken"), sdk.Abstain, true},
		{"empty args need no scan", `{}`, sdk.Redact, errors.New("broken"), sdk.Permit, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var doc exact.Doc
			if err := doc.Parse(c.args, exact.DefaultLimits); err != nil {
				t.Fatal(err)
			}
			scan := &chain.ScanChain{Budget: time.Minute, Now: time.Now,
				Steps:   []chain.ScanStep{{Name: "words", OnError: sdk.Deny, Scanner: wordScanner{"bad", c.err}}},
				Actions: []chain.ActionRule{{Action: c.action}}}
			v, err := chain.ScanArgs(scan, permits{}).Check(context.Background(), &chain.Call{ToolID: "t", Args: doc.Root()})
			if v.Effect != c.want || (err != nil) != c.failed {
				t.Errorf("got %v %v", v, err)
			}
		})
	}
}
