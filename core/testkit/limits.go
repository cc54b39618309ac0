package testkit

import (
	"testing"

	"github.com/yett-dev/yett/config"
)

// Limits are the limits of a configuration that says nothing of them.
func Limits(t testing.TB) config.Limits {
	t.Helper()
	cfg, err := config.Load(config.Sources{})
	if err != nil {
		t.Fatal(err)
	}
	return cfg.Limits
}
