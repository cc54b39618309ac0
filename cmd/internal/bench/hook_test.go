//go:build linux

package bench

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/yett-dev/yett/core/testkit"
)

// TestBenchHook asks by every way a few times. Each call was permitted by a real gateway, else there are no figures.
func TestBenchHook(t *testing.T) {
	testkit.Slow(t, "starts a hook for every call")
	dir := t.TempDir()
	cmd := exec.Command(binary(t), "bench", "hook", "--calls", "3", "-o", "json")
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var rows []hookRow
	if err := json.Unmarshal(out, &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 3 {
		t.Fatalf("%d rows: %s", len(rows), out)
	}
	for i, r := range rows {
		if r.P50 <= 0 || r.P99 < r.P50 || r.Calls != 3 || (r.Over == 0) != (i == 0) {
			t.Errorf("%+v", r)
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, "yett-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}
