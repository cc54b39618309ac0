package edge

import (
	"container/list"
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// Door bounds the connections of one listener. Whoever has not shown who it is yet is a stranger, and a stranger makes
// room: for the next of its own address, and for anybody once all places are taken. So silent connections keep nobody
// out, however many there are and wherever they come from. Whoever has shown a key is counted for that key, and makes
// room, while nothing of its runs, for the next of its key above a share, and for anybody once all places are taken,
// beginning with the key that has most. So one key's connections keep nobody out either. Beyond all places there are
// some for what an operator needs. Safe for concurrent use.
type Door struct {
	most  int // open at once
	each  int // strangers of one address
	share int // of one key
	spare int // places beyond most, for strangers and what is urgent

	mu        sync.Mutex
	open      int
	known     int                   // of them: counted for a key, or served without one
	strangers list.List             // of *Guest, oldest first
	of        map[string]*list.List // the same by address
	keys      map[string]*list.List // known ones by key; those that were idle longest are about first
	evicted   uint64
	refused   uint64
}

// NewDoor makes a Door for most connections at once, of which each address may hold so many as a stranger.
func NewDoor(most, each int) *Door {
	return &Door{most: most, each: min(each, most), share: most, of: map[string]*list.List{},
		keys: map[string]*list.List{}}
}

// Share bounds the connections of one key, and keeps places beyond all others for what is urgent. It is called before
// the first guest enters.
func (d *Door) Share(each int) *Door {
	d.share, d.spare = min(each, d.most), max(2*keptEach, min(d.most/16, spare))
	return d
}

// spare is how many places at most are kept, of which one key has an eighth, or keptEach.
const (
	spare    = 256
	keptEach = 4
)

// The refusals of Begin.
var (
	ErrGone     = errors.New("the connection is closed: its key was stopped, or it has made room for another")
	ErrKeyShare = errors.New("all connections of the key are busy")
	ErrDoorFull = errors.New("all connections are busy")
)

// gone is a busy that no number of requests makes positive.
const gone = -1 << 30

// nobody is whose a guest is that is served without a key.
var nobody = new(string)

// Enter lets a connection in that comes from there ("": from a place that many share), or gives nil when every place is
// taken by somebody busy. shut closes the connection; it is called without a lock, once at most, when the guest has to
// make room.
func (d *Door) Enter(from string, shut func()) *Guest {
	g := &Guest{door: d, from: from, shut: shut}
	d.mu.Lock()
	var out [2]*Guest
	if own := d.of[from]; from != "" && own != nil && own.Len() >= d.each {
		out[0] = d.oldest(own)
	}
	if d.open >= d.most+d.spare {
		if out[1] = d.oldest(&d.strangers); out[1] == nil {
			if out[1] = d.idleOfMost(); out[1] == nil {
				g = nil
				d.refused++
			}
		}
	}
	if g != nil {
		d.open++
		g.join()
	}
	d.mu.Unlock()
	for _, old := range out {
		if old != nil {
			old.shut()
		}
	}
	return g
}

// oldest takes the first of a list of strangers out on which nothing runs; nil if there is none. d.mu is held.
func (d *Door) oldest(l *list.List) *Guest {
	n := 0
	for e := l.Front(); e != nil && n < looks; e = e.Next() {
		if g := e.Value.(*Guest); d.evictGuest(g) {
			return g
		}
		n++
	}
	return nil
}

// looks is how many connections are looked at for one that is idle.
const looks = 256

// idle takes one of a key's connections out on which nothing runs: the first that was not used since it was looked at
// last, or else the first. nil if there is none. d.mu is held.
func (d *Door) idle(l *list.List) *Guest {
	if l == nil {
		return nil
	}
	var first *Guest
	for range min(l.Len(), looks) {
		g := l.Front().Value.(*Guest)
		l.MoveToBack(g.own)
		switch {
		case g.busy.Load() != 0:
		case !g.used.Swap(false):
			if d.evictGuest(g) {
				return g
			}
		case first == nil:
			first = g
		}
	}
	if first != nil && d.evictGuest(first) {
		return first
	}
	return nil
}

// evictGuest takes a guest out unless a request of it has begun. d.mu is held.
func (d *Door) evictGuest(g *Guest) bool {
	if !g.busy.CompareAndSwap(0, gone) {
		return false
	}
	g.leave()
	d.evicted++
	return true
}

// idleOfMost takes an idle connection of the key that has most of them out; nil if there is none. d.mu is held.
func (d *Door) idleOfMost() *Guest {
	var most *list.List
	for _, l := range d.keys {
		if most == nil || l.Len() > most.Len() {
			most = l
		}
	}
	if g := d.idle(most); g != nil {
		return g
	}
	for _, l := range d.keys { // those are all busy
		if g := d.idle(l); g != nil {
			return g
		}
	}
	return nil
}

// WatchEvery is how often connections of stopped keys are looked for.
const WatchEvery = time.Second

// Watch closes the connections of stopped keys again and again until ctx ends.
func (d *Door) Watch(ctx context.Context, every time.Duration, stopped func(key string) bool) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			d.Close(stopped)
		}
	}
}

// Close closes the connections of keys that may have none, once nothing of them runs.
func (d *Door) Close(stopped func(key string) bool) {
	d.mu.Lock()
	keys := make([]string, 0, len(d.keys))
	for key := range d.keys {
		keys = append(keys, key)
	}
	d.mu.Unlock()
	var out []*Guest
	for _, key := range keys {
		if !stopped(strings.TrimSuffix(key, kept)) {
			continue
		}
		d.mu.Lock()
		if l := d.keys[key]; l != nil {
			for e := l.Front(); e != nil; {
				g := e.Value.(*Guest)
				e = e.Next()
				if d.evictGuest(g) {
					out = append(out, g)
				}
			}
		}
		d.mu.Unlock()
	}
	for _, g := range out {
		g.shut()
	}
}

// Counts says how many connections are open and how many of them are strangers, how many had to make room, and how
// often there was no room to be made.
func (d *Door) Counts() (open, strangers int, evicted, refused uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open, d.strangers.Len(), d.evicted, d.refused
}

// Network is what counts as one address: whoever has an IPv6 address has a /64 of them.
func Network(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	if !a.IsValid() {
		return ""
	}
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.String()
		}
	}
	return a.String()
}

// AddrOf is the IP address of a connection's other end; not valid for one that has none.
func AddrOf(a net.Addr) netip.Addr {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	if a == nil {
		return netip.Addr{}
	}
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}
