package loaded

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/prochost"
)

// A module that prints as much as it may in every call adds a little to the log, and what is left out is said.
func TestModulesCannotFillTheLog(t *testing.T) {
	var lines []string
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	l := newLineLimit(logTo(func(line string) { lines = append(lines, line) }), func() time.Time { return now })
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
	if last := lines[len(lines)-1]; last != "level=INFO msg=\"one line\" module=quiet" {
		t.Errorf("another module's line: %q", last)
	}
	now = now.Add(time.Minute)
	lines = nil
	l.write("chatty", 1, "again")
	if len(lines) != 2 || !strings.Contains(lines[0], "950 lines of the last minute were left out") ||
		lines[1] != "level=INFO msg=again module=chatty" {
		t.Errorf("after a minute: %q", lines)
	}
}

// What a module or a plugin writes may quote what it was asked about: no line of the log has an API key in it.
func TestLogHasNoKeys(t *testing.T) {
	var text string
	l := newLineLimit(logTo(func(line string) { text += line + "\n" }), time.Now)
	key := keyLike()
	l.write("m", 1, "called with "+key)
	l.plugin("p", 1, "called with "+key)
	l.plugin("p", 2, `{"msg":"called","with":"called with `+key+`"}`)
	if strings.Contains(text, key) || strings.Count(text, "called with [YETT_API_KEY]") != 3 {
		t.Errorf("the log: %s", text)
	}
}

// A plugin's line has its own level, message and fields, and says where it comes from.
func TestPluginLinesAreNested(t *testing.T) {
	var lines []string
	l := newLineLimit(logTo(func(line string) { lines = append(lines, line) }), time.Now)
	l.plugin("p", prochost.LevelStderr, `{"@level":"error","@message":"no answer","@module":"m","code":7}`)
	l.plugin("p", prochost.LevelStdout, "hello")
	l.plugin("p", prochost.LevelHost, "breaker: open, was closed")
	l.write("m", 0, "unseen")
	l.write("m", 3, "bad")
	want := []string{`level=ERROR msg="no answer" plugin=p source=stderr fields.module=m fields.code=7`,
		"level=INFO msg=hello plugin=p source=stdout", `level=WARN msg="breaker: open, was closed" plugin=p source=host`,
		"level=ERROR msg=bad module=m"}
	if !slices.Equal(lines, want) {
		t.Errorf("%q", lines)
	}
}

// A line that is not written counts for nothing.
func TestLinesBelowTheLevelTakeNoRoom(t *testing.T) {
	var lines []string
	l := newLineLimit(logTo(func(line string) { lines = append(lines, line) }), time.Now)
	for range 10 * logLines {
		l.write("m", 0, "debug")
	}
	if l.write("m", 1, "info"); len(lines) != 1 {
		t.Errorf("%q", lines)
	}
}

// logTo is a log of level info whose lines, without the time, say gets.
func logTo(say func(line string)) *slog.Logger {
	return slog.New(slog.NewTextHandler(writer(say), &slog.HandlerOptions{ReplaceAttr: func(groups []string,
		a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey && len(groups) == 0 {
			return slog.Attr{}
		}
		return a
	}}))
}

type writer func(line string)

func (w writer) Write(p []byte) (int, error) {
	w(strings.TrimSuffix(string(p), "\n"))
	return len(p), nil
}

// keyLike is a text that begins as a key's value does, and goes on for as long.
func keyLike() string { return "yett" + "_" + strings.Repeat("a", 12) + "_" + strings.Repeat("b", 49) }
