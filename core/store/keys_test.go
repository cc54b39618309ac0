package store

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/sdk"
)

func TestKeyNames(t *testing.T) {
	r := newRig(t)
	r.key("one", nil, "authorize")
	same := &Key{ID: "two", Name: "name of one", Scopes: []string{"scan"}}
	r.refused(&CreateKey{Key: same, By: system}, sdk.CodeNameTaken)
	r.refused(&CreateKey{Key: &Key{ID: "one", Name: "new name"}, By: system}, sdk.CodeConflict)
	r.refused(&CreateKey{Key: &Key{ID: "x", Name: "x", Scopes: []string{"all"}}, By: system}, sdk.CodeInvalidField)
	r.must(&RevokeKey{ID: "one", By: system})
	r.must(&CreateKey{Key: same, By: system})
	r.reopen()
	r.refused(&CreateKey{Key: &Key{ID: "three", Name: "name of one"}, By: system}, sdk.CodeNameTaken)
	r.refused(&RevokeKey{ID: "nobody", By: system}, sdk.CodeUnknownKey)
}

// TestExpiredKeepsItsName: whoever wants the name of an expired key is told what is in the way.
func TestExpiredKeepsItsName(t *testing.T) {
	r := newRig(t)
	r.must(&CreateKey{Key: &Key{ID: "old", Name: "n", ExpiresAt: r.clock.Now().Add(time.Minute)}, By: system})
	r.clock.advance(time.Hour)
	err := r.commit(&CreateKey{Key: &Key{ID: "new", Name: "n"}, By: system})
	if codeOf(err) != sdk.CodeNameTaken || !strings.Contains(err.Error(), "an expired key that is not revoked is called") {
		t.Errorf("got %v", err)
	}
	r.must(&RevokeKey{ID: "old", By: system})
	r.must(&CreateKey{Key: &Key{ID: "new", Name: "n"}, By: system})
}

func TestRevokedIsForEver(t *testing.T) {
	r := newRig(t)
	k := r.key("k", nil, "authorize", "scan", "approve")
	r.must(r.call(k, "x", permit))
	token := r.deferred(r.key("other", nil, "authorize"), "x", waits)
	r.must(&RevokeKey{ID: "k", By: Who{Principal: "admin:0"}})
	check := func(k *Key) {
		t.Helper()
		r.refused(r.call(k, "x", permit), sdk.CodeKeyRevoked)
		r.refused(r.call(k, "x", deny), sdk.CodeKeyRevoked)
		r.refused(&Scanned{Key: k, By: system, ScanID: "scn", Outcome: "PASS", Code: "SCAN_OK"}, sdk.CodeKeyRevoked)
		r.refused(r.answer(k, token, false), sdk.CodeKeyRevoked)
		r.refused(&DeferStatus{Token: token, Key: k}, sdk.CodeKeyRevoked)
		r.refused(&RevokeKey{ID: "k", By: system}, sdk.CodeConflict)
		r.refused(&RollKey{ID: "k", New: &Key{ID: r.id("new")}, By: system}, sdk.CodeConflict)
		r.refused(&CreateKey{Key: &Key{ID: "k", Name: "again"}, By: system}, sdk.CodeConflict)
	}
	check(k)
	r.reopen()
	check(r.s.Key("k"))
	if got := r.s.Key("k").Revocation(); got == nil || got.By != "admin:0" || !got.At.Equal(r.clock.Now()) {
		t.Errorf("the tombstone says %+v", got)
	}
	r.clock.advance(-time.Hour) // a clock that is set back
	check(r.s.Key("k"))
	r.reopen()
	check(r.s.Key("k"))
}

func TestKeyExpiry(t *testing.T) {
	r := newRig(t)
	k := &Key{ID: "k", Name: "k", Scopes: []string{"authorize"}, ExpiresAt: r.clock.Now().Add(time.Hour)}
	r.must(&CreateKey{Key: k, By: system})
	r.clock.advance(time.Hour - 1)
	r.must(r.call(k, "x", permit))
	r.clock.advance(1)
	r.refused(r.call(k, "x", permit), sdk.CodeKeyExpired)
}

func TestRollWithGrace(t *testing.T) {
	r := newRig(t)
	old := r.key("old", []string{"billing-*"}, "authorize", "scan")
	r.must(&RollKey{ID: "old", New: &Key{ID: "new", MAC: []byte("new")}, Grace: time.Hour, By: system})
	fresh := r.s.Key("new")
	if fresh.Name != old.Name || fresh.Scope() != old.Scope() || !fresh.ActsAs("billing-1") || fresh.ActsAs("other") {
		t.Errorf("the new key has other settings: %+v", fresh)
	}
	r.must(r.call(old, "x", permit))
	r.must(r.call(fresh, "x", permit))
	r.clock.advance(time.Hour - 1)
	r.reopen()
	old, fresh = r.s.Key("old"), r.s.Key("new")
	r.must(r.call(old, "x", permit))
	r.clock.advance(1)
	r.refused(r.call(old, "x", permit), sdk.CodeKeyRevoked)
	r.must(r.call(fresh, "x", permit))

	r.must(&RollKey{ID: "new", New: &Key{ID: "newer"}, Grace: time.Hour, By: system})
	r.must(&RevokeKey{ID: "new", By: system}) // in its grace time: now
	r.refused(r.call(fresh, "x", permit), sdk.CodeKeyRevoked)
	r.must(r.call(r.s.Key("newer"), "x", permit))
	r.must(&RollKey{ID: "newer", New: &Key{ID: "newest"}, By: system})
	r.refused(r.call(r.s.Key("newer"), "x", permit), sdk.CodeKeyRevoked)
	if err := consistent(r.s); err != nil {
		t.Error(err)
	}
}

// A rolled key is the same person's: it neither doubles a sign-off nor answers what its predecessor asked.
func TestRolledKeyIsTheSameApprover(t *testing.T) {
	s, _ := openGated(t)
	agent, boss, second := newKey(t, s, "agent", "authorize"), newKey(t, s, "boss", "approve"),
		newKey(t, s, "second", "approve")
	next := &Key{ID: "boss-2", MAC: []byte("boss-2")}
	ctx := context.Background()
	if err := s.Commit(ctx, &RollKey{ID: boss.ID, New: next, Grace: time.Hour, By: system}); err != nil {
		t.Fatal(err)
	}
	c := ask(agent, "rolled", sdk.Defer)
	c.Defer.Token, c.Defer.View, c.Policy.Verdict.Approvals = "rolled", []byte(`{}`), 2
	if err := s.Commit(ctx, c); err != nil {
		t.Fatal(err)
	}
	for i, k := range []*Key{boss, next, second} {
		a := &Approve{ApproveCall: ApproveCall{Token: "rolled", Key: k, By: system, Yes: true, ApprovedTTL: time.Hour}}
		if err := s.Commit(ctx, a); err != nil {
			t.Fatal(err)
		}
		if want := []string{Pending, Pending, Approved}[i]; a.Out.Status != want {
			t.Errorf("after %s: %s with %d sign-offs, want %s", k.ID, a.Out.Status, len(a.Out.Signed), want)
		}
	}
}
