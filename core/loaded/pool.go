package loaded

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/confine"
	"github.com/yett-dev/yett/core/prochost"
	"github.com/yett-dev/yett/core/trust"
	"github.com/yett-dev/yett/core/wasm/host"
	"github.com/yett-dev/yett/sdk/abi"
)

// Plugin is one module or plugin process, wherever it runs.
type Plugin struct {
	Name     string
	Kind     string
	Scanner  chain.Scanner
	checker  chain.Checker
	meta     abi.Metadata
	triggers []abi.Trigger // those of meta, and those of its settings
	Counts   func() Counts
	state    func() (ready bool, detail string) // nil: a process; ask now
	close    func(context.Context) error
	Process  *prochost.Plugin     // nil: a module
	Gaps     func() []confine.Gap // what its processes are not confined in; nil: it has none of ours

	print string // what it was made of
	users int    // generations that use it; pool.mu
}

// Counts are a plugin's figures since it was loaded. Those that mean nothing for its kind stay 0.
type Counts struct{ Calls, Errors, Discarded, Fuel uint64 }

// Pool keeps plugins loaded across generations: one that stays as it was goes on running, whatever else changes around
// it.
type Pool struct {
	host      *host.Host // one for all generations: compiled code belongs to it
	cacheDir  string     // "" keeps nothing
	log       *slog.Logger
	moduleLog func(module string, level int, line string)
	options   prochost.Options
	checking  bool            // plugin processes are only asked whether they would take their settings
	ending    context.Context // ends when nothing is to be started any more
	cancel    context.CancelFunc

	mu       sync.Mutex
	loaded   map[string]*Plugin // by print
	replaced int                // plugins that have given up their print to another one
}

// NewPool makes an empty pool. cacheDir keeps compiled modules; "" keeps nothing. log must not wait. changed gets each
// change of a plugin process's state.
func NewPool(ctx context.Context, cacheDir, version string, log *slog.Logger,
	changed func(prochost.Change)) (*Pool, error) {
	p := &Pool{cacheDir: cacheDir, log: log, moduleLog: newLineLimit(log, time.Now).write, loaded: map[string]*Plugin{}}
	p.ending, p.cancel = context.WithCancel(context.Background())
	p.options = prochost.Options{CheckConfig: checkSettings, Log: newLineLimit(log, time.Now).plugin, Notify: changed,
		HostVersion: version}
	var err error
	p.host, err = host.New(ctx, host.Options{CacheDir: cacheDir, CheckConfig: config.CheckModule, Log: p.moduleLog})
	return p, err
}

// warn logs a warning.
func (p *Pool) warn(format string, args ...any) { p.log.Warn(fmt.Sprintf(format, args...)) }

// checkSettings holds a plugin's settings against the JSON Schema that it says they have.
func checkSettings(schema string, settings []byte) error {
	var s map[string]any
	dec := json.NewDecoder(strings.NewReader(schema))
	dec.UseNumber()
	if err := dec.Decode(&s); err != nil {
		return fmt.Errorf("its config schema is no JSON object: %w", err)
	}
	return config.CheckModule(s, settings)
}

// End says that nothing is to be started any more: what waits for a plugin gives up.
func (p *Pool) End() { p.cancel() }

// UntilEnd is a context that ends once nothing is to be started any more.
func (p *Pool) UntilEnd() context.Context { return p.ending }

// Held is how many plugins are loaded, for whichever generations.
func (p *Pool) Held() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.loaded)
}

// Close ends what is left. No generation may be in use any more.
func (p *Pool) Close(ctx context.Context) error {
	p.End()
	p.mu.Lock()
	left := slices.Collect(maps.Values(p.loaded))
	p.loaded = map[string]*Plugin{}
	p.mu.Unlock()
	errs := make([]error, len(left)+1)
	var wg sync.WaitGroup
	for i, l := range left { // side by side: each may take its time to drain
		wg.Go(func() { errs[i] = l.close(ctx) })
	}
	wg.Wait()
	if p.host != nil {
		errs[len(left)] = p.host.Close(ctx)
	}
	return errors.Join(errs...)
}

// acquire gives the plugin that a configuration describes: the one that runs already, or a new one.
func (p *Pool) acquire(ctx context.Context, name string, c config.Plugin, policy trust.Policy,
	generation string) (l *Plugin, fresh bool, err error) {
	print := printOf(name, c, policy)
	p.mu.Lock()
	l = p.loaded[print]
	if l != nil && l.Process != nil && l.Process.Another() { // it goes on for the generations that have it, and denies
		delete(p.loaded, print)
		p.replaced++
		l.print = fmt.Sprintf("%s, replaced: %d", print, p.replaced)
		p.loaded[l.print] = l
		l = nil
	}
	if l != nil {
		l.users++
	}
	p.mu.Unlock()
	if l != nil {
		return l, false, nil
	}
	if c.Process() {
		l, err = p.startProcess(ctx, name, c, policy, generation)
	} else {
		l, err = p.loadModule(ctx, name, c, policy)
	}
	if err != nil {
		return nil, false, err
	}
	l.Name, l.Kind, l.print, l.users = name, c.Kind, print, 1
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loaded[print] = l
	return l, true, nil
}

// release takes a plugin back from a generation, and closes it when none uses it any more.
func (p *Pool) release(ctx context.Context, l *Plugin) error {
	p.mu.Lock()
	l.users--
	last := l.users == 0
	if last {
		delete(p.loaded, l.print)
	}
	p.mu.Unlock()
	if !last {
		return nil
	}
	return l.close(ctx)
}

// printOf is a hash of all that a plugin is made of. Two that have the same are one. It is kept in memory only: secrets
// are in it.
func printOf(name string, c config.Plugin, policy trust.Policy) string {
	secrets := map[string]string{}
	for n, s := range c.Secrets {
		secrets[n] = s.Value()
	}
	text, err := json.Marshal([]any{name, c.Kind, c.Builtin, c.Wasm, c.Exec, c.Connect, c.Digest, c.Sandbox, c.Isolation,
		c.Limits, string(c.Config.JSON()), secrets, c.Environ(), c.User, c.Peer, c.Breaker,
		c.Cache, c.Confine, c.Paths, c.Network, c.Signer, policy})
	if err != nil {
		// settings are strings, numbers and lists of them, so this does not happen; if it did, nothing would be shared
		return fmt.Sprintf("%s: %v", name, err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Digest is that of the bytes that run, "" for a plugin that somebody else started.
func (l *Plugin) Digest() string {
	if l.Scanner == nil {
		return ""
	}
	return l.Scanner.About().Digest
}
