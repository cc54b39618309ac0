// Package httpd serves the table of operations over HTTP/1.1 with fasthttp. It owns what HTTP is about: strict framing,
// routes, headers, limits, request ids, problem documents and draining. It never decides, and never hands a request on
// that it has not read whole and strictly. Requests become ops.Request; answers and errors come back as bytes.
package httpd

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/time/rate"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/edge"
	"github.com/yett-dev/yett/core/ops"
)

// Settings are what a Server needs.
type Settings struct {
	Service *ops.Service
	Ready   func() []Part // the rows of /readyz
	Now     func() time.Time
	NewID   func() string // request ids
	Version string        // shown in /openapi.json
	TLS     *tls.Config   // nil: in clear
	Server  config.Server
	Limits  config.Limits
	Timeout time.Duration // one operation, long polls apart
	Flight  Flight        // nil: nobody asks which decisions are on their way
	Log     func(format string, args ...any)
	// Trace begins to follow a request with that traceparent header, or gives nil; nil: nobody follows requests
	Trace func(traceparent string) ops.Trace

	look   time.Duration // how often connections of stopped keys are looked for; tests change it
	unread time.Duration // tests make it short; 0 is the contract's 30 s
}

// Flight knows which requests may have been permitted and whose answers have not been written yet. Its methods must not
// block or allocate.
type Flight interface {
	// Enter is called before the commit that may permit looks at kills. What it gives goes to Leave.
	Enter() uint32
	// Leave is called once the write of its answer has returned, or the connection is closed.
	Leave(uint32)
}

// Part is one row of /readyz.
type Part struct {
	Name   string
	OK     bool
	Detail string
	State  string // of a plugin process or subscriber; "" has none
	Beside bool   // the gateway is ready without it
}

// Server is the HTTP adapter. Safe for concurrent use.
type Server struct {
	set      Settings
	fast     *fasthttp.Server
	routes   *router
	base     context.Context
	cancel   context.CancelFunc
	draining atomic.Bool
	stopping chan struct{} // closed by Drain
	once     sync.Once
	inFlight *edge.Crowd
	live     *liveConns
	bodies   *edge.Budget
	door     *edge.Door
	proxies  edge.Proxies
	openAPI  []byte
}

// New makes a Server for every HTTP operation of the table.
func New(set Settings) *Server {
	l := &set.Limits
	l.ConnectionsPerKey = min(l.ConnectionsPerKey, l.Connections)
	s := &Server{set: set, proxies: set.Server.Proxies(), stopping: make(chan struct{}), routes: routesOf(),
		door:     edge.NewDoor(l.Connections, l.KeylessPer).Share(l.ConnectionsPerKey),
		bodies:   edge.NewBudget(int64(l.Bodies), int64(l.BodiesPerKey)),
		inFlight: edge.NewCrowd(l.InFlight, ops.UrgentInFlight), openAPI: OpenAPI(set.Version)}
	s.base, s.cancel = context.WithCancel(context.Background())
	s.live = &liveConns{all: map[*strictConn]struct{}{}}
	if set.Service != nil { // pages alone need none
		set.Service.CutWith(s.live.cutStuck)
	}
	s.fast = &fasthttp.Server{
		Handler:                      s.handle,
		ErrorHandler:                 s.framing,
		ExpectHandler:                s.expect,
		ReadBufferSize:               int(l.Headers) + 1024,
		MaxRequestBodySize:           int(l.Largest()) + 1,
		Concurrency:                  2*l.Connections + 1024, // never reached: the door says no before, and says why
		WriteTimeout:                 unread,
		NoDefaultServerHeader:        true,
		NoDefaultContentType:         true,
		CloseOnShutdown:              true,
		DisablePreParseMultipartForm: true,
		Logger:                       quiet{set.Log, rate.NewLimiter(10, 10), new(atomic.Int64)},
	}
	return s
}

// quiet takes fasthttp's messages. Every refused request makes one, so a hostile client could fill the log: ten a
// second are written, and the rest is counted.
type quiet struct {
	log   func(string, ...any)
	limit *rate.Limiter
	lost  *atomic.Int64
}

func (q quiet) Printf(format string, args ...any) {
	for _, a := range args {
		if _, early := a.(*refusal); early {
			return // it was answered, as any other refused request
		}
	}
	if !q.limit.Allow() {
		q.lost.Add(1)
		return
	}
	if n := q.lost.Swap(0); n > 0 {
		q.log("http: %d messages were not written: more than ten a second", n)
	}
	line, _, _ := strings.Cut(fmt.Sprintf(format, args...), ", contents:") // never the client's bytes
	q.log("http: %s", line)
}

// Serve answers on ln until Shutdown. It closes ln.
func (s *Server) Serve(ln net.Listener) error {
	l := &s.set.Limits
	full := newTurned(l.Connections, s.set.TLS != nil, s.set.NewID)
	ln = explained{s.door.Listen(ln, edge.NewAcceptor("http", s.set.Log), s.proxies, full.away), full}
	go s.door.Watch(s.base, cmp.Or(s.set.look, edge.WatchEvery), s.set.Service.Stopped)
	if s.set.TLS != nil {
		ln = tls.NewListener(ln, s.set.TLS)
	}
	return s.fast.Serve(newStrictListener(ln, StrictLimits{live: s.live, Idle: l.Idle.Std(), FirstByte: l.FirstByte.Std(),
		HeaderRead: l.HeaderRead.Std(), WholeRead: l.WholeRead.Std(), HeaderBytes: int(l.Headers),
		BodyBytes: l.Largest(), Unread: s.set.unread, gate: s}))
}

// Door has the connections.
func (s *Server) Door() *edge.Door { return s.door }

// Drain makes /readyz answer 503 and refuses new decisions, so that a balancer looks elsewhere. What runs goes on.
func (s *Server) Drain() {
	s.draining.Store(true)
	s.once.Do(func() { close(s.stopping) })
}

// Shutdown drains, lets long polls answer, waits for what runs until ctx ends, and then ends it.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Drain()
	s.live.hurry(time.Now())
	defer s.cancel()
	err := s.fast.ShutdownWithContext(ctx)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("http: the time to end (server.drain) was over before all connections had ended, %d left: %w",
			s.live.count(), err)
	}
	return err
}
