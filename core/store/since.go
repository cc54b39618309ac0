package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/yett-dev/yett/sdk"
)

// Since is what the log of the old store says of the time since a backup: what was taken away then is there again in
// the backup's state.
type Since struct {
	of      string // the backup's root
	store   string
	after   uint64         // the backup's last record
	next    uint64         // the record to come
	gaps    bool           // there may be some
	missing []MissingRange // they
	done    map[string]int // by taken.what, its place in list
	undone  map[uint64]int // by the seq of an undo, the place of what it undid
	list    []sinceOne
}

// MissingRange are records of the old store that nobody has: what was taken away in them is there again.
type MissingRange struct {
	First uint64 `json:"first_seq"`
	Last  uint64 `json:"last_seq"`
}

type sinceOne struct {
	taken
	seq  uint64
	gone bool   // it was undone
	by   uint64 // by that record
}

// Taken is one thing that was taken away since a backup.
type Taken struct {
	Seq     uint64    `json:"seq"` // of the old store's record
	Time    time.Time `json:"time"`
	Type    string    `json:"type"`
	What    string    `json:"what"`
	By      string    `json:"by"`
	How     string    `json:"how"`     // the command that does it
	Applied bool      `json:"applied"` // it was done again
	Note    string    `json:"note,omitempty"`
}

// NewSince is for the time since that backup.
func NewSince(m *Manifest) *Since {
	return &Since{of: m.Root, store: m.StoreID, after: m.Seq, next: m.Seq + 1, done: map[string]int{},
		undone: map[uint64]int{}}
}

// Salvaged says that the records are those that could be read of a damaged log: some may be missing.
func (n *Since) Salvaged() { n.gaps, n.missing = true, []MissingRange{} }

// Lost says that there were records up to a seq that cannot be read.
func (n *Since) Lost(last uint64) {
	if last >= n.next {
		n.missing = append(n.missing, MissingRange{n.next, last})
		n.next = last + 1
	}
}

// Empty reports whether there was no record behind the backup's.
func (n *Since) Empty() bool { return n.next == n.after+1 }

// Record takes the next record of the old store's log. Those that the backup has may be missing, no others.
func (n *Since) Record(seq uint64, rec []byte) error {
	switch {
	case seq <= n.after:
		return nil
	case seq < n.next:
		return fmt.Errorf("record %d comes behind record %d", seq, n.next-1)
	case seq > n.next && !n.gaps:
		return fmt.Errorf("records %d to %d are missing between the backup and what is newer: what was taken away in "+
			"them would be there again; give a log that has them", n.next, seq-1)
	}
	n.Lost(seq - 1)
	n.next = seq + 1
	var x struct {
		taken
		StoreID string   `json:"store_id"`
		Effect  string   `json:"effect"`
		Seqs    []uint64 `json:"seqs"`
	}
	if err := json.Unmarshal(rec, &x); err != nil {
		return fmt.Errorf("record %d: %w", seq, err)
	}
	if x.StoreID != n.store {
		return fmt.Errorf("record %d is of store %s, the backup of %s", seq, x.StoreID, n.store)
	}
	what := x.what()
	switch {
	case x.Type == "unkill":
		undone := x.taken
		undone.Type = "kill"
		if at, ok := n.done[undone.what()]; ok {
			n.list[at].gone, n.list[at].by = true, seq
			delete(n.done, undone.what())
			n.undone[seq] = at
		}
		return nil
	case x.Type == "unanswered": // whoever undid it was refused, and it was in effect all the time
		for _, seq := range x.Seqs {
			if at, ok := n.undone[seq]; ok {
				n.list[at].gone = false
				n.done[n.list[at].what()] = at
			}
		}
		return nil
	case x.Type == "decision" && x.Effect == "PERMIT" && x.Token != "":
		what = "defer\x00" + x.Token
	case x.Type == "grant_consumed":
		what = "grant\x00" + x.GrantID
	case x.Type == "console_sign_out", x.Type == SubscriberDropped:
		return nil // no sign-in is in a restored store, and a cursor gives nobody anything
	}
	if _, again := n.done[what]; what == "" || again && x.Type != "grant_revoked" {
		return nil
	}
	if at, again := n.done[what]; again { // a use in front of the revoke
		n.list[at].gone = true
	}
	n.done[what] = len(n.list)
	n.list = append(n.list, sinceOne{taken: x.taken, seq: seq})
	return nil
}

// replayTaken lists what was taken away and, with apply, takes it away from the restored store.
func (n *Since) replayTaken(s *Store, by Who, apply bool) ([]Taken, error) {
	out := []Taken{}
	for i := range n.list {
		x := &n.list[i]
		row := x.row()
		if x.gone && !n.missesBehind(x.by) {
			if calls, err := x.denied(s, by, apply); err != nil {
				return nil, err
			} else if calls > 0 {
				row.How += ", and its undo"
				row.Note = fmt.Sprintf("it was undone since; %d calls that wait here were denied by it", calls)
				row.Applied = apply
				out = append(out, row)
			}
			continue
		}
		if apply {
			cmd := &takeSince{takeAgain: takeAgain{x.taken}, note: fmt.Sprintf(
				"restored by %s: done again, from record %d of %s", by.Principal, x.seq, n.store)}
			err := s.Commit(context.Background(), cmd)
			refused, ok := errors.AsType[*sdk.Error](err)
			switch {
			case ok && !unrecorded(refused): // it is so already, or what it is about is younger than the backup
				row.Note = "nothing to do: " + refused.Msg
			case err != nil:
				return nil, err
			case cmd.none:
				row.Note = "nothing to do"
			}
			row.Applied = true
		}
		out = append(out, row)
	}
	return out, nil
}

// denied counts the calls that wait in the restored store although a kill has denied them that was undone since: many
// batches may have been left to write that. With apply, the kill comes and goes again, and denies them; what it is of
// is there, because the calls are.
func (x *sinceOne) denied(s *Store, by Who, apply bool) (calls int, err error) {
	if x.Type != "kill" {
		return 0, nil
	}
	kill := Kill{Scope: x.Scope, Target: x.Target, Reason: x.Reason, By: x.Principal}
	count := &countWaiting{kill: kill}
	if err := s.Commit(context.Background(), count); err != nil || count.n == 0 || !apply {
		return count.n, err
	}
	if err := s.Commit(context.Background(), &KillSwitch{Kill: kill, By: by}); err != nil {
		return 0, err
	}
	return count.n, s.Commit(context.Background(), &KillSwitch{Kill: kill, By: by, Undo: true})
}

// countWaiting counts the open calls that a kill would deny.
type countWaiting struct {
	kill Kill
	n    int
}

func (*countWaiting) class() class { return reading }

func (c *countWaiting) apply(tx *tx) error {
	c.kill.Target = tx.s.killed(c.kill)
	covers := (&sweep{Kill: &c.kill}).covers(tx.s)
	for i := range tx.st.waiting {
		if d := &tx.st.waiting[i]; d.doomed == nil && covers(asked{d.key, d.agent, d.tool, &d.d.SessionID}) {
			c.n++
		}
	}
	return nil
}

// missesBehind reports whether records behind an undo are missing: one of them may say that it is void.
func (n *Since) missesBehind(undo uint64) bool {
	return undo > 0 && slices.ContainsFunc(n.missing, func(m MissingRange) bool { return m.First > undo })
}

func (x *sinceOne) row() Taken {
	r := Taken{Seq: x.seq, Time: x.Time, Type: x.Type, By: x.Principal}
	switch x.Type {
	case "key_revoked":
		r.What, r.How = "key "+x.KeyID, "yett keys revoke "+x.KeyID
	case "kill":
		r.What, r.How = x.Scope+" "+x.Target, "yett kill --"+x.Scope+" "+shellWord(x.Target)
		if x.Scope == "global" {
			r.What, r.How = "everything", "yett kill --global --yes"
		}
	case "grant_revoked", "grant_consumed":
		r.What, r.How = "grant "+x.GrantID, "yett grants revoke "+x.GrantID
	default:
		r.What, r.How = "call "+x.Token, "yett approvals deny "+x.Token
	}
	return r
}

// shellWord quotes a word for a shell.
func shellWord(s string) string {
	out := []byte{'\''}
	for i := range len(s) {
		if s[i] == '\'' {
			out = append(out, `'\'`...)
		}
		out = append(out, s[i])
	}
	return string(append(out, '\''))
}

// takeSince takes away again what was taken away since a backup. An approval that was spent since, and a grant with so
// many uses of which some were, would be spent twice: they end.
type takeSince struct {
	takeAgain
	note string
	none bool // out: there was nothing to take
}

func (*takeSince) class() class { return taking }

func (c *takeSince) apply(tx *tx) error {
	c.taken.Note = c.note
	from := tx.q.tree.Size()
	err := c.takePermission(tx)
	c.none = err == nil && tx.q.tree.Size() == from
	return err
}

func (c *takeSince) takePermission(tx *tx) error {
	switch c.taken.Type {
	case "decision":
		return c.taken.deny(tx, c.taken.by())
	case "grant_consumed":
		g, err := tx.grant(c.taken.GrantID)
		if err != nil || g == nil || g.MaxUses == 0 {
			return err
		}
		return (&RevokeGrant{ID: c.taken.GrantID, By: c.taken.by()}).revoke(tx)
	}
	return c.takeAgain.apply(tx)
}
