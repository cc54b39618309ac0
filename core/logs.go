package core

import (
	"context"
	"fmt"
	"log/slog"
)

// logf is a log at one level, for packages that log lines of text: how bad a line is is said where they are wired.
func logf(l *slog.Logger, level slog.Level) func(format string, args ...any) {
	return func(format string, args ...any) {
		if l.Enabled(context.Background(), level) {
			l.Log(context.Background(), level, fmt.Sprintf(format, args...))
		}
	}
}

func (g *Gateway) warn(format string, args ...any) { logf(g.opts.Log, slog.LevelWarn)(format, args...) }
func (g *Gateway) alarm(format string, args ...any) {
	logf(g.opts.Log, slog.LevelError)(format, args...)
}
