package prochost

import (
	"cmp"
	"sync"
	"time"
)

const (
	blameKeys = 256             // whose calls are remembered
	blameKept = 5 * time.Minute // how long what came of a key's last calls says something
	blameMost = time.Minute     // the longest pause between a key's trials, unless the breaker's delay is longer
	blameWait = 5 * time.Second // the first one, of a plugin without a breaker
)

// blame distinguishes a plugin that fails from a key whose calls fail. While the plugin serves all other keys, the
// breaker must not count the failures of one key. If it has counted them, because nobody else had called, it must not
// refuse the others.
//
// While the breaker is open, each key whose calls failed has trials of its own: one after the breaker's delay, and
// after each that fails twice as long. One that goes well frees the key. So a key that goes on failing keeps nobody
// else from a plugin that is well again.
type blame struct {
	delay time.Duration // of the breaker

	mu   sync.Mutex
	last map[string]last // by key
}

// lastCalls is how many calls of a key are remembered.
const lastCalls = 4

// last is how the last calls of a key ended.
type last struct {
	failed [lastCalls]bool // the newest first
	at     time.Time

	wait   time.Duration // between the trials of a key whose calls failed; 0: it needs none
	until  time.Time     // no trial before
	trying bool
}

// well says whether fewer than half of them failed.
func (l *last) well() bool {
	n := 0
	for _, failed := range l.failed {
		if failed {
			n++
		}
	}
	return 2*n < lastCalls
}

// clear says whether an open breaker lets a call of a key pass: its own last calls went well, there were none, or a
// trial is due, which spend takes. Where there are more keys than can be remembered, a key may have failed and be
// forgotten. It passes unless half of the remembered ones fail, or a plugin that hangs would make each of its calls
// late.
func (b *blame) clear(key string, now time.Time, spend bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	l, known := b.last[key]
	switch {
	case known && (l.wait == 0 || now.Sub(l.at) > blameKept):
		return true
	case known:
		due := !now.Before(l.until)
		if due && spend {
			l.until, l.trying = now.Add(l.wait), true
			b.last[key] = l
		}
		return due
	case len(b.last) < blameKeys:
		return true
	}
	recent, failing := 0, 0
	for _, l := range b.last {
		if now.Sub(l.at) > blameKept {
			continue
		}
		if recent++; !l.well() {
			failing++
		}
	}
	return recent < blameKeys || 2*failing < recent
}

// of notes how a key's call ended, and returns what the breaker is told. A failure is not told while the last calls of
// every other key went well. If no other key calls, everything is told.
func (b *blame) of(key string, came outcome, now time.Time) outcome {
	if came == wentUnknown {
		return came
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last == nil {
		b.last = map[string]last{}
	}
	l, known := b.last[key]
	if !known && len(b.last) >= blameKeys {
		b.forget(now)
	}
	if now.Sub(l.at) > blameKept { // too old to say anything, or new: one failure of a single call is enough
		l = last{}
		for i := range l.failed {
			l.failed[i] = came != wentWell
		}
	}
	copy(l.failed[1:], l.failed[:])
	l.failed[0], l.at = came != wentWell, now
	switch {
	case came == wentWell:
		l.wait, l.trying = 0, false
	case !l.well() && (l.wait == 0 || l.trying):
		first := cmp.Or(b.delay, blameWait)
		l.wait, l.trying = min(max(2*l.wait, first), max(blameMost, first)), false
		l.until = now.Add(l.wait)
	}
	b.last[key] = l
	if came == wentWell {
		return came
	}
	others := false
	for k, l := range b.last {
		if k == key || now.Sub(l.at) > blameKept {
			continue
		}
		if !l.well() {
			return came
		}
		others = true
	}
	if others {
		return wentUnknown
	}
	return came
}

// forget drops what is too old to say anything, or else the oldest. b.mu is held.
func (b *blame) forget(now time.Time) {
	oldest := ""
	for k, l := range b.last {
		if now.Sub(l.at) > blameKept {
			delete(b.last, k)
		} else if o, some := b.last[oldest]; !some || l.at.Before(o.at) {
			oldest = k
		}
	}
	if len(b.last) >= blameKeys {
		delete(b.last, oldest)
	}
}
