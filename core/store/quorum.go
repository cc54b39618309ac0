package store

import (
	"slices"
	"strings"

	"github.com/yett-dev/yett/sdk"
)

// lives reports whether the key, or one that it was rolled to, is not revoked.
func (s *Store) lives(k *Key, t Times) bool {
	if k.Revoked(k.At(t)) == nil {
		return true
	}
	next := s.keys.byID[s.keys.names[k.Name]]
	return next != nil && next.root() == k.root() && next.Revoked(next.At(t)) == nil
}

// takes reports whether a list of approvers has the key in it, by its name or the preset that it was made with. Lists
// name keys: an operator who is called like one, or has a role that is called like its preset, is not in it.
func takes(from []string, k *Key) bool {
	if len(from) == 0 || k.person {
		return len(from) == 0
	}
	for _, f := range from {
		kind, name, _ := strings.Cut(f, ":")
		if kind == "key" && name == k.Name || kind == "role" && name != "" && name == k.Preset {
			return true
		}
	}
	return false
}

// named reports whether some quorum takes the key.
func (tx *tx) named(quorums []sdk.Quorum, k *Key) bool {
	for _, q := range quorums {
		if takes(q.From, k) {
			return true
		}
	}
	return len(quorums) == 0
}

// helps reports whether a sign-off of k would count for a quorum that is still missing some.
func (tx *tx) helps(d *Defer, signed []SignOff, k *Key) bool {
	signers, missing := (&Defer{Signed: signed}).signers(), false
	for _, q := range d.Quorums {
		if tx.count(q, signers) < q.N {
			if takes(q.From, k) {
				return true
			}
			missing = true
		}
	}
	return !missing
}

// merged is what both lists ask for, as it is kept.
func merged(a, b []sdk.Quorum) []sdk.Quorum {
	out := slices.Clone(a)
	for _, q := range b {
		if !slices.ContainsFunc(out, func(o sdk.Quorum) bool {
			return o.Rule == q.Rule && o.Step == q.Step && o.N >= q.N && slices.Equal(o.From, q.From)
		}) {
			q.Named = ""
			out = append(out, q)
		}
	}
	return out
}

// sameLine reports whether two keys are one key and its rolled successors.
func (s *Store) sameLine(a, b string) bool {
	if a == b {
		return true
	}
	ka, kb := s.keys.byID[a], s.keys.byID[b]
	return ka != nil && kb != nil && ka.root() == kb.root()
}
