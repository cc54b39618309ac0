package core

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/feed"
	"github.com/yett-dev/yett/core/loaded"
	"github.com/yett-dev/yett/core/prochost"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/core/supervise"
	"github.com/yett-dev/yett/sdk"
)

// feeds are the pumps of the subscribers, by plugin. A pump that stays as it was goes on over a reload.
type feeds struct {
	g *Gateway

	turn   sync.Mutex // one change at a time; held while pumps end, which may take seconds
	closed bool
	keep   config.Retention

	mu      sync.Mutex // held for a few words only: whoever looks never waits for a pump
	running map[string]*feeding
	wanted  map[string]config.Subscriber // configured; one that could not be started is among them
	keeper  *feed.Keeper                 // nil: everything is kept
}

// feeding is one pump.
type feeding struct {
	name    string
	entry   config.Subscriber
	process *prochost.Plugin
	pump    *feed.Pump
	ends    bool // another one takes its place; feeds.mu
}

func newFeeds(g *Gateway) *feeds { return &feeds{g: g, running: map[string]*feeding{}} }

// apply makes the pumps those of a generation. One whose plugin or settings changed is ended first: its cursor is
// durable, and the next one goes on from it.
func (f *feeds) apply(gen *loaded.Generation) {
	f.turn.Lock()
	defer f.turn.Unlock()
	if f.closed {
		return
	}
	wanted := map[string]config.Subscriber{}
	for _, s := range gen.Config.Audit.Subscribers {
		wanted[s.Use] = s
	}
	f.stop(f.leaving(gen, wanted))
	f.mu.Lock()
	f.wanted = wanted
	for name, r := range f.running {
		if _, ok := wanted[name]; !ok || r.ends {
			delete(f.running, name)
		}
	}
	for _, s := range gen.Config.Audit.Subscribers {
		if f.running[s.Use] == nil {
			f.start(gen, s)
		}
	}
	f.mu.Unlock()
	f.retain(gen.Config.Audit.Retention)
}

// leaving are the pumps that end: those of subscribers that are gone or not as they were.
func (f *feeds) leaving(gen *loaded.Generation, wanted map[string]config.Subscriber) (out []*feeding) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, r := range f.running {
		if s, ok := wanted[name]; !ok || !sameFeed(s, r.entry) || r.process != gen.Plugins[name].Process {
			r.ends = true
			out = append(out, r)
		}
	}
	return out
}

func sameFeed(a, b config.Subscriber) bool {
	a.Pos, b.Pos = config.Pos{}, config.Pos{}
	return reflect.DeepEqual(a, b)
}

// start starts a pump. f.mu is held.
func (f *feeds) start(gen *loaded.Generation, s config.Subscriber) {
	p := gen.Plugins[s.Use].Process
	pump, err := feed.Start(f.settings(s, p))
	if err != nil {
		f.g.opts.Log("subscriber %s gets nothing: %v", s.Use, err)
		return
	}
	f.running[s.Use] = &feeding{name: s.Use, entry: s, process: p, pump: pump}
}

// settings are those of a pump. It outlives the generation that it was started in.
func (f *feeds) settings(s config.Subscriber, p *prochost.Plugin) feed.Settings {
	policy := func() string { return f.g.gen.Load().Policy }
	return feed.Settings{Name: s.Use, Types: s.Types, Agents: s.Agents, Tools: s.Tools, Payload: s.Payload, Start: s.Start,
		OnPoison: s.OnPoison,
		Mask:     f.mask, Withheld: func(cause, scanner string) {
			f.g.metrics.Kept("subscriber", cause, scanner)
		}, Policy: policy, Log: f.g.store, Cursors: cursorsOf{f.g.store, policy}, Consumer: consumerOf{p},
		Report: f.g.opts.Log}
}

// stopMost bounds how long a pump may take to end. What is not acknowledged by then comes again.
const stopMost = 5 * time.Second

// stop ends pumps side by side.
func (f *feeds) stop(all []*feeding) {
	ctx, cancel := context.WithTimeout(context.Background(), stopMost)
	defer cancel()
	var wg sync.WaitGroup
	for _, r := range all {
		wg.Go(func() {
			if err := r.pump.Close(ctx); err != nil {
				f.g.opts.Log("subscriber %s: %v", r.name, err)
			}
		})
	}
	wg.Wait()
}

// close ends all pumps and retention, and starts none any more.
func (f *feeds) close(ctx context.Context) error {
	f.turn.Lock()
	defer f.turn.Unlock()
	f.closed = true
	f.stop(f.rows())
	f.mu.Lock()
	clear(f.running)
	f.mu.Unlock()
	f.retain(config.Retention{})
	return nil
}

// rows lists the pumps by name.
func (f *feeds) rows() []*feeding {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []*feeding
	for _, r := range f.running {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b *feeding) int {
		if a.name < b.name {
			return -1
		}
		return 1
	})
	return out
}

func (f *feeds) find(name string) *feeding {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running[name]
}

// mask is what a subscriber with payload redacted sees of a text.
func (f *feeds) mask(ctx context.Context, t feed.Text) (string, error) {
	in := &chain.Input{Text: t.Text, ToolID: t.ToolID, AgentID: t.AgentID}
	if t.JSON {
		in.ContentType = "application/json"
	}
	in.Patient = true
	out, err := f.g.service.Mask(ctx, in)
	var why *chain.UnmaskedError
	if errors.As(err, &why) {
		err = &feed.MaskError{Cause: why.Cause, Scanner: why.Scanner, Lasts: why.Lasts(), Err: err}
	}
	return out, err
}

// detail is a line for /readyz, which everybody may read.
func (r *feeding) detail(s feed.Status) string {
	line := fmt.Sprintf("%s, %d records behind", s.State, s.LagRecords)
	if s.Lag > 0 {
		line += fmt.Sprintf(" (%v)", s.Lag.Round(time.Second))
	}
	if s.Poison > 0 { // why is in the subscriber's words, which are for operators
		line += fmt.Sprintf(": stuck at record %d", s.Poison)
	}
	return line
}

// trouble says what is wrong, "" if nothing is.
func (r *feeding) trouble(s feed.Status) string {
	switch {
	case s.Poison > 0 && s.PoisonError != "":
		return fmt.Sprintf("record %d failed %d times: %s", s.Poison, s.PoisonTries, s.PoisonError)
	case s.Poison > 0 && s.State != feed.StateDelivering:
		return fmt.Sprintf("record %d was on its way when the stream ended last: %s", s.Poison, s.Detail)
	}
	return s.Detail
}

// consumerOf makes a plugin process a subscriber of the log.
type consumerOf struct{ p *prochost.Plugin }

// Consume implements feed.Consumer.
func (c consumerOf) Consume(ctx context.Context) (feed.Stream, error) { return c.p.Consume(ctx) }

// cursorsOf keeps subscribers' positions in the store, through its one door.
type cursorsOf struct {
	s      *store.Store
	policy func() string // the configuration in force
}

// Cursor implements feed.Cursors.
func (c cursorsOf) Cursor(name string) (feed.Position, bool) {
	at, ok := c.s.Cursor(name)
	return feed.Position(at), ok
}

// Move implements feed.Cursors.
func (c cursorsOf) Move(ctx context.Context, m feed.Move) error {
	cmd := &store.MoveCursor{Name: m.Name, To: m.To, Back: m.Back, Stay: m.Stay}
	policy := ""
	if len(m.Events) > 0 {
		policy = c.policy()
	}
	for _, e := range m.Events {
		cmd.Events = append(cmd.Events, store.SubscriberEvent{Type: e.Type, First: e.First, Last: e.Last, Why: e.Why,
			Policy: policy, By: store.Who{Principal: e.By.Principal, Method: e.By.Method, Surface: e.By.Surface,
				Peer: e.By.Peer}})
	}
	return c.s.Commit(ctx, cmd)
}

// retain makes retention what the configuration says. f.turn is held, and f.mu is not: a keeper that ends may be asking
// for the cursors.
func (f *feeds) retain(r config.Retention) {
	if f.keep == r {
		return
	}
	f.keep = r
	if old := f.setKeeper(nil); old != nil {
		old.Close()
	}
	if !r.Enabled() {
		return
	}
	known, err := knownClock(f.g.store)
	if err == nil && known.At.IsZero() {
		known = f.g.clock
	}
	if err != nil {
		f.g.opts.Log("retention removes nothing: %v", err)
		return
	}
	keeper, err := feed.Keep(feed.KeeperSettings{Log: shelfOf{f.g.store}, Cursors: f.cursors, Report: f.g.opts.Log,
		Clock: known, Uptime: supervise.Uptime, KeepClock: f.keepClock, Doubt: f.noteDoubt,
		Policy: feed.Policy{MaxAge: r.MaxAge.Std(), MaxBytes: uint64(r.MaxBytes), HoldBytes: uint64(r.Hold.MaxBytes)}})
	if err != nil {
		f.g.opts.Log("retention removes nothing: %v", err)
		return
	}
	f.setKeeper(keeper)
}

// setKeeper puts a keeper in place of another one, which it gives back.
func (f *feeds) setKeeper(k *feed.Keeper) (old *feed.Keeper) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old, f.keeper = f.keeper, k
	return old
}

// retention is how it stands; the zero status while everything is kept.
func (f *feeds) retention() feed.KeeperStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.keeper == nil {
		return feed.KeeperStatus{}
	}
	return f.keeper.Status()
}

// cursors is how far each configured subscriber has come. ok is false while that is not known of one.
func (f *feeds) cursors() (of map[string]uint64, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	of = map[string]uint64{}
	for name, r := range f.running {
		seq, known := r.pump.Cursor()
		if !known {
			return nil, false
		}
		of[name] = seq
	}
	return of, len(f.running) == len(f.wanted)
}

// maxListed bounds how many names an error lists.
const maxListed = 20

// forget removes the cursor of a subscriber that is not configured. While f.turn is held no pump starts or ends, so
// none is at work on what goes. Retention asks configured subscribers only: this cursor held nothing back.
func (f *feeds) forget(ctx context.Context, who store.Who, name string) (seq uint64, err error) {
	f.turn.Lock()
	defer f.turn.Unlock()
	if _, used := f.wanted[name]; used {
		return 0, sdk.FieldErrf(sdk.CodeConflict, "name",
			"subscriber %q is configured and its cursor in use: take it out of audit.subscribers, reload, and ask again", name)
	}
	if _, known := f.g.store.Cursor(name); !known {
		return 0, sdk.FieldErrf(sdk.CodeNotFound, "name", "there is no cursor of %.128q: %s", name,
			withCursors(f.g.store.Cursors()))
	}
	cmd := &store.DropCursor{Name: name, By: who, Policy: f.g.gen.Load().Policy}
	if err := f.g.store.Commit(ctx, cmd); err != nil {
		return 0, err
	}
	f.g.opts.Log("subscriber %s is forgotten: it had come to record %d", name, cmd.Was.Seq)
	return cmd.Was.Seq, nil
}

// withCursors lists the subscribers that have a cursor.
func withCursors(all map[string]store.Cursor) string {
	if len(all) == 0 {
		return "no subscriber has one"
	}
	names := slices.Sorted(maps.Keys(all))
	more := ""
	if n := len(names) - maxListed; n > 0 {
		names, more = names[:maxListed], fmt.Sprintf(" and %d more", n)
	}
	return "these have one: " + strings.Join(names, ", ") + more
}

// shelfOf is the store as retention needs it.
type shelfOf struct{ *store.Store }

// Trim implements feed.Shelf.
func (s shelfOf) Trim(ctx context.Context, through uint64, reason string, passed []string) (uint64, error) {
	cmd := &store.Trim{Through: through, Reason: reason, Passed: passed}
	err := s.Store.Commit(ctx, cmd)
	return cmd.Last, err
}
