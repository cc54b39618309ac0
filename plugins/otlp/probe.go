package main

import (
	"context"
	"sync"
	"time"
)

const (
	firstProbe = time.Second // after a failure, doubling
	maxProbe   = 15 * time.Second
)

// probe remembers whether the receiver takes records in. After a failure it asks again by itself, since the host sends nothing
// to a plugin that is not healthy, and so would never find out.
type probe struct {
	ask    func(context.Context) error
	cancel context.CancelFunc
	kick   chan struct{}
	done   chan struct{}

	mu  sync.Mutex
	err error
}

func startProbe(ask func(context.Context) error) *probe {
	ctx, cancel := context.WithCancel(context.Background())
	p := &probe{ask: ask, cancel: cancel, kick: make(chan struct{}, 1), done: make(chan struct{})}
	go p.run(ctx)
	return p
}

// set is the outcome of an attempt with records; nil is a good one.
func (p *probe) set(err error) {
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

func (p *probe) state() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// stop ends the asking and waits for it.
func (p *probe) stop() {
	p.cancel()
	<-p.done
}

func (p *probe) run(ctx context.Context) {
	defer close(p.done)
	for {
		select {
		case <-p.kick:
		case <-ctx.Done():
			return
		}
		for pause := firstProbe; p.state() != nil; pause = min(2*pause, maxProbe) {
			if !sleep(ctx, pause) {
				return
			}
			if p.state() == nil {
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
