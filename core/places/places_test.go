package places

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

// taker asks for places, and knows when one who asks has a place or waits.
type taker struct {
	t *testing.T
	p *Places
}

func (a taker) take(key string) chan error {
	got := make(chan error, 1)
	before := a.p.Waiting()
	go func() { got <- a.p.Take(context.Background(), key, time.Time{}) }()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(time.Minute); ; <-tick.C {
		if len(got) == 1 || a.p.Waiting() > before {
			return got
		}
		if time.Now().After(limit) {
			a.t.Fatal("neither a place nor in the queue")
		}
	}
}

func (a taker) has(key string) {
	a.t.Helper()
	if got := a.take(key); len(got) != 1 {
		a.t.Fatalf("no place for %q", key)
	} else if err := <-got; err != nil {
		a.t.Fatalf("%q: %v", key, err)
	}
}

// One key may have all places; a key that has none gets the spare one at once, and the next that is free before those
// that have some.
func TestSpare(t *testing.T) {
	a := taker{t, New(Rules{Most: 2, Spare: true, Queue: -1})}
	for _, key := range []string{"a", "a", "b"} {
		a.has(key)
	}
	third, second, c := a.take("a"), a.take("b"), a.take("c")
	if len(third)+len(second)+len(c) != 0 {
		t.Fatal("more places than there are")
	}
	a.p.Give("a")
	if err := <-c; err != nil || len(third)+len(second) != 0 {
		t.Errorf("the key that had none was not first: %v", err)
	}
	a.p.Give("a")
	if err := <-third; err != nil { // a has none by now
		t.Error(err)
	}
	left, cancel := context.WithCancel(context.Background())
	cancel()
	if err := a.p.Take(left, "b", time.Time{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a place for who has gone: %v", err)
	}
	if err := a.p.Take(context.Background(), "b", time.Now()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a place for who is late: %v", err)
	}
	a.p.Close()
	a.p.Close()
	if err := <-second; !errors.Is(err, ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
	if err := a.p.Take(context.Background(), "z", time.Time{}); !errors.Is(err, ErrClosed) {
		t.Errorf("a place after the end: %v", err)
	}
	for _, key := range []string{"a", "b", "c"} {
		a.p.Give(key)
	}
	if err := a.p.Wait(context.Background()); err != nil || a.p.InUse()+a.p.Waiting()+len(a.p.held)+len(a.p.queues) != 0 {
		t.Errorf("left: %+v, %v", a.p, err)
	}
}

// Without a spare place there are never more than so many, and the last of several is kept for a key that has none.
func TestLastIsKept(t *testing.T) {
	a := taker{t, New(Rules{Most: 3, Queue: -1})}
	a.has("a")
	a.has("a")
	third := a.take("a")
	if len(third) != 0 {
		t.Fatal("one key has all places")
	}
	a.has("b")
	c := a.take("c")
	if len(c) != 0 {
		t.Fatal("more places than there are")
	}
	a.p.Give("b")
	if err := <-c; err != nil || len(third) != 0 {
		t.Errorf("the last place went to a key that has others: %v", err)
	}
	a.p.Give("a")
	a.p.Give("c")
	if err := <-third; err != nil {
		t.Error(err)
	}
	for range 2 {
		a.p.Give("a")
	}
	nobodys := taker{t, New(Rules{Most: 2, Queue: -1})}
	nobodys.has("")
	nobodys.has("")
	single := taker{t, New(Rules{Most: 1, Queue: -1})}
	single.has("a")
	limited := taker{t, New(Rules{Most: 9, Queue: -1})}
	limited.p.Limit(2)
	limited.p.Limit(5)
	limited.has("a")
	if len(limited.take("a")) != 0 {
		t.Error("more than the limit")
	}
}

// A full queue has room for a key that has less in it than another one, which gives its last place up.
func TestQueueIsShared(t *testing.T) {
	a := taker{t, New(Rules{Most: 1, Queue: 3})}
	a.has("a")
	first, second, third := a.take("a"), a.take("a"), a.take("a")
	if err := a.p.Take(context.Background(), "a", time.Time{}); !errors.Is(err, ErrFull) {
		t.Fatalf("a fourth of one key: %v", err)
	}
	b := make(chan error, 1)
	go func() { b <- a.p.Take(context.Background(), "b", time.Time{}) }()
	if err := <-third; !errors.Is(err, ErrFull) {
		t.Errorf("who made room: %v", err)
	}
	if err := a.p.Take(context.Background(), "b", time.Time{}); !errors.Is(err, ErrFull) {
		t.Errorf("a second of another key, which would have as many as the first: %v", err)
	}
	a.p.Give("a")
	for n, got := range []chan error{first, b, second} { // keys take turns
		if err := <-got; err != nil {
			t.Errorf("%d: %v", n, err)
		}
		a.p.Give([]string{"a", "b", "a"}[n])
	}
	if a.p.InUse()+a.p.Waiting()+len(a.p.held)+len(a.p.queues)+len(a.p.order) != 0 {
		t.Errorf("left: %+v", a.p)
	}
}

// Whatever comes, goes or gives up, there are never more than so many, and nothing is left in the end.
func TestNothingIsLeft(t *testing.T) {
	for _, r := range []Rules{{Most: 3, Queue: 5}, {Most: 3, Spare: true, Queue: -1}, {Most: 1, Queue: 0}} {
		p := New(r)
		var mu sync.Mutex
		running, most := 0, r.Most
		if r.Spare {
			most++
		}
		var all sync.WaitGroup
		for n := range 64 {
			key := string(rune('a' + n%3))
			all.Go(func() {
				for i := range 50 {
					ctx, cancel := context.WithCancel(context.Background())
					if (i+n)%3 == 0 {
						cancel()
					}
					if err := p.Take(ctx, key, time.Now().Add(time.Duration(i)*20*time.Microsecond)); err == nil {
						mu.Lock()
						if running++; running > most {
							t.Errorf("%+v: %d at once", r, running)
						}
						mu.Unlock()
						mu.Lock()
						running--
						mu.Unlock()
						p.Give(key)
					}
					cancel()
				}
			})
		}
		all.Wait()
		p.Close()
		if err := p.Wait(context.Background()); err != nil || len(p.held)+len(p.queues)+len(p.order)+p.waiting != 0 {
			t.Errorf("%+v: left %+v, %v", r, p, err)
		}
	}
}
