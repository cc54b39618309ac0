// Package front is the HTTP side of the doors: a listener of net/http for protocols of others. It owns who may connect,
// which names it answers to, keys before bodies, the bounds of a request, and that every failure becomes the closed
// answer of the door's own contract. It must never read a body before its key, answer a panic with anything but a
// refusal, or know what a door's protocol means.
package front

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/doors/ask"
	"github.com/yett-dev/yett/core/edge"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// Keys are what finds the key of a request. *ops.Service has them.
type Keys interface {
	// Authenticate finds the live key of an Authorization header's value.
	Authenticate(header string) (*store.Key, error)
	// Refused records a refused request, now and then.
	Refused(ctx context.Context, err error, surface, peer string)
	// RefusedToken is Refused for a request with an access token.
	RefusedToken(ctx context.Context, err error, surface, peer string)
	// Stopped reports whether a key is killed, expired or revoked.
	Stopped(id string) bool
}

// Settings are what a Front needs. All but Tokens, Hosts, TLS and Proxies are required.
type Settings struct {
	Name    string // of the listener, in the log and in records ("mcp", "doors")
	Keys    Keys
	Tokens  Tokens // nil: API keys only
	Limits  config.Limits
	Hosts   []string // names accepted besides the listening address and the loopback names
	TLS     *tls.Config
	Proxies edge.Proxies
	NewID   func() string                    // of a request
	Log     func(format string, args ...any) // must not wait
	HostKey string                           // the key of the configuration that names hosts, for errors
}

// Route is one path of a door.
type Route struct {
	Pattern string // of http.ServeMux
	Needs   sdk.Scope
	Body    int64 // the largest body, bytes
	// KeyOf gives the value of the Authorization header that stands for the request; nil: the header itself.
	KeyOf func(r *http.Request) string
	// Refuse writes the closed answer of the door's contract. It never gets a nil error.
	Refuse func(w http.ResponseWriter, r *Request, err *sdk.Error)
	Handle func(w http.ResponseWriter, r *Request)
	// Public routes need no key and read no body.
	Public bool
	// Foreign routes are asked about requests to others, by a proxy that passes them on as they came: host, origin and
	// everything behind the pattern are those of that request. They need a key that no page can send (KeyOf).
	Foreign bool
	// Always: a request for a foreign name, or from a foreign page, is answered by Refuse too. It is for protocols
	// whose clients take a bare error for a pass.
	Always bool
}

// Request is one request whose key is valid, or one that is refused.
type Request struct {
	*http.Request

	Caller ask.Caller // Key is nil on public routes and where the key is refused
	Body   []byte     // whole
	ID     string

	fail func(w http.ResponseWriter, r *Request, err error)
}

// Fail answers with the closed answer of the route for err, and logs what is our own fault.
func (r *Request) Fail(w http.ResponseWriter, err error) { r.fail(w, r, err) }

// The limits of a front that the configuration does not give.
const (
	headerBytes = 64 << 10
	shortWrite  = 90 * time.Second // an operation with its longest wait; streams set their own for each write
)

// Front serves the routes of doors. Safe for concurrent use.
type Front struct {
	set      Settings
	hosts    map[string]bool
	mux      *http.ServeMux
	foreign  []*Route
	routes   map[string]*Route // by pattern
	http     *http.Server
	door     *edge.Door
	crowd    *edge.Crowd
	bodies   *edge.Budget
	stopping chan struct{}
	stop     sync.Once
	base     context.Context
	cancel   context.CancelFunc
}

// New makes a Front that answers nothing yet.
func New(set Settings, routes []Route) *Front {
	f := &Front{set: set, hosts: map[string]bool{}, mux: http.NewServeMux(), routes: map[string]*Route{},
		stopping: make(chan struct{}),
		door:     edge.NewDoor(set.Limits.Connections, set.Limits.KeylessPer).Share(set.Limits.ConnectionsPerKey),
		crowd:    edge.NewCrowd(set.Limits.InFlight, 0),
		bodies:   edge.NewBudget(int64(set.Limits.Bodies), int64(set.Limits.BodiesPerKey))}
	f.base, f.cancel = context.WithCancel(context.Background())
	for _, h := range set.Hosts {
		f.hosts[strings.ToLower(h)] = true
	}
	for i := range routes {
		if routes[i].Foreign {
			f.foreign = append(f.foreign, &routes[i])
			continue
		}
		f.mux.HandleFunc(routes[i].Pattern, f.serve(&routes[i]))
		f.routes[routes[i].Pattern] = &routes[i]
	}
	f.http = &http.Server{Handler: http.HandlerFunc(f.enter), ReadHeaderTimeout: set.Limits.HeaderRead.Std(),
		IdleTimeout: set.Limits.Idle.Std(), MaxHeaderBytes: headerBytes, ConnContext: edge.ConnContext,
		BaseContext: func(net.Listener) context.Context { return f.base },
		ErrorLog:    log.New(logWriter{set.Name, set.Log}, "", 0)}
	return f
}

// logWriter gives the server's own messages to our log.
type logWriter struct {
	name string
	log  func(format string, args ...any)
}

// Write logs one message.
func (l logWriter) Write(p []byte) (int, error) {
	l.log("%s: %s", l.name, ops.Keyless(strings.TrimSpace(string(p))))
	return len(p), nil
}

// Serve answers on ln until Close.
func (f *Front) Serve(ln net.Listener) error {
	ln = f.door.Listen(ln, edge.NewAcceptor(f.set.Name, f.set.Log), f.set.Proxies, nil)
	if f.set.TLS != nil { // above the door, so that the server knows the connection for what it is
		ln = tls.NewListener(ln, f.set.TLS)
	}
	go f.door.Watch(f.base, edge.WatchEvery, f.set.Keys.Stopped)
	if err := f.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("%s: %w", f.set.Name, err)
	}
	return nil
}

// Close waits for what runs until ctx ends.
func (f *Front) Close(ctx context.Context) error {
	f.stop.Do(func() { close(f.stopping) })
	defer f.cancel()
	if err := f.http.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", f.set.Name, err), f.http.Close())
	}
	return nil
}

// Stopping is closed when the front begins to close: streams end then.
func (f *Front) Stopping() <-chan struct{} { return f.stopping }

// enter is before every route: the host must be ours, and the path exact.
func (f *Front) enter(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	for _, route := range f.foreign {
		if strings.HasPrefix(r.RequestURI, route.Pattern) {
			f.serve(route)(w, r)
			return
		}
	}
	if why := f.refusesHost(r); why != "" {
		f.turnAway(w, r, why)
		return
	}
	if why := f.refusesOrigin(r); why != "" {
		f.turnAway(w, r, why)
		return
	}
	if _, exact := edge.Path(r.RequestURI); !exact {
		http.NotFound(w, r)
		return
	}
	f.mux.ServeHTTP(w, r)
}

// serve runs one route.
func (f *Front) serve(route *Route) http.HandlerFunc {
	return func(w http.ResponseWriter, hr *http.Request) {
		r := &Request{Request: hr, ID: f.requestID(hr.Header.Get("X-Request-Id"))}
		// a connection keeps the deadline that the request before has set
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(shortWrite)) // in vain: the answer fails later
		r.fail = func(w http.ResponseWriter, r *Request, err error) { f.refuse(w, r, route, err) }
		w.Header().Set("X-Request-Id", r.ID)
		out := &answered{ResponseWriter: w}
		defer func() {
			if v := recover(); v != nil {
				if v == http.ErrAbortHandler {
					panic(v)
				}
				f.set.Log("%s: request %s: panic: %s\n%s", f.set.Name, r.ID, ops.Keyless(fmt.Sprint(v)), debug.Stack())
				if out.began {
					panic(http.ErrAbortHandler) // half an answer must not look whole
				}
				route.Refuse(out, r, sdk.Errf(sdk.CodeInternal, ""))
			}
		}()
		if err := f.run(out, r, route); err != nil {
			f.refuse(out, r, route, err)
		}
	}
}

// refuse hands an error to the door.
func (f *Front) refuse(w http.ResponseWriter, r *Request, route *Route, err error) {
	e := ops.Told(AsError(err))
	f.challenge(w, r, err, e)
	if st := wire.StatusOf(e.Code).HTTP; st >= 500 && e.Code != sdk.CodeOverloaded {
		f.set.Log("%s: request %s: %s", f.set.Name, r.ID, ops.Keyless(err.Error()))
	}
	route.Refuse(w, r, e)
}

// AsError is err as an *sdk.Error: one of the registry, or an internal error that says nothing.
func AsError(err error) *sdk.Error {
	var e *sdk.Error
	if errors.As(err, &e) {
		return e
	}
	return &sdk.Error{Code: sdk.CodeInternal, Err: err}
}

// run finds who asks, reads the body, and hands the request to the route.
func (f *Front) run(w *answered, r *Request, route *Route) error {
	guest := edge.Visitor(r.Request)
	if route.Public {
		guest.Know(true)
		defer guest.Know(false)
		route.Handle(w, r)
		return nil
	}
	select {
	case <-f.stopping:
		return sdk.Errf(sdk.CodeDraining, "the server is going down; ask again in a second")
	default:
	}
	by, err := f.bearer(r, route)
	if err != nil {
		hangUp(w)
		guest.Know(false)
		return err
	}
	key := by.Key
	if !f.crowd.Enter(key.ID, false) {
		hangUp(w)
		return sdk.Errf(sdk.CodeTooManyRequests, "more than %d requests at once, the last quarter of which is for keys "+
			"that have few (limits.in_flight)", f.set.Limits.InFlight)
	}
	defer f.crowd.Leave(key.ID, false)
	if err := guest.Begin(key.ID, false); err != nil {
		hangUp(w)
		return sdk.Errf(sdk.CodeTooManyRequests, "this key has too many connections on which requests run "+
			"(limits.connections, limits.connections_per_key)")
	}
	defer guest.End()
	r.Caller = ask.Caller{Key: key, Stopping: f.stopping, Traceparent: r.Header.Get("Traceparent"),
		Who: store.Who{Principal: key.ID, Method: by.Method, Surface: f.set.Name, Peer: f.peer(r.Request),
			RequestID: r.ID, Note: by.Note}}
	if by.Left > 0 && r.Method == http.MethodGet { // a stream ends with the token that opened it
		ctx, cancel := context.WithTimeout(r.Context(), by.Left)
		defer cancel()
		r.Request = r.Request.WithContext(ctx)
	}
	held, err := f.readBody(w, r, route)
	defer f.bodies.Give(key.ID, held)
	if err != nil {
		hangUp(w)
		return err
	}
	route.Handle(w, r)
	return nil
}

// restOfBody is how long the rest of a body may take that nobody looks at. A connection that is closed before it is
// read is reset, and the client may not get the answer.
const restOfBody = 250 * time.Millisecond

// hangUp ends the connection with the answer. The server would wait for ever for the rest of a body that nobody sends.
func hangUp(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(restOfBody)) // in vain: it waits as long as it wants
}

// readBody reads the body whole. held is what it takes of the budget.
func (f *Front) readBody(w http.ResponseWriter, r *Request, route *Route) (held int64, err error) {
	if r.Method == http.MethodGet || r.Method == http.MethodDelete {
		if r.ContentLength != 0 {
			return 0, sdk.Errf(sdk.CodeBadRequest, "%s takes no body", r.Method)
		}
		return 0, nil
	}
	if c := r.Header.Get("Content-Encoding"); c != "" && !strings.EqualFold(c, "identity") {
		return 0, sdk.Errf(sdk.CodeUnsupportedCoding, "Content-Encoding must be identity")
	}
	tooLarge := func(n int64) error {
		return sdk.Errf(sdk.CodeTooLarge, "the body is longer than the limit of %d bytes", n)
	}
	if r.ContentLength > route.Body {
		return 0, tooLarge(route.Body)
	}
	body := http.MaxBytesReader(w, r.Request.Body, route.Body)
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(f.set.Limits.WholeRead.Std()))
	buf := make([]byte, 0, max(r.ContentLength+1, 512))
	if held, err = f.hold(r.Caller.Key.ID, 0, int64(cap(buf))); err != nil {
		return held, err
	}
	for {
		if len(buf) == cap(buf) {
			if held, err = f.hold(r.Caller.Key.ID, held, int64(cap(buf))); err != nil {
				return held, err
			}
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		var most *http.MaxBytesError
		switch {
		case errors.Is(err, io.EOF):
			_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
			r.Body = buf
			return held, nil
		case errors.As(err, &most):
			return held, tooLarge(most.Limit)
		case err != nil:
			return held, sdk.Errf(sdk.CodeTimeout, "the body did not come whole within %s (limits.whole_read)",
				f.set.Limits.WholeRead)
		}
	}
}

// hold takes n bytes more of the budget. now is what is held afterwards.
func (f *Front) hold(key string, held, n int64) (now int64, err error) {
	switch err := f.bodies.Take(key, n); {
	case errors.Is(err, edge.ErrOneIsFull):
		return held, sdk.Errf(sdk.CodeTooManyRequests, "the unanswered requests of this key may hold %d bytes together, "+
			"and this one does not fit (limits.bodies_per_key)", f.set.Limits.BodiesPerKey)
	case err != nil:
		return held, sdk.Errf(sdk.CodeOverloaded, "the unanswered requests of all keys may hold %d bytes together, and "+
			"this one does not fit (limits.bodies); try again in a second", f.set.Limits.Bodies)
	}
	return held + n, nil
}

// requestID is the caller's when it is sane, else made.
func (f *Front) requestID(id string) string {
	if id == "" || len(id) > 128 || ops.HoldsKey(id) {
		return f.set.NewID()
	}
	for _, c := range []byte(id) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && strings.IndexByte("._:-", c) < 0 {
			return f.set.NewID()
		}
	}
	return id
}

// peer is where a request came from: the other end of its connection, or what a trusted proxy says.
func (f *Front) peer(r *http.Request) string {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !f.set.Proxies.Trusts(ap.Addr()) {
		return r.RemoteAddr
	}
	return f.set.Proxies.Client(ap.Addr(), r.Header.Values("X-Forwarded-For"), r.Header.Values("Forwarded")).String()
}
