package edge

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
)

func TestStrangersMakeRoom(t *testing.T) {
	d := NewDoor(4, 2)
	var shut []string
	enter := func(from, name string) *Guest { return d.Enter(from, func() { shut = append(shut, name) }) }
	check := func(want ...string) {
		t.Helper()
		if fmt.Sprint(shut) != fmt.Sprint(want) {
			t.Fatalf("made room: %v, want %v", shut, want)
		}
		shut = nil
	}
	a1, a2 := enter("a", "a1"), enter("a", "a2")
	check()
	a1.Know(true)
	enter("a", "a3") // a2 and a3 are strangers
	check()
	enter("a", "a4")
	check("a2")
	b1 := enter("b", "b1")
	check()
	b1.Know(true)
	enter("c", "c1") // all places are taken: the oldest stranger goes
	check("a3")
	enter("", "p1")
	check("a4")
	for _, g := range []string{"d", "e"} {
		enter(g, g).Know(true)
	}
	check("c1", "p1")
	if enter("f", "f") != nil {
		t.Error("a fifth known guest was let in")
	}
	check()
	a2.Leave()
	a2.Know(true) // it has left
	b1.Know(false)
	if enter("f", "f") == nil {
		t.Error("a guest that is a stranger again made no room")
	}
	check("b1")
	a1.Leave()
	a1.Leave()
	if open, strangers, _, _ := d.Counts(); open != 3 || strangers != 1 {
		t.Errorf("%d open, %d strangers", open, strangers)
	}
}

func TestDoorUnderRaces(t *testing.T) {
	d := NewDoor(8, 4).Share(3)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 500 {
				g := d.Enter(fmt.Sprint((i+j)%3), func() {})
				if g == nil {
					continue
				}
				g.Know(j%2 == 0)
				if g.Begin(fmt.Sprint(j%4), j%5 == 0) == nil {
					g.End()
				}
				if j%50 == 0 {
					d.Close(func(key string) bool { return key == "1" })
				}
				g.Know(j%3 == 0)
				g.Leave()
			}
		})
	}
	wg.Wait()
	if open, strangers, _, _ := d.Counts(); open != 0 || strangers != 0 || len(d.of) != 0 || len(d.keys) != 0 ||
		d.known != 0 {
		t.Errorf("%d open, %d strangers, %d addresses after all have left", open, strangers, len(d.of))
	}
}

func TestBudget(t *testing.T) {
	b := NewBudget(1000<<10, 400<<10)
	take := func(who string, n int64, want error) {
		t.Helper()
		if err := b.Take(who, n); !errors.Is(err, want) {
			t.Fatalf("%s takes %d: %v, want %v", who, n, err, want)
		}
	}
	take("a", 400<<10, nil)
	take("a", 1, ErrOneIsFull)
	take("b", 300<<10, nil)
	take("c", 65<<10, ErrAllIsFull) // the last quarter is for small ones
	take("c", 64<<10, nil)
	b.Give("a", 400<<10)
	take("c", 65<<10, nil)
	b.Give("b", 300<<10)
	b.Give("c", 129<<10)
	if b.Used() != 0 || len(b.of) != 0 {
		t.Errorf("%d bytes held by %d callers after all were given back", b.Used(), len(b.of))
	}
}

func TestClientBehindProxies(t *testing.T) {
	p := Proxies{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for _, c := range []struct {
		peer           string
		xff, forwarded []string
		want           string
	}{
		{"192.0.2.1", []string{"198.51.100.1"}, nil, "192.0.2.1"}, // no proxy of ours says so
		{"10.0.0.1", nil, nil, "10.0.0.1"},
		{"10.0.0.1", []string{"198.51.100.1"}, nil, "198.51.100.1"},
		// what stands before it is the client's own word
		{"10.0.0.1", []string{"203.0.113.9, 198.51.100.1"}, nil, "198.51.100.1"},
		{"10.0.0.1", []string{"203.0.113.9", "198.51.100.1, 10.2.2.2"}, nil, "198.51.100.1"},
		{"10.0.0.1", []string{"10.0.0.7"}, nil, "10.0.0.7"},
		{"10.0.0.1", []string{"198.51.100.1, junk"}, nil, "10.0.0.1"},
		{"10.0.0.1", []string{"junk, 10.3.3.3"}, nil, "10.3.3.3"},
		{"10.0.0.1", []string{"[2001:db8::1]:443"}, nil, "2001:db8::1"},
		{"10.0.0.1", []string{"198.51.100.1:5000"}, nil, "198.51.100.1"},
		{"fd00::1", nil, []string{`for="[2001:db8::2]:80";proto=https`}, "2001:db8::2"},
		{"10.0.0.1", nil, []string{"for=203.0.113.9, for=198.51.100.1;by=x"}, "198.51.100.1"},
		{"10.0.0.1", nil, []string{"for=_hidden"}, "10.0.0.1"},
		{"10.0.0.1", []string{"203.0.113.9"}, []string{"for=198.51.100.1"}, "10.0.0.1"}, // one of them may be the client's
		{"::ffff:10.0.0.1", []string{"198.51.100.1"}, nil, "198.51.100.1"},
	} {
		if got := p.Client(netip.MustParseAddr(c.peer), c.xff, c.forwarded).Unmap().String(); got != c.want {
			t.Errorf("%s %q %q: %s, want %s", c.peer, c.xff, c.forwarded, got, c.want)
		}
	}
	if got := Network(netip.MustParseAddr("2001:db8::1")); got != "2001:db8::/64" {
		t.Error(got)
	}
}

func TestKeysMakeRoom(t *testing.T) {
	d := NewDoor(20, 20).Share(3)
	var shut []string
	begin := func(key, name string) *Guest {
		t.Helper()
		g := d.Enter("", func() { shut = append(shut, name) })
		if err := g.Begin(key, false); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return g
	}
	check := func(want ...string) {
		t.Helper()
		if fmt.Sprint(shut) != fmt.Sprint(want) {
			t.Fatalf("made room: %v, want %v", shut, want)
		}
		shut = nil
	}
	k1, k2, k3 := begin("k", "k1"), begin("k", "k2"), begin("k", "k3")
	over := d.Enter("", func() { shut = append(shut, "over") })
	if err := over.Begin("k", false); !errors.Is(err, ErrKeyShare) {
		t.Errorf("all are busy: %v", err)
	}
	check()
	k2.End()
	if err := over.Begin("k", false); err != nil {
		t.Error(err)
	}
	check("k2")
	if err := k2.Begin("k", false); !errors.Is(err, ErrGone) {
		t.Errorf("a connection that made room: %v", err)
	}
	k1.End()
	k3.End()
	if err := k1.Begin("other", false); err != nil { // a proxy's connection
		t.Error(err)
	}
	begin("k", "k4")
	check()
	d.Close(func(key string) bool { return key == "k" })
	check("k3")
	k1.End()
	d.Close(func(key string) bool { return key == "other" })
	check("k1")
	if open, strangers, evicted, refused := d.Counts(); open != 2 || strangers != 0 || evicted != 3 || refused != 1 {
		t.Errorf("%d open, %d strangers, %d evicted, %d refused", open, strangers, evicted, refused)
	}
}

// The key that has most makes room for all others; what is urgent has places when nobody can.
func TestTheLargestKeyMakesRoom(t *testing.T) {
	d := NewDoor(8, 8).Share(8)
	var shut []string
	enter := func(name string) *Guest { return d.Enter("", func() { shut = append(shut, name) }) }
	var all []*Guest
	for _, key := range []string{"a", "b", "b", "b", "b", "b", "c", "c"} {
		g := enter(key)
		if err := g.Begin(key, false); err != nil {
			t.Fatal(err)
		}
		g.End()
		all = append(all, g)
	}
	g := enter("d")
	if err := g.Begin("d", false); err != nil || fmt.Sprint(shut) != "[b]" {
		t.Errorf("%v %v", shut, err)
	}
	for i, key := range []string{"a", "b", "b", "b", "b", "b", "c", "c"} {
		if err := all[i].Begin(key, false); err != nil && !errors.Is(err, ErrGone) {
			t.Fatal(err)
		}
	}
	if err := enter("e").Begin("e", false); !errors.Is(err, ErrDoorFull) {
		t.Errorf("all are busy: %v", err)
	}
	for i := range keptEach + 1 {
		if err := enter("boss").Begin("boss", true); (err == nil) != (i < keptEach) {
			t.Errorf("urgent %d: %v", i, err)
		}
	}
	if err := enter("other").Begin("other", true); err != nil {
		t.Errorf("one key has all places that are kept: %v", err)
	}
	for range 100 {
		if enter("silent") == nil {
			break
		}
	}
	if open, _, _, _ := d.Counts(); open != 8+d.spare {
		t.Errorf("%d open", open)
	}
}
