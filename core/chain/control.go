package chain

import "strings"

// What an escape or a control sequence stands for, beside a character.
const (
	nothing rune = -1
	blank   rune = ' ' // of a sequence that moves the cursor: it parts words
)

// maxSequence bounds a control sequence. The introducer of a longer one stands for nothing by itself, and what follows
// is text.
const maxSequence = 4 << 10

const (
	bel = 0x07
	esc = 0x1b
	c1  = 0xc2 // the first byte of U+0080 to U+009F in UTF-8
)

// introducers finds the bytes with which units begin that may stand for something else: a backslash, ESC, the first
// byte of U+0080 to U+009F, and a caret. It looks for each only behind where it was found last. The zero introducers
// has found none yet.
type introducers struct{ slash, esc, c1, caret int } // places, one higher

// next returns the index of the first introducer at or behind at. It returns len(text) if there is none.
func (f *introducers) next(text string, at int) int {
	if f.slash <= at {
		f.slash = indexFrom(text, at, '\\') + 1
	}
	if f.esc <= at {
		f.esc = indexFrom(text, at, esc) + 1
	}
	if f.c1 <= at {
		i := indexFrom(text, at, c1)
		for i+1 < len(text) && text[i+1] >= 0xa0 && text[i+1] < 0xc0 { // a printable character
			i = indexFrom(text, i+2, c1)
		}
		f.c1 = i + 1
	}
	if f.caret <= at {
		f.caret = indexFrom(text, at, '^') + 1
	}
	return min(f.slash, f.esc, f.c1, f.caret) - 1
}

// indexFrom returns the index of the first c at or behind at. It returns len(text) if there is none.
func indexFrom(text string, at int, c byte) int {
	if i := strings.IndexByte(text[at:], c); i >= 0 {
		return at + i
	}
	return len(text)
}

// introduces reports whether the byte at i begins a unit of its own, and so ends an escape or a sequence in front of
// it.
func introduces(text string, i int) bool {
	switch text[i] {
	case '\\', esc:
		return true
	case c1:
		return i+1 == len(text) || text[i+1] < 0xa0 || text[i+1] >= 0xc0
	}
	return false
}

// standsFor reads what begins at an introducer: size bytes that stand for r. With size 0 these are bytes like any
// other, or more says that the bytes to come tell.
func standsFor(text string, final bool) (r rune, size int, more bool) {
	switch text[0] {
	case '\\':
		return escapeAt(text, final)
	case esc:
		return sequenceAt(text, final)
	case '^':
		return caretAt(text, final)
	}
	switch {
	case len(text) < 2:
		return 0, 0, !final
	case text[1] >= 0x80 && text[1] < 0xa0:
		return controlAt(text, text[1]-0x40, 2, final)
	case introduces(text, 1): // half a character: it does not go on behind what the next unit stands for
		if len(text) == 2 && text[1] == c1 && !final {
			return 0, 0, true
		}
		return '\ufffd', 1, false
	}
	return 0, 0, false
}

// sequenceAt reads the control sequence that the text begins with, an ESC. Every ESC stands for nothing at least.
func sequenceAt(text string, final bool) (r rune, size int, more bool) {
	at := 1
	for at < len(text) && at < maxSequence && text[at] >= 0x20 && text[at] < 0x30 { // ESC ( B: a character set
		at++
	}
	switch {
	case at == len(text):
		return nothing, at, !final
	case at > 1 && text[at] >= 0x30 && text[at] < 0x7f && !introduces(text, at):
		return nothing, at + 1, false
	case at > 1:
		return nothing, at, false
	case text[1] == '\\':
		// an escape stands for more than the end of a string that did not begin
		if _, size, more := escapeAt(text[1:], final); size > 0 || more {
			return nothing, 1, more
		}
		return nothing, 2, false
	case text[1] == 'c' || text[1] == '8': // reset, and back to where the cursor was
		return blank, 2, false
	case text[1] >= 0x30 && text[1] < 0x7f:
		return controlAt(text, text[1], 2, final)
	}
	return nothing, 1, false
}

// controlAt reads on behind an introducer of n bytes, as which ESC and this letter count.
func controlAt(text string, letter byte, n int, final bool) (r rune, size int, more bool) {
	switch letter {
	case '[':
		return csiAt(text, n, final)
	case ']', 'P', 'X', '^', '_':
		return stringAt(text, n, final)
	case 'D', 'E', 'M': // a line on, the next line, a line back
		return blank, n, false
	}
	return nothing, n, false
}

// movements are the final bytes of sequences that move the cursor.
const movements = "ABCDEFGHILMSTZ`adefhjklsu"

// csiAt reads parameters and the final byte. A sequence that is broken off stands for nothing as far as it goes.
func csiAt(text string, n int, final bool) (r rune, size int, more bool) {
	at := n
	for at < len(text) && at < maxSequence && text[at] >= 0x20 && text[at] < 0x40 {
		at++
	}
	switch {
	case at == len(text) && at < maxSequence:
		return nothing, at, !final
	case at >= maxSequence || text[at] < 0x40 || text[at] > 0x7e || text[at] == '\\':
		return nothing, at, false
	case strings.IndexByte("hl", text[at]) < 0 && strings.IndexByte(movements, text[at]) >= 0:
		return blank, at + 1, false
	}
	return nothing, at + 1, false
}

// stringAt reads a string of the terminal's to its end: BEL, ESC \ or U+009C. One that does not end, or in which
// another unit begins, is text behind an introducer that stands for nothing, so that what is escaped in it is read.
func stringAt(text string, n int, final bool) (r rune, size int, more bool) {
	for at := n; at < len(text) && at < maxSequence; at++ {
		rest := text[at:]
		switch {
		case text[at] == bel:
			return nothing, at + 1, false
		case text[at] == esc && len(rest) < 2, text[at] == c1 && len(rest) < 2:
			return nothing, n, !final
		case text[at] == c1 && rest[1] == 0x9c:
			return nothing, at + 2, false
		case text[at] == esc && rest[1] == '\\':
			if len(rest) == 2 && !final {
				return nothing, 0, true
			}
			if len(rest) > 2 && rest[2] == 'u' { // more than a letter that happens to follow
				if _, size, more := escapeAt(rest[1:], final); size > 0 || more {
					return nothing, at + 1, more
				}
			}
			return nothing, at + 2, false
		case introduces(text, at):
			return nothing, n, false
		}
	}
	return nothing, n, !final && len(text) < maxSequence
}

// maxCaret bounds a colour in caret notation: ^[[1;38;2;255;255;255m takes less.
const maxCaret = 32

// caretAt reads a colour as programs show its ESC that make controls visible: ^[[31m. It stands for a blank, so that it
// neither hides the beginning of a word nor joins what is on its sides. A caret in front of a unit, which may make a
// colour of both, is a unit itself and stands for itself: see units.
func caretAt(text string, final bool) (r rune, size int, more bool) {
	at := 1
	for at < len(text) && at < maxCaret && (at < 3 && text[at] == '[' ||
		at >= 3 && (text[at] >= '0' && text[at] <= '9' || text[at] == ';' || text[at] == ':')) {
		at++
	}
	switch {
	case at == maxCaret:
		return 0, 0, false
	case at == len(text):
		return 0, 0, !final
	case at >= 3 && (text[at] == 'm' || text[at] == 'K'):
		return blank, at + 1, false
	case introduces(text, at):
		if _, size, more := standsFor(text[at:], final); size > 0 || more {
			return '^', min(size, 1), more
		}
	}
	return 0, 0, false
}
