package ops

import (
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk/wire"
)

// commit hands a command of a request to the store, and tells whoever follows the request how long that took.
func (s *Service) commit(r *Request, cmd store.Command) error {
	if r.Trace == nil {
		return s.set.Store.Commit(r.Ctx, cmd)
	}
	began := s.set.Now()
	err := s.set.Store.Commit(r.Ctx, cmd)
	r.Trace.Committed(codeOf(err), began, s.set.Now().Sub(began))
	return err
}

// decisionOf is the id of the decision in an answer: it finds the record in the audit log.
func decisionOf(resp Response) string {
	switch r := resp.(type) {
	case *wire.AuthorizeResponse:
		if r != nil {
			return r.DecisionID
		}
	case *wire.GovernResponse:
		if r != nil && r.Decision != nil {
			return r.Decision.DecisionID
		}
	}
	return ""
}
