package chain

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
)

// span is a run of bytes to be replaced.
type span struct {
	start, end int
	with       string
}

// redact replaces every finding whose action changes the text. Overlapping and touching findings are one span, which
// takes the first one's replacement; spans grow to whole characters, so no flagged byte survives and the text stays
// UTF-8. What was JSON stays JSON (typed says that it came as such): then strings are changed inside their quotes,
// other values become strings, and what is put into a name carries its place, so that two names do not become one.
func redact(text string, found []sdk.Finding, typed bool) (string, error) {
	spans := union(text, found)
	if len(spans) == 0 {
		return text, nil
	}
	if !isJSON(text, typed) {
		return splice(text, spans), nil
	}
	cut, err := jsonSpans(text, spans, 0)
	if err != nil {
		return "", err
	}
	out := splice(text, cut)
	if !json.Valid([]byte(out)) {
		return "", errors.New("its JSON would break")
	}
	return out, nil
}

// changes reports whether a finding changes the text.
func changes(f *sdk.Finding) bool {
	return (f.Action == sdk.Redact || f.Action == sdk.Replace) && f.Start < f.End
}

func union(text string, found []sdk.Finding) []span {
	var out []span
	for _, f := range found { // sorted by start
		if !changes(&f) {
			continue
		}
		s := span{with: f.Replacement}
		s.start, s.end = wholeRunes(text, f.Start, f.End)
		if n := len(out); n > 0 && s.start <= out[n-1].end {
			out[n-1].end = max(out[n-1].end, s.end)
			continue
		}
		out = append(out, s)
	}
	return out
}

// wholeRunes grows from and to so that they cut no character.
func wholeRunes(text string, from, to int) (int, int) {
	for from > 0 && from < len(text) && !utf8.RuneStart(text[from]) {
		from--
	}
	for to < len(text) && !utf8.RuneStart(text[to]) {
		to++
	}
	return from, to
}

func splice(text string, spans []span) string {
	var b strings.Builder
	at := 0
	for _, s := range spans {
		b.WriteString(text[at:s.start])
		b.WriteString(s.with)
		at = s.end
	}
	b.WriteString(text[at:])
	return b.String()
}

// isJSON reports whether a text is a JSON object, array or string. Other scalars are text like any other, unless the
// text's type says that it is JSON.
func isJSON(text string, typed bool) bool {
	t := strings.TrimLeft(text, " \t\r\n")
	return t != "" && (typed || strings.IndexByte(`{["`, t[0]) >= 0) && json.Valid([]byte(text))
}

// JSONType reports whether a content type says that the text is JSON.
func JSONType(contentType string) bool {
	kind, _, _ := strings.Cut(contentType, ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	return kind == "application/json" || kind == "text/json" || strings.HasSuffix(kind, "+json")
}

// errNoValue is a redaction that JSON has no room for: to call the text redacted would be untrue.
var errNoValue = errors.New("a finding covers no value and no name of the JSON, only what stands between them")

// jsonSpans cuts spans to the tokens of a valid JSON text: the insides of strings, and whole numbers, words and empty
// brackets. at is the text's offset in the input.
func jsonSpans(text string, spans []span, at int) ([]span, error) {
	c := cutter{text: text, at: at, spans: spans, used: make([]bool, len(spans))}
	for i := 0; i < len(text) && c.next < len(spans); {
		start := i
		switch b := text[i]; {
		case b == '"':
			i = stringEnd(text, i)
			c.string(start, i)
		case strings.IndexByte("{[", b) >= 0:
			i++
			if end := i + blanks(text[i:]); end < len(text) && (text[end] == '}' || text[end] == ']') {
				c.brackets(start, end+1)
			}
		case strings.IndexByte("}]:, \t\r\n", b) >= 0:
			i++
		default:
			for i < len(text) && strings.IndexByte("{}[]:, \t\r\n\"", text[i]) < 0 {
				i++
			}
			c.word(start, i)
		}
	}
	if slices.Contains(c.used, false) {
		return nil, errNoValue
	}
	return c.out, nil
}

// blanks counts the white space that a text begins with.
func blanks(text string) int { return len(text) - len(strings.TrimLeft(text, " \t\r\n")) }

// cutter goes through the tokens of a JSON text and the spans beside it.
type cutter struct {
	text  string
	at    int
	spans []span
	next  int    // the first span that ends behind what was read
	used  []bool // which spans change something
	out   []span
}

// until passes over the spans that end before a token.
func (c *cutter) until(start int) {
	for c.next < len(c.spans) && c.spans[c.next].end <= start {
		c.next++
	}
}

func quoted(with string) string { return string(exact.AppendString(nil, with)) }

// word replaces a number or a word by a string.
func (c *cutter) word(start, end int) {
	c.until(start)
	for k := c.next; k < len(c.spans) && c.spans[k].start < end; k++ {
		c.used[k] = true
		if k == c.next {
			c.out = append(c.out, span{start, end, quoted(c.spans[k].with)})
		}
	}
}

// brackets replaces an empty object or array by a string if all of it is found.
func (c *cutter) brackets(start, end int) {
	c.until(start)
	if k := c.next; k < len(c.spans) && c.spans[k].start <= start && c.spans[k].end >= end {
		c.used[k] = true
		c.out = append(c.out, span{start, end, quoted(c.spans[k].with)})
	}
}

// stringEnd is the index behind the closing quote of the string that starts at i.
func stringEnd(text string, i int) int {
	for i++; text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// string replaces the parts of the string token text[start:end] that are found, grown to whole escape sequences.
func (c *cutter) string(start, end int) {
	c.until(start)
	rest := end + blanks(c.text[end:])
	name := rest < len(c.text) && c.text[rest] == ':'
	whole := start + 1 // up to where escapes were read
	for k := c.next; k < len(c.spans) && c.spans[k].start < end; k++ {
		from, to := max(c.spans[k].start, start+1), min(c.spans[k].end, end-1)
		empty := end == start+2 && c.spans[k].start <= start && c.spans[k].end >= end
		if from >= to && !empty {
			continue
		}
		c.used[k] = true
		from, to = wholeEscapes(c.text, whole, end-1, from, to)
		whole = max(whole, to)
		with := c.spans[k].with
		if name {
			with += "@" + strconv.Itoa(c.at+from)
		}
		with = quoted(with)
		if n := len(c.out); n > 0 && c.out[n-1].end > from {
			c.out[n-1].end = max(c.out[n-1].end, to)
			continue
		}
		c.out = append(c.out, span{from, to, with[1 : len(with)-1]})
	}
}

// wholeEscapes grows from and to so that they cut no escape sequence, a surrogate pair included, of the string's
// inside. No sequence is cut at lo.
func wholeEscapes(text string, lo, hi, from, to int) (int, int) {
	for i := lo; i < min(hi, to); {
		n := 1
		if text[i] == '\\' {
			n = 2
			if text[i+1] == 'u' {
				n = 6
				if c := text[i+2] | 0x20; c == 'd' && strings.IndexByte("89abAB", text[i+3]) >= 0 && i+12 <= hi &&
					text[i+6] == '\\' && text[i+7] == 'u' {
					n = 12
				}
			}
		}
		if i < from && from < i+n {
			from = i
		}
		if i < to && to < i+n {
			to = i + n
		}
		i += n
	}
	return from, to
}
