package store

import (
	"container/heap"
	"time"
)

// due is when to look at a live deferred call next. There is one for each.
type due struct {
	at    time.Time
	d     *Defer
	place int // in the heap
}

// dues is a heap, the soonest first.
type dues []*due

func (h dues) Len() int { return len(h) }
func (h dues) Less(i, j int) bool {
	return h[i].at.Before(h[j].at) || h[i].at.Equal(h[j].at) && h[i].d.Token < h[j].d.Token
}
func (h dues) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push implements heap.Interface.
func (h *dues) Push(x any) {
	x.(*due).place = len(*h)
	*h = append(*h, x.(*due))
}

// Pop implements heap.Interface.
func (h *dues) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return x
}

// remind makes the sequencer look at d at that time, and not at the one that it was reminded of before.
func (st *state) remind(d *Defer, at time.Time) {
	if was := st.dueOf[d.Token]; was != nil {
		was.at, was.d = at, d
		heap.Fix(&st.dues, was.place)
		return
	}
	is := &due{at: at, d: d}
	st.dueOf[d.Token] = is
	heap.Push(&st.dues, is)
}

// unremind takes a call that has ended off the heap.
func (st *state) unremind(token string) {
	if was := st.dueOf[token]; was != nil {
		delete(st.dueOf, token)
		heap.Remove(&st.dues, was.place)
	}
}

// next is when the sequencer has to look at a deferred call; zero if there is none.
func (st *state) next() time.Time {
	if len(st.dues) == 0 {
		return time.Time{}
	}
	return st.dues[0].at
}

// expire ends live deferred calls whose time is over, a share of them.
func (tx *tx) expire() {
	st := tx.st
	for range tx.s.set.share {
		if len(st.dues) == 0 || tx.now.Before(st.dues[0].at) {
			return
		}
		d := st.dues[0].d
		switch {
		case st.live[d.Token] != d:
			st.unremind(d.Token)
		case tx.denyDoomed(d) || tx.expireNow(d) || tx.denyOrphan(d):
		default:
			st.remind(d, tx.s.ends(d)) // its time was put off
		}
	}
}
