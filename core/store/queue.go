package store

import (
	"cmp"
	"slices"

	"github.com/yett-dev/yett/sdk"
)

// The bounds of one batch, and what a command without texts is taken to weigh: its record and its rows.
const (
	batchBytes = 4 << 20
	baseBytes  = 768
	turnBytes  = 64 << 10 // what a key may add to a full batch in its turn
)

// Bounds of what waits for the next batches, where Settings give none.
const (
	queuedPerKey = 32 << 20
	queuedInAll  = 256 << 20
)

// queue is what waits for the sequencer. Kills and revocations go first. The rest goes in the order in which it came
// while all of it fits into one batch; beyond that keys take turns, by bytes: one key's large records do not hold up
// another's.
type queue struct {
	first []*ticket
	rest  []*ticket
	bytes int            // of rest
	of    map[string]int // bytes of each key in rest
	round uint64         // batches that were too small for what waited
	last  map[string]uint64
}

func (q *queue) len() int { return len(q.first) + len(q.rest) }

// add appends a ticket, or says why it has no room.
func (q *queue) add(t *ticket, set *Settings) error {
	if t.urgent {
		q.first = append(q.first, t)
		return nil
	}
	held := q.of[t.owner]
	switch {
	case t.owner == "": // the gateway's own: cursors, notes, what operators do on the machine
	case held > 0 && held+t.bytes > set.QueuedPerKey:
		return sdk.Errf(sdk.CodeTooManyRequests, "this key has %d bytes waiting to be written, and the limit is %d "+
			"(limits.queued_per_key); send fewer large calls at once", held, set.QueuedPerKey)
	case q.bytes > 0 && q.bytes+t.bytes > set.Queued:
		return sdk.Errf(sdk.CodeTooManyRequests, "all keys together have %d bytes waiting to be written, and the limit is "+
			"%d (limits.queued)", q.bytes, set.Queued)
	}
	q.rest = append(q.rest, t)
	q.bytes += t.bytes
	if t.owner != "" {
		q.of[t.owner] = held + t.bytes
	}
	return nil
}

// clear forgets everything.
func (q *queue) clear() {
	clear(q.first)
	clear(q.rest)
	clear(q.of)
	clear(q.last)
	q.first, q.rest, q.bytes = q.first[:0], q.rest[:0], 0
}

// next appends the next batch to into, which is empty, and takes it off the queue.
func (q *queue) next(into []*ticket) []*ticket {
	into = append(into, q.first...)
	clear(q.first)
	q.first = q.first[:0]
	if q.bytes <= batchBytes {
		into = append(into, q.rest...)
		q.clear()
		return into
	}
	picked := q.share()
	left := q.rest[:0]
	for _, t := range q.rest {
		if picked[t] {
			into = append(into, t) // within a batch the order stays the one in which they came
			q.removeTicket(t)
		} else {
			left = append(left, t)
		}
	}
	clear(q.rest[len(left):])
	q.rest = left
	return into
}

func (q *queue) removeTicket(t *ticket) {
	q.bytes -= t.bytes
	if q.of[t.owner] -= t.bytes; q.of[t.owner] <= 0 {
		delete(q.of, t.owner)
		delete(q.last, t.owner)
		return
	}
	q.last[t.owner] = q.round
}

// lane is what one key has waiting.
type lane struct {
	owner string
	wait  []*ticket
	may   int // bytes that it may still add
}

// share picks a batch from more than one batch can hold: round by round each key may add turnBytes more. Who got the
// least lately is the first in a round, so that nobody is passed over for ever.
func (q *queue) share() map[*ticket]bool {
	q.round++
	lanes, at := []*lane{}, map[string]*lane{}
	for _, t := range q.rest {
		l := at[t.owner]
		if l == nil {
			l = &lane{owner: t.owner}
			at[t.owner], lanes = l, append(lanes, l)
		}
		l.wait = append(l.wait, t)
	}
	slices.SortStableFunc(lanes, func(a, b *lane) int { return cmp.Compare(q.last[a.owner], q.last[b.owner]) })
	picked, left := map[*ticket]bool{}, batchBytes
	for len(lanes) > 0 {
		for _, l := range lanes {
			l.may += turnBytes
			for len(l.wait) > 0 && l.wait[0].bytes <= l.may {
				t := l.wait[0]
				if t.bytes > left && len(picked) > 0 {
					return picked
				}
				picked[t] = true
				left, l.may, l.wait = left-t.bytes, l.may-t.bytes, l.wait[1:]
			}
		}
		lanes = slices.DeleteFunc(lanes, func(l *lane) bool { return len(l.wait) == 0 })
	}
	return picked
}

// weigh says whose a command is, about how many bytes it writes, and whether it goes before all others.
func weigh(cmd Command) (owner string, bytes int, urgent bool) {
	bytes = baseBytes
	switch c := cmd.(type) {
	case *Decide:
		return c.Key.root(), bytes + len(c.Record.Args) + len(c.Defer.View) + actionBytes(c.Action), false
	case *Scanned:
		return c.Key.root(), bytes + 128*(len(c.Findings)+len(c.Outputs)), false
	case *FinishAction:
		return c.Key.root(), bytes + len(c.Result.Value) + len(c.Result.Error), false
	case *Approve:
		return ownerOf(c.Key), bytes + len(c.Modified) + len(c.View), false
	case *ApproveAction:
		return ownerOf(c.Approve.Key), bytes + len(c.Approve.Modified) + len(c.Approve.View), false
	case *AnswerOnce:
		return ownerOf(c.Key), bytes + len(c.Answer), false
	case *DeferStatus:
		return ownerOf(c.Key), bytes, false
	case *ReadAction:
		return ownerOf(c.Key), bytes, false
	case *AddGrant:
		return ownerOf(c.Key), bytes, false
	case *KillSwitch:
		return ownerOf(c.Key), bytes, !c.Undo
	case *SeeTool:
		return "mcp\x00" + c.Server, bytes + len(c.Text), false // no key has such an id
	case *RevokeKey, *RevokeGrant:
		return "", bytes, true
	}
	return "", bytes, false
}

// ownerOf is the key's line; an operator has none, and waits in nobody's turn.
func ownerOf(k *Key) string {
	if k == nil || k.person {
		return ""
	}
	return k.root()
}

func actionBytes(c ActionChange) int {
	if n, ok := c.(*NewAction); ok {
		return len(n.Action.Params) + len(n.Action.Context) + baseBytes
	}
	return 0
}
