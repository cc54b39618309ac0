package plugin

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

const (
	maxMessage  = 4 << 20     // bytes of one gRPC message, either way
	window      = 1 << 20     // bytes on their way before the other side says that it took them
	maxStreams  = 4096        // calls and streams of one connection
	defaultMost = 256         // calls at once when Info does not say
	maxInterval = 1 << 22     // milliseconds between two answers of Health
	grace       = time.Second // after SIGTERM, for calls that were on their way
	drainTime   = 20 * time.Second
	closeTime   = 5 * time.Second
)

type state uint8

const (
	fresh state = iota
	configuring
	serving
	broken // Configure failed: what it left behind is unknown
)

// server serves the parts of one process. The embedded types answer calls of the services that the host should not
// make.
type server struct {
	pluginv1.UnimplementedPluginServer
	pluginv1.UnimplementedAuthorizerServer
	pluginv1.UnimplementedScannerServer
	pluginv1.UnimplementedSubscriberServer

	parts *parts
	log   *slog.Logger
	slots chan struct{} // one for each unary call at once

	ready    atomic.Bool // Configure succeeded
	refusing atomic.Bool // draining, and the time of grace is over
	inFlight atomic.Int64
	draining chan struct{} // closed by drain
	ended    chan struct{} // closed when what was begun is done: streams end
	readers  sync.WaitGroup

	outside bool // somebody else than the gateway started us

	mu    sync.Mutex
	state state
	mark  [sha256.Size]byte // of the settings in force
	told  bool              // drain was called
}

func newServer(p *parts, log *slog.Logger) *server {
	most := p.info.MaxInFlight
	if most == 0 {
		most = defaultMost
	}
	return &server{parts: p, log: log, slots: make(chan struct{}, most), draining: make(chan struct{}),
		ended: make(chan struct{})}
}

// options are what our gRPC server needs beside the transport's security.
func options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage), grpc.MaxConcurrentStreams(maxStreams),
		grpc.InitialWindowSize(window), grpc.InitialConnWindowSize(window),
		// A host may ping often, to notice a plugin that hangs; by default gRPC takes that for an attack.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 50 * time.Millisecond,
			PermitWithoutStream: true}),
	}
}

func (s *server) register(r grpc.ServiceRegistrar) {
	pluginv1.RegisterPluginServer(r, s)
	if s.parts.check != nil {
		pluginv1.RegisterAuthorizerServer(r, s)
	}
	if s.parts.scan != nil {
		pluginv1.RegisterScannerServer(r, s)
	}
	if s.parts.consume != nil {
		pluginv1.RegisterSubscriberServer(r, s)
	}
}

// Info says what the plugin is.
func (s *server) Info(context.Context, *pluginv1.InfoRequest) (*pluginv1.InfoResponse, error) {
	i := s.parts.info
	out := &pluginv1.InfoResponse{
		Name: i.Name, Version: i.Version, ApiVersions: []uint32{ProtocolVersion}, ConfigSchema: i.ConfigSchema,
		ExampleConfig: i.ExampleConfig, Description: i.Description,
		Capabilities: &pluginv1.Capabilities{
			// #nosec G115 -- gather bounds it
			CheckStream: s.parts.check != nil, CacheKeyFields: i.CacheKeyFields, MaxInFlight: uint32(i.MaxInFlight),
		},
	}
	for _, l := range s.parts.lives {
		out.Kinds = append(out.Kinds, l.kind)
	}
	for _, k := range i.Secrets {
		out.Secrets = append(out.Secrets, &pluginv1.SecretSpec{Name: k.Name, Required: k.Required,
			Description: k.Description})
	}
	for _, f := range i.Findings {
		out.Findings = append(out.Findings, &pluginv1.FindingKind{Kind: f.Kind, Description: f.Description})
	}
	return out, nil
}

// Configure validates, and unless that is all that is wanted puts the settings into force.
func (s *server) Configure(ctx context.Context, req *pluginv1.ConfigureRequest) (*pluginv1.ConfigureResponse, error) {
	settings, problems := s.settings(req)
	if len(problems) == 0 {
		problems = s.validate(ctx, settings)
	}
	if len(problems) > 0 || req.GetValidateOnly() {
		return &pluginv1.ConfigureResponse{Problems: problems.wire()}, nil
	}
	if again, problems := s.again(settings); again {
		return &pluginv1.ConfigureResponse{Problems: problems.wire()}, nil
	}
	if err := s.advance(fresh, configuring); err != nil {
		return nil, err
	}
	problems, err := s.configure(ctx, settings)
	if err != nil || len(problems) > 0 {
		return &pluginv1.ConfigureResponse{Problems: problems.wire()}, s.fail(err)
	}
	s.mu.Lock()
	s.mark = markOf(settings)
	s.mu.Unlock()
	s.ready.Store(true)
	return &pluginv1.ConfigureResponse{}, s.advance(configuring, serving)
}

// again reports whether settings are in force already: a plugin that somebody else starts (connect) gets them with each
// connection, also after a restart of the gateway. The same ones change nothing; others take another process.
func (s *server) again(settings Settings) (bool, Problems) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.outside || s.state != serving:
		return false, nil
	case s.mark == markOf(settings):
		return true, nil
	}
	return true, Problems{{Message: "other settings are in force, and this process keeps them: start another one, with " +
		"a socket of its own, for new ones"}}
}

// markOf tells settings apart without keeping secrets.
func markOf(settings Settings) [sha256.Size]byte {
	h := sha256.New()
	put := func(text string) { _, _ = fmt.Fprintf(h, "%d:%s", len(text), text) } // a hash takes everything
	put(string(settings.Config))
	for _, name := range slices.Sorted(maps.Keys(settings.Secrets)) {
		put(name)
		put(settings.Secrets[name])
	}
	return [sha256.Size]byte(h.Sum(nil))
}

func (s *server) validate(ctx context.Context, settings Settings) (all Problems) {
	for _, l := range s.parts.lives {
		if l.validate == nil {
			continue
		}
		err := s.guard("Validate", func() error { return l.validate(ctx, settings) })
		if err == nil {
			continue
		}
		problems, ok := asProblems(err)
		if !ok {
			problems = Problems{{Message: err.Error()}}
		}
		all = append(all, problems...)
	}
	return all
}

// configure runs the authors' functions in the order they were given to Serve. An error that names no problem is not
// about the settings: something else failed, and another try may help.
func (s *server) configure(ctx context.Context, settings Settings) (Problems, error) {
	for _, l := range s.parts.lives {
		if l.configure == nil {
			continue
		}
		err := s.guard("Configure", func() error { return l.configure(ctx, settings) })
		if err == nil {
			continue
		}
		if problems, ok := asProblems(err); ok {
			return problems, nil
		}
		return nil, status.Error(codes.Unknown, "Configure: "+clip(err.Error()))
	}
	return nil, nil
}

func (s *server) advance(from, to state) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.state == from:
		s.state = to
		return nil
	case s.state == broken:
		return status.Error(codes.FailedPrecondition, "Configure has failed: start the plugin anew")
	default:
		return status.Error(codes.FailedPrecondition, "Configure was called already: it comes once")
	}
}

// fail marks that Configure went wrong, and gives its error.
func (s *server) fail(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = broken
	return err
}

// Health answers at once, then every interval, and at once when draining begins.
func (s *server) Health(req *pluginv1.HealthRequest, stream grpc.ServerStreamingServer[pluginv1.HealthResponse]) error {
	ms := req.GetIntervalMs()
	if ms == 0 || ms > maxInterval {
		return status.Errorf(codes.InvalidArgument, "interval_ms: %d, must be 1 to %d", ms, maxInterval)
	}
	tick := time.NewTicker(time.Duration(ms) * time.Millisecond)
	defer tick.Stop()
	draining := s.draining
	for {
		if err := stream.Send(s.health()); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-draining:
			draining = nil
		case <-s.ended:
			return nil
		case <-stream.Context().Done():
			return nil
		}
	}
}

func (s *server) health() *pluginv1.HealthResponse {
	select {
	case <-s.draining:
		return &pluginv1.HealthResponse{Status: pluginv1.HealthResponse_STATUS_DRAINING, Detail: "the plugin was told to end"}
	default:
	}
	if !s.ready.Load() {
		return &pluginv1.HealthResponse{Status: pluginv1.HealthResponse_STATUS_NOT_SERVING, Detail: "not configured"}
	}
	for _, l := range s.parts.lives {
		if l.health == nil {
			continue
		}
		if err := s.guard("Health", l.health); err != nil {
			return &pluginv1.HealthResponse{Status: pluginv1.HealthResponse_STATUS_NOT_SERVING, Detail: clip(err.Error())}
		}
	}
	return &pluginv1.HealthResponse{Status: pluginv1.HealthResponse_STATUS_SERVING}
}

// guard calls an author's function and makes an error of a panic. The log gets the stack; the host gets no more than
// that.
func (s *server) guard(what string, f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = s.panicked(what, r)
		}
	}()
	err = f()
	touch(err)
	return err
}

// touch calls what an author wrote of an error while its panic is still caught: a nil pointer that was returned as an
// error panics as soon as somebody asks it for its text.
func touch(err error) {
	if err != nil {
		_ = err.Error()
		_ = errors.Is(err, io.EOF) // goes through all that it wraps
	}
}

func (s *server) panicked(what string, r any) error {
	value := fmt.Sprintf("a value of type %T", r) // it may hold what the call is about
	if e, ok := r.(runtime.Error); ok {
		value = e.Error()
	}
	s.log.Error("panic", "in", what, "panic", clip(value), "stack", string(debug.Stack()))
	return &panicError{what}
}

// panicError stands for a panic of the author's code.
type panicError struct{ what string }

func (e *panicError) Error() string { return e.what + " panicked; the plugin's log has the stack" }

// drain says on Health that the end has come, lets what was begun come to its end and then ends the streams. It returns
// how many calls were given up when ctx ended first.
func (s *server) drain(ctx context.Context) int64 {
	s.mu.Lock()
	first := !s.told
	s.told = true
	s.mu.Unlock()
	if first {
		close(s.draining)
		defer close(s.ended)
	}
	const quiet = 50 * time.Millisecond
	begun, idle := time.Now(), time.Now()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return s.inFlight.Load()
		case now := <-tick.C:
			if now.Sub(begun) > grace {
				s.refusing.Store(true)
			}
			if s.inFlight.Load() > 0 {
				idle = now
			}
			if now.Sub(idle) > quiet {
				return 0
			}
		}
	}
}

// close ends what Configure began, last first, when no call runs any more or those that do were given up.
func (s *server) close() {
	idle := make(chan struct{})
	go func() {
		s.readers.Wait()
		close(idle)
	}()
	select {
	case <-idle:
	case <-time.After(grace):
		s.log.Error("a call does not heed the end of its context")
	}
	if !s.ready.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	for _, l := range slices.Backward(s.parts.lives) {
		if l.close == nil {
			continue
		}
		if err := s.guard("Close", func() error { return l.close(ctx) }); err != nil {
			s.log.Error("close", "plugin", l.name, "error", err)
		}
	}
}
