package loaded

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A module that prints as much as it may in every call adds a little to the log, and what is left out is said.
func TestModulesCannotFillTheLog(t *testing.T) {
	var lines []string
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	l := newLineLimit(func(format string, args ...any) {
		lines = append(lines, fmt.Sprintf(format, args...))
	}, func() time.Time { return now })
	size := func() (n int) {
		for _, line := range lines {
			n += len(line)
		}
		return n
	}
	for range 1000 {
		l.write("loud", 1, strings.Repeat("\x01", 1024))
		l.write("chatty", 1, "x")
	}
	if size() > 2*logBytes || len(lines) > 2*logLines {
		t.Fatalf("%d lines, %d bytes", len(lines), size())
	}
	l.write("quiet", 1, "one line")
	if last := lines[len(lines)-1]; last != `module quiet: level 1: "one line"` {
		t.Errorf("another module's line: %q", last)
	}
	now = now.Add(time.Minute)
	lines = nil
	l.write("chatty", 1, "again")
	if len(lines) != 2 || !strings.Contains(lines[0], "950 lines of the last minute were left out") ||
		lines[1] != `module chatty: level 1: "again"` {
		t.Errorf("after a minute: %q", lines)
	}
}

// What a module or a plugin writes may quote what it was asked about: no line of the log has an API key in it.
func TestLogHasNoKeys(t *testing.T) {
	var text string
	l := newLineLimit(func(format string, args ...any) { text += fmt.Sprintf(format, args...) + "\n" }, time.Now)
	key := keyLike()
	l.write("m", 1, "called with "+key)
	l.plugin("p", 1, "called with "+key)
	if strings.Contains(text, key) || strings.Count(text, "called with [YETT_API_KEY]") != 2 {
		t.Errorf("the log: %s", text)
	}
}

// keyLike is a text that begins as a key's value does, and goes on for as long.
func keyLike() string { return "yett" + "_" + strings.Repeat("a", 12) + "_" + strings.Repeat("b", 49) }
