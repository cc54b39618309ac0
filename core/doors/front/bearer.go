package front

import (
	"net/http"
	"strings"
	"time"

	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// Bearer is who a request is from.
type Bearer struct {
	Key    *store.Key
	Method string        // for records: "api_key", "oauth"
	Note   string        // for records: who the token speaks for
	Left   time.Duration // how long it is still valid; 0: as long as the key
}

// Tokens take bearers that are no API keys.
type Tokens interface {
	// Authenticate finds the live key that a token stands for, in that request.
	Authenticate(r *http.Request, token string) (*Bearer, error)
	// Challenge is the WWW-Authenticate header of a refusal, "" for none.
	Challenge(r *http.Request, err error) string
}

// keyPrefix begins every API key.
const keyPrefix = "yett_"

// bearer finds the live key of a request and asks whether it has the route's scope.
func (f *Front) bearer(r *Request, route *Route) (*Bearer, error) {
	header := r.Header.Get("Authorization")
	if n := len(r.Header.Values("Authorization")); n > 1 {
		return nil, sdk.Errf(sdk.CodeBadRequest, "Authorization is there %d times; send one", n)
	}
	if route.KeyOf != nil {
		header = route.KeyOf(r.Request)
	}
	by, err := &Bearer{Method: "api_key"}, error(nil)
	refused := f.set.Keys.Refused
	scheme, token, _ := strings.Cut(header, " ")
	if f.set.Tokens != nil && strings.EqualFold(scheme, "Bearer") && !strings.HasPrefix(token, keyPrefix) {
		refused = f.set.Keys.RefusedToken
		by, err = f.set.Tokens.Authenticate(r.Request, token)
	} else {
		by.Key, err = f.set.Keys.Authenticate(header)
	}
	if err != nil {
		refused(r.Context(), err, f.set.Name, f.peer(r.Request))
		return nil, err
	}
	if by.Key.Scope()&route.Needs == 0 {
		return nil, sdk.Errf(sdk.CodeMissingScope, "the key %q lacks scope %s", by.Key.Name, route.Needs)
	}
	return by, nil
}

// challenge says in a refusal where a token is to be had.
func (f *Front) challenge(w http.ResponseWriter, r *Request, err error, told *sdk.Error) {
	if f.set.Tokens == nil {
		return
	}
	if st := wire.StatusOf(told.Code).HTTP; st == http.StatusUnauthorized || st == http.StatusForbidden {
		if text := f.set.Tokens.Challenge(r.Request, err); text != "" {
			w.Header().Set("WWW-Authenticate", text)
		}
	}
}
