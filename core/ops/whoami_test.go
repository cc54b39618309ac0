package ops_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/wire"
)

// TestWhoami: a caller is told what its key may do and when it ends, and nothing that would be a secret.
func TestWhoami(t *testing.T) {
	s := newStage(t)
	ask := func(key, value string) (out wire.WhoamiResponse) {
		t.Helper()
		text, err := s.do(req{key: key, op: "whoami"})
		if err != nil || json.Unmarshal([]byte(text), &out) != nil {
			t.Fatal(text, err)
		}
		if value != "" && strings.Contains(text, value) || out.KeyID != key {
			t.Errorf("%s", text)
		}
		return out
	}
	plain := ask(s.key("plain", "approver"), "")
	if plain.Name != "plain" || plain.ExpiresAt != "" || plain.Environment != "" || plain.Agents == nil ||
		len(plain.Agents) != 0 || strings.Join(plain.Scopes, " ") != "approve" {
		t.Errorf("%+v", plain)
	}
	ends := s.clock().Add(time.Hour)
	made, err := s.svc.CreateKey(context.Background(), ops.KeySpec{Name: "full", Environment: "prod",
		Scopes: []string{"scan"}, Agents: []string{"a*"}, ExpiresAt: ends}, admin)
	if err != nil {
		t.Fatal(err)
	}
	full := ask(made.Key.ID, made.Value)
	if full.KeyID != made.Key.ID || full.Environment != "prod" || strings.Join(full.Agents, " ") != "a*" ||
		full.ExpiresAt != ends.UTC().Format(time.RFC3339Nano) {
		t.Errorf("%+v", full)
	}
	if _, err := s.svc.RollKey(context.Background(), made.Key.ID, time.Minute, admin); err != nil {
		t.Fatal(err)
	}
	grace := s.clock().Add(time.Minute).UTC().Format(time.RFC3339Nano)
	if rolled := ask(made.Key.ID, made.Value); rolled.ExpiresAt != grace {
		t.Errorf("a rolled key ends with its grace: %+v", rolled)
	}
}

// TestExplicitKeys: an operator makes a key whose approvals are redeemed with their token only. The key says so, a
// rolled one stays so, and redeem: auto counts as explicit.
func TestExplicitKeys(t *testing.T) {
	s := newStage(t)
	boss, ctx := s.key("boss", "approver"), context.Background()
	made := func(name, redeem string) (*ops.NewKey, error) {
		return s.svc.CreateKey(ctx, ops.KeySpec{Name: name, Redeem: redeem}, admin)
	}
	for _, free := range []string{"", "auto"} {
		k, err := made("free"+free, free)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := s.do(req{key: k.Key.ID, op: "whoami"}); err != nil || strings.Contains(text, "redeem") {
			t.Errorf("%q: %v %s", free, err, text)
		}
		if rec := s.lastRecord("key_created"); strings.Contains(rec, "redeem") {
			t.Errorf("%q: recorded %s", free, rec)
		}
	}
	var refused *sdk.Error
	if _, err := made("odd", "never"); !errors.As(err, &refused) || refused.Field != "redeem" ||
		refused.Msg != `redeem must be auto or explicit, got "never"` {
		t.Errorf("%v", err)
	}
	k, err := made("shared", "explicit")
	if err != nil {
		t.Fatal(err)
	}
	has(t, "the record", s.lastRecord("key_created"), `"redeem":"explicit"`)
	rolled, err := s.svc.RollKey(ctx, k.Key.ID, time.Minute, admin)
	if err != nil {
		t.Fatal(err)
	}
	has(t, "the record", s.lastRecord("key_created"), `"redeem":"explicit"`)
	s.restart()
	for _, id := range []string{k.Key.ID, rolled.Key.ID} {
		text, err := s.do(req{key: id, op: "whoami"})
		if err != nil {
			t.Fatal(err)
		}
		has(t, "whoami", text, `"redeem":"explicit"`)
		token := member(s.noted(id, "authorize", "defer", "", `,"redeem":"auto"`), "defer_token")
		if _, err := s.do(req{key: boss, op: "approve_defer",
			body: `{"defer_token":"` + token + `","approved":true}`}); err != nil {
			t.Fatal(err)
		}
		for _, op := range []string{"authorize", "govern"} {
			has(t, op, s.noted(id, op, "defer", "", `,"redeem":"auto"`), `"effect":"DEFER"`, `"status":"approved"`, token)
		}
		has(t, "with the token", s.noted(id, "authorize", "defer", "", `,"defer_token":"`+token+`"`), `"PERMIT"`)
	}
}
