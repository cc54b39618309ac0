package loaded

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestParseLine(t *testing.T) {
	for line, want := range map[string]string{
		`{"@level":"warn","@message":"slow","@module":"m","@timestamp":"2026-01-02T12:00:00.0Z","n":1.50}`: "WARN slow " +
			"[module=m n=1.50]",
		`{"time":"2026-01-02T12:00:00Z","level":"ERROR","msg":"no","err":{"code":7}}`: "ERROR no [err=map[code:7]]",
		`{"event":"start","level":"info","timestamp":1}`:                              "INFO start []",
		`{"level":"loud","msg":"x"}`:                                                  "INFO x [level=loud]",
		`{"level":30,"msg":"x"}`:                                                      "INFO x [level=30]",
		`{"msg":7}`:                                                                   `INFO {"msg":7} []`,
		`{"msg":"x"} {}`:                                                              `INFO {"msg":"x"} {} []`,
		`{"msg":"cut`:                                                                 `INFO {"msg":"cut []`,
		`{}`:                                                                          "INFO {} []",
		"[WARN]  low":                                                                 "WARN low []",
		"[ERROR] bad":                                                                 "ERROR bad []",
		"WARNING:root:low":                                                            "WARN root:low []",
		"CRITICAL: gone":                                                              "ERROR gone []",
		"HTTP: served":                                                                "INFO HTTP: served []",
		"panic: runtime error":                                                        "ERROR panic: runtime error []",
		"fatal error: all dead":                                                       "ERROR fatal error: all dead []",
		"":                                                                            "INFO  []",
	} {
		l := parseLine(line, slog.LevelInfo)
		if got := fmt.Sprintf("%v %s %v", l.level, l.message, l.fields); got != want {
			t.Errorf("%s\nis   %s\nwant %s", line, got, want)
		}
	}
	var many strings.Builder
	for i := range 40 {
		fmt.Fprintf(&many, `,"f%02d":%d`, i, i)
	}
	l := parseLine(`{"msg":"x"`+many.String()+"}", slog.LevelInfo)
	if len(l.fields) != mostFields+1 || l.fields[mostFields].String() != "not_shown=8" {
		t.Errorf("%d fields, the last %v", len(l.fields), l.fields[len(l.fields)-1])
	}
}

// FuzzParseLine: a plugin's line is taken apart or kept, never lost.
func FuzzParseLine(f *testing.F) {
	for _, line := range []string{`{"@level":"warn","@message":"slow","n":1}`, "[WARN] x", "{", "ERROR:x", `{"msg":null}`,
		"\xff", `{"msg":"a","msg":"b"}`} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		l := parseLine(line, slog.LevelInfo)
		if len(l.fields) > mostFields+1 {
			t.Errorf("%d fields", len(l.fields))
		}
		if l.fields == nil && !strings.HasPrefix(line, "{") && !strings.HasSuffix(line, l.message) {
			t.Errorf("%q became %q", line, l.message)
		}
	})
}
