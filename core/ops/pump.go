package ops

import (
	"errors"
	"runtime"
	"slices"
	"time"
)

// How the pump shares the machine with decisions. It is one goroutine, does a little at a time and rests between, and
// wakes readers a few at a time: no number of streams makes a crowd of runnable goroutines.
const (
	restAfter   = 25 * time.Millisecond  // a turn that brought everybody up to date
	restBetween = 2 * time.Millisecond   // turns while there is more to do
	lookAround  = 250 * time.Millisecond // for heartbeats and keys that expire
	turnWork    = 1 << 20                // of one turn for live streams; about a millisecond
	catchTurn   = turnWork / 4           // of one turn for those that are behind: they can wait, decisions cannot
	catchWork   = catchTurn / 2          // of which for one stream
	parseWork   = 8                      // a byte that is parsed, against one that is copied or skipped
	giveWay     = 32                     // records between two yields
	crowd       = 16                     // readers woken at once
	crowdPause  = time.Millisecond
)

// pump is what the pump's goroutine alone may touch.
type pump struct {
	h       *hub
	subs    []*subscriber            // all of them
	live    []*subscriber            // those at cursor that look at every record
	byAgent map[string][]*subscriber // those at cursor that look at one agent's
	cursor  uint64                   // next record for live streams
	next    int                      // whose turn it is among those that are behind
	event   event
	wake    []*subscriber // have got something that they were not woken for
	reads   int
	work    int // done since it was last set to 0
}

// run is the pump: it runs while there are streams.
func (h *hub) run() {
	defer h.wg.Done()
	p := &pump{h: h, byAgent: map[string][]*subscriber{}}
	stop := h.log.Follow(h.more)
	defer stop()
	look := time.NewTicker(lookAround)
	defer look.Stop()
	for p.admit() {
		busy := p.turn()
		p.wakeAll(busy)
		rest := restAfter
		if busy {
			rest = restBetween
		}
		if !h.pause(rest) {
			return // Next sees for itself that the server drains
		}
		if busy {
			continue
		}
		select {
		case <-h.more:
		case <-h.poke:
		case <-look.C:
		case <-h.quit:
			return
		}
	}
}

// pause waits, and reports whether the pump goes on.
func (h *hub) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-h.quit:
		return false
	}
}

// admit takes in new streams and lets ended ones go. It reports whether there are any; if not, the pump has ended.
func (p *pump) admit() bool {
	h := p.h
	times := h.times()
	p.subs = slices.DeleteFunc(p.subs, func(u *subscriber) bool {
		if why := u.dead(times); why != "" {
			u.end(why)
		}
		if !u.ended() {
			return false
		}
		p.sleep(u)
		u.wake()
		return true
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	p.subs = append(p.subs, h.joining...)
	h.joining = nil
	h.running = len(p.subs) > 0
	return h.running
}

// turn brings live streams up to date and the others nearer to it. It reports whether there is more to do at once.
func (p *pump) turn() (busy bool) {
	now := p.h.now()
	if len(p.live) == 0 && len(p.byAgent) == 0 {
		p.cursor = max(p.cursor, p.h.log.Seq()+1)
	} else {
		busy = p.advance(now)
	}
	if p.catchUp(now) {
		busy = true
	}
	for _, u := range p.subs {
		passed := p.cursor - 1
		if !u.live {
			passed = u.cursor - 1
		}
		if u.beat(passed, now) {
			p.call(u)
		}
	}
	return busy
}

// advance offers what is new to the live streams.
func (p *pump) advance(now time.Time) (busy bool) {
	p.work = 0
	err := p.h.log.Records(p.cursor, func(seq uint64, record []byte) error {
		if p.work >= turnWork {
			return errEnough
		}
		if seq > p.cursor {
			p.missAll(seq - 1)
		}
		if err := p.look(seq, record); err != nil {
			return err
		}
		p.cursor = seq + 1
		p.offerAll(now)
		return nil
	})
	switch {
	case errors.Is(err, errEnough):
		return true
	case err != nil:
		for _, u := range p.subs { // what cannot be read cannot be left out
			if u.live {
				u.end(endLog)
				p.call(u)
			}
		}
	}
	return false
}

// missAll ends all live streams: records up to last are gone before they came to them.
func (p *pump) missAll(last uint64) {
	for _, u := range p.subs {
		if u.live {
			u.miss(last)
			p.call(u)
			p.sleep(u)
		}
	}
}

// look takes one record in.
func (p *pump) look(seq uint64, record []byte) error {
	if p.reads++; p.reads%giveWay == 0 {
		runtime.Gosched()
	}
	p.work += len(record)
	return p.event.peek(seq, record)
}

// offerAll hands the event to the live streams that may want it.
func (p *pump) offerAll(now time.Time) {
	e := &p.event
	for _, u := range slices.Backward(p.live) {
		p.offer(u, now)
	}
	if !e.broad() {
		for _, u := range slices.Backward(p.byAgent[e.AgentID]) {
			p.offer(u, now)
		}
		return
	}
	for _, list := range p.byAgent {
		for _, u := range slices.Backward(list) {
			p.offer(u, now)
		}
	}
}

// offer hands the event to one stream. A live one that has no room falls behind; false says so.
func (p *pump) offer(u *subscriber, now time.Time) bool {
	e := &p.event
	mayEnd := u.opt.ends != nil && e.Type == "kill" && e.Seq > u.opened
	passes := u.opt.passes(e)
	if !passes && !mayEnd {
		return true
	}
	if !e.Body.Exists() {
		p.work += parseWork * len(e.record)
	}
	if e.load() != nil {
		p.end(u, endLog) // what cannot be read cannot be left out
		return true
	}
	if passes && u.opt.want(e) {
		n, ok := u.push(e, now)
		if !ok {
			if u.live {
				p.sleep(u)
				u.cursor = e.Seq
			}
			return false
		}
		p.work += n
		p.call(u)
	}
	if mayEnd {
		if why := u.opt.ends(e); why != "" {
			p.end(u, why)
		}
	}
	return true
}

// end ends a stream behind what it holds.
func (p *pump) end(u *subscriber, why string) {
	u.end(why)
	p.call(u)
	p.sleep(u)
}

// catchUp brings streams that are behind nearer to the end of the log, one after another.
func (p *pump) catchUp(now time.Time) (busy bool) {
	p.work = 0
	n := len(p.subs)
	for i := range n {
		u := p.subs[(p.next+i)%n]
		if u.live || u.blocked() || u.ended() {
			continue
		}
		if p.work >= catchTurn {
			p.next = (p.next + i) % n
			return true
		}
		if p.read(u, now) {
			busy = true
		}
	}
	return busy
}

// read brings one stream nearer to the pump's cursor, and reports whether it could go on at once.
func (p *pump) read(u *subscriber, now time.Time) (more bool) {
	if u.cursor < p.cursor {
		start := p.work
		err := p.h.log.Records(u.cursor, func(seq uint64, record []byte) error {
			if p.work-start >= catchWork || seq >= p.cursor || u.ended() {
				return errEnough
			}
			if seq > u.cursor {
				u.miss(seq - 1)
				p.call(u)
				return errEnough
			}
			if err := p.look(seq, record); err != nil {
				return err
			}
			if !p.offer(u, now) {
				return errEnough
			}
			u.cursor = seq + 1
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			p.end(u, endLog)
		}
	}
	if u.ended() || u.blocked() {
		return false
	}
	if u.cursor == p.cursor {
		p.rise(u)
	}
	return u.cursor < p.cursor
}

// rise makes a stream that has caught up a live one.
func (p *pump) rise(u *subscriber) {
	u.live = true
	if u.opt.agent == "" {
		p.live = append(p.live, u)
		return
	}
	p.byAgent[u.opt.agent] = append(p.byAgent[u.opt.agent], u)
}

// sleep takes a stream off the live ones.
func (p *pump) sleep(u *subscriber) {
	if !u.live {
		return
	}
	u.live, u.cursor = false, p.cursor
	without := func(list []*subscriber) []*subscriber {
		i := slices.Index(list, u)
		return slices.Delete(list, i, i+1)
	}
	if u.opt.agent == "" {
		p.live = without(p.live)
		return
	}
	if p.byAgent[u.opt.agent] = without(p.byAgent[u.opt.agent]); len(p.byAgent[u.opt.agent]) == 0 {
		delete(p.byAgent, u.opt.agent)
	}
}

// call notes that a stream has something for its reader.
func (p *pump) call(u *subscriber) {
	if !u.called {
		u.called = true
		p.wake = append(p.wake, u)
	}
}

// wakeAll wakes the readers that have got something, a few at a time. While the pump is busy it leaves those asleep
// that have little: they will have more in a moment.
func (p *pump) wakeAll(busy bool) {
	woken := 0
	p.wake = slices.DeleteFunc(p.wake, func(u *subscriber) bool {
		if busy && !u.worth() {
			return false
		}
		if woken++; woken%crowd == 0 {
			p.h.pause(crowdPause)
		}
		u.called = false
		u.wake()
		return true
	})
}
