package hook

import (
	"bytes"
	"fmt"

	"github.com/yett-dev/yett/sdk/exact"
)

// Refusal is the closed answer of an agent to any failure: an input that was not understood, a deadline, a panic, a
// gateway that does not answer. The text is for the model and must be safe to show to it.
func Refusal(agent Agent, phase Phase, text string) Reply {
	text = said(text, "Yett could not decide, so nothing runs.")
	d := of(agent)
	if d == nil {
		return Reply{Stderr: line(text), Exit: 2}
	}
	if phase == Notice {
		return Reply{Stdout: []byte(d.powers(&Event{Phase: Notice}).quiet), Stderr: line(text)}
	}
	return d.refuse(phase, text)
}

// RefusalOf is the Refusal for an error of Read.
func RefusalOf(agent Agent, err error) Reply {
	phase := Unknown
	if e, ok := err.(*Error); ok {
		phase = e.Phase
	}
	return Refusal(agent, phase, "Yett refused this: "+err.Error())
}

// Quiet is the answer to a Notice. To any other event it is a refusal.
func (e *Event) Quiet() Reply {
	if e.Phase != Notice {
		return Refusal(e.Agent, e.Phase, "Yett has no decision about this event.")
	}
	return Reply{Stdout: []byte(of(e.Agent).powers(e).quiet)}
}

// Answer encodes a decision about a call. What the agent would not carry out exactly becomes a refusal that says so. An
// event that is not Before is refused.
func (e *Event) Answer(d Decision) Reply {
	if e.Phase != Before {
		return Refusal(e.Agent, e.Phase, "Yett decided about an event that is no call.")
	}
	enc := of(e.Agent)
	can := enc.powers(e)
	if d.Effect == Permit {
		d = e.permitted(d, can)
	}
	switch {
	case d.Effect == Ask && !can.ask, d.Effect == Suspend && !can.suspend:
		d.Effect = Wait
	case d.Effect > Suspend:
		d.Effect = Deny
	}
	switch d.Effect {
	case Permit:
		d.Text = said(d.Text, "")
	case Deny:
		d.Text = said(d.Text, "Denied by Yett.")
	default:
		d.Text = said(d.Text, "A person has to approve this call. Repeat exactly the same call later.")
	}
	if d.Effect != Permit {
		d.Args, d.Allow = nil, false
	}
	return enc.decide(e, d)
}

// Rewrites reports whether the agent runs a call with the arguments of an answer to this event.
func (e *Event) Rewrites() bool {
	return e.Phase == Before && !e.wrapped && of(e.Agent).powers(e).rewrite != never
}

// permitted is d if the agent can carry it out exactly, and a Deny that says why otherwise.
func (e *Event) permitted(d Decision, can powers) Decision {
	if len(e.Outputs) > 0 {
		if worst, scans := e.checked(d.Scans); worst < Warned {
			notice := "Yett refused this call: the model would read what it must not."
			for _, s := range scans {
				if s.Verdict == worst {
					notice = said(s.Notice, notice)
					break
				}
			}
			return Decision{Effect: Deny, Text: notice}
		}
	}
	if d.Args == nil || bytes.Equal(d.Args, e.Args) || bytes.Equal(d.Args, e.Asked) {
		d.Args = nil
		return d
	}
	if can.rewrite == merges || can.rewrite == fits {
		d.Args = e.narrate(d.Args)
	}
	if why := e.refusesArgs(d.Args, can.rewrite); why != "" {
		text := "Yett refused this call: it was approved with other arguments, and " + why + "."
		if fitsText(d.Args) {
			text += " Call the tool with exactly these: " + string(d.Args)
		}
		return Decision{Effect: Deny, Text: text}
	}
	return d
}

// refusesArgs says why the agent would not run exactly these arguments, "" if it would.
func (e *Event) refusesArgs(args []byte, how rewriting) string {
	if how == never || e.wrapped {
		return "this agent cannot change them"
	}
	var was, now exact.Doc
	if err := now.Parse(string(args), exact.DefaultLimits); err != nil {
		return "they are not strict JSON"
	}
	if now.Root().Kind() != exact.Object {
		return "they are not an object"
	}
	if err := was.Parse(string(e.Args), exact.DefaultLimits); err != nil {
		return "the arguments of the call are not strict JSON"
	}
	if n, ok := roundedNumber(was.Root(), now.Root()); ok {
		return fmt.Sprintf("this agent would round the number %s", cut(n, 64))
	}
	switch {
	case how == merges && !covers(now.Root(), was.Root()):
		return "this agent would keep a member that they leave out"
	case how == fits && differs(was.Root(), now.Root(), shape{strings: true, numbers: true, bools: true}) != "":
		return "this agent ignores arguments of another shape"
	}
	return ""
}

// Scanned encodes the scans of the event's outputs, one for each, in order. All is withheld if there are too few or too
// many. An output is withheld if what was redacted is not the same output with other texts.
func (e *Event) Scanned(scans []Scan) Reply {
	switch e.Phase {
	case After, AfterBatch, Prompt:
	default:
		return Refusal(e.Agent, e.Phase, "Yett scanned an event that has no output.")
	}
	worst, scans := e.checked(scans)
	return of(e.Agent).scanned(e, worst, scans)
}

const notPutBack = "[output withheld by Yett: its secrets could not be removed without breaking it]"

// checked gives a sound scan for each output and the strictest verdict.
func (e *Event) checked(scans []Scan) (Verdict, []Scan) {
	if len(scans) != len(e.Outputs) {
		scans = make([]Scan, len(e.Outputs))
		for i := range scans {
			scans[i].Notice = "[withheld by Yett: not everything was scanned]"
		}
		return Denied, scans
	}
	worst, out := Pass, make([]Scan, len(scans))
	for i, s := range scans {
		if s.Verdict > Pass {
			s.Verdict = Denied
		}
		if s.Verdict == Redacted && !redacts(e.Outputs[i].JSON, s.JSON) {
			s = Scan{Notice: notPutBack}
		}
		switch s.Verdict {
		case Denied:
			s.Notice, s.JSON = said(s.Notice, "[output withheld by Yett]"), nil
		case Redacted:
			s.Notice = said(s.Notice, "Yett found secrets in this text.")
		case Warned:
			s.Notice, s.JSON = said(s.Notice, "Yett found something suspicious in this text."), nil
		case Pass:
			s.JSON = nil
		}
		worst, out[i] = min(worst, s.Verdict), s
	}
	return worst, out
}

// noticeOf is the notice of the first scan with that verdict.
func noticeOf(scans []Scan, v Verdict) string {
	for _, s := range scans {
		if s.Verdict == v {
			return s.Notice
		}
	}
	return "[output withheld by Yett]"
}
