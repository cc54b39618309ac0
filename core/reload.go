package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/admin"
	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/loaded"
	"github.com/yett-dev/yett/core/prochost"
	"github.com/yett-dev/yett/core/quote"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/core/supervise"
	"github.com/yett-dev/yett/core/watch"
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

// lastReload is how the last try to put another configuration in force ended.
type lastReload struct {
	at    time.Time
	err   error             // nil: it is in force
	read  map[string]string // the files that it was read from, with what they held
	files map[string]string // all files that are watched, with what they held for it
}

// Reload reads the configuration again and puts it in force: parse, check, admit modules, start and probe plugins,
// record, swap. What is in flight ends on the generation that it began on. On an error the old one stays in force, the
// error is recorded as config_refused and shown on /readyz until a reload succeeds. Reloads run one after another.
func (g *Gateway) Reload(ctx context.Context, who store.Who) (admin.Reloaded, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(g.pool.UntilEnd(), func() { cancel(errGoingDown) })()
	g.reloading.Lock()
	defer g.reloading.Unlock()
	switch {
	case g.opts.Load == nil:
		return admin.Reloaded{}, sdk.Errf(sdk.CodeInvalidField, "this server has no configuration file to read again")
	case g.pool.UntilEnd().Err() != nil:
		return admin.Reloaded{}, sdk.Errf(sdk.CodeDraining, "the configuration was not changed: %v", errGoingDown)
	}
	ctx, end := context.WithTimeoutCause(ctx, reloadMost, errReloadLate)
	defer end()
	before := watch.Seen{}.Look(g.watched())
	old := g.gen.Load()
	cfg, err := g.load(ctx)
	read := readBy(cfg, err)
	var next *loaded.Generation
	var changes []config.Change
	if err == nil {
		next, changes, err = g.build(ctx, old, cfg)
	}
	if err == nil {
		err = g.admit(ctx, who, next, changes)
	}
	if err != nil {
		g.ended(before, read, err)
		return admin.Reloaded{}, g.refuse(ctx, who, err)
	}
	g.gen.Store(next)
	g.feeds.apply(next)
	lift(next)
	g.ended(before, read, nil)
	g.reloads[0].Add(1)
	g.opts.Log("configuration %s is in force (was %s), %d values changed", next.Policy, old.Policy, len(changes))
	out := admin.Reloaded{Policy: next.Policy, Was: old.Policy, Changes: []admin.ConfigChange{},
		Plugins: pluginsAfter(old, next)}
	g.background.Go(func() { g.retire(old) })
	for _, c := range out.Plugins {
		if line := told(c); line != "" {
			g.opts.Log("%s", line)
		}
	}
	for _, c := range changes {
		out.Changes = append(out.Changes, admin.ConfigChange{Key: c.Key, Old: c.Old, New: c.New})
	}
	return out, nil
}

// load reads the configuration, and gives up when ctx ends: what hangs is a file system, which nothing can be taken
// back from.
func (g *Gateway) load(ctx context.Context) (*config.Config, error) {
	type result struct {
		cfg *config.Config
		err error
	}
	done := make(chan result, 1)
	go func() {
		cfg, err := g.opts.Load()
		done <- result{cfg, err}
	}()
	select {
	case r := <-done:
		return r.cfg, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("reading it: %w", context.Cause(ctx))
	}
}

// EndReloads gives up the reload that is running, waits for its end, and refuses those that come. It is for the end of
// the server: a plugin that takes its time to start must not hold that up.
func (g *Gateway) EndReloads() {
	g.pool.End()
	g.reloading.Lock()
	defer g.reloading.Unlock()
}

// admit records that a configuration is about to be in force, or closes it. One whose reload was given up meanwhile is
// not put in force: whoever asked was told so.
func (g *Gateway) admit(ctx context.Context, who store.Who, next *loaded.Generation, changes []config.Change) error {
	err := context.Cause(ctx)
	if err == nil {
		err = g.service.NoteBy(ctx, who, "config_applied", [2]string{"policy_version", next.Policy},
			[2]string{"version", g.opts.Version}, [2]string{"diff", quote.Begin(diffText(changes), loaded.MaxNoted)})
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
func (g *Gateway) build(ctx context.Context, old *loaded.Generation, cfg *config.Config) (*loaded.Generation,
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
	next, err := loaded.Build(ctx, cfg, g.pool, true)
	return next, changes, err
}

// refuse says everywhere that the old configuration stays.
func (g *Gateway) refuse(ctx context.Context, who store.Who, err error) error {
	g.reloads[1].Add(1)
	g.opts.Log("the configuration was not changed: %v", err)
	if noted := g.service.NoteBy(context.WithoutCancel(ctx), who, "config_refused",
		[2]string{"policy_version", g.gen.Load().Policy},
		[2]string{"error", quote.Begin(err.Error(), loaded.MaxNoted)}); noted != nil {
		g.opts.Log("config_refused could not be recorded: %v", noted)
	}
	told := g.withWords(err.Error(), chain.Words(err)) // whoever may reload may know
	out := &sdk.Error{Code: sdk.CodeInvalidField, Field: "config", Msg: "the configuration was not changed: " + told}
	if e, ok := errors.AsType[*sdk.Error](err); ok && e.Code == sdk.CodeAuditUnavailable {
		out.Code, out.Field = e.Code, "" // not the configuration's fault
	}
	return out
}

// retire closes what only the old generation used, once nothing works on it any more.
func (g *Gateway) retire(old *loaded.Generation) {
	look := time.NewTicker(retireLook)
	defer look.Stop()
	late := time.NewTimer(retireAfter)
	defer late.Stop()
	for old.Users() > 0 {
		select {
		case <-look.C:
			continue
		case <-late.C:
			g.opts.Log("configuration %s: %d calls or streams still use it after %v; its plugins are closed now", old.Policy,
				old.Users(), retireAfter)
		case <-g.closing:
		}
		break
	}
	if err := old.Close(context.Background()); err != nil {
		g.opts.Log("configuration %s: closing it: %v", old.Policy, err)
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
