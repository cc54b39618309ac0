package prochost

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/core/places"
	"github.com/yett-dev/yett/sdk"
	pluginv1 "github.com/yett-dev/yett/sdk/proto/v1"
)

var (
	errOpen = errors.New("its breaker is open, since too many of late failed")
)

// Check asks the plugin about one call. An error wraps chain.ErrUnavailable when the plugin was not asked (it is down,
// full, closing, or its breaker is open), context.DeadlineExceeded when no answer came in time, ErrLost when the plugin
// ended meanwhile and no other replica could be asked, ErrAnswer when the answer was none. The Verdict beside it has at
// most an effect: sdk.Deny or sdk.Defer, if that is what an answer that breaks a rule wanted.
func (p *Plugin) Check(ctx context.Context, c *chain.Call) (sdk.Verdict, error) {
	p.count.calls.Add(1)
	v, err := p.check(ctx, c)
	if err != nil {
		return v, p.counted(err)
	}
	return v, nil
}

func (p *Plugin) check(ctx context.Context, c *chain.Call) (v sdk.Verdict, err error) {
	if err := p.able(Authorizer, whose{key: c.KeyID}); err != nil {
		return v, err
	}
	if err := checkCall(c); err != nil {
		return v, err
	}
	if about := p.about.Load(); p.cache != nil && len(about.key) > 0 {
		key := keys.Get().(*[]byte)
		defer keys.Put(key)
		if *key = keyOf(about.key, c, (*key)[:0]); *key != nil {
			now := p.o.Now()
			kept, epoch, ok := p.cache.get(*key, now)
			if ok {
				return kept, nil
			}
			defer func() {
				if err == nil {
					p.cache.put(*key, &v, now, epoch)
				}
			}()
		}
	}
	err = p.call(ctx, whose{key: c.KeyID}, func(in *instance, deadline time.Time, place func()) error {
		v = sdk.Verdict{} // of another replica
		got, err := in.check(ctx, &request{deadline: deadline, generation: cmp.Or(c.Generation, p.spec.Generation), call: c},
			place)
		if err == nil {
			v, err = in.verdict(&got)
		}
		return err
	})
	return v, err
}

var keys = sync.Pool{New: func() any { return new([]byte) }}

// Scan asks the plugin to look through one text. Errors are as Check's; then the text was not covered.
func (p *Plugin) Scan(ctx context.Context, in *chain.Input) ([]sdk.Finding, error) {
	p.count.calls.Add(1)
	found, err := p.scan(ctx, in)
	if err != nil {
		return nil, p.counted(err)
	}
	return found, nil
}

func (p *Plugin) scan(ctx context.Context, input *chain.Input) (found []sdk.Finding, err error) {
	if err := p.able(Scanner, whose{input.KeyID, input.Masking}); err != nil {
		return nil, err
	}
	if len(input.Text) > maxMessage-1024-len(input.ToolID)-len(input.AgentID)-len(input.ContentType) {
		return nil, fmt.Errorf("a text of %d bytes does not fit into a message of %d", len(input.Text), maxMessage)
	}
	err = p.call(ctx, whose{input.KeyID, input.Masking}, func(in *instance, deadline time.Time, place func()) error {
		defer place()
		got, err := in.scan(ctx, input, deadline)
		if err == nil {
			found, err = findings(got, p.spec.Name, in.about.kinds, input)
			found = p.spec.Hide.Findings(found, maxReplacement)
		}
		return err
	})
	return found, err
}

// able says at once why a call cannot be made.
func (p *Plugin) able(kind Kind, who whose) error {
	if p.spec.Kind != kind {
		return fmt.Errorf("%w: it is no %s here but a %s", chain.ErrUnavailable, kind, p.spec.Kind)
	}
	select {
	case <-p.closing:
		return unavailable(errClosed)
	default:
	}
	if p.pick(nil) == nil {
		return p.down()
	}
	if p.breaker != nil && p.breaker.refuses() && !p.passes(who, false) {
		return p.open()
	}
	return nil
}

func unavailable(why error) error { return fmt.Errorf("%w: %w", chain.ErrUnavailable, why) }

// open is what a call ends with while the breaker is open: it says for how long.
func (p *Plugin) open() error { return chain.Later(unavailable(errOpen), p.breaker.remaining()) }

func (p *Plugin) down() error {
	err := fmt.Errorf("%w: the plugin is not ready (%s)", chain.ErrUnavailable, p.Status().State) // an agent reads it
	return chain.Later(err, p.away())
}

// away is when the first replica may be back; negative: not until an operator resumes one.
func (p *Plugin) away() time.Duration {
	first, now := chain.Never, p.o.Now()
	for _, r := range p.replicas {
		st := r.service.State()
		if d := st.Away(now); d >= 0 && (first < 0 || d < first) {
			first = d
		}
	}
	return first
}

// pick is the ready instance with the least to do, or nil. not is one that just failed.
func (p *Plugin) pick(not *instance) *instance {
	if len(p.replicas) == 1 {
		if in := p.replicas[0].ready(); in != not {
			return in
		}
		return nil
	}
	var best *instance
	first := p.turn.Add(1)
	for i := range p.replicas {
		in := p.replicas[(first+uint64(i))%uint64(len(p.replicas))].ready()
		if in == nil || in == not {
			continue
		}
		if best == nil || in.flying.Load() < best.flying.Load() {
			best = in
		}
	}
	return best
}

// call makes one call: a place, the breaker's leave, a replica, and another one if the first ended meanwhile.
func (p *Plugin) call(ctx context.Context, who whose,
	ask func(in *instance, deadline time.Time, place func()) error) error {
	begun := time.Now()
	deadline := begun.Add(p.spec.Timeout)
	if end, ok := ctx.Deadline(); ok && end.Before(deadline) {
		deadline = end
	}
	p.flying.Add(1)
	defer p.landed()
	free := p.of(who)
	if err := p.enter(ctx, free, who.key, deadline); err != nil {
		return err
	}
	place := func() { free.Give(who.key) }
	leave, err := p.permit(who)
	if err != nil {
		place()
		return err
	}
	in := p.pick(nil)
	if in == nil {
		place()
		leave.tell(wentUnknown)
		return p.down()
	}
	err = p.askOne(in, deadline, place, ask)
	if errors.Is(err, ErrLost) && ctx.Err() == nil && time.Now().Before(deadline) {
		if other := p.pick(in); other != nil {
			if entered := p.enter(ctx, free, who.key, deadline); entered == nil {
				p.count.retried.Add(1)
				err = p.askOne(other, deadline, place, ask)
			}
		}
	}
	if err == nil && !time.Now().Before(deadline) {
		err = errLate
	}
	leave.tell(p.blame.of(who.key, p.judge(ctx, who, err, begun, deadline), p.o.Now()))
	return err
}

func (p *Plugin) askOne(in *instance, deadline time.Time, place func(),
	ask func(*instance, time.Time, func()) error) error {
	in.flying.Add(1)
	defer in.flying.Add(-1)
	return ask(in, deadline, place)
}

// enter takes a place, or waits for one in the bounded queue.
func (p *Plugin) enter(ctx context.Context, free *places.Places, key string, deadline time.Time) error {
	select {
	case <-p.closing:
		return unavailable(errClosed)
	default:
	}
	switch err := free.Take(ctx, key, deadline); {
	case errors.Is(err, places.ErrFull):
		return unavailable(err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no place was free: %w", errLate)
	default:
		return err
	}
}

// passes says whether an open breaker lets a call through: it does if the key's own calls go well, or one of its trials
// is due, which spend takes. It never lets masking through. blame does not learn that masking was late, so beside a
// plugin that hangs each decision would take all the time that masking has.
func (p *Plugin) passes(who whose, spend bool) bool {
	return !who.mask && p.blame.clear(who.key, p.o.Now(), spend)
}

// permit asks the breaker for leave to make a call. The breaker learns nothing from a call that passes without its
// leave.
func (p *Plugin) permit(who whose) (permit, error) {
	if p.breaker == nil {
		return permit{}, nil
	}
	leave, ok := p.breaker.permit()
	if !ok && !p.passes(who, true) {
		return permit{}, p.open()
	}
	return leave, nil
}

// judge says what the breaker learns of a call. A call that had much less time than a call has, since the chain's
// budget was nearly used up, tells nothing of the plugin. Masking has less time than that always: its being late must
// not keep decisions from the plugin.
func (p *Plugin) judge(ctx context.Context, who whose, err error, begun, deadline time.Time) outcome {
	took, left := time.Since(begun), time.Until(deadline)
	switch {
	case err == nil:
		return wentWell
	case errors.Is(err, context.Canceled) && ctx.Err() != nil, who.mask && errors.Is(err, context.DeadlineExceeded):
		return wentUnknown
	case errors.Is(err, context.DeadlineExceeded) && took < p.spec.Timeout/4 && left < took:
		// a plugin that merely says so has failed
		return wentUnknown
	}
	return wentWrong
}

// landed counts a call as over. Close waits for the last one.
func (p *Plugin) landed() {
	if p.flying.Add(-1) > 0 {
		return
	}
	select {
	case <-p.closing:
		select {
		case p.idle <- struct{}{}:
		default:
		}
	default:
	}
}

// counted counts an error and names the plugin.
func (p *Plugin) counted(err error) error {
	p.count.errors.Add(1)
	switch {
	case errors.Is(err, chain.ErrUnavailable):
		p.count.refused.Add(1)
	case errors.Is(err, ErrAnswer):
		p.count.wrong.Add(1)
	case errors.Is(err, context.DeadlineExceeded):
		p.count.late.Add(1)
	case errors.Is(err, ErrLost):
		p.count.lost.Add(1)
	}
	return fmt.Errorf("plugin %s: %w", p.spec.Name, p.spec.Hide.Error(err))
}

// Stream is the way to a subscriber and back. Send and Recv are one goroutine's each.
type Stream interface {
	Send(*pluginv1.Batch) error
	Recv() (*pluginv1.Ack, error)
	CloseSend() error
}

// Consume opens a stream to a ready subscriber. It ends with ctx, with the process and with Close. What came over it is
// not judged here. The error wraps chain.ErrUnavailable when none is ready.
func (p *Plugin) Consume(ctx context.Context) (Stream, error) {
	if err := p.able(Subscriber, whose{}); err != nil {
		return nil, p.spec.named(err)
	}
	in := p.pick(nil)
	if in == nil {
		return nil, p.spec.named(p.down())
	}
	ctx, cancel := context.WithCancel(ctx)
	stop, stop2 := context.AfterFunc(p.ctx, cancel), context.AfterFunc(in.ctx, cancel)
	context.AfterFunc(ctx, func() { stop(); stop2() }) // streams come and go, the process stays
	stream, err := pluginv1.NewSubscriberClient(in.conn).Consume(ctx)
	if err != nil {
		cancel()
		return nil, p.spec.named(fmt.Errorf("Consume: %w", quoted(err)))
	}
	return &hidingStream{stream, p.spec.Hide}, nil
}

// hidingStream is a subscriber's stream: what it says of a record goes into the log.
type hidingStream struct {
	Stream
	hide *chain.Hider
}

// Recv implements Stream.
func (s *hidingStream) Recv() (*pluginv1.Ack, error) {
	ack, err := s.Stream.Recv()
	if ack != nil {
		ack.Error = s.hide.Hide(ack.Error)
	}
	return ack, s.hide.Error(err)
}
