// Package console serves the operators' pages: sign-in, the one-time link for the first operator, API keys, approvals
// and plugins. It owns who is signed in, what a browser may send, and how text from outside is shown. It must never
// show a key's value but on the answer that made it, never put one into a log or an address, and never change anything
// on a GET. Requests come from a browser on the console's own listener; work goes to the same operations as every other
// client's, people and sessions to the store, both through the small interfaces below.
package console

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/yett-dev/yett/core/edge"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/status"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk/wire"
)

// Keys are the operations on API keys. *ops.Service has them.
type Keys interface {
	// Keys lists all keys, tombstones too.
	Keys() []*store.Key
	// CreateKey makes a key. It is on disk when the value is returned, and the value is nowhere else.
	CreateKey(ctx context.Context, spec ops.KeySpec, by store.Who) (*ops.NewKey, error)
	// RollKey makes a key with the settings of an old one, which ends after grace.
	RollKey(ctx context.Context, id string, grace time.Duration, by store.Who) (*ops.NewKey, error)
	// RevokeKey ends a key for ever. No request that starts after it returned gets in with it.
	RevokeKey(ctx context.Context, id string, by store.Who) error
}

// Approvals are the operations on deferred calls. *ops.Service has them.
type Approvals interface {
	// Waiting lists the pending calls for an operator, soonest expiry first, and says how many there are.
	Waiting(ctx context.Context, op store.Operator, most int) ([]store.Defer, int, error)
	// Deferral is the deferred call that a decision began, in any state.
	Deferral(ctx context.Context, decision string) (*ops.Deferral, error)
	// AnswerAs signs a deferred call off, or denies it. It is on disk when the error is nil.
	AnswerAs(ctx context.Context, op store.Operator, by store.Who, a ops.Answer) (*wire.ApproveResponse, error)
}

// Plugins is what an operator sees and does of plugins and of the configuration. core has it.
type Plugins interface {
	// Plugins lists all that are loaded, by name. It never waits for one.
	Plugins() []status.Plugin
	// Config says which configuration is in force, and how the last try to change it ended.
	Config() Config
	// ResumePlugin lets a plugin start again that was given up, and a subscriber go on that was paused. With skip, the
	// record at which it is stuck is left out.
	ResumePlugin(ctx context.Context, by store.Who, name string, skip bool) error
}

// Operators are the people who may use the console.
type Operators interface {
	// HasOperators reports whether there is anybody.
	HasOperators() bool
	// Operator is the one with that name.
	Operator(name string) (store.Operator, bool)
	// AddFirstOperator makes the first one; it is an error when there is one already, however close two calls are.
	AddFirstOperator(ctx context.Context, op store.Operator, by store.Who) error
	// NoteRefused records a refused sign-in. operator is "" for a name that nobody has.
	NoteRefused(ctx context.Context, operator, why string, unrecorded int, by store.Who) error
}

// Sessions are the sign-ins that are not over. An id is given by its SHA-256 only.
type Sessions interface {
	// Session is the one with that id; whether it is still live is the caller's to ask.
	Session(id [32]byte) (store.Session, bool)
	// StartSession begins one and ends the one that it replaces, if any. Both are on disk when it returns nil.
	StartSession(ctx context.Context, sess store.Session, replaces *[32]byte, by store.Who) error
	// TouchSession notes a use.
	TouchSession(ctx context.Context, id [32]byte, now time.Time) error
	// EndSession ends one at once, also when the error says that this is not on disk.
	EndSession(ctx context.Context, id [32]byte, why string, by store.Who) error
}

// State is what the console keeps. *store.Operators has it.
type State interface {
	Operators
	Sessions
}

// Settings are what a Console needs. All but Hosts, TLS and Secure are required.
type Settings struct {
	Keys      Keys
	Approvals Approvals
	Plugins   Plugins
	State     State
	Now       func() time.Time
	Random    func([]byte)                     // fills with cryptographic randomness
	Log       func(format string, args ...any) // never gets a password, a token, a session id or a key's value
	// names accepted besides the listening address and the loopback names; one with a port, at that port only
	Hosts   []string
	TLS     *tls.Config // of the console's listener; nil: in clear
	Secure  bool        // browsers reach the console over https: here, or at a proxy before it
	Version string
	Proxies edge.Proxies // whose word about a browser's address counts
}

// Limits of one console. A person does not reach them.
const (
	formBytes   = 64 << 10
	headerBytes = 16 << 10
	connections = 256
	strangers   = 64 // connections of one address without a session
	headerRead  = 5 * time.Second
	wholeRead   = 10 * time.Second
	wholeWrite  = 30 * time.Second
	idle        = 60 * time.Second
)

// Console is the console of one running gateway, an http.Handler. Safe for concurrent use.
type Console struct {
	set     Settings
	hosts   map[string]bool
	origin  *http.CrossOriginProtection
	mux     *http.ServeMux
	assets  map[string]asset
	vault   *vault
	guesses *guesses // of devices on which nobody has signed in
	known   *guesses // of the others
	notes   notes
	first   firstLink
	http    *http.Server
}

// New makes a console that answers nothing yet.
func New(set Settings) *Console {
	c := &Console{set: set, hosts: map[string]bool{}, origin: http.NewCrossOriginProtection(),
		assets: readAssets(), vault: newVault(standard, set.Random), guesses: newGuesses(), known: newGuesses()}
	for _, h := range set.Hosts {
		c.hosts[strings.ToLower(h)] = true
	}
	c.mux = c.routes()
	c.http = &http.Server{Handler: c, ReadHeaderTimeout: headerRead, ReadTimeout: wholeRead, WriteTimeout: wholeWrite,
		IdleTimeout: idle, MaxHeaderBytes: headerBytes, ConnContext: edge.ConnContext,
		ErrorLog: log.New(logWriter{set.Log}, "", 0)}
	return c
}

// logWriter gives the server's own messages to our log.
type logWriter struct {
	log func(format string, args ...any)
}

// Write logs one message.
func (l logWriter) Write(p []byte) (int, error) {
	l.log("console: %s", strings.TrimSpace(string(p)))
	return len(p), nil
}

// Serve answers on ln until Close.
func (c *Console) Serve(ln net.Listener) error {
	ln = edge.NewDoor(connections, strangers).Listen(ln, edge.NewAcceptor("console", c.set.Log), c.set.Proxies, nil)
	if c.set.TLS != nil { // above the door, so that the server knows the connection for what it is
		ln = tls.NewListener(ln, c.set.TLS)
	}
	if err := c.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("console: %w", err)
	}
	return nil
}

// Close waits for what runs until ctx ends.
func (c *Console) Close(ctx context.Context) error {
	if n := c.notes.missed(); n > 0 {
		c.set.Log("console: %d refused sign-ins left no record of their own: there were too many in a minute", n)
	}
	if err := c.http.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("console: %w", err), c.http.Close())
	}
	return nil
}

// routes are all pages. What is not public goes through c.only or c.inside, which ask for a session before anything
// else.
func (c *Console) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /assets/{file}", c.asset)
	mux.HandleFunc("GET /signin", c.showSignIn)
	mux.HandleFunc("POST /signin", c.signIn)
	mux.HandleFunc("GET /setup", c.showSetup)
	mux.HandleFunc("POST /setup", c.setup)

	mux.HandleFunc("POST /signout", c.inside(c.signOut))
	mux.HandleFunc("GET /{$}", c.inside(c.start))
	mux.HandleFunc("GET /approvals", c.inside(c.listApprovals))
	mux.HandleFunc("GET /approvals/{id}", c.inside(c.showApproval))
	mux.HandleFunc("POST /approvals/{id}/approve", c.only(c.answer(approve), store.RoleAdmin, store.RoleApprover))
	mux.HandleFunc("POST /approvals/{id}/deny", c.only(c.answer(deny), store.RoleAdmin, store.RoleApprover))
	mux.HandleFunc("POST /approvals/{id}/withdraw", c.only(c.answer(withdraw), store.RoleAdmin, store.RoleApprover))
	mux.HandleFunc("GET /plugins", c.inside(c.listPlugins))
	mux.HandleFunc("GET /plugins/{name}/resume", c.only(c.askResume, store.RoleAdmin))
	mux.HandleFunc("POST /plugins/{name}/resume", c.only(c.resumePlugin, store.RoleAdmin))
	mux.HandleFunc("GET /keys", c.inside(c.listKeys))
	mux.HandleFunc("POST /keys", c.only(c.createKey, store.RoleAdmin))
	mux.HandleFunc("GET /keys/{id}/roll", c.only(c.askRoll, store.RoleAdmin))
	mux.HandleFunc("POST /keys/{id}/roll", c.only(c.rollKey, store.RoleAdmin))
	mux.HandleFunc("GET /keys/{id}/revoke", c.only(c.askRevoke, store.RoleAdmin))
	mux.HandleFunc("POST /keys/{id}/revoke", c.only(c.revokeKey, store.RoleAdmin))
	mux.HandleFunc("/", c.inside(c.nothingHere))
	return mux
}

// policy allows what the console itself serves and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// ServeHTTP answers one request. Before any page runs: the host must be ours, and a write must come from one of our
// pages.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = c.behind(r)
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	var id [16]byte
	c.set.Random(id[:])
	h.Set("X-Request-Id", "req_"+hex.EncodeToString(id[:]))
	if c.set.Secure {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
	if why := c.refusesHost(r); why != "" {
		// Plain text, and without the name that was asked for: whoever asked is not on one of our pages.
		http.Error(w, why, http.StatusMisdirectedRequest)
		return
	}
	if err := c.origin.Check(r); err != nil {
		c.refuse(w, nil, http.StatusForbidden, "Not from here",
			"This came from another site, so nothing was done. If you pressed a button on a page of this console, reload "+
				"that page and try again.")
		return
	}
	if _, exact := edge.Path(r.RequestURI); !exact {
		c.refuse(w, nil, http.StatusNotFound, "No such page", "There is no page at this address.")
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, formBytes)
	c.mux.ServeHTTP(w, r)
}

// notYet are the console's other pages, which this version does not have.
var notYet = map[string]bool{"/activity": true, "/agents": true, "/grants": true, "/rules": true, "/scanners": true,
	"/kill": true, "/settings": true}

// start is where somebody begins who asked for no page: an approver has nothing to do with keys.
func (c *Console) start(w http.ResponseWriter, r *http.Request, v *visit) {
	page := "/keys"
	if v.op.Role == store.RoleApprover {
		page = "/approvals"
	}
	http.Redirect(w, r, page, http.StatusSeeOther)
}

func (c *Console) nothingHere(w http.ResponseWriter, r *http.Request, v *visit) {
	top := "/" + strings.SplitN(r.URL.Path, "/", 3)[1]
	switch {
	case notYet[top]:
		c.refuse(w, v, http.StatusNotFound, "Not part of this version",
			"This page is not part of this version of Yett. What it will show can be reached over the HTTP API.")
	case r.URL.Path == "/keys" || r.URL.Path == "/" || r.URL.Path == "/approvals" || r.URL.Path == "/plugins":
		allow := "GET, HEAD"
		if r.URL.Path == "/keys" {
			allow += ", POST"
		}
		w.Header().Set("Allow", allow)
		c.refuse(w, v, http.StatusMethodNotAllowed, "Not possible", "This page does not answer to that method.")
	default:
		c.refuse(w, v, http.StatusNotFound, "No such page", "There is no page at this address.")
	}
}
