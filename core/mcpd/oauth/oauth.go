// Package oauth makes the MCP listener an OAuth resource server. It owns which access tokens are taken, which API
// key's rights each of them has, where the issuer's keys come from, and what a client is told to get a token. Tokens
// come from the listener's requests, keys from the issuer. It must never log, keep or pass on a token, take one that is
// not signed with the issuer's asymmetric key for this very resource, or let strangers make it ask the issuer without
// end.
package oauth

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/doors/front"
	"github.com/yett-dev/yett/core/edge"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
)

// Keys are what finds the API keys that tokens stand for. *ops.Service has them.
type Keys interface {
	Keys() []*store.Key
	KeyByID(id string) (*store.Key, error)
	Stopped(id string) bool
}

// Settings are what a Server needs. All are required.
type Settings struct {
	Config config.MCPOAuth
	Keys   Keys
	Now    func() time.Time
	Log    func(format string, args ...any) // must not wait; never gets what is in a token
}

// Server takes access tokens. Safe for concurrent use.
type Server struct {
	set  Settings
	keys *keySet
	said *edge.Throttle

	mu  sync.Mutex
	ids map[string]named // by the name of a key in the configuration
}

// named is the key that a name has meant last, and when it was looked up.
type named struct {
	id string
	at time.Time
}

// New makes a Server that has asked its issuer nothing yet.
func New(set Settings) *Server {
	s := &Server{set: set, said: edge.NewThrottle("mcp.oauth", edge.LogEvery, set.Log), ids: map[string]named{}}
	s.keys = newKeySet(&s.set.Config, set.Now)
	return s
}

// wellKnown begins the paths of metadata (RFC 9728).
const wellKnown = "/.well-known/oauth-protected-resource"

// Routes are those of the metadata.
func (s *Server) Routes() []front.Route {
	var out []front.Route
	for _, path := range []string{"", "/mcp", "/mcp/{server}"} {
		out = append(out, front.Route{Pattern: "GET " + wellKnown + path, Public: true, Refuse: refuse, Handle: s.describe})
	}
	return out
}

// refuse answers what went wrong in a public route.
func refuse(w http.ResponseWriter, _ *front.Request, _ *sdk.Error) {
	http.Error(w, "internal error", http.StatusInternalServerError)
}

// metadata is a resource as RFC 9728 describes it.
type metadata struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported,omitempty"`
	Methods  []string `json:"bearer_methods_supported"`
	Name     string   `json:"resource_name"`
}

// describe answers with the metadata of a resource. It answers for servers that there are not too: a stranger does not
// learn which ones there are.
func (s *Server) describe(w http.ResponseWriter, r *front.Request) {
	path, ok := strings.CutPrefix(r.URL.Path, wellKnown)
	if !ok || !resourcePath.MatchString(path) {
		http.NotFound(w, r.Request)
		return
	}
	body, err := json.Marshal(metadata{Resource: s.set.Config.Resource + path, Servers: []string{s.set.Config.Issuer},
		Scopes: s.set.Config.Scopes, Methods: []string{"header"}, Name: "Yett MCP gateway"})
	if err != nil {
		r.Fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // in vain: the client has gone
}

// resourcePath is what a resource may have behind the gateway's address.
var resourcePath = regexp.MustCompile(`^(/mcp(/[a-z][a-z0-9_-]{0,62})?)?$`)

// Reasons to refuse that decide what a client is told to do about it.
var (
	errToken = errors.New("the access token is not taken")
	errScope = errors.New("the access token lacks a scope")
)

// Challenge is the WWW-Authenticate header of a refusal, "" for none. It implements front.Tokens.
func (s *Server) Challenge(r *http.Request, err error) string {
	path := r.URL.Path
	if !resourcePath.MatchString(path) {
		path = ""
	}
	out := fmt.Sprintf(`Bearer resource_metadata="%s%s%s"`, s.set.Config.Resource, wellKnown, path)
	scope := ""
	if len(s.set.Config.Scopes) > 0 {
		scope = fmt.Sprintf(`, scope="%s"`, strings.Join(s.set.Config.Scopes, " "))
	}
	var e *sdk.Error
	switch {
	case errors.Is(err, errScope):
		return out + `, error="insufficient_scope"` + scope
	case errors.As(err, &e) && e.Code == sdk.CodeMissingScope:
		return "" // the key lacks it: no other token would help
	case r.Header.Get("Authorization") == "": // RFC 6750: who has sent nothing made no error
		return out + scope
	}
	return out + `, error="invalid_token"` + scope
}

// Authenticate finds the live key that a token stands for. It implements front.Tokens.
func (s *Server) Authenticate(r *http.Request, token string) (*front.Bearer, error) {
	refused := func(why error) error {
		s.said.Log("an access token was refused: %v", why)
		return &sdk.Error{Code: sdk.CodeUnauthenticated, Err: errToken,
			Msg: "send a valid access token for this server, or an API key, as Authorization: Bearer"}
	}
	if r.URL.Query().Has("access_token") {
		return nil, refused(errors.New("there is one in the URL too, where logs keep it; send it as a header only"))
	}
	c, err := s.verify(token, r.URL.Path)
	if err != nil {
		return nil, refused(err)
	}
	for _, scope := range s.set.Config.Scopes {
		if !c.scopes[scope] {
			return nil, &sdk.Error{Code: sdk.CodeMissingScope, Err: errScope,
				Msg: "the access token lacks the scope " + scope + " (mcp.oauth.scopes)"}
		}
	}
	key, err := s.keyOf(c)
	if err != nil {
		return nil, refused(err)
	}
	return &front.Bearer{Key: key, Method: "oauth", Note: subjectNote(c.subject),
		Left: max(c.expires.Sub(s.set.Now()), time.Millisecond)}, nil
}

// keyOf is the live key of the first entry that matches.
func (s *Server) keyOf(c *claims) (*store.Key, error) {
	for i, entry := range s.set.Config.Clients {
		if entry.ClientID != "" && entry.ClientID == c.client || entry.Subject != "" && entry.Subject == c.subject {
			key := s.live(entry.Key)
			if key == nil {
				return nil, fmt.Errorf("mcp.oauth.clients[%d] matches it, but there is no live key of that name or id", i)
			}
			return key, nil
		}
	}
	return nil, errors.New("no entry of mcp.oauth.clients matches its client or its subject")
}

// lookAgain is how often at most a name that means no live key is looked up again.
const lookAgain = time.Second

// live is the key that a name or an id means, nil if none of that name may be used. It follows a rolled key to its
// successor.
func (s *Server) live(name string) *store.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, now := s.ids[name], s.set.Now()
	if k := s.usable(was.id); k != nil {
		return k
	}
	if age := now.Sub(was.at); !was.at.IsZero() && age >= 0 && age < lookAgain {
		return nil
	}
	var byName, byID *store.Key
	for _, k := range s.set.Keys.Keys() {
		switch {
		case k.Name != name && k.ID != name, s.usable(k.ID) == nil:
		case k.Name == name && (byName == nil || k.CreatedAt.After(byName.CreatedAt)):
			byName = k
		case k.ID == name:
			byID = k
		}
	}
	if byName == nil {
		byName = byID
	}
	found := named{at: now}
	if byName != nil {
		found.id = byName.ID
	}
	s.ids[name] = found
	return byName
}

// usable is the key with that id if it is neither revoked nor expired nor killed, else nil.
func (s *Server) usable(id string) *store.Key {
	k, err := s.set.Keys.KeyByID(id)
	if err != nil || s.set.Keys.Stopped(k.ID) {
		return nil
	}
	return k
}

// plainSubject is what of subjects records keep.
var plainSubject = regexp.MustCompile(`^[A-Za-z0-9._:@|/+-]{1,128}$`)

// subjectNote is a subject as records have it, "" if it is long, unusual, or holds a key.
func subjectNote(subject string) string {
	if !plainSubject.MatchString(subject) || ops.HoldsKey(subject) {
		return ""
	}
	return subject
}
