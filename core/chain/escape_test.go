package chain

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// joined is what a text that comes in pieces reads as, by its units.
func joined(t testing.TB, pieces ...string) (out string) {
	t.Helper()
	held := ""
	for i, piece := range pieces {
		held += piece
		u := units{text: held, final: i == len(pieces)-1}
		for n, as := u.next(); n > 0; n, as = u.next() {
			if as == nil {
				as = []byte(held[u.at-n : u.at])
			}
			out += string(as)
		}
		if held = held[u.at:]; len(held) > maxSequence+16 {
			t.Fatalf("%q: %d bytes wait for the rest of an escape", pieces, len(held))
		}
	}
	if held != "" {
		t.Fatalf("%q: %q is left", pieces, held)
	}
	return out
}

func checkUnits(t testing.TB, text string) {
	t.Helper()
	want, ok := decoded(text)
	if !ok {
		want = text
	}
	for at := 0; at <= len(text); at++ {
		if got := joined(t, text[:at], text[at:]); got != want {
			t.Fatalf("%q, cut at %d: reads as %q, want %q", text, at, got, want)
		}
	}
	// Every place goes back to a unit that reads as what is there, and the units follow one another.
	places := make([]int, len(want))
	for i := range places {
		places[i] = i
	}
	from, to := sources(units{text: text, final: true}, places)
	for i := range places {
		unit, at := unitAt(text, i)
		part, _ := decoded(text[from[i]:to[i]])
		if at != from[i] || unit > i || to[i]-from[i] == 1 && text[from[i]] != want[i] && want[i] != 0xef &&
			text[from[i]] != c1 || part != "" && !strings.HasPrefix(want[unit:], part) || i > 0 && from[i] < from[i-1] {
			t.Fatalf("%q: byte %d of %q is of %d to %d, unit %d at %d", text, i, want, from[i], to[i], unit, at)
		}
	}
}

var escapeSeeds = []string{"", `^`, `^[`, `^[[`, `^[[m`, `a^[[31mb`, `^[[1;38;2;1;2;3mx`, `^[[31`, `^[[31x`, `^^[[31m`,
	`^[[31^[[0m`, `^\u005b[31mx`, `^[[3\u0031mx`, `\u005e[[31mx`, `^\d+`, `^\"x`, "^\x1b[[31mx", "^[[3\xc2\x9b1mx",
	`\u00^[[31m41`, `\u00^[[31m`, "\x1b]0;^[[31mx\a", `^[[` + strings.Repeat("1", 40) + `m`, `^\`, `^[\u`, `\`, `\\`,
	`\\\`, `a\nb`, `\d\n`, `\u`, `\u00`, `\u0041`, `\u004g`, `\u005cu0041`, `\ud83d\ude00`, `\ud83d`, `\ud83dx`,
	`\ud83d\u0041`, `\ud83d\ud83d\ude00`, `\ude00`, `\ud83d\`, `\ud83d\u`, `\ud83d\ude`, `\U0041`,
	`C:\new\x`, "\xff\\n\xc3", `\u0000`, `é\/é`,
	"a\x1b[31mb\x1b[0m", "\x1b[3", "\x1b", "\x1b[1;2Hx", "\x1b]0;title\x07x", "\x1b]8;;http://a\x1b\\\\nb", "\x1b]0;\\n\x07", "\x1b]0;x\x1b\\\\u0041", "\x1b(Bx", "\x1b\\\\n", "\x1b\\x",
	"\u009b31mx", "\u009d0;x\u009cy", "\xc2\x1b", "0\xc2¡0", "\u00a0\u009b", `\x1b[31m`, `\x9b1m`, `\033[0m`, `\33[0m`,
	`\0331`, `\0033[m`, `\e[1m`, `\u{1b}[1m`, `\u{1F600}`, `\U0000001b`, `\UFFFFFFFF`, `\x1\x1b`, `\03\u0033`,
	`\u00\u0034\u0031`, "\\x1\x1b[mb"}

// A text reads the same whole and cut anywhere, and as encoding/json reads it where that is JSON.
func TestUnits(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 8))
	parts := []string{"^", "^[[", "^[[1;31m", "[31m", `\`, `\\`, "n", "u", "0", "4", "d83d", "de00", `\ud83d`, `\ude00`,
		`\u00e9`, "é", `"`, "/", "x", " ", "\x1b", "\x1b[", "\x1b]", "\x07", "m", "\u009b", "\u009c", "\xc2", "{", "}", "1b",
		"e", "33", "U0000", "(", "H", "3"}
	texts := escapeSeeds
	for range 3000 {
		var b strings.Builder
		for range rng.IntN(10) {
			b.WriteString(parts[rng.IntN(len(parts))])
		}
		texts = append(texts, b.String())
	}
	for _, text := range texts {
		checkUnits(t, text)
		var want string
		// which JSON does not know as controls
		if json.Unmarshal([]byte(`"`+text+`"`), &want) != nil || !utf8.ValidString(text) ||
			strings.ContainsAny(text, "\u009b\u009c\u009d") || strings.Contains(text, "^[[") {
			continue
		}
		if got, ok := decoded(text); ok && got != want || !ok && text != want {
			t.Errorf("%q reads as %q, want %q", text, got, want)
		}
	}
}

func FuzzUnits(f *testing.F) {
	for _, s := range escapeSeeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) < 1<<10 {
			checkUnits(t, text)
		}
	})
}

// What stands between the letters of a word, and shows as nothing, is not there for scanners. What moves the cursor
// parts words.
func TestControlSequences(t *testing.T) {
	for _, one := range []struct{ name, sequence, as string }{
		{"a colour", "\x1b[31m", ""},
		{"many parameters", "\x1b[38;2;255;0;0m", ""},
		{"an end of line that is erased", "\x1b[K", ""},
		{"a private mode", "\x1b[?25l", ""},
		{"one that is broken off", "\x1b[31\x1b[m", ""},
		{"a character set", "\x1b(B", ""},
		{"a single letter", "\x1b=", ""},
		{"a title", "\x1b]0;a title\x07", ""},
		{"a link", "\x1b]8;;http://a/\x1b\\", ""},
		{"a string of the device", "\x1bP1$r\x1b\\", ""},
		{"U+009B", "\u009b31m", ""},
		{"U+009D", "\u009d0;a\u009c", ""},
		{"in JSON", `\u001b[31m`, ""},
		{"in JSON, U+009B", `\u009b31m`, ""},
		{"in JSON, a link", `\u001b]8;;http://a/\u001b\\`, ""},
		{"in JSON in JSON", `\\u001b[31m`, ""},
		{"hexadecimal", `\x1b[31m`, ""},
		{"hexadecimal, upper case", `\x1B[31m`, ""},
		{"hexadecimal, U+009B", `\x9b31m`, ""},
		{"octal", `\033[31m`, ""},
		{"octal of a shell", `\0033[31m`, ""},
		{"octal, short", `\33[31m`, ""},
		{"a letter", `\e[31m`, ""},
		{"an upper-case letter", `\E[31m`, ""},
		{"braces", `\u{1b}[31m`, ""},
		{"braces of Perl", `\x{1b}[31m`, ""},
		{"eight digits", `\U0000001b[31m`, ""},
		{"a title that ends with a letter", `\e]0;a title\a`, ""},
		{"a movement", "\x1b[2C", " "},
		{"a place", "\x1b[1;2H", " "},
		{"the next line", "\x1bE", " "},
		{"a colour in caret notation", "^[[1;31m", " "},
		{"no parameters in caret notation", "^[[m", " "},
		{"an end of line in caret notation", "^[[K", " "},
		{"a bracket spelled behind the caret", `^\u005b[31m`, " "},
		{"a caret spelled", `\u005e[[31m`, " "},
		{"a parameter spelled", `^[[3\u0031m`, " "},
		{"an expression", `^[[a-z]m`, `^[[a-z]m`},
		{"an expression with a class of digits", `^\d+[[:alpha:]]`, `^\d+[[:alpha:]]`},
		{"a movement, spelled", `\x1b[2C`, " "},
	} {
		if got, want := Decoded("wo"+one.sequence+"rd"), "wo"+one.as+"rd"; got != want {
			t.Errorf("%s: reads as %q, want %q", one.name, got, want)
		}
		checkUnits(t, "wo"+one.sequence+"rd")
	}
	for text, want := range map[string]string{
		"\x1b]0;no end":                      "0;no end",
		"\x1b]0;" + `\u0061` + "\x07b":       "0;a\x07b",
		"\x1b]0;t\x1b" + `\u0061b`:           "ab",
		"\x1b" + `\u0061b`:                   "ab",
		"\x1b" + `\nb`:                       "\nb",
		`\u00` + `\u0034\u0031`:              "u0041",
		`\x1` + "\x1b[m" + "b[31m":           "x1b[31m",
		`\03` + `\u0033`:                     "033",
		`C:\dir`:                             `C:\dir`,
		`\x41\101`:                           `\x41\101`,
		"\x1b]" + strings.Repeat("a", 1<<13): strings.Repeat("a", 1<<13),
		"a\u00a0\u009b1mb \u00b0":            "a\u00a0b \u00b0",
	} {
		if got := Decoded(text); got != want {
			t.Errorf("%.60q reads as %.60q, want %.60q", text, got, want)
		}
	}
}
