package store

import (
	"cmp"
	"runtime"
	"strings"
	"time"

	"github.com/RaduBerinde/btreemap"
)

// openOrder is the open deferred calls in the order of their ends, and how many of them wait for whom. A copy costs
// nothing, and never changes: lists are made of one, beside the sequencer.
type openOrder struct {
	calls    *btreemap.BTreeMap[place, *openCall]
	pending  map[asker]int        // whose row says pending
	approved map[string]*openCall // by token: some of them may be pending again
}

// place is where a call stands.
type place struct {
	ends  int64 // ns
	token string
}

// asker is what decides who may answer a call.
type asker struct{ agent, key string }

func (o *openOrder) begin() {
	o.calls = btreemap.New[place, *openCall](32, comparePlaces)
	o.pending, o.approved = map[asker]int{}, map[string]*openCall{}
}

func comparePlaces(a, b place) int {
	return cmp.Or(cmp.Compare(a.ends, b.ends), strings.Compare(a.token, b.token))
}

func (d *openCall) place() place { return place{d.expires.UnixNano(), d.token} }

func (o *openOrder) drop(d *openCall) {
	o.calls.Delete(d.place())
	delete(o.approved, d.token)
	if by := (asker{d.agent, d.key}); d.pending {
		if o.pending[by]--; o.pending[by] <= 0 {
			delete(o.pending, by)
		}
	}
}

func (o *openOrder) add(d *openCall) {
	o.calls.ReplaceOrInsert(d.place(), d)
	if d.pending {
		o.pending[asker{d.agent, d.key}]++
	} else {
		o.approved[d.token] = d
	}
}

// placeOf reads a PendingPlace; the first place of all for "".
func placeOf(after string) (p place) {
	if len(after) < 8 {
		return place{ends: -1 << 63}
	}
	for i := range 8 {
		p.ends = p.ends<<8 | int64(after[i])
	}
	p.token = after[8:]
	return p
}

// pendingFor is what a key may answer: who asks, and for which of the open calls.
type pendingFor struct {
	s     *Store
	key   *Key
	agent string
	times Times
	left  *dooms
}

// may reports whether the key may answer what somebody asked for. s.keys.mu is held.
func (p *pendingFor) may(agent, key string) bool {
	return (p.agent == "" || p.agent == agent) && p.key.Sees(agent) && !p.s.sameLine(p.key.ID, key) && !p.key.ActsAs(agent)
}

// waits reports whether a call waits for an answer. s.keys.mu is held.
func (p *pendingFor) waits(d *openCall) bool {
	return p.times.For(d.made).Before(d.expires) && d.waits(p.s, p.times, p.left)
}

// FindPending looks up what the page has, and how many calls there are in all, beside the sequencer. The command, when
// it is committed, reads these calls in order with the changes; without it, it looks them up itself.
func (s *Store) FindPending(c *ListPending) {
	p := &pendingFor{s: s, key: c.Key, agent: c.Agent, left: s.dooms(), times: s.Times()}
	c.tokens, c.Out.More, c.found = nil, false, true
	if p.left != nil {
		p.each(c, s.open.copy())
		return
	}
	s.keys.mu.RLock()
	defer s.keys.mu.RUnlock()
	calls, total := s.open.count(p)
	late := place{ends: p.times.Late.UnixNano(), token: string(rune(0x10FFFF))}
	for _, d := range calls.Ascend(btreemap.Min[place](), btreemap.LE(late)) { // over, and not ended yet
		if d.pending && p.may(d.agent, d.key) && !p.waits(d) {
			total--
		}
	}
	c.Out.Total = total
	for _, d := range calls.Ascend(btreemap.GT(placeOf(c.After)), btreemap.Max[place]()) {
		switch {
		case !p.may(d.agent, d.key) || !p.waits(d):
		case len(c.tokens) == c.Most:
			c.Out.More = true
			return
		default:
			c.tokens = append(c.tokens, d.token)
		}
	}
}

// each finds the page, and counts, by a look at every call: a kill has left very many of them to be denied. Others have
// a processor, and the keys, in between.
func (p *pendingFor) each(c *ListPending, calls *btreemap.BTreeMap[place, *openCall]) {
	looks, after := 0, placeOf(c.After)
	c.Out.Total = 0
	p.s.keys.mu.RLock()
	defer p.s.keys.mu.RUnlock()
	for at, d := range calls.Ascend(btreemap.Min[place](), btreemap.Max[place]()) {
		if looks++; looks%atATime == 0 {
			p.s.keys.mu.RUnlock()
			runtime.Gosched()
			p.s.keys.mu.RLock()
		}
		if !p.may(d.agent, d.key) || !p.waits(d) {
			continue
		}
		c.Out.Total++
		switch {
		case comparePlaces(at, after) <= 0:
		case len(c.tokens) == c.Most:
			c.Out.More = true
		default:
			c.tokens = append(c.tokens, d.token)
		}
	}
}

// atATime is how many calls a list looks at before others have their turn: some 50 µs.
const atATime = 512

// copy gives all calls that are open, in order.
func (o *openCalls) copy() *btreemap.BTreeMap[place, *openCall] {
	o.mu.Lock() // a copy writes to what it is made of
	defer o.mu.Unlock()
	return o.order.calls.Clone()
}

// count counts the calls that wait for the key, with those that are over, and gives all that are open, in order. Who
// asks is looked at once for all calls of theirs. s.keys.mu is held.
func (o *openCalls) count(p *pendingFor) (calls *btreemap.BTreeMap[place, *openCall], total int) {
	o.mu.Lock() // a copy writes to what it is made of
	defer o.mu.Unlock()
	for by, calls := range o.order.pending {
		if p.may(by.agent, by.key) {
			total += calls
		}
	}
	for _, d := range o.order.approved {
		if p.may(d.agent, d.key) && p.waits(d) {
			total++
		}
	}
	return o.order.calls.Clone(), total
}

// made is when what ends at its expiry began.
func (d *Defer) made() time.Time {
	if d.ResolvedAt.After(d.Created) { // approved then
		return d.ResolvedAt
	}
	return d.Created
}
