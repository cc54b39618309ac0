package main

// The notation of shapes. A pattern is literal text with runs in angle brackets: <c:n> or <c:n-m> is n to m bytes of
// class c, where c is a letter from classes, optionally followed by further bytes that belong to the run. The literal
// that a hit is looked for is the leading one, or the one in braces; only fixed runs may stand before it. Runs are
// greedy and never give back.
//
//	ghp_<w:36>    <w:14>{.atlasv1.}<w-_=:60-70>
var classes = map[byte]string{
	'd': "0-9", 'x': "0-9a-f", 'X': "0-9a-fA-F", 'a': "0-9a-z", 'A': "0-9A-Z", 'l': "a-zA-Z", 'w': "0-9a-zA-Z",
	'W': "0-9a-zA-Z_", 'b': "0-9a-zA-Z_-", 'e': "0-9a-zA-Z_=-", 's': "0-9a-zA-Z+/=", 'u': "2-7A-Z", 'c': "a-z",
	'h': "0-9a-fA-F-",
}

type byteSet [256]bool

// element is a literal (set nil) or a run.
type element struct {
	lit      string
	set      *byteSet
	min, max int
}

type pattern struct {
	left    []element // fixed runs and literals before the trigger
	leftLen int
	lit     string
	right   []element
}

var sets = map[string]*byteSet{}

func setOf(spec string) *byteSet {
	if s := sets[spec]; s != nil {
		return s
	}
	s := new(byteSet)
	ranges := classes[spec[0]]
	for i := 0; i < len(ranges); i++ {
		if i+2 < len(ranges) && ranges[i+1] == '-' {
			for c := int(ranges[i]); c <= int(ranges[i+2]); c++ {
				s[c] = true
			}
			i += 2
			continue
		}
		s[ranges[i]] = true
	}
	for i := 1; i < len(spec); i++ {
		s[spec[i]] = true
	}
	sets[spec] = s
	return s
}

// compile reads the notation; a pattern is a constant of this program, so a bad one panics when the tables are made.
func compile(src string) pattern {
	var p pattern
	var all []element
	trigger := -1
	for i := 0; i < len(src); {
		switch src[i] {
		case '<':
			end := i + indexByte(src[i:], '>')
			all = append(all, parseRun(src[i+1:end]))
			i = end + 1
		case '{':
			end := i + indexByte(src[i:], '}')
			trigger = len(all)
			all = append(all, element{lit: src[i+1 : end]})
			i = end + 1
		default:
			end := i
			for end < len(src) && src[end] != '<' && src[end] != '{' {
				end++
			}
			all = append(all, element{lit: src[i:end]})
			i = end
		}
	}
	if trigger < 0 {
		if all[0].set != nil {
			p.right = all // no trigger of its own: a vendor's value
			return p
		}
		trigger = 0
	}
	for _, e := range all[:trigger] {
		p.leftLen += len(e.lit) + e.max
	}
	p.left, p.lit, p.right = all[:trigger], all[trigger].lit, all[trigger+1:]
	return p
}

func parseRun(s string) element {
	colon := len(s) - 1
	for s[colon] != ':' {
		colon--
	}
	e := element{set: setOf(s[:colon])}
	length := s[colon+1:]
	if dash := indexByte(length, '-'); dash > 0 {
		e.min, e.max = number(length[:dash]), number(length[dash+1:])
		return e
	}
	e.min = number(length)
	e.max = e.min
	return e
}

func indexByte(s string, c byte) int {
	for i := range len(s) {
		if s[i] == c {
			return i
		}
	}
	return -1
}

func number(s string) int {
	n := 0
	for i := range len(s) {
		n = n*10 + int(s[i]-'0')
	}
	return n
}

// at matches the pattern around its literal, which stands at t[hit:hit+len(lit)], and gives the whole span.
func (p *pattern) at(t []byte, hit int) (start, end int, ok bool) {
	start = hit - p.leftLen
	if start < 0 {
		return 0, 0, false
	}
	if end, ok = run(t, start, p.left); !ok || end != hit {
		return 0, 0, false
	}
	end, ok = run(t, hit+len(p.lit), p.right)
	return start, end, ok
}

// open is what of a match is not the mark in front of it.
func (p *pattern) open(v []byte) []byte {
	if p.leftLen > 0 {
		return v
	}
	return v[len(p.lit):]
}

// longest is how many bytes a match has at most.
func (p *pattern) longest() int {
	n := p.leftLen + len(p.lit)
	for _, e := range p.right {
		n += len(e.lit) + e.max
	}
	return n
}

// whole tells whether the pattern matches all of v.
func (p *pattern) whole(v []byte) bool {
	if len(v) < len(p.lit) || string(v[:len(p.lit)]) != p.lit {
		return false
	}
	end, ok := run(v, len(p.lit), p.right)
	return ok && end == len(v)
}

func run(t []byte, i int, elems []element) (int, bool) {
	for k := range elems {
		e := &elems[k]
		if e.set == nil {
			if len(t)-i < len(e.lit) || string(t[i:i+len(e.lit)]) != e.lit {
				return 0, false
			}
			i += len(e.lit)
			continue
		}
		n := 0
		for n < e.max && i+n < len(t) && e.set[t[i+n]] {
			n++
		}
		if n < e.min {
			return 0, false
		}
		i += n
	}
	return i, true
}

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isAlpha(c byte) bool { return isLower(c | 0x20) }
func isWord(c byte) bool  { return isAlpha(c) || isDigit(c) }
func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func lower(c byte) byte {
	if isUpper(c) {
		return c | 0x20
	}
	return c
}

var hexBytes = setOf("X")

// startsClean tells whether a token may begin at i: not in the middle of a word, except behind an escape such as \n or
// %3D.
func startsClean(t []byte, i int) bool {
	if i == 0 || !isWord(t[i-1]) {
		return true
	}
	c := t[i-1]
	if i >= 2 && t[i-2] == '\\' && (c == 'n' || c == 'r' || c == 't') {
		return true
	}
	return i >= 3 && t[i-3] == '%' && hexBytes[t[i-2]] && hexBytes[c]
}

// endsClean tells whether a token may end at i: what goes on beyond the length it may have is something else.
func endsClean(t []byte, i int) bool { return i == len(t) || !isWord(t[i]) && t[i] != '_' }
