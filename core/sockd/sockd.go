// Package sockd serves the table of operations on a Unix stream socket: one JSON object a line, spelled flat or as
// JSON-RPC 2.0, answered in the order asked. It owns the socket's file, who is let in (a key in the message, one given
// by auth, or the peer's user), frames, pipelining, streams and draining. It never decides, never runs what nobody is
// known for, and answers every failure of a deciding operation with effect DENY. Lines become ops.Request; answers,
// errors and the lines of subscriptions come back as bytes. A reader that does not read holds up nobody but itself.
package sockd

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/edge"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/sdk"
)

// Settings are what a Server needs. Zero values of Table, Pipeline and Stuck mean the defaults named there.
type Settings struct {
	Service *ops.Service
	Table   []ops.Op // whose rows with Socket are served; ops.Table if nil

	Path  string            // of the socket's file, at most MaxPath bytes
	Mode  uint32            // permission bits of the file; 0 is 0600
	Group string            // name or number of the file's group; "" leaves it
	Peers map[uint32]string // user to the name or id of the key that messages without one are from

	// OwnPeer lets the user that serves be one of Peers. Under serve it must be false: what the server itself starts would
	// be let in.
	OwnPeer bool

	Limits   config.Limits
	Pipeline int           // requests at once, of one connection: 256
	Timeout  time.Duration // one operation, long polls included
	Stuck    time.Duration // how long a peer may read nothing while something waits to be written to it: 30 s

	Now      func() time.Time
	NewID    func() string // ids of connections, which request ids begin with
	Version  string        // of the program, for hello
	Features []string      // for hello, besides the names of the operations
	Log      func(format string, args ...any)

	// Trace begins to follow a request, or gives nil; nil: nobody follows requests
	Trace func() ops.Trace

	look time.Duration // how often connections of stopped keys are looked for; tests change it
}

// The defaults of Settings.
const (
	defaultPipeline = 256
	defaultStuck    = 30 * time.Second
)

// lineSlack is how much longer than a body a line may be: what is around it.
const lineSlack = 8 << 10

// Server is the socket adapter. Safe for concurrent use.
type Server struct {
	set      Settings
	ops      map[string]*ops.Op
	features []string
	names    string // of the operations, for errors
	file     socketFile
	ln       *net.UnixListener
	accepts  *edge.Acceptor
	accept   func() (*net.UnixConn, error) // ln's

	base     context.Context
	cancel   context.CancelFunc
	draining atomic.Bool
	stopped  chan struct{} // closed by Close
	inFlight *edge.Crowd
	door     *edge.Door
	bodies   *edge.Budget // of messages
	strange  *edge.Budget // of lines whose sender is not known yet
	pool     pool
	said     *edge.Throttle // what strangers can cause

	serving sync.WaitGroup // connections, and refusals of some
	workers sync.WaitGroup

	mu    sync.Mutex
	conns map[*conn]struct{}
	ended bool
}

// Listen makes a Server and its socket file. A file that a dead server left is replaced; one that somebody listens on,
// and whatever else has the path, is an error, and so is a peer that must not be one.
func Listen(set Settings) (*Server, error) {
	s := &Server{set: withDefaults(set), stopped: make(chan struct{}), conns: map[*conn]struct{}{},
		ops: map[string]*ops.Op{}}
	l := &s.set.Limits
	s.door = edge.NewDoor(l.Connections, l.KeylessPer).Share(l.ConnectionsPerKey)
	s.bodies = edge.NewBudget(int64(l.Bodies), int64(l.BodiesPerKey))
	s.strange = edge.NewBudget(int64(l.Bodies/8), int64(l.Bodies/8))
	s.inFlight = edge.NewCrowd(l.InFlight, ops.UrgentInFlight)
	s.said = edge.NewThrottle("socket", time.Second, s.set.Log)
	s.features = append(s.features, set.Features...)
	for i := range s.set.Table {
		if op := &s.set.Table[i]; op.Socket {
			s.ops[op.Name] = op
			s.features = append(s.features, op.Name)
			s.names += op.Name + " "
		}
	}
	if err := s.checkPeers(); err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	var err error
	if s.ln, err = s.file.listen(s.set.Path, s.set.Mode, s.set.Group); err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	s.accepts, s.accept = edge.NewAcceptor("socket", s.set.Log), s.ln.AcceptUnix
	s.base, s.cancel = context.WithCancel(context.Background())
	if set.Service != nil { // whoever only listens has none
		set.Service.CutWith(s.cutStuck)
	}
	return s, nil
}

func withDefaults(set Settings) Settings {
	if set.Table == nil {
		set.Table = ops.Table
	}
	if set.Mode == 0 {
		set.Mode = 0o600
	}
	if set.Pipeline == 0 {
		set.Pipeline = defaultPipeline
	}
	l := &set.Limits
	l.FirstByte, l.ConnectionsPerKey = min(l.FirstByte, l.Idle), min(l.ConnectionsPerKey, l.Connections)
	if set.Stuck == 0 {
		set.Stuck = defaultStuck
	}
	return set
}

// Door has the connections.
func (s *Server) Door() *edge.Door { return s.door }

// Path is the socket's file.
func (s *Server) Path() string { return s.set.Path }

// Serve answers until Close, and returns nil then.
func (s *Server) Serve() error {
	s.workers.Go(func() { s.door.Watch(s.base, cmp.Or(s.set.look, edge.WatchEvery), s.set.Service.Stopped) })
	for {
		nc, err := edge.Accept(s.accepts, s.accept)
		if err == nil {
			s.admit(nc)
			continue
		}
		select {
		case <-s.stopped:
			return nil
		default:
			return fmt.Errorf("socket: %w", err)
		}
	}
}

// admit begins to serve a connection, or tells it why not.
func (s *Server) admit(nc *net.UnixConn) {
	c, err := newConn(s, nc)
	if err != nil {
		s.said.Log("a connection was dropped: %v", err)
		_ = nc.Close()
		return
	}
	c.guest = s.door.Enter(c.peer.user, func() { _ = nc.Close() }) // its reader sees the end
	room := c.guest != nil
	if room {
		c.knowPeer()
	}
	s.mu.Lock()
	ended := s.ended
	if !ended && room {
		s.conns[c] = struct{}{}
		s.serving.Go(c.serve)
	}
	s.mu.Unlock()
	if ended || !room {
		if room {
			c.guest.Leave()
		}
		if !ended {
			c.turnAway(sdk.Errf(sdk.CodeTooManyRequests, "more than %d connections at once (limits.connections)",
				s.set.Limits.Connections))
		}
		_ = nc.Close()
		return
	}
	if s.draining.Load() {
		c.drain() // Drain may have looked before it was there
	}
}

func (s *Server) forget(c *conn) {
	c.guest.Leave()
	c.lines.release()
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
}

func (s *Server) each(do func(*conn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		do(c)
	}
}

// cutStuck ends writes with a PERMIT that have not got on since it looked last: see ops.Service.CutWith.
func (s *Server) cutStuck() {
	s.each(func(c *conn) {
		n := c.permits.Load()
		if n%2 == 1 && n == c.looked {
			_ = c.nc.SetWriteDeadline(time.Unix(1, 0)) // fails on a closed connection only
		}
		c.looked = n
	})
}

// Drain refuses new messages, lets long polls and streams end, and closes connections once nothing of theirs runs.
func (s *Server) Drain() {
	if !s.draining.Swap(true) {
		s.each((*conn).drain)
	}
}

// Close drains, waits for what runs until ctx ends, then cuts connections off, and removes the socket's file. It
// returns when no goroutine of the server is left; ctx's end is no error.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	again := s.ended
	s.ended = true
	s.mu.Unlock()
	if again {
		return nil
	}
	close(s.stopped)
	s.accepts.Close()
	err := s.file.close(s.ln)
	s.Drain()
	done := make(chan struct{})
	go func() {
		s.serving.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		s.cancel()
		s.each((*conn).cut)
		<-done
	}
	s.cancel()
	s.pool.close()
	s.workers.Wait()
	return err
}
