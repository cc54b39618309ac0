package loaded

import (
	"encoding/json"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// pluginLine is one line that a plugin has written, taken apart.
type pluginLine struct {
	level   slog.Level
	message string
	fields  []slog.Attr
}

// mostFields bounds what is shown of one line.
const mostFields = 32

// The names that loggers give to what every line has: go-hclog, log/slog, zap, zerolog and Python's structlog.
var (
	levelNames   = []string{"@level", "level", "severity", "levelname"}
	messageNames = []string{"@message", "msg", "message", "event"}
	timeNames    = []string{"@timestamp", "time", "timestamp", "ts"}
)

var levels = map[string]slog.Level{"TRACE": slog.LevelDebug, "DEBUG": slog.LevelDebug, "INFO": slog.LevelInfo,
	"NOTICE": slog.LevelInfo, "WARN": slog.LevelWarn, "WARNING": slog.LevelWarn, "ERROR": slog.LevelError,
	"CRITICAL": slog.LevelError, "FATAL": slog.LevelError, "PANIC": slog.LevelError}

// spoken is a level at the beginning of a line: "[WARN]  x" of go-hclog, "ERROR:name:x" of Python.
var spoken = regexp.MustCompile(`^(?:\[([A-Z]+)\]\s*|([A-Z]+): ?)`)

// parseLine reads a line as most loggers write it: a JSON object, or a text. usual is the level of a line that has
// none. Whatever it is, nothing of it is lost but its time, which is that of our own line.
func parseLine(line string, usual slog.Level) pluginLine {
	if l, ok := parseObject(line, usual); ok {
		return l
	}
	out := pluginLine{level: usual, message: line}
	if m := spoken.FindStringSubmatch(line); m != nil {
		if level, ok := levels[m[1]+m[2]]; ok {
			out.level, out.message = level, line[len(m[0]):]
		}
	}
	if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") {
		out.level = slog.LevelError
	}
	return out
}

// parseObject reads a line that is a JSON object with a message.
func parseObject(line string, usual slog.Level) (pluginLine, bool) {
	out := pluginLine{level: usual}
	if !strings.HasPrefix(line, "{") {
		return out, false
	}
	var members map[string]any
	dec := json.NewDecoder(strings.NewReader(line))
	dec.UseNumber()
	if dec.Decode(&members) != nil || dec.More() {
		return out, false
	}
	found := false
	for _, name := range messageNames {
		if text, ok := members[name].(string); ok {
			out.message, found = text, true
			delete(members, name)
			break
		}
	}
	if !found {
		return out, false
	}
	for _, name := range levelNames {
		text, ok := members[name].(string)
		if level, known := levels[strings.ToUpper(text)]; ok && known {
			out.level = level
			delete(members, name)
			break
		}
	}
	for _, name := range timeNames {
		if _, ok := members[name]; ok {
			delete(members, name)
			break
		}
	}
	for i, name := range slices.Sorted(maps.Keys(members)) {
		if i == mostFields {
			out.fields = append(out.fields, slog.Int("not_shown", len(members)-mostFields))
			break
		}
		out.fields = append(out.fields, slog.Any(strings.TrimPrefix(name, "@"), members[name]))
	}
	return out, true
}
