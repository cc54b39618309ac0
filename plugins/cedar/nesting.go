package main

import (
	"bytes"
	"fmt"
)

// maxNesting is how deep an expression or a type may be nested: operators that follow one another, and brackets, which
// count twice since they may stand on what is before them. cedar-go calls itself for each level, and a stack that
// outgrows Go's bound ends the process, and with it the policies in force.
const maxNesting = 10_000

// maxTokens is how many words, literals and characters of punctuation all policies together may have, and the schema
// again. What is loaded takes up to 200 bytes of memory for each.
const maxTokens = 2_000_000

// checkTokens refuses texts that would take too much memory, before a parser sees them.
func checkTokens(s *source) error {
	n := 0
	for _, f := range s.policies {
		if n += countTokens(f.Data); n > maxTokens {
			return fmt.Errorf("%s: more than %d tokens in all policies", f.Name, maxTokens)
		}
	}
	if countTokens(s.schema) > maxTokens {
		return fmt.Errorf("schema: more than %d tokens", maxTokens)
	}
	return nil
}

func countTokens(text []byte) (n int) {
	number := false
	for len(text) > 0 {
		c := text[0]
		digit := '0' <= c && c <= '9'
		if c > ' ' && !(digit && number) && !bytes.HasPrefix(text, []byte("//")) && !bytes.HasPrefix(text, []byte("/*")) {
			n++
		}
		number = digit
		size, _ := token(text)
		text = text[size:]
	}
	return n
}

// level is what is open between two brackets.
type level struct {
	chain int // operators of this element
	below int // the deepest bracket of this element
	most  int // the deepest element before this one
}

func (l *level) element() {
	l.most = max(l.most, l.chain+l.below)
	l.chain, l.below = 0, 0
}

// checkNesting refuses what is nested too deep, before a parser sees it. What it counts is never less than what
// cedar-go makes of a text that it takes: both know the same strings and comments.
func checkNesting(text []byte) error {
	open := []level{{}}
	for i := 0; i < len(text); {
		top := &open[len(open)-1]
		switch c := text[i]; c {
		case '(', '[', '{':
			open = append(open, level{})
		case ')', ']', '}':
			if len(open) > 1 {
				top.element()
				open = open[:len(open)-1]
				above := &open[len(open)-1]
				above.below = max(above.below, top.most+1)
				above.chain++ // as an index, a call and a clause do
			}
		case ',', ';':
			top.element()
		}
		size, deeper := token(text[i:])
		top = &open[len(open)-1]
		top.chain += deeper
		if len(open)+top.chain+top.below > maxNesting {
			line := bytes.Count(text[:i], []byte("\n")) + 1
			return fmt.Errorf("line %d: nested more than %d deep: operators that follow one another, and brackets, which "+
				"count twice", line, maxNesting)
		}
		i += size
	}
	return nil
}

// token gives the size of the token, comment or character that a text begins with, and how many levels it adds to its
// element.
func token(text []byte) (size, deeper int) {
	switch c := text[0]; {
	case c == '"':
		return quoted(text), 0
	case bytes.HasPrefix(text, []byte("//")):
		return upTo(text, 2, "\n"), 0
	case bytes.HasPrefix(text, []byte("/*")):
		return upTo(text, 2, "*/"), 0
	case letter(c):
		n := 1
		for n < len(text) && (letter(text[n]) || '0' <= text[n] && text[n] <= '9') {
			n++
		}
		if string(text[:n]) == "if" {
			return n, 1
		}
		return n, 0
	case bytes.HasPrefix(text, []byte("!=")):
		return 2, 0 // relations do not follow one another
	case bytes.HasPrefix(text, []byte("&&")), bytes.HasPrefix(text, []byte("||")), bytes.HasPrefix(text, []byte("::")):
		return 2, 1
	case bytes.IndexByte([]byte("+-*.!<"), c) >= 0: // < opens a type in a schema
		return 1, 1
	}
	return 1, 0
}

func letter(c byte) bool { return c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z' }

// quoted is the size of a string literal. One without an end is for the parser to refuse.
func quoted(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// upTo is the size of a text through the first end at or after from.
func upTo(text []byte, from int, end string) int {
	if i := bytes.Index(text[from:], []byte(end)); i >= 0 {
		return from + i + len(end)
	}
	return len(text)
}
