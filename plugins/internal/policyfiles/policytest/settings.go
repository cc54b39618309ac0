package policytest

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/plugins/internal/policyfiles"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/plugin"
)

// Settings are what Configure gets, with a silent log.
func Settings(t testing.TB, config any) plugin.Settings {
	t.Helper()
	b, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return plugin.Settings{Config: b, Log: slog.New(slog.DiscardHandler)}
}

// Configured puts config into force, and closes the plugin with the test.
func Configured[E policyfiles.Engine](t testing.TB, a *policyfiles.Authorizer[E],
	config any) *policyfiles.Authorizer[E] {
	t.Helper()
	if err := a.Configure(t.Context(), Settings(t, config)); err != nil {
		t.Fatalf("configure: %v", err)
	}
	t.Cleanup(func() {
		if err := a.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return a
}

// Call is a call with these args.
func Call(args string) *plugin.Call {
	return &plugin.Call{
		AgentID: "agent-1", SessionID: "s1", ToolID: "payments/refund", Operation: "refund", KeyID: "k1", KeyName: "key",
		CallID: "c1", Args: json.RawMessage(args), Context: json.RawMessage(`{"env":"prod"}`),
		Time: time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC),
	}
}

// Refuses wants a fresh plugin to refuse config with an error that says want, and to permit nothing afterwards.
func Refuses[E policyfiles.Engine](t *testing.T, a *policyfiles.Authorizer[E], config any, want string) {
	t.Helper()
	s := Settings(t, config)
	for step, err := range map[string]error{"validate": a.Validate(t.Context(), s),
		"configure": a.Configure(t.Context(), s)} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", step, err, want)
		}
	}
	if v, err := a.Check(t.Context(), Call(`{}`)); err == nil || v.Effect == sdk.Permit {
		t.Errorf("a refused configuration answers %+v, %v", v, err)
	}
}
