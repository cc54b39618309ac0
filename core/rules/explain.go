package rules

import (
	"context"
	"errors"
	"strings"

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
	// the class of the condition's error, with the key that is missing where the rule names it; never a value of the call
	Error string
}

// maxNamed is the longest key that an explanation names.
const maxNamed = 64

// maxExplained bounds the lines of one explanation.
const maxExplained = 1_000

// Explanation is what a Set made of a call and how it came to it.
type Explanation struct {
	Lines   []Considered // in order and up to the rule that spoke, which comes last; at most 1 000
	Cut     int          // how many more were considered before the last line
	Rules   int          // how many rules the Set has
	Verdict sdk.Verdict  // what Check says
	Err     error        // what Check says
}

// Explain does what Check does and tells about it.
func (s *Set) Explain(ctx context.Context, call *chain.Call) Explanation {
	sc := newScope(ctx, call)
	defer sc.release()
	var raw error
	sc.raw = &raw
	out := Explanation{Rules: len(s.rules)}
	s.index.startAll(&sc.cand, call.ToolID)
	for i := sc.cand.next(call.ToolID); i >= 0; i = sc.cand.next(call.ToolID) {
		r := &s.rules[i]
		line := Considered{RuleID: r.verdict.RuleID, Effect: r.verdict.Effect, Outcome: OtherAgent}
		if len(r.agents) > 0 && !matchAny(r.agents, call.AgentID) {
			out.add(line)
			continue
		}
		holds, err := r.holds(sc)
		if holds && r.verdict.Effect == sdk.Permit && !sc.inTime() {
			err = errInterrupted
		}
		spoke, v := r.speak(holds, err)
		line.Outcome = outcomeOf(spoke, err)
		if err != nil {
			line.Error = named(err, raw, r.when)
		}
		out.add(line)
		if why := sc.over(); err != nil && why != nil {
			out.Verdict, out.Err = r.unfinished(), interrupted(why)
			return out
		}
		if spoke {
			out.Verdict, out.Err = r.limited(sc, v)
			return out
		}
	}
	return out
}

// named adds to the class of an error the key that is missing, if it stands in the rule: keys that a condition works
// out are values of the call.
func named(err, raw error, c *condition) string {
	if !errors.Is(err, errNoKey) || raw == nil {
		return err.Error()
	}
	key, ok := strings.CutPrefix(raw.Error(), errNoKey.Error()+": ")
	if !ok || len(key) > maxNamed || !strings.Contains(c.source, key) {
		return err.Error()
	}
	return errNoKey.Error() + ": " + key
}

// add keeps the first lines and the last one.
func (e *Explanation) add(line Considered) {
	if len(e.Lines) < maxExplained {
		e.Lines = append(e.Lines, line)
		return
	}
	e.Lines[maxExplained-1] = line
	e.Cut++
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
