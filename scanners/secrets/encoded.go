package main

import "github.com/yett-dev/yett/sdk/scanner"

// Tokens in another writing: base64 and hexadecimal of a marked token, a connection string with its signs escaped, a
// token that a program or a mail has broken over lines. Each is decoded beside its hit, at most mostDecoded bytes.

const mostDecoded = 400

// encodable are the marks that are looked for in base64 and hexadecimal too: of what opens most.
var encodable = []string{
	"ghp_", "gho_", "ghs_", "ghu_", "github_pat_", "glpat-", "xoxb-", "xoxp-", "AKIA", "sk_live_", "rk_live_",
	"sk-ant-api03-", "sk-proj-", "npm_", "AIza", "dop_v1_", "hvs.", "yett_", "SG.",
}

// inHex is the place of a mark that stands in hexadecimal; the others say how many bytes stand in front of the mark in
// its group of three.
const inHex = 3

const digits64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

// firstDigit is, by place, the first digit of a group that only the mark decides.
var firstDigit = [...]int{0, 2, 3}

// encodings gives for a mark the digits that it has for certain, by place.
func encodings(mark string) (forms [4]string) {
	for place := range inHex {
		var digits []byte
		for d := firstDigit[place]; (d+1)*6 <= (place+len(mark))*8; d++ {
			six := 0
			for bit := d * 6; bit < d*6+6; bit++ {
				at := bit - place*8
				six = six<<1 | int(mark[at/8]>>(7-at%8)&1)
			}
			digits = append(digits, digits64[six])
		}
		forms[place] = string(digits)
	}
	const hex = "0123456789abcdef"
	for i := range len(mark) {
		forms[inHex] += string(hex[mark[i]>>4]) + string(hex[mark[i]&15])
	}
	return forms
}

// plain is where encoded text is decoded to, and back for each of its bytes where it stood; calls never overlap.
var plain struct {
	text [mostDecoded + 4]byte
	at   [mostDecoded + 5]int
}

// encoded tries a pattern on what the digits around a hit mean.
func (s *scan) encoded(k task, h scanner.Hit) {
	most := min(mostDecoded, k.pattern.longest()+2)
	if k.place == inHex {
		s.decoded(k, 0, s.decodeHex(h.Start, most))
		return
	}
	start := h.Start - firstDigit[k.place]
	if start < 0 {
		return
	}
	skip := 0
	if k.place == 0 && start >= 4 && segmentOf64(s.t[start-4:start]) {
		start, skip = start-4, 3 // the byte in front of the mark
	}
	at := skip + k.place
	s.decoded(k, at, s.decode64(start, at, at+most))
}

// decoded matches a pattern whose mark is at plain.text[at].
func (s *scan) decoded(k task, at, n int) {
	t := plain.text[:n]
	if at+len(k.pattern.lit) > n || string(t[at:at+len(k.pattern.lit)]) != k.pattern.lit {
		return
	}
	start, end, ok := k.pattern.at(t, at)
	if !ok || !startsClean(t, start) || !endsClean(t, end) {
		return
	}
	if v, r := t[start:end], &tokenRules[k.rule]; entropy(v) >= r.entropy && !filler(v) && !published(v) &&
		!documented[fnv(v)] {
		confidence := float32(0.9)
		if k.whole != nil && !k.whole(v) {
			confidence = broken
		}
		s.found = append(s.found, candidate{r.kind, plain.at[start], plain.at[end], rankToken, confidence, k.level})
	}
}

func digit64(c byte) int {
	switch {
	case isUpper(c):
		return int(c - 'A')
	case isLower(c):
		return int(c-'a') + 26
	case isDigit(c):
		return int(c-'0') + 52
	case c == '+' || c == '-':
		return 62
	case c == '/' || c == '_':
		return 63
	}
	return -1
}

func segmentOf64(v []byte) bool {
	for _, c := range v {
		if digit64(c) < 0 {
			return false
		}
	}
	return true
}

// decode64 decodes groups of base64 from i on into plain, up to a byte that no token has behind the one at from, and
// at most so many. The place of a byte is its first digit's.
func (s *scan) decode64(i, from, most int) (n int) {
	acc, bits := 0, 0
	for j := i; j < len(s.t) && n < min(most, mostDecoded); j++ {
		six := digit64(s.t[j])
		if six < 0 {
			break
		}
		acc = acc<<6 | six
		if bits += 6; bits >= 8 {
			bits -= 8
			plain.text[n] = byte(acc >> bits)
			plain.at[n] = j - 1
			n++
			plain.at[n] = j + 1
			acc &= 1<<bits - 1
			if n > from && !segment[plain.text[n-1]] && plain.text[n-1] != '.' {
				return n
			}
		}
	}
	if end := plain.at[n]; n > 0 { // padding belongs to the last group
		for end < len(s.t) && s.t[end] == '=' && end < plain.at[n]+2 {
			end++
		}
		plain.at[n] = end
	}
	return n
}

func hexDigit(c byte) int {
	switch c = lower(c); {
	case isDigit(c):
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	}
	return -1
}

func (s *scan) decodeHex(i, most int) (n int) {
	for ; i+1 < len(s.t) && n < most; i += 2 {
		a, b := hexDigit(s.t[i]), hexDigit(s.t[i+1])
		if a < 0 || b < 0 {
			break
		}
		plain.text[n], plain.at[n] = byte(a<<4|b), i
		n++
		plain.at[n] = i + 2
	}
	return n
}

// inner is the scan of a text that was decoded; calls never overlap.
var inner = scan{found: make([]candidate, 0, 4)}

// escapedURL takes the password of a URL whose signs are escaped, as in the parameter of another: a%3A%2F%2Fb%3Ac%40d.
func (s *scan) escapedURL(h scanner.Hit) {
	n, mark := 0, -1
	for i := max(0, h.Start-20); i < len(s.t) && n < mostDecoded; n++ {
		if i >= h.Start && mark < 0 {
			mark = n
		}
		plain.text[n], plain.at[n] = s.t[i], i
		if s.t[i] == '%' && i+2 < len(s.t) && hexDigit(s.t[i+1]) >= 0 && hexDigit(s.t[i+2]) >= 0 {
			plain.text[n] = byte(hexDigit(s.t[i+1])<<4 | hexDigit(s.t[i+2]))
			i += 2
		}
		i++
		plain.at[n+1] = i
	}
	if mark < 0 || mark+3 > n {
		return
	}
	inner.t, inner.set, inner.found = plain.text[:n], s.set, inner.found[:0]
	inner.url(scanner.Hit{Start: mark, End: mark + 3})
	for _, c := range inner.found {
		s.add(c.kind, plain.at[c.start], plain.at[c.end], c.rank, c.confidence)
	}
}

var joinable = setOf("b.")

// joined tries a pattern on a token that goes on behind the end of a line or of a string: "ghp_…" + "…".
func (s *scan) joined(k task, h scanner.Hit) {
	if h.Start < s.done.joined || k.pattern.leftLen > 0 || !startsClean(s.t, h.Start) {
		return
	}
	end := tokenEnd(s.t[:min(len(s.t), h.Start+mostDecoded)], h.Start, joinable)
	if end == len(s.t) || end-h.Start == mostDecoded || join(s.t, end) == 0 {
		s.done.joined = end
		return
	}
	n, joins := 0, 0
	for i := h.Start; i < len(s.t) && n < mostDecoded; {
		if c := s.t[i]; joinable[c] {
			plain.text[n], plain.at[n] = c, i
			n++
			i++
			plain.at[n] = i
			continue
		}
		next := join(s.t, i)
		if next == 0 || joins == 3 || n < len(k.pattern.lit)+4 {
			break
		}
		i, joins = next, joins+1
	}
	if joins > 0 {
		s.decoded(k, 0, n)
	}
}

// join gives where a token goes on that stops at t[i], or 0: behind a backslash or an equals sign at the end of the
// line, a bare line feed, or the end of one string and the start of the next.
func join(t []byte, i int) int {
	t = t[:min(len(t), i+60)]
	c, j := t[i], i+1
	switch c {
	case '"', '\'', '`':
		for plus := 0; j < len(t); j++ {
			switch {
			case t[j] == c && plus <= 1:
				return j + 1
			case t[j] == '+' || t[j] == '.' || t[j] == '\\' || t[j] == '&':
				plus++
			case !isSpace(t[j]):
				return 0
			}
		}
		return 0
	case '\\', '=':
		if j < len(t) && t[j] == '\r' {
			j++
		}
		if j == len(t) || t[j] != '\n' {
			return 0
		}
		return skipBlank(t, j+1)
	case '\r':
		if j == len(t) || t[j] != '\n' {
			return 0
		}
		return j + 1
	case '\n':
		return j
	}
	return 0
}
