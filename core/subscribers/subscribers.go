// Package subscribers keeps a pump running for each subscriber of the configuration in force, and removes old records
// of the log beside them. It owns who is given the log, and from where on. It never decides, and never puts a
// configuration in force.
package subscribers

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
	"github.com/yett-dev/yett/core/log"
	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/prochost"
	"github.com/yett-dev/yett/core/store"
	"github.com/yett-dev/yett/sdk"
)

// Settings are what a Set needs. All are required, but Clock.
type Settings struct {
	Store    *store.Store
	Service  *ops.Service                     // masks what subscribers see, and records events
	InForce  func() *loaded.Generation        // the configuration in force
	Signer   *log.Signer                      // of what is archived
	Clock    feed.Clock                       // what was known of the time at the start
	Withheld func(cause, scanner string)      // counts what subscribers are not shown
	Log      func(format string, args ...any) // must not wait
	Sign     feed.Signing
}

// Set is the subscribers of the configuration in force, by plugin. A pump whose subscriber did not change goes on over
// a reload. Safe for concurrent use.
type Set struct {
	set Settings

	changing sync.Mutex // one change at a time; held while pumps end, which may take seconds
	closed   bool
	keep     kept

	mu         sync.Mutex // held for a few words only: whoever looks never waits for a pump
	running    map[string]*Subscriber
	configured map[string]config.Subscriber // one that could not be started is among them
	keeper     *feed.Keeper                 // nil: everything is kept
}

// Subscriber is one plugin that is given the log.
type Subscriber struct {
	Name string

	entry   config.Subscriber
	process *prochost.Plugin
	pump    *feed.Pump
	ends    bool // another one takes its place; Set.mu
}

// New makes a Set that is empty until Apply.
func New(set Settings) *Set { return &Set{set: set, running: map[string]*Subscriber{}} }

// Apply makes the pumps those of a generation. One whose plugin or settings changed is ended first: its cursor is
// durable, and the next one goes on from it.
func (f *Set) Apply(gen *loaded.Generation) {
	f.changing.Lock()
	defer f.changing.Unlock()
	if f.closed {
		return
	}
	wanted := map[string]config.Subscriber{}
	for _, s := range gen.Config.Audit.Subscribers {
		wanted[s.Use] = s
	}
	f.stop(f.leaving(gen, wanted))
	f.mu.Lock()
	f.configured = wanted
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
	f.retain(kept{gen.Config.Audit.Retention, gen.Config.Audit.Archive})
}

// leaving are the pumps that end: those of subscribers that are gone or not as they were.
func (f *Set) leaving(gen *loaded.Generation, wanted map[string]config.Subscriber) (out []*Subscriber) {
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
func (f *Set) start(gen *loaded.Generation, s config.Subscriber) {
	p := gen.Plugins[s.Use].Process
	pump, err := feed.Start(f.settings(s, p))
	if err != nil {
		f.set.Log("subscriber %s gets nothing: %v", s.Use, err)
		return
	}
	f.running[s.Use] = &Subscriber{Name: s.Use, entry: s, process: p, pump: pump}
}

// settings are those of a pump. It outlives the generation that it was started in.
func (f *Set) settings(s config.Subscriber, p *prochost.Plugin) feed.Settings {
	policy := func() string { return f.set.InForce().Policy }
	return feed.Settings{Name: s.Use, Types: s.Types, Agents: s.Agents, Tools: s.Tools, Payload: s.Payload,
		Start: s.Start, OnPoison: s.OnPoison, Mask: f.mask, Withheld: f.set.Withheld, Policy: policy, Log: f.set.Store,
		Cursors: cursorsOf{f.set.Store, policy}, Consumer: consumerOf{p}, Report: f.set.Log, Sign: f.set.Sign}
}

// stopMost bounds how long a pump may take to end. What is not acknowledged by then comes again.
const stopMost = 5 * time.Second

// stop ends pumps side by side.
func (f *Set) stop(all []*Subscriber) {
	ctx, cancel := context.WithTimeout(context.Background(), stopMost)
	defer cancel()
	var wg sync.WaitGroup
	for _, r := range all {
		wg.Go(func() {
			if err := r.pump.Close(ctx); err != nil {
				f.set.Log("subscriber %s: %v", r.Name, err)
			}
		})
	}
	wg.Wait()
}

// Close ends all pumps and retention, and starts none any more.
func (f *Set) Close(ctx context.Context) error {
	f.changing.Lock()
	defer f.changing.Unlock()
	f.closed = true
	f.stop(f.All())
	f.mu.Lock()
	clear(f.running)
	f.mu.Unlock()
	f.retain(kept{})
	return nil
}

// All lists the subscribers by name.
func (f *Set) All() []*Subscriber {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []*Subscriber
	for _, r := range f.running {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b *Subscriber) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return out
}

// Find gives the subscriber of that name, or nil.
func (f *Set) Find(name string) *Subscriber {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running[name]
}

// mask is what a subscriber with payload redacted sees of a text.
func (f *Set) mask(ctx context.Context, t feed.Text) (string, error) {
	in := &chain.Input{Text: t.Text, ToolID: t.ToolID, AgentID: t.AgentID}
	if t.JSON {
		in.ContentType = "application/json"
	}
	in.Patient = true
	out, err := f.set.Service.Mask(ctx, in)
	var why *chain.UnmaskedError
	if errors.As(err, &why) {
		err = &feed.MaskError{Cause: why.Cause, Scanner: why.Scanner, Lasts: why.Lasts(), Err: err}
	}
	return out, err
}

// Status says how far the subscriber has come.
func (r *Subscriber) Status() feed.Status { return r.pump.Status() }

// Resume goes on with a subscriber that is paused; with skip, without the record that it is stuck at.
func (r *Subscriber) Resume(ctx context.Context, who store.Who, skip bool) error {
	return r.refusal("name", r.pump.Resume(ctx, asker(who), skip))
}

// Replay delivers the log again from a record on.
func (r *Subscriber) Replay(ctx context.Context, who store.Who, from uint64) error {
	return r.refusal("from", r.pump.Replay(ctx, asker(who), from))
}

// refusal says whose fault an error is: the disk's, the moment's, or that of the field that was asked for.
func (r *Subscriber) refusal(field string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*sdk.Error](err); ok {
		return &sdk.Error{Code: e.Code, Msg: fmt.Sprintf("subscriber %q: %v", r.Name, err)}
	}
	if errors.Is(err, feed.ErrClosed) {
		return sdk.Errf(sdk.CodeConflict, "subscriber %q is being replaced or ended; try again", r.Name)
	}
	return sdk.FieldErrf(sdk.CodeInvalidField, field, "subscriber %q: %v", r.Name, err)
}

func asker(w store.Who) feed.Who {
	return feed.Who{Principal: w.Principal, Method: w.Method, Surface: w.Surface, Peer: w.Peer}
}

// Detail is a line for /readyz, which everybody may read.
func (r *Subscriber) Detail(s feed.Status) string {
	line := fmt.Sprintf("%s, %d records behind", s.State, s.LagRecords)
	if s.Lag > 0 {
		line += fmt.Sprintf(" (%v)", s.Lag.Round(time.Second))
	}
	if s.Poison > 0 { // why is in the subscriber's words, which are for operators
		line += fmt.Sprintf(": stuck at record %d", s.Poison)
	}
	return line
}

// Trouble says what is wrong, "" if nothing is.
func (r *Subscriber) Trouble(s feed.Status) string {
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

// cursors is how far each configured subscriber has come. ok is false while that is not known of one.
func (f *Set) cursors() (of map[string]uint64, ok bool) {
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
	return of, len(f.running) == len(f.configured)
}

// maxListed bounds how many names an error lists.
const maxListed = 20

// Forget removes the cursor of a subscriber that is not configured. While f.changing is held no pump starts or ends, so
// none is at work on what goes. Retention asks configured subscribers only: this cursor held nothing back.
func (f *Set) Forget(ctx context.Context, who store.Who, name string) (seq uint64, err error) {
	f.changing.Lock()
	defer f.changing.Unlock()
	if _, used := f.configured[name]; used {
		return 0, sdk.FieldErrf(sdk.CodeConflict, "name",
			"subscriber %q is configured and its cursor in use: take it out of audit.subscribers, reload, and ask again", name)
	}
	if _, known := f.set.Store.Cursor(name); !known {
		return 0, sdk.FieldErrf(sdk.CodeNotFound, "name", "there is no cursor of %.128q: %s", name,
			withCursors(f.set.Store.Cursors()))
	}
	cmd := &store.DropCursor{Name: name, By: who, Policy: f.set.InForce().Policy}
	if err := f.set.Store.Commit(ctx, cmd); err != nil {
		return 0, err
	}
	f.set.Log("subscriber %s is forgotten: it had come to record %d", name, cmd.Was.Seq)
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
