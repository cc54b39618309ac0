package core

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// logTo is a log whose lines say gets, each with its level and its attributes.
func logTo(say func(format string, args ...any)) *slog.Logger { return slog.New(sayer{say, ""}) }

type sayer struct {
	say   func(format string, args ...any)
	bound string
}

func (s sayer) Enabled(context.Context, slog.Level) bool { return true }
func (s sayer) WithGroup(string) slog.Handler            { return s }

func (s sayer) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		s.bound += " " + a.String()
	}
	return s
}

func (s sayer) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%v%s: %s", r.Level, s.bound, r.Message)
	r.Attrs(func(a slog.Attr) bool {
		b.WriteString(" " + a.String())
		return true
	})
	s.say("%s", b.String())
	return nil
}

// A reload changes what the log shows, and how.
func TestReloadOfTheLog(t *testing.T) {
	w := newWorld(t, func(w *world) { w.write("", "", "") })
	w.write("", "", "log: {level: debug, format: json}\n")
	w.reloads()
	if w.logAs != "DEBUG true" {
		t.Errorf("the log was told %q", w.logAs)
	}
	w.write("", "", "log: {level: loud}\n")
	if _, err := w.reload(); err == nil || !strings.Contains(err.Error(), "log.level") {
		t.Errorf("an unknown level: %v", err)
	}
	w.write("", "", "")
	w.reloads()
	if w.logAs != "INFO false" {
		t.Errorf("without settings the log was told %q", w.logAs)
	}
}

// What a plugin process writes is its own in the log.
func TestPluginsLinesInTheLog(t *testing.T) {
	w := newWorld(t, func(w *world) { w.write(w.guest("authorizer", "good:one"), guestStep, "") })
	w.ask("guest/say")
	w.until("its line is in the log", func() bool {
		return strings.Contains(w.logged(), "WARN plugin=guest source=stderr: slow fields=[took=7]")
	})
}
