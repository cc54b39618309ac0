package edge

import (
	"container/list"
	"strings"
	"sync/atomic"
)

// Guest is one connection. Its methods may be called by any goroutine, more than once.
type Guest struct {
	door *Door
	from string // "" is not counted by address
	shut func()
	key  atomic.Pointer[string] // whose it is; nil: a stranger's. Changed under door.mu
	busy atomic.Int32           // requests that run; far below 0 once it has made room
	used atomic.Bool            // since it was looked at last

	// under door.mu
	left    bool
	any, of *list.Element // its places among the strangers; nil: none
	own     *list.Element // its place among those of its key
}

// join puts the guest among the strangers. door.mu is held.
func (g *Guest) join() {
	d := g.door
	g.key.Store(nil)
	g.any = d.strangers.PushBack(g)
	if g.from == "" {
		return
	}
	if d.of[g.from] == nil {
		d.of[g.from] = list.New()
	}
	g.of = d.of[g.from].PushBack(g)
}

// part takes the guest from among the strangers, or from among those of its key. door.mu is held.
func (g *Guest) part() {
	d := g.door
	if g.any != nil {
		d.strangers.Remove(g.any)
	}
	if g.of != nil {
		own := d.of[g.from]
		if own.Remove(g.of); own.Len() == 0 {
			delete(d.of, g.from)
		}
	}
	if key := g.key.Load(); key != nil {
		d.known--
		if g.own != nil {
			l := d.keys[*key]
			if l.Remove(g.own); l.Len() == 0 {
				delete(d.keys, *key)
			}
		}
	}
	g.any, g.of, g.own = nil, nil, nil
}

// leave gives the guest's place back. door.mu is held.
func (g *Guest) leave() {
	if g.left {
		return
	}
	g.left = true
	g.door.open--
	g.part()
	g.key.Store(nil)
}

// Leave gives the guest's place back.
func (g *Guest) Leave() {
	g.door.mu.Lock()
	defer g.door.mu.Unlock()
	g.leave()
}

// Know says whether the guest has shown who it is, where nobody has a key, or that it is not known any more. It is
// called for every request: what does not change costs one look.
func (g *Guest) Know(known bool) {
	if g == nil || (g.key.Load() != nil) == known {
		return
	}
	g.door.mu.Lock()
	defer g.door.mu.Unlock()
	if g.left || (g.key.Load() != nil) == known {
		return
	}
	g.part()
	if known {
		g.key.Store(nobody)
		g.door.known++
	} else {
		g.join()
	}
}

// Begin counts a request of that key in, until End. An error says why the connection has no place among those that are
// known; it is a stranger then, and there is no End. What is urgent has a few places of those that are kept, for each
// key.
func (g *Guest) Begin(key string, urgent bool) error {
	if g == nil {
		return nil
	}
	if g.busy.Add(1) <= 0 {
		return ErrGone
	}
	if !g.used.Load() {
		g.used.Store(true)
	}
	if is := g.key.Load(); is != nil && is != nobody && *is == key {
		return nil
	}
	out, err := g.become(key, urgent)
	if out != nil {
		out.shut()
	}
	if err != nil {
		g.busy.Add(-1)
	}
	return err
}

// become counts the guest for a key, and gives who has to make room for it.
func (g *Guest) become(key string, urgent bool) (out *Guest, err error) {
	d := g.door
	d.mu.Lock()
	defer d.mu.Unlock()
	if g.left {
		return nil, ErrGone
	}
	was := g.key.Load()
	switch l := d.keys[key]; {
	case l != nil && l.Len() >= d.share:
		if out = d.idle(l); out == nil {
			if err = ErrKeyShare; d.share >= d.most {
				err = ErrDoorFull
			}
		}
	case (was == nil || isKept(*was)) && d.known >= d.most:
		if out = d.idleOfMost(); out == nil {
			err = ErrDoorFull
		}
	}
	if err != nil && urgent {
		key += kept
		if was != nil && *was == key {
			return nil, nil
		}
		if l := d.keys[key]; l == nil || l.Len() < max(keptEach, d.spare/8) {
			err = nil
		} else if out = d.idle(l); out != nil {
			err = nil
		}
	}
	if g.part(); err != nil {
		d.refused++
		g.join()
		return nil, err
	}
	g.key.Store(&key)
	d.known++
	l := d.keys[key]
	if l == nil {
		l = list.New()
		d.keys[key] = l
	}
	g.own = l.PushBack(g)
	return out, nil
}

// kept is behind the key of a connection that has one of the places that are kept.
const kept = "\x00"

func isKept(key string) bool { return strings.HasSuffix(key, kept) }

// End counts a request out that Begin has counted in.
func (g *Guest) End() {
	if g != nil {
		g.busy.Add(-1)
	}
}
