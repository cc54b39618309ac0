package main

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// How much of a text from outside a message shows, in characters.
const (
	maxName   = 200
	maxReason = 500
	maxArgs   = 1500
)

// blank shows nothing, or too little to be noticed, although it is printable to package unicode.
func blank(r rune) bool {
	return r == '\u2800' || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// visible makes text from outside one line in which all can be seen: control characters, line ends, bidirectional
// marks, zero-width characters and blanks become their code in brackets. What is beyond max characters is cut, and that
// is said.
func visible(s string, max int) string {
	var b strings.Builder
	shown := 0
	for i, r := range s {
		if shown == max {
			fmt.Fprintf(&b, "… (%d more bytes)", len(s)-i)
			break
		}
		shown++
		switch {
		case r == utf8.RuneError:
			b.WriteRune(r)
		case !unicode.IsPrint(r), blank(r):
			fmt.Fprintf(&b, "⟨U+%04X⟩", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// slackCode is text from outside as code in Slack's mrkdwn: &, < and > are escaped, so that no link or <!channel> can
// be made, a backtick cannot end the code, and behind an @ stands a zero-width space, so that servers that are only
// like Slack find no @channel.
var slackEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "`", "ˋ", "@", "@\u200b")

// mailText is text from outside in which mail programs find nothing to make a link of: behind what would be part of an
// address stands a zero-width space.
func mailText(visible string) string {
	var b strings.Builder
	for rest := visible; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		b.WriteString(rest[:size])
		rest = rest[size:]
		next, _ := utf8.DecodeRuneInString(rest)
		if r == '@' || r == ':' && strings.HasPrefix(rest, "//") || r == '.' && unicode.IsLetter(next) {
			b.WriteRune('\u200b')
		}
	}
	return b.String()
}

func slackCode(visible string) string { return "`" + slackEscapes.Replace(visible) + "`" }
