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

// maxDecoded bounds how often a text is decoded: JSON in a string in JSON takes two. Each depth costs an attacker a few bytes and us a
// reading. What has escapes behind the last is not released.
const maxDecoded = 8

// tooDeep is why a text is not released that has escapes behind all of them.
var tooDeep = fmt.Sprintf("the text has escapes within escapes, more than %d deep: what they stand for was not looked at", maxDecoded)

// units reads a text in units: stretches that stand for themselves, and JSON escapes, a surrogate pair being one. Escapes count
// wherever they stand. In JSON that is inside strings. In any other text a person or a model decodes them as easily, and JSON
// that is cut, commented, one object a line or not declared as such hides nothing that way.
type units struct {
	text  string
	final bool // nothing follows text
	at    int
	room  [utf8.UTFMax]byte
}

// next reads the unit at u.at: n bytes, which stand for as; nil: for themselves. n is 0 at the end of the text, and in front of
// what may become an escape by the bytes to come.
func (u *units) next() (n int, as []byte) {
	from := u.at
	for u.at < len(u.text) {
		i := strings.IndexByte(u.text[u.at:], '\\')
		if i < 0 {
			u.at = len(u.text)
			break
		}
		u.at += i
		r, size, more := escapeAt(u.text[u.at:], u.final)
		switch {
		case size == 0 && !more: // a backslash like any other byte
			u.at++
			continue
		case size > 0 && u.at == from:
			u.at += size
			return size, utf8.AppendRune(u.room[:0], r)
		}
		break
	}
	return u.at - from, nil
}

// escapeAt reads the escape that the text begins with, a backslash: size bytes that stand for r. With size 0 it is none, or more
// says that the bytes to come tell. A surrogate without its other half stands for U+FFFD, as it does for readers of JSON.
func escapeAt(text string, final bool) (r rune, size int, more bool) {
	if len(text) < 2 {
		return 0, 0, !final
	}
	if c := shortEscapes[text[1]]; c != 0 {
		return rune(c), 2, false
	}
	if text[1] != 'u' {
		return 0, 0, false
	}
	r, size = unicodeAt(text)
	switch {
	case size == 0:
		return 0, 0, !final && mayBeUnicode(text)
	case r < 0xd800 || r > 0xdbff:
		return r, size, false // utf8 makes U+FFFD of what is no character
	}
	low, n := unicodeAt(text[size:])
	if n == 0 && !final && mayBeUnicode(text[size:]) {
		return 0, 0, true
	}
	if both := utf16.DecodeRune(r, low); n > 0 && both != utf8.RuneError {
		return both, size + n, false
	}
	return utf8.RuneError, size, false
}

// shortEscapes are what the escapes of two bytes stand for, by their second byte.
var shortEscapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

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

// decoded is a text with its escapes decoded once: what its units stand for, joined. ok is false when it has none, and that costs one look for a backslash.
func decoded(text string) (as string, ok bool) {
	if strings.IndexByte(text, '\\') < 0 {
		return "", false
	}
	first := 0 // the first escape, behind backslashes that are none
	for {
		i := strings.IndexByte(text[first:], '\\')
		if i < 0 {
			return "", false
		}
		first += i
		if _, size, _ := escapeAt(text[first:], true); size > 0 {
			break
		}
		first++
	}
	var b strings.Builder
	b.Grow(len(text))
	b.WriteString(text[:first])
	for at := first; at < len(text); {
		if text[at] != '\\' { // a run that stands for itself
			end := strings.IndexByte(text[at:], '\\')
			if end < 0 {
				end = len(text) - at
			}
			b.WriteString(text[at : at+end])
			at += end
			continue
		}
		r, size, _ := escapeAt(text[at:], true)
		if size == 0 {
			r, size = '\\', 1
		}
		b.WriteRune(r)
		at += size
	}
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
func sources(text string, places []int) (from, to []int) {
	from, to = make([]int, 0, len(places)), make([]int, 0, len(places))
	u := units{text: text, final: true}
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

// toSource moves findings in what a text reads as to the text itself. An escape of which they cover a byte is covered whole. The
// text begins at its offset below where what it reads as begins at above.
func toSource(text string, found []sdk.Finding, above, below int) {
	if len(found) == 0 {
		return
	}
	places := make([]int, 0, 2*len(found))
	for i := range found {
		places = append(places, found[i].Start-above, found[i].End-1-above)
	}
	slices.Sort(places)
	places = slices.Compact(places)
	from, to := sources(text, places)
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
