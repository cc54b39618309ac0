package core

import (
	"fmt"
	"strings"
	"testing"

	"github.com/yett-dev/yett/config"
)

// TestDiskWarnings: what the disk of a data directory that is not made yet cannot give is said.
func TestDiskWarnings(t *testing.T) {
	cfg := &config.Config{Storage: config.Storage{Path: config.Path(t.TempDir() + "/not/there"), MinFree: "1048576TiB"}}
	got := strings.Join(DiskWarnings(cfg), "\n")
	if !strings.Contains(got, "storage.min_free") || !strings.Contains(got, "every call is denied") {
		t.Errorf("%q", got)
	}
	cfg.Storage.MinFree = "5%"
	if got := DiskWarnings(cfg); len(got) != 0 { // no ballast is asked for
		t.Errorf("%q", got)
	}
}

// TestReadyNamesCopyOnWrite: where files reserve no room, /readyz says so, and the gateway is ready all the same.
func TestReadyNamesCopyOnWrite(t *testing.T) {
	w := newWorld(t, func(w *world) { w.write(w.guest("subscriber", "waits"), "", fmt.Sprintf(everything, "full")) })
	w.g.unreserved, w.g.cfg.Storage.Ballast = "btrfs", 1
	for _, p := range w.g.ready() {
		if p.Name == "disk" {
			if p.OK || !p.Beside || !strings.Contains(p.Detail, "btrfs") {
				t.Errorf("%+v", p)
			}
			return
		}
	}
	t.Error("there is no such row")
}
