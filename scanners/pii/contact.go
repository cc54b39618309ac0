package main

import (
	"slices"

	"github.com/yett-dev/yett/sdk/scanner"
)

// Lengths of an address's two sides, bytes.
const (
	maxLocal  = 64
	maxDomain = 190
)

func isLocal(c byte) bool {
	switch c {
	case '.', '_', '%', '+', '-', '\'', '&', '!', '#', '~', '*', '=', '/', '?', '^', '`', '{', '|', '}', '$':
		return true
	}
	return isWord(c) || c >= 0x80
}

// email reads the address around an @.
func (s *scan) email(h scanner.Hit) {
	if h.End-h.Start != 1 {
		return
	}
	start := h.Start
	for start > 0 && isLocal(s.t[start-1]) && h.Start-start <= maxLocal {
		start--
	}
	if h.Start-start > maxLocal {
		return
	}
	for i := h.Start - 1; i >= start; i-- { // signs that may be in an address, but rather stand before one
		switch s.t[i] {
		case '=', '/', '?', '\'', '`', '{', '|', '}', '*', '$', '^', '!', '&', '#', '~':
			start = i + 1
			i = start
		}
		if i <= start {
			break
		}
	}
	for start < h.Start && !isWord(s.t[start]) && s.t[start] < 0x80 && s.t[start] != '_' {
		start++
	}
	if start == h.Start || s.t[h.Start-1] == '.' || at(s.t, start-1) == ':' && at(s.t, start-2) != 'o' &&
		s.login(start) {
		return
	}
	end, lastDot := h.End, -1
	for end < len(s.t) && end-h.End <= maxDomain {
		c := s.t[end]
		if c == '.' {
			if s.t[end-1] == '.' || s.t[end-1] == '@' {
				break
			}
			lastDot = end
		} else if !isWord(c) && c != '-' && c < 0x80 {
			break
		}
		end++
	}
	for end > h.End && (s.t[end-1] == '.' || s.t[end-1] == '-' || s.t[end-1] >= 0x80) {
		end--
	}
	if lastDot >= end {
		for lastDot = end - 1; lastDot > h.End && s.t[lastDot] != '.'; lastDot-- {
		}
	}
	if lastDot <= h.End || end-h.End > maxDomain || !domainEnd(s.t[lastDot+1:end]) || at(s.t, end) == ':' &&
		isGit(s.t[start:h.Start]) ||
		at(s.t, end) == '(' || at(s.t, end) == '=' {
		return
	}
	if exampleDomain(s.t[h.End:end]) {
		s.addExample("EMAIL", start, end, 0.4)
		return
	}
	k := kinds[kindIndex["EMAIL"]]
	s.addAs("EMAIL", start, end, 0.95, max(k.severity, graveName(s.t[start:h.Start])), k.action)
}

// graveName gives the severity of what the name of an address is: a card, an account or a social security number is one
// there too.
func graveName(local []byte) scanner.Severity {
	var v []byte
	if len(local) <= 42 {
		for _, c := range local {
			if isWord(c) {
				v = append(v, upper(c))
			}
		}
	}
	digits := 0
	for _, c := range v {
		if isDigit(c) {
			digits++
		}
	}
	switch {
	case digits == len(v) && digits >= 13 && digits <= 19 && cardIssuer(v) && luhn(v):
		return critical
	case len(local) == 11 && digits == 9 && local[3] == '-' && local[6] == '-':
		return critical
	case len(v) >= 15 && ibanLengths[string(v[:2])] == len(v):
		if mod97(slices.Concat(v[4:], v[:4])) == 1 {
			return high
		}
	}
	return info
}

// login tells whether the name at i is the user or password of a URL.
func (s *scan) login(i int) bool {
	for k := i - 1; k > 1 && i-k < 80 && !isSpace(s.t[k]); k-- {
		if s.t[k] == '/' && s.t[k-1] == '/' {
			return true
		}
	}
	return false
}

func isGit(local []byte) bool { return string(local) == "git" }

// domainEnd tells whether the last label of a name may be a top-level domain, and not the ending of a file.
func domainEnd(v []byte) bool {
	if len(v) < 2 || len(v) > 24 {
		return false
	}
	if hasPrefix(v, 0, "xn--") {
		return len(v) > 4
	}
	var word [24]byte
	for i, c := range v {
		if !isAlpha(c) && c < 0x80 {
			return false
		}
		word[i] = lower(c)
	}
	switch string(word[:len(v)]) {
	case "png", "jpg", "jpeg", "gif", "svg", "webp", "js", "ts", "tsx", "jsx", "css", "py", "go", "json", "yaml", "yml",
		"txt", "html", "service", "socket", "timer", "target", "mount", "slice", "scope", "lock", "exe", "dll", "zip",
		"route", "setter", "getter", "property":
		return false
	}
	return true
}

// exampleDomain: names that are kept free for documentation (RFC 2606, RFC 6761).
func exampleDomain(v []byte) bool {
	for _, name := range []string{"example.com", "example.org", "example.net", "example.edu", ".example", ".test",
		".invalid",
		".localhost", "localhost.localdomain"} {
		n := len(v) - len(name)
		if n >= 0 && hasPrefix(v, n, name) && (n == 0 || name[0] == '.' || v[n-1] == '.') {
			return true
		}
	}
	return false
}

// url reports the address of a page that a sentence calls somebody's own; others are no personal data.
func (s *scan) url(h scanner.Hit) {
	end := h.End
	for end < len(s.t) && end-h.Start < 256 && s.t[end] > ' ' && s.t[end] != '"' && s.t[end] != '<' &&
		s.t[end] != '>' &&
		s.t[end] != '\'' && s.t[end] != ')' && s.t[end] != '`' && s.t[end] != ',' {
		end++
	}
	host := h.End
	dot := false
	for host < end && s.t[host] != '/' && s.t[host] != ':' && s.t[host] != '?' {
		dot = dot || s.t[host] == '.' && host > h.End && isWord(at(s.t, host+1))
		host++
	}
	if !dot || !s.bare && !s.ownPage(h.Start) && !quotedAlone(s.t, h.Start, end) && !s.homePage(h, host, end) {
		return
	}
	for end > h.End && (s.t[end-1] == '.' || s.t[end-1] == ';') {
		end--
	}
	s.add("URL", h.Start, end, 0.5)
}

// homePage: the front page of a site, named in a sentence; pages of documentation and specifications are nobody's.
func (s *scan) homePage(h scanner.Hit, host, end int) bool {
	if at(s.t, host) == '/' {
		host++
	}
	if host != end || at(s.t, h.Start-1) != ' ' || !isLower(at(s.t, h.Start-2)) || !isSpace(at(s.t, end)) {
		return false
	}
	for _, w := range [...]string{"see ", "docs", "refer to ", "visit ", "from "} {
		if hasPrefix(s.t, h.Start-len(w), w) || hasPrefix(s.t, h.End, w) {
			return false
		}
	}
	return true
}

func quotedAlone(t []byte, start, end int) bool { return start <= 1 && end >= len(t)-1 }

var pageWords = []string{"website", "homepage", "my site", "web page", "webpage", "blog", "posted a photo", "profile",
	"portfolio"}

// ownPage tells whether the words just before i call what follows a person's page.
func (s *scan) ownPage(i int) bool {
	from := max(0, i-24)
	for k := from; k < i; k++ {
		if s.t[k] == '.' && at(s.t, k+1) == ' ' || s.t[k] == '"' || s.t[k] == '=' || s.t[k] == '(' {
			from = k
		}
	}
	for ; from < i; from++ {
		for _, w := range pageWords {
			if hasPrefix(s.t, from, w) {
				return true
			}
		}
	}
	return false
}

var titles = []string{"Mr. ", "Mrs. ", "Ms. ", "Dr. ", "Prof. ", "Herr ", "Frau ", "Mme ", "Sr. ", "Sra. ",
	"name is ", "Miss "}

// person reads the capitalised words behind a title, or behind "name is".
func (s *scan) person(h scanner.Hit) {
	if h.Start < s.wordsUpTo || isWord(at(s.t, h.Start-1)) {
		return
	}
	end := h.End
	for words := 0; words < 4; words++ {
		i := end
		if words > 0 {
			if at(s.t, i) != ' ' {
				break
			}
			i++
		}
		word := i
		for i < len(s.t) && i-word < 24 && (isAlpha(s.t[i]) || s.t[i] >= 0x80 || s.t[i] == '\'' || s.t[i] == '-') {
			i++
		}
		if i-word == 1 && at(s.t, i) == '.' && isUpper(s.t[word]) {
			i++
		} else if i-word < 2 {
			break
		}
		if !isUpper(s.t[word]) && s.t[word] < 0xc3 {
			break
		}
		end = i
	}
	if end > h.End {
		s.wordsUpTo = end
		s.addAs("PERSON", h.End, end, 0.5, low, scanner.Redact)
	}
}
