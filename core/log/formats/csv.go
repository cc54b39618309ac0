package formats

import (
	"strconv"
	"strings"
)

// csvColumns are the columns, always these in this order: tables of others are made for them.
var csvColumns = []string{"seq", "time", "store_id", "type", "principal_id", "principal_method", "surface", "peer",
	"agent_id", "tool_id", "decision_id", "effect", "reason_code", "reason", "rule_id", "key_id", "defer_token",
	"grant_id", "scan_id", "outcome", "record"}

func csvHead(dst []byte) []byte { return append(dst, strings.Join(csvColumns, ",")+"\r\n"...) }

// csvLine has no line break inside: one line is one record. Record adds the newline.
func csvLine(dst []byte, r *record) []byte {
	for i, name := range csvColumns {
		if i > 0 {
			dst = append(dst, ',')
		}
		switch name {
		case "seq":
			dst = strconv.AppendUint(dst, r.seq, 10)
		case "time":
			dst = csvCell(dst, r.text("timestamp"))
		case "reason":
			dst = csvCell(dst, r.why())
		case "outcome":
			dst = csvCell(dst, r.outcome())
		case "record":
			dst = csvCell(dst, string(r.raw))
		default:
			dst = csvCell(dst, r.text(name))
		}
	}
	return append(dst, '\r')
}

// csvCell writes a cell of RFC 4180. A spreadsheet takes a cell for a formula by its first character: an apostrophe in
// front makes it a text. Control characters are written as JSON does.
func csvCell(dst []byte, s string) []byte {
	if s == "" {
		return dst
	}
	text := formula(s)
	quoted := text || strings.ContainsAny(s, "\",;'") || s[0] <= ' ' || s[len(s)-1] <= ' '
	if quoted {
		dst = append(dst, '"')
	}
	if text {
		dst = append(dst, '\'')
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"':
			dst = append(dst, '"', '"')
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', '0'+c>>4, "0123456789abcdef"[c&15])
		default:
			dst = append(dst, c)
		}
	}
	if quoted {
		dst = append(dst, '"')
	}
	return dst
}

// formula reports whether a spreadsheet may take the cell for a formula. The wide characters are what some read as the
// others.
func formula(s string) bool {
	s = strings.TrimLeft(s, " ")
	for _, start := range []string{"=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"} {
		if strings.HasPrefix(s, start) {
			return true
		}
	}
	return false
}
