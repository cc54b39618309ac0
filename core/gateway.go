// Package core wires everything: config to store, modules, rules, chains, operations and transports. It owns the order
// in which things start and stop, and nothing else: no decision, no format and no protocol lives here. Only cmd imports
// it.
package core

import (
	"context"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/admin"
	"github.com/yett-dev/yett/core/audit"
	"github.com/yett-dev/yett/core/console"
	"github.com/yett-dev/yett/core/datadir"
	"github.com/yett-dev/yett/core/feed"
	"github.com/yett-dev/yett/core/httpd"
	"github.com/yett-dev/yett/core/loaded"
	"github.com/yett-dev/yett/core/obs"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/quote"
	"github.com/yett-dev/yett/core/rules"
	"github.com/yett-dev/yett/core/sockd"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/core/supervise"
	"github.com/yett-dev/yett/sdk/exact"
)

// Options are what the program gives besides the configuration.
type Options struct {
	Version  string
	CacheDir string                           // compiled modules; "" puts them into the data directory
	Log      func(format string, args ...any) // must not wait
	// lines of the log that were lost, and those that it does not tell of yet; nil: none are
	LogLost func() (total, unsaid uint64)
	OnFatal func(err error) // the store failed: refusals go out, and the process has to end
	OwnPeer bool            // the user that serves may be mapped to a key on the socket

	Load       func() (*config.Config, error) // reads the configuration again, for reloads; nil: there are none
	ConfigFile string                         // its main file, "" when there is none
}

// Gateway is a running gateway.
//
//	config ──▶ store ◀── sequencer (one write door)
//	   │         ▲
//	   ├─▶ wasm, rules ─▶ chains (one generation)
//	   │         │
//	   └─▶ ops ◀─┘ ◀── httpd, sockd (agents)   ◀── console, admin socket (operators)
type Gateway struct {
	dir     string
	lock    *datadir.Lock
	cfg     *config.Config
	opts    Options
	store   *store.Store
	clock   feed.Clock // what was known of the time at the start
	signer  *audit.Signer
	pool    *loaded.Pool
	gen     atomic.Pointer[loaded.Generation]
	feeds   *feeds
	states  *loaded.StateLog
	service *ops.Service
	http    *httpd.Server
	ln      net.Listener
	admin   *admin.Server
	peers   map[uint32]string // user of the machine to key
	sock    *sockd.Server     // nil: off
	sockDir string            // of the socket, if it could not lie in the data directory
	metrics *obs.Metrics
	shown   *obs.Server // nil: server.metrics is off
	served  chan error

	reloading  sync.Mutex                 // one at a time
	reloaded   atomic.Pointer[lastReload] // nil: none yet
	reloads    [2]atomic.Uint64           // that went well; that were refused
	closing    chan struct{}
	background sync.WaitGroup

	console    *console.Console // nil: off
	consoleLn  net.Listener
	consoleURL string

	certificate string // of the HTTP API, in PEM form; "" without TLS
}

// New opens the data directory and builds everything, but answers nothing yet. On an error nothing stays open.
func New(ctx context.Context, cfg *config.Config, opts Options) (g *Gateway, err error) {
	g = &Gateway{cfg: cfg, opts: opts, served: make(chan error, 5), peers: map[uint32]string{},
		metrics: obs.New(opts.Version), closing: make(chan struct{}), states: loaded.NewStateLog(opts.Log)}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.release(ctx))
		}
	}()
	supervise.OnLeftEnded(func(pid int, name string) {
		opts.Log("ended process %d (%s): a gateway that was killed had left it running", pid, name)
	})
	dir, err := filepath.Abs(string(cfg.Storage.Path)) // the working directory is not ours to rely on
	if err != nil {
		return g, fmt.Errorf("data directory: %w", err)
	}
	if err := datadir.Make(dir); err != nil {
		return g, err
	}
	// before anything is made: of two first starts one makes the secrets
	if g.lock, err = datadir.Acquire(dir); err != nil {
		return g, err
	}
	if err := datadir.CheckSecrets(dir); err != nil {
		return g, err
	}
	pepper, err := datadir.Secret(filepath.Join(dir, "pepper"), 32)
	if err != nil {
		return g, fmt.Errorf("pepper: %w", err)
	}
	// before the store: a crash between must not part them
	if _, err := datadir.Secret(filepath.Join(dir, "audit.key"), 32); err != nil {
		return g, fmt.Errorf("audit signing key: %w", err)
	}
	if err := datadir.Private(filepath.Join(dir, "db")); err != nil {
		return g, fmt.Errorf("data directory: %w", err)
	}
	if g.store, err = store.Open(store.Settings{Dir: dir, Now: time.Now, NewID: newID("sto_"), Log: opts.Log,
		OnFatal: opts.OnFatal, Secret: pepper,
		QueuedPerKey: int(cfg.Limits.QueuedPerKey), Queued: int(cfg.Limits.Queued)}); err != nil {
		return g, err
	}
	if g.clock, err = firstClock(g.store, time.Now(), supervise.Uptime); err != nil {
		return g, err
	}
	if g.signer, err = audit.LoadSigner(filepath.Join(dir, "audit.key"), g.store.ID()); err != nil {
		return g, err
	}
	cache := opts.CacheDir
	if cache == "" {
		cache = filepath.Join(dir, "cache")
	}
	g.dir = dir
	if g.pool, err = loaded.NewPool(ctx, cache, opts.Version, opts.Log, g.states.Note); err != nil {
		return g, err
	}
	gen, err := loaded.Build(ctx, cfg, g.pool, false)
	if err != nil {
		return g, configError{err}
	}
	g.gen.Store(gen)
	g.service = g.newService(pepper)
	g.feeds = newFeeds(g)
	if err := g.listen(); err != nil {
		return g, err
	}
	return g, g.listenConsole(ctx)
}

func (g *Gateway) newService(pepper []byte) *ops.Service {
	l, d := g.cfg.Limits, g.cfg.Defers
	return ops.New(ops.Settings{Store: g.store, Generation: func() *ops.Generation {
		return &g.gen.Load().Generation
	}, Pepper: pepper, Now: time.Now, Random: random,
		NameBytes: l.Name, DeferTTL: d.TTL.Std(), MaxDeferTTL: d.MaxTTL.Std(), ApprovedTTL: d.ApprovedTTL.Std(),
		MaxDefers: l.PendingPerKey, MaxJoined: l.ActionsPerApproval, LongPolls: l.LongPollsPerKey, RatePerKey: l.RatePerKey,
		Grants: l.Grants, GrantsPerKey: l.GrantsPerKey, Streams: l.StreamsPerKey,
		ScanStreams: ops.ScanStreamLimits{PerKey: l.ScanStreams, Held: int(l.ScanStream),
			Share: scanShare(int64(l.ScanStream), int64(l.ScanStreamsAll)), Memory: int64(l.ScanStreamsAll),
			Idle: l.ScanIdle.Std()}, Match: match, Policy: loaded.CompilePolicy, Version: g.opts.Version, Log: g.store,
		Observer: g.metrics})
}

// match compiles a standing grant's args_match.
func match(expr string) (ops.Matcher, error) {
	m, err := rules.CompileMatch(expr)
	if err != nil {
		return nil, err // not a nil *Match in an interface
	}
	return m, nil
}

func (g *Gateway) listen() (err error) {
	l := g.cfg.Limits
	set := httpd.Settings{Service: g.service, Ready: g.ready, Now: time.Now, NewID: newID("req_"), Version: g.opts.Version,
		DenyStatus:    g.cfg.Server.DenyStatus,
		AuthorizeBody: int64(l.AuthorizeBody), ScanBody: int64(l.ScanBody), HeaderBytes: int(l.Headers),
		JSON: exact.Limits{Depth: l.Depth, Tokens: l.Tokens}, NameBytes: l.Name,
		HeaderRead: l.HeaderRead.Std(), WholeRead: l.WholeRead.Std(), Idle: l.Idle.Std(), Connections: l.Connections,
		InFlight: l.InFlight, FirstByte: l.FirstByte.Std(), PerKey: l.ConnectionsPerKey, Keyless: l.KeylessPer,
		Bodies: int64(l.Bodies), BodiesPerKey: int64(l.BodiesPerKey), Proxies: g.cfg.Server.Proxies(),
		Timeout: longest, Flight: g.service, Log: g.opts.Log}
	if set.TLS, err = tlsConfig(g.cfg, "server.tls", g.cfg.Server.TLS); err != nil {
		return err
	}
	if set.TLS != nil {
		g.certificate = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
			Bytes: set.TLS.Certificates[0].Certificate[0]}))
	}
	g.http = httpd.New(set)
	if g.ln, err = net.Listen("tcp", g.cfg.Server.Listen); err != nil {
		return listenError("server.listen: ", err)
	}
	if !g.cfg.Server.MetricsOff() {
		g.gauges()
		if g.shown, err = g.metrics.Listen(g.cfg.Server.Metrics, g.opts.Log); err != nil {
			return listenError("", err)
		}
	}
	return nil
}

// scanShare is what the scan streams of one key may hold of what all may: a quarter, or two whole streams where that is
// more.
func scanShare(one, all int64) int64 { return min(max(all/4, 6*one), all) }

// longest bounds one operation; a long poll of 60 s fits in.
const longest = 75 * time.Second

func (g *Gateway) ready() []httpd.Part {
	parts := []httpd.Part{{Name: "store", OK: true}, {Name: "audit", OK: true}}
	if err := g.store.Healthy(); err != nil {
		parts[0] = httpd.Part{Name: "store", Detail: err.Error()}
		parts[1] = httpd.Part{Name: "audit", Detail: "nothing can be recorded"}
	}
	for _, m := range g.gen.Load().Sorted() {
		// A plugin that is down denies what it was to look at, and nothing else: the gateway is ready all the same.
		up, detail, s := m.Now()
		parts = append(parts, httpd.Part{Name: "plugin " + m.Name, OK: up, Detail: detail, State: string(s.State),
			Beside: true})
	}
	for _, f := range g.feeds.rows() {
		s := f.pump.Status()
		parts = append(parts, httpd.Part{Name: "subscriber " + f.name, OK: s.State == feed.StateDelivering,
			Detail: f.detail(s), State: s.State, Beside: true})
	}
	if by := g.feeds.retention().Ahead; by > 0 {
		parts = append(parts, httpd.Part{Name: "clock", Beside: true,
			Detail: fmt.Sprintf("the wall clock is %v ahead of the machine's uptime, so the log is trimmed slowly",
				by.Round(time.Second))})
	}
	if _, lost := g.logLost(); lost > 0 { // the log guards nothing: the gateway is ready all the same
		parts = append(parts, httpd.Part{Name: "log", Beside: true,
			Detail: fmt.Sprintf("lines of the server's log are being lost, %d so far: they cannot be written", lost)})
	}
	parts = append(parts, g.confinement())
	if last := g.reloaded.Load(); last != nil && last.err != nil {
		parts = append(parts, httpd.Part{Name: "config", Beside: true,
			Detail: "the last change was refused, the one before is in force: " +
				quote.Begin(last.err.Error(), loaded.MaxNoted)})
	}
	return parts
}

func (g *Gateway) logLost() (total, unsaid uint64) {
	if g.opts.LogLost == nil {
		return 0, 0
	}
	return g.opts.LogLost()
}

// Start begins to answer and records the start. Wait tells when it ends.
func (g *Gateway) Start(ctx context.Context) error {
	if err := g.service.Note(ctx, "config_applied", [2]string{"policy_version", g.gen.Load().Policy},
		[2]string{"version", g.opts.Version}); err != nil {
		return err
	}
	if err := g.listenSocket(); err != nil {
		return err
	}
	var err error
	if g.admin, err = admin.Listen(g.dir, admin.Settings{Service: g.service, OwnProc: supervise.OwnProc, Export: g.store,
		Signer: g.signer, Version: g.opts.Version, URL: g.URL(),
		Socket: g.SocketPath(), Console: g.consoleURL, Certificate: g.certificate, Control: g, Log: g.opts.Log}); err != nil {
		return err
	}
	g.states.Start(g.service.Note, g.closing)
	g.feeds.apply(g.gen.Load())
	g.background.Go(g.watch)
	if g.sock != nil {
		go func() { g.served <- g.sock.Serve() }()
	}
	if g.console != nil {
		go func() { g.served <- g.console.Serve(g.consoleLn) }()
	}
	go func() { g.served <- g.http.Serve(g.ln) }()
	go func() { g.served <- g.admin.Serve() }()
	if g.shown != nil {
		go func() { g.served <- g.shown.Serve() }()
	}
	return nil
}

// Wait returns when ctx ends (nil) or a listener fails.
func (g *Gateway) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-g.served:
		if err == nil {
			err = errors.New("a listener ended by itself")
		}
		return err
	}
}

// Close drains: no new decisions, those in flight are answered (for at most server.drain), and the store is closed.
func (g *Gateway) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, g.cfg.Server.Drain.Std())
	defer cancel()
	return g.release(ctx)
}

func (g *Gateway) release(ctx context.Context) error {
	var errs []error
	supervise.OnLeftEnded(nil)
	if g.pool != nil {
		g.EndReloads()
	}
	if g.sock != nil {
		g.sock.Drain()
	}
	if g.http != nil {
		errs = append(errs, g.http.Shutdown(ctx))
	}
	if g.sock != nil {
		errs = append(errs, g.sock.Close(ctx))
	}
	if g.sockDir != "" {
		errs = append(errs, os.RemoveAll(g.sockDir))
	}
	if g.console != nil {
		errs = append(errs, g.console.Close(ctx))
	}
	for _, ln := range [...]net.Listener{g.ln, g.consoleLn} {
		if ln == nil {
			continue
		}
		if err := ln.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	if g.admin != nil {
		errs = append(errs, g.admin.Close(ctx))
	}
	if g.shown != nil {
		errs = append(errs, g.shown.Close(ctx))
	}
	if g.service != nil {
		g.service.Close()
	}
	if g.feeds != nil {
		errs = append(errs, g.feeds.close(ctx))
	}
	close(g.closing)
	g.background.Wait()
	g.states.Wait()
	if g.store != nil {
		errs = append(errs, g.store.Close())
	}
	if g.pool != nil {
		errs = append(errs, g.pool.Close(context.WithoutCancel(ctx)))
	}
	if g.lock != nil { // last: whoever has it next finds nobody at work
		errs = append(errs, g.lock.Release())
	}
	return errors.Join(errs...)
}

// URL is the address of the HTTP API.
func (g *Gateway) URL() string {
	scheme := "http"
	if g.cfg.Server.TLS.Enabled() {
		scheme = "https"
	}
	return scheme + "://" + g.ln.Addr().String()
}

// MetricsURL is the address of the metrics, "" when they are off.
func (g *Gateway) MetricsURL() string {
	if g.shown == nil {
		return ""
	}
	return g.shown.URL()
}

// Service runs operations in this process, for the keys that dev makes.
func (g *Gateway) Service() *ops.Service { return g.service }

func random(b []byte) {
	_, _ = rand.Read(b) // never fails: it ends the process instead
}

// newID makes prefixed ids of 128 random bits in base 32.
func newID(prefix string) func() string {
	return func() string { return prefix + rand.Text() }
}
