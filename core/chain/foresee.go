package chain

import "github.com/yett-dev/yett/sdk"

// Foreseer is a Checker that knows by names alone which calls it denies in any case.
type Foreseer interface {
	// Foresee says what it can say of a call of that tool by that agent: may is false if it denies every one, silent is
	// true if it always abstains.
	Foresee(agent, tool string) (may, silent bool)
}

// May reports whether some call of a tool by an agent could be permitted or deferred. It asks no step that does not
// know that by names alone; such a step could permit everything.
func (a *Authorizer) May(agent, session, tool string) bool {
	could := a.Default != sdk.Deny
	for i := range a.Steps {
		s := &a.Steps[i]
		if s.Shadow || !s.Match.Holds(tool, agent, session) {
			continue
		}
		f, ok := s.Checker.(Foreseer)
		if !ok {
			could = true
			continue
		}
		switch may, silent := f.Foresee(agent, tool); {
		case silent:
		case !may:
			return false
		default:
			could = true
		}
	}
	return could
}
