package edge

import "testing"

// However many requests of some callers there are, one that has few finds room, and what is urgent of it a little more.
func TestCrowdKeepsNobodyOut(t *testing.T) {
	c := NewCrowd(1000, 10)
	enter := func(caller string, urgent bool) (n int) {
		for c.Enter(caller, urgent) {
			n++
		}
		return n
	}
	if n := enter("greedy", false); n != 750 {
		t.Errorf("one caller alone has %d of 1000", n)
	}
	if n := enter("greedy", true); n != 15 {
		t.Errorf("its urgent ones add %d", n)
	}
	for range 15 {
		c.Leave("greedy", true)
	}
	if n := enter("second", false); n != 15 {
		t.Errorf("the next one has %d", n)
	}
	few := map[string]int{"second": 15}
	for i := 0; c.Size() < 1000; i++ {
		few[string(rune('a'+i))] = enter(string(rune('a'+i)), false)
	}
	if c.Enter("late", false) {
		t.Error("a full crowd lets another one in")
	}
	if n := enter("late", true); n != 10 {
		t.Errorf("%d urgent ones fit beyond all, want 10", n)
	}
	for range 10 {
		c.Leave("late", true)
	}
	for caller, n := range few {
		for range n {
			c.Leave(caller, false)
		}
	}
	for range 750 {
		c.Leave("greedy", false)
	}
	if c.Size() != 0 || len(c.of) != 0 {
		t.Errorf("%d are left, %v", c.Size(), c.of)
	}
}

// A small crowd is shared out by turns of nobody: each caller has few there.
func TestSmallCrowdIsUsedWhole(t *testing.T) {
	c := NewCrowd(4, 1)
	for i := range 4 {
		if !c.Enter("one", false) {
			t.Errorf("only %d of 4", i)
		}
	}
	if c.Enter("one", false) || !c.Enter("one", true) || c.Enter("other", true) {
		t.Error("what is urgent has one place beyond all")
	}
}
