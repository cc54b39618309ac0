package admin

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yett-dev/yett/core/admin"
)

func TestToolDifference(t *testing.T) {
	for _, c := range []struct{ name, was, is, want string }{
		{"the same", `{"a":1}`, `{"a":1}`, ""},
		{"a new one", ``, `{"a":1}`, "@@ -0,0 +1,3 @@\n+{\n+  \"a\": 1\n+}"},
		{"a value", `{"a":1,"b":2}`, `{"a":1,"b":3}`,
			"@@ -1,4 +1,4 @@\n {\n   \"a\": 1,\n-  \"b\": 2\n+  \"b\": 3\n }"},
		{"numbers as they are", `{"a":12345678901234567890}`, `{"a":12345678901234567891}`,
			"@@ -1,3 +1,3 @@\n {\n-  \"a\": 12345678901234567890\n+  \"a\": 12345678901234567891\n }"},
		{"far apart", `[1,0,0,0,0,0,0,0,0,2]`, `[3,0,0,0,0,0,0,0,0,4]`,
			"@@ -1,5 +1,5 @@\n [\n-  1,\n+  3,\n   0,\n   0,\n   0,\n@@ -8,5 +8,5 @@\n   0,\n   0,\n   0,\n-  2\n+  4\n ]"},
		{"a line of a long text", `{"d":"one\ntwo\n"}`, `{"d":"one\nthree\n"}`,
			"@@ -1,4 +1,4 @@\n {\n   \"d\": \"one\\n\n-    | two\\n\"\n+    | three\\n\"\n }"},
		{"no line break", `{"d":"a\\nb"}`, `{"d":"a\\nc"}`,
			"@@ -1,3 +1,3 @@\n {\n-  \"d\": \"a\\\\nb\"\n+  \"d\": \"a\\\\nc\"\n }"},
		{"hidden", `{"d":"x"}`, "{\"d\":\"\u202e\u200b\u001bx\U000E0041\"}", "cannot be shown"},
		{"hidden characters", `{"d":"x"}`, "{\"d\":\"\u202ex\u200b\u007f\\u001b[2J\U000E0041\"}",
			"@@ -1,3 +1,3 @@\n {\n-  \"d\": \"x\"\n+  \"d\": \"\\u202ex\\u200b\\u007f\\u001b[2J\\udb40\\udc41\"\n }"},
		{"a text like a line", `{"d":"x"}`, `{"d":"x\n  \"readOnly\": true,"}`,
			"@@ -1,3 +1,4 @@\n {\n-  \"d\": \"x\"\n+  \"d\": \"x\\n\n+    |   \\\"readOnly\\\": true,\"\n }"},
	} {
		got, err := toolDifference([]byte(c.was), []byte(c.is))
		if c.name == "hidden" { // a raw escape character is no JSON
			if err == nil {
				t.Errorf("%s: %q", c.name, got)
			}
			continue
		}
		if text := strings.Join(got, "\n"); err != nil || text != c.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", c.name, err, text, c.want)
		}
	}
}

// A difference makes the one text of the other, and no shorter one would where it is small.
func TestDifferenceIsRight(t *testing.T) {
	for seed := range 2000 {
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		text := func() (out []string) {
			for range rng.IntN(9) {
				out = append(out, fmt.Sprint(rng.IntN(3)))
			}
			return out
		}
		a, b := text(), text()
		var was, is []string
		changed := 0
		for _, l := range compare(a, b) {
			if l.op != '+' {
				was = append(was, l.text)
			}
			if l.op != '-' {
				is = append(is, l.text)
			}
			if l.op != ' ' {
				changed++
			}
		}
		if !slices.Equal(was, a) || !slices.Equal(is, b) || changed != len(a)+len(b)-2*common(a, b) {
			t.Fatalf("seed %d: %v and %v by %v", seed, a, b, compare(a, b))
		}
	}
}

// common is the length of the longest sequence that both have, by the definition.
func common(a, b []string) int {
	switch {
	case len(a) == 0 || len(b) == 0:
		return 0
	case a[0] == b[0]:
		return 1 + common(a[1:], b[1:])
	}
	return max(common(a[1:], b), common(a, b[1:]))
}

// Texts that have nothing in common, of the longest size, take no time to speak of.
func TestDifferenceOfHostileTexts(t *testing.T) {
	long := func(n int) []byte {
		return []byte(`{"d":"` + strings.Repeat(fmt.Sprintf(`\n%d`, n), 60_000) + `","l":[` +
			strings.Repeat(`0,`, 30_000) + `1]}`)
	}
	began := time.Now()
	got, err := toolDifference(long(1), long(2))
	if err != nil || len(got) < 120_000 || time.Since(began) > 20*time.Second {
		t.Errorf("%d lines, %v, %v", len(got), err, time.Since(began))
	}
}

// The line that an operator may copy runs nothing of a server's.
func TestAcceptCommandIsQuoted(t *testing.T) {
	row := &admin.ToolRow{Server: "up", Tool: "--x; $(reboot) 'a\x1b", Pending: &admin.ToolDefinition{Digest: "sha256:0"}}
	if got, want := acceptCommand(row), `yett mcp accept --digest sha256:0 -- up '--x; $(reboot) '\''a\u{1b}'`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	row.Pending.Text, row.State = json.RawMessage(`{}`), admin.ToolNew
	var out strings.Builder
	if err := printDifference(&out, row); err != nil || strings.Contains(out.String(), "\x1b") ||
		!strings.Contains(out.String(), "--- nothing was accepted before") {
		t.Errorf("%v %s", err, out.String())
	}
	row.Accepted = &admin.ToolDefinition{Digest: "sha256:1", Text: json.RawMessage(`{}`)}
	out.Reset()
	if err := printDifference(&out, row); err != nil || !strings.Contains(out.String(), "redacted") {
		t.Errorf("%v %s", err, out.String())
	}
}

func TestTypedDigests(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0123456789abcdef", 4)
	for typed, want := range map[string]bool{digest: true, digest[7:]: true, digest[:19]: true, digest[7:19]: true,
		digest[:18]: false, "": false, "sha256:": false, "yes": false, digest + "0": false, digest[8:]: false} {
		if got := names(typed, digest); got != want {
			t.Errorf("%q: %v", typed, got)
		}
	}
}
