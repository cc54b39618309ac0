package feed

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
)

// recordLimits let every record through that was written: it was within the limits of its request then.
var recordLimits = exact.Limits{Depth: 1 << 12, Tokens: 1 << 26}

// head is what decides whether a record is wanted.
type head struct {
	typ, agent, tool string
	at               time.Time
	about            string // the subscriber that it is about
}

// headOf reads a record's own members. ok is false for what is no record.
func headOf(record []byte) (h head, ok bool) {
	ok = members(record, func(name, value []byte) {
		var to *string
		switch string(name) {
		case "type":
			to = &h.typ
		case "agent_id":
			to = &h.agent
		case "tool_id":
			to = &h.tool
		case "subscriber":
			to = &h.about
		case "timestamp":
			if text, ok := plainText(value); ok {
				h.at, _ = time.Parse(time.RFC3339Nano, text)
			}
		}
		if to == nil {
			return
		}
		text, plain := plainText(value)
		if !plain {
			var doc exact.Doc
			if doc.Parse(string(value), recordLimits) == nil {
				text = doc.Root().Str()
			}
		}
		*to = text
	})
	return h, ok && h.typ != ""
}

// members calls fn with every member of an object that is written without white space, as records are. ok is false for
// anything else.
func members(object []byte, fn func(name, value []byte)) (ok bool) {
	if len(object) < 2 || object[0] != '{' {
		return false
	}
	if string(object) == "{}" {
		return true
	}
	for i := 1; ; i++ { // at a name's quote
		end := textEnd(object, i)
		if end < 0 || end >= len(object) || object[end] != ':' {
			return false
		}
		name := object[i+1 : end-1]
		i = valueEnd(object, end+1)
		if i < 0 || i >= len(object) || i == end+1 {
			return false
		}
		fn(name, object[end+1:i])
		switch {
		case object[i] == '}':
			return i == len(object)-1
		case object[i] != ',':
			return false
		}
	}
}

// plainText is the inside of a JSON string without escapes.
func plainText(value []byte) (text string, ok bool) {
	if len(value) < 2 || value[0] != '"' || bytes.IndexByte(value, '\\') >= 0 {
		return "", false
	}
	return string(value[1 : len(value)-1]), true
}

// textEnd is the index behind the string that begins at i, -1 if none does.
func textEnd(b []byte, i int) int {
	if i >= len(b) || b[i] != '"' {
		return -1
	}
	for i++; i < len(b); i++ {
		switch b[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
	return -1
}

// valueEnd is the index behind the value that begins at i, -1 if it has no end.
func valueEnd(b []byte, i int) int {
	for depth := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			if i = textEnd(b, i); i < 0 {
				return -1
			}
			if depth == 0 {
				return i
			}
			i--
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // of the object around it: behind a number or a word
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',':
			if depth == 0 {
				return i
			}
		}
	}
	return -1
}

// filters reports whether the settings let only some records through.
func (s *Settings) filters() bool { return len(s.Types)+len(s.Agents)+len(s.Tools) > 0 }

// wants reports whether a record is delivered. One that cannot be read is: what cannot be read cannot be left out.
func (s *Settings) wants(record []byte) bool {
	if !s.filters() {
		return true
	}
	h, ok := headOf(record)
	if !ok {
		return true
	}
	if len(s.Types) > 0 && !slices.Contains(s.Types, h.typ) {
		return false
	}
	if len(s.Agents) > 0 && h.agent != "" && !strings.Contains(h.agent, "*") && !sdk.MatchAgent(s.Agents, h.agent) {
		return false
	}
	return len(s.Tools) == 0 || h.tool == "" || slices.ContainsFunc(s.Tools, func(glob string) bool { return sdk.MatchGlob(glob, h.tool) })
}
