// Package mcpd is the gateway between MCP clients and MCP servers. It owns what of MCP is asked about, that the bytes
// of a call are those that were decided, that nothing a server says reaches a client unscanned, and what a client is
// told while a person decides. It must never decide anything itself, encode a message anew that it does not change,
// pass a client's credentials on, or forward what it does not know.
package mcpd

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/doors/ask"
	"github.com/yett-dev/yett/core/doors/front"
	"github.com/yett-dev/yett/core/edge"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
	"github.com/yett-dev/yett/sdk/wire"
)

// Settings are what a Gateway needs. All but Start are required.
type Settings struct {
	Config  config.MCP
	Limits  config.Limits
	Asker   *ask.Asker
	Secret  []byte                           // seals what clients keep; at least 32 bytes, from outside the database
	Random  func([]byte)                     // fills with cryptographic randomness
	Now     func() time.Time                 //
	Console func() string                    // the address of the console, "" when it is off
	Log     func(format string, args ...any) // must not wait; never gets what a client or a server has sent
	Version string
	// Decision is the record of a decision among the newest ones, nil if it is not there.
	Decision func(id string) ([]byte, error)
	// Start runs the command of a server that has one.
	Start func(name string, s *config.MCPServer) (Process, error)
	// May reports whether some call of a tool could be permitted or deferred, by names alone.
	May func(key *store.Key, agent, session, tool string) bool
	// Valid reports whether a JSON value fits a JSON schema; false where the schema cannot be read.
	Valid func(schema, value string) bool
	Pins  Pins // nil: definitions of tools are not compared
}

// Gateway serves all configured servers. Safe for concurrent use.
type Gateway struct {
	set     Settings
	seals   *sealer
	lim     exact.Limits
	servers map[string]*server
	pages   *pages
	heard   listeners
}

// server is one configured MCP server.
type server struct {
	name  string
	set   config.MCPServer
	up    upstream
	tools []string // patterns; nil: all
	defs  definitions
	logs  *edge.Throttle // what clients and the server can cause
}

// New makes a Gateway that has spoken to no server yet.
func New(set Settings) (*Gateway, error) {
	seals, err := newSealer(set.Secret, set.Random)
	if err != nil {
		return nil, err
	}
	g := &Gateway{set: set, seals: seals, servers: map[string]*server{}, pages: newPages(),
		lim: exact.Limits{Depth: set.Limits.Depth, Tokens: max(set.Limits.Tokens, int(set.Config.MaxResult/4))}}
	for _, name := range slices.Sorted(maps.Keys(set.Config.Servers)) {
		s := &server{name: name, set: set.Config.Servers[name],
			logs: edge.NewThrottle("mcp: "+name, logEvery, set.Log)}
		s.tools = s.set.Tools
		if s.set.URL != "" {
			s.up, err = newRemote(name, &s.set, int64(set.Config.MaxResult))
		} else {
			s.up, err = newLocal(name, g, &s.set)
		}
		if err != nil {
			return nil, fmt.Errorf("mcp.servers.%s: %w", name, err)
		}
		g.servers[name] = s
	}
	return g, nil
}

// Close ends what runs for clients.
func (g *Gateway) Close() {
	for _, s := range g.servers {
		s.up.close()
	}
}

// Routes are those of all servers.
func (g *Gateway) Routes() []front.Route {
	route := func(method string, handle func(http.ResponseWriter, *front.Request)) front.Route {
		return front.Route{Pattern: method + " /mcp/{server}", Needs: sdk.ScopeAuthorize,
			Body: int64(g.set.Limits.AuthorizeBody), Refuse: refuseRequest, Handle: handle}
	}
	return append(g.ownRoutes(), route(http.MethodPost, g.post), route(http.MethodGet, g.listen),
		route(http.MethodDelete, g.endSession))
}

// refuseRequest answers what did not become a message: a JSON-RPC error, with the status of the cause.
func refuseRequest(w http.ResponseWriter, _ *front.Request, err *sdk.Error) {
	st := wire.StatusOf(err.Code)
	if st.HTTP == http.StatusUnauthorized && w.Header().Get("WWW-Authenticate") == "" {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	code := codeInternal
	switch {
	case err.Code == sdk.CodeInvalidJSON:
		code = codeParse
	case st.HTTP == http.StatusUnauthorized || st.HTTP == http.StatusForbidden:
		code = codeDenied
	case st.HTTP < 500:
		code = codeInvalid
	}
	writeJSON(w, st.HTTP, failure("", &fault{code: code, msg: cmp.Or(err.Msg, st.Title),
		data: errorData(string(err.Code), "")}))
}

// errorData is what errors of ours carry for programs.
func errorData(reason, decision string) string {
	o := wire.Object(nil)
	o.Opt("decision_id", decision)
	o.Str("reason_code", reason)
	return string(o.Close())
}

func writeJSON(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body)) // in vain: the client has gone
}

// client is who sent a message, as far as MCP says it.
type client struct {
	modern   bool
	version  string // of the protocol; "" if the message does not say it
	session  *session
	sealedID string // the session id as the client sent it
	agent    string
	urls     bool // it can show a page to its user
	events   bool // it takes an answer as a stream of events
}

// sessionID is the name of the session in records, "" for none.
func (c *client) sessionID() string {
	if c.session == nil {
		return ""
	}
	return "mcp:" + c.session.ID
}

// clientOf finds out which era a message is of and whose it is, and whether its headers agree with its body.
func (g *Gateway) clientOf(r *front.Request, srv *server, m *message) (*client, *fault) {
	h := r.Header
	c := &client{version: h.Get("Mcp-Protocol-Version"), sealedID: h.Get("Mcp-Session-Id"),
		events: strings.Contains(h.Get("Accept"), "text/event-stream")}
	for _, name := range []string{"Mcp-Protocol-Version", "Mcp-Session-Id", "Mcp-Method", "Mcp-Name"} {
		if len(h.Values(name)) > 1 {
			return nil, invalid("the header " + name + " is there more than once")
		}
	}
	var meta exact.Value
	if m != nil {
		meta = m.params.Get("_meta")
		if v := meta.Get(metaVersion).Str(); v != "" {
			if c.version != "" && c.version != v {
				return nil, headersDiffer("MCP-Protocol-Version")
			}
			c.version = v
		}
	}
	if !known(c.version) {
		return nil, &fault{code: codeVersion, status: http.StatusBadRequest,
			msg: "this version of MCP is unknown to the gateway", data: supported(c.version)}
	}
	if m != nil {
		if f := agree(h, m); f != nil {
			return nil, f
		}
	}
	c.modern = c.version == versionModern
	if c.modern {
		c.agent = meta.Get(metaClientInfo).Get("name").Str()
		c.urls = meta.Get(metaCapabilities).Get("elicitation").Get("url").Exists()
		return c, nil
	}
	if c.sealedID != "" {
		var s session
		if g.seals.open(sealSession, c.sealedID, &s) != nil || s.Key != r.Caller.Key.ID || s.Server != srv.name {
			return nil, &fault{code: codeDenied, status: http.StatusNotFound,
				msg: "this session is unknown here: send initialize again"}
		}
		c.session, c.agent, c.urls = &s, s.Agent, s.URLs
	}
	if m != nil && m.method == "initialize" {
		c.agent = m.params.Get("clientInfo").Get("name").Str()
		c.urls = m.params.Get("capabilities").Get("elicitation").Get("url").Exists()
	}
	return c, nil
}

// known reports whether the gateway has the rules of a version: each may move what a request does to other members. A
// message of the older era may say none.
func known(version string) bool {
	return version == "" || version == "2024-11-05" || version == "2025-03-26" || slices.Contains(ownVersions, version)
}

// mostVersion bounds a version that is said back, bytes.
const mostVersion = 64

// supported is what a client of another version is told: those to choose from, and the one that it asked for.
func supported(requested string) string {
	o := wire.Object(nil)
	o.Strs("supported", ownVersions)
	if len(requested) <= mostVersion && visible(requested) {
		o.Str("requested", requested)
	}
	return string(o.Close())
}

func headersDiffer(name string) *fault {
	return &fault{code: codeHeaders, status: http.StatusBadRequest,
		msg: "the header " + name + " differs from the body of the request"}
}

// agree compares the headers that repeat the body with it, in both eras: what lies between may decide by the one, and
// the server act by the other.
func agree(h http.Header, m *message) *fault {
	if m.kind == response {
		return nil
	}
	if got, ok := h["Mcp-Method"]; ok && decodeHeader(got[0]) != m.method {
		return headersDiffer("Mcp-Method")
	}
	got, sent := h["Mcp-Name"]
	names := []string{fromClients[m.method].name}
	if names[0] == "" {
		names = []string{"taskId", "uri", "name"} // as extensions have it
	}
	named := func(n string) bool { return decodeHeader(got[0]) == m.params.Get(n).Str() }
	if sent && !slices.ContainsFunc(names, named) {
		return headersDiffer("Mcp-Name")
	}
	return nil
}

// agentOf is the agent for which a key asks: the one that the key names, else the client's name for itself, else the
// key's own name.
func agentOf(key *store.Key, c *client) string {
	if len(key.Agents) == 1 && !strings.ContainsAny(key.Agents[0], "*?[") {
		return key.Agents[0]
	}
	if c.agent != "" && wire.CheckName("agent_id", c.agent, 128, true) == nil && key.ActsAs(c.agent) {
		return c.agent
	}
	return key.Name
}
