package log_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/log"
)

// What the tables below write, in the words of the store.

func (b *book) permit(key, agent string, more ...any) *book {
	return b.add("decision", append([]any{"principal_id", key, "decision_id", "dec_1", "agent_id", agent,
		"session_id", "s", "tool_id", "pay/refund", "effect", "PERMIT"}, more...)...)
}

func (b *book) deferred(typ, by, status string, more ...any) *book {
	return b.add(typ, append([]any{"principal_id", by, "defer_token", "dfr_1", "status", status, "agent_id", "bot",
		"session_id", "s", "tool_id", "pay/refund", "asked_by", "asker", "approvals_required", 1, "expires_at", time.Hour},
		more...)...)
}

// approved is a call that was deferred and approved.
func (b *book) approved() *book {
	return b.deferred("defer_created", "asker", "pending").deferred("defer_signed", "boss", "pending").
		deferred("defer_resolved", "boss", "approved")
}

func (b *book) kill(scope, target string) *book {
	return b.add("kill", "scope", scope, "target", target)
}

func (b *book) grant(most int, ends time.Duration) *book {
	return b.add("grant_added", "grant_id", "g1", "max_uses", most, "expires_at", ends)
}

// use spends the grant and permits the call.
func (b *book) use() *book {
	return b.add("grant_consumed", "grant_id", "g1", "decision_id", "dec_1").permit("k", "bot", "grant_id", "g1")
}

func (b *book) redeem(more ...any) *book {
	return b.permit("asker", "bot", append([]any{"defer_token", "dfr_1"}, more...)...)
}

func TestInvariants(t *testing.T) {
	for name, c := range map[string]struct {
		log  func(b *book) *book
		want string // of the fault of the last record; "" for none
	}{
		"a permit": {func(b *book) *book { return b.permit("k", "bot") }, ""},
		"after its key was revoked": {func(b *book) *book {
			return b.add("key_revoked", "key_id", "k", "revoked_at", time.Duration(0)).permit("k", "bot")
		}, "key k is permitted a call after it was revoked"},
		"in the grace of a rolled key": {func(b *book) *book {
			return b.add("key_revoked", "key_id", "k", "revoked_at", time.Hour).permit("k", "bot")
		}, ""},
		"revoked within its grace": {func(b *book) *book {
			return b.add("key_revoked", "key_id", "k", "revoked_at", time.Hour).
				add("key_revoked", "key_id", "k", "revoked_at", time.Duration(0)).permit("k", "bot")
		}, "after it was revoked"},
		"a denial after the revoke": {func(b *book) *book {
			return b.add("key_revoked", "key_id", "k", "revoked_at", time.Duration(0)).
				add("decision", "principal_id", "k", "effect", "DENY")
		}, ""},
		"a dry run":           {func(b *book) *book { return b.kill("global", "").permit("k", "bot", "dry_run", true) }, ""},
		"kill of everything":  {func(b *book) *book { return b.kill("global", "").permit("k", "bot") }, "under a kill of scope global"},
		"kill of the key":     {func(b *book) *book { return b.kill("key", "k").permit("k", "bot") }, "scope key"},
		"kill of another key": {func(b *book) *book { return b.kill("key", "k2").permit("k", "bot") }, ""},
		"kill of a rolled key": {func(b *book) *book {
			return b.add("key_created", "key_id", "k2", "line", "k").kill("key", "k").permit("k2", "bot")
		}, "scope key"},
		"kill of the agent":     {func(b *book) *book { return b.kill("agent", "bot").permit("k", "bot") }, "scope agent"},
		"kill of every agent":   {func(b *book) *book { return b.kill("agent", "*").permit("k", "team/bot") }, "scope agent"},
		"kill of other agents":  {func(b *book) *book { return b.kill("agent", "t-*").permit("k", "bot") }, ""},
		"kill of the session":   {func(b *book) *book { return b.kill("session", "s").permit("k", "bot") }, "scope session"},
		"kill of the tool":      {func(b *book) *book { return b.kill("tool", "pay/refund").permit("k", "bot") }, "scope tool"},
		"kill of what is above": {func(b *book) *book { return b.kill("tool", "pay").permit("k", "bot") }, "scope tool"},
		"kill of another tool":  {func(b *book) *book { return b.kill("tool", "pay/ref").permit("k", "bot") }, ""},
		"a repeat under a kill": {func(b *book) *book { return b.kill("global", "").permit("k", "bot", "repeat", true) }, "under a kill"},
		"after the kill's end": {func(b *book) *book {
			return b.kill("agent", "bot").add("unkill", "scope", "agent", "target", "bot").permit("k", "bot")
		}, ""},
		"after an end that was voided": {func(b *book) *book {
			return b.kill("agent", "bot").add("unkill", "scope", "agent", "target", "bot").
				add("voided", "what", "unkill", "scope", "agent", "target", "bot").permit("k", "bot")
		}, "scope agent"},

		"a grant":         {func(b *book) *book { return b.grant(2, time.Hour).use().use() }, ""},
		"without a limit": {func(b *book) *book { return b.grant(0, time.Hour).use().use().use() }, ""},
		"beyond its uses": {func(b *book) *book { return b.grant(1, time.Hour).use().add("grant_consumed", "grant_id", "g1") }, "spent 2 times"},
		"expired":         {func(b *book) *book { return b.grant(1, -time.Hour).add("grant_consumed", "grant_id", "g1") }, "after it expired"},
		"revoked": {func(b *book) *book {
			return b.grant(1, time.Hour).add("grant_revoked", "grant_id", "g1").add("grant_consumed", "grant_id", "g1")
		}, "after it was revoked"},
		"never given":        {func(b *book) *book { return b.add("grant_consumed", "grant_id", "g1") }, "no record says that it was given"},
		"permit without use": {func(b *book) *book { return b.grant(1, time.Hour).permit("k", "bot", "grant_id", "g1") }, "no use of it is counted"},
		"use without permit": {func(b *book) *book {
			return b.grant(1, time.Hour).add("grant_consumed", "grant_id", "g1", "decision_id", "dec_1")
		}, "no permit of decision dec_1 follows"},
		"repeat of a permit": {func(b *book) *book {
			return b.grant(1, time.Hour).use().permit("k", "bot", "grant_id", "g1", "repeat", true)
		}, ""},
		"start of an action": {func(b *book) *book {
			return b.grant(1, time.Hour).use().permit("k", "bot", "grant_id", "g1", "action_event", "started")
		}, ""},
		"start after the grant's revoke": {func(b *book) *book {
			return b.grant(1, time.Hour).use().add("grant_revoked", "grant_id", "g1").
				permit("k", "bot", "grant_id", "g1", "action_event", "started")
		}, "after that was revoked"},
		"a start given back": {func(b *book) *book {
			return b.grant(1, time.Hour).use().permit("k", "bot", "grant_id", "g1", "action_event", "started").
				add("voided", "what", "permit", "grant_id", "g1", "action_event", "started").
				add("grant_consumed", "grant_id", "g1", "decision_id", "dec_1")
		}, "spent 2 times"},
		"a use given back": {func(b *book) *book {
			return b.grant(1, time.Hour).use().add("voided", "what", "permit", "grant_id", "g1").use()
		}, ""},

		"an approval":    {func(b *book) *book { return b.approved().redeem() }, ""},
		"spent twice":    {func(b *book) *book { return b.approved().redeem().redeem() }, "it was spent, ended, or never given"},
		"repeated":       {func(b *book) *book { return b.approved().redeem().redeem("repeat", true) }, ""},
		"a repeat first": {func(b *book) *book { return b.approved().redeem("repeat", true) }, "which nobody has spent before"},
		"spent, void, spent": {func(b *book) *book {
			return b.approved().redeem().add("voided", "what", "permit", "defer_token", "dfr_1", "status", "approved").redeem()
		}, ""},
		"pending":          {func(b *book) *book { return b.deferred("defer_created", "asker", "pending").redeem() }, "which is pending"},
		"never asked":      {func(b *book) *book { return b.redeem() }, "never given"},
		"denied":           {func(b *book) *book { return b.approved().deferred("defer_resolved", "boss", "denied").redeem() }, "it was spent, ended"},
		"expired approval": {func(b *book) *book { return b.approved().deferred("defer_expired", "system", "expired").redeem() }, "it was spent, ended"},
		"approved by nobody": {func(b *book) *book {
			return b.deferred("defer_created", "asker", "pending").deferred("defer_resolved", "boss", "approved")
		}, "is approved by 0, 1 have to"},
		"by whoever asked": {func(b *book) *book {
			return b.deferred("defer_created", "asker", "pending").deferred("defer_signed", "asker", "pending")
		}, "which it asked for itself"},
		"by a revoked key": {func(b *book) *book {
			return b.add("key_revoked", "key_id", "boss", "revoked_at", time.Duration(0)).
				deferred("defer_created", "asker", "pending").deferred("defer_signed", "boss", "pending")
		}, "approves deferred call dfr_1 after it was revoked"},
		"by one of the asker's line": {func(b *book) *book {
			return b.add("key_created", "key_id", "asker2", "line", "asker").deferred("defer_created", "asker", "pending").
				deferred("defer_signed", "asker2", "pending")
		}, "which it asked for itself"},
		"one of two": {func(b *book) *book {
			return b.deferred("defer_created", "asker", "pending").deferred("defer_signed", "boss", "pending").
				deferred("defer_signed", "boss", "pending").deferred("defer_resolved", "boss", "approved", "approvals_required", 2)
		}, "is approved by 1, 2 have to"},
		"signed before it was changed": {func(b *book) *book {
			return b.deferred("defer_created", "asker", "pending").deferred("defer_signed", "boss", "pending").
				deferred("defer_resolved", "boss", "approved", "modified_digest", "d")
		}, "is approved by 0"},
		"another agent's":  {func(b *book) *book { return b.approved().permit("asker", "other", "defer_token", "dfr_1") }, "which is of another call"},
		"another key's":    {func(b *book) *book { return b.approved().permit("k", "bot", "defer_token", "dfr_1") }, "which is of another call"},
		"answered unasked": {func(b *book) *book { return b.deferred("defer_signed", "boss", "pending") }, "no record says that it was asked"},
	} {
		t.Run(name, func(t *testing.T) {
			b := c.log(newBook(t, 7))
			_, err := check(b.export(), log.VerifyOptions{Keys: b.keys(), Invariants: true})
			var f *log.Fault
			switch {
			case c.want == "":
				if err != nil {
					t.Error(err)
				}
			case !errors.As(err, &f) || f.Seq != b.tree.Size() || !strings.Contains(f.Why, c.want):
				t.Errorf("got %v, want %q of record %d", err, c.want, b.tree.Size())
			}
		})
	}
}

// TestInvariantsOfATrimmedLog: what began with records that retention has removed is counted as unknown, and is no
// fault.
func TestInvariantsOfATrimmedLog(t *testing.T) {
	cut := newBook(t, 7).grant(1, time.Hour).use().trim(3) // between the use and its permit
	if r, err := check(cut.export(), log.VerifyOptions{Keys: cut.keys(), Invariants: true}); err != nil ||
		r.Invariants.Unknown != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	b := newBook(t, 7).approved().grant(1, time.Hour).redeem().use().trim(5)
	r, err := check(b.export(), log.VerifyOptions{Keys: b.keys(), Invariants: true})
	if err != nil || r.Invariants.Unknown != 2 || r.Invariants.Permits != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}
