package store

import (
	"slices"
	"strings"
	"time"

	"github.com/yett-dev/yett/sdk"
)

// How an open deferred call stands is worked out from its sign-offs whenever somebody looks at it, by the same count that a redemption
// is settled by. Its row says approved as long as nothing else has happened to it; while too few of those who signed count, it waits
// like any other. So whatever stops a sign-off writes nothing for the calls that it was given to, holds for all of them at once, also
// while it is not on disk yet, and takes nothing away that an undo could not give back.

// approvalOver is why a call waits again that somebody signs after its approval.
const approvalOver = "its approval counts no more"

// stands is the state that d is in at that time.
func (s *Store) stands(d *Defer, now time.Time) string {
	if d.Status == Approved && !s.enough(d.Quorums, d.signers(), now) {
		return Pending
	}
	return d.Status
}

func (tx *tx) stands(d *Defer) string { return tx.s.stands(d, tx.now) }

// standsNow is stands beside the sequencer.
func (s *Store) standsNow(d *Defer) string {
	s.keys.mu.RLock()
	defer s.keys.mu.RUnlock()
	return s.stands(d, s.set.Now())
}

// waitAgain makes an approved call wait that too few have signed.
func (tx *tx) waitAgain(d *Defer, by Who, until time.Time, why string) {
	if d.Status != Approved {
		return
	}
	tx.move(d, Pending, "", "", until)
	tx.deferRecord("defer_created", d, by, why)
}

// shown is the copy of d that leaves the store: of an open call, how it stands now and the sign-offs that count now.
func (tx *tx) shown(d *Defer) Defer {
	out := *d
	if out.Status = tx.stands(d); out.Status != d.Status {
		out.ResolvedBy, out.EndReason, out.ResolvedAt = "", "", time.Time{}
	}
	out.Signed = tx.counting(d)
	out.Required = tx.required(d)
	return out
}

// counting are the sign-offs of d that count now; of one that has ended, those that it ended with.
func (tx *tx) counting(d *Defer) []SignOff {
	if !d.open() {
		return d.Signed
	}
	return slices.DeleteFunc(slices.Clone(d.Signed), func(o SignOff) bool { return !tx.s.signs(o.Key, tx.now) })
}

// required is how many approvals it takes in all, as far as can be known: those that count and those that miss.
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

// enough reports whether the signers are what every quorum asks for.
func (s *Store) enough(quorums []sdk.Quorum, signers []string, now time.Time) bool {
	for _, q := range quorums {
		if s.count(q, signers, now) < q.N {
			return false
		}
	}
	return len(signers) > 0
}

func (tx *tx) enough(quorums []sdk.Quorum, signers []string) bool {
	return tx.s.enough(quorums, signers, tx.now)
}

// count counts different approvers among the signers whom the quorum takes: a key and those it was rolled to are one.
func (s *Store) count(q sdk.Quorum, signers []string, now time.Time) int {
	roots := map[string]bool{}
	for _, id := range signers {
		k := s.keys.byID[id]
		switch {
		case !s.signs(id, now) || k == nil && len(q.From) > 0 || k != nil && !takes(q.From, k):
		case k == nil:
			roots[id] = true
		default:
			roots[k.root()] = true
		}
	}
	return len(roots)
}

func (tx *tx) count(q sdk.Quorum, signers []string) int { return tx.s.count(q, signers, tx.now) }

// signs reports whether a signature of that key, or of that operator, counts: one of a key that was revoked since does not, unless a
// successor took its place; nor does one of a killed key, until the kill is undone.
func (s *Store) signs(id string, now time.Time) bool {
	k := s.keys.byID[id]
	if k == nil {
		return strings.HasPrefix(id, "console:")
	}
	return s.lives(k, now) && s.killsKey(k) == nil
}

// standing are the sign-offs of d whose key, or one that it was rolled to, is not revoked.
func (tx *tx) standing(d *Defer) []SignOff {
	kept := d.Signed[:0:0]
	for _, s := range d.Signed {
		if k := tx.s.keys.byID[s.Key]; k != nil && tx.s.lives(k, tx.now) || k == nil && strings.HasPrefix(s.Key, "console:") {
			kept = append(kept, s)
		}
	}
	return kept
}
