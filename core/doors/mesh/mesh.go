// Package mesh is the doors for proxies: Envoy's ext_authz and ext_proc, and agentgateway's MCP guardrails. It owns
// their messages, the gRPC server that answers them, and how a request of HTTP or MCP becomes a call. It must never
// answer in a form that a proxy takes for a permit unless the operations permitted or cleaned what was asked, and never
// leave that choice to a proxy: a failure is a refusal in the protocol, not an error of the transport.
package mesh

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/doors/ask"
	"github.com/yett-dev/yett/core/doors/front"
	"github.com/yett-dev/yett/core/edge"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// Settings are what a Server needs; all but TLS are required.
type Settings struct {
	Config  config.Doors
	Keys    front.Keys
	Limits  config.Limits
	Asker   *ask.Asker
	TLS     *tls.Config
	Console func() string // the address of the console, "" when it is off
	NewID   func() string // of a request
	Log     func(format string, args ...any)
}

// The limits of the server that the configuration does not give.
const (
	name         = "mesh"    // of the listener, in the log and in records
	headerBytes  = 64 << 10  // of a gRPC call
	streams      = 256       // calls at once on one connection
	unknowns     = 16        // messages that are read at once before their key is known
	window       = 256 << 10 // what a proxy may send before it is read
	beside       = 256 << 10 // what a message holds beside its body
	pingAfter    = time.Minute
	pingWait     = 20 * time.Second
	pingsAtLeast = 10 * time.Second // between two of a proxy's
)

// Server answers proxies over gRPC. Safe for concurrent use.
type Server struct {
	set      Settings
	grpc     *grpc.Server
	door     *edge.Door
	crowd    *edge.Crowd
	bodies   *edge.Budget
	unknown  chan struct{} // a place for each message that is read before its key is known
	stopping chan struct{}
	stop     sync.Once
	base     context.Context
	cancel   context.CancelFunc
}

// New makes a Server that answers nothing yet.
func New(set Settings) *Server {
	s := &Server{set: set, stopping: make(chan struct{}), unknown: make(chan struct{}, unknowns),
		door:   edge.NewDoor(set.Limits.Connections, set.Limits.KeylessPer).Share(set.Limits.ConnectionsPerKey),
		crowd:  edge.NewCrowd(set.Limits.InFlight, 0),
		bodies: edge.NewBudget(int64(set.Limits.Bodies), int64(set.Limits.BodiesPerKey))}
	s.base, s.cancel = context.WithCancel(context.Background())
	s.grpc = grpc.NewServer(grpc.Creds(&entrance{tls: set.TLS}), grpc.ForceServerCodecV2(codec{}),
		grpc.MaxRecvMsgSize(s.largest()),
		grpc.MaxHeaderListSize(headerBytes), grpc.MaxConcurrentStreams(streams),
		grpc.StaticStreamWindowSize(window), grpc.StaticConnWindowSize(4*window),
		grpc.ConnectionTimeout(set.Limits.FirstByte.Std()), grpc.WaitForHandlers(true),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: max(set.Limits.Idle.Std(), 5*time.Minute),
			Time: pingAfter, Timeout: pingWait}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingsAtLeast, PermitWithoutStream: true}))
	if set.Config.ExtAuthz.Enabled {
		s.register("envoy.service.auth.v3.Authorization", "Check", s.once(s.check, refuseCheck, nil))
	}
	if set.Config.ExtProc.Enabled {
		s.register("envoy.service.ext_proc.v3.ExternalProcessor", "Process", s.process)
	}
	if set.Config.ExtMCP.Enabled {
		s.register(mcpService, "CheckRequest", s.once(s.checkRequest, refuseMCP, keyInside), "CheckResponse",
			s.once(s.checkResponse, refuseMCP, keyInside))
	}
	return s
}

// largest is the largest message that is read: the gateway itself refuses the largest body, in the protocol.
func (s *Server) largest() int { return int(s.set.Limits.Largest())*5/4 + beside }

// register adds a service. Its calls are served as streams, so that keys come before messages.
func (s *Server) register(service string, methods ...any) {
	desc := &grpc.ServiceDesc{ServiceName: service}
	for i := 0; i < len(methods); i += 2 {
		desc.Streams = append(desc.Streams, grpc.StreamDesc{StreamName: methods[i].(string),
			Handler: methods[i+1].(func(any, grpc.ServerStream) error), ServerStreams: true, ClientStreams: true})
	}
	s.grpc.RegisterService(desc, nil)
}

// Serve answers on ln until Close.
func (s *Server) Serve(ln net.Listener) error {
	go s.door.Watch(s.base, edge.WatchEvery, s.set.Keys.Stopped)
	err := s.grpc.Serve(s.door.Listen(ln, edge.NewAcceptor(name, s.set.Log), edge.Proxies{}, nil))
	select {
	case <-s.stopping:
		return nil
	default:
	}
	if err == nil {
		err = errors.New("the listener ended by itself")
	}
	return fmt.Errorf("%s: %w", name, err)
}

// Close waits for what runs until half of the time that ctx leaves is over: streams may wait for an upstream that is in
// no hurry, and others have to close after this. What still runs then ends with an error.
func (s *Server) Close(ctx context.Context) error {
	s.stop.Do(func() { close(s.stopping) })
	defer s.cancel()
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/2)
		defer cancel()
	}
	ended := make(chan struct{})
	go func() {
		s.grpc.GracefulStop()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		s.grpc.Stop()
		<-ended
	}
	return nil
}

// entrance lets gRPC know the guest that a connection is, under TLS or not.
type entrance struct{ tls *tls.Config }

// visit is what gRPC knows of a connection.
type visit struct{ guest *edge.Guest }

// AuthType implements credentials.AuthInfo.
func (visit) AuthType() string { return "yett" }

// ServerHandshake implements credentials.TransportCredentials.
func (e *entrance) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	in := visit{edge.GuestOf(raw)}
	if e.tls == nil {
		return raw, in, nil
	}
	conn, _, err := credentials.NewTLS(e.tls).ServerHandshake(raw)
	return conn, in, err
}

// ClientHandshake implements credentials.TransportCredentials. A server has no use for it.
func (e *entrance) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("mesh: a server connects to nobody")
}

// Info implements credentials.TransportCredentials.
func (e *entrance) Info() credentials.ProtocolInfo { return credentials.ProtocolInfo{} }

// Clone implements credentials.TransportCredentials.
func (e *entrance) Clone() credentials.TransportCredentials { return &entrance{e.tls} }

// OverrideServerName implements credentials.TransportCredentials.
func (e *entrance) OverrideServerName(string) error { return nil }

// caller is who sent a gRPC call with that key. end gives its place back; it may be called in any case.
func (s *Server) caller(ctx context.Context, header string) (c ask.Caller, end func(), err error) {
	end = func() {}
	from, guest := "", (*edge.Guest)(nil)
	if p, ok := peer.FromContext(ctx); ok {
		from = p.Addr.String()
		if v, ok := p.AuthInfo.(visit); ok {
			guest = v.guest
		}
	}
	select {
	case <-s.stopping:
		return c, end, sdk.Errf(sdk.CodeDraining, "the server is going down; ask again in a second")
	default:
	}
	key, err := s.key(ctx, header, from)
	if err != nil {
		guest.Know(false)
		return c, end, err
	}
	if err := guest.Begin(key.ID, false); err != nil {
		return c, end, sdk.Errf(sdk.CodeTooManyRequests, "this key has too many connections on which requests run "+
			"(limits.connections, limits.connections_per_key)")
	}
	c = ask.Caller{Key: key, Stopping: s.stopping, Who: store.Who{Principal: key.ID, Method: "api_key", Surface: name,
		Peer: from, RequestID: s.set.NewID()}}
	if trace := metadata.ValueFromIncomingContext(ctx, "traceparent"); len(trace) == 1 {
		c.Traceparent = trace[0]
	}
	return c, guest.End, nil
}

// authorization is the one key that a gRPC call brings in its metadata.
func authorization(ctx context.Context) string {
	if values := metadata.ValueFromIncomingContext(ctx, "authorization"); len(values) == 1 {
		return values[0]
	}
	return ""
}

// key finds the live key that a header stands for.
func (s *Server) key(ctx context.Context, header, from string) (*store.Key, error) {
	key, err := s.set.Keys.Authenticate(header)
	if err != nil {
		s.set.Keys.Refused(ctx, err, name, from)
		return nil, err
	}
	return key, nil
}

// place counts a call in that is worked on, and the bytes that it holds. free gives both back.
func (s *Server) place(c *ask.Caller, held int) (free func(), err error) {
	id, n := c.Key.ID, int64(held)
	if !s.crowd.Enter(id, false) {
		return nil, sdk.Errf(sdk.CodeTooManyRequests, "more than %d requests at once, the last quarter of which is for "+
			"keys that have few (limits.in_flight)", s.set.Limits.InFlight)
	}
	if err := s.bodies.Take(id, n); err != nil {
		s.crowd.Leave(id, false)
		return nil, sdk.Errf(sdk.CodeOverloaded, "the unanswered requests hold as much as they may (limits.bodies, "+
			"limits.bodies_per_key); try again in a second")
	}
	return func() {
		s.bodies.Give(id, n)
		s.crowd.Leave(id, false)
	}, nil
}

// receive waits for the next message of a stream, for so long at most; 0: as long as the stream is there.
func receive(stream grpc.ServerStream, most time.Duration) ([]byte, error) {
	f := new(frame)
	if most == 0 {
		err := stream.RecvMsg(f)
		return f.b, err
	}
	came := make(chan error, 1) // ends with the stream at the latest, which ends with its handler
	go func() { came <- stream.RecvMsg(f) }()
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case err := <-came:
		return f.b, err
	case <-t.C:
		return nil, sdk.Errf(sdk.CodeTimeout, "the message did not come whole within %s (limits.whole_read)", most)
	}
}

// reply is an answer to one message. sent says that it has left; nil: nobody asks.
type reply struct {
	b    []byte
	sent func()
}

// once makes the handler of a call with one message and one answer. refuse writes the closed answer. inside finds the
// key in the message of a proxy that cannot send metadata; nil: no key is looked for there.
func (s *Server) once(answer func(context.Context, ask.Caller, []byte) (reply, error), refuse func(*sdk.Error) []byte,
	inside func([]byte) string) func(any, grpc.ServerStream) error {
	return func(_ any, stream grpc.ServerStream) error {
		end := func() {}
		defer func() { end() }()
		r, err := s.guarded(func() (reply, error) {
			ctx := stream.Context()
			header, b, err := authorization(ctx), []byte(nil), error(nil)
			read := inside != nil && header == ""
			if read {
				if b, err = s.receiveUnknown(stream); err != nil {
					return reply{}, err
				}
				header = inside(b)
			}
			c, leave, err := s.caller(ctx, header)
			end = leave
			if err != nil {
				return reply{}, err
			}
			if !read {
				if b, err = receive(stream, s.set.Limits.WholeRead.Std()); err != nil {
					return reply{}, incomplete(err)
				}
			}
			free, err := s.place(&c, len(b))
			if err != nil {
				return reply{}, err
			}
			defer free()
			return answer(ctx, c, b)
		})
		if err != nil {
			r = reply{b: refuse(s.told(err))}
		}
		if r.sent != nil {
			defer r.sent()
		}
		return stream.SendMsg(&frame{r.b})
	}
}

// receiveUnknown reads a message before its key is known. Few are read at once, so that strangers hold little.
func (s *Server) receiveUnknown(stream grpc.ServerStream) ([]byte, error) {
	select {
	case s.unknown <- struct{}{}:
		defer func() { <-s.unknown }()
	default:
		return nil, sdk.Errf(sdk.CodeOverloaded, "too many calls at once come without a key in the metadata; send it as "+
			"authorization, or try again in a second")
	}
	b, err := receive(stream, s.set.Limits.WholeRead.Std())
	if err != nil {
		return nil, incomplete(err)
	}
	return b, nil
}

// guarded runs f; a panic is an error.
func (s *Server) guarded(f func() (reply, error)) (r reply, err error) {
	defer func() {
		if v := recover(); v != nil {
			s.set.Log("%s: panic: %s\n%s", name, ops.Keyless(fmt.Sprint(v)), debug.Stack())
			r, err = reply{}, sdk.Errf(sdk.CodeInternal, "")
		}
	}()
	return f()
}

// told is what a proxy is told of an error; what is our own fault is logged.
func (s *Server) told(err error) *sdk.Error {
	e := front.AsError(err)
	if ours(e) {
		s.set.Log("%s: %s", name, ops.Keyless(err.Error()))
	}
	return ops.Told(e)
}
