package edge

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
)

// Door bounds the connections of one listener. Whoever has not shown who it is yet is a stranger, and a stranger makes room:
// for the next of its own address, and for anybody once all places are taken. So silent connections keep nobody out, however
// many there are and wherever they come from. Safe for concurrent use.
type Door struct {
	most int // open at once
	each int // strangers of one address

	mu        sync.Mutex
	open      int
	strangers list.List             // of *Guest, oldest first
	of        map[string]*list.List // the same by address
}

// NewDoor makes a Door for most connections at once, of which each address may hold so many as a stranger.
func NewDoor(most, each int) *Door {
	return &Door{most: most, each: min(each, most), of: map[string]*list.List{}}
}

// Guest is one connection. Its methods may be called by any goroutine, more than once.
type Guest struct {
	door *Door
	from string // "" is not counted by address
	shut func()
	seen atomic.Bool // it is no stranger; changed under door.mu

	// under door.mu
	left    bool
	any, of *list.Element // its places among the strangers; nil: none
}

// Enter lets a connection in that comes from there ("": from a place that many share), or gives nil when every place is taken
// by somebody known. shut closes the connection; it is called without a lock, once at most, when the guest has to make room.
func (d *Door) Enter(from string, shut func()) *Guest {
	g := &Guest{door: d, from: from, shut: shut}
	d.mu.Lock()
	var out [2]*Guest
	if own := d.of[from]; from != "" && own != nil && own.Len() >= d.each {
		out[0] = d.oldest(own)
	}
	if d.open >= d.most {
		if out[1] = d.oldest(&d.strangers); out[1] == nil {
			g = nil
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

// oldest takes the first of a list out; nil if there is none. d.mu is held.
func (d *Door) oldest(l *list.List) *Guest {
	front := l.Front()
	if front == nil {
		return nil
	}
	g := front.Value.(*Guest)
	g.leave()
	return g
}

// join puts the guest among the strangers. door.mu is held.
func (g *Guest) join() {
	d := g.door
	g.any = d.strangers.PushBack(g)
	if g.from == "" {
		return
	}
	if d.of[g.from] == nil {
		d.of[g.from] = list.New()
	}
	g.of = d.of[g.from].PushBack(g)
}

// part takes the guest from among the strangers. door.mu is held.
func (g *Guest) part() {
	if g.any != nil {
		g.door.strangers.Remove(g.any)
	}
	if g.of != nil {
		own := g.door.of[g.from]
		if own.Remove(g.of); own.Len() == 0 {
			delete(g.door.of, g.from)
		}
	}
	g.any, g.of = nil, nil
}

// leave gives the guest's place back. door.mu is held.
func (g *Guest) leave() {
	if g.left {
		return
	}
	g.left = true
	g.door.open--
	g.part()
}

// Leave gives the guest's place back.
func (g *Guest) Leave() {
	g.door.mu.Lock()
	defer g.door.mu.Unlock()
	g.leave()
}

// Know says whether the guest has shown who it is. It is called for every request: what does not change costs one look.
func (g *Guest) Know(known bool) {
	if g == nil || g.seen.Load() == known {
		return
	}
	g.door.mu.Lock()
	defer g.door.mu.Unlock()
	if g.left || g.seen.Load() == known {
		return
	}
	g.seen.Store(known)
	if known {
		g.part()
	} else {
		g.join()
	}
}

// Counts says how many connections are open, and how many of them are strangers.
func (d *Door) Counts() (open, strangers int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open, d.strangers.Len()
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
