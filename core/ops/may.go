package ops

import "github.com/yett-dev/yett/core/store"

// May reports whether some call of a tool could be permitted or deferred for a key, by names alone: it is for lists of
// tools, and decides nothing. False means that every call would be denied now.
func (s *Service) May(key *store.Key, agent, session, tool string) bool {
	if !key.ActsAs(agent) || s.set.Store.Killed(key, agent, session, tool) != nil {
		return false
	}
	g := s.pin()
	defer g.unpin()
	return g.Authorize.May(agent, session, tool)
}
