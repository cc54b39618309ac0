package ops_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/ops"
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
