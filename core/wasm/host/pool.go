package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/yett-dev/yett/core/places"
)

// maskPlaces is how many calls of a module may run for masking, beside those of decisions and outputs.
const maskPlaces = 2

// whose is a call's key, and whether it masks.
type whose struct {
	key  string
	mask bool
}

// newPlaces are places of which one key may have all: there is one more then for another.
func newPlaces(most int) *places.Places {
	return places.New(places.Rules{Most: most, Spare: true, Queue: -1})
}

// closePlaces waits until no call of a module runs any more.
func closePlaces(ctx context.Context, module string, all ...*places.Places) error {
	for _, p := range all {
		p.Close()
	}
	for _, p := range all {
		if err := p.Wait(ctx); err != nil {
			return fmt.Errorf("close module %q: %d calls still run: %w", module, p.InUse(), err)
		}
	}
	return nil
}

// use runs one scan or check on an instance of its own. run gives the address and length of the input it wrote.
//
// An instance goes back to the pool only when nothing at all was wrong with the call, the deadline included, and
// nothing of the call is left in it but what its isolation allows.
func (m *Module) use(ctx context.Context, p phase, who whose,
	run func(c *call) (ptr uint32, n int, err error)) (err error) {
	m.calls.Add(1)
	defer func() {
		if err != nil {
			m.errs.Add(1)
		}
	}()
	in, err := m.acquire(ctx, who)
	if err != nil {
		return err
	}
	c := in.newCall(p)
	c.key = who.key
	c.begin(ctx, m.spec.Timeout, m.spec.Fuel)
	sound := false
	var ptr uint32
	var n int
	defer func() { // also when run panics
		c.leave()
		m.fuel.Add(c.used)
		c.flush()
		m.release(in, who, sound, ptr, n)
	}()
	if ptr, n, err = run(c); err != nil {
		return err
	}
	sound = true
	return nil
}

// of are the places of such a call.
func (m *Module) of(who whose) *places.Places {
	if who.mask {
		return m.masks
	}
	return m.places
}

// acquire waits for a free place, then takes the instance used last, waits for one that is being started, or starts
// one.
func (m *Module) acquire(ctx context.Context, who whose) (*instance, error) {
	if err := ctx.Err(); err != nil {
		return nil, m.fault("", ErrBusy, "the call came too late", err)
	}
	switch err := m.of(who).Take(ctx, who.key, time.Time{}); {
	case errors.Is(err, places.ErrClosed):
		return nil, m.fault("", ErrClosed, "", nil)
	case err != nil:
		return nil, m.fault("", ErrBusy, "", err)
	}
	in, err := m.instance(ctx)
	if err != nil {
		m.of(who).Give(who.key)
	}
	return in, err
}

// instance is for a caller who holds a place.
func (m *Module) instance(ctx context.Context) (*instance, error) {
	for {
		m.mu.Lock()
		if last := len(m.idle) - 1; last >= 0 {
			in := m.idle[last]
			m.idle = m.idle[:last]
			m.mu.Unlock()
			return in, nil
		}
		warm := m.warming
		if warm == nil || m.waits {
			m.mu.Unlock()
			break
		}
		m.waits = true // the one that is being started is for this caller
		m.mu.Unlock()
		var err error
		select {
		case <-warm:
		case <-ctx.Done():
			err = m.fault("", ErrBusy, "", ctx.Err())
		}
		m.mu.Lock()
		m.waits = false
		m.mu.Unlock()
		if err != nil {
			return nil, err
		}
	}
	in, err := m.start(ctx)
	if err != nil {
		m.discarded.Add(1)
	}
	return in, err
}

// release gives the place back, and the instance if it is sound and nothing of the call is left in it.
func (m *Module) release(in *instance, who whose, sound bool, ptr uint32, n int) {
	defer m.of(who).Give(who.key)
	if m.keep(in, sound, ptr, n) {
		in.newCall(starting) // an idle instance holds nothing of the caller's
		m.mu.Lock()
		m.idle = append(m.idle, in)
		m.mu.Unlock()
		return
	}
	in.close()
	m.warm()
}

// keep says whether another call may have the instance, and leaves nothing of this one in it.
func (m *Module) keep(in *instance, sound bool, ptr uint32, n int) bool {
	switch {
	case !sound:
	case m.isolation == Fresh:
		return false
	case in.call.deep:
		m.grown.Add(1)
	case m.isolation == Reset:
		whole, err := m.snap.restore(in)
		if whole && err == nil {
			return true
		}
		if err == nil {
			m.grown.Add(1)
		}
	case uint64(in.mem.Size()) > uint64(in.size)+m.spec.Slack:
		m.grown.Add(1)
	default:
		in.clean(ptr, n)
		return true
	}
	m.discarded.Add(1)
	return false
}

// warm starts an instance in the background when none is at hand, so that a call which spoilt its own costs the next
// one nothing. One at a time: a module that always fails cannot keep more than one start busy. It must be called by the
// holder of a place, which is what Close waits for before it waits for the start.
func (m *Module) warm() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.warming != nil || len(m.idle) > 0 || m.life.Err() != nil {
		return
	}
	done := make(chan struct{})
	m.warming = done
	m.background.Go(func() {
		defer close(done)
		in, err := m.start(m.life)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.warming = nil
		if err != nil {
			m.discarded.Add(1) // the next call starts its own, and tells the error
			return
		}
		m.idle = append(m.idle, in)
	})
}
