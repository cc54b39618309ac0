package core

import (
	"context"
	"errors"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/loaded"
)

// Check builds what a configuration describes and throws it away: it finds what config alone cannot, such as conditions
// that do not type-check, modules that do not load and plugins that refuse their settings. Plugins that are processes
// are started, asked and ended; they are told to try nothing (validate_only). It touches no data directory.
func Check(ctx context.Context, cfg *config.Config) error {
	if _, err := tlsConfig(cfg, "server.tls", cfg.Server.TLS); err != nil {
		return err
	}
	if !cfg.Server.MetricsOff() {
		if _, err := tlsConfig(cfg, "server.metrics_tls", cfg.Server.MetricsTLS); err != nil {
			return err
		}
	}
	if _, err := tracesTLS(cfg); err != nil {
		return err
	}
	if _, err := checkpointing(cfg); err != nil {
		return err
	}
	if cfg.Console.Enabled {
		if _, err := tlsConfig(cfg, "console.tls", cfg.Console.TLS); err != nil {
			return err
		}
	}
	return loaded.Check(ctx, cfg)
}

// configError marks what only a changed configuration can mend.
type configError struct{ error }

func (e configError) Unwrap() error { return e.error }

// IsConfigError reports whether New failed because of what the operator wrote (rules, modules, chains).
func IsConfigError(err error) bool {
	var c configError
	return errors.As(err, &c)
}
