package main

import "github.com/yett-dev/yett/sdk/scanner"

// secretWords are what a name that holds a secret says. Lower case, case-folded.
var secretWords = []string{
	"token", "secret", "passw", "passphrase", "passwd", "pwd", "pass", "key", "credential", "creds", "auth", "bearer",
	"seed",
}

// weakWords need to be words of their own in the name (or be glued to a known companion): they are parts of others.
var weakWords = []string{"key", "auth", "pass", "seed", "pwd"}

// companions make a weak word mean a secret when it is glued to them: apikey, dbpass.
var companions = []string{
	"api", "access", "secret", "private", "auth", "master", "sign", "signing", "app", "client", "encryption", "service",
	"account", "license", "n", "db", "user", "admin", "root",
}

// harmless are last words of names that speak about a secret without holding it.
var harmless = []string{
	"id", "ids", "name", "names", "type", "url", "uri", "path", "file", "files", "length", "len", "size", "version",
	"count", "field", "fields", "alg", "algorithm", "prefix", "suffix", "label", "header", "headers", "format", "location",
	"dir", "endpoint", "scope", "scopes", "index", "selector", "expiry", "expires", "ttl", "checksum", "ref", "state",
	"status", "class", "pair", "usage", "policy", "provider", "method",
	"source", "str", "hash", "digest", "fingerprint", "identifier", "meshing", "spec", "regex", "pattern", "param",
	"params", "host", "port", "server", "domain", "email", "user", "username", "uid", "uuid", "timestamp", "at", "date",
	"time", "results", "keyword", "keywords", "mode",
}

// generic judges the value of a name that speaks of a secret.
func (s *scan) generic(h scanner.Hit) {
	if !s.strong(h) || !s.assignmentAt(h) || s.judged {
		return
	}
	s.judged = true
	a := s.last
	name, v := s.t[a.nameStart:a.nameEnd], s.t[a.start:a.end]
	if v[0] == '$' || len(v) > 150 || isPublicName(name) || lastWordIn(name, harmless) {
		return
	}
	switch {
	case secretValue(v, s.set.minEntropy):
		if !filler(v) {
			s.add("GENERIC", a.start, a.end, rankGeneric, 0.6)
		}
	case lastWordIn(name, passwordWords) && passwordValue(v, a.quoted || a.start == a.nameEnd+1 && s.t[a.nameEnd] == '='):
		if !filler(v) {
			s.add("PASSWORD", a.start, a.end, rankGeneric, 0.5)
		}
	}
}

var passwordWords = []string{"password", "passwd", "pass", "pwd", "passphrase", "pw"}

// strong tells whether the word at a hit means a secret.
func (s *scan) strong(h scanner.Hit) bool {
	weak := false
	for _, w := range weakWords {
		weak = weak || len(w) == h.End-h.Start && foldEqual(s.t[h.Start:h.End], w)
	}
	if !weak {
		return true
	}
	t := s.t
	if h.End < len(t) && isLower(t[h.End]) && isLower(t[h.End-1]) ||
		h.End < len(t) && isUpper(t[h.End]) && isUpper(t[h.End-1]) {
		return false // author, keyboard
	}
	if h.Start == 0 || !isAlpha(t[h.Start-1]) || isLower(t[h.Start-1]) && isUpper(t[h.Start]) {
		return true
	}
	for _, c := range companions {
		at := h.Start - len(c)
		if at >= 0 && foldEqual(t[at:h.Start], c) && (at == 0 || !isAlpha(t[at-1]) || isLower(t[at-1]) && isUpper(t[at])) {
			return true
		}
	}
	return false
}

// isPublicName tells whether a name says that its value is meant to be seen.
func isPublicName(name []byte) bool {
	var low [2 * maxName]byte
	n := 0
	for _, c := range name[:min(len(name), len(low))] {
		low[n] = lower(c)
		n++
	}
	for _, w := range [...]string{"public", "pubkey", "primary", "foreign", "encrypted"} {
		if contains(low[:n], w) {
			return true
		}
	}
	return false
}

// lastWordIn tells whether the last word of a name (by case or separator) is in a list.
func lastWordIn(name []byte, list []string) bool {
	end := len(name)
	for end > 0 && !isAlpha(name[end-1]) {
		end--
	}
	start := end
	for start > 0 && isAlpha(name[start-1]) {
		start--
		if start > 0 && isUpper(name[start]) && isLower(name[start-1]) ||
			isUpper(name[start]) && start+1 < end && isLower(name[start+1]) {
			break
		}
	}
	for _, w := range list {
		if foldEqual(name[start:end], w) {
			return true
		}
	}
	return false
}

var (
	secretBytes   = setOf("w+/=_.~!@#$^*-")
	passwordBytes = setOf("w+/=_.~!@#$%^*:-?&,;|")
)

// secretValue tells whether v looks generated.
func secretValue(v []byte, minEntropy int) bool {
	if len(v) < 10 || len(v) > 150 {
		return false
	}
	if isUUID(v) {
		return true
	}
	for _, c := range v {
		if !secretBytes[c] {
			return false
		}
	}
	p := profileOf(v)
	if len(v) >= 12 && tokenEnd(v, 0, setOf("x")) == len(v) {
		minEntropy -= 70 // sixteen different characters cannot give more
	}
	return entropy(v) >= minEntropy && random(v, &p)
}

// words that are a password only in examples.
var samplePasswords = []string{"pass", "pwd", "secret", "token", "user", "admin", "test", "guest", "root", "string",
	"null", "none", "true", "false", "hidden", "login", "field", "required", "invalid"}

// passwordValue tells whether v may be a password that somebody chose: quoted, in one word, with a digit or a sign.
func passwordValue(v []byte, quoted bool) bool {
	if len(v) < 6 || len(v) > 64 || !quoted {
		return false
	}
	for _, c := range v {
		if !passwordBytes[c] && c < 0x80 {
			return false
		}
	}
	var low [64]byte
	for i, c := range v {
		low[i] = lower(c)
	}
	for _, w := range samplePasswords {
		if contains(low[:len(v)], w) {
			return false
		}
	}
	p := profileOf(v)
	if p.letters() == 0 || p.dots > 0 || p.slashes > 0 || v[0] == '$' || v[0] == '%' || v[0] == '#' || v[0] == '@' ||
		v[0] == ':' || v[0] == '-' {
		return false
	}
	return p.digit > 0 && p.letters() > 2 || p.other-p.seps > 0 || p.consonants >= 4
}
