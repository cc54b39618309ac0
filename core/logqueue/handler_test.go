package logqueue

import (
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// hushed takes "hush" out of every text, and whatever has the name password.
func hushed(name, text string) string {
	if name == "password" {
		return "***"
	}
	return strings.ReplaceAll(text, "hush", "***")
}

// lines is what a log with these settings has of what say logs.
func lines(t *testing.T, least slog.Level, asJSON bool, say func(l *slog.Logger)) []string {
	t.Helper()
	w := &gated{open: opened()}
	q := New(w, noon, hushed)
	q.Configure(least, asJSON)
	say(q.Logger())
	if !q.Flush(patience) {
		t.Fatal("the lines were not written")
	}
	return w.lines()
}

func everyKind(l *slog.Logger) {
	l.Debug("unseen")
	l.Info("serving on http://127.0.0.1:1", "took", 1500*time.Millisecond, "n", 3, "ok", true)
	l.Warn("a \x1b[31m\u202eline\nof hush", "why", errors.New("hush it"), "empty", "")
	l.With("plugin", "entitle", "source", "stderr").WithGroup("fields").Error("INFO plugin=other: no", "user", "a b",
		"password", "x", "deep", map[string]any{"list": []any{"hush", json.Number("1.50"), nil}, "password": "y"},
		slog.Group("at", "row", 1))
}

func TestText(t *testing.T) {
	want := []string{
		"2026-01-02T12:00:00Z INFO serving on http://127.0.0.1:1 took=1.5s n=3 ok=true\n",
		"2026-01-02T12:00:00Z WARN a \\u{1b}[31m\\u{202e}line\n\tof *** why=\"*** it\" empty=\"\"\n",
		"2026-01-02T12:00:00Z ERROR plugin=entitle source=stderr: INFO plugin=other: no fields.user=\"a b\" " +
			`fields.password=*** fields.deep="{\"list\":[\"***\",1.50,null],\"password\":\"***\"}" fields.at.row=1`,
	}
	if got := strings.Join(lines(t, slog.LevelInfo, false, everyKind), ""); got != strings.Join(want, "") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, ""))
	}
}

func TestJSON(t *testing.T) {
	want := []string{
		`{"time":"2026-01-02T12:00:00Z","level":"INFO","msg":"serving on http://127.0.0.1:1","took":1500000000,"n":3,"ok":true}`,
		`{"time":"2026-01-02T12:00:00Z","level":"WARN","msg":"a \u001b[31m\u202eline\nof ***","why":"*** it","empty":""}`,
		`{"time":"2026-01-02T12:00:00Z","level":"ERROR","msg":"INFO plugin=other: no","plugin":"entitle","source":"stderr",` +
			`"fields":{"user":"a b","password":"***","deep":{"list":["***",1.50,null],"password":"***"},"at":{"row":1}}}`,
	}
	got := lines(t, slog.LevelInfo, true, everyKind)
	for i := range got {
		if got[i] = strings.TrimSuffix(got[i], "\n"); !json.Valid([]byte(got[i])) {
			t.Errorf("no JSON: %s", got[i])
		}
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The level holds from the next line on, for loggers that are there already.
func TestLevel(t *testing.T) {
	w := &gated{open: opened()}
	q := New(w, noon, nothing)
	l := q.Logger().With("part", "x")
	for level, want := range map[slog.Level]int{slog.LevelDebug: 4, slog.LevelInfo: 3, slog.LevelWarn: 2,
		slog.LevelError: 1} {
		q.Configure(level, false)
		before := len(strings.Join(w.lines(), ""))
		for _, at := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
			l.Log(t.Context(), at, "said")
		}
		if !q.Flush(patience) {
			t.Fatal("the lines were not written")
		}
		if got := strings.Count(strings.Join(w.lines(), "")[before:], "said"); got != want {
			t.Errorf("at %v %d lines are written, want %d", level, got, want)
		}
	}
}

// FuzzLines: whatever is logged is one line that prints, in JSON one object, and holds nothing that was to be taken
// out.
func FuzzLines(f *testing.F) {
	f.Add("message", "key", "value")
	f.Add("a\nb\x1b", "password", "\xff\u2028\U000e0001")
	f.Add("=\"", "", "{\"a\":1}")
	f.Fuzz(func(t *testing.T, message, key, value string) {
		for _, asJSON := range []bool{false, true} {
			for _, line := range lines(t, slog.LevelInfo, asJSON, func(l *slog.Logger) {
				l.With("plugin", message).Info(message, key, value, "any", map[string]any{key: []any{value}})
			}) {
				if asJSON && !json.Valid([]byte(line)) {
					t.Errorf("no JSON: %q", line)
				}
				for _, r := range strings.TrimRight(strings.ReplaceAll(line, "\n\t", ""), "\n") {
					if shown(string(r)) != string(r) || asJSON && r == '\t' {
						t.Errorf("%q does not print: %q", r, line)
					}
				}
				if strings.Contains(line, "hush") && strings.Contains(message+key+value, "hush") {
					t.Errorf("not taken out: %q", line)
				}
			}
		}
	})
}
