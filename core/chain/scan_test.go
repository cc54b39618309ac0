package chain_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
)

// finder is a scanner with fixed findings.
type finder struct {
	found []sdk.Finding
	err   error
}

func (f finder) About() chain.About { return chain.About{Version: "1", Digest: "sha256:00"} }
func (f finder) Scan(context.Context, *chain.Input) ([]sdk.Finding, error) {
	return append([]sdk.Finding(nil), f.found...), f.err
}

func find(kind string, start, end int, severity sdk.Severity) sdk.Finding {
	return sdk.Finding{Kind: kind, Scanner: "s", Start: start, End: end, Confidence: 1, Severity: severity}
}

func scanStep(f finder) chain.ScanStep {
	return chain.ScanStep{Name: "s", OnError: sdk.Deny, Scanner: f}
}

func scan(actions []chain.ActionRule, steps ...chain.ScanStep) chain.ScanResult {
	c := &chain.ScanChain{Steps: steps, Budget: time.Minute, Actions: actions, Now: steady}
	return c.Run(context.Background(), &chain.Input{Text: "some text with things in it", ToolID: "files/read",
		AgentID: "agent"})
}

func TestScanOutcomes(t *testing.T) {
	rules := []chain.ActionRule{{Kinds: []string{"DROP*"}, Action: sdk.Drop},
		{Kinds: []string{"RED*"}, Action: sdk.Redact}, {Kinds: []string{"OK"}, Action: sdk.Allow}}
	clean, red, drop := scanStep(finder{}), scanStep(finder{found: []sdk.Finding{find("RED", 5, 9, sdk.Low)}}),
		scanStep(finder{found: []sdk.Finding{find("DROP", 0, 1, sdk.Low)}})
	other := scanStep(finder{found: []sdk.Finding{find("OTHER", 0, 4, sdk.Low)}})
	broken := scanStep(finder{err: errors.New("trap")})
	without := broken
	without.OnError = sdk.Abstain
	pilot := drop
	pilot.Shadow = true
	brokenPilot := broken
	brokenPilot.Shadow = true
	bad := func(f sdk.Finding) chain.ScanStep { return scanStep(finder{found: []sdk.Finding{f}}) }
	const text = "some text with things in it"
	for _, c := range []struct {
		name  string
		steps []chain.ScanStep
		want  string
		text  string
	}{
		{"no scanner is not clean", nil, "DENIED SCAN_UNAVAILABLE", ""},
		{"clean", []chain.ScanStep{clean}, "PASS SCAN_OK", text},
		{"redacted", []chain.ScanStep{clean, red}, "REDACTED OUTPUT_RED", "some [RED] with things in it"},
		{"dropped", []chain.ScanStep{red, drop}, "DENIED OUTPUT_DROP", ""},
		{"no rule flags", []chain.ScanStep{other}, "WARNED OUTPUT_OTHER", text},
		{"allowed", []chain.ScanStep{scanStep(finder{found: []sdk.Finding{find("OK", 0, 4, sdk.Critical)}})}, "PASS SCAN_OK", text},
		{"a scanner that failed", []chain.ScanStep{clean, broken}, "DENIED SCAN_UNAVAILABLE", ""},
		{"a scanner that failed, with findings", []chain.ScanStep{red, broken}, "DENIED SCAN_UNAVAILABLE", ""},
		{"done without", []chain.ScanStep{red, without}, "REDACTED OUTPUT_RED", "some [RED] with things in it"},
		{"shadow", []chain.ScanStep{clean, pilot, brokenPilot}, "PASS SCAN_OK", text},
		{"span behind the end", []chain.ScanStep{bad(find("RED", 0, len(text)+1, sdk.Low))}, "DENIED SCAN_UNAVAILABLE", ""},
		{"span before the start", []chain.ScanStep{bad(find("RED", -1, 3, sdk.Low))}, "DENIED SCAN_UNAVAILABLE", ""},
		{"span the wrong way round", []chain.ScanStep{bad(find("RED", 4, 3, sdk.Low))}, "DENIED SCAN_UNAVAILABLE", ""},
		{"no kind", []chain.ScanStep{bad(find("", 3, 4, sdk.Low))}, "DENIED SCAN_UNAVAILABLE", ""},
		{"confidence is no number", []chain.ScanStep{bad(sdk.Finding{Kind: "RED", Confidence: float32(math.NaN())})}, "DENIED SCAN_UNAVAILABLE", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			res := scan(rules, c.steps...)
			if got := res.Outcome + " " + res.Code; got != c.want || res.Text != c.text {
				t.Errorf("got %s %q, want %s %q", got, res.Text, c.want, c.text)
			}
			if len(res.Receipts) != len(c.steps) {
				t.Errorf("%d receipts for %d steps", len(res.Receipts), len(c.steps))
			}
		})
	}
}

// The same span found twice, once as harmless, is as bad as its worst: no double hides a finding.
func TestDoublesHideNothing(t *testing.T) {
	mild, bad := find("K", 5, 9, sdk.Low), find("K", 5, 9, sdk.Critical)
	bad.Confidence = 0.5
	rules := []chain.ActionRule{{Severity: sdk.Critical, Action: sdk.Drop}, {Action: sdk.Allow}}
	if res := scan(rules, scanStep(finder{found: []sdk.Finding{mild, bad, bad}})); res.Outcome != chain.Denied ||
		len(res.Findings) != 2 {
		t.Errorf("got %s with %v", res.Outcome, res.Findings)
	}
}

func TestActionRules(t *testing.T) {
	for _, c := range []struct {
		name string
		rule chain.ActionRule
		hold bool
	}{
		{"everything", chain.ActionRule{}, true},
		{"kind", chain.ActionRule{Kinds: []string{"X", "SECRET_*"}}, true},
		{"other kind", chain.ActionRule{Kinds: []string{"PII_*"}}, false},
		{"scanner", chain.ActionRule{Scanners: []string{"s"}}, true},
		{"other scanner", chain.ActionRule{Scanners: []string{"z"}}, false},
		{"tool", chain.ActionRule{Tools: []string{"files/*"}}, true},
		{"other tool", chain.ActionRule{Tools: []string{"*"}}, false}, // "*" stays within one segment
		{"severity at least", chain.ActionRule{Severity: sdk.Medium}, true},
		{"severity too low", chain.ActionRule{Severity: sdk.Critical}, false},
		{"exact severity", chain.ActionRule{Severity: sdk.High, Exact: true}, true},
		{"other exact severity", chain.ActionRule{Severity: sdk.Medium, Exact: true}, false},
		{"confidence", chain.ActionRule{MinConfidence: 1}, true},
		{"more confidence", chain.ActionRule{MinConfidence: 1.5}, false},
	} {
		c.rule.Action = sdk.Drop
		res := scan([]chain.ActionRule{c.rule}, scanStep(finder{found: []sdk.Finding{find("SECRET_X", 0, 4, sdk.High)}}))
		if got := res.Outcome == chain.Denied; got != c.hold {
			t.Errorf("%s: the rule holds: %v", c.name, got)
		}
	}
	first := []chain.ActionRule{{Action: sdk.Flag}, {Action: sdk.Drop}}
	if res := scan(first, scanStep(finder{found: []sdk.Finding{find("K", 0, 4, sdk.High)}})); res.Outcome != chain.Warned {
		t.Errorf("the first rule that holds decides: %s", res.Outcome)
	}
}

// A built-in scanner that reports all it may has folded the rest into a finding as severe as what is in it: a long list
// of low findings removes nothing. Another scanner may have folded anything.
func TestFoldedFindings(t *testing.T) {
	rules := []chain.ActionRule{{Severity: sdk.High, Action: sdk.Redact}, {Action: sdk.Flag}}
	for _, c := range []struct {
		builtin bool
		last    sdk.Severity
		want    string
	}{{true, sdk.Low, chain.Warned}, {true, sdk.High, chain.Redacted}, {false, sdk.Low, chain.Redacted}} {
		var found []sdk.Finding
		for i := range abi.MaxFindings {
			found = append(found, find("LOW", 2*i, 2*i+1, sdk.Low))
		}
		found[len(found)-1].Severity = c.last
		step := scanStep(finder{found: found})
		step.Builtin = c.builtin
		step.Kinds = []abi.Kind{{Name: "LOW", Severity: int(sdk.Low)}, {Name: "GRAVE", Severity: int(sdk.High)}}
		chains := &chain.ScanChain{Steps: []chain.ScanStep{step}, Budget: time.Minute, Actions: rules, Now: steady}
		in := &chain.Input{Text: strings.Repeat("ab", abi.MaxFindings+9), ToolID: "t", AgentID: "a"}
		if res := chains.Run(context.Background(), in); res.Outcome != c.want {
			t.Errorf("%+v: %s", c, res.Outcome)
		}
		step.Builtin = true
		chains.Steps = []chain.ScanStep{step}
		if _, err := chains.Look(context.Background(), in); err == nil {
			t.Error("what is masked whatever its severity may be in the fold, and the text is shown")
		}
	}
}

// The same text and findings give the same bytes, in whatever order scanners and findings come.
func TestScanIsTheSameAlways(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	rules := []chain.ActionRule{{Kinds: []string{"K1"}, Action: sdk.Redact, Replacement: "<{kind}>"},
		{Kinds: []string{"K2"}, Action: sdk.Flag}, {Action: sdk.Redact}}
	for range 500 {
		var found []sdk.Finding
		for range 1 + rng.IntN(6) {
			start := rng.IntN(20)
			f := find(fmt.Sprint("K", rng.IntN(4)), start, start+1+rng.IntN(6), sdk.Severity(rng.IntN(5)))
			f.Confidence = float32(rng.IntN(2))
			found = append(found, f)
		}
		var want chain.ScanResult
		for i := range 4 {
			rng.Shuffle(len(found), func(i, j int) { found[i], found[j] = found[j], found[i] })
			cut := rng.IntN(len(found) + 1)
			got := scan(rules, scanStep(finder{found: found[:cut]}), scanStep(finder{found: found[cut:]}))
			got.Receipts = nil
			if i == 0 {
				want = got
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%v:\n%+v\n%+v", found, got, want)
			}
		}
	}
}

// A scan chain's budget: what does not fit is no clean scan.
func TestScanBudget(t *testing.T) {
	now := steady()
	slow := chain.ScanStep{Name: "slow", OnError: sdk.Abstain, Scanner: doing(func() { now = now.Add(time.Second) })}
	late := chain.ScanStep{Name: "late", OnError: sdk.Deny, Scanner: doing(func() { t.Error("it ran") })}
	c := &chain.ScanChain{Steps: []chain.ScanStep{slow, late}, Budget: time.Second, Now: func() time.Time { return now }}
	res := c.Run(context.Background(), &chain.Input{Text: "x"})
	if res.Outcome != chain.Denied || res.Receipts[0].Outcome != "ok" || res.Receipts[1].Outcome != "timeout" {
		t.Errorf("%+v", res)
	}
}

type doing func()

func (doing) About() chain.About { return chain.About{} }
func (d doing) Scan(context.Context, *chain.Input) ([]sdk.Finding, error) {
	d()
	return nil, nil
}
