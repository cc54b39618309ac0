package checkpoints

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/tlog"
)

// Check holds the log against what each destination knows: the newest checkpoint of a file, the answer of a webhook,
// and what a witness has cosigned. An error says that the log is not the one that was signed, or ends earlier, or that
// a file cannot be read. A file that is not there yet, one without a checkpoint of this log, and a receiver that cannot
// be asked are told of.
func (k *Keeper) Check() error {
	k.each(k.places, k.hold)
	var errs []error
	for _, p := range k.places {
		switch err := k.now(p).Err; {
		case err == nil:
		case p.kind == KindFile || Differs(err):
			errs = append(errs, fmt.Errorf("audit.checkpoints: %s: %w", p.title(), err))
		default:
			k.set.Report("audit.checkpoints: %s: %v: the log is not held against it; it is asked again before it gets a "+
				"checkpoint", p.title(), err)
		}
	}
	return errors.Join(errs...)
}

// hold holds the log against what a place knows, and tells why it could not.
func (k *Keeper) hold(ctx context.Context, p *place) error {
	note, err := p.hold(ctx)
	if err != nil {
		return err
	}
	if note != "" {
		k.set.Report("audit.checkpoints: %s %s", p.title(), note)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	p.held = true
	return nil
}

// Start begins to hand checkpoints out: one at once if there are records, then one each time that so much has passed
// and there are more, and one at Close. Check was called before.
func (k *Keeper) Start() {
	k.mu.Lock()
	k.started = true
	k.mu.Unlock()
	k.done = make(chan struct{})
	go k.run()
}

func (k *Keeper) run() {
	defer close(k.done)
	if len(k.places) == 0 {
		return
	}
	tick := time.NewTicker(k.set.Every)
	defer tick.Stop()
	for {
		k.write(false)
		select {
		case <-tick.C:
		case <-k.quit:
			k.write(true)
			return
		}
	}
}

// Close hands out what is to be handed out, and ends. It waits no longer for a destination than patience, and asks none
// on the network that has failed when it was tried last.
func (k *Keeper) Close() {
	close(k.quit)
	if k.done != nil {
		<-k.done
	}
	k.cancel()
	k.asked.Wait()
	for _, p := range k.places {
		p.close()
	}
}

// write gives every place the newest checkpoint that does not have it: witnesses first, since files and webhooks get
// their cosignatures with it. One that comes late comes with the next try.
func (k *Keeper) write(last bool) {
	size := k.set.Log.InHead()
	if size == 0 {
		return
	}
	c, err := k.sign(size)
	if err != nil {
		k.each(k.places, func(context.Context, *place) error { return err })
		return
	}
	witness := func(p *place) bool { return p.kind == KindWitness }
	k.hand(c, last, witness)
	k.hand(k.withLines(c), last, func(p *place) bool { return !witness(p) })
}

// hand gives a checkpoint to some places.
func (k *Keeper) hand(c signed, last bool, to func(p *place) bool) {
	var lack []*place
	k.mu.Lock()
	for _, p := range k.places {
		if !to(p) || p.has == c.text || last && p.waits && p.err != nil {
			continue
		}
		if p.since.IsZero() {
			p.since = k.set.Now()
		}
		lack = append(lack, p)
	}
	k.mu.Unlock()
	k.each(lack, func(ctx context.Context, p *place) error { return k.give(ctx, p, c) })
}

func (k *Keeper) sign(size uint64) (c signed, err error) {
	root, err := k.set.Log.Root(size)
	if err != nil {
		return c, err
	}
	c.size, c.root = size, tlog.Hash(root)
	c.text, err = k.set.Signer.Checkpoint(size, root)
	return c, err
}

// give hands a checkpoint to a place, against whose knowledge the log is held first where that could not be done yet:
// what it has of another log is evidence, and not to be written over.
func (k *Keeper) give(ctx context.Context, p *place, c signed) error {
	k.mu.Lock()
	held := p.held
	k.mu.Unlock()
	if !held {
		if err := k.hold(ctx, p); err != nil {
			return err
		}
	}
	err := p.give(ctx, c)
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case err == nil:
		p.has, p.size, p.since = c.text, c.size, time.Time{}
	case Differs(err):
		p.held = false
	}
	return err
}

// each does something with several places at once and notes how it went. It waits for all of them, but not for long. A
// place with which somebody is still at work is left out, and counts as one that hangs.
func (k *Keeper) each(places []*place, do func(ctx context.Context, p *place) error) {
	ctx, cancel := context.WithCancel(k.ctx)
	defer cancel()
	var running sync.WaitGroup
	for _, p := range places {
		if !k.begin(p) {
			continue
		}
		running.Add(1)
		if p.waits {
			k.asked.Add(1)
		}
		go func() {
			defer running.Done()
			k.note(p, do(ctx, p), true)
			if p.waits {
				k.asked.Done()
			}
		}()
	}
	all := make(chan struct{})
	go func() {
		running.Wait()
		close(all)
	}()
	select {
	case <-all:
	case <-k.late():
	}
	for _, p := range places {
		k.note(p, errHangs, false)
	}
}

func (k *Keeper) begin(p *place) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p.busy {
		return false
	}
	p.busy = true
	return true
}

// note keeps how a try went, and tells when that has changed; a start tells by itself. Without ended it is of a try
// that is still going on, if there is one.
func (k *Keeper) note(p *place, err error, ended bool) {
	k.mu.Lock()
	if !ended && !p.busy {
		k.mu.Unlock()
		return
	}
	was := p.err
	p.err, p.busy = err, !ended
	started := k.started
	k.mu.Unlock()
	switch {
	case !started:
	case Differs(err) && !Differs(was):
		k.set.Alarm("audit.checkpoints: %s: %v", p.title(), err)
	case err != nil && (was == nil || Differs(was)):
		k.set.Report("audit.checkpoints: %s %s: %v", p.title(), p.failure, err)
	case err == nil && was != nil:
		k.set.Report("audit.checkpoints: %s works again", p.title())
	}
}

// Status is how it stands with a destination.
type Status struct {
	Kind, Name string
	Size       uint64        // records of the newest checkpoint that it has
	Behind     time.Duration // for how long it has lacked the newest one
	Err        error         // of the last try
	Detail     string        // the error, and what it is of; "" without one
}

// Status lists the destinations. A nil Keeper has none.
func (k *Keeper) Status() []Status {
	if k == nil {
		return nil
	}
	var out []Status
	for _, p := range k.places {
		out = append(out, k.now(p))
	}
	return out
}

func (k *Keeper) now(p *place) Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := Status{Kind: p.kind, Name: p.name, Size: p.size, Err: p.err}
	if !p.since.IsZero() {
		s.Behind = max(0, k.set.Now().Sub(p.since))
	}
	switch {
	case Differs(p.err):
		s.Detail = fmt.Sprintf("%s: %v", p.title(), p.err)
	case p.err != nil:
		s.Detail = fmt.Sprintf("%s %s: %v", p.title(), p.failure, p.err)
	}
	return s
}
