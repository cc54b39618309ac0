package wasmhost

import "context"

// use runs one scan or check on an instance of its own. run gives the address and length of the input it wrote.
//
// An instance goes back to the pool only when nothing at all was wrong with the call, the deadline included, and its memory
// is not much larger than after its start.
func (m *Module) use(ctx context.Context, p phase, run func(c *call) (ptr uint32, n int, err error)) (err error) {
	m.calls.Add(1)
	defer func() {
		if err != nil {
			m.errs.Add(1)
		}
	}()
	in, err := m.acquire(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := within(ctx, m.spec.Timeout)
	defer cancel()
	c := &call{Context: ctx, in: in, phase: p}
	defer c.flush()
	sound := false
	defer func() { m.release(in, sound) }() // also when run panics
	ptr, n, err := run(c)
	if err != nil {
		return err
	}
	in.clean(ptr, n)
	sound = true
	return nil
}

// acquire waits for a free place, then takes the instance used last, or starts one.
func (m *Module) acquire(ctx context.Context) (*instance, error) {
	if err := ctx.Err(); err != nil {
		return nil, m.fault("", ErrBusy, "the call came too late", err)
	}
	select {
	case <-m.closing:
		return nil, m.fault("", ErrClosed, "", nil)
	default:
	}
	select {
	case m.slots <- struct{}{}:
	case <-m.closing:
		return nil, m.fault("", ErrClosed, "", nil)
	case <-ctx.Done():
		return nil, m.fault("", ErrBusy, "", ctx.Err())
	}
	select {
	case <-m.closing: // both were ready: Close waits for this place
		<-m.slots
		return nil, m.fault("", ErrClosed, "", nil)
	default:
	}
	m.mu.Lock()
	if last := len(m.idle) - 1; last >= 0 {
		in := m.idle[last]
		m.idle = m.idle[:last]
		m.mu.Unlock()
		return in, nil
	}
	m.mu.Unlock()
	in, err := m.start(ctx)
	if err != nil {
		m.discarded.Add(1)
		<-m.slots
		return nil, err
	}
	return in, nil
}

// release gives the place back, and the instance if it is sound.
func (m *Module) release(in *instance, sound bool) {
	defer func() { <-m.slots }()
	grown := uint64(in.mem.Size()) > uint64(in.size)+m.spec.Slack
	switch {
	case !sound:
		m.discarded.Add(1)
	case m.spec.Isolation == Fresh:
	case grown:
		m.discarded.Add(1)
		m.grown.Add(1)
	default:
		m.mu.Lock()
		m.idle = append(m.idle, in)
		m.mu.Unlock()
		return
	}
	in.close()
}
