package console

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/yett-dev/yett/sdk/wire"
)

// piece is a run of text, or one character that would not be seen or would change how others are seen.
type piece struct {
	Text string
	Mark string // "U+202E"; empty for text
}

// visible splits text from outside so that a page can show what is in it. The pieces joined are the whole text: nothing
// is left out.
func visible(s string) []piece {
	var out []piece
	start := 0
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		mark := ""
		switch {
		case r == utf8.RuneError && n == 1:
			mark = fmt.Sprintf("byte %02X", s[i])
		case wire.Hidden(r):
			mark = fmt.Sprintf("U+%04X", r)
		}
		if mark != "" {
			if start < i {
				out = append(out, piece{Text: s[start:i]})
			}
			out = append(out, piece{Mark: mark})
			start = i + n
		}
		i += n
	}
	if start < len(s) {
		out = append(out, piece{Text: s[start:]})
	}
	return out
}

// plain is the visible text where there can be no markup, as in an attribute.
func plain(s string) string {
	var b strings.Builder
	for _, p := range visible(s) {
		if p.Mark != "" {
			b.WriteString("⟨" + p.Mark + "⟩")
		} else {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}
