package chain_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/prefilter"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
	"github.com/yett-dev/yett/sdk/exact"
)

// asked is a scanner that reports every hit it is given, and counts how often it is called.
type asked struct {
	calls    int
	hits     []prefilter.Hit
	complete bool
	err      error
}

func (a *asked) About() chain.About { return chain.About{} }
func (a *asked) Scan(_ context.Context, in *chain.Input) ([]sdk.Finding, error) {
	a.calls++
	a.hits, a.complete = append([]prefilter.Hit(nil), in.Hits...), in.HitsComplete
	return nil, a.err
}

func triggered(t *testing.T, steps ...chain.ScanStep) *chain.ScanChain {
	t.Helper()
	c := &chain.ScanChain{Steps: steps, Budget: time.Minute, Now: steady}
	if err := c.Prepare(); err != nil {
		t.Fatal(err)
	}
	return c
}

// Only the steps whose triggers occur are called, each with its own hits; a step without triggers always is.
func TestOnePass(t *testing.T) {
	red, blue, always := &asked{}, &asked{}, &asked{}
	c := triggered(t,
		chain.ScanStep{Name: "red", OnError: sdk.Deny, Scanner: red,
			Triggers: []abi.Trigger{{Literal: "RED", Fold: true}, {Class: "digits", Min: 4}}},
		chain.ScanStep{Name: "always", OnError: sdk.Deny, Scanner: always},
		chain.ScanStep{Name: "blue", OnError: sdk.Deny, Scanner: blue, Triggers: []abi.Trigger{{Literal: "blue"}}})
	for _, one := range []struct {
		text                string
		red, blue           int // calls so far
		hits                string
		prefRed, prefBlue   bool
		redComplete, either bool
	}{
		{text: "nothing here", prefRed: true, prefBlue: true},
		{text: "a Red 12345 dot", red: 1, hits: "[{0 2} {1 6}]", redComplete: true, prefBlue: true},
		{text: "Blue is not blue", red: 1, blue: 1, prefRed: true},
		{text: "", red: 1, blue: 1, prefRed: true, prefBlue: true},
		{text: strings.Repeat("red ", prefilter.Cap+1), red: 2, blue: 1, hits: "[]", prefBlue: true},
	} {
		before := always.calls
		res := c.Run(context.Background(), &chain.Input{Text: one.text})
		if res.Outcome != chain.Pass {
			t.Errorf("%.20q: %s %s", one.text, res.Outcome, res.Reason)
		}
		if red.calls != one.red || blue.calls != one.blue || always.calls != before+1 {
			t.Errorf("%.20q: %d, %d and %d calls, want %d, %d and %d", one.text, red.calls, blue.calls, always.calls, one.red,
				one.blue, before+1)
		}
		for i, want := range []bool{one.prefRed, false, one.prefBlue} {
			if r := res.Receipts[i]; r.Prefiltered != want || r.Outcome != "ok" || r.Bytes != len(one.text) {
				t.Errorf("%.20q: receipt of %s: %+v", one.text, r.Step.Name, r)
			}
		}
		if one.hits != "" && (fmt.Sprint(red.hits) != one.hits || red.complete != one.redComplete) {
			t.Errorf("%.20q: hits %v, complete %v", one.text, red.hits, red.complete)
		}
	}
}

// A step that fails denies only where it was needed: a text that it could find nothing in does not wait for it.
func TestOnePassAndErrors(t *testing.T) {
	c := triggered(t, chain.ScanStep{Name: "s", OnError: sdk.Deny, Scanner: &asked{err: errors.New("trap")},
		Triggers: []abi.Trigger{{Literal: "key"}}})
	if res := c.Run(context.Background(), &chain.Input{Text: "a key"}); res.Outcome != chain.Denied {
		t.Errorf("a failed scanner gave %s", res.Outcome)
	}
	if res := c.Run(context.Background(), &chain.Input{Text: "a lock"}); res.Outcome != chain.Pass {
		t.Errorf("a text without triggers gave %s", res.Outcome)
	}
	elsewhere := c.Steps[0]
	elsewhere.Match.Tools = []string{"mail/*"}
	c = triggered(t, elsewhere)
	if res := c.Run(context.Background(), &chain.Input{Text: "a lock", ToolID: "files/read"}); res.Outcome !=
		chain.Denied {
		t.Errorf("no step concerned the text, and it was called %s", res.Outcome)
	}
}

// Bad triggers are an error of the chain, not a scanner that never runs.
func TestPrepareRefuses(t *testing.T) {
	c := &chain.ScanChain{Steps: []chain.ScanStep{{Name: "s", Scanner: &asked{}, Triggers: []abi.Trigger{{}}}},
		Now: steady}
	if err := c.Prepare(); err == nil {
		t.Error("an empty trigger was taken")
	}
}

// A scanner whose on_error is abstain leaves the text to the others. Where every one that concerns the text failed,
// nobody has looked at it, and it is not called clean: whole, in a stream, and as arguments of a call.
func TestSomebodyMustHaveLooked(t *testing.T) {
	fails := func(onError sdk.Effect) chain.ScanStep {
		return chain.ScanStep{Name: "fails", OnError: onError, Scanner: &asked{err: errors.New("trap")}}
	}
	looks := chain.ScanStep{Name: "looks", OnError: sdk.Deny, Scanner: &asked{}}
	elsewhere, shadow := looks, looks
	elsewhere.Match.Tools, shadow.Shadow = []string{"other/**"}, true
	for name, c := range map[string]struct {
		steps []chain.ScanStep
		clean bool
	}{
		"alone":                {[]chain.ScanStep{fails(sdk.Abstain)}, false},
		"two of them":          {[]chain.ScanStep{fails(sdk.Abstain), fails(sdk.Abstain)}, false},
		"beside one elsewhere": {[]chain.ScanStep{fails(sdk.Abstain), elsewhere}, false},
		"beside a shadow":      {[]chain.ScanStep{shadow, fails(sdk.Abstain)}, false},
		"beside one":           {[]chain.ScanStep{fails(sdk.Abstain), looks}, true},
		"required":             {[]chain.ScanStep{fails(sdk.Deny), looks}, false},
	} {
		scan := triggered(t, c.steps...)
		in := &chain.Input{Text: "text", ToolID: "files/read"}
		if res := scan.Run(context.Background(), in); (res.Outcome == chain.Pass) != c.clean {
			t.Errorf("%s: %s %s", name, res.Outcome, res.Reason)
		}
		in.Text = ""
		_, res := scan.NewStream(in, 1<<20).Next(context.Background(), "text", true)
		if (res.Outcome == chain.Pass) != c.clean {
			t.Errorf("%s, a stream: %s %s", name, res.Outcome, res.Reason)
		}
		var doc exact.Doc
		if err := doc.Parse(`{"a":"text"}`, exact.DefaultLimits); err != nil {
			t.Fatal(err)
		}
		call := &chain.Call{ToolID: "files/read", Args: doc.Root()}
		if v, err := chain.ScanArgs(scan, permits{}).Check(context.Background(), call); (err == nil) != c.clean {
			t.Errorf("%s, args: %v %v", name, v, err)
		}
	}
}

// Arguments that no scanner is there for are not those that a scanner objects to.
func TestArgsThatNobodyScans(t *testing.T) {
	scan := triggered(t, chain.ScanStep{Name: "s", OnError: sdk.Deny, Scanner: &asked{},
		Match: chain.Match{Tools: []string{"other/**"}}})
	var doc exact.Doc
	if err := doc.Parse(`{"a":"text"}`, exact.DefaultLimits); err != nil {
		t.Fatal(err)
	}
	v, err := chain.ScanArgs(scan, permits{}).Check(context.Background(), &chain.Call{ToolID: "x", Args: doc.Root()})
	if err != nil || v.Effect != sdk.Deny || v.Code != sdk.ReasonScanUnavailable ||
		!strings.HasPrefix(v.Reason, "the args could not be scanned: no scanner is configured") {
		t.Errorf("%+v, %v", v, err)
	}
}

// patchy is a scanner of pieces that fails while its switch says so, and finds SECRET.
type patchy struct {
	asked
	fail *bool
	on   string // and on each text that holds this, if it is not ""
}

func (p *patchy) Scan(ctx context.Context, in *chain.Input) ([]sdk.Finding, error) {
	if *p.fail || p.on != "" && strings.Contains(in.Text, p.on) {
		return nil, errors.New("trap")
	}
	var found []sdk.Finding
	if i := strings.Index(in.Text, "SECRET"); i >= 0 {
		found = append(found, sdk.Finding{Kind: "SECRET", Scanner: "patchy", Start: i, End: i + len("SECRET"), Confidence: 1})
	}
	return found, nil
}

func (p *patchy) ScanPiece(ctx context.Context, w *chain.Window) ([]sdk.Finding, []byte, error) {
	found, err := p.Scan(ctx, &w.Input)
	return found, nil, err
}

// In a stream, too, one of the scanners that abstain must have seen all of the text. One that failed on an early piece
// does not make up for another that fails at the end, and the text that nobody saw does not go out.
func TestSomebodyMustHaveLookedAtEveryPiece(t *testing.T) {
	for name, c := range map[string]struct {
		first, last [2]bool // whether the scanner of windows, and that of whole texts, fail on the two pieces
		clean       bool
	}{
		"nobody fails":                   {clean: true},
		"windows fail on the first":      {first: [2]bool{true}, clean: true},
		"windows fail on the last":       {last: [2]bool{true}, clean: true},
		"whole texts fail":               {last: [2]bool{false, true}, clean: true},
		"each fails on another piece":    {first: [2]bool{true}, last: [2]bool{false, true}},
		"both fail on the last":          {last: [2]bool{true, true}},
		"windows fail on all, whole too": {first: [2]bool{true}, last: [2]bool{true, true}},
	} {
		var fails [2]bool
		scan := triggered(t,
			chain.ScanStep{Name: "windows", OnError: sdk.Abstain, Scanner: &patchy{fail: &fails[0]},
				Stream: abi.Stream{Mode: abi.StreamWindow, Lookbehind: 8}},
			chain.ScanStep{Name: "whole", OnError: sdk.Abstain, Scanner: &patchy{fail: &fails[1]}})
		scan.Actions = []chain.ActionRule{{Kinds: []string{"SECRET"}, Action: sdk.Drop}}
		fails = c.first
		s, res := scan.NewStream(&chain.Input{}, 1<<20).Next(context.Background(), strings.Repeat("x", 200), false)
		out := res.Text
		if s != nil {
			fails = c.last
			_, res = s.Next(context.Background(), strings.Repeat("y", 200), true)
			out += res.Text
		}
		if clean := res.Outcome == chain.Pass; clean != c.clean || clean != (len(out) == 400) {
			t.Errorf("%s: %s %s, %d bytes went out", name, res.Outcome, res.Reason, len(out))
		}
	}
}

// A failure on what a text reads as counts as one on the text: the escape is in the first piece, and only decoded does
// it trip the scanner of windows.
func TestSomebodyMustHaveLookedAtWhatIsDecoded(t *testing.T) {
	for _, fails := range []bool{false, true} {
		scan := triggered(t,
			chain.ScanStep{Name: "windows", OnError: sdk.Abstain, Scanner: &patchy{fail: new(bool), on: "A"},
				Stream: abi.Stream{Mode: abi.StreamWindow, Lookbehind: 8}},
			chain.ScanStep{Name: "whole", OnError: sdk.Abstain, Scanner: &patchy{fail: &fails}})
		s, res := scan.NewStream(&chain.Input{}, 1<<20).Next(context.Background(), `x\u0041`+strings.Repeat("x", 200), false)
		if s == nil {
			t.Fatalf("the first piece: %s %s", res.Outcome, res.Reason)
		}
		if _, res = s.Next(context.Background(), "y", true); (res.Outcome == chain.Pass) == fails {
			t.Errorf("the other scanner fails %v: %s %s", fails, res.Outcome, res.Reason)
		}
	}
}
