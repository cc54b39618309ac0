package reload

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/store"
)

// How often the files of the configuration are looked at, and how long any reload may take: plugins may take their time
// to start.
const (
	watchEvery = 2 * time.Second
	reloadMost = 10 * time.Minute
)

// Watch begins to reload when the content of a file changes that the configuration was read from, or the one that was
// refused last. It polls: a watcher of the system loses files that are replaced, and misses network file systems.
func (r *Reloader) Watch() {
	if r.set.Load != nil {
		r.background.Go(r.watch)
	}
}

func (r *Reloader) watch() {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	eyes := seen{}
	next := func() bool {
		select {
		case <-r.closing:
			return false
		case <-tick.C:
			return true
		}
	}
	for next() {
		now := eyes.look(r.watched())
		if r.settled(now) {
			continue
		}
		if !next() { // written halfway is no reason for an error: it must have held still for one round
			return
		}
		if again := eyes.look(r.watched()); !maps.Equal(again, now) || r.settled(again) {
			continue
		}
		r.reloadChanged()
	}
}

func (r *Reloader) reloadChanged() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r.background.Go(func() {
		select {
		case <-r.closing:
			cancel()
		case <-ctx.Done():
		}
	})
	// says everywhere how it went
	_, _ = r.Reload(ctx, store.Who{Principal: "system:file_change", Method: "system", Surface: "system"})
}

// Changed reports whether a file holds something else than what was tried last, so that Watch would reload.
func (r *Reloader) Changed() bool { return !r.settled(seen{}.look(r.watched())) }

// settled reports whether a reload has been tried with the files as they are now, or is running: then they are looked
// at again behind it.
func (r *Reloader) settled(now map[string]string) bool {
	if !r.running.TryLock() {
		return true
	}
	defer r.running.Unlock()
	if e := r.ended.Load(); e != nil {
		return maps.Equal(now, e.files)
	}
	return maps.Equal(now, tried(nil, r.set.InForce.Load().Config.Read(), now))
}

// watched are the files that a configuration is read from: those of the one in force, those of the one that was refused
// last, and those that may come to it.
func (r *Reloader) watched() []string {
	if e := r.ended.Load(); e != nil {
		return r.filesOf(e.read)
	}
	return r.filesOf(nil)
}

func (r *Reloader) filesOf(read map[string]string) []string {
	names := append(slices.Collect(maps.Keys(read)), r.set.InForce.Load().Config.Files()...)
	if main := r.set.ConfigFile; main != "" {
		names = append(names, filepath.Join(filepath.Dir(main), config.LockName))
		drops, _ := filepath.Glob(filepath.Join(filepath.Dir(main), "conf.d", "*")) // fails for a bad pattern only
		names = append(names, slices.DeleteFunc(drops, func(name string) bool { return !config.IsDropIn(name) })...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// note keeps how a reload ended and what it was tried with.
func (r *Reloader) note(before, read map[string]string, err error) {
	r.ended.Store(&last{at: time.Now(), err: err, read: read,
		files: tried(before, read, seen{}.look(r.filesOf(read)))})
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
