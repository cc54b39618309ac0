// Package remote is what plugins that hand the log to a service over the network have in common, and what has to be the
// same in all of them: when a service that failed is asked again, how its certificate is checked, and which addresses
// are on this machine. It knows no protocol and sends no record. It never lets a bad certificate, key or address pass:
// each is a problem that names the setting. Calls come from the plugins beside it; it calls back what they hand it.
package remote

import (
	"context"
	"sync"
	"time"
)

const (
	firstProbe = time.Second // after a failure, doubling
	maxProbe   = 15 * time.Second
)

// Probe remembers whether the service takes records in. After a failure it asks again by itself, since the host sends
// nothing to a plugin that is not healthy, and so would never find out.
type Probe struct {
	ask    func(context.Context) error
	cancel context.CancelFunc
	kick   chan struct{}
	done   chan struct{}

	mu  sync.Mutex
	err error
}

// StartProbe begins with a service that is well. ask is called by one goroutine, and only after a failure; Stop ends
// it.
func StartProbe(ask func(context.Context) error) *Probe {
	ctx, cancel := context.WithCancel(context.Background())
	p := &Probe{ask: ask, cancel: cancel, kick: make(chan struct{}, 1), done: make(chan struct{})}
	go p.run(ctx)
	return p
}

// Set is the outcome of an attempt with records; nil is a good one.
func (p *Probe) Set(err error) {
	p.mu.Lock()
	p.err = err
	p.mu.Unlock()
	if err != nil {
		select {
		case p.kick <- struct{}{}:
		default:
		}
	}
}

// State is the last outcome of all: of an attempt with records, or of asking.
func (p *Probe) State() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Stop ends the asking and waits for it.
func (p *Probe) Stop() {
	p.cancel()
	<-p.done
}

func (p *Probe) run(ctx context.Context) {
	defer close(p.done)
	for {
		select {
		case <-p.kick:
		case <-ctx.Done():
			return
		}
		for pause := firstProbe; p.State() != nil; pause = min(2*pause, maxProbe) {
			if !Sleep(ctx, pause) {
				return
			}
			if p.State() == nil {
				break
			}
			err := p.ask(ctx)
			if ctx.Err() != nil {
				return
			}
			p.mu.Lock()
			p.err = err
			p.mu.Unlock()
		}
	}
}

// Sleep is false when ctx ended first.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
