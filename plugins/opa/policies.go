package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/plugin"
)

// policies is what Configure puts into force: the engine that answers, and the goroutine that looks for newer content.
type policies struct {
	config *config
	log    *slog.Logger
	now    atomic.Pointer[engine]
	bad    atomic.Pointer[string] // why newer content was not taken; nil when what is on disk is in force

	stop context.CancelFunc
	done chan struct{}
}

// load reads and compiles what the settings point to.
func load(ctx context.Context, c *config) (*engine, error) {
	s, err := read(c)
	if err != nil {
		return nil, err
	}
	return compile(ctx, c, s)
}

// start loads the policies and begins to look for newer ones.
func start(ctx context.Context, c *config, log *slog.Logger) (*policies, error) {
	e, err := load(ctx, c)
	if err != nil {
		return nil, plugin.Problem{Field: c.sourceField(), Message: err.Error()}
	}
	p := &policies{config: c, log: log, done: make(chan struct{})}
	p.use(e, "policies loaded")
	var own context.Context
	own, p.stop = context.WithCancel(context.Background()) // outlives the call of Configure
	go p.poll(own)
	return p, nil
}

// sourceField is the member of the settings that policies come from.
func (c *config) sourceField() string {
	switch {
	case c.Policy != "":
		return "/policy"
	case c.Bundle != "":
		return "/bundle"
	}
	return "/paths"
}

// settle is how long newer content must stay as it is before it is taken: files that are being written one after the other,
// or half written, are not what the operator means.
const settle = time.Second

// poll looks for newer content until its context ends.
func (p *policies) poll(ctx context.Context) {
	defer close(p.done)
	if p.config.every == 0 {
		return
	}
	t := time.NewTimer(p.config.every)
	defer t.Stop()
	var seen sighting
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			seen = p.refresh(ctx, seen)
			if seen.pending {
				t.Reset(min(settle, p.config.every))
			} else {
				t.Reset(p.config.every)
			}
		}
	}
}

// sighting is content that is not in force: seen once (pending), or refused and not to be compiled again.
type sighting struct {
	digest  [sha256.Size]byte
	pending bool
}

// refresh takes newer content into force if it is the same as at the last look and compiles; otherwise the policies of before
// go on.
func (p *policies) refresh(ctx context.Context, last sighting) sighting {
	s, err := read(p.config)
	if err != nil {
		p.refuse(err)
		return sighting{}
	}
	digest := s.digest()
	switch {
	case digest == p.now.Load().digest:
		if p.bad.Swap(nil) != nil {
			p.log.Info("the policies on disk are those in force again")
		}
		return sighting{}
	case digest != last.digest:
		return sighting{digest, true} // refused content is forgotten with this: it may come back
	case !last.pending:
		return last
	}
	e, err := compile(ctx, p.config, s)
	switch {
	case ctx.Err() != nil:
		return last
	case err != nil:
		p.refuse(err)
		return sighting{digest, false}
	}
	p.use(e, "newer policies loaded")
	p.bad.Store(nil)
	return sighting{}
}

// use puts an engine into force, and says so.
func (p *policies) use(e *engine, what string) {
	p.now.Store(e)
	p.log.Info(what, "digest", fmt.Sprintf("sha256:%x", e.digest))
	if n := len(e.unread); n > 0 {
		p.log.Warn("files are not read: data is what is in data.json, data.yaml or data.yml, under the path of its directory", "files", n, "first", e.unread[0])
	}
}

// refuse notes why newer content was not taken, and logs it when the reason is another one than before.
func (p *policies) refuse(err error) {
	why := err.Error()
	if old := p.bad.Swap(&why); old == nil || *old != why {
		p.log.Error("newer policies refused; those of before stay in force", "error", why)
	}
}

// close ends the polling and waits for it.
func (p *policies) close(ctx context.Context) error {
	p.stop()
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// authorizer is the plugin's state: nothing before Configure.
type authorizer struct{ in atomic.Pointer[policies] }

func (a *authorizer) validate(ctx context.Context, s plugin.Settings) error {
	c, err := parse(s)
	if err != nil {
		return err
	}
	if _, err := load(ctx, c); err != nil {
		return plugin.Problem{Field: c.sourceField(), Message: err.Error()}
	}
	return nil
}

func (a *authorizer) configure(ctx context.Context, s plugin.Settings) error {
	c, err := parse(s)
	if err != nil {
		return err
	}
	p, err := start(ctx, c, s.Log)
	if err != nil {
		return err
	}
	if old := a.in.Swap(p); old != nil {
		return old.close(ctx)
	}
	return nil
}

func (a *authorizer) check(ctx context.Context, c *plugin.Call) (sdk.Verdict, error) {
	p := a.in.Load()
	if p == nil {
		return sdk.Verdict{}, errors.New("not configured")
	}
	return p.now.Load().decide(ctx, c)
}

func (a *authorizer) close(ctx context.Context) error {
	if p := a.in.Swap(nil); p != nil {
		return p.close(ctx)
	}
	return nil
}
