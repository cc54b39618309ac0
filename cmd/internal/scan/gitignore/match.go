package gitignore

import "strings"

// matcher compares one pattern with one text. It remembers where it has failed, so that it looks at each pair of places
// once.
type matcher struct {
	pattern, text string
	paths         bool // a slash is matched by a slash and by ** alone
	failed        []uint64
}

// match reports whether all of a text fits a pattern.
func match(pattern, text string, paths bool) bool {
	m := matcher{pattern: pattern, text: text, paths: paths}
	if strings.Count(pattern, "*") > 1 { // with one there is one way to go wrong only
		m.failed = make([]uint64, ((len(pattern)+1)*(len(text)+1)+63)/64)
	}
	return m.from(0, 0)
}

// from reports whether the pattern from p on fits the text from t on.
func (m *matcher) from(p, t int) bool {
	for p < len(m.pattern) {
		if m.pattern[p] == '*' {
			return m.star(p, t)
		}
		if t == len(m.text) {
			return false
		}
		next, fits := m.one(p, m.text[t])
		if !fits {
			return false
		}
		p, t = next, t+1
	}
	return t == len(m.text)
}

// one compares one byte of the text with what stands at p and is no star.
func (m *matcher) one(p int, c byte) (next int, fits bool) {
	switch m.pattern[p] {
	case '?':
		return p + 1, !m.paths || c != '/'
	case '[':
		return m.class(p+1, c)
	case '\\':
		if p++; p == len(m.pattern) {
			return p, false
		}
	}
	return p + 1, m.pattern[p] == c
}

// star tries the stars at p with the text from t on.
func (m *matcher) star(p, t int) bool {
	start := p
	for p < len(m.pattern) && m.pattern[p] == '*' {
		p++
	}
	rest := m.pattern[p:]
	slashes := !m.paths
	if m.paths && p-start > 1 && (start == 0 || m.pattern[start-1] == '/') &&
		(rest == "" || rest[0] == '/' || strings.HasPrefix(rest, `\/`)) {
		slashes = true
		if rest != "" && rest[0] == '/' && m.try(p+1, t) { // no folder at all
			return true
		}
	}
	for ; ; t++ {
		if m.try(p, t) {
			return true
		}
		if t == len(m.text) || m.text[t] == '/' && !slashes {
			return false
		}
	}
}

// try is from, once for each pair of places.
func (m *matcher) try(p, t int) bool {
	if m.failed == nil {
		return m.from(p, t)
	}
	at := p*(len(m.text)+1) + t
	if m.failed[at/64]>>(at%64)&1 == 1 {
		return false
	}
	if m.from(p, t) {
		return true
	}
	m.failed[at/64] |= 1 << (at % 64)
	return false
}

// class compares a byte with the class whose text begins at p, behind its bracket. A class without an end fits nothing.
func (m *matcher) class(p int, c byte) (next int, fits bool) {
	negated := p < len(m.pattern) && (m.pattern[p] == '!' || m.pattern[p] == '^')
	if negated {
		p++
	}
	found, before := false, byte(0)
	for first := true; ; first = false {
		if p >= len(m.pattern) {
			return p, false
		}
		b := m.pattern[p]
		if b == ']' && !first {
			break
		}
		last := b
		switch {
		case b == '\\':
			if p++; p == len(m.pattern) {
				return p, false
			}
			last = m.pattern[p]
			found = found || c == last
		case b == '-' && before != 0 && p+1 < len(m.pattern) && m.pattern[p+1] != ']':
			if p++; m.pattern[p] == '\\' {
				if p++; p == len(m.pattern) {
					return p, false
				}
			}
			found = found || before <= c && c <= m.pattern[p]
			last = 0
		case b == '[' && p+1 < len(m.pattern) && m.pattern[p+1] == ':':
			end := strings.IndexByte(m.pattern[p+2:], ']')
			if end < 0 {
				return p, false
			}
			if end == 0 || m.pattern[p+2+end-1] != ':' { // no name: the bracket stands for itself
				found = found || c == '['
				break
			}
			in, known := named(m.pattern[p+2:p+2+end-1], c)
			if !known {
				return p, false
			}
			found = found || in
			p += 2 + end
			last = 0
		default:
			found = found || c == b
		}
		before = last
		p++
	}
	return p + 1, found != negated && !(m.paths && c == '/')
}

// named says whether a byte is of a class with a name, as in the C locale.
func named(name string, c byte) (in, known bool) {
	lower, upper, digit := c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9'
	switch name {
	case "alnum":
		return lower || upper || digit, true
	case "alpha":
		return lower || upper, true
	case "blank":
		return c == ' ' || c == '\t', true
	case "cntrl":
		return c < ' ' || c == 0x7f, true
	case "digit":
		return digit, true
	case "graph":
		return c > ' ' && c < 0x7f, true
	case "lower":
		return lower, true
	case "print":
		return c >= ' ' && c < 0x7f, true
	case "punct":
		return c > ' ' && c < 0x7f && !lower && !upper && !digit, true
	case "space":
		return c == ' ' || c >= '\t' && c <= '\r', true
	case "upper":
		return upper, true
	case "xdigit":
		return digit || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F', true
	}
	return false, false
}
