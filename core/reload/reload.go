// Package reload puts another configuration in force while the gateway runs: when an operator asks for it, and when a
// file that the configuration was read from has changed. It owns the order of a reload: read, check, build, record,
// swap. A configuration that fails any of these never takes effect.
package reload

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/admin"
	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/loaded"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/prochost"
	"github.com/yett-dev/yett/core/quote"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/core/supervise"
	"github.com/yett-dev/yett/sdk"
)

// How long what was begun on an old generation may take before its plugins are closed all the same.
const (
	retireAfter = 2 * time.Minute
	retireLook  = 20 * time.Millisecond
)

var (
	errGoingDown  = errors.New("the server is going down")
	errReloadLate = fmt.Errorf("it was not ready within %v", reloadMost)
)

// Settings are what a Reloader needs. All are required, but Load and ConfigFile.
type Settings struct {
	Load       func() (*config.Config, error) // reads the configuration again; nil: there are no reloads
	ConfigFile string                         // its main file, "" when there is none
	Version    string                         // of the program, for records
	Pool       *loaded.Pool
	Service    *ops.Service // records how reloads end
	InForce    *atomic.Pointer[loaded.Generation]
	Applied    func(*loaded.Generation) // called after a generation has come into force
	Log        *slog.Logger
}

// Reloader puts configurations in force, one after another. Safe for concurrent use.
type Reloader struct {
	set Settings

	running sync.Mutex           // one reload at a time
	ended   atomic.Pointer[last] // nil: none yet
	applied atomic.Uint64
	refused atomic.Uint64

	closing    chan struct{}
	background sync.WaitGroup
}

// New makes a Reloader.
func New(set Settings) *Reloader { return &Reloader{set: set, closing: make(chan struct{})} }

// last is how the last try to put another configuration in force ended.
type last struct {
	at    time.Time
	err   error             // nil: it is in force
	read  map[string]string // the files that it was read from, with what they held
	files map[string]string // all files that are watched, with what they held for it
}

// Reload reads the configuration again and puts it in force: parse, check, admit modules, start and probe plugins,
// record, swap. What is in flight ends on the generation that it began on. On an error the old one stays in force, the
// error is recorded as config_refused and shown on /readyz until a reload succeeds. Reloads run one after another.
func (r *Reloader) Reload(ctx context.Context, who store.Who) (admin.Reloaded, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.set.Pool.UntilEnd(), func() { cancel(errGoingDown) })()
	r.running.Lock()
	defer r.running.Unlock()
	switch {
	case r.set.Load == nil:
		return admin.Reloaded{}, sdk.Errf(sdk.CodeInvalidField, "this server has no configuration file to read again")
	case r.set.Pool.UntilEnd().Err() != nil:
		return admin.Reloaded{}, sdk.Errf(sdk.CodeDraining, "the configuration was not changed: %v", errGoingDown)
	}
	ctx, end := context.WithTimeoutCause(ctx, reloadMost, errReloadLate)
	defer end()
	before := seen{}.look(r.watched())
	old := r.set.InForce.Load()
	cfg, err := r.load(ctx)
	read := readBy(cfg, err)
	var next *loaded.Generation
	var changes []config.Change
	if err == nil {
		next, changes, err = r.build(ctx, old, cfg)
	}
	if err == nil {
		err = r.admit(ctx, who, next, changes)
	}
	if err != nil {
		r.note(before, read, err)
		return admin.Reloaded{}, r.refuse(ctx, who, err)
	}
	r.set.InForce.Store(next)
	r.set.Applied(next)
	lift(next)
	r.note(before, read, nil)
	r.applied.Add(1)
	r.set.Log.Info(fmt.Sprintf("configuration %s is in force (was %s), %d values changed", next.Policy, old.Policy,
		len(changes)))
	out := admin.Reloaded{Policy: next.Policy, Was: old.Policy, Changes: []admin.ConfigChange{},
		Plugins: pluginsAfter(old, next)}
	r.background.Go(func() { r.retire(old) })
	for _, c := range out.Plugins {
		if line := told(c); line != "" {
			r.set.Log.Info(line)
		}
	}
	for _, c := range changes {
		out.Changes = append(out.Changes, admin.ConfigChange{Key: c.Key, Old: c.Old, New: c.New})
	}
	return out, nil
}

// load reads the configuration, and gives up when ctx ends: what hangs is a file system, which nothing can be taken
// back from.
func (r *Reloader) load(ctx context.Context) (*config.Config, error) {
	type result struct {
		cfg *config.Config
		err error
	}
	done := make(chan result, 1)
	go func() {
		cfg, err := r.set.Load()
		done <- result{cfg, err}
	}()
	select {
	case r := <-done:
		return r.cfg, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("reading it: %w", context.Cause(ctx))
	}
}

// End gives up the reload that is running, waits for its end, and refuses those that come. It is for the end of the
// server: a plugin that takes its time to start must not hold that up.
func (r *Reloader) End() {
	r.set.Pool.End()
	r.running.Lock()
	defer r.running.Unlock()
}

// admit records that a configuration is about to be in force, or closes it. One whose reload was given up meanwhile is
// not put in force: whoever asked was told so.
func (r *Reloader) admit(ctx context.Context, who store.Who, next *loaded.Generation, changes []config.Change) error {
	err := context.Cause(ctx)
	if err == nil {
		err = r.set.Service.NoteBy(ctx, who, "config_applied", [2]string{"policy_version", next.Policy},
			[2]string{"version", r.set.Version}, [2]string{"diff", quote.Begin(diffText(changes), loaded.MaxNoted)})
		if err != nil {
			err = fmt.Errorf("it could not be recorded: %w", err)
		}
	}
	if err == nil {
		return nil
	}
	return errors.Join(err, next.Close(context.WithoutCancel(ctx)))
}

// lift ends the quarantine of plugins that stay as they were: an operator who reloads wants them tried again.
func lift(next *loaded.Generation) {
	for _, l := range next.Sorted() {
		if l.Process == nil || next.Fresh[l] {
			continue
		}
		if slices.ContainsFunc(l.Process.Status().Replicas, func(r prochost.ReplicaStatus) bool {
			return r.State == supervise.StateQuarantined
		}) {
			l.Process.Resume()
		}
	}
}

// build makes the next generation beside the old one.
func (r *Reloader) build(ctx context.Context, old *loaded.Generation, cfg *config.Config) (*loaded.Generation,
	[]config.Change, error) {
	changes := old.Config.Diff(cfg)
	var fixed []string
	for _, c := range changes {
		if c.Restart {
			fixed = append(fixed, c.Key)
		}
	}
	if len(fixed) > 0 {
		return nil, nil, fmt.Errorf("%s: takes effect after a restart only; put the old value back, or restart the server",
			strings.Join(fixed, ", "))
	}
	next, err := loaded.Build(ctx, cfg, r.set.Pool, true)
	return next, changes, err
}

// refuse says everywhere that the old configuration stays.
func (r *Reloader) refuse(ctx context.Context, who store.Who, err error) error {
	r.refused.Add(1)
	r.set.Log.Error(fmt.Sprintf("the configuration was not changed: %v", err))
	if noted := r.set.Service.NoteBy(context.WithoutCancel(ctx), who, "config_refused",
		[2]string{"policy_version", r.set.InForce.Load().Policy},
		[2]string{"error", quote.Begin(err.Error(), loaded.MaxNoted)}); noted != nil {
		r.set.Log.Error(fmt.Sprintf("config_refused could not be recorded: %v", noted))
	}
	return refusal(err, r.whyMasked(err)) // whoever may reload may know
}

// refusal is what whoever asked for a reload is told.
func refusal(err error, why string) *sdk.Error {
	out := &sdk.Error{Code: sdk.CodeInvalidField, Field: "config", Msg: "the configuration was not changed: " + why}
	if e, ok := errors.AsType[*sdk.Error](err); ok && e.Code == sdk.CodeAuditUnavailable {
		out.Code, out.Field = e.Code, "" // not the configuration's fault
	}
	return out
}

// Last says how the last reload ended, and when; the zero time if there was none. why is nil if it succeeded.
func (r *Reloader) Last() (at time.Time, why error) {
	if e := r.ended.Load(); e != nil {
		return e.at, e.err
	}
	return time.Time{}, nil
}

// WhyMasked is why the last reload was refused, with what a plugin said of it masked; "" if it was not.
func (r *Reloader) WhyMasked() string {
	if _, err := r.Last(); err != nil {
		return r.whyMasked(err)
	}
	return ""
}

func (r *Reloader) whyMasked(err error) string {
	return chain.WithWords(err.Error(), r.set.Service.Said(context.Background(), chain.Words(err)))
}

// Counts says how many reloads put a configuration in force, and how many were refused.
func (r *Reloader) Counts() (applied, refused uint64) { return r.applied.Load(), r.refused.Load() }

// Close ends Watch and whatever is left of earlier generations. End comes before it.
func (r *Reloader) Close() {
	close(r.closing)
	r.background.Wait()
}

// retire closes what only the old generation used, once nothing works on it any more.
func (r *Reloader) retire(old *loaded.Generation) {
	look := time.NewTicker(retireLook)
	defer look.Stop()
	late := time.NewTimer(retireAfter)
	defer late.Stop()
	for old.Users() > 0 {
		select {
		case <-look.C:
			continue
		case <-late.C:
			r.set.Log.Warn(fmt.Sprintf("configuration %s: %d calls or streams still use it after %v; its plugins are closed now",
				old.Policy, old.Users(), retireAfter))
		case <-r.closing:
		}
		break
	}
	if err := old.Close(context.Background()); err != nil {
		r.set.Log.Error(fmt.Sprintf("configuration %s: closing it: %v", old.Policy, err))
	}
}

func diffText(changes []config.Change) string {
	var b strings.Builder
	for i, c := range changes {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s: %q -> %q", c.Key, c.Old, c.New)
	}
	return b.String()
}
