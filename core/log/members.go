package log

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
	"unicode/utf8"

	"github.com/yett-dev/yett/sdk/exact"
)

// Members calls fn with the names and values, as they stand there, of an object that is written as records are: JSON
// without white space, and no name of its own with an escape. It ends early, with ok true, when fn returns false, and
// has not looked at the rest then. ok is false for anything else: then only a parser can say what it is. It costs a
// tenth of parsing. The slices are parts of object.
func Members(object []byte, fn func(name, value []byte) (more bool)) (ok bool) {
	w := walker{b: object}
	return w.whole(fn, nil)
}

// PlainNames is how many members an object may have for PlainMembers.
const PlainNames = 40

// The other limits of PlainMembers.
const (
	plainDepth = 8   // objects and lists within each other
	plainOpen  = 128 // members of objects that are within each other
	plainDigit = 20  // bytes of a number
)

// PlainMembers is Members for objects that need no parser at all: no object in it has a name twice or with an escape,
// texts are UTF-8 without \u, numbers are short and without a power. ok is false for all others. inner is called with
// the names of objects further in, before fn is called with the value that they are in.
func PlainMembers(object []byte, inner func(name []byte), fn func(name, value []byte) (more bool)) (ok bool) {
	w, seen := walker{b: object, plain: true}, seen{inner: inner}
	return w.whole(fn, &seen)
}

// PlainText is the inside of a JSON string without escapes. ok is false for anything else.
func PlainText(value []byte) (text []byte, ok bool) {
	if len(value) < 2 || value[0] != '"' || bytes.IndexByte(value, '\\') >= 0 {
		return nil, false
	}
	return value[1 : len(value)-1], true
}

// textLimits let every text through.
var textLimits = exact.Limits{Depth: 1, Tokens: 1}

// Text is what a JSON string says; "" for another value. ok is false for one that a parser refuses.
func Text(value []byte) (text string, ok bool) {
	if len(value) == 0 || value[0] != '"' {
		return "", true
	}
	if plain, ok := PlainText(value); ok {
		return string(plain), true
	}
	var doc exact.Doc
	if doc.Parse(string(value), textLimits) != nil {
		return "", false
	}
	return doc.Root().Str(), true
}

// walker goes through one object. The functions that find an end give the index behind what begins at i, -1 if that is
// nothing that the walker is sure of.
type walker struct {
	b       []byte
	stopped bool // by fn
	plain   bool // only what needs no parser at all
}

// seen are the names of the objects that the walker is in, the innermost last. It is handed down beside the walker, of
// which fn may keep parts, so that it stays on the caller's stack.
type seen struct {
	names [plainOpen]struct{ from, to int32 }
	n     int
	inner func(name []byte)
}

// maxDepth bounds the stack. It is that of encoding/json.
const maxDepth = 10_000

func (w *walker) whole(fn func(name, value []byte) (more bool), seen *seen) bool {
	end := w.object(0, 1, fn, seen)
	return w.stopped || end == len(w.b) && end > 0
}

// object calls fn with its members; with none it is an object further in.
func (w *walker) object(i, depth int, fn func(name, value []byte) (more bool),
	seen *seen) int {
	b := w.b
	if i+1 >= len(b) || b[i] != '{' {
		return -1
	}
	if i++; b[i] == '}' {
		return i + 1
	}
	first := 0
	if w.plain {
		first = seen.n
	}
	for ; ; i++ {
		end, escaped := w.text(i)
		if end < 0 || end >= len(b) || b[end] != ':' {
			return -1
		}
		name := b[i+1 : end-1]
		if escaped && (fn != nil || w.plain) {
			return -1
		}
		if w.plain {
			if !seen.add(b, first, i+1, end-1) {
				return -1
			}
			if fn == nil {
				seen.inner(name)
			}
		}
		if i = w.value(end+1, depth, seen); i < 0 || i >= len(b) {
			return -1
		}
		if fn != nil && !fn(name, b[end+1:i]) {
			w.stopped = true
			return -1
		}
		if b[i] != ',' {
			if b[i] != '}' {
				return -1
			}
			if w.plain {
				seen.n = first
			}
			return i + 1
		}
	}
}

// add takes in a name of the object whose names begin at first. It reports whether the name is there for the first
// time, and there is room for it.
func (s *seen) add(b []byte, first, from, to int) bool {
	if s.n == plainOpen || s.n-first == PlainNames || to > math.MaxInt32 {
		return false
	}
	for _, earlier := range s.names[first:s.n] {
		if int(earlier.to-earlier.from) == to-from && bytes.Equal(b[earlier.from:earlier.to], b[from:to]) {
			return false
		}
	}
	s.names[s.n].from, s.names[s.n].to = int32(from), int32(to)
	s.n++
	return true
}

func (w *walker) list(i, depth int, seen *seen) int {
	if i++; i < len(w.b) && w.b[i] == ']' {
		return i + 1
	}
	for ; ; i++ {
		if i = w.value(i, depth, seen); i < 0 || i >= len(w.b) {
			return -1
		}
		if w.b[i] == ']' {
			return i + 1
		}
		if w.b[i] != ',' {
			return -1
		}
	}
}

// value is within depth objects and lists.
func (w *walker) value(i, depth int, seen *seen) int {
	if i >= len(w.b) || depth >= maxDepth || w.plain && depth > plainDepth {
		return -1
	}
	switch w.b[i] {
	case '"':
		end, _ := w.text(i)
		return end
	case '{':
		return w.object(i, depth+1, nil, seen)
	case '[':
		return w.list(i, depth+1, seen)
	case 't':
		return w.word(i, "true")
	case 'f':
		return w.word(i, "false")
	case 'n':
		return w.word(i, "null")
	}
	return w.number(i)
}

func (w *walker) word(i int, word string) int {
	if !bytes.HasPrefix(w.b[i:], []byte(word)) {
		return -1
	}
	return i + len(word)
}

// usual is the index of the first byte from i on that is not usual in a text: a quote, a backslash, a control
// character, a part of a longer character.
func usual(b []byte, i int) int {
	const each = 0x0101010101010101
	for ; i+8 <= len(b); i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		quote, escape := x^'"'*each, x^'\\'*each
		// the highest bit of the first byte that is not usual; those behind it may be wrong
		other := (x | (quote-each)&^quote | (escape-each)&^escape | (x-' '*each)&^x) & (0x80 * each)
		if other != 0 {
			return i + bits.TrailingZeros64(other)/8
		}
	}
	for i < len(b) && b[i] >= ' ' && b[i] < utf8.RuneSelf && b[i] != '"' && b[i] != '\\' {
		i++
	}
	return i
}

// text also says whether the string has an escape.
func (w *walker) text(i int) (end int, escaped bool) {
	b := w.b
	if i >= len(b) || b[i] != '"' {
		return -1, false
	}
	from, wide := i+1, false
	for i++; ; i++ {
		if i = usual(b, i); i >= len(b) {
			return -1, false
		}
		switch c := b[i]; {
		case c == '"':
			if wide && w.plain && !utf8.Valid(b[from:i]) {
				return -1, false
			}
			return i + 1, escaped
		case c == '\\':
			if i = w.escape(i + 1); i < 0 {
				return -1, false
			}
			escaped = true
		case c < ' ':
			return -1, false
		default:
			for wide = true; i+1 < len(b) && b[i+1] >= utf8.RuneSelf; {
				i++
			}
		}
	}
}

// escape gives the index of an escape's last byte; it begins behind its backslash.
func (w *walker) escape(i int) int {
	if i >= len(w.b) {
		return -1
	}
	switch w.b[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i
	case 'u':
		if w.plain || i+4 >= len(w.b) {
			return -1
		}
		for _, c := range w.b[i+1 : i+5] {
			if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'f') {
				return -1
			}
		}
		return i + 4
	}
	return -1
}

func (w *walker) number(i int) int {
	b, from := w.b, i
	if b[i] == '-' {
		i++
	}
	whole := i
	if i = w.digits(i); i == whole || i-whole > 1 && b[whole] == '0' {
		return -1
	}
	if i < len(b) && b[i] == '.' {
		frac := i + 1
		if i = w.digits(frac); i == frac {
			return -1
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		if i++; w.plain {
			return -1
		}
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		power := i
		if i = w.digits(i); i == power {
			return -1
		}
	}
	if w.plain && i-from > plainDigit {
		return -1
	}
	return i
}

func (w *walker) digits(i int) int {
	for i < len(w.b) && w.b[i] >= '0' && w.b[i] <= '9' {
		i++
	}
	return i
}
