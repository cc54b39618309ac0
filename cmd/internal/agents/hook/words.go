package hook

import (
	"strings"
	"unicode/utf8"
)

// maxText bounds what a model is told.
const maxText = 4 << 10

// said is a text fit for a model and for stderr, or another where it is empty. It never ends in nothing where instead
// holds something: some agents run the tool when a refusal has no text.
func said(text, instead string) string {
	if text = cut(clean(text), maxText); text != "" {
		return text
	}
	return instead
}

// clean drops what is no text: invalid UTF-8, control characters other than line ends and tabs, space at both ends.
func clean(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < 0x20 && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD")))
}

// cut shortens s to at most n bytes and says so with an ellipsis.
func cut(s string, n int) string {
	const more = "…"
	if len(s) <= n {
		return s
	}
	s = s[:n-len(more)]
	for len(s) > 0 {
		if r, size := utf8.DecodeLastRuneInString(s); r != utf8.RuneError || size != 1 {
			break
		}
		s = s[:len(s)-1]
	}
	return s + more
}

// line is the text with a line end, for stderr.
func line(text string) []byte { return append([]byte(text), '\n') }

// fitsText reports whether arguments are short enough to be shown to a model whole.
func fitsText(args []byte) bool { return len(args) <= maxText/2 && utf8.Valid(args) }
