package feed

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// How a pump tries again, and when it gives a record up.
const (
	firstPause = 200 * time.Millisecond // doubled with every failure that brought nothing further
	lastPause  = 30 * time.Second
	downPause  = 2 * time.Second // at most, while the subscriber is not ready: looking costs nothing
	maxFails   = 5               // of the same first record
)

// ErrGone may be the reason why a stream has ended: the subscriber's process is gone.
var ErrGone = errors.New("the subscriber's process is gone")

// ErrClosed is the answer of a pump that was closed.
var ErrClosed = errors.New("the pump is closed")

// Pump brings the log to one subscriber. Its methods are safe for concurrent use.
type Pump struct {
	set     Settings
	payload payload
	asks    chan *ask
	stop    chan struct{} // closed: finish what is on its way, then end
	done    chan struct{}
	kill    context.CancelFunc // end now
	once    sync.Once

	mu     sync.Mutex
	status Status // as published
	known  bool   // it says where the cursor is

	// The rest is the pump's goroutine's alone.
	began   bool
	at      Position  // on disk
	acked   uint64    // at or in front of at.Seq: acknowledged
	sent    uint64    // the furthest that was ever sent
	signed  time.Time // when a batch had a checkpoint last
	paused  bool
	fail    failure
	stuck   uint64 // the first record that was on its way when a stream ended last; 0: none
	size    int    // records of the next batch, at most; 1 with suspects
	suspect uint64 // up to here, records go one at a time: one of them has ended a stream
	gaps    []span // on their way or acknowledged, not yet recorded
	passed  passed // not yet acknowledged; none with last 0
	tries   int    // without getting any further
	now     Status // to be published

	unmasked unmasked
	hurry    hurry
}

// span is a range of records.
type span struct{ first, last uint64 }

// passed are records that the cursor moved over though the subscriber never had them. The next stream begins with
// telling it so: else it would find a hole between that stream and what it had before.
type passed struct {
	from uint64 // the record behind the last one that was acknowledged; up to first all was filtered out
	span
	tries int  // streams that began with telling it, and that the subscriber ended
	ended bool // one of them has ended so, or because the subscriber was gone
}

// tellMost is how often a subscriber may refuse to be told of what was passed over: it gets what follows all the same.
// One that is gone has refused nothing; an operator's word (resume with skip) helps one that ends each time it is told.
const tellMost = 5

// failure is what is known of a record that could not be delivered.
type failure struct {
	seq uint64
	n   int
	why string
}

// Start starts the pump of one subscriber. An error names the setting that does not hold.
func Start(set Settings) (*Pump, error) {
	if err := set.ready(); err != nil {
		return nil, fmt.Errorf("subscriber %s: %w", set.Name, err)
	}
	ctx, kill := context.WithCancel(context.Background())
	p := &Pump{set: set, asks: make(chan *ask), stop: make(chan struct{}), done: make(chan struct{}), kill: kill,
		size: set.BatchRecords}
	p.payload = payload{kind: set.Payload, mask: set.Mask, policy: set.Policy}
	p.now = Status{Name: set.Name, State: StateStarting}
	p.publish()
	go p.run(ctx)
	return p, nil
}

// Close reads nothing more, waits for what is on its way to be acknowledged, writes the cursor, and ends the pump. When
// ctx is done it ends at once; what was not acknowledged comes again after the next Start.
func (p *Pump) Close(ctx context.Context) error {
	p.once.Do(func() { close(p.stop) })
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
	}
	p.kill()
	<-p.done
	return fmt.Errorf("subscriber %s: close: %w", p.set.Name, ctx.Err())
}

func (p *Pump) run(ctx context.Context) {
	defer close(p.done)
	defer p.kill()
	for !p.ending(ctx) {
		switch {
		case !p.began:
			p.begin(ctx)
		case p.paused:
			p.state(StatePaused, p.fail.why)
			p.rest(ctx, -1)
		case p.fail.n >= maxFails:
			p.settlePoison(ctx)
		default:
			p.connect(ctx)
		}
	}
	p.state(StateClosed, "")
}

func (p *Pump) ending(ctx context.Context) bool {
	select {
	case <-p.stop:
		return true
	case <-ctx.Done():
		return true
	default:
		return false
	}
}

// begin finds out where to begin. A subscriber without a cursor gets one at once: "latest" means now, not the next
// start.
func (p *Pump) begin(ctx context.Context) {
	at, ok := p.set.Cursors.Cursor(p.set.Name)
	if !ok {
		at.Seq = p.set.Log.Seq()
		if p.set.Start == StartEarliest {
			at.Seq = p.set.Log.First() - 1
		}
		at.High = at.Seq
		if err := p.set.Cursors.Move(ctx, Move{Name: p.set.Name, To: at.Seq}); err != nil {
			p.again(ctx, StateBackoff, "the cursor cannot be written: "+err.Error())
			return
		}
	}
	p.at, p.acked, p.sent = at, at.Seq, at.Seq
	p.began, p.tries = true, 0
	p.publish()
}

// connect opens a stream and serves it until it ends.
func (p *Pump) connect(ctx context.Context) {
	p.state(StateWaiting, p.now.Detail)
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := p.set.Consumer.Consume(inner)
	if err != nil {
		p.state(StateWaiting, "not ready: "+err.Error())
		p.tries = min(p.tries+1, 4)
		p.rest(ctx, min(p.pause(p.tries), downPause))
		return
	}
	p.now.Connects++
	p.state(StateDelivering, "")
	c := newConn(p, inner, cancel, stream)
	e := c.serve(ctx)
	p.blame(c, e)
	if e.cause == endAsked || e.cause == endClosed {
		return
	}
	p.set.Report("subscriber %s: %s", p.set.Name, e.why)
	p.again(ctx, StateBackoff, e.why)
}

// again rests after a failure: the longer, the more there were that brought nothing further.
func (p *Pump) again(ctx context.Context, state, why string) {
	p.tries++
	p.state(state, why)
	p.rest(ctx, p.pause(p.tries))
}

// pause is how long to rest after that many tries, with a fifth more or less so that many pumps do not come together.
func (p *Pump) pause(tries int) time.Duration {
	d := min(firstPause<<min(max(tries-1, 0), 10), lastPause)
	return d - d/5 + p.set.Spread(2*d/5)
}

// rest waits, without end if d is negative, and does meanwhile what is asked for. An operator's word ends it.
func (p *Pump) rest(ctx context.Context, d time.Duration) {
	var timer <-chan time.Time
	if d >= 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		timer = t.C
	}
	for {
		select {
		case <-timer:
			return
		case <-p.stop:
			return
		case <-ctx.Done():
			return
		case a := <-p.asks:
			if p.answer(ctx, a) {
				p.tries = 0
				return
			}
		}
	}
}

// move writes the position, with the gaps that it passes. After an error nothing here has changed; the disk may have.
func (p *Pump) move(ctx context.Context, to uint64, events ...Event) error {
	var passed []Event
	for _, g := range p.gaps {
		if first, last := max(g.first, p.at.Seq+1), min(g.last, to); first <= last {
			passed = append(passed, Event{Type: EventGap, First: first, Last: last,
				Why: "removed by retention before they were delivered"})
		}
	}
	if err := p.set.Cursors.Move(ctx, Move{Name: p.set.Name, To: to, Events: append(passed, events...)}); err != nil {
		return fmt.Errorf("the cursor cannot be written: %w", err)
	}
	for _, e := range passed {
		p.now.Lost += e.Last - e.First + 1
	}
	p.at = Position{Seq: to, High: max(p.at.High, to)}
	p.acked = max(p.acked, to)
	p.progress()
	return nil
}

// progress forgets what was known against records that are done with.
func (p *Pump) progress() {
	if p.fail.seq <= p.acked {
		p.fail = failure{}
	}
	if p.stuck <= p.acked {
		p.stuck = 0
	}
	for len(p.gaps) > 0 && p.gaps[0].last <= p.at.Seq {
		p.gaps = p.gaps[1:]
	}
}
