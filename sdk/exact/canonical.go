package exact

import (
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

// AppendCanonical appends the value in RFC 8785 form, with one difference: numbers are the canonical decimals of what
// was sent (Decimal.String), so 1, 1.0 and 1e0 are one number and 1000004 keeps every digit. Absent appends nothing.
func (v Value) AppendCanonical(dst []byte) []byte {
	if v.d == nil {
		return dst
	}
	n := v.node()
	switch n.kind {
	case Number:
		if raw := v.Raw(); canonicalNumber(raw) {
			return append(dst, raw...)
		}
		return v.Decimal().Append(dst)
	case String:
		return AppendString(dst, v.d.text(n))
	case Array:
		dst = append(dst, '[')
		i := v.i + 1
		for k := range n.n {
			if k > 0 {
				dst = append(dst, ',')
			}
			dst = Value{v.d, i}.AppendCanonical(dst)
			i = v.d.nodes[i].next
		}
		return append(dst, ']')
	case Object:
		return v.appendObject(dst)
	}
	return append(dst, v.d.src[n.start:n.end]...)
}

func (v Value) appendObject(dst []byte) []byte {
	var room [16]int32
	order := room[:0]
	sorted := true
	i := v.i + 1
	prev := ""
	for k := range v.node().n {
		name := v.d.text(&v.d.nodes[i])
		sorted = sorted && (k == 0 || lessUTF16(prev, name))
		prev = name
		order = append(order, i)
		i = v.d.nodes[i+1].next
	}
	if !sorted {
		slices.SortFunc(order, func(a, b int32) int {
			an, bn := v.d.text(&v.d.nodes[a]), v.d.text(&v.d.nodes[b])
			if lessUTF16(an, bn) {
				return -1
			}
			return 1 // names are unique
		})
	}
	dst = append(dst, '{')
	for k, at := range order {
		if k > 0 {
			dst = append(dst, ',')
		}
		dst = AppendString(dst, v.d.text(&v.d.nodes[at]))
		dst = append(dst, ':')
		dst = Value{v.d, at + 1}.AppendCanonical(dst)
	}
	return append(dst, '}')
}

// lessUTF16 orders names by UTF-16 code units, as RFC 8785 asks. It differs from byte order only where one name has a
// character beyond U+FFFF and the other one from U+E000 on.
func lessUTF16(a, b string) bool {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	if i == len(a) || i == len(b) {
		return len(a) < len(b)
	}
	if a[i] < 0xEE || b[i] < 0xEE {
		return a[i] < b[i]
	}
	for i > 0 && !utf8.RuneStart(a[i]) {
		i--
	}
	ra, _ := utf8.DecodeRuneInString(a[i:])
	rb, _ := utf8.DecodeRuneInString(b[i:])
	return unit(ra) < unit(rb)
}

// unit is a number that orders runes as their UTF-16 units do.
func unit(r rune) uint32 {
	if r < 0x10000 {
		return uint32(r) << 16
	}
	hi, lo := utf16.EncodeRune(r)
	return uint32(hi)<<16 | uint32(lo)
}

// canonicalNumber reports whether a number in JSON syntax is its own canonical text, as nearly all are.
func canonicalNumber(raw string) bool {
	if len(raw) > 20 || raw == "-0" {
		return false
	}
	point := false
	for i := range len(raw) {
		if raw[i]|0x20 == 'e' {
			return false
		}
		point = point || raw[i] == '.'
	}
	return !point || raw[len(raw)-1] != '0'
}

// plainRun is how many bytes s begins with that a JSON string holds as they are and that need no look at their
// encoding: ASCII from the space on, without the quote and the backslash. It looks at eight at a time.
func plainRun(s string) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(s); i += 8 {
		w := s[i : i+8]
		x := uint64(w[0]) | uint64(w[1])<<8 | uint64(w[2])<<16 | uint64(w[3])<<24 | uint64(w[4])<<32 | uint64(w[5])<<40 |
			uint64(w[6])<<48 | uint64(w[7])<<56
		// A byte's top bit is set in one of these if it is not plain; a borrow can only come from such a byte.
		if (x|(x-ones*0x20)|((x^ones*'"')-ones)|((x^ones*'\\')-ones))&tops != 0 {
			break
		}
	}
	for i < len(s) && s[i] >= 0x20 && s[i] < utf8.RuneSelf && s[i] != '"' && s[i] != '\\' {
		i++
	}
	return i
}

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string with the escapes of RFC 8785: \" \\ \b \f \n \r \t and \u00xx below 0x20.
// Invalid UTF-8 is written as U+FFFD, so that what is appended is always JSON.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(append(dst, s[start:i]...), "\uFFFD"...)
				start = i + 1
			}
			i += n
			continue
		}
		if n := plainRun(s[i:]); n > 0 {
			i += n
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		start = i
	}
	return append(append(dst, s[start:]...), '"')
}
