package scanner

import (
	"strconv"

	"github.com/yett-dev/yett/sdk/abi"
)

// describe writes the abi.Metadata of the scanner as JSON, members in the order of that type.
func (m *machine) describe() []byte {
	s := &m.spec
	b := append([]byte(nil), `{"name":`...)
	b = appendString(b, s.Name)
	b = appendString(append(b, `,"version":`...), s.Version)
	b = strconv.AppendInt(append(b, `,"abi":`...), abi.Version, 10)
	if len(s.Kinds) > 0 {
		b = append(b, `,"kinds":[`...)
		for i, k := range s.Kinds {
			b = comma(b, i)
			b = appendString(append(b, `{"name":`...), k.Name)
			b = strconv.AppendInt(append(b, `,"severity":`...), int64(k.Severity), 10)
			b = append(b, '}')
		}
		b = append(b, ']')
	}
	if s.Config != "" {
		b = append(append(b, `,"config_schema":`...), s.Config...)
	}
	b = appendString(append(b, `,"stream":{"mode":`...), s.Stream)
	if s.Lookbehind > 0 {
		b = strconv.AppendInt(append(b, `,"lookbehind":`...), int64(s.Lookbehind), 10)
	}
	b = append(b, `},"needs":{`...)
	if s.MemoryMiB > 0 {
		b = strconv.AppendInt(append(b, `"memory_bytes":`...), int64(s.MemoryMiB)<<20, 10)
	}
	if s.DeadlineMS > 0 {
		if s.MemoryMiB > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(append(b, `"deadline_ms":`...), int64(s.DeadlineMS), 10)
	}
	b = append(b, '}')
	if len(s.Triggers) > 0 {
		b = append(b, `,"triggers":[`...)
		for i, t := range s.Triggers {
			b = appendTrigger(comma(b, i), t)
		}
		b = append(b, ']')
	}
	for i, from := range s.TriggersFrom {
		if i == 0 {
			b = append(b, `,"triggers_from":[`...)
		}
		b = appendString(append(comma(b, i), `{"path":`...), from.Path)
		if from.Fold {
			b = append(b, `,"fold":true`...)
		}
		b = append(b, '}')
		if i == len(s.TriggersFrom)-1 {
			b = append(b, ']')
		}
	}
	return append(b, '}')
}

func appendTrigger(b []byte, t Trigger) []byte {
	if t.Class != "" {
		b = appendString(append(b, `{"class":`...), t.Class)
		b = strconv.AppendInt(append(b, `,"min":`...), int64(t.Min), 10)
		return append(b, '}')
	}
	b = appendString(append(b, `{"literal":`...), t.Literal)
	if t.Fold {
		b = append(b, `,"fold":true`...)
	}
	return append(b, '}')
}

func comma(b []byte, i int) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	return b
}

// appendString writes s as a JSON string; bytes that are not UTF-8 are the author's mistake and are kept.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < 0x20:
			b = append(b, '\\', 'u', '0', '0', "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
