package config

import "log/slog"

// Log is how the server's own log is written. It is no audit log: nothing rests on it.
type Log struct {
	Level  string `koanf:"level" default:"info" enum:"debug|info|warn|error" doc:"Lines below this level are not written. Lines of plugins have levels of their own."`
	Format string `koanf:"format" default:"text" enum:"text|json" doc:"How a line is written: as text for people, or as a JSON object."`
}

// Least is Level as the log's library knows it.
func (l Log) Least() slog.Level {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.Level)); err != nil {
		return slog.LevelInfo // the zero Log; Load has checked every other one
	}
	return level
}

// JSON says whether lines are JSON objects.
func (l Log) JSON() bool { return l.Format == "json" }
