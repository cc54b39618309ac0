package prochost

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/yett-dev/yett/core/chain"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
)

const (
	maxKey   = 16 << 10 // bytes of what a key is made of: calls with more are not cached
	plainKey = 128      // bytes of a key that is kept as it is; of longer ones a hash is, so that entries bound the memory
)

// keyField is one field of a call that an answer depends on.
type keyField struct {
	text   func(*chain.Call) string      // or
	value  func(*chain.Call) exact.Value //
	member string                        // of value; "" is the whole
}

var keyTexts = map[string]func(*chain.Call) string{
	"key_id":     func(c *chain.Call) string { return c.KeyID },
	"key_name":   func(c *chain.Call) string { return c.KeyName },
	"agent_id":   func(c *chain.Call) string { return c.AgentID },
	"session_id": func(c *chain.Call) string { return c.SessionID },
	"tool_id":    func(c *chain.Call) string { return c.ToolID },
	"operation":  func(c *chain.Call) string { return c.Operation },
}

var keyValues = map[string]func(*chain.Call) exact.Value{
	"args":    func(c *chain.Call) exact.Value { return c.Args },
	"context": func(c *chain.Call) exact.Value { return c.Context },
}

func parseKeyField(name string) (keyField, bool) {
	if len(name) > maxKeyField {
		return keyField{}, false
	}
	if text, ok := keyTexts[name]; ok {
		return keyField{text: text}, true
	}
	whole, member, dotted := strings.Cut(name, ".")
	value, ok := keyValues[whole]
	if !ok || dotted && member == "" {
		return keyField{}, false
	}
	return keyField{value: value, member: member}, true
}

// append adds the field: its length, plus one so that what is not there differs from what is empty, and its text as it
// was sent. Two texts of one value make two keys, which costs a question and never a wrong answer.
func (f *keyField) append(b []byte, c *chain.Call) []byte {
	var s string
	there := true
	if f.text != nil {
		s = f.text(c)
	} else {
		v := f.value(c)
		if f.member != "" {
			v = v.Get(f.member)
		}
		s, there = v.Raw(), v.Exists()
	}
	if !there {
		return binary.AppendUvarint(b, 0)
	}
	return append(binary.AppendUvarint(b, uint64(len(s))+1), s...)
}

// cache keeps verdicts for as long as the plugin allows. Its memory is bounded by the number of entries: the oldest
// goes.
type cache struct {
	maxTTL time.Duration
	epoch  atomic.Uint64 // counts what makes all entries void: a plugin that ended
	hits   atomic.Uint64
	missed atomic.Uint64

	mu      sync.Mutex
	entries map[string]cached
	order   []string // a ring of the keys, oldest at next
	next    int
}

type cached struct {
	verdict sdk.Verdict
	until   time.Time
	epoch   uint64
	slot    int // in order
}

func newCache(c Cache) *cache {
	if c.Entries <= 0 {
		return nil
	}
	return &cache{maxTTL: c.MaxTTL, entries: map[string]cached{}, order: make([]string, 0, min(c.Entries, 1024)),
		next: -c.Entries}
}

// keyOf is nil when the call cannot be cached. A hash is longer than any key that is kept as it is, so the two never
// meet.
func keyOf(fields []keyField, c *chain.Call, b []byte) []byte {
	for i := range fields {
		if b = fields[i].append(b, c); len(b) > maxKey {
			return nil
		}
	}
	if len(b) <= plainKey {
		return b
	}
	sum := sha256.Sum256(b)
	b = append(b[:0], sum[:]...)
	return append(b, make([]byte, plainKey+1-len(sum))...)
}

// get looks a key up. epoch is to be handed to put.
func (c *cache) get(key []byte, now time.Time) (v sdk.Verdict, epoch uint64, ok bool) {
	epoch = c.epoch.Load()
	c.mu.Lock()
	e, there := c.entries[string(key)]
	c.mu.Unlock()
	if !there || e.epoch != epoch || !now.Before(e.until) {
		c.missed.Add(1)
		return sdk.Verdict{}, epoch, false
	}
	c.hits.Add(1)
	v = e.verdict
	v.TTL = e.until.Sub(now)
	return v, epoch, true
}

// put keeps a PERMIT or a DENY from now (when it was asked for) on. A DEFER is a person's business each time.
func (c *cache) put(key []byte, v *sdk.Verdict, now time.Time, epoch uint64) {
	if v.TTL <= 0 || v.Effect != sdk.Permit && v.Effect != sdk.Deny || epoch != c.epoch.Load() {
		return
	}
	e := cached{verdict: *v, until: now.Add(min(v.TTL, c.maxTTL)), epoch: epoch}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, there := c.entries[string(key)]; there {
		e.slot = old.slot
		c.entries[string(key)] = e
		return
	}
	k := string(key)
	if c.next < 0 { // room is left
		c.order = append(c.order, k)
		e.slot = len(c.order) - 1
		c.next++
	} else {
		delete(c.entries, c.order[c.next])
		c.order[c.next], e.slot = k, c.next
		c.next = (c.next + 1) % len(c.order)
	}
	c.entries[k] = e
}

// drop makes all that is kept void, and all that was asked for before.
func (c *cache) drop() {
	if c != nil {
		c.epoch.Add(1)
	}
}
