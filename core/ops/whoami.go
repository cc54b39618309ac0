package ops

import "github.com/yett-dev/yett/sdk/wire"

// Whoami says which key the caller has and what it may do, so that a client can check its setup before it acts.
func (*Service) Whoami(r *Request, _ *wire.WhoamiRequest) (*wire.WhoamiResponse, error) {
	k := r.Key
	out := &wire.WhoamiResponse{KeyID: k.ID, Name: k.Name, Environment: k.Environment, Scopes: k.Scopes, Agents: k.Agents}
	if k.Explicit {
		out.Redeem = redeemExplicit
	}
	ends := k.ExpiresAt
	if end := k.Revocation(); end != nil && (ends.IsZero() || end.At.Before(ends)) { // rolled, and it lives on for a while
		ends = end.At
	}
	if !ends.IsZero() {
		out.ExpiresAt = rfc3339(ends)
	}
	return out, nil
}
