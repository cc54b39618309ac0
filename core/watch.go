package core

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/core/watch"
)

// How often the files of the configuration are looked at, and how long any reload may take: plugins may take their time
// to start.
const (
	watchEvery = 2 * time.Second
	reloadMost = 10 * time.Minute
)

// watch reloads when the content of a file changes that the configuration was read from, or the one that was refused
// last. It polls: a watcher of the system loses files that are replaced, and misses network file systems.
func (g *Gateway) watch() {
	if g.opts.Load == nil {
		return
	}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	eyes := watch.Seen{}
	next := func() bool {
		select {
		case <-g.closing:
			return false
		case <-tick.C:
			return true
		}
	}
	for next() {
		now := eyes.Look(g.watched())
		if g.settled(now) {
			continue
		}
		if !next() { // written halfway is no reason for an error: it must have held still for one round
			return
		}
		if again := eyes.Look(g.watched()); !maps.Equal(again, now) || g.settled(again) {
			continue
		}
		g.reloadChanged()
	}
}

func (g *Gateway) reloadChanged() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	g.background.Go(func() {
		select {
		case <-g.closing:
			cancel()
		case <-ctx.Done():
		}
	})
	// says everywhere how it went
	_, _ = g.Reload(ctx, store.Who{Principal: "system:file_change", Method: "system", Surface: "system"})
}

// settled reports whether a reload has been tried with the files as they are now, or is running: then they are looked
// at again behind it.
func (g *Gateway) settled(now map[string]string) bool {
	if !g.reloading.TryLock() {
		return true
	}
	defer g.reloading.Unlock()
	if last := g.reloaded.Load(); last != nil {
		return maps.Equal(now, last.files)
	}
	return maps.Equal(now, watch.Tried(nil, g.gen.Load().Config.Read(), now))
}

// watched are the files that a configuration is read from: those of the one in force, those of the one that was refused
// last, and those that may come to it.
func (g *Gateway) watched() []string {
	if last := g.reloaded.Load(); last != nil {
		return g.filesOf(last.read)
	}
	return g.filesOf(nil)
}

func (g *Gateway) filesOf(read map[string]string) []string {
	names := append(slices.Collect(maps.Keys(read)), g.gen.Load().Config.Files()...)
	if main := g.opts.ConfigFile; main != "" {
		names = append(names, filepath.Join(filepath.Dir(main), config.LockName))
		drops, _ := filepath.Glob(filepath.Join(filepath.Dir(main), "conf.d", "*")) // fails for a bad pattern only
		names = append(names, slices.DeleteFunc(drops, func(name string) bool { return !config.IsDropIn(name) })...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ended notes how a reload ended and what it was tried with.
func (g *Gateway) ended(before, read map[string]string, err error) {
	g.reloaded.Store(&lastReload{at: time.Now(), err: err, read: read,
		files: watch.Tried(before, read, watch.Seen{}.Look(g.filesOf(read)))})
}

// readBy is what a configuration was read from, or the one that was refused.
func readBy(cfg *config.Config, err error) map[string]string {
	if refused, ok := errors.AsType[*config.Error](err); ok {
		return refused.Read()
	}
	if cfg != nil {
		return cfg.Read()
	}
	return nil
}
