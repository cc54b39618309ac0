package ops

import (
	"container/list"
	"sync"
	"time"

	"github.com/yett-dev/yett/core/store"
)

// What is held in memory of calls whose kept form is masked.
const (
	rawEntries = 10_000
	rawBytes   = 64 << 20
)

// rawCall is the real text of an action's call.
type rawCall struct{ params, context string }

func (c rawCall) size() int { return len(c.params) + len(c.context) }

// rawCalls holds the real calls of masked actions until they are started, for so long as they could be: a start decides
// the real call, and its secrets are written nowhere. What does not fit is forgotten, the oldest first; such an action
// has to be submitted again. The zero rawCalls is ready. Safe for concurrent use.
type rawCalls struct {
	mu    sync.Mutex
	byID  map[string]*list.Element // of held
	order list.List                // oldest first
	bytes int
	swept time.Time
}

type held struct {
	id    string
	call  rawCall
	until time.Time
}

// rawUntil is how long an action's call may be needed: until the time to start it is over, wherever its approval
// stands.
func rawUntil(a *store.ActionRow, now time.Time) time.Time {
	if a.DeferExpires.After(now) {
		now = a.DeferExpires
	}
	return now.Add(store.ActionFor)
}

func (m *rawCalls) put(id string, call rawCall, now, until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byID == nil {
		m.byID = map[string]*list.Element{}
	}
	m.drop(m.byID[id])
	if now.Sub(m.swept) >= time.Minute {
		m.sweep(now)
	}
	if call.size() > rawBytes {
		return
	}
	m.byID[id] = m.order.PushBack(&held{id, call, until})
	m.bytes += call.size()
	for m.order.Len() > rawEntries || m.bytes > rawBytes {
		m.drop(m.order.Front())
	}
}

func (m *rawCalls) get(id string, now time.Time) (rawCall, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.byID[id]
	if e == nil {
		return rawCall{}, false
	}
	h := e.Value.(*held)
	if !now.Before(h.until) {
		m.drop(e)
		return rawCall{}, false
	}
	return h.call, true
}

// forget lets go of a call that cannot be started any more.
func (m *rawCalls) forget(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(m.byID[id])
}

// drop takes one off; nil is none. m.mu is held.
func (m *rawCalls) drop(e *list.Element) {
	if e == nil {
		return
	}
	h := e.Value.(*held)
	m.order.Remove(e)
	delete(m.byID, h.id)
	m.bytes -= h.call.size()
}

// sweep drops what is over. m.mu is held.
func (m *rawCalls) sweep(now time.Time) {
	m.swept = now
	for e := m.order.Front(); e != nil; {
		next := e.Next()
		if !now.Before(e.Value.(*held).until) {
			m.drop(e)
		}
		e = next
	}
}
