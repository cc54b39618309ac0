package exact

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Parse reads src whole. On an error the Doc is empty. The error is always a *SyntaxError.
func (d *Doc) Parse(src string, lim Limits) error {
	d.src, d.nodes, d.grows = src, d.nodes[:0], 0
	p := parser{d: d, s: src, lim: lim}
	err := p.document()
	if err != nil {
		d.src, d.nodes, d.grows = "", d.nodes[:0], 0
		return err
	}
	return nil
}

type parser struct {
	d   *Doc
	s   string
	i   int
	lim Limits
}

func (p *parser) fail(at int, format string, args ...any) error {
	return &SyntaxError{Offset: at, Reason: fmt.Sprintf(format, args...)}
}

func (p *parser) document() error {
	if len(p.s) > math.MaxInt32 {
		return p.fail(0, "text of 2 GiB or more")
	}
	p.space()
	if err := p.value(0); err != nil {
		return err
	}
	p.space()
	if p.i != len(p.s) {
		return p.fail(p.i, "data after the end of the value")
	}
	return nil
}

func (p *parser) space() {
	for p.i < len(p.s) {
		switch p.s[p.i] {
		case ' ', '\t', '\n', '\r':
			p.i++
		default:
			return
		}
	}
}

// push appends a node and gives its index; -1 with an error when the token limit is reached.
func (p *parser) push(n node) (int32, error) {
	if len(p.d.nodes) >= p.lim.Tokens {
		return -1, p.fail(p.i, "more than the limit of %d tokens (limits.tokens)", p.lim.Tokens)
	}
	n.next = int32(len(p.d.nodes) + 1)
	p.d.nodes = append(p.d.nodes, n)
	return int32(len(p.d.nodes) - 1), nil
}

func (p *parser) value(depth int) error {
	if p.i >= len(p.s) {
		return p.fail(p.i, "unexpected end of text")
	}
	switch c := p.s[p.i]; {
	case c == '{':
		return p.container(depth, Object)
	case c == '[':
		return p.container(depth, Array)
	case c == '"':
		_, err := p.str()
		return err
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	case c == 't':
		return p.word("true", node{kind: Bool, val: true})
	case c == 'f':
		return p.word("false", node{kind: Bool})
	case c == 'n':
		return p.word("null", node{kind: Null})
	}
	return p.fail(p.i, "unexpected character")
}

func (p *parser) word(w string, n node) error {
	if !strings.HasPrefix(p.s[p.i:], w) {
		return p.fail(p.i, "unexpected character")
	}
	n.start, n.end = int32(p.i), int32(p.i+len(w))
	p.i += len(w)
	_, err := p.push(n)
	return err
}

func (p *parser) container(depth int, kind Kind) error {
	if depth >= p.lim.Depth {
		return p.fail(p.i, "nested deeper than the limit of %d (limits.depth)", p.lim.Depth)
	}
	at, err := p.push(node{kind: kind, start: int32(p.i)})
	if err != nil {
		return err
	}
	closer := byte(']')
	if kind == Object {
		closer = '}'
	}
	p.i++
	p.space()
	count := int32(0)
	for p.i < len(p.s) && (p.s[p.i] != closer || count > 0) {
		if err := p.member(depth, kind); err != nil {
			return err
		}
		count++
		p.space()
		if p.i < len(p.s) && p.s[p.i] == ',' {
			p.i++
			p.space()
			continue
		}
		break
	}
	if p.i >= len(p.s) || p.s[p.i] != closer {
		return p.fail(p.i, "expected a comma or the end of %v", kind)
	}
	p.i++
	n := &p.d.nodes[at]
	n.end, n.n, n.next = int32(p.i), count, int32(len(p.d.nodes))
	if kind == Object {
		return p.unique(at)
	}
	return nil
}

func (p *parser) member(depth int, kind Kind) error {
	if kind == Object {
		if p.i >= len(p.s) || p.s[p.i] != '"' {
			return p.fail(p.i, "expected a member name")
		}
		if _, err := p.str(); err != nil {
			return err
		}
		p.space()
		if p.i >= len(p.s) || p.s[p.i] != ':' {
			return p.fail(p.i, "expected a colon after a member name")
		}
		p.i++
		p.space()
	}
	return p.value(depth + 1)
}

// unique refuses an object that has one name twice; names are compared decoded.
func (p *parser) unique(at int32) error {
	obj := &p.d.nodes[at]
	if obj.n < 2 {
		return nil
	}
	if obj.n > 8 {
		return p.uniqueMany(at)
	}
	var names [8]string
	i := at + 1
	for k := range obj.n {
		key := &p.d.nodes[i]
		names[k] = p.d.text(key)
		for _, earlier := range names[:k] {
			if earlier == names[k] {
				return p.fail(int(key.start), "a member name is there twice")
			}
		}
		i = p.d.nodes[i+1].next
	}
	return nil
}

func (p *parser) uniqueMany(at int32) error {
	obj := &p.d.nodes[at]
	seen := make(map[string]struct{}, obj.n)
	i := at + 1
	for range obj.n {
		key := &p.d.nodes[i]
		name := p.d.text(key)
		if _, dup := seen[name]; dup {
			return p.fail(int(key.start), "a member name is there twice")
		}
		seen[name] = struct{}{}
		i = p.d.nodes[i+1].next
	}
	return nil
}

func (p *parser) str() (int32, error) {
	start := p.i
	i := p.i + 1
	esc, wide := false, false
	for {
		i += plainRun(p.s[i:])
		if i >= len(p.s) {
			return -1, p.fail(start, "a string without an end")
		}
		c := p.s[i]
		switch {
		case c == '"':
			if wide && !utf8.ValidString(p.s[start+1:i]) {
				return -1, p.fail(start, "a string that is not UTF-8")
			}
			p.i = i + 1
			return p.push(node{kind: String, esc: esc, start: int32(start), end: int32(p.i)})
		case c < 0x20:
			return -1, p.fail(i, "a control character in a string")
		case c == '\\':
			esc = true
			n, err := p.escape(i)
			if err != nil {
				return -1, err
			}
			i += n
		default:
			wide = true
			i++
		}
	}
}

// escape checks one escape sequence at i and gives its length.
func (p *parser) escape(i int) (int, error) {
	if i+1 >= len(p.s) {
		return 0, p.fail(i, "a string without an end")
	}
	switch p.s[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2, nil
	case 'u':
	default:
		return 0, p.fail(i, "an unknown escape in a string")
	}
	r, ok := hex4(p.s, i+2)
	switch {
	case !ok:
		return 0, p.fail(i, "a \\u escape without four hex digits")
	case r == 0:
		return 0, p.fail(i, "a NUL character in a string")
	case !utf16.IsSurrogate(r):
		return 6, nil
	}
	if i+7 < len(p.s) && p.s[i+6] == '\\' && p.s[i+7] == 'u' {
		if lo, ok := hex4(p.s, i+8); ok && utf16.DecodeRune(r, lo) != utf8.RuneError {
			return 12, nil
		}
	}
	return 0, p.fail(i, "half of a surrogate pair in a string")
}

func hex4(s string, i int) (rune, bool) {
	if i+4 > len(s) {
		return 0, false
	}
	var r rune
	for _, c := range []byte(s[i : i+4]) {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

// unescape decodes a string's inside that escape has accepted.
func unescape(raw string) string {
	var b strings.Builder
	b.Grow(len(raw))
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			j := strings.IndexByte(raw[i:], '\\')
			if j < 0 {
				j = len(raw) - i
			}
			b.WriteString(raw[i : i+j])
			i += j
			continue
		}
		c := raw[i+1]
		if c != 'u' {
			b.WriteByte(plain(c))
			i += 2
			continue
		}
		r, _ := hex4(raw, i+2)
		i += 6
		if utf16.IsSurrogate(r) {
			lo, _ := hex4(raw, i+2)
			r = utf16.DecodeRune(r, lo)
			i += 6
		}
		b.WriteRune(r)
	}
	return b.String()
}

func plain(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

func (p *parser) number() error {
	start := p.i
	n := scanNumber(p.s[start:])
	if n == 0 {
		return p.fail(start, "a malformed number")
	}
	p.i += n
	if strings.ContainsAny(p.s[start:p.i], "eE") {
		if _, err := ParseDecimal(p.s[start:p.i]); err != nil { // its exponent may be too large
			return p.fail(start, "%v", err)
		}
		p.d.grows += plainDigits
	}
	_, err := p.push(node{kind: Number, start: int32(start), end: int32(p.i)})
	return err
}

// scanNumber gives the length of the JSON number that s starts with, 0 if there is none.
func scanNumber(s string) int {
	i := 0
	if i < len(s) && s[i] == '-' {
		i++
	}
	n := digits(s[i:])
	if n == 0 || n > 1 && s[i] == '0' {
		return 0
	}
	i += n
	if i < len(s) && s[i] == '.' {
		if n = digits(s[i+1:]); n == 0 {
			return 0
		}
		i += 1 + n
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		i++
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		if n = digits(s[i:]); n == 0 {
			return 0
		}
		i += n
	}
	return i
}

func digits(s string) int {
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return i
}
