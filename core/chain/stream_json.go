package chain

import "strings"

// jsonText reads a JSON text byte by byte, so that a stream knows at every place whether what came so far can still
// become what isJSON calls JSON. It accepts exactly the texts that isJSON does. The zero value is at the beginning.
type jsonText struct {
	at    jsonState
	typed bool   // it came as JSON: any value counts, not objects, arrays and strings alone
	stack []byte // '{' and '[' that are open
	key   bool   // the string that is read is a member's name
	word  string // what is left of true, false or null
	hex   int    // hexadecimal digits that an escape still lacks
	high  int    // of the escape that is read: see escape
	pair  bool   // the escape is the second of a pair
}

type jsonState uint8

const (
	jsonBegin     jsonState = iota // white space before the text
	jsonValue                      // a value must come
	jsonFirstItem                  // a value or ']'
	jsonFirstKey                   // a name or '}'
	jsonNextKey                    // a name must come
	jsonColon                      //
	jsonAfter                      // behind a value: ',' or a bracket
	jsonEnd                        // behind the whole text
	jsonString                     // inside a string
	jsonHigh                       // inside a string, right behind an escape that may be the first of a pair
	jsonEscape                     // behind a backslash
	jsonHex                        // inside \u…
	jsonWord                       // inside true, false or null
	jsonMinus                      // behind '-'
	jsonZero                       // behind a leading 0
	jsonInt                        // inside the digits of an integer
	jsonPoint                      // behind '.'
	jsonFraction                   //
	jsonE                          // behind 'e'
	jsonSign                       // behind the sign of an exponent
	jsonExponent                   //
	jsonBroken                     // no JSON
)

// jsonDepth is how deep encoding/json nests; isJSON asks it.
const jsonDepth = 10000

// clone is a copy that can be read on by itself.
func (j *jsonText) clone() jsonText {
	c := *j
	c.stack = append([]byte(nil), j.stack...)
	return c
}

func (j *jsonText) broken() bool { return j.at == jsonBroken }

// whole reports whether the text may end here.
func (j *jsonText) whole() bool {
	switch j.at {
	case jsonEnd:
		return true
	case jsonZero, jsonInt, jsonFraction, jsonExponent:
		return len(j.stack) == 0
	}
	return false
}

// inString reports whether the place is inside a string, between its quotes.
func (j *jsonText) inString() bool { return j.at >= jsonString && j.at <= jsonHex }

// apart reports whether a text can be cut here without cutting a number, a word or an escape, nor a pair of escapes.
func (j *jsonText) apart() bool { return j.at <= jsonString }

func (j *jsonText) read(text string) {
	for i := 0; i < len(text) && j.at != jsonBroken; i++ {
		j.next(text[i])
	}
}

func jsonSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// next reads one byte.
func (j *jsonText) next(c byte) {
	switch j.at {
	case jsonBroken:
	case jsonString, jsonHigh, jsonEscape, jsonHex:
		j.nextInString(c)
	case jsonWord:
		if j.word == "" || c != j.word[0] {
			j.at = jsonBroken
		} else if j.word = j.word[1:]; j.word == "" {
			j.endValue()
		}
	case jsonMinus, jsonZero, jsonInt, jsonPoint, jsonFraction, jsonE, jsonSign, jsonExponent:
		j.nextInNumber(c)
	default:
		if !jsonSpace(c) {
			j.token(c)
		}
	}
}

// token reads the first byte of a token.
func (j *jsonText) token(c byte) {
	last := byte(0)
	if n := len(j.stack); n > 0 {
		last = j.stack[n-1]
	}
	switch {
	case j.at == jsonBegin && !j.typed && strings.IndexByte(`{["`, c) < 0:
		j.at = jsonBroken
	case j.at == jsonBegin || j.at == jsonValue:
		j.value(c)
	case j.at == jsonFirstItem && c == ']', j.at == jsonFirstKey && c == '}', j.at == jsonAfter &&
		(last == '{' && c == '}' || last == '[' && c == ']'):
		j.stack = j.stack[:len(j.stack)-1]
		j.endValue()
	case j.at == jsonFirstItem:
		j.value(c)
	case (j.at == jsonFirstKey || j.at == jsonNextKey) && c == '"':
		j.at, j.key = jsonString, true
	case j.at == jsonColon && c == ':':
		j.at = jsonValue
	case j.at == jsonAfter && c == ',' && last == '{':
		j.at = jsonNextKey
	case j.at == jsonAfter && c == ',' && last == '[':
		j.at = jsonValue
	default:
		j.at = jsonBroken
	}
}

func (j *jsonText) value(c byte) {
	switch {
	case c == '{' || c == '[':
		if len(j.stack) >= jsonDepth {
			j.at = jsonBroken
			return
		}
		j.stack = append(j.stack, c)
		j.at = jsonFirstKey
		if c == '[' {
			j.at = jsonFirstItem
		}
	case c == '"':
		j.at, j.key = jsonString, false
	case c == '-':
		j.at = jsonMinus
	case c == '0':
		j.at = jsonZero
	case '1' <= c && c <= '9':
		j.at = jsonInt
	case c == 't':
		j.at, j.word = jsonWord, "rue"
	case c == 'f':
		j.at, j.word = jsonWord, "alse"
	case c == 'n':
		j.at, j.word = jsonWord, "ull"
	default:
		j.at = jsonBroken
	}
}

// endValue is behind a value.
func (j *jsonText) endValue() {
	j.at = jsonAfter
	if len(j.stack) == 0 {
		j.at = jsonEnd
	}
}

// nextInString reads a byte inside a string. What counts as a pair of escapes is what wholeEscapes takes for one:
// \uD8.. to \uDB.. and any other \u behind it.
func (j *jsonText) nextInString(c byte) {
	switch {
	case j.at == jsonEscape && c == 'u':
		j.at, j.hex = jsonHex, 4
	case j.at == jsonEscape:
		j.at = jsonString
		if strings.IndexByte(`"\/bfnrt`, c) < 0 {
			j.at = jsonBroken
		}
	case j.at == jsonHex:
		j.nextHex(c)
	case c == '\\':
		j.pair = j.at == jsonHigh
		j.at = jsonEscape
	case c == '"' && j.key:
		j.at = jsonColon
	case c == '"':
		j.endValue()
	case c < 0x20:
		j.at = jsonBroken
	default:
		j.at = jsonString
	}
}

func (j *jsonText) nextHex(c byte) {
	switch {
	case !('0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'):
		j.at = jsonBroken
		return
	case j.hex == 4:
		j.high = 0
		if c|0x20 == 'd' && !j.pair {
			j.high = 1
		}
	case j.hex == 3 && j.high == 1 && strings.IndexByte("89abAB", c) >= 0:
		j.high = 2
	}
	if j.hex--; j.hex == 0 {
		j.at = jsonString
		if j.high == 2 {
			j.at = jsonHigh
		}
	}
}

func (j *jsonText) nextInNumber(c byte) {
	digit := '0' <= c && c <= '9'
	at := j.at
	switch {
	case at == jsonMinus && c == '0':
		j.at = jsonZero
	case at == jsonMinus && digit:
		j.at = jsonInt
	case at == jsonInt && digit, at == jsonFraction && digit, at == jsonExponent && digit:
	case (at == jsonZero || at == jsonInt) && c == '.':
		j.at = jsonPoint
	case at == jsonPoint && digit:
		j.at = jsonFraction
	case (at == jsonZero || at == jsonInt || at == jsonFraction) && c|0x20 == 'e':
		j.at = jsonE
	case at == jsonE && (c == '+' || c == '-'):
		j.at = jsonSign
	case (at == jsonE || at == jsonSign) && digit:
		j.at = jsonExponent
	case at == jsonZero || at == jsonInt || at == jsonFraction || at == jsonExponent:
		j.endValue()
		j.next(c)
	default:
		j.at = jsonBroken
	}
}
