package core

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/plugin"
)

// sidecar serves a plugin of some version at a socket, as somebody else does. It answers with its version.
func sidecar(t *testing.T, socket, version string) (end func()) {
	t.Helper()
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	check := func(context.Context, *plugin.Call) (sdk.Verdict, error) {
		return sdk.Verdict{Effect: sdk.Deny, Code: "GUEST", Reason: version}, nil
	}
	go func() {
		done <- plugin.ServeListener(ctx, l, plugin.Authorizer{Info: plugin.Info{Name: "guest", Version: version},
			Check: check})
	}()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestUpgradedSidecar: another version at a plugin's socket is not taken for the one that was admitted, until the
// operator reloads.
func TestUpgradedSidecar(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	end := sidecar(t, socket, "1.0.0")
	w := newWorld(t, func(w *world) {
		w.write(fmt.Sprintf("  guest: {kind: authorizer, connect: \"unix://%s\", peer: {uid: %d}, limits: {start: 60s, "+
			"timeout: 20s}}\n", socket, os.Getuid()), guestStep, "")
	})
	defer func() { end() }()
	if got := w.ask("guest/x"); got != "DENY 1.0.0" {
		t.Fatal(got)
	}
	for _, version := range []string{"1.1.0", "1.2.0"} {
		end()
		end = sidecar(t, socket, version)
		w.until("it is seen to be another one", func() bool {
			return strings.Contains(w.part("plugin guest"), "reload the configuration to take it as it is now")
		})
		if got := w.ask("guest/x"); !strings.HasPrefix(got, "DENY ") || strings.HasSuffix(got, version) {
			t.Errorf("before the reload: %s", got)
		}
		w.reloads()
		if got := w.ask("guest/x"); got != "DENY "+version {
			t.Errorf("after the reload: %s, %s", got, w.part("plugin guest"))
		}
		if got := w.row("guest"); got.Version != version || !got.Ready {
			t.Errorf("after the reload: %+v", got)
		}
	}
}
