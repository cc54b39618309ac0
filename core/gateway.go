// Package core wires everything: config to store, modules, rules, chains, operations and transports. It owns the order
// in which things start and stop, and nothing else: no decision, no format and no protocol lives here. Only cmd imports
// it.
package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/admin"
	"github.com/yett-dev/yett/core/checkpoints"
	"github.com/yett-dev/yett/core/console"
	"github.com/yett-dev/yett/core/datadir"
	"github.com/yett-dev/yett/core/feed"
	"github.com/yett-dev/yett/core/httpd"
	"github.com/yett-dev/yett/core/loaded"
	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/core/mcpd"
	"github.com/yett-dev/yett/core/obs"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/reload"
	"github.com/yett-dev/yett/core/rules"
	"github.com/yett-dev/yett/core/sockd"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/core/subscribers"
	"github.com/yett-dev/yett/core/supervise"
	"github.com/yett-dev/yett/core/trace"
)

// Options are what the program gives besides the configuration.
type Options struct {
	Version  string
	CacheDir string       // compiled modules; "" puts them into the data directory
	Log      *slog.Logger // must not wait
	// says which lines of Log are written, and how, when a reload has changed that; nil: nobody has to know
	ConfigureLog func(least slog.Level, json bool)
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
	pepper  []byte
	store   *store.Store
	signer  *log.Signer
	pool    *loaded.Pool
	gen     atomic.Pointer[loaded.Generation]
	feeds   *subscribers.Set
	states  *loaded.StateLog
	service *ops.Service
	http    *httpd.Server
	ln      net.Listener
	admin   *admin.Server
	peers   map[uint32]string // user of the machine to key
	sock    *sockd.Server     // nil: off
	sockDir string            // of the socket, if it could not lie in the data directory
	metrics *obs.Metrics
	tracer  *trace.Tracer // nil: traces are off
	shown   *obs.Server   // nil: server.metrics is off
	served  chan error

	reloads *reload.Reloader
	closing chan struct{}
	machine *machine

	checkpoints *checkpoints.Keeper
	later       sync.WaitGroup // what is left to do of the start

	unreserved string // the file system of the data directory, if files reserve no room there

	console    *console.Console // nil: off
	consoleLn  net.Listener
	consoleURL string

	doors []door
	mcp   *mcpd.Gateway // nil: off

	expiries    map[string]time.Time // of the certificates, by listener; not changed once New has returned
	certificate string               // of the HTTP API, in PEM form; "" without TLS
}

// New opens the data directory and builds everything, but answers nothing yet. On an error nothing stays open.
func New(ctx context.Context, cfg *config.Config, opts Options) (g *Gateway, err error) {
	g = &Gateway{cfg: cfg, opts: opts, served: make(chan error, 16), peers: map[uint32]string{},
		expiries: map[string]time.Time{}, metrics: obs.New(opts.Version), closing: make(chan struct{}),
		states: loaded.NewStateLog(opts.Log)}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.release(ctx))
		}
	}()
	supervise.OnLeftEnded(func(pid int, name string) {
		g.warn("ended process %d (%s): a gateway that was killed had left it running", pid, name)
	})
	if runtime.GOOS != "linux" {
		return g, fmt.Errorf("the gateway needs Linux, and this is %s: it identifies callers and confines plugins by the "+
			"kernel. The commands for authors of scanners (yett scanner) run here", runtime.GOOS)
	}
	for _, step := range []func(context.Context) error{g.openData, g.openTraces, g.build, g.listenHTTP, g.listenConsole,
		g.listenDoors, g.listenMCP} {
		if err := step(ctx); err != nil {
			return g, err
		}
	}
	return g, nil
}

// openData locks the data directory and opens what lies in it.
func (g *Gateway) openData(context.Context) (err error) {
	dir, err := filepath.Abs(string(g.cfg.Storage.Path)) // the working directory is not ours to rely on
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	g.dir, g.machine = dir, newMachine(dir, g.warn, supervise.Uptime)
	if err := datadir.Make(dir); err != nil {
		return err
	}
	// before anything is made: of two first starts one makes the secrets
	if g.lock, err = datadir.Acquire(dir); err != nil {
		return err
	}
	if err := datadir.CheckSecrets(dir); err != nil {
		return err
	}
	if g.pepper, err = datadir.Secret(filepath.Join(dir, "pepper"), 32); err != nil {
		return fmt.Errorf("pepper: %w", err)
	}
	// before the store: a crash between must not part them
	if _, err := datadir.Secret(filepath.Join(dir, "audit.key"), 32); err != nil {
		return fmt.Errorf("audit signing key: %w", err)
	}
	if err := datadir.Private(filepath.Join(dir, "db")); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	if err := datadir.Private(filepath.Join(dir, "log")); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	ballast, err := g.ballast()
	if err != nil {
		return err
	}
	boot, _ := supervise.Uptime()
	if g.store, err = store.Open(store.Settings{Dir: dir, Now: time.Now, NewID: newID("sto_"), Log: g.alarm,
		OnFatal: g.opts.OnFatal, Secret: g.pepper, Boot: boot, Uptime: supervise.Up,
		QueuedPerKey: int(g.cfg.Limits.QueuedPerKey), Queued: int(g.cfg.Limits.Queued),
		MinFree: g.cfg.Storage.LeastFree, Ballast: ballast}); err != nil {
		return err
	}
	if g.signer, err = log.LoadSigner(filepath.Join(dir, "audit.key"), g.store.ID()); err != nil {
		return err
	}
	return g.openCheckpoints()
}

// build makes the first generation of rules, modules and plugins, and what stands on it.
func (g *Gateway) build(ctx context.Context) error {
	cache := cmp.Or(g.opts.CacheDir, filepath.Join(g.dir, "cache"))
	var err error
	if g.pool, err = loaded.NewPool(ctx, cache, g.opts.Version, g.opts.Log, g.states.Note); err != nil {
		return err
	}
	gen, err := loaded.Build(ctx, g.cfg, g.pool, false)
	if err != nil {
		return configError{err}
	}
	g.gen.Store(gen)
	g.service = ops.New(ops.Settings{Store: g.store, Generation: func() *ops.Generation {
		return &g.gen.Load().Generation
	}, Pepper: g.pepper, Now: time.Now, Random: random, Limits: g.cfg.Limits, Defers: g.cfg.Defers, Match: match,
		Policy: loaded.CompilePolicy, Version: g.opts.Version, Log: g.store, Observer: g.metrics})
	clock, err := subscribers.FirstClock(g.store, time.Now(), supervise.Uptime)
	if err != nil {
		return err
	}
	g.feeds = subscribers.New(subscribers.Settings{Store: g.store, Service: g.service, InForce: g.gen.Load,
		Signer: g.signer, Clock: clock, Log: g.warn,
		Withheld: func(cause, scanner string) { g.metrics.Kept("subscriber", cause, scanner) },
		Sign:     feed.Signing{Text: g.checkpoint, Every: g.cfg.Audit.Checkpoints.Every.Std()}})
	g.reloads = reload.New(reload.Settings{Load: g.opts.Load, ConfigFile: g.opts.ConfigFile, Version: g.opts.Version,
		Pool: g.pool, Service: g.service, InForce: &g.gen, Applied: g.applied, Log: g.opts.Log})
	return nil
}

// applied is told of each generation that a reload has put in force.
func (g *Gateway) applied(gen *loaded.Generation) {
	g.feeds.Apply(gen)
	if g.mcp != nil {
		g.mcp.ToolsChanged()
	}
	if g.opts.ConfigureLog != nil {
		g.opts.ConfigureLog(gen.Config.Log.Least(), gen.Config.Log.JSON())
	}
}

// match compiles a standing grant's args_match.
func match(expr string) (ops.Matcher, error) {
	m, err := rules.CompileMatch(expr)
	if err != nil {
		return nil, err // not a nil *Match in an interface
	}
	return m, nil
}

// Start begins to answer and records the start. Wait tells when it ends.
func (g *Gateway) Start(ctx context.Context) error {
	if err := g.noteStart(ctx); err != nil {
		return err
	}
	if err := g.listenSocket(); err != nil {
		return err
	}
	var err error
	if g.admin, err = admin.Listen(g.dir, admin.Settings{Service: g.service, OwnProc: supervise.OwnProc,
		Export: g.store, Tools: mcpTools{g.store, g.mcp}, Backup: g.store.Backup,
		Signer: g.signer, Version: g.opts.Version, URL: g.URL(),
		Socket: g.SocketPath(), Console: g.consoleURL, MCP: g.MCPURL(), MCPServers: g.mcpServers(),
		Certificate: g.certificate, Control: g, Log: g.warn}); err != nil {
		return err
	}
	g.states.Start(g.service.Note, g.closing)
	g.machine.running.Go(func() { g.machine.watch(g.closing) })
	g.feeds.Apply(g.gen.Load())
	g.checkpoints.Start()
	g.reloads.Watch()
	if g.sock != nil {
		go func() { g.served <- g.sock.Serve() }()
	}
	if g.console != nil {
		go func() { g.served <- g.console.Serve(g.consoleLn) }()
	}
	for _, d := range g.doors {
		go func() { g.served <- d.serve() }()
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
	g.EndReloads()
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
	for _, d := range g.doors {
		errs = append(errs, d.close(ctx))
		if err := d.ln.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	for _, ln := range [...]net.Listener{g.ln, g.consoleLn} {
		if ln == nil {
			continue
		}
		if err := ln.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	if g.mcp != nil {
		g.mcp.Close()
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
	if g.tracer != nil {
		g.tracer.Close(ctx)
	}
	if g.feeds != nil {
		errs = append(errs, g.feeds.Close(ctx))
	}
	close(g.closing)
	if g.reloads != nil {
		g.reloads.Close()
	}
	g.states.Wait()
	if g.machine != nil {
		g.machine.running.Wait()
	}
	if g.checkpoints != nil {
		g.checkpoints.Close()
	}
	g.later.Wait()
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

// Reload reads the configuration again and puts it in force, as reload.Reloader does.
func (g *Gateway) Reload(ctx context.Context, who store.Who) (admin.Reloaded, error) {
	return g.reloads.Reload(ctx, who)
}

// EndReloads gives up the reload that is running, and refuses those that come.
func (g *Gateway) EndReloads() {
	if g.reloads != nil {
		g.reloads.End()
	}
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
