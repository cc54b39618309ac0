package store

import (
	"container/list"
	"time"
)

// ages has the calls that wait for a person, oldest first: metrics ask for the oldest, however many there are.
type ages struct {
	order list.List                // of agedCall
	at    map[string]*list.Element // by token
}

type agedCall struct {
	token   string
	created time.Time
}

// put makes what is known of a call what it is by now.
func (a *ages) put(d *Defer) {
	e := a.at[d.Token]
	switch {
	case d.Status != Pending && e != nil:
		a.order.Remove(e)
		delete(a.at, d.Token)
	case d.Status == Pending && e == nil:
		if a.at == nil {
			a.at = map[string]*list.Element{}
		}
		before := a.order.Back() // which is older, unless this call waits for the second time
		for before != nil && before.Value.(agedCall).created.After(d.Created) {
			before = before.Prev()
		}
		if call := (agedCall{d.Token, d.Created}); before == nil {
			a.at[d.Token] = a.order.PushFront(call)
		} else {
			a.at[d.Token] = a.order.InsertAfter(call, before)
		}
	}
}

// oldest is how many calls wait for a person, and for how long the oldest has.
func (o *openCalls) oldest(now time.Time) (calls int, age time.Duration) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	if e := o.ages.order.Front(); e != nil {
		age = max(now.Sub(e.Value.(agedCall).created), 0)
	}
	return o.ages.order.Len(), age
}
