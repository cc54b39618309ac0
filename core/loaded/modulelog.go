package loaded

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/prochost"
)

// What one module may add to the gateway's log: its author decides what it says, and whoever sends it texts how often.
const (
	logLines = 50       // a minute
	logBytes = 16 << 10 // of them, as they may be written
	lineCost = 32       // what a line counts for beside its text
)

// lineLimit passes modules' lines on, so many of each module a minute. What is left out is counted and said.
type lineLimit struct {
	log *slog.Logger
	now func() time.Time

	mu   sync.Mutex
	used map[string]*lineUse
}

type lineUse struct {
	since        time.Time
	lines, bytes int
	dropped      int
}

func newLineLimit(log *slog.Logger, now func() time.Time) *lineLimit {
	return &lineLimit{log: log, now: now, used: map[string]*lineUse{}}
}

// write takes one line of a module, without API keys of ours; whoever writes the log takes out what else looks like a
// secret. Scanners are not asked: a line comes while they work, and may be theirs. It is safe for concurrent use.
func (l *lineLimit) write(module string, level int, line string) {
	at := slog.LevelError
	if level >= 0 && level < len(moduleLevels) {
		at = moduleLevels[level]
	}
	l.add(l.log.With("module", module), module, parseLine(ops.Keyless(line), at), line)
}

// moduleLevels are those of the ABI.
var moduleLevels = [...]slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError}

// plugin is write for a plugin process: its own level, message and fields, if its line has them.
func (l *lineLimit) plugin(name string, from int, line string) {
	log := l.log.With("plugin", name)
	switch from {
	case prochost.LevelStdout:
		l.add(log.With("source", "stdout"), name, parseLine(ops.Keyless(line), slog.LevelInfo), line)
	case prochost.LevelStderr:
		l.add(log.With("source", "stderr"), name, parseLine(ops.Keyless(line), slog.LevelInfo), line)
	default: // the host's own words
		l.add(log.With("source", "host"), name, pluginLine{level: slog.LevelWarn, message: ops.Keyless(line)}, line)
	}
}

func (l *lineLimit) add(log *slog.Logger, name string, line pluginLine, text string) {
	if !log.Enabled(context.Background(), line.level) {
		return
	}
	pass, dropped := l.countLine(name, len(strconv.Quote(text))+lineCost)
	if dropped > 0 {
		log.Warn(fmt.Sprintf("%d lines of the last minute were left out; %d lines or %d bytes a minute are written", dropped,
			logLines, logBytes))
	}
	if !pass {
		return
	}
	var fields []slog.Attr
	if len(line.fields) > 0 {
		fields = []slog.Attr{{Key: "fields", Value: slog.GroupValue(line.fields...)}}
	}
	log.LogAttrs(context.Background(), line.level, line.message, fields...)
}

// countLine counts a line. dropped are those that were left out in the minute that has ended.
func (l *lineLimit) countLine(module string, size int) (pass bool, dropped int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u, now := l.used[module], l.now()
	if u == nil || now.Sub(u.since) >= time.Minute {
		if u != nil {
			dropped = u.dropped
		}
		u = &lineUse{since: now}
		l.used[module] = u
	}
	if u.lines == logLines || u.bytes+size > logBytes {
		u.dropped++
		return false, dropped
	}
	u.lines++
	u.bytes += size
	return true, dropped
}
