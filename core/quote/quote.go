// Package quote makes texts of others fit for messages, records and logs: short, valid UTF-8, and without characters
// that hide text or move a terminal's cursor. It owns how that is done and knows no one who needs it. It must never
// hide a secret: who does that does it before.
package quote

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Replacement stands for each character that does not print.
const Replacement = '\uFFFD'

// hides reports whether a character shows nothing, or something else than it is: controls, bidirectional and other
// marks, broken UTF-8.
func hides(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }

// Cut is the beginning of s, at most n bytes without half of a character, and whether there is more.
func Cut(s string, n int) (begin string, more bool) {
	if len(s) <= n {
		return s, false
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n], true
}

// Plain is s with Replacement for each character that does not print.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		if hides(r) {
			return Replacement
		}
		return r
	}, s)
}

// Short is the beginning of s for a message: at most n bytes before Replacement stands for what does not print, and "…"
// if there is more.
func Short(s string, n int) string {
	begin, more := Cut(s, n)
	if begin = Plain(begin); more {
		begin += "…"
	}
	return begin
}

// Literal is the beginning of s, at most n characters, as Go writes it in quotes.
func Literal(s string, n int) string {
	for i := range s {
		if n == 0 {
			s = s[:i] + "…"
			break
		}
		n--
	}
	return strconv.Quote(s)
}

// Begin is the beginning of s for a record: at most n bytes of valid UTF-8, and how many bytes more there are. Line
// ends stay.
func Begin(s string, n int) string {
	begin, more := Cut(s, n)
	if begin = strings.ToValidUTF8(begin, string(Replacement)); more {
		begin += fmt.Sprintf("… (%d bytes more)", len(s)-len(begin))
	}
	return begin
}

// Visible is s with an escape for each character that does not print: \n, \xff for a byte that is not UTF-8, else
// \u{7f}.
func Visible(s string) string {
	return escaped(s, func(b *strings.Builder, r rune) {
		if r == '\n' {
			b.WriteString(`\n`)
			return
		}
		fmt.Fprintf(b, `\u{%x}`, r)
	})
}

// Line is s as one line of a log: a space for a tab, \xff for a byte that is not UTF-8, else \u007f for a character
// that does not print.
func Line(s string) string {
	return escaped(s, func(b *strings.Builder, r rune) {
		if r == '\t' {
			b.WriteByte(' ')
			return
		}
		fmt.Fprintf(b, `\u%04x`, r)
	})
}

// escaped writes s, with write for each character that does not print.
func escaped(s string, write func(b *strings.Builder, r rune)) string {
	if !strings.ContainsFunc(s, hides) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		_, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size <= 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			write(&b, r)
		}
	}
	return b.String()
}
