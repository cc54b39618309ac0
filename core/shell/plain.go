package shell

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// plain reports whether a line has nothing in it that shells of Unix expand or read differently: bash, dash, zsh, fish,
// and PowerShell as to where a quote ends. It takes time linear in the text, so the parser sees only lines without
// nesting.
func plain(text string) bool {
	if !utf8.ValidString(text) || strings.Contains(text, "\\\n") {
		return false
	}
	s := plainScan{before: ' '}
	escaped := false
	for _, r := range text {
		switch {
		case r != '\n' && !unicode.IsPrint(r), r >= '\u2018' && r <= '\u201f': // PowerShell has quotes of all shapes
			return false
		case escaped:
			if escaped = false; strings.ContainsRune("!\"$`", r) { // a backslash is nothing in PowerShell
				return false
			}
		case r == '\\' && s.quote == '"':
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

type plainScan struct {
	quote  rune // the quote that is open, or 0
	before rune // what stands before
}

// unquoted reports whether a character outside of quotes is itself in every shell, or an operator that is known here.
func (s *plainScan) unquoted(r rune) bool {
	if s.before == '~' && !strings.ContainsRune("~.: \n|&;0123456789", r) {
		return false // zsh may take what follows for a pattern
	}
	if s.before == '<' && (r == '-' || r >= '0' && r <= '9') {
		return false // <1-9> is a pattern of numbers in zsh
	}
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
		b := s.before // zsh makes a path of =name at the begin of a word, also behind quotes with nothing in them
		return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || strings.ContainsRune("_.-", b)
	case r == '~':
		return s.before >= '0' && s.before <= '9' || s.before >= 'A' && s.before <= 'Z' ||
			s.before >= 'a' && s.before <= 'z' || s.before == r // HEAD~2
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
