package rules

import (
	"context"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
)

// Outcome says what one rule made of a call.
type Outcome string

// The outcomes. Rules whose tools do not cover the call are not considered and not listed.
const (
	Matched     Outcome = "matched"            // it spoke
	OtherAgent  Outcome = "other agent"        // its agents do not cover the call's
	NotHolding  Outcome = "condition false"    //
	FailedShut  Outcome = "condition failed"   // its condition failed and it spoke: a deny or a defer
	FailedApart Outcome = "permit not granted" // its condition failed and it did not speak: a permit
)

// Considered is one line of an explanation.
type Considered struct {
	RuleID  string
	Effect  sdk.Effect
	Outcome Outcome
	Error   string // the class of the condition's error, never a value of the call
}

// maxExplained bounds the lines of one explanation.
const maxExplained = 1_000

// Explain lists the rules that Check would look at for this call, in order and up to the one that speaks, at most
// 1 000 of them. total is how many rules the Set has. It ends early, with what there is, when ctx does.
func (s *Set) Explain(ctx context.Context, call *chain.Call) (lines []Considered, total int) {
	sc := newScope(call)
	defer sc.release()
	s.index.start(&sc.cand, call.ToolID)
	for i := sc.cand.next(call.ToolID); i >= 0 && len(lines) < maxExplained; i = sc.cand.next(call.ToolID) {
		r := &s.rules[i]
		line := Considered{RuleID: r.verdict.RuleID, Effect: r.verdict.Effect, Outcome: OtherAgent}
		if len(r.agents) > 0 && !matchAny(r.agents, call.AgentID) {
			lines = append(lines, line)
			continue
		}
		holds, err := r.holds(ctx, sc)
		spoke, _ := r.speak(holds, err)
		line.Outcome = outcomeOf(spoke, err)
		if err != nil {
			line.Error = err.Error()
		}
		lines = append(lines, line)
		if spoke || ctx.Err() != nil {
			break
		}
	}
	return lines, len(s.rules)
}

func outcomeOf(spoke bool, err error) Outcome {
	switch {
	case spoke && err != nil:
		return FailedShut
	case spoke:
		return Matched
	case err != nil:
		return FailedApart
	}
	return NotHolding
}
