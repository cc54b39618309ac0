//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/yett-dev/yett/cmd/internal/e2e"
	"github.com/yett-dev/yett/core/testkit"
)

// TestPrivateDirectoriesOfKilledGateways: what a gateway that was killed leaves in the temporary directory goes with
// the start of the next one, while one that runs keeps its own.
func TestPrivateDirectoriesOfKilledGateways(t *testing.T) {
	testkit.Slow(t, "kills gateways")
	e2e.Binary(t)
	tmp, err := os.MkdirTemp("", "swept") // a short name: it becomes part of the paths of sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(tmp) })
	begin := func() (*server, []string) {
		before := privateDirs(t, tmp)
		token := fmt.Sprintf("swept-%d-%d", os.Getpid(), time.Now().UnixNano())
		s := startDev(t, []string{"TMPDIR=" + tmp}, "--config",
			follow(t, token, filepath.Join(t.TempDir(), "out"), "good", ""), "--data", t.TempDir())
		if !becomes(func() bool { return s.plugins()["sink"].State == "ready" }) {
			t.Fatalf("the plugin is not ready: %+v\n%s", s.plugins(), s.stderr)
		}
		var own []string
		for path := range privateDirs(t, tmp) {
			if !before[path] {
				own = append(own, path)
			}
		}
		return s, own
	}
	living, kept := begin()
	killed, left := begin()
	if len(kept) == 0 || len(left) == 0 {
		t.Fatalf("private directories: %v and %v", kept, left)
	}
	if err := os.WriteFile(filepath.Join(left[0], "more"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	killed.kill()
	for _, path := range left {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("what is there to sweep? %v", err)
		}
	}
	next, own := begin()
	for _, path := range left {
		if !becomes(func() bool { _, err := os.Stat(path); return os.IsNotExist(err) }) {
			t.Errorf("%s stays", path)
		}
	}
	for _, path := range append(kept, own...) {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("of a living gateway: %v", err)
		}
	}
	if _, err := living.asked("files/read"); err != nil {
		t.Error(err)
	}
	living.stop()
	next.stop()
	if rest := privateDirs(t, tmp); len(rest) > 0 {
		t.Errorf("left after an orderly end: %v", rest)
	}
}

// privateDirs are the directories that plugins have to themselves.
func privateDirs(t *testing.T, tmp string) map[string]bool {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(tmp, "yett-plugin.*"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, path := range all {
		out[path] = true
	}
	return out
}
