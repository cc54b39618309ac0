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

// What is kept is masked whatever the operator does about outputs: actions and on_error do not count. The built-in
// scanners mask, and those whose match covers the call; where there are neither, all that enforce.
func TestMask(t *testing.T) {
	words := chain.ScanStep{Name: "words", Scanner: wordScanner{"bad", nil}}
	broken := chain.ScanStep{Name: "broken", Scanner: wordScanner{"bad", errors.New("broken")}, OnError: sdk.Abstain}
	elsewhere := func(s chain.ScanStep) chain.ScanStep {
		s.Match = chain.Match{Tools: []string{"elsewhere/**"}}
		return s
	}
	builtin := func(s chain.ScanStep) chain.ScanStep { s.Builtin = true; return s }
	shadow := func(s chain.ScanStep) chain.ScanStep { s.Shadow = true; return s }
	for _, c := range []struct {
		name    string
		steps   []chain.ScanStep
		want    string
		scanner string // that is to blame
	}{
		{"flagged outputs", []chain.ScanStep{words}, `{"a":"x [WORD]"}`, ""},
		{"another tool's step alone", []chain.ScanStep{elsewhere(words)}, `{"a":"x [WORD]"}`, ""},
		{"another tool's step fails", []chain.ScanStep{words, elsewhere(broken)}, `{"a":"x [WORD]"}`, ""},
		{"another tool's step fails beside a built-in", []chain.ScanStep{builtin(elsewhere(words)), elsewhere(broken)}, `{"a":"x [WORD]"}`, ""},
		{"a shadow step fails", []chain.ScanStep{words, shadow(broken)}, `{"a":"x [WORD]"}`, ""},
		{"error although abstain", []chain.ScanStep{words, broken}, "", "broken"},
		{"a built-in fails", []chain.ScanStep{words, builtin(elsewhere(broken))}, "", "broken"},
		{"no scanner", nil, "", "none"},
		{"shadow only", []chain.ScanStep{shadow(words)}, "", "none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			scan := &chain.ScanChain{Budget: time.Minute, Now: time.Now, Steps: c.steps,
				Actions: []chain.ActionRule{{Action: sdk.Allow}}}
			m, err := scan.Look(context.Background(), &chain.Input{Text: `{"a":"x bad"}`, ToolID: "t"})
			got, kerr := m.Kept()
			var why *chain.UnmaskedError
			switch {
			case c.scanner == "none" && errors.Is(err, chain.ErrNoScanner):
			case c.scanner != "" && errors.As(err, &why) && why.Scanner == c.scanner && why.Cause == chain.CauseError:
			case c.scanner != "" || err != nil || kerr != nil || got != c.want:
				t.Errorf("got %q %v, want %q", got, err, c.want)
			}
		})
	}
}

// Whoever answers for a call sees how long a masked thing is, of what it is made and how it begins, and no more than
// that.
func TestMaskShowsTheShape(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`pay1000000toMallory2day`, `[WORD: 23 characters (15 letters, 8 digits), begins pay1…]`},
		{`a b`, `[WORD: 3 characters (2 letters, 1 space)]`},
		{`hunter22`, `[WORD: 8 characters (6 letters, 2 digits), begins hu…]`},
		{`<<'"pay now please please`, `[WORD: 25 characters (18 letters, 3 spaces, 4 signs), begins ????…]`},
		{`é`, `[WORD: 1 character (1 letter)]`},
	} {
		scan := &chain.ScanChain{Budget: time.Minute, Now: time.Now,
			Steps: []chain.ScanStep{{Name: "words", Scanner: wordScanner{c.text, nil}}}}
		m, err := scan.Look(context.Background(), &chain.Input{Text: "x " + c.text, ToolID: "t"})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := m.Shown(); err != nil || got != "x "+c.want {
			t.Errorf("%s is shown as %q, want %q (%v)", c.text, got, "x "+c.want, err)
		}
		if got, err := m.Kept(); err != nil || got != "x [WORD]" {
			t.Errorf("%s is kept as %q (%v)", c.text, got, err)
		}
	}
}

// A scanner that hangs costs masking its own bound, not the whole budget of the chain.
func TestMaskHasABoundOfItsOwn(t *testing.T) {
	var left time.Duration
	look := func(ctx context.Context, in *chain.Input) ([]sdk.Finding, error) {
		end, _ := ctx.Deadline()
		if left = time.Until(end); !in.Masking || in.KeyID != "key_1" {
			t.Errorf("the scanner got %+v", in)
		}
		return nil, context.DeadlineExceeded
	}
	scan := &chain.ScanChain{Budget: time.Hour, Now: time.Now,
		Steps: []chain.ScanStep{{Name: "hangs", Scanner: scannerFunc(look)}}}
	_, err := scan.Mask(context.Background(), &chain.Input{Text: "x", ToolID: "t", KeyID: "key_1"})
	var why *chain.UnmaskedError
	if !errors.As(err, &why) || why.Cause != chain.CauseTimeout || left > time.Second {
		t.Errorf("masking gave %v; the scanner had %v", err, left)
	}
}

// While a scanner hangs, masking waits for it a moment only, but for one text a second; once it ends in time, the whole
// time again. One key's slow texts take no time from another key's, and long texts may be slow.
func TestMaskingHardlyWaitsForAScannerThatHangs(t *testing.T) {
	now, hangs := time.Now(), true
	var had time.Duration
	scan := &chain.ScanChain{Budget: time.Hour, Now: func() time.Time { return now }}
	look := func(ctx context.Context, _ *chain.Input) ([]sdk.Finding, error) {
		end, _ := ctx.Deadline()
		had = end.Sub(now)
		if hangs {
			now = now.Add(time.Second / 2)
			return nil, context.DeadlineExceeded
		}
		return nil, nil
	}
	scan.Steps = []chain.ScanStep{{Name: "hangs", Scanner: scannerFunc(look)}}
	if err := scan.Prepare(); err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		key         string
		after       time.Duration
		bytes       int
		patient     bool
		hangs, want bool
	}{
		{"a", 0, 100_000, false, true, true}, // long
		{"a", 0, 1, false, true, true}, {"a", time.Millisecond, 1, false, true, false}, {"a", time.Millisecond, 1, true, true, true},
		// one key's texts alone are slow
		{"b", time.Millisecond, 1, false, false, true}, {"a", time.Millisecond, 1, false, true, false},
		{"b", time.Millisecond, 1, false, true, true}, {"b", time.Millisecond, 1, false, true, false}, {"c", time.Millisecond, 1, false, true, false},
		{"c", 2 * time.Second, 1, false, true, true}, {"d", time.Millisecond, 1, false, true, false}, // one text a second
		{"d", time.Millisecond, 1, false, false, false}, {"a", time.Millisecond, 1, false, false, true},
	} {
		now, hangs = now.Add(step.after), step.hangs
		at := now
		// what comes of it is not the question
		_, _ = scan.Look(context.Background(), &chain.Input{Text: strings.Repeat("x", step.bytes), KeyID: step.key,
			Patient: step.patient})
		now = at
		if got := had > 100*time.Millisecond; got != step.want {
			t.Errorf("text %d: waits the whole time: %t, want %t (%v)", i, got, step.want, had)
		}
	}
}

type scannerFunc func(ctx context.Context, in *chain.Input) ([]sdk.Finding, error)

func (f scannerFunc) Scan(ctx context.Context, in *chain.Input) ([]sdk.Finding, error) {
	return f(ctx, in)
}
func (scannerFunc) About() chain.About { return chain.About{} }

// A text that no enforcing scanner looked at is not clean, whatever the reason.
func TestUnscannedIsNotClean(t *testing.T) {
	skipped := chain.ScanStep{Name: "elsewhere", Match: chain.Match{Tools: []string{"elsewhere/**"}},
		Scanner: wordScanner{"bad", nil}}
	shadow := chain.ScanStep{Name: "shadow", Shadow: true, Scanner: wordScanner{"bad", nil}}
	looks := chain.ScanStep{Name: "looks", Scanner: wordScanner{"bad", nil}}
	for _, c := range []struct {
		name  string
		steps []chain.ScanStep
		want  string
	}{{"no step", nil, chain.Denied}, {"all skipped", []chain.ScanStep{skipped}, chain.Denied},
		{"shadow only", []chain.ScanStep{shadow}, chain.Denied},
		{"skipped and shadow", []chain.ScanStep{skipped, shadow}, chain.Denied}, {"one looks", []chain.ScanStep{skipped, shadow, looks}, chain.Pass}} {
		t.Run(c.name, func(t *testing.T) {
			scan := &chain.ScanChain{Budget: time.Minute, Now: time.Now, Steps: c.steps}
			if res := scan.Run(context.Background(), &chain.Input{Text: "fine", ToolID: "t"}); res.Outcome != c.want {
				t.Errorf("got %s %s", res.Outcome, res.Reason)
			}
		})
	}
}

// grades finds each of these words, as personal data or an injection of some weight.
type grades map[string]sdk.Finding

func (grades) About() chain.About { return chain.About{} }
func (g grades) Scan(_ context.Context, in *chain.Input) (found []sdk.Finding, _ error) {
	for word, f := range g {
		if at := strings.Index(in.Text, word); at >= 0 {
			f.Scanner, f.Start, f.End, f.Confidence = "grades", at, at+len(word), 1
			found = append(found, f)
		}
	}
	return found, nil
}

// Of what the built-in scanners find, secrets and personal data of weight are masked. An approver reads the rest: to
// whom a mail goes, and what tries to steer the model. All that other scanners find is masked.
func TestMaskLeavesWhatIsDecidedOn(t *testing.T) {
	step := chain.ScanStep{Name: "grades", Scanner: grades{"jane@corp": {Kind: "PII_EMAIL", Severity: sdk.Medium},
		"4111": {Kind: "PII_CREDIT_CARD", Severity: sdk.Critical}, "ignore": {Kind: "INJECTION_OVERRIDE", Severity: sdk.High},
		"hunter2": {Kind: "SECRET_PASSWORD", Severity: sdk.Low}}}
	const text = `{"to":"jane@corp","card":"4111","say":"ignore","pass":"hunter2"}`
	for builtin, want := range map[bool]string{
		true:  `{"to":"jane@corp","card":"[PII_CREDIT_CARD]","say":"ignore","pass":"[SECRET_PASSWORD]"}`,
		false: `{"to":"[PII_EMAIL]","card":"[PII_CREDIT_CARD]","say":"[INJECTION_OVERRIDE]","pass":"[SECRET_PASSWORD]"}`,
	} {
		step.Builtin = builtin
		scan := &chain.ScanChain{Budget: time.Minute, Now: time.Now, Steps: []chain.ScanStep{step},
			Actions: []chain.ActionRule{{Action: sdk.Allow}}}
		m, err := scan.Look(t.Context(), &chain.Input{Text: text, ToolID: "t"})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := m.Kept(); err != nil || got != want {
			t.Errorf("built in: %v: got %s %v, want %s", builtin, got, err, want)
		}
	}
}

// An approver sees a long list of addresses: what was folded hides nothing that is masked.
func TestMaskReadsLongLists(t *testing.T) {
	for severity, withheld := range map[sdk.Severity]bool{sdk.Medium: false, sdk.High: true} {
		step := chain.ScanStep{Name: "many", Builtin: true, Scanner: manyOf{severity}}
		scan := &chain.ScanChain{Budget: time.Minute, Now: time.Now, Steps: []chain.ScanStep{step},
			Actions: []chain.ActionRule{{Action: sdk.Flag}}}
		_, err := scan.Look(t.Context(), &chain.Input{Text: strings.Repeat("ab", 2*abi.MaxFindings), ToolID: "t"})
		if (err != nil) != withheld {
			t.Errorf("%s: %v", severity, err)
		}
	}
}

// manyOf finds as much personal data as it may report.
type manyOf struct{ severity sdk.Severity }

func (manyOf) About() chain.About { return chain.About{} }
func (m manyOf) Scan(context.Context, *chain.Input) (found []sdk.Finding, _ error) {
	for i := range abi.MaxFindings {
		found = append(found, sdk.Finding{Kind: "PII_EMAIL", Scanner: "many", Start: 2 * i, End: 2*i + 1, Confidence: 1,
			Severity: m.severity})
	}
	return found, nil
}
