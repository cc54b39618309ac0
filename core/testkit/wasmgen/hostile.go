package wasmgen

import "strings"

// What must become of a hostile module.
const (
	// Refused: it is never taken into service, and the reason is said.
	Refused = "refused"
	// Fails: it is taken into service, and every call with a text that Poisoned gives ends in an error, in time.
	Fails = "fails"
	// Answers: it is taken into service, and every call gives the right answer all the same.
	Answers = "answers"
	// Bounded: it may be refused, fail or answer rightly, but in time and within the host's memory.
	Bounded = "bounded"
)

// The bounds of a text that the table promises something for, bytes.
const (
	MinText = 16
	MaxText = 2000
)

// The lines of "Sandbox" that a hostile module belongs to.
const (
	Admission = "static admission" // of the bytes, before anything else sees them
	Metering  = "metering"         // whatever runs is counted, bounded and can be stopped
	Child     = "admission child"  // compiling, starting and describing
	Budgets   = "budgets"          // what one call may hand over and ask for
	Isolation = "isolation"        // nothing of a call is left for the next one
)

// Hostile is one module that breaks a host without the defence that it is named after.
type Hostile struct {
	Name string
	Line string
	Want string

	// Static says that a Refused one is refused by its bytes alone, without running or compiling any of it.
	Static bool
	// Size is how many bytes a text must have to make a Fails fail. If it is 0 the text must begin with Trigger. Other
	// texts are answered rightly: what fails always does not get past admission.
	Size int
	// Leaks says that an Answers gives a wrong answer, or none, on an instance that served another text before and was not
	// restored: the control that it tries at all.
	Leaks bool

	// Effect is what an authorizer that Answers says when it is armed.
	Effect string

	// Module is the hostile one. A right answer is a finding TEST_KIND for every Mark of the text, and nothing else. Texts
	// have at least MinText and at most MaxText bytes: some modules are right about others.
	Module []byte
	// Twin is the nearest module that means no harm: it is admitted and answers rightly, always.
	Twin []byte
}

// All gives the whole table of scanners; see Authorizers for the others. It makes every module anew, some of them
// large: call it once.
func All() []Hostile {
	var out []Hostile
	for _, part := range []struct {
		line  string
		cases []Hostile
	}{
		{Admission, liars()}, {Admission, shapes()}, {Admission, interfaces()}, {Admission, metadata()}, {Admission, costly()},
		{Metering, endless()}, {Metering, bulk()}, {Metering, deep()}, {Metering, crowded()},
		{Child, starts()},
		{Budgets, floods()}, {Budgets, malformed()}, {Budgets, pointers()}, {Budgets, statuses()}, {Budgets, harmless()},
		{Isolation, hoards()}, {Isolation, spoils()},
	} {
		for _, h := range part.cases {
			h.Line = part.line
			if h.Twin == nil {
				h.Twin = Before(nil).Encode()
			}
			out = append(out, h)
		}
	}
	return out
}

// Poisoned makes a text into one that a Fails fails at.
func (h *Hostile) Poisoned(text string) string {
	if h.Size == 0 {
		return Trigger + text
	}
	return (text + strings.Repeat(".", h.Size))[:h.Size]
}

// bad is a module that static admission refuses.
func bad(name string, module []byte) Hostile {
	return Hostile{Name: name, Want: Refused, Static: true, Module: module}
}

// fails is a guest whose scan is wrong when it is armed.
func fails(name string, scan, twin []byte) Hostile {
	h := Hostile{Name: name, Want: Fails, Module: Armed(scan).Encode()}
	if twin != nil {
		h.Twin = Before(twin).Encode()
	}
	return h
}

// edited is an honest guest after a change.
func edited(change func(*Module)) []byte {
	g := Finder()
	g.Edit = change
	return g.Encode()
}
