package chain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/yett-dev/yett/core/quote"
	"github.com/yett-dev/yett/sdk"
)

// ErrUnavailable is what a step returns when it could not even start: its pool is full, its process is down.
var ErrUnavailable = errors.New("the step is not available")

// Match says which calls concern a step. An empty list holds for everything.
type Match struct {
	Tools    []string // globs: "*" within one "/" segment, "**" across
	Agents   []string
	Sessions []string
}

// Holds reports whether the step concerns that call.
func (m *Match) Holds(tool, agent, session string) bool {
	return (len(m.Tools) == 0 || anyGlob(m.Tools, tool)) && sdk.MatchAgent(m.Agents, agent) &&
		sdk.MatchAgent(m.Sessions, session)
}

// holdsForText reports whether a scanner looks at a text. A caller may leave out the agent of a text, who can then be
// any agent: to leave it out must not spare a scanner that some agents have.
func (m *Match) holdsForText(tool, agent string) bool {
	return (len(m.Tools) == 0 || anyGlob(m.Tools, tool)) && (agent == "" || sdk.MatchAgent(m.Agents, agent))
}

func anyGlob(globs []string, s string) bool {
	for _, g := range globs {
		if sdk.MatchGlob(g, s) {
			return true
		}
	}
	return false
}

// Step is one step of an authorize chain.
type Step struct {
	Name    string
	Kind    string        // rules, wasm, process
	Plugin  string        // that it calls; "" where it is rules
	Version func() string // of what answers, as it is now; nil: it has none
	Match   Match
	Timeout time.Duration // 0: what is left of the budget
	OnError sdk.Effect    // Deny, Defer or Abstain, when the step did not run to its end
	Shadow  bool          // runs and is recorded, changes nothing
	Inline  bool          // works in its caller's goroutine and looks at the call's Bound: gets no context of its own
	Own     bool          // not Inline, but an operator's rules all the same: what it says is not masked
	Beside  bool          // waits for another process: asked after the steps that do not, beside the others that do
	Checker Checker
}

// Authorizer is an authorize chain. It is immutable and safe for concurrent use.
type Authorizer struct {
	Steps   []Step
	Budget  time.Duration
	Default sdk.Effect // when all abstain
	Now     func() time.Time
	Places  Places     // of the steps that are Inline; nil: any number work at once
	Said    *ScanChain // masks what steps that are not Inline say; nil masks nothing
}

// Row is what one step said.
type Row struct {
	Step    *Step
	Verdict sdk.Verdict // after on_error
	Began   time.Time
	Took    time.Duration
	Err     error // the step did not run to its end

	place int    // in the list of steps
	rule  string // the rule as the step named it, where Verdict has it otherwise
}

// ends reports whether no step needs to be asked after this one.
func (r *Row) ends() bool { return r.Verdict.Effect == sdk.Deny && !r.Step.Shadow }

// StepLimit is a limit with the step that asks for it.
type StepLimit struct {
	Step string
	sdk.Limit
}

// Result is what a chain said.
type Result struct {
	Verdict sdk.Verdict // never Abstain
	Rows    []Row
	Quorums []sdk.Quorum // on Defer: what each step that defers asks for; all of them hold
	Usual   bool         // on Defer: a step that defers names no Expires, so the configured default bounds the wait too
	Limits  []StepLimit  // unless Deny: what every step that permits or defers asks for; all of them hold
}

// Run asks the steps that this process answers in list order, until one that enforces says DENY, then those that are
// Beside all at once, and combines their verdicts: deny > defer > permit > abstain. Reason and rule are those of the
// first step in list order among those with the winning effect, whoever answered first; rows are in list order, up to
// where a DENY ended the asking. A call that several steps defer waits as long as the shortest of them lets it. rows is
// reused for the result.
func (a *Authorizer) Run(ctx context.Context, c *Call, rows []Row) Result {
	end := a.Now().Add(a.Budget)
	c.Bound = Bound{Places: a.Places, Key: c.KeyID, Now: a.Now, End: end, Turn: c.Turn}
	res := Result{Rows: rows[:0]}
	beside, denied := 0, false
	for i := range a.Steps {
		s := &a.Steps[i]
		if !s.Match.Holds(c.ToolID, c.AgentID, c.SessionID) {
			continue
		}
		if s.Beside {
			beside++
			continue
		}
		row := a.ask(ctx, s, c, end)
		row.place = i
		res.Rows = append(res.Rows, row)
		if denied = row.ends(); denied {
			break
		}
	}
	if beside > 0 && !denied {
		c.endTurn()
		res.Rows = a.askBeside(ctx, c, end, res.Rows)
	}
	a.hear(ctx, c, res.Rows)
	a.combine(&res)
	return res
}

// combine is the lattice.
func (a *Authorizer) combine(res *Result) {
	for i := range res.Rows {
		row := &res.Rows[i]
		if row.Step.Shadow {
			continue
		}
		wait := res.Verdict.Expires
		if row.Verdict.Effect > res.Verdict.Effect {
			res.Verdict, wait = row.Verdict, 0
		}
		if row.Verdict.Effect == sdk.Defer && res.Verdict.Effect == sdk.Defer {
			res.Verdict.Expires = shorter(wait, row.Verdict.Expires)
			res.Usual = res.Usual || row.Verdict.Expires <= 0
		}
		res.asks(row)
	}
	switch res.Verdict.Effect {
	case sdk.Abstain:
		res.Verdict = a.unmatched()
		res.asks(&Row{Step: &Step{}, Verdict: res.Verdict})
	case sdk.Deny:
		res.Quorums, res.Limits, res.Usual = nil, nil, false
	}
	for _, q := range res.Quorums {
		res.Verdict.Approvals = max(res.Verdict.Approvals, q.N)
	}
}

// shorter is the shorter of two waits. 0 is one that nobody named.
func shorter(a, b time.Duration) time.Duration {
	if a <= 0 || b > 0 && b < a {
		return max(b, 0)
	}
	return a
}

// asks collects what a step asks for beside its effect: whoever wins, what the others ask for holds too.
func (res *Result) asks(row *Row) {
	v := &row.Verdict
	if v.Effect == sdk.Defer {
		rule, named := v.RuleID, row.rule
		switch {
		case row.Err != nil: // who grants past a failure has not granted what the step asks for when it works
			rule, named = sdk.RuleOfFailure+row.Step.Name, ""
		case rule == "" && row.Step.Name != "":
			rule = sdk.RuleOfStep + row.Step.Name // a grant that stands against one step stands against no other
		}
		res.Quorums = append(res.Quorums, sdk.Quorum{N: max(v.Approvals, 1), From: v.From, Step: row.Step.Name, Rule: rule,
			Named: named})
	}
	if v.Effect == sdk.Defer || v.Effect == sdk.Permit {
		for _, l := range v.Limits {
			res.Limits = append(res.Limits, StepLimit{row.Step.Name, l})
		}
	}
}

// unmatched is the verdict when nobody spoke. Anything but an explicit permit or defer is a deny.
func (a *Authorizer) unmatched() sdk.Verdict {
	switch a.Default {
	case sdk.Permit:
		return sdk.Verdict{Effect: sdk.Permit, Code: sdk.ReasonUnmatchedPermit,
			Reason: "no step spoke; the chain's default is permit"}
	case sdk.Defer:
		return sdk.Verdict{Effect: sdk.Defer, Code: sdk.ReasonUnmatchedDefer,
			Reason: "no step spoke; the chain's default is defer"}
	}
	return sdk.Verdict{Effect: sdk.Deny, Code: sdk.ReasonUnmatchedDeny, Reason: "no rule permits this call"}
}

func (a *Authorizer) ask(ctx context.Context, s *Step, c *Call, end time.Time) Row {
	start := a.Now()
	var v sdk.Verdict
	err := ctx.Err()
	switch {
	case err != nil:
	case !start.Before(end):
		err = fmt.Errorf("the chain's budget of %v was used up before this step: %w", a.Budget, context.DeadlineExceeded)
	case s.Inline:
		c.Bound.End = sooner(s.Timeout, start, end)
		v, err = s.Checker.Check(ctx, c)
	default:
		c.endTurn()
		v, err = limited(ctx, s.Timeout, start, end, func(ctx context.Context) (sdk.Verdict, error) {
			return s.Checker.Check(ctx, c)
		})
	}
	row := Row{Step: s, Verdict: v, Began: start, Took: a.Now().Sub(start), Err: err}
	if err == nil && (v.Effect > sdk.Deny || v.Effect != sdk.Abstain && v.Code == "") {
		row.Err = errNoVerdict
	}
	if row.Err != nil {
		row.Verdict = onError(s.Name, s.OnError, row.Err)
		switch held := err != nil && (v.Effect == sdk.Defer || v.Effect == sdk.Deny); {
		case held && !s.Inline: // a verdict that breaks a rule: what it wanted to stop is not let through for that
			row.Verdict, row.Err = sdk.Verdict{Effect: v.Effect}, nil
			row.refuse(err)
		case held && v.Effect > row.Verdict.Effect:
			row.Verdict = sdk.Verdict{Effect: v.Effect, Code: row.Verdict.Code, Reason: row.Verdict.Reason, RuleID: v.RuleID,
				Approvals: v.Approvals, From: v.From, Expires: v.Expires, Priority: v.Priority}
		}
	}
	return row
}

// errInvalid is the error of a verdict that is not taken. It quotes nothing of it.
type errInvalid string

func (e errInvalid) Error() string { return string(e) }

const (
	errNoVerdict errInvalid = "the step answered with an unknown effect or without a reason code"
	errTold      errInvalid = "the step's verdict is invalid: its code or one of its approvers holds what has to be masked"
	errApproved  errInvalid = "the step's verdict is invalid: its code says that a person approved, which only the " +
		"gateway knows; use another code"
	errUnlooked errInvalid = "the step's verdict is invalid: its approvers cannot be checked for what has to be masked"
)

// hear makes what somebody else's code says of a call what may be kept and shown: it must tell no secret of the call,
// and not hide or move text wherever it is read. An operator's rules say what they say. It follows when all steps were
// asked, so that a scanner that hangs takes none of their time.
func (a *Authorizer) hear(ctx context.Context, c *Call, rows []Row) {
	if !slices.ContainsFunc(rows, Row.says) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, maskTime)
	defer cancel()
	for i := range rows {
		if rows[i].says() {
			a.hearRow(ctx, c, &rows[i])
		}
	}
}

// says reports whether there is something in the row that somebody else's code said.
func (r Row) says() bool {
	return !r.Step.Inline && !r.Step.Own && (r.Err != nil || r.Verdict.Reason != "" || r.Verdict.Message != "" ||
		r.Verdict.RuleID != "" || r.Verdict.Code != "" || len(r.Verdict.From) > 0)
}

func (a *Authorizer) hearRow(ctx context.Context, c *Call, row *Row) {
	in := Input{ToolID: c.ToolID, AgentID: c.AgentID, KeyID: c.KeyID}
	if err := a.hearNames(ctx, in, row); err != nil {
		row.refuse(err)
		return
	}
	v, named := &row.Verdict, row.Verdict.RuleID
	for _, text := range []*string{&v.Reason, &v.Message, &v.RuleID} {
		if in.Text = *text; in.Text != "" && (row.Err == nil || text != &v.Reason) {
			*text = quote.Visible(a.Said.said(ctx, &in))
		}
	}
	if sdk.OwnRule(v.RuleID) {
		v.RuleID = strconv.Quote(v.RuleID) // it prints, so nothing but quotes and backslashes is escaped
	}
	if v.RuleID != named {
		row.rule = named
	}
	if _, own := errors.AsType[errInvalid](row.Err); row.Err != nil && !own {
		row.Err = a.Said.hush(ctx, &in, row.Err)
		v.Reason = onError(row.Step.Name, row.Step.OnError, row.Err).Reason
	}
}

// hearNames judges what a verdict says in names, which work only as they are and so cannot be masked: its code and its
// approvers. The code of a step that failed is ours.
func (a *Authorizer) hearNames(ctx context.Context, in Input, row *Row) error {
	var names []string
	if row.Err == nil && sdk.SaysApproved(row.Verdict.Code) {
		return errApproved
	}
	if row.Err == nil && row.Verdict.Code != "" {
		names = append(names, row.Verdict.Code)
	}
	for _, who := range row.Verdict.From {
		names = append(names, strings.TrimPrefix(who, "key:"))
	}
	if a.Said == nil || len(names) == 0 {
		return nil
	}
	in.Text = strings.Join(names, "\n") // one look: half a secret in each of two names is one too
	switch kept, err := a.Said.sayable(ctx, &in, len(in.Text)); {
	case err == nil && kept != in.Text:
		return errTold
	case err != nil && len(row.Verdict.From) > 0:
		return errUnlooked // a code is kept: while scanners are down, verdicts hold
	}
	return nil
}

// refuse turns the row into that of a failed step, whose on_error makes no verdict weaker: a denial stays one, and so
// does what came with an error. A defer becomes a denial where on_error abstains, since nobody is left to name who
// could approve; where on_error defers, it takes as many approvals and waits as long as it said.
func (r *Row) refuse(err error) {
	was, failed := r.Verdict, r.Err != nil
	r.Err, r.Verdict = err, onError(r.Step.Name, r.Step.OnError, err)
	switch {
	case failed, was.Effect == sdk.Deny, was.Effect == sdk.Defer && r.Verdict.Effect < sdk.Defer:
		r.Verdict.Effect = sdk.Deny
	case was.Effect == sdk.Defer && r.Verdict.Effect == sdk.Defer:
		r.Verdict.Approvals, r.Verdict.Expires = was.Approvals, was.Expires
	}
}

// sooner is the end of the step's timeout, if it has one, or the chain's.
func sooner(timeout time.Duration, start, end time.Time) time.Time {
	if timeout > 0 && start.Add(timeout).Before(end) {
		return start.Add(timeout)
	}
	return end
}

// limited runs fn under the sooner of the step's timeout and the chain's end.
func limited[T any](ctx context.Context, timeout time.Duration, start, end time.Time,
	fn func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithDeadline(ctx, sooner(timeout, start, end))
	defer cancel()
	return fn(ctx)
}

// onError is the one place where a step's failure becomes an effect.
func onError(name string, effect sdk.Effect, err error) sdk.Verdict {
	v := sdk.Verdict{Effect: effect, Code: CodeOf(err),
		Reason: fmt.Sprintf("step %s did not run to its end: %v", name, err)}
	if effect == sdk.Permit || effect > sdk.Deny {
		v.Effect = sdk.Deny // config refuses it; here it must not matter
	}
	return v
}

// CodeOf is the reason code of a step's failure.
func CodeOf(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return sdk.ReasonStepTimeout
	case errors.Is(err, ErrUnavailable):
		return sdk.ReasonStepUnavailable
	}
	return sdk.ReasonStepError
}
