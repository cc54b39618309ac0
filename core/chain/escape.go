package chain

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/yett-dev/yett/sdk"
)

// maxDecoded bounds how often a text is decoded: JSON in a string in JSON takes two. Each depth costs an attacker a few
// bytes and us a reading. What has escapes behind the last is not released.
const maxDecoded = 8

// tooDeep is why a text is not released that has escapes behind all of them.
var tooDeep = fmt.Sprintf("the text has escapes within escapes, more than %d deep: what they stand for was not "+
	"looked at", maxDecoded)

// units reads a text in units: stretches that stand for themselves; escapes, a surrogate pair being one; and control
// sequences, which stand for nothing, or for a blank. Escapes count wherever they stand. In JSON that is inside
// strings. In any other text a person or a model decodes them as easily, and JSON that is cut, commented, one object a
// line or not declared as such hides nothing that way. What a terminal does not show hides nothing either: a secret is
// not another one for its colour.
//
// No unit goes on in what the next one stands for: a backslash of an escape that another unit breaks off stands for
// nothing. So an escape in what a text reads as begins with what a unit stands for, and a stream needs nothing that
// lies before its first.
type units struct {
	text  string
	final bool // nothing follows text
	plain bool // backslashes alone begin units
	at    int
	ahead introducers
	room  [utf8.UTFMax]byte
}

// next reads the unit at u.at: n bytes, which stand for as; nil: for themselves. n is 0 at the end of the text, and in
// front of what may become a unit by the bytes to come.
func (u *units) next() (n int, as []byte) {
	from := u.at
	for u.at < len(u.text) {
		u.at = u.ahead.next(u.text, u.at)
		if u.at == len(u.text) {
			break
		}
		if u.plain && u.text[u.at] != '\\' {
			u.at++
			continue
		}
		r, size, more := standsFor(u.text[u.at:], u.final)
		if size == 0 && !more { // bytes like any other
			u.at++
			continue
		}
		if more || u.at > from {
			break
		}
		u.at += size
		return size, appendUnit(u.room[:0], r)
	}
	return u.at - from, nil
}

// appendUnit appends what a unit stands for.
func appendUnit(dst []byte, r rune) []byte {
	if r == nothing {
		return dst
	}
	return utf8.AppendRune(dst, r)
}

// escapeAt reads the escape that the text begins with, a backslash: size bytes that stand for r. With size 0 it is
// none, or more says that the bytes to come tell. A surrogate without its other half stands for U+FFFD, as it does for
// readers of JSON.
func escapeAt(text string, final bool) (r rune, size int, more bool) {
	if len(text) < 2 {
		return 0, 0, !final
	}
	if c := shortEscapes[text[1]]; c != 0 {
		return rune(c), 2, false
	}
	form := longForm(text)
	switch {
	case introduces(text, 1):
		return brokenOff(text, 1, final)
	case form.most == 0:
		return 0, 0, false
	}
	at := form.from
	for at < len(text) && at < form.from+form.most && digitOf(text[at], form.base) >= 0 {
		r = r*form.base + digitOf(text[at], form.base)
		at++
	}
	switch {
	case at-form.from < form.most && at == len(text): // what is there may be the beginning
		if !final || form.close != 0 || at-form.from < form.least {
			return 0, 0, !final
		}
	case at-form.from < form.least || form.close != 0 && at < len(text) && text[at] != form.close:
		if at < len(text) && introduces(text, at) {
			return brokenOff(text, at, final)
		}
		return 0, 0, false
	case form.close != 0 && at == len(text):
		return 0, 0, !final
	case form.close != 0:
		at++
	}
	switch {
	case r < 0: // more than any character
		return utf8.RuneError, at, false
	case form.controls && !controls(r):
		if form.base == 8 && at-form.from < form.most && at < len(text) && introduces(text, at) {
			return brokenOff(text, at, final)
		}
		if form.base == 8 && at == 5 && controls(r>>3) { // \0331 is \033 and a digit
			return r >> 3, 4, false
		}
		return 0, 0, false
	case text[1] != 'u' || form.close != 0 || r < 0xd800 || r > 0xdbff:
		return r, at, false // utf8 makes U+FFFD of what is no character
	}
	low, n := unicodeAt(text[at:])
	if n == 0 && !final && mayBeUnicode(text[at:]) {
		return 0, 0, true
	}
	if both := utf16.DecodeRune(r, low); n > 0 && both != utf8.RuneError {
		return both, at + n, false
	}
	return utf8.RuneError, at, false
}

// brokenOff is an escape that ends at the introducer of another unit: its backslash stands for nothing.
func brokenOff(text string, at int, final bool) (r rune, size int, more bool) {
	if text[at] == c1 && at+1 == len(text) && !final {
		return 0, 0, true
	}
	return nothing, 1, false
}

// form is how digits follow a backslash: from to from+most of a base, and at least least; then close, if there is one.
// controls says that it is read for control characters alone, since other texts are full of what looks so.
type form struct {
	from, least, most int
	base              rune
	close             byte
	controls          bool
}

// longForm is the form of the escape that a text begins with; the zero form is of none.
func longForm(text string) form {
	switch c := text[1]; {
	case c == 'u' && len(text) > 2 && text[2] == '{':
		return form{from: 3, least: 1, most: 6, base: 16, close: '}'}
	case c == 'u':
		return form{from: 2, least: 4, most: 4, base: 16}
	case c == 'U':
		return form{from: 2, least: 8, most: 8, base: 16}
	case c == 'x' && len(text) > 2 && text[2] == '{':
		return form{from: 3, least: 1, most: 6, base: 16, close: '}', controls: true}
	case c == 'x':
		return form{from: 2, least: 2, most: 2, base: 16, controls: true}
	case c == '0':
		return form{from: 1, least: 2, most: 4, base: 8, controls: true}
	case '1' <= c && c <= '7':
		return form{from: 1, least: 2, most: 3, base: 8, controls: true}
	}
	return form{}
}

// controls reports whether a character is one that control sequences begin or end with.
func controls(r rune) bool { return r == bel || r == esc || r >= 0x80 && r < 0xa0 }

// digitOf returns the value of the digit c. It returns -1 if c is no digit of that base.
func digitOf(c byte, base rune) rune {
	if d := hexDigit(c); d < base {
		return d
	}
	return -1
}

// shortEscapes are what the escapes of two bytes stand for, by their second byte.
var shortEscapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'a': bel, 'b': '\b', 'e': esc, 'E': esc, 'f': '\f',
	'n': '\n', 'r': '\r', 't': '\t'}

// unicodeAt reads the six bytes of a \uXXXX.
func unicodeAt(text string) (r rune, size int) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, 0
	}
	for i := 2; i < 6; i++ {
		d := hexDigit(text[i])
		if d < 0 {
			return 0, 0
		}
		r = r<<4 | d
	}
	return r, 6
}

// mayBeUnicode reports whether the whole text is the beginning of a \uXXXX.
func mayBeUnicode(text string) bool {
	for i := range len(text) {
		switch {
		case i == 0 && text[i] == '\\', i == 1 && text[i] == 'u':
		case i >= 2 && i < 6 && hexDigit(text[i]) >= 0:
		default:
			return false
		}
	}
	return len(text) < 6
}

func hexDigit(c byte) rune {
	switch {
	case '0' <= c && c <= '9':
		return rune(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return rune(c|0x20-'a') + 10
	}
	return -1
}

// decoded is a text with its units read once: what they stand for, joined. ok is false when they all stand for
// themselves, and where there is no introducer that costs one look for each.
func decoded(text string) (as string, ok bool) {
	var ahead introducers
	var b strings.Builder
	from := 0 // up to where what units stand for is in b
	for at := ahead.next(text, 0); at < len(text); {
		r, size, _ := standsFor(text[at:], true)
		if size == 0 {
			at = ahead.next(text, at+1)
			continue
		}
		if !ok {
			b.Grow(len(text))
			ok = true
		}
		b.WriteString(text[from:at])
		if r != nothing {
			b.WriteRune(r)
		}
		from = at + size
		at = ahead.next(text, from)
	}
	if !ok {
		return "", false
	}
	b.WriteString(text[from:])
	return b.String(), true
}

// Readings are the text, what it reads as with its escapes decoded, what that reads as, and so on: as scanners get it.
func Readings(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for n, ok := 0, true; ok && n <= maxDecoded && yield(text); n++ {
			text, ok = decoded(text)
		}
	}
}

// Decoded is the last of a text's readings: the same for all spellings of a word.
func Decoded(text string) (last string) {
	for last = range Readings(text) {
	}
	return last
}

// sources gives, for places in what a text reads as, in order, the unit of the text that each is in.
func sources(u units, places []int) (from, to []int) {
	from, to = make([]int, 0, len(places)), make([]int, 0, len(places))
	read := 0
	for len(from) < len(places) {
		n, as := u.next()
		if n == 0 {
			break // no place of ours lies behind the end
		}
		at, size := u.at-n, len(as)
		if as == nil {
			size = n
		}
		for len(from) < len(places) && places[len(from)] < read+size {
			if p := places[len(from)] - read; as == nil {
				from, to = append(from, at+p), append(to, at+p+1)
			} else {
				from, to = append(from, at), append(to, at+n)
			}
		}
		read += size
	}
	return from, to
}

// toSource moves findings in what a text reads as to the text itself. An escape of which they cover a byte is covered
// whole. The text begins at its offset below where what it reads as begins at above.
func toSource(text string, found []sdk.Finding, above, below int) {
	toUnits(units{text: text, final: true}, found, above, below)
}

// toUnits is toSource for a text that is read in other units.
func toUnits(u units, found []sdk.Finding, above, below int) {
	if len(found) == 0 {
		return
	}
	places := make([]int, 0, 2*len(found))
	for i := range found {
		places = append(places, found[i].Start-above, found[i].End-1-above)
	}
	slices.Sort(places)
	places = slices.Compact(places)
	from, to := sources(u, places)
	for i := range found {
		f := &found[i]
		first, _ := slices.BinarySearch(places, f.Start-above)
		last, _ := slices.BinarySearch(places, f.End-1-above)
		f.Start, f.End = from[first]+below, to[last]+below
	}
}

// unitAt gives, for a place in what a text reads as, where the unit that it is in begins: there, and in the text.
func unitAt(text string, place int) (unit, from int) {
	u := units{text: text, final: true}
	for read := 0; ; {
		n, as := u.next()
		switch {
		case as == nil && (n == 0 || place < read+n):
			return place, u.at - n + place - read
		case as != nil && place < read+len(as):
			return read, u.at - n
		case as == nil:
			read += n
		default:
			read += len(as)
		}
	}
}
