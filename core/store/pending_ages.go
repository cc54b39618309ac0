package store

import (
	"cmp"
	"strings"
	"time"

	"github.com/RaduBerinde/btreemap"
)

// ages are the calls that wait for a person, by their age.
type ages struct {
	calls *btreemap.BTreeMap[agedCall, struct{}]
	at    map[string]agedCall // by token
}

type agedCall struct {
	created int64 // ns
	token   string
}

func (a *ages) begin() {
	a.calls = btreemap.New[agedCall, struct{}](32, func(a, b agedCall) int {
		return cmp.Or(cmp.Compare(a.created, b.created), strings.Compare(a.token, b.token))
	})
	a.at = map[string]agedCall{}
}

// put makes what is known of a call what it is by now.
func (a *ages) put(d *Defer) {
	call, known := a.at[d.Token]
	switch {
	case d.Status != Pending && known:
		a.calls.Delete(call)
		delete(a.at, d.Token)
	case d.Status == Pending && !known:
		call = agedCall{d.Created.UnixNano(), d.Token}
		a.calls.ReplaceOrInsert(call, struct{}{})
		a.at[d.Token] = call
	}
}

// oldest is how many calls wait for a person, and for how long the oldest has.
func (o *openCalls) oldest(now time.Time) (calls int, age time.Duration) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	if first, _, ok := o.ages.calls.Min(); ok {
		age = max(now.Sub(time.Unix(0, first.created)), 0)
	}
	return len(o.ages.at), age
}
