package loaded

import (
	"fmt"
	"sync"
	"time"

	"github.com/yett-dev/yett/core/ops"
	"github.com/yett-dev/yett/core/prochost"
)

// What one module may add to the gateway's log: its author decides what it says, and whoever sends it texts how often.
const (
	logLines = 50       // a minute
	logBytes = 16 << 10 // of them, as they are written
)

// lineLimit passes modules' lines on, so many of each module a minute. What is left out is counted and said.
type lineLimit struct {
	log func(format string, args ...any)
	now func() time.Time

	mu   sync.Mutex
	used map[string]*lineUse
}

type lineUse struct {
	since        time.Time
	lines, bytes int
	dropped      int
}

func newLineLimit(log func(string, ...any), now func() time.Time) *lineLimit {
	return &lineLimit{log: log, now: now, used: map[string]*lineUse{}}
}

// write takes one line of a module, without API keys of ours. Scanners are not asked: a line comes while they work, and
// may be theirs. It is safe for concurrent use.
func (l *lineLimit) write(module string, level int, line string) {
	l.add("module", module, fmt.Sprintf("module %s: level %d: %q", module, level, ops.Keyless(line)))
}

// plugin is write for a plugin process.
func (l *lineLimit) plugin(name string, level int, line string) {
	source := [...]string{prochost.LevelStdout: "stdout", prochost.LevelStderr: "stderr", prochost.LevelHost: "host"}
	from := "?"
	if level >= 0 && level < len(source) {
		from = source[level]
	}
	l.add("plugin", name, fmt.Sprintf("plugin %s: %s: %q", name, from, ops.Keyless(line)))
}

func (l *lineLimit) add(what, module, text string) {
	pass, dropped := l.countLine(module, len(text))
	if dropped > 0 {
		l.log(what+" %s: %d lines of the last minute were left out; %d lines or %d bytes a minute are written", module,
			dropped, logLines, logBytes)
	}
	if pass {
		l.log("%s", text)
	}
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
