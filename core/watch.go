package core

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/regular"
	"github.com/yett-dev/yett/core/store"
)

// How often the files of the configuration are looked at, and the most that is read of one, bytes: the largest that a
// configuration takes is a rules file of that size.
const (
	watchEvery = 2 * time.Second
	watchMost  = 64 << 20
	reloadMost = 10 * time.Minute // any reload: plugins may take their time to start
)

// What stands for the content of a file that has none to be read.
const (
	fileGone  = "gone"
	fileOther = "not to be read"
)

// watch reloads when the content of a file changes that the configuration was read from, or the one that was refused last. It polls: a watcher of
// the system loses files that are replaced, and misses network file systems.
func (g *Gateway) watch() {
	if g.opts.Load == nil {
		return
	}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	eyes := eyes{}
	next := func() bool {
		select {
		case <-g.closing:
			return false
		case <-tick.C:
			return true
		}
	}
	for next() {
		now := eyes.look(g.watched())
		if g.settled(now) {
			continue
		}
		if !next() { // written halfway is no reason for an error: it must have held still for one round
			return
		}
		if again := eyes.look(g.watched()); !maps.Equal(again, now) || g.settled(again) {
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
	_, _ = g.Reload(ctx, store.Who{Principal: "system:file_change", Method: "system", Surface: "system"}) // says everywhere how it went
}

// settled reports whether a reload has been tried with the files as they are now, or is running: then they are looked at again behind it.
func (g *Gateway) settled(now map[string]string) bool {
	if !g.reloading.TryLock() {
		return true
	}
	defer g.reloading.Unlock()
	if last := g.reloaded.Load(); last != nil {
		return maps.Equal(now, last.files)
	}
	return maps.Equal(now, tried(nil, g.gen.Load().cfg.Read(), now))
}

// watched are the files that a configuration is read from: those of the one in force, those of the one that was refused last,
// and those that may come to it.
func (g *Gateway) watched() []string {
	if last := g.reloaded.Load(); last != nil {
		return g.filesOf(last.read)
	}
	return g.filesOf(nil)
}

func (g *Gateway) filesOf(read map[string]string) []string {
	names := append(slices.Collect(maps.Keys(read)), g.gen.Load().cfg.Files()...)
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
	g.reloaded.Store(&lastReload{at: time.Now(), err: err, read: read, files: tried(before, read, eyes{}.look(g.filesOf(read)))})
}

// tried is what a reload was tried with, for the files that there are now: what it read of each, or what it held before. A
// file that changes during a reload is a change still to be tried, and so is one that came then.
func tried(before, read, now map[string]string) map[string]string {
	out := map[string]string{}
	for name, is := range now {
		sum, known := read[name]
		was, there := before[name]
		switch {
		case sum != "":
			out[name] = sum
		case there:
			out[name] = was
		case known:
			out[name] = is
		default:
			out[name] = fileGone
		}
	}
	return out
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

// eyes remember what they have seen: unless a file's date or size changed, its content is not read again.
type eyes map[string]seenFile

type seenFile struct{ stat, sum string }

// look gives the content of files as a SHA-256 in hex by name.
func (e eyes) look(names []string) map[string]string {
	out := make(map[string]string, len(names))
	for _, name := range names {
		st, err := os.Stat(name)
		switch {
		case err != nil:
			out[name] = fileGone
			continue
		case !st.Mode().IsRegular():
			out[name] = fileOther
			continue
		}
		stat := fmt.Sprintf("%d %d", st.Size(), st.ModTime().UnixNano())
		if e[name].stat != stat {
			e[name] = seenFile{stat, sumOf(name)}
		}
		out[name] = e[name].sum
	}
	return out
}

func sumOf(name string) string {
	f, _, err := regular.Open(name)
	if err != nil {
		return fileOther
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, io.LimitReader(f, watchMost)); err != nil {
		return fileOther
	}
	return hex.EncodeToString(hash.Sum(nil))
}
