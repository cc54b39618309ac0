package store

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestClockBetweenLooks: the uptime is not looked at for each call, and nothing hides in between: the clock never goes
// back, and a wall clock that runs twice as fast comes to be in doubt as if each call had looked.
func TestClockBetweenLooks(t *testing.T) {
	c, k := newTwoClocks()
	asked := 0
	k.up = func() time.Duration { asked++; return c.up() }
	k.begin(clockState{})
	for asked = 0; c.up() < time.Hour+time.Second; c.pass(100 * time.Microsecond) {
		if got := k.look(); got.Now != c.wall() || got.Doubt() != 0 {
			t.Fatalf("it says %+v at %v", got, c.wall())
		}
	}
	if asked > 101 {
		t.Errorf("the uptime was looked at %d times in a second", asked)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for last := k.look(); c.up() < time.Hour+3*time.Second; c.move(time.Duration(rng.IntN(8000)-3000)*time.Microsecond,
		time.Millisecond) {
		is := k.look()
		if is.Now.Before(last.Now) {
			t.Fatalf("it goes back by %v", last.Now.Sub(is.Now))
		}
		last = is
	}
	for _, looks := range []time.Duration{time.Millisecond, 2 * clockFine} {
		c, k := newTwoClocks()
		k.begin(clockState{})
		last := k.look()
		for last.Doubt() == 0 && c.up() < 2*time.Hour {
			c.move(2*looks, looks)
			is := k.look()
			if is.Now.Before(last.Now) {
				t.Fatalf("it goes back by %v", last.Now.Sub(is.Now))
			}
			last = is
		}
		if after := c.up() - time.Hour; after < clockSlack || after > clockSlack+clockSlack/100 {
			t.Errorf("twice as fast, looked at every %v, it is in doubt after %v", looks, after)
		}
	}
}
