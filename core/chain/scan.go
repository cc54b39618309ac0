package chain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/yett-dev/yett/core/prefilter"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
)

// The outcomes of a scan.
const (
	Pass     = "PASS"
	Warned   = "WARNED"
	Redacted = "REDACTED"
	Denied   = "DENIED"
)

// ScanStep is one step of a scan chain.
type ScanStep struct {
	Name    string
	Plugin  string // that it calls
	Match   Match
	Timeout time.Duration
	OnError sdk.Effect // Deny: the text is not released; Abstain: the operator does without this scanner
	Shadow  bool
	Builtin bool // the scanner comes with us: it masks whatever its match says
	Scanner Scanner
	// Triggers are what the scanner declares: without one of them in a text it can find nothing. None: it sees every text.
	Triggers []abi.Trigger
	Kinds    []abi.Kind // what the scanner may report
	Stream   abi.Stream // how the scanner takes a text that comes in pieces; the zero Stream is as a whole

	set  int       // of the pass; -1 when the step always runs
	late *lateness // nil: masking waits for it the whole time
}

// ActionRule maps findings to an action. Empty lists hold for everything. The first rule that holds decides.
type ActionRule struct {
	Kinds         []string // globs
	Scanners      []string
	Tools         []string
	Severity      sdk.Severity // at least; with Exact, just this one
	Exact         bool
	MinConfidence float32
	Action        sdk.Action
	Replacement   string // for Redact: the template of what stands in for the finding, see fill
}

// ScanChain is a scan chain. It is immutable after Prepare and safe for concurrent use.
type ScanChain struct {
	Steps   []ScanStep
	Budget  time.Duration
	Actions []ActionRule
	Now     func() time.Time
	// Keys finds our own keys in a text, and what is left of one that was cut. Masking hides them whatever the scanners
	// say; nil finds none.
	Keys func(text string) []sdk.Finding

	pass  *prefilter.Automaton // nil: every step runs
	found sync.Pool            // of *prefilter.Found
	spare sync.Pool            // of *readings
}

// Prepare compiles the triggers of all steps into the one pass that each text gets, and has masking remember who is
// late. Without it every scanner sees every text. It is called once, before the first Run.
func (c *ScanChain) Prepare() error {
	var sets [][]abi.Trigger
	for i := range c.Steps {
		s := &c.Steps[i]
		s.set, s.late = -1, new(lateness)
		if len(s.Triggers) > 0 {
			s.set = len(sets)
			sets = append(sets, s.Triggers)
		}
	}
	if len(sets) == 0 {
		return nil
	}
	pass, err := prefilter.Compile(sets)
	if err != nil {
		return fmt.Errorf("triggers of the scan chain: %w", err)
	}
	c.pass = pass
	c.found.New = func() any { return new(prefilter.Found) }
	return nil
}

// Receipt says what one scanner did.
type Receipt struct {
	Step    *ScanStep
	About   About
	Outcome string // ok, error, timeout, skipped
	// Prefiltered: the text holds nothing that the scanner could find, so it was not called.
	Prefiltered bool
	Bytes       int
	Began       time.Time // zero: it was not asked
	Took        time.Duration
	Err         error

	crowded bool          // it reported as many findings as a call may: the last may stand for what was not asked about
	told    time.Duration // that it took to mask what the failure says, which is no time of the chain's
}

// ScanResult is what may be released, and why.
type ScanResult struct {
	Outcome  string
	Text     string // what may be released; "" when Denied
	Code     string
	Reason   string
	Findings []sdk.Finding // of enforcing steps, sorted
	Shadow   []sdk.Finding // of shadow steps, sorted
	Receipts []Receipt

	failed *Receipt // for which nothing of the text may be called clean; nil for none
}

// Run is RunIn with a budget of its own.
func (c *ScanChain) Run(ctx context.Context, in *Input) ScanResult {
	own := Time{c.Now().Add(c.Budget)}
	return c.RunIn(ctx, in, &own)
}

// RunIn gives the original text to every step and merges what they found. The same text and chain give the same result,
// always. A step that did not cover the whole text and whose on_error is deny makes the outcome DENIED.
func (c *ScanChain) RunIn(ctx context.Context, in *Input, left *Time) ScanResult {
	res := ScanResult{Outcome: Pass, Code: sdk.ReasonScanOK}
	concerned := false // an enforcing step has looked at the text, or failed to
	rs := c.read(in.Text)
	defer c.done(rs)
	if in.Whole {
		c.readApart(rs)
	}
	if in.Turn != nil { // scanners have places of their own
		in.Turn.Give()
	}
	for i := range c.Steps {
		s := &c.Steps[i]
		rec, found := c.scan(ctx, s, in, rs, left.end)
		left.end = left.end.Add(rec.told)
		res.Receipts = append(res.Receipts, rec)
		if s.Shadow {
			res.Shadow = append(res.Shadow, found...)
			continue
		}
		concerned = concerned || rec.Outcome != "skipped"
		res.Findings = append(res.Findings, found...)
	}
	res.failed = lacking(res.Receipts, func(i int) bool { return res.Receipts[i].Err != nil })
	res.Findings = c.judge(in, in.Text, 0, res.Findings)
	res.Shadow = c.judge(in, in.Text, 0, res.Shadow)
	switch {
	case !concerned:
		res.deny(sdk.ReasonScanUnavailable, "no scanner is configured for this tool and agent, so nothing can be "+
			"called clean")
	case rs.deep || rs.apart != nil && rs.apart.deep:
		res.deny(sdk.ReasonScanUnavailable, tooDeep)
	case res.failed != nil:
		res.deny(sdk.ReasonScanUnavailable, fmt.Sprintf("scanner %s did not run to its end: %v", res.failed.Step.Name,
			res.failed.Err))
	default:
		c.applyFindings(&res, in)
	}
	return res
}

// lacking gives the failure for which nothing of a text may be called clean, or nil. A step whose on_error is deny must
// not fail. A step that abstains leaves the text to the others, so one of the enforcing steps must have seen all of it.
// blind says which steps have not.
func lacking(rs []Receipt, blind func(step int) bool) (failed *Receipt) {
	seen := false
	for i := range rs {
		r := &rs[i]
		if r.Step.Shadow || r.Outcome == "skipped" {
			continue
		}
		if r.Err != nil && r.Step.OnError != sdk.Abstain {
			return r
		}
		seen = seen || !blind(i)
		if r.Err != nil && failed == nil {
			failed = r
		}
	}
	if seen {
		return nil
	}
	return failed
}

func (r *ScanResult) deny(code, reason string) {
	r.Outcome, r.Code, r.Reason, r.Text = Denied, code, reason, ""
}

// scan asks a step about all readings of a text, within the time of one step.
func (c *ScanChain) scan(ctx context.Context, s *ScanStep, in *Input, rs *readings, end time.Time) (Receipt,
	[]sdk.Finding) {
	rec := Receipt{Step: s, About: s.Scanner.About(), Bytes: len(in.Text), Outcome: "ok"}
	if !s.Match.holdsForText(in.ToolID, in.AgentID) {
		rec.Outcome, rec.Bytes = "skipped", 0
		return rec, nil
	}
	start := c.Now()
	rec.Began = start
	var all []sdk.Finding
	rec.Prefiltered = true
	for k, of := range rs.each() {
		found, called, err := c.scanReading(ctx, s, in, of, k, start, end)
		if called {
			rec.Prefiltered = false
		}
		if err != nil {
			rec.Took = c.Now().Sub(start)
			c.failed(ctx, in, &rec, err)
			return rec, nil
		}
		rec.crowded = rec.crowded || len(found) >= abi.MaxFindings
		all = append(all, found...)
	}
	if !rec.Prefiltered {
		rec.Took = c.Now().Sub(start)
	}
	return rec, all
}

// failed is fail with what may be kept and shown of the error.
func (c *ScanChain) failed(ctx context.Context, in *Input, rec *Receipt, err error) {
	start := c.Now()
	rec.fail(c.kept(ctx, in, err))
	rec.told = c.Now().Sub(start)
}

// fail is a step that did not run to its end.
func (r *Receipt) fail(err error) {
	r.Err, r.Outcome = err, "error"
	if errors.Is(err, context.DeadlineExceeded) {
		r.Outcome = "timeout"
	}
}

// covering looks after a scanner that reported as many findings as a call may: the last of them may stand for all that
// follow it, whatever their kinds. So another one is put beside it, of that kind among the scanner's whose action is
// the hardest.
func (c *ScanChain) covering(s *ScanStep, in *Input, found []sdk.Finding) []sdk.Finding {
	if len(found) < abi.MaxFindings {
		return found
	}
	last := found[0]
	for _, f := range found {
		if f.End > last.End || f.End == last.End && f.Start >= last.Start {
			last = f
		}
	}
	hardest := last
	worst, _ := c.action(in, &last)
	for _, k := range s.Kinds {
		f := last
		f.Kind, f.Severity, f.Confidence = k.Name, max(sdk.Severity(k.Severity), last.Severity), 1
		if s.Builtin { // what our own scanners fold has the highest severity of what is in it
			f.Severity = last.Severity
		}
		if a, _ := c.action(in, &f); a > worst {
			hardest, worst = f, a
		}
	}
	if hardest == last {
		return found
	}
	return append(found, hardest)
}

// valid refuses findings that no scanner may give, whatever the host in between has checked.
func valid(found []sdk.Finding, n int) error {
	for _, f := range found {
		if f.Start < 0 || f.Start >= f.End || f.End > n {
			return fmt.Errorf("a finding spans bytes %d to %d of %d", f.Start, f.End, n)
		}
		if f.Kind == "" || math.IsNaN(float64(f.Confidence)) || f.Confidence < 0 || f.Confidence > 1 {
			return errors.New("a finding without a kind or with a confidence outside 0 to 1")
		}
	}
	return nil
}

// judge sorts findings, drops exact doubles and gives each its action and what stands in for it. text lies at the
// offset at of what the findings' offsets are of.
func (c *ScanChain) judge(in *Input, text string, at int, found []sdk.Finding) []sdk.Finding {
	found = ordered(found)
	for i := range found {
		found[i].Action, found[i].Replacement = c.action(in, &found[i])
	}
	in.fill(text, at, found)
	return found
}

// ordered sorts findings as scanners gave them, before they have actions, and drops exact doubles.
func ordered(found []sdk.Finding) []sdk.Finding {
	slices.SortFunc(found, func(a, b sdk.Finding) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End), strings.Compare(a.Kind, b.Kind),
			strings.Compare(a.Scanner, b.Scanner),
			cmp.Compare(b.Confidence, a.Confidence), cmp.Compare(b.Severity, a.Severity), cmp.Compare(b.Suggested, a.Suggested),
			strings.Compare(a.Replacement, b.Replacement))
	})
	return slices.Compact(found)
}

// action is the first rule's that holds, with its template for what stands in for the finding; with none, the finding
// is flagged.
func (c *ScanChain) action(in *Input, f *sdk.Finding) (sdk.Action, string) {
	for i := range c.Actions {
		r := &c.Actions[i]
		if len(r.Kinds) > 0 && !anyGlob(r.Kinds, f.Kind) || len(r.Scanners) > 0 && !anyGlob(r.Scanners, f.Scanner) ||
			len(r.Tools) > 0 && !anyGlob(r.Tools, in.ToolID) {
			continue
		}
		if f.Severity < r.Severity || r.Exact && f.Severity != r.Severity || f.Confidence < r.MinConfidence {
			continue
		}
		return r.Action, cmp.Or(r.Replacement, plainly)
	}
	return sdk.Flag, ""
}

// applyFindings turns judged findings into the outcome and the text.
func (c *ScanChain) applyFindings(res *ScanResult, in *Input) {
	top, first := topOf(res.Findings)
	if first == nil || top == sdk.Allow {
		res.Text = in.Text
		return
	}
	res.Code, res.Reason = reasonOf(first)
	switch {
	case top == sdk.Drop:
		res.deny(res.Code, res.Reason)
	case top == sdk.Flag:
		res.Outcome, res.Text = Warned, in.Text
	default:
		text, err := redact(in.Text, res.Findings, in.Whole || JSONType(in.ContentType))
		if err == nil && in.Whole {
			err = sameShape(in.Text, text)
		}
		if err != nil {
			res.deny(sdk.ReasonScanUnavailable, "the text could not be redacted: "+err.Error())
			return
		}
		if res.Outcome, res.Text = Redacted, text; text == in.Text {
			res.unchanged()
		}
	}
}

// unchanged makes a redaction that changed no byte a warning: all that was found has its own replacement in its place
// already.
func (r *ScanResult) unchanged() {
	if r.Outcome == Redacted {
		r.Outcome = Warned
	}
}

// topOf is the hardest action of findings, and the first finding that has it; nil if there are none.
func topOf(found []sdk.Finding) (top sdk.Action, first *sdk.Finding) {
	for i := range found {
		if f := &found[i]; first == nil || f.Action > top {
			top, first = f.Action, f
		}
	}
	return top, first
}

func reasonOf(f *sdk.Finding) (code, reason string) {
	return codeOf(f.Kind), fmt.Sprintf("%s found by %s", f.Kind, f.Scanner)
}

// codeOf is the reason code of a finding's kind.
func codeOf(kind string) string {
	if strings.HasPrefix(kind, "INJECTION") {
		return "OUTPUT_INJECTION"
	}
	return "OUTPUT_" + kind
}
