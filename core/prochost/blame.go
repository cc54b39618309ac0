package prochost

import (
	"sync"
	"time"
)

const (
	blameKeys = 256             // whose calls are remembered
	blameKept = 5 * time.Minute // how long what came of a key's last call says something
)

// blame tells a plugin that fails from a key whose calls fail. The breaker refuses every key, so it must not hear of the calls that one key
// makes slow or wrong while the plugin serves all others.
type blame struct {
	mu   sync.Mutex
	last map[string]last // by key
}

// last is what came of a key's last call.
type last struct {
	well bool
	at   time.Time
}

// of notes what came of a key's call, and gives what the breaker is to hear of it: nothing of a failure while the last call of every other
// key went well. A key that is alone is always heard.
func (b *blame) of(key string, came outcome, now time.Time) outcome {
	if came == wentUnknown {
		return came
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last == nil {
		b.last = map[string]last{}
	}
	if _, known := b.last[key]; !known && len(b.last) >= blameKeys {
		b.forget(now)
	}
	b.last[key] = last{came == wentWell, now}
	if came == wentWell {
		return came
	}
	others := false
	for k, l := range b.last {
		if k == key || now.Sub(l.at) > blameKept {
			continue
		}
		if !l.well {
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
