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

// visible makes text from outside one line in which all can be seen: control characters, line ends, bidirectional marks and
// zero-width characters become their code in brackets. What is beyond max characters is cut, and that is said.
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
		case !unicode.IsPrint(r):
			fmt.Fprintf(&b, "⟨U+%04X⟩", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// slackCode is text from outside as code in Slack's mrkdwn: &, < and > are escaped, so that no link or <!channel> can be
// made, a backtick cannot end the code, and behind an @ stands a zero-width space, so that servers that are only like
// Slack find no @channel.
var slackEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "`", "ˋ", "@", "@\u200b")

func slackCode(visible string) string { return "`" + slackEscapes.Replace(visible) + "`" }
