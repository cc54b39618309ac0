package authzen

import (
	"sync"
	"time"
)

// memory keeps short notes per API key until their time is over, a bounded number of each key's.
type memory struct {
	most int // notes of one key

	mu   sync.Mutex
	keys map[string]map[[32]byte]note
}

type note struct {
	value [32]byte
	until time.Time
}

func newMemory(most int) *memory {
	return &memory{most: most, keys: map[string]map[[32]byte]note{}}
}

// get gives the note of that name, if its time is not over.
func (m *memory) get(key string, name [32]byte, now time.Time) (value [32]byte, found bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, found := m.keys[key][name]
	if !found || now.After(n.until) {
		return value, false
	}
	return n.value, true
}

// put keeps a note, and says whether there was room for it.
func (m *memory) put(key string, name, value [32]byte, now, until time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	notes := m.keys[key]
	if notes == nil {
		notes = map[[32]byte]note{}
		m.keys[key] = notes
	}
	if _, there := notes[name]; !there && len(notes) >= m.most {
		for old, n := range notes {
			if now.After(n.until) {
				delete(notes, old)
			}
		}
		if len(notes) >= m.most {
			return false
		}
	}
	notes[name] = note{value, until}
	return true
}

// drop forgets any one note of a key, so that there is room for another.
func (m *memory) drop(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.keys[key] {
		delete(m.keys[key], name)
		return
	}
}
