package store

import (
	"testing"
	"time"

	"github.com/yett-dev/yett/sdk"
)

// Whoever sends the same answer again, because the first one's answer was lost, is told how the call stands. Anything
// else about a call that has ended is refused as before.
func TestSameAnswerAgain(t *testing.T) {
	grant := func(c *Approve) *Approve { c.Grant, c.NewGrant = &GrantAsk{TTL: time.Hour}, "stg_1"; return c }
	for _, c := range []struct {
		name  string
		first func(r *rig, boss *Key, token string) *Approve
		again func(r *rig, boss, other *Key, token string) *Approve
		want  sdk.Code
	}{
		{"yes, yes", func(r *rig, boss *Key, token string) *Approve { return r.answer(boss, token, true) },
			func(r *rig, boss, _ *Key, token string) *Approve { return r.answer(boss, token, true) }, ""},
		{"no, no", func(r *rig, boss *Key, token string) *Approve { return r.answer(boss, token, false) },
			func(r *rig, boss, _ *Key, token string) *Approve { return r.answer(boss, token, false) }, ""},
		{"yes, no", func(r *rig, boss *Key, token string) *Approve { return r.answer(boss, token, true) },
			func(r *rig, boss, _ *Key, token string) *Approve { return r.answer(boss, token, false) }, sdk.CodeAlreadyResolved},
		{"no, yes", func(r *rig, boss *Key, token string) *Approve { return r.answer(boss, token, false) },
			func(r *rig, boss, _ *Key, token string) *Approve { return r.answer(boss, token, true) }, sdk.CodeAlreadyResolved},
		{"yes, another's yes", func(r *rig, boss *Key, token string) *Approve { return r.answer(boss, token, true) },
			func(r *rig, _, other *Key, token string) *Approve { return r.answer(other, token, true) }, sdk.CodeAlreadyResolved},
		{"no, another's no", func(r *rig, boss *Key, token string) *Approve { return r.answer(boss, token, false) },
			func(r *rig, _, other *Key, token string) *Approve {
				return r.answer(other, token, false)
			}, sdk.CodeAlreadyResolved},
		{"yes, yes of another call", func(r *rig, boss *Key, token string) *Approve { return r.answer(boss, token, true) },
			func(r *rig, boss, _ *Key, token string) *Approve {
				c := r.answer(boss, token, true)
				c.Digest = r.s.CallDigest(Hash{1})
				return c
			}, sdk.CodeAlreadyResolved},
		{"yes, yes with other arguments", func(r *rig, boss *Key, token string) *Approve { return r.answer(boss, token, true) },
			func(r *rig, boss, _ *Key, token string) *Approve {
				c := r.answer(boss, token, true)
				c.Modified, c.ModifiedHash = []byte(`{}`), [32]byte{1}
				return c
			}, sdk.CodeAlreadyResolved},
		{"yes, yes with a grant", func(r *rig, boss *Key, token string) *Approve { return r.answer(boss, token, true) },
			func(r *rig, boss, _ *Key, token string) *Approve {
				return grant(r.answer(boss, token, true))
			}, sdk.CodeAlreadyResolved},
		{"yes with a grant, twice", func(r *rig, boss *Key, token string) *Approve { return grant(r.answer(boss, token, true)) },
			func(r *rig, boss, _ *Key, token string) *Approve { return grant(r.answer(boss, token, true)) }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			asker, boss, other := r.key("asker", nil, "authorize"), r.key("boss", nil, "approve", "grants"),
				r.key("other", nil, "approve")
			token := r.deferred(asker, "x", sdk.Verdict{})
			first, again := c.first(r, boss, token), c.again(r, boss, other, token)
			r.must(first)
			before := r.s.Seq()
			r.refused(again, c.want)
			if c.want == "" && (again.Out.Status != first.Out.Status || again.Out.Granted != first.Out.Granted ||
				r.s.Seq() != before) {
				t.Errorf("first %s %s, again %s %s, %d records more", first.Out.Status, first.Out.Granted, again.Out.Status,
					again.Out.Granted, r.s.Seq()-before)
			}
			if got := r.status(asker, token); got != first.Out.Status {
				t.Errorf("it is %s", got)
			}
		})
	}
}
