package feed

import (
	"bytes"
	"context"
	"unicode/utf8"

	"github.com/yett-dev/yett/sdk/exact"
)

// Most records need no parser: they stand there as they are delivered but for a text or two. Parsing each of them made
// as much garbage for the collector as deciding did, and while it collects, decisions wait.

// The limits of the quick way.
const (
	quickMembers = 40 // of one object
	quickDepth   = 8
)

// member is one of a record's own members, as it stands there.
type member struct {
	name, value []byte
	nested      bool // texts lie somewhere in it
}

// quick appends what object does for a record that is written as records are. ok is false for all others, and then dst
// is worth nothing: what is delivered is the same either way, or it is not delivered this way.
func (p *payload) quick(ctx context.Context, dst, record []byte) (out []byte, ok bool) {
	var all [quickMembers]member
	n, end, ok := members(record, 0, 0, &all)
	if !ok || end != len(record) {
		return nil, false
	}
	t := Text{}
	for _, m := range all[:n] {
		switch string(m.name) {
		case "tool_id":
			t.ToolID, ok = textOf(m.value)
		case "agent_id":
			t.AgentID, ok = textOf(m.value)
		}
		if !ok || m.nested && p.kind == PayloadRedacted && !contents[string(m.name)] {
			return nil, false
		}
	}
	dst = append(dst, '{')
	for _, m := range all[:n] {
		content := contents[string(m.name)]
		if content && p.without() {
			continue
		}
		if len(dst) > 1 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), m.name...), '"', ':')
		switch {
		case p.kind != PayloadRedacted:
			dst = append(dst, m.value...)
		case content && string(m.value) != "{}" && string(m.value) != "[]":
			dst = p.contentMasked(ctx, dst, string(m.value), t)
		case !content && texts[string(m.name)] && m.value[0] == '"' && len(m.value) > len(`""`):
			if t.Text, ok = textOf(m.value); !ok {
				return nil, false
			}
			dst = masked(ctx, p, dst, m.value, t)
		default:
			dst = append(dst, m.value...)
		}
	}
	return append(dst, '}'), true
}

// textOf is what a JSON string says; "" for another value, as exact.Value.Str has it.
func textOf(value []byte) (text string, ok bool) {
	if value[0] != '"' {
		return "", true
	}
	if bytes.IndexByte(value, '\\') < 0 {
		return string(value[1 : len(value)-1]), true
	}
	var doc exact.Doc
	if doc.Parse(string(value), recordLimits) != nil {
		return "", false
	}
	return doc.Root().Str(), true
}

// members reads the object that begins at i: a strict one without white space, without escapes in names, with no name
// twice. end is the index behind it.
func members(b []byte, i, depth int, all *[quickMembers]member) (n, end int, ok bool) {
	if depth > quickDepth || i >= len(b) || b[i] != '{' {
		return 0, 0, false
	}
	if i++; i < len(b) && b[i] == '}' {
		return 0, i + 1, true
	}
	for {
		from := i
		i, ok = stringEnd(b, i)
		if !ok || n == quickMembers || i >= len(b) || b[i] != ':' {
			return 0, 0, false
		}
		m := &all[n]
		m.name = b[from+1 : i-1]
		if bytes.IndexByte(m.name, '\\') >= 0 {
			return 0, 0, false
		}
		for _, earlier := range all[:n] {
			if bytes.Equal(earlier.name, m.name) {
				return 0, 0, false
			}
		}
		from = i + 1
		if i, m.nested, ok = valueEnd(b, from, depth+1); !ok || i >= len(b) {
			return 0, 0, false
		}
		m.value = b[from:i]
		n++
		switch b[i] {
		case '}':
			return n, i + 1, true
		case ',':
			i++
		default:
			return 0, 0, false
		}
	}
}

// valueEnd is the index behind the value that begins at i, and whether an object in it has a member with a text.
func valueEnd(b []byte, i, depth int) (end int, nested, ok bool) {
	if i >= len(b) || depth > quickDepth {
		return 0, false, false
	}
	switch c := b[i]; {
	case c == '"':
		end, ok = stringEnd(b, i)
	case c == '{':
		var all [quickMembers]member
		var n int
		n, end, ok = members(b, i, depth, &all)
		for _, m := range all[:n] {
			nested = nested || m.nested || texts[string(m.name)]
		}
	case c == '[':
		return elements(b, i, depth)
	case c == '-' || c >= '0' && c <= '9':
		end, ok = numberEnd(b, i)
	default:
		for _, word := range [...]string{"true", "false", "null"} {
			if bytes.HasPrefix(b[i:], []byte(word)) {
				return i + len(word), false, true
			}
		}
	}
	return end, nested, ok
}

func elements(b []byte, i, depth int) (end int, nested, ok bool) {
	if i++; i < len(b) && b[i] == ']' {
		return i + 1, false, true
	}
	for {
		var some bool
		if i, some, ok = valueEnd(b, i, depth+1); !ok || i >= len(b) {
			return 0, false, false
		}
		nested = nested || some
		switch b[i] {
		case ']':
			return i + 1, nested, true
		case ',':
			i++
		default:
			return 0, false, false
		}
	}
}

// stringEnd is the index behind the string that begins at i. Escapes of UTF-16 are the parser's.
func stringEnd(b []byte, i int) (end int, ok bool) {
	if i >= len(b) || b[i] != '"' {
		return 0, false
	}
	from, wide := i+1, false
	for i++; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return i + 1, !wide || utf8.Valid(b[from:i])
		case c < ' ':
			return 0, false
		case c >= utf8.RuneSelf:
			wide = true
		case c == '\\':
			if i++; i >= len(b) || bytes.IndexByte([]byte(`"\/bfnrt`), b[i]) < 0 {
				return 0, false
			}
		}
	}
	return 0, false
}

// numberEnd is the index behind the number that begins at i; long ones are the parser's.
func numberEnd(b []byte, i int) (end int, ok bool) {
	from := i
	if b[i] == '-' {
		i++
	}
	whole := i
	if i = digitsEnd(b, i); i == whole || i-whole > 1 && b[whole] == '0' {
		return 0, false
	}
	if i < len(b) && b[i] == '.' {
		i++
		frac := i
		if i = digitsEnd(b, i); i == frac {
			return 0, false
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		return 0, false
	}
	return i, i-from <= 20
}

func digitsEnd(b []byte, i int) int {
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		i++
	}
	return i
}
