package prochost

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/yett-dev/yett/core/supervise"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	maxMessage   = 4 << 20 // bytes of one gRPC message, either way
	maxHeaders   = 64 << 10
	streamWindow = 4 << 20 // of HTTP/2 flow control: one whole message
	bufferSize   = 64 << 10

	endNotice = 500 * time.Millisecond // for the kernel to tell that a process ended, when its connection did
	endWait   = 6 * time.Second        // for a process that was killed
)

// Session is one process (or connection) after the handshake. Its methods are safe for concurrent use.
type Session struct {
	o       *Options
	spec    *Spec
	process *supervise.Process
	conn    *grpc.ClientConn
	dir     string
	secrets map[string]string
	ended   func(error)                 // Connect: the process's end
	failing atomic.Pointer[func(error)] // told of fail before the process is killed

	ctx  context.Context // ends with the session, its cause says why
	stop context.CancelCauseFunc
	work sync.WaitGroup
	gone chan struct{} // everything is tidied up

	mu     sync.Mutex
	closed bool // no more goroutines
}

// Conn is the connection, for the stubs of sdk/proto/v1.
func (s *Session) Conn() grpc.ClientConnInterface { return s.conn }

// Process is the process. With Connect it stands for the connection: its Pid is 0.
func (s *Session) Process() *supervise.Process { return s.process }

// Secrets are the paths, in the process, of the files that hold its secrets: what Configure is given.
func (s *Session) Secrets() map[string]string { return s.secrets }

// handshake takes over a birth and its process: at the process's end everything is tidied up. On an error the Session
// beside it is of no use, and its caller kills the process.
func (b *birth) handshake(ctx context.Context, p *supervise.Process) (*Session, error) {
	b.closeFiles() // the process has its own
	s := &Session{o: b.o, spec: b.s, process: p, dir: b.dir, secrets: b.secrets, ended: b.ended, gone: make(chan struct{})}
	s.ctx, s.stop = context.WithCancelCause(context.Background())
	err := s.shake(ctx, b)
	if err != nil {
		s.stop(err)
	}
	go s.tidy()
	return s, err
}

func (s *Session) shake(ctx context.Context, b *birth) error {
	var secure *noted
	name := "localhost" // that gRPC's and TLS's own names of the other end agree is a condition of grpc.NewClient
	raw := b.conn
	if raw == nil {
		said, err := s.awaitHello(ctx)
		if err != nil {
			return err
		}
		config, err := b.pair.Pinned(said.cert)
		if err != nil {
			return err
		}
		secure = &noted{TransportCredentials: credentials.NewTLS(config)}
		if raw, err = s.reach(ctx, said.path); err != nil {
			return s.because(ctx, err)
		}
	} else {
		config, err := s.spec.Peer.config()
		if err != nil {
			return err
		}
		if config != nil {
			name = config.ServerName
			secure = &noted{TransportCredentials: credentials.NewTLS(config)}
		}
	}
	if err := s.dialOver(ctx, raw, secure, name); err != nil {
		return s.because(ctx, err)
	}
	s.spawn(s.watch)
	s.spawn(s.readStdio)
	return nil
}

// dialOver makes a gRPC connection of a socket. A lost one is not dialled again: that is a new start's business.
func (s *Session) dialOver(ctx context.Context, raw net.Conn, secure *noted, name string) error {
	var used atomic.Bool
	creds := insecure.NewCredentials()
	if secure != nil {
		creds = secure
	}
	conn, err := grpc.NewClient("passthrough:///plugin",
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			if used.Swap(true) {
				return nil, errLost
			}
			return raw, nil
		}),
		grpc.WithTransportCredentials(creds), grpc.WithAuthority(name), grpc.WithNoProxy(), grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(), grpc.WithDisableHealthCheck(), grpc.WithIdleTimeout(0),
		grpc.WithMaxHeaderListSize(maxHeaders), grpc.WithWriteBufferSize(bufferSize), grpc.WithReadBufferSize(bufferSize),
		grpc.WithInitialWindowSize(streamWindow), grpc.WithInitialConnWindowSize(2*streamWindow),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)))
	if err != nil {
		raw.Close()
		return err
	}
	conn.Connect()
	for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
		if state == connectivity.TransientFailure {
			conn.Close()
			raw.Close()
			if secure != nil && secure.failure() != nil {
				return fmt.Errorf("TLS with its socket: %w", secure.failure())
			}
			return errors.New("what listens on its socket does not speak HTTP/2")
		}
		if !conn.WaitForStateChange(ctx, state) {
			conn.Close()
			raw.Close()
			return fmt.Errorf("its socket does not answer: %w", context.Cause(ctx))
		}
	}
	s.conn = conn
	return nil
}

var errLost = errors.New("the connection was lost")

// watch notices the end of the connection or of the process.
func (s *Session) watch() {
	lost := make(chan bool, 1)
	s.spawn(func() { lost <- s.conn.WaitForStateChange(s.ctx, connectivity.Ready) })
	select {
	case changed := <-lost:
		if changed {
			s.fail(s.because(context.Background(), errLost))
		}
	case <-s.process.Done():
		s.stop(s.because(context.Background(), errLost))
	}
	if s.ended != nil { // also when somebody else ended the session: then the connection has no use any more
		s.ended(errLost)
	}
}

// tidy removes what belonged to a process when it has ended.
func (s *Session) tidy() {
	defer close(s.gone)
	tellLeft(s.o, s.spec.Name, s.process)
	s.stop(errLost)
	if s.conn != nil {
		s.conn.Close()
	}
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.work.Wait()
	if s.dir != "" {
		supervise.RemoveDir(s.dir)
	}
}

// tellLeft waits for the end of a process and says what it left behind.
func tellLeft(o *Options, name string, p *supervise.Process) {
	<-p.Done()
	tellEnd(o, name, p.Exit())
}

func tellEnd(o *Options, name string, e supervise.Exit) {
	if len(e.Left) > 0 {
		o.Log(name, LevelHost, "processes that it left behind were killed: "+strings.Join(e.Left, ", "))
	}
	if e.Loose != nil {
		o.Log(name, LevelHost, fmt.Sprintf("processes that it left behind may still run, and are killed as soon as they "+
			"can be: %v", e.Loose))
	}
}

// spawn starts a goroutine that ends with the session, unless that has ended.
func (s *Session) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.work.Go(f)
	}
	return !s.closed
}

// fail ends a session for a reason: nothing is asked any more, and the process is killed. A session that is being ended
// already has its reason.
func (s *Session) fail(why error) {
	if s.ctx.Err() != nil {
		return
	}
	s.stop(why)
	if tell := s.failing.Load(); tell != nil {
		(*tell)(why)
	}
	s.process.Kill()
}

// finish waits until all is tidied up, but not for ever: a process that is stuck in the kernel does not end.
func (s *Session) finish() error {
	if s.ended != nil {
		s.ended(nil)
	}
	select {
	case <-s.gone:
		return nil
	case <-time.After(endWait):
		return fmt.Errorf("process %d does not end, SIGKILL was sent", s.process.Pid())
	}
}

// Close asks the process to end, kills it and whatever it started when ctx ends, and returns when all is tidied up. The
// error says what did not end.
func (s *Session) Close(ctx context.Context) error {
	s.process.Terminate()
	select {
	case <-s.process.Done():
	case <-ctx.Done():
	}
	s.process.Kill()
	return s.finish()
}
