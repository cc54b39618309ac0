//go:build linux

package conform

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/yett-dev/yett/core/testkit"
)

// TestFirstParty holds our own plugins, and the example in Go, to what is asked of a vendor's: each passes as it is.
func TestFirstParty(t *testing.T) {
	testkit.Slow(t, "builds all plugins")
	if testing.Short() {
		t.Skip("-short: the plugins are not built")
	}
	found, err := filepath.Glob("../../../../plugins/*/main.go")
	if err != nil || len(found) < 8 {
		t.Fatalf("%v: %v", found, err)
	}
	for _, main := range append(found, "../../../../examples/authorizer-go/main.go") {
		folder := filepath.Dir(main)
		t.Run(filepath.Base(folder), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), filepath.Base(folder))
			build := exec.Command("go", "build", "-o", path, folder)
			build.Env = append(os.Environ(), "GOFLAGS=-mod=readonly")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("go build: %v\n%s", err, out)
			}
			o := testOptions(t, "")
			o.Path, o.Env = path, nil
			rep, err := Run(context.Background(), o)
			if err != nil {
				t.Fatal(err)
			}
			if !rep.Pass {
				t.Errorf("%s\n%s", rep.Reason, lines(rep))
			}
		})
	}
}
