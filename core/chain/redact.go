package chain

import (
	"encoding/json"
	"errors"
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
// UTF-8. What was JSON stays JSON: then strings are changed inside their quotes and other values become strings.
func redact(text string, found []sdk.Finding) (string, error) {
	spans := union(text, found)
	if len(spans) == 0 {
		return text, nil
	}
	if !isJSON(text) {
		return splice(text, spans), nil
	}
	out := splice(text, jsonSpans(text, spans))
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
		s := span{f.Start, f.End, f.Replacement}
		for s.start > 0 && s.start < len(text) && !utf8.RuneStart(text[s.start]) {
			s.start--
		}
		for s.end < len(text) && !utf8.RuneStart(text[s.end]) {
			s.end++
		}
		if n := len(out); n > 0 && s.start <= out[n-1].end {
			out[n-1].end = max(out[n-1].end, s.end)
			continue
		}
		out = append(out, s)
	}
	return out
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

// isJSON reports whether a text is a JSON object, array or string; other scalars are text like any other.
func isJSON(text string) bool {
	t := strings.TrimLeft(text, " \t\r\n")
	return t != "" && strings.IndexByte(`{["`, t[0]) >= 0 && json.Valid([]byte(text))
}

// jsonSpans cuts spans to the tokens of a valid JSON text: the insides of strings, and whole numbers and words.
// Structure and white space hold nothing that a scanner could have meant.
func jsonSpans(text string, spans []span) []span {
	var out []span
	k := 0
	for i := 0; i < len(text) && k < len(spans); {
		start := i
		switch c := text[i]; {
		case c == '"':
			i = stringEnd(text, i)
			k = cutString(&out, text, start, i, spans, k)
		case strings.IndexByte("{}[]:, \t\r\n", c) >= 0:
			i++
		default:
			for i < len(text) && strings.IndexByte("{}[]:, \t\r\n\"", text[i]) < 0 {
				i++
			}
			for k < len(spans) && spans[k].end <= start {
				k++
			}
			if k < len(spans) && spans[k].start < i {
				out = append(out, span{start, i, string(exact.AppendString(nil, spans[k].with))})
			}
		}
	}
	return out
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

// cutString adds the parts of spans that lie inside the string token text[start:end], grown to whole escape sequences.
func cutString(out *[]span, text string, start, end int, spans []span, k int) int {
	for k < len(spans) && spans[k].end <= start {
		k++
	}
	for at := k; at < len(spans) && spans[at].start < end; at++ {
		from, to := max(spans[at].start, start+1), min(spans[at].end, end-1)
		if from >= to {
			continue
		}
		from, to = wholeEscapes(text, start+1, end-1, from, to)
		quoted := string(exact.AppendString(nil, spans[at].with))
		s := span{from, to, quoted[1 : len(quoted)-1]}
		if n := len(*out); n > 0 && (*out)[n-1].end > s.start {
			(*out)[n-1].end = max((*out)[n-1].end, s.end)
			continue
		}
		*out = append(*out, s)
	}
	return k
}

// wholeEscapes grows from and to so that they cut no escape sequence, a surrogate pair included, of the string's inside.
func wholeEscapes(text string, lo, hi, from, to int) (int, int) {
	for i := lo; i < hi; {
		n := 1
		if text[i] == '\\' {
			n = 2
			if text[i+1] == 'u' {
				n = 6
				if c := text[i+2] | 0x20; c == 'd' && strings.IndexByte("89abAB", text[i+3]) >= 0 && i+12 <= hi && text[i+6] == '\\' && text[i+7] == 'u' {
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
