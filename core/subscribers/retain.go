package subscribers

import (
	"context"
	"reflect"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/archive"
	"github.com/yett-dev/yett/core/feed"
	"github.com/yett-dev/yett/core/loaded"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/core/supervise"
)

// kept is what the configuration says of old records.
type kept struct {
	Retention config.Retention
	Archive   config.Archive
}

// retain makes retention what the configuration says. f.changing is held, and f.mu is not: a keeper that ends may be
// asking for the cursors.
func (f *Set) retain(r kept) {
	if reflect.DeepEqual(f.keep, r) {
		return
	}
	f.keep = r
	if old := f.setKeeper(nil); old != nil {
		old.Close()
	}
	if !r.Retention.Enabled() {
		return
	}
	known, err := knownClock(f.set.Store)
	if err == nil && known.At.IsZero() {
		known = f.set.Clock
	}
	if err != nil {
		f.set.Log("retention removes nothing: %v", err)
		return
	}
	keeper, err := feed.Keep(feed.KeeperSettings{Log: shelfOf{f.set.Store}, Cursors: f.cursors, Report: f.set.Log,
		Archive: f.archive(r.Archive), Clock: known, Uptime: supervise.Uptime, KeepClock: f.keepClock, Doubt: f.noteDoubt,
		Policy: feed.Policy{MaxAge: r.Retention.MaxAge.Std(), MaxBytes: uint64(r.Retention.MaxBytes),
			HoldBytes: uint64(r.Retention.Hold.MaxBytes)}})
	if err != nil {
		f.set.Log("retention removes nothing: %v", err)
		return
	}
	f.setKeeper(keeper)
}

// setKeeper puts a keeper in place of another one, which it gives back.
func (f *Set) setKeeper(k *feed.Keeper) (old *feed.Keeper) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old, f.keeper = f.keeper, k
	return old
}

// Retention is how it stands; the zero status while everything is kept.
func (f *Set) Retention() feed.KeeperStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.keeper == nil {
		return feed.KeeperStatus{}
	}
	return f.keeper.Status()
}

// archive is what gives records to a program before they go; nil: none is configured.
func (f *Set) archive(a config.Archive) func(context.Context, uint64) (uint64, error) {
	if a.Exec == "" {
		return nil
	}
	return archive.New(archive.Settings{Program: a, Policy: loaded.PolicyOf(&a), Log: f.set.Store,
		Signer: f.set.Signer}).Through
}

// shelfOf is the store as retention needs it.
type shelfOf struct{ *store.Store }

// Trim implements feed.Shelf.
func (s shelfOf) Trim(ctx context.Context, through uint64, reason string, passed []string) (uint64, error) {
	cmd := &store.Trim{Through: through, Reason: reason, Passed: passed}
	err := s.Store.Commit(ctx, cmd)
	return cmd.Last, err
}
