package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/yett-dev/yett/plugins/internal/signedhttp"
	"github.com/yett-dev/yett/sdk"
)

// sender is one kind of target. Each method sends one message, trying again until the time is over.
type sender interface {
	sendOpened(ctx context.Context, until time.Time, e *event) (ref, error) // a call waits
	// it does no longer; of is the message that said it does
	sendSettled(ctx context.Context, until time.Time, e *event, of ref) error
	sendDigest(ctx context.Context, until time.Time, d *digest) error
	close()
}

// digest is one message about many calls.
type digest struct {
	id      string
	opened  []*event
	settled []*event
}

// digestShows is how many calls of each sort a digest lists.
const digestShows = 10

// shown are those to list, and how many more there are.
func shown(list []*event) ([]*event, int) {
	n := min(len(list), digestShows)
	return list[:n], len(list) - n
}

// head says what a digest holds.
func (d *digest) head() string {
	switch {
	case len(d.settled) == 0:
		return fmt.Sprintf("%d calls wait for approval", len(d.opened))
	case len(d.opened) == 0:
		return fmt.Sprintf("%d calls are settled", len(d.settled))
	}
	return fmt.Sprintf("%d calls wait for approval, %d are settled", len(d.opened), len(d.settled))
}

// target is one place that is told. It is one goroutine's at a time.
type target struct {
	name       string
	tools      []string
	agents     []string
	priorities []string
	drop       bool // on_failure
	most       int  // messages about single calls in one batch
	rate       bucket
	to         sender
	state      *state
	clock      signedhttp.Clock
	log        *slog.Logger
	notYet     time.Time // it asked not to be called before
}

// wants says whether the target is to be told that this call waits.
func (t *target) wants(e *event) bool {
	if len(t.tools) > 0 && !slices.ContainsFunc(t.tools, func(g string) bool { return sdk.MatchGlob(g, e.Tool) }) {
		return false
	}
	if len(t.priorities) > 0 && !slices.Contains(t.priorities, priorityOf(e)) {
		return false
	}
	return sdk.MatchAgent(t.agents, e.Agent)
}

// priorityOf names the priority, "none" if nobody said one.
func priorityOf(e *event) string {
	if e.Priority == "" {
		return "none"
	}
	return e.Priority
}

// failed says at which record a target could not be told.
type failed struct {
	seq uint64
	err error
	// the message is refused for what is in it; otherwise the target or the settings are at fault, and no record is
	content bool
}

// tell tells the target what is news to it. nil means that it knows, or that on_failure gave it up.
func (t *target) tell(ctx context.Context, until time.Time, id string, all []*event) *failed {
	opened, settled := t.news(all)
	if len(opened)+len(settled) == 0 {
		return nil
	}
	err := t.await(ctx, until)
	if err == nil {
		err = t.tellNews(ctx, until, id, opened, settled)
	}
	if err == nil {
		return nil
	}
	var unready *signedhttp.Unready
	if errors.As(err, &unready) {
		t.notYet = unready.Until
	}
	f := &failed{err: fmt.Errorf("target %s: %w", t.name, err), content: ofContent(err)}
	for _, e := range append(opened, settled...) {
		if m, _ := t.state.told(e.ID, t.name); m.Seq < e.Seq && (f.seq == 0 || e.Seq < f.seq) {
			f.seq = e.Seq // all before it was told, though not in this order
		}
	}
	if f.seq == 0 || errors.Is(err, errUnsaved) {
		f.seq = all[0].Seq // told, but not on disk: which of them is not known
	}
	return f
}

// await waits for as long as the target asked to be left alone. It is an error when that is too long for this batch.
// What would be dropped for it is tried all the same.
func (t *target) await(ctx context.Context, until time.Time) error {
	d := t.notYet.Sub(t.clock.Now())
	switch {
	case d <= 0 || t.drop:
		return nil
	case !t.notYet.Before(until):
		return fmt.Errorf("it asked not to be called before %s", t.notYet.UTC().Format(time.RFC3339))
	}
	return t.clock.Wait(ctx, d)
}

func (t *target) tellNews(ctx context.Context, until time.Time, id string, opened, settled []*event) error {
	var many digest
	for i, e := range opened {
		if i >= t.most || !t.rate.takeToken(t.clock.Now()) {
			many.opened = append(many.opened, e)
			continue
		}
		r, err := t.to.sendOpened(ctx, until, e)
		if err := t.done(err, map[*event]mark{e: {Seq: e.Seq, Ref: r}}); err != nil {
			return err
		}
	}
	singles := 0
	for _, e := range settled {
		m, _ := t.state.told(e.ID, t.name)
		if m.Digest || singles >= t.most || !t.rate.takeToken(t.clock.Now()) {
			many.settled = append(many.settled, e)
			continue
		}
		singles++
		if err := t.done(t.to.sendSettled(ctx, until, e, m.Ref), map[*event]mark{e: {Seq: e.Seq, Ref: m.Ref}}); err != nil {
			return err
		}
	}
	return t.tellMany(ctx, until, id, &many)
}

// tellMany sends what is left over as one message.
func (t *target) tellMany(ctx context.Context, until time.Time, id string, d *digest) error {
	if len(d.opened)+len(d.settled) == 0 {
		return nil
	}
	d.id = id
	err := t.clock.Wait(ctx, t.rate.next(t.clock.Now()))
	if err == nil {
		t.rate.takeToken(t.clock.Now())
		err = t.to.sendDigest(ctx, until, d)
	}
	marks := map[*event]mark{}
	for _, e := range d.opened {
		marks[e] = mark{Seq: e.Seq, Digest: true}
	}
	for _, e := range d.settled {
		m, _ := t.state.told(e.ID, t.name)
		marks[e] = mark{Seq: e.Seq, Ref: m.Ref, Digest: m.Digest}
	}
	return t.done(err, marks)
}

// news are the calls that the target does not know to wait, and those that it does not know to be settled. A call that
// began and ended in the same batch, or whose time is over, is nobody's to approve any more and no news.
func (t *target) news(all []*event) (opened, settled []*event) {
	for i, e := range all {
		m, known := t.state.told(e.ID, t.name)
		if known && e.Seq <= m.Seq {
			continue
		}
		over := slices.ContainsFunc(all[i+1:], func(later *event) bool { return later.ID == e.ID })
		switch {
		case over: // the last one counts
		case !e.opens() && known && !m.Lost:
			settled = append(settled, e)
		case e.opens() && t.wants(e) && e.Expires.After(t.clock.Now()):
			opened = append(opened, e)
		}
	}
	return opened, settled
}

// done notes what was told. When it could not be told, either the target gives it up and says so, or the batch fails.
func (t *target) done(err error, marks map[*event]mark) error {
	if err != nil && !t.drop {
		return err
	}
	if err != nil {
		for e, m := range marks {
			m.Lost = true
			marks[e] = m
			t.log.Error("a message is given up, as on_failure says", "target", t.name, "seq", e.Seq, "decision_id", e.ID,
				"error", err.Error())
		}
	}
	if err := t.state.tell(t.name, t.clock.Now(), marks); err != nil {
		return fmt.Errorf("%w: %w", errUnsaved, err)
	}
	return nil
}

// errUnsaved is the end of a message that was sent, and that a restart would not know of.
var errUnsaved = errors.New("what was told is not kept")

// bucket lets so many messages go in a minute, and so many at once.
type bucket struct {
	perMinute int
	burst     int
	free      float64
	at        time.Time
}

func (b *bucket) fill(now time.Time) {
	if b.at.IsZero() {
		b.free = float64(b.burst)
	} else if d := now.Sub(b.at); d > 0 {
		b.free = min(b.free+d.Minutes()*float64(b.perMinute), float64(b.burst))
	}
	b.at = now
}

// takeToken says whether one may go now, and counts it.
func (b *bucket) takeToken(now time.Time) bool {
	if b.fill(now); b.free < 1 {
		return false
	}
	b.free--
	return true
}

// next is how long it is until one may go.
func (b *bucket) next(now time.Time) time.Duration {
	if b.fill(now); b.free >= 1 {
		return 0
	}
	return time.Duration((1 - b.free) / float64(b.perMinute) * float64(time.Minute))
}
