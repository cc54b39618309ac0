package store

import (
	"slices"
	"strings"
	"time"

	"github.com/yett-dev/yett/sdk"
)

// The state of an open deferred call is worked out from its sign-offs each time that somebody looks at it. Redemptions
// use the same count. The row of an approved call says approved until something else happens to the call. While too few
// sign-offs count, the call is pending like any other. So a kill or a revocation writes nothing for the calls that its
// key has signed. It holds for all of them at once, even before it is on disk, and undoing a kill gives the approvals
// back.

// approvalOver is the reason in the record when an approved call becomes pending again.
const approvalOver = "its approval counts no more"

// stands is the state of d at that time. It knows nothing of what a kill or a revocation has left to be denied.
func (s *Store) stands(d *Defer, t Times) string {
	switch {
	case d.over(t):
		return Expired
	case d.Status == Approved && !s.enough(d.Quorums, d.signers(), t):
		return Pending
	}
	return d.Status
}

// stands is the state of d.
func (tx *tx) stands(d *Defer) string {
	if tx.st.doomed(d) != nil {
		return Denied
	}
	return tx.s.stands(d, tx.times)
}

// standsNow is stands beside the sequencer.
func (s *Store) standsNow(d *Defer) string {
	s.keys.mu.RLock()
	defer s.keys.mu.RUnlock()
	return s.stands(d, s.Times())
}

// waitAgain makes an approved call pending whose sign-offs are too few by now.
func (tx *tx) waitAgain(d *Defer, by Who, until time.Time, why string) {
	if d.Status != Approved {
		return
	}
	tx.move(d, Pending, "", "", until)
	tx.deferRecord("defer_created", d, by, why)
}

// shown is the copy of d that leaves the store. An open call has its state of now and the sign-offs that count now.
func (tx *tx) shown(d *Defer) Defer {
	out := *d
	if out.Status = tx.stands(d); out.Status != d.Status {
		out.ResolvedBy, out.EndReason, out.ResolvedAt = "", "", time.Time{}
	}
	if w := tx.st.doomed(d); w != nil {
		out.ResolvedBy, out.EndReason, out.ResolvedAt = w.By.Principal, w.Why, w.At
	}
	out.Signed = tx.counting(d)
	out.Required = tx.required(d)
	if tx.s.open.owed.Load() > 0 && out.open() { // to kills that the disk has not taken
		tx.s.dooms().deny(&out)
	}
	return out
}

// counting lists the sign-offs of d that count now. A call that has ended keeps those that it ended with.
func (tx *tx) counting(d *Defer) []SignOff {
	if !d.open() {
		return d.Signed
	}
	return slices.DeleteFunc(slices.Clone(d.Signed), func(o SignOff) bool { return !tx.s.signs(o.Key, tx.times) })
}

// required is how many approvals the call needs in all, as far as can be known: those that count and those that are
// missing.
func (tx *tx) required(d *Defer) int {
	most, missing, signed := 1, 0, tx.counting(d)
	for _, q := range d.Quorums {
		most = max(most, q.N)
		missing = max(missing, q.N-tx.count(q, d.signers()))
	}
	if !d.open() {
		missing = 0
	}
	return max(most, len(signed)+missing)
}

// enough reports whether the signers satisfy every quorum.
func (s *Store) enough(quorums []sdk.Quorum, signers []string, t Times) bool {
	for _, q := range quorums {
		if s.count(q, signers, t) < q.N {
			return false
		}
	}
	return len(signers) > 0
}

func (tx *tx) enough(quorums []sdk.Quorum, signers []string) bool {
	return tx.s.enough(quorums, signers, tx.times)
}

// count is the number of different approvers among the signers that the quorum accepts. A key and its rolled successors
// are one approver.
func (s *Store) count(q sdk.Quorum, signers []string, t Times) int {
	roots := map[string]bool{}
	for _, id := range signers {
		k := s.keys.byID[id]
		switch {
		case !s.signs(id, t) || k == nil && len(q.From) > 0 || k != nil && !takes(q.From, k):
		case k == nil:
			roots[id] = true
		default:
			roots[k.root()] = true
		}
	}
	return len(roots)
}

func (tx *tx) count(q sdk.Quorum, signers []string) int { return tx.s.count(q, signers, tx.times) }

// signs reports whether a sign-off of that key or operator counts. One of a revoked key does not, unless the key was
// rolled to one that is live. One of a killed key does not until the kill is undone.
func (s *Store) signs(id string, t Times) bool {
	k := s.keys.byID[id]
	if k == nil {
		return strings.HasPrefix(id, "console:")
	}
	return s.lives(k, t) && s.killsKey(k) == nil
}

// standing lists the sign-offs of d whose key is not revoked, or was rolled to one that is live. The others are dropped
// for good, so a clock in doubt drops none; signs does not count them.
func (tx *tx) standing(d *Defer) []SignOff {
	kept, sure := d.Signed[:0:0], Times{Now: tx.now, Late: tx.now}
	for _, s := range d.Signed {
		k := tx.s.keys.byID[s.Key]
		if k != nil && tx.s.lives(k, sure) || k == nil && strings.HasPrefix(s.Key, "console:") {
			kept = append(kept, s)
		}
	}
	return kept
}
