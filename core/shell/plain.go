package shell

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// plain reports whether a line has nothing in it that shells expand or read differently: bash, dash, zsh and fish, with
// a terminal and without one. It takes time linear in the text, so the parser sees only lines without nesting.
func plain(text string) bool {
	if !utf8.ValidString(text) || strings.Contains(text, "\\\n") {
		return false
	}
	s := plainScan{before: ' '}
	escaped := false
	for _, r := range text {
		switch {
		case r != '\n' && !unicode.IsPrint(r):
			return false
		case escaped:
			if escaped = false; r == '!' || s.quote == 0 && !isMark(r) {
				return false
			}
		case r == '\\' && s.quote != '\'':
			escaped = true
		case s.quote == 0:
			if !s.unquoted(r) {
				return false
			}
		case s.quote == '\'' && s.before == '\\' && (r == '\'' || r == '\\'):
			return false // fish takes it for a quote that goes on
		case r == s.quote:
			s.quote = 0
		case s.quote == '"' && strings.ContainsRune("$`!", r):
			return false
		}
		s.before = r
	}
	return s.quote == 0 && !escaped
}

// isMark reports whether a backslash before r means r itself. fish has \n and \x41.
func isMark(r rune) bool {
	return r == ' ' || r > ' ' && r <= '~' && !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
}

type plainScan struct {
	quote  rune // the quote that is open, or 0
	before rune // what stands before
}

// unquoted reports whether a character outside of quotes is itself in every shell, or an operator that is known here.
func (s *plainScan) unquoted(r rune) bool {
	switch {
	case r == '\'' || r == '"':
		s.quote = r
		return true
	case r >= '0' && r <= '9', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z':
		return true
	case strings.ContainsRune("_./:@%+,- \n|&;", r):
		return true
	case r == '<':
		return s.before != '<'
	case r == '>':
		return s.before != '&' && s.before != '<' // &> is something else in dash, <> opens for both
	case r == '=':
		return !strings.ContainsRune(" \n|&;<>", s.before) // zsh makes a path of =name
	case r == '~' || r == '^':
		return s.before >= '0' && s.before <= '9' || s.before >= 'A' && s.before <= 'Z' ||
			s.before >= 'a' && s.before <= 'z' || s.before == r // HEAD~2, HEAD^^
	}
	return false
}

// decode gives the text of a word without expansions.
func decode(w *syntax.Word) (string, bool) {
	var b strings.Builder
	for _, part := range w.Parts {
		switch part := part.(type) {
		case *syntax.Lit:
			unescape(&b, part.Value, false)
		case *syntax.SglQuoted:
			if part.Dollar {
				return "", false
			}
			b.WriteString(part.Value)
		case *syntax.DblQuoted:
			if part.Dollar {
				return "", false
			}
			for _, inner := range part.Parts {
				lit, ok := inner.(*syntax.Lit)
				if !ok {
					return "", false
				}
				unescape(&b, lit.Value, true)
			}
		default:
			return "", false
		}
	}
	return b.String(), true
}

// unescape takes the backslashes away that a shell takes away. In double quotes most stay.
func unescape(b *strings.Builder, text string, quoted bool) {
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) && (!quoted || strings.IndexByte("\\\"$`", text[i+1]) >= 0) {
			i++
		}
		b.WriteByte(text[i])
	}
}
