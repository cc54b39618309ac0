package store

import (
	"time"
)

// step does one thing, and reports whether the process lives.
func (s *sim) step() bool {
	switch n := s.rng.IntN(100); {
	case n < 50:
		s.clients()
		return s.settle() && s.pass(time.Duration(1+s.rng.IntN(60))*time.Millisecond, false)
	case n < 58:
		return s.pass(time.Duration(100+s.rng.IntN(3000))*time.Millisecond, false)
	case n < 66:
		return s.stall()
	case n < 72:
		s.setClock()
		return s.pass(100*time.Millisecond, false)
	case n < 76:
		s.suspend()
		return s.pass(100*time.Millisecond, false)
	case n < 83:
		s.dests[s.rng.IntN(len(s.dests))].behave(destWays[s.rng.IntN(len(destWays))])
		return s.pass(300*time.Millisecond, false)
	case n < 90:
		s.endIn = 1 + s.rng.IntN(40)
		s.clients()
		if !s.settle() || !s.pass(1500*time.Millisecond, false) {
			return false
		}
		s.endIn = 0
		return s.cut("nothing")
	case n < 92:
		s.errIn = 1 + s.rng.IntN(12)
		s.clients()
		if !s.settle() || !s.pass(time.Second, false) {
			return false
		}
		s.errIn = 0
		return true
	case n < 95:
		s.note("flush")
		go func(st *Store) { // it waits for the disk, too
			_ = st.guarded(st.flush)
		}(s.life.s)
		return s.settle()
	default:
		return s.fill()
	}
}

// clients has some of them send something at the same time.
func (s *sim) clients() {
	for range 1 + s.rng.IntN(4) {
		s.client()
	}
}

func (s *sim) client() {
	agent := simAgents[s.rng.IntN(len(simAgents))]
	asker, boss := s.pick(false), s.pick(true)
	if asker == nil || boss == nil || s.rng.IntN(20) == 0 {
		s.createKey(boss == nil || asker != nil && s.rng.IntN(2) == 0)
		return
	}
	switch n := s.rng.IntN(20); {
	case n < 2:
		s.permit(asker, agent)
	case n < 6:
		s.limited(asker, agent)
	case n < 8:
		s.deferCall(asker, agent)
	case n < 11 && len(s.defers) > 0:
		s.approve(boss, s.defers[len(s.defers)-1-s.rng.IntN(min(3, len(s.defers)))], s.rng.IntN(4) > 0)
	case n < 13 && len(s.defers) > 0:
		s.redeem(s.spendable())
	case n < 14:
		s.addGrant(agent)
	case n < 16 && len(s.granted) > 0:
		s.spend(asker, agent)
	case n < 17 && len(s.granted) > 0:
		s.revokeGrant(s.granted[len(s.granted)-1])
	case n < 18:
		s.kill(agent, s.kills[agent].on != no)
	case n < 19 && s.rng.IntN(2) == 0:
		s.revokeKey(asker)
	default:
		s.scan(asker)
	}
}

// spendable is a deferred call: mostly one of the newest that were approved and not spent.
func (s *sim) spendable() *simDefer {
	of := s.defers
	if s.rng.IntN(4) > 0 {
		var approved []*simDefer
		for _, f := range of {
			if f.approved == yes && !f.spent && f.denied != yes {
				approved = append(approved, f)
			}
		}
		if len(approved) > 0 {
			of = approved
		}
	}
	return of[len(of)-1-s.rng.IntN(min(3, len(of)))]
}

// pick is one of the newest keys, which may be revoked. Keys that the store does not know any more have failed a check.
func (s *sim) pick(boss bool) *simKey {
	var of []*simKey
	for _, k := range s.keys {
		if k.boss == boss && s.life.s.Key(k.id) != nil {
			of = append(of, k)
		}
	}
	if len(of) == 0 {
		return nil
	}
	return of[len(of)-1-s.rng.IntN(min(3, len(of)))]
}

// stall has the disk stand still for longer than answers wait.
func (s *sim) stall() bool {
	s.clients()
	s.note("the disk stands still")
	s.seen.Stalls++
	for range s.rng.IntN(6) { // some of it still gets through
		if !s.one() {
			return false
		}
	}
	if s.pass(simStall/2+time.Duration(s.rng.IntN(700))*time.Millisecond, true); s.rng.IntN(2) == 0 {
		s.clients()
		s.pass(simStall/3, true)
	}
	s.note("the disk goes on")
	return s.settle()
}

// setClock sets the wall clock wrong, or right.
func (s *sim) setClock() {
	s.clock.right = time.Time{}
	switch s.rng.IntN(6) {
	case 0, 1:
		s.clock.set(func() { s.clock.wrong, s.clock.right = 100*24*time.Hour, time.Now().Add(4*time.Second) })
	case 2:
		s.clock.set(func() { s.clock.wrong = -2 * time.Hour })
	case 3:
		off := time.Duration(s.rng.IntN(20)-10) * time.Second
		s.clock.set(func() { s.clock.wrong = off })
	default:
		s.clock.set(func() { s.clock.wrong = 0 })
	}
	s.note("the wall clock is %v ahead", s.clock.wrong)
}

// suspend has the machine sleep.
func (s *sim) suspend() {
	d := time.Duration(1+s.rng.IntN(40)) * time.Minute
	if s.clock.wrong > time.Minute { // a clock that is ahead for an hour may well make records too old
		s.clock.set(func() { s.clock.wrong = 0 })
	}
	s.clock.set(func() { s.clock.away += d })
	s.clock.set(func() { s.clock.slept += d })
	s.note("suspended for %v", d)
}

// fill has another program use the disk, or give it back.
func (s *sim) fill() bool {
	if s.disk == nil {
		return s.pass(200*time.Millisecond, false)
	}
	free := []int64{0, 2 * mib, 20 * mib, 100 * mib, 100 * mib}[s.rng.IntN(5)]
	s.disk.leave(free)
	s.note("%d bytes are free", free)
	s.seen.Full++
	if !s.pass(200*time.Millisecond, false) {
		return false
	}
	s.clients()
	return s.settle()
}
