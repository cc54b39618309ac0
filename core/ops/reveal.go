package ops

import (
	"strconv"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// tokenKey gives the key of the tokens in a session. It gives nil without a session: a token belongs to one.
func (s *Service) tokenKey(agent, session string) func() []byte {
	if session == "" {
		return nil
	}
	return func() []byte { return keyed(s.set.Pepper, "tokens\x00"+agent+"\x00"+session) }
}

// Reveal puts the values of a session's tokens back into a text. It is on the log before anybody reads a value, and so
// is an attempt with tokens of another session.
func (s *Service) Reveal(r *Request, in *wire.RevealRequest) (*wire.RevealResponse, error) {
	if err := actsAs(r.Key, in.AgentID); err != nil {
		return nil, err
	}
	key := s.tokenKey(in.AgentID, in.SessionID)
	if key == nil {
		return nil, sdk.FieldErrf(sdk.CodeInvalidField, "session_id", "session_id is empty: tokens belong to a session")
	}
	if kill := s.set.Store.Killed(r.Key, in.AgentID, in.SessionID, ""); kill != nil {
		return nil, sdk.Errf(sdk.CodeKeyKilled, "a kill of scope %s covers the key %q, the agent or the session: until it "+
			"is undone no token is revealed", kill.Scope, r.Key.Name)
	}
	out := &wire.RevealResponse{}
	var err error
	if out.Text, out.Revealed, out.Unknown, err = chain.Reveal(r.Ctx, key(), in.Text); err != nil {
		return nil, err
	}
	if out.Revealed+out.Unknown == 0 {
		return out, nil
	}
	if err := s.NoteBy(r.Ctx, r.Who, "tokens_revealed", [2]string{"agent_id", in.AgentID},
		[2]string{"session_id", in.SessionID}, [2]string{"revealed", strconv.Itoa(out.Revealed)},
		[2]string{"unknown", strconv.Itoa(out.Unknown)}); err != nil {
		return nil, err
	}
	return out, nil
}
