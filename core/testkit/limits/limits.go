// Package limits gives tests the limits of a gateway. It is apart from testkit, so that a test of processes, whose
// helpers are the test's own program, does not link and start the configuration. It must never set a limit itself.
package limits

import (
	"testing"

	"github.com/yett-dev/yett/config"
)

// Default are the limits of a configuration that says nothing of them.
func Default(t testing.TB) config.Limits {
	t.Helper()
	cfg, err := config.Load(config.Sources{})
	if err != nil {
		t.Fatal(err)
	}
	return cfg.Limits
}
