package scan

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/yett-dev/yett/cmd/internal/author/kit"
)

// marker begins a comment that allows a finding on its line: yett:allow KIND reason.
const marker = "yett:allow"

// mark is one such comment.
type mark struct {
	at           int // offset in its line
	kind, reason string
}

type marks []mark

// marksOf finds the comments of a line. A comment ends with the line, or with the next one.
func marksOf(line string) marks {
	var all marks
	for at := 0; ; {
		n := strings.Index(line[at:], marker)
		if n < 0 {
			return all
		}
		m := mark{at: at + n}
		at = m.at + len(marker)
		rest, _, _ := strings.Cut(line[at:], marker)
		before, _ := utf8.DecodeLastRuneInString(line[:m.at])
		fields := strings.Fields(rest)
		if len(fields) == 0 || rest[0] != ' ' && rest[0] != '\t' || !kindLike(fields[0]) || wordy(before) {
			continue
		}
		m.kind = fields[0]
		if reason := strings.Join(fields[1:], " "); strings.ContainsFunc(reason, wordy) {
			m.reason = kit.Printable(strings.TrimSpace(closed(reason)), 200)
		}
		all = append(all, m)
	}
}

// closed is a comment's text without what ends a comment.
func closed(text string) string {
	for _, end := range []string{"*/", "-->", "--%>", "*)", "#}"} {
		text = strings.TrimSuffix(text, end)
	}
	return text
}

// wordy reports whether a rune is part of a word.
func wordy(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' ||
		r >= utf8.RuneSelf && r != utf8.RuneError
}

// kindLike reports whether a word looks like the kind of a finding.
func kindLike(word string) bool {
	return word != "" && !strings.ContainsFunc(word, func(r rune) bool {
		return !(r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune("_-.:", r))
	})
}

// allow gives the reason for which a finding is allowed, "" if it is not; marked says that a comment would allow it if
// it had a reason. A comment within a finding does not count: it came with the value. from is the offset of the line.
func (all marks) allow(f *Finding, line []Finding, from int) (reason string, marked bool) {
	for _, m := range all {
		inside := false
		for i := range line {
			inside = inside || line[i].Start <= from+m.at && from+m.at < line[i].End
		}
		if m.kind == f.Kind && !inside {
			if reason, marked = m.reason, true; reason != "" {
				break
			}
		}
	}
	return reason, marked
}

// masked is what is shown of a value: how long it is.
func masked(value string) string {
	return fmt.Sprintf("[%d characters]", utf8.RuneCountInString(value))
}
