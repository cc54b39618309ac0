package ops

import (
	"slices"
	"time"

	"github.com/yett-dev/yett/core/log/follow"
)

// How the pump shares the machine with decisions. It is one goroutine, does a little at a time and rests between, and
// wakes readers a few at a time: no number of streams makes a crowd of runnable goroutines.
const (
	lookAround = 250 * time.Millisecond // for heartbeats and keys that expire
	turnWork   = 1 << 20                // of one turn for live streams; about a millisecond
	catchTurn  = turnWork / 4           // of one turn for those that are behind: they can wait, decisions cannot
	catchWork  = catchTurn / 2          // of which for one stream
	crowd      = 16                     // readers woken at once
	crowdPause = time.Millisecond
)

// pump is what the pump's goroutine alone may touch.
type pump struct {
	h       *hub
	subs    []*subscriber            // all of them
	live    []*subscriber            // those at log's place that look at every record
	byAgent map[string][]*subscriber // those at log's place that look at one agent's
	log     *follow.Follower         // for live streams
	next    int                      // whose turn it is among those that are behind
	event   event
	wake    []*subscriber // have got something that they were not woken for
}

// run is the pump: it runs while there are streams.
func (h *hub) run() {
	defer h.wg.Done()
	p := &pump{h: h, byAgent: map[string][]*subscriber{}, log: follow.Start(h.log, 0)}
	defer p.log.Stop()
	look := time.NewTicker(lookAround)
	defer look.Stop()
	for p.admit() {
		busy := p.serveStreams()
		p.wakeAll(busy)
		if !follow.Pause(follow.Rest(busy), h.quit) {
			return // Next sees for itself that the server drains
		}
		if busy {
			continue
		}
		select {
		case <-p.log.Wake():
		case <-h.poke:
		case <-look.C:
		case <-h.quit:
			return
		}
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

// serveStreams brings live streams up to date and the others nearer to it. It reports whether there is more to do at
// once.
func (p *pump) serveStreams() (busy bool) {
	now := p.h.now()
	if len(p.live) == 0 && len(p.byAgent) == 0 {
		p.log.ToEnd()
	} else {
		busy = p.advance(now)
	}
	if p.catchUp(now) {
		busy = true
	}
	for _, u := range p.subs {
		passed := p.log.Next() - 1
		if !u.live {
			passed = u.at.Next() - 1
		}
		if u.beat(passed, now) {
			p.call(u)
		}
	}
	return busy
}

// advance offers what is new to the live streams.
func (p *pump) advance(now time.Time) (busy bool) {
	turn := p.log.Read(follow.Limits{Work: turnWork}, func(seq uint64, record []byte) (work int, err error) {
		if err := p.event.peek(seq, record); err != nil {
			return 0, err
		}
		return p.offerAll(now), nil
	})
	switch turn.State {
	case follow.Gone:
		p.missAll(turn.Gone)
		p.log.Move(turn.Gone + 1)
		return true
	case follow.Failed:
		for _, u := range p.subs { // what cannot be read cannot be left out
			if u.live {
				u.end(endLog)
				p.call(u)
			}
		}
	}
	return turn.State == follow.More
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

// offerAll hands the event to the live streams that may want it, and says how much work that was.
func (p *pump) offerAll(now time.Time) (work int) {
	e := &p.event
	offer := func(list []*subscriber) {
		for _, u := range slices.Backward(list) {
			n, _ := p.offer(u, now)
			work += n
		}
	}
	offer(p.live)
	if !e.broad() {
		offer(p.byAgent[e.AgentID])
		return work
	}
	for _, list := range p.byAgent {
		offer(list)
	}
	return work
}

// offer hands the event to one stream, and says how much work that was. A live one that has no room falls behind; ok is
// false then.
func (p *pump) offer(u *subscriber, now time.Time) (work int, ok bool) {
	e := &p.event
	mayEnd := u.opt.ends != nil && e.Type == "kill" && e.Seq > u.opened
	passes := u.opt.passes(e)
	if !passes && !mayEnd {
		return 0, true
	}
	if !e.Body.Exists() {
		work = follow.ParseWork * len(e.record)
	}
	if e.load() != nil {
		p.end(u, endLog) // what cannot be read cannot be left out
		return work, true
	}
	if passes && u.opt.want(e) {
		n, ok := u.push(e, now)
		if !ok {
			p.sleep(u)
			return work, false
		}
		work += n
		p.call(u)
	}
	if mayEnd {
		if why := u.opt.ends(e); why != "" {
			p.end(u, why)
		}
	}
	return work, true
}

// end ends a stream behind what it holds.
func (p *pump) end(u *subscriber, why string) {
	u.end(why)
	p.call(u)
	p.sleep(u)
}

// catchUp brings streams that are behind nearer to the end of the log, one after another.
func (p *pump) catchUp(now time.Time) (busy bool) {
	work, n := 0, len(p.subs)
	for i := range n {
		u := p.subs[(p.next+i)%n]
		if u.live || u.blocked() || u.ended() {
			continue
		}
		if work >= catchTurn {
			p.next = (p.next + i) % n
			return true
		}
		done, more := p.read(u, now)
		work += done
		busy = busy || more
	}
	return busy
}

// read brings one stream nearer to the live ones, and reports whether it could go on at once.
func (p *pump) read(u *subscriber, now time.Time) (work int, more bool) {
	if end := p.log.Next(); u.at.Next() < end {
		lim := follow.Limits{Work: catchWork, Before: end}
		turn := u.at.Read(lim, func(seq uint64, record []byte) (int, error) {
			if u.ended() {
				return 0, follow.ErrLater
			}
			if err := p.event.peek(seq, record); err != nil {
				return 0, err
			}
			work, ok := p.offer(u, now)
			if !ok {
				return work, follow.ErrLater
			}
			return work, nil
		})
		work = turn.Work
		switch turn.State {
		case follow.Gone:
			u.miss(turn.Gone)
			p.call(u)
		case follow.Failed:
			p.end(u, endLog)
		}
	}
	if u.ended() || u.blocked() {
		return work, false
	}
	if u.at.Next() == p.log.Next() {
		p.rise(u)
	}
	return work, u.at.Next() < p.log.Next()
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

// sleep takes a stream off the live ones. While a record is offered, it is the next one that the stream looks at.
func (p *pump) sleep(u *subscriber) {
	if !u.live {
		return
	}
	u.live = false
	u.at.Move(p.log.Next())
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
			follow.Pause(crowdPause, p.h.quit)
		}
		u.called = false
		u.wake()
		return true
	})
}
