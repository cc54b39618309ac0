package main

import "github.com/yett-dev/yett/sdk/scanner"

// network looks for an IP or MAC address around the word t[from:to].
func (s *scan) network(from, to int) int {
	before, after := at(s.t, from-1), at(s.t, to)
	dots, colons := before == '.' || after == '.', before == ':' || after == ':'
	// the groups of a MAC address are two digits, or four between dots
	if n := to - from; n == 2 && (colons || before == '-' || after == '-') || n == 4 && dots {
		if end := s.mac(from); end > 0 {
			return end
		}
	}
	if colons {
		if end := s.ip6(from, to); end > 0 {
			return end
		}
	}
	if dots {
		return s.ip4(from, to)
	}
	return 0
}

func (s *scan) dotted(h scanner.Hit) {
	if h.Start >= s.upTo {
		s.ip4(h.Start, h.End)
	}
}

func (s *scan) colons(h scanner.Hit) {
	if h.Start >= s.upTo {
		s.ip6(h.End-1, h.End)
	}
}

// ip4 reads four octets around t[from:to].
func (s *scan) ip4(from, to int) int {
	start, end := from, to
	for n := 0; n < 16 && (isDigit(at(s.t, start-1)) || at(s.t, start-1) == '.'); n++ {
		start--
	}
	for n := 0; n < 16 && (isDigit(at(s.t, end)) || at(s.t, end) == '.'); n++ {
		end++
	}
	for end > start && s.t[end-1] == '.' {
		end--
	}
	for start < end && s.t[start] == '.' {
		start++
	}
	if end-start < 7 || end-start > 15 || isWord(at(s.t, start-1)) || at(s.t, start-1) == '-' || isWord(at(s.t, end)) ||
		at(s.t, start-1) == '_' || at(s.t, end) == '_' || at(s.t, end) == '-' && isAlpha(at(s.t, end+1)) {
		return 0
	}
	var octet [4]int
	n, digits := 0, 0
	for _, c := range s.t[start:end] {
		if c == '.' {
			if n++; n > 3 || digits == 0 {
				return 0
			}
			digits = 0
			continue
		}
		if octet[n], digits = octet[n]*10+int(c-'0'), digits+1; octet[n] > 255 || digits > 3 || digits == 3 &&
			octet[n] < 100 || digits == 2 && octet[n] < 10 {
			return 0
		}
	}
	if n != 3 || s.versionBefore(start) {
		return 0
	}
	private := octet[0] == 10 || octet[0] == 127 || octet[0] == 0 || octet[0] >= 224 ||
		octet[0] == 172 && octet[1]&0xf0 == 16 || octet[0] == 192 && octet[1] == 168 || octet[0] == 169 &&
		octet[1] == 254 ||
		octet[0] == 100 && octet[1]&0xc0 == 64 ||
		octet[0] == 192 && octet[1] == 0 && (octet[2] == 2 || octet[2] == 0) ||
		octet[0] == 198 && (octet[1] == 51 && octet[2] == 100 || octet[1]&0xfe == 18) ||
		octet[0] == 203 && octet[1] == 0 && octet[2] == 113
	s.address("IP_ADDRESS", start, end, private)
	return end
}

// address reports an address of the net; those that lead to nobody only for information.
func (s *scan) address(kind string, start, end int, private bool) {
	if private {
		s.addAs(kind, start, end, 0.3, info, scanner.Flag)
		return
	}
	s.add(kind, start, end, 0.7)
}

var versionWords = []string{"version", "ver", "release", "annex", "section", "sect", "chapter", "upgrade", "v", "==",
	">=", "~="}

// versionBefore tells whether what stands before says that dotted numbers are no address.
func (s *scan) versionBefore(start int) bool {
	i := start
	for i > 0 && start-i < 3 && (s.t[i-1] == ' ' || s.t[i-1] == ':' || s.t[i-1] == '"' || s.t[i-1] == '.') {
		i--
	}
	for _, w := range versionWords {
		if hasPrefix(s.t, i-len(w), w) && (!isAlpha(w[0]) || !isAlpha(at(s.t, i-len(w)-1))) {
			return true
		}
	}
	return false
}

// ip6 reads groups of hexadecimal digits around t[from:to].
func (s *scan) ip6(from, to int) int {
	start, end := from, to
	for n := 0; n < 48 && (isHex(at(s.t, start-1)) || at(s.t, start-1) == ':'); n++ {
		start--
	}
	colon := false
	for _, c := range s.t[start:from] {
		colon = colon || c == ':'
	}
	for n := 0; n < 48 && (isHex(at(s.t, end)) || at(s.t, end) == ':' || at(s.t, end) == '.' && colon); n++ {
		colon = colon || s.t[end] == ':'
		end++
	}
	for end > start && (s.t[end-1] == '.' || s.t[end-1] == ':' && (end-start < 2 || s.t[end-2] != ':')) {
		end--
	}
	if start+1 < end && s.t[start] == ':' && s.t[start+1] != ':' {
		start++
	}
	if isWord(at(s.t, start-1)) || isWord(at(s.t, end)) || at(s.t, start-1) == '_' || !validIP6(s.t[start:end]) {
		return 0
	}
	v := s.t[start:end]
	private := hasPrefix(v, 0, "::") || hasPrefix(v, 0, "fe8") || hasPrefix(v, 0, "fc") || hasPrefix(v, 0, "fd") ||
		hasPrefix(v, 0, "ff0") || hasPrefix(v, 0, "2001:db8") || hasPrefix(v, 0, "2001:0db8")
	s.address("IP_ADDRESS", start, end, private)
	return end
}

func validIP6(v []byte) bool {
	groups, digits, double, decimal, dots := 0, 0, false, false, 0
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case c == ':' && i+1 < len(v) && v[i+1] == ':':
			if double || i+2 < len(v) && v[i+2] == ':' {
				return false
			}
			double = true
			if digits > 0 {
				groups++
			}
			digits = 0
			i++
		case c == ':':
			if digits == 0 {
				return false
			}
			groups++
			digits = 0
		case c == '.':
			dots++
		default:
			if digits++; digits > 4 {
				return false
			}
			decimal = decimal || isDigit(c)
		}
		if dots > 0 && v[i] != '.' && v[i] == ':' {
			return false
		}
		if v[i] == '.' {
			digits = 0
		}
	}
	if digits > 0 {
		groups++
	}
	if dots == 3 {
		groups++ // four octets stand for two groups
	} else if dots != 0 {
		return false
	}
	return decimal && (groups == 8 && !double || double && groups >= 1 && groups < 8 && len(v) > 2)
}

func (s *scan) macWord(h scanner.Hit) {
	for i := h.End; i < min(len(s.t), h.End+24); i++ {
		if isHex(s.t[i]) && !isWord(at(s.t, i-1)) && i >= s.upTo && s.mac(i) > 0 {
			return
		}
	}
}

// mac reads six pairs of hexadecimal digits, or three groups of four with dots, around the word at from.
func (s *scan) mac(from int) int {
	start := from
	for n := 0; n < 17 && (isHex(at(s.t, start-1)) || at(s.t, start-1) == ':' || at(s.t, start-1) == '-' ||
		at(s.t, start-1) == '.'); n++ {
		start--
	}
	for start < from && !isHex(s.t[start]) {
		start++
	}
	for _, form := range [...]struct {
		group, groups int
		seps          string
	}{{2, 6, ":-"}, {4, 3, "."}} {
		sep := at(s.t, start+form.group)
		end := start + form.groups*(form.group+1) - 1
		if end > len(s.t) || sep != form.seps[0] && sep != form.seps[len(form.seps)-1] {
			continue
		}
		ok, zeros, ones := !isWord(at(s.t, start-1)) && !isWord(at(s.t, end)) && at(s.t, end) != sep, true, true
		for i := start; i < end; i++ {
			c := s.t[i]
			if (i-start)%(form.group+1) == form.group {
				ok = ok && c == sep
				continue
			}
			ok = ok && isHex(c)
			zeros, ones = zeros && c == '0', ones && c|0x20 == 'f'
		}
		if ok && !zeros && !ones {
			s.add("MAC_ADDRESS", start, end, 0.8)
			return end
		}
	}
	return 0
}
