package main

import "github.com/yett-dev/yett/sdk/scanner"

// secretWords are what a name that holds a secret says. Lower case, case-folded.
var secretWords = []string{
	"token", "secret", "passw", "passphrase", "passwd", "pwd", "pass", "key", "credential", "creds", "auth", "bearer",
	"seed", "psk", "_pw",
}

// weakWords need to be words of their own in the name (or be glued to a known companion): they are parts of others.
var weakWords = []string{"key", "auth", "pass", "seed", "pwd", "psk"}

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
	"time", "results", "keyword", "keywords", "mode", "alias", "code", "frame", "ring", "board", "up", "down",
	"left", "right", "stone", "storetype", "word", "words", "press", "pressed", "signature", "arn", "jar",
	"description", "hint", "message", "error", "title", "text", "help", "prompt", "rule", "rules", "validator",
	"example", "option", "options", "issuer", "audience", "realm", "template", "config", "strength", "limit",
	"limits", "used", "budget", "tokenizer", "model",
}

// generic judges the value of a name that speaks of a secret.
func (s *scan) generic(h scanner.Hit) {
	if !s.strong(h) || !s.assignmentAt(h) || s.judged {
		return
	}
	s.judged = true
	a := s.last
	name, v := trimCall(s.t[a.nameStart:a.nameEnd]), s.t[a.start:a.end]
	if len(v) > 2 && v[0] == '{' && a.quoted {
		s.nested(a)
		return
	}
	if a.loose {
		if outspoken(name) && signed(v) && !template(v) && !balanced(v) && !filler(v) {
			s.add("GENERIC", a.start, a.end, rankGeneric, 0.5)
		}
		return
	}
	if indexByte(string(name), '.') > 0 && reads(name) {
		return // password.encode("latin1")
	}
	if string(name) == "key" && a.start > a.nameEnd && s.t[a.nameEnd] == '>' {
		return // in a property list <key> holds a name
	}
	if !a.quoted && (a.nameStart > 0 && s.t[a.nameStart-1] == ':' || speaksOf(v)) {
		return // a:b:secret:c, or a type
	}
	if v[0] == '$' || len(v) > 150 || isPublicName(name) || lastWordIn(name, harmless) || published(v) {
		return
	}
	switch {
	case documented[fnv(v)]:
		s.example(a.start, a.end)
	case secretValue(v, s.set.minEntropy, outspoken(name)):
		if !filler(v) && !periodic(v) {
			s.add("GENERIC", a.start, a.end, rankGeneric, 0.6)
		}
	case a.quoted && outspoken(name) && signed(v):
		if !template(v) && !filler(v) {
			s.add("GENERIC", a.start, a.end, rankGeneric, 0.5)
		}
	case (lastWordIn(name, passwordWords) || endsIn(name, "password") || endsIn(name, "passwd") || passwords.in(name)) &&
		passwordValue(v, a.quoted, a.start == a.nameEnd+1 && s.t[a.nameEnd] == '='):
		if !filler(v) && !periodic(v) {
			s.add("PASSWORD", a.start, a.end, rankGeneric, 0.5)
		}
	}
}

// speaksOf tells whether v has the name of what it would be, as a type has or a variable: Ed25519PrivateKey.
func speaksOf(v []byte) bool {
	return types.in(v[:min(len(v), 64)])
}

var types = newWordSet("token", "secret", "passw", "privatekey", "publickey", "private_key", "apikey")

// algorithms are parts of the names that libraries give to methods and curves.
var algorithms = newWordSet("sha256", "sha384", "sha512", "sha-256", "25519", "secp256", "secp384", "prime256", "hmac",
	"aes128", "aes256", "aes-", "rsa-", "pkcs")

// algorithm tells whether v names a cryptographic method.
func algorithm(v []byte) bool { return len(v) <= 48 && algorithms.in(v) }

// nested takes a document that stands in a string and has a generated string inside: "token": "{\"sig\": \"…\"}".
func (s *scan) nested(a assignment) {
	for i := a.start; i < a.end; i++ {
		if s.t[i] != '"' && s.t[i] != '\'' {
			continue
		}
		end := tokenEnd(s.t[:a.end], i+1, secretBytes)
		if v := s.t[i+1 : end]; secretValue(v, s.set.minEntropy, true) && !filler(v) && !periodic(v) {
			s.add("GENERIC", a.start, a.end, rankGeneric, 0.6)
			return
		}
		i = max(i, end-1)
	}
}

// trimCall takes the name of a method off that of what it sets: secret.assign("…").
func trimCall(name []byte) []byte {
	for _, call := range [...]string{".assign", ".set", ".equals", ".append"} {
		if n := len(name) - len(call); n > 0 && string(name[n:]) == call {
			return name[:n]
		}
	}
	return name
}

// outspoken tells whether a name means a secret for certain: "key" may be that of a map, "auth" a kind of it.
func outspoken(name []byte) bool {
	return meaning.in(name)
}

var meaning = newWordSet("token", "secret", "passw", "passphrase", "pwd", "bearer", "private", "apikey",
	"api_key", "api-key", "api.key", "accesskey", "access_key", "access-key", "authkey", "auth_key", "seed")

// passwords are parts of names that hold one, whatever word follows: PASSWORD_PROD.
var passwords = newWordSet("password_", "password-", "passwd_", "passwd-", "passphrase_", "passphrase-")

var passwordWords = []string{"password", "passwd", "pass", "pwd", "passphrase", "pw", "psk"}

// endsIn tells whether a name ends in a word, glued to others or not: PGPASSWORD.
func endsIn(name []byte, word string) bool {
	n := len(name) - len(word)
	return n >= 0 && foldEqual(name[n:], word)
}

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
	return public.in(name)
}

var public = newWordSet("public", "pubkey", "primary", "foreign", "encrypted", "bucket", "schema", "sequence",
	"natural", "csrf", "xsrf", "accessor", "accessib", "forgot", "invalid", "incorrect", "missing", "required",
	"placeholder", "jsonwebtoken", "translat", "nexttoken", "next_token", "continuation", "clientrequest",
	"client_request", "pagetoken", "page_token", "changetoken", "managerkey",
	"cachekey", "cache_key", "cache-key", "partition", "sort_key", "sortkey", "idx", "etag", "object_key", "objectkey",
	"routing", "lookup", "dedup", "idempot", "row_key", "rowkey", "group_key", "groupkey", "shard", "sha256", "sha512",
	"sha1", "md5", "checksum", "i18n")

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
	lowerHex      = setOf("x")
	secretBytes   = setOf("w+/=_.~!@#$^*-")
	passwordBytes = withHigh(setOf("w+/=_.~!@#$%^*:-?&,;|"))
	brackets      = withHigh(setOf("w+/=_.~!@#$%^*:-?&,;|(){}[]<>"))
)

// withHigh adds the bytes of other scripts to a set.
func withHigh(set *byteSet) *byteSet {
	for c := 0x80; c < len(set); c++ {
		set[c] = true
	}
	return set
}

// secretValue tells whether v looks generated. sure says that its name means a secret.
func secretValue(v []byte, minEntropy int, sure bool) bool {
	if len(v) < 10 || len(v) > 150 {
		return false
	}
	if isUUID(v) {
		return sure
	}
	signed := len(v) > 40 && string(v[1:4]) == "%3A" // a cookie with its signature, escaped: s%3A….…
	for _, c := range v {
		if !secretBytes[c] && !(c == '%' && signed) {
			return false
		}
	}
	p := profileOf(v)
	if p.digit == 0 {
		return len(v) >= 12 && (sure || len(v) >= 20) && entropy(v) >= minEntropy-70 && generatedWord(v, &p)
	}
	if len(v) >= 12 && filled(v, lowerHex) {
		minEntropy -= 70 // sixteen different characters cannot give more
	}
	return entropy(v) >= minEntropy && random(v, &p) && !worded(v) && !algorithm(v) && (sure || !prefixed(v))
}

// prefixed tells whether v begins with a word and a sign, as the keys of caches and tables do: user#3f….
func prefixed(v []byte) bool {
	i := 0
	for i < len(v) && isAlpha(v[i]) {
		i++
	}
	return i >= 4 && i < len(v) && indexByte("-_#.:/", v[i]) >= 0 && readable(v[:i]) == i
}

// generatedWord tells whether v, which has letters but no digits, was drawn at random.
func generatedWord(v []byte, p *profile) bool {
	return p.letters() >= 10 && p.letters()*8 >= len(v)*7 && gibberish(v) && readable(v)*3 < len(v)
}

// words that are a password only in examples.
var samplePasswords = newWordSet("pass", "pwd", "secret", "token", "user", "admin", "test", "guest", "root", "string",
	"null", "none", "true", "false", "hidden", "login", "field", "required", "invalid", "psw", "cfg", "ctx", "str")

// passwordValue tells whether v may be a password that somebody chose: in one word, with a digit or a sign, or with
// letters as no word has them. Behind a colon or a blank, without quotes, it may be a variable as well.
func passwordValue(v []byte, quoted, equals bool) bool {
	if len(v) < 5 || len(v) > 64 || !filled(v, passwordBytes) && !(quoted && filled(v, brackets)) {
		return false
	}
	p := profileOf(v)
	strict := len(v) >= 10 && p.lower > 0 && p.upper > 0 && p.digit > 0 && p.other > p.seps
	if !strict && samplePasswords.in(v) {
		return false // a sample, unless it keeps the rules that passwords have
	}
	signs := p.other - p.seps
	if p.letters() == 0 || signs < 4 && (p.dots > 0 || p.slashes > 0) || indexByte("$%#@:-<({[", v[0]) >= 0 {
		return false
	}
	switch {
	case !filled(v, passwordBytes):
		return signs >= 3 && p.letters() >= 2 && !worded(v)
	case signs > 0 && p.digit == 0 && worded(v):
		return false // a sentence of one word: Required! Continue?
	case highBytes(v)*2 > len(v):
		return false // a word of another script
	case len(v) < 6 || !quoted && !equals:
		return gibberish(v) || p.digit > 0 && signs > 0 && p.letters() > 2 || len(v) >= 8 && p.turns >= 3 && p.letters() > 2
	}
	long := quoted && len(v) >= 14 && p.lower == len(v) // no word is as long, and names have signs or capitals
	return p.digit > 0 && p.letters() > 2 || signs > 0 || long || gibberish(v)
}

// signed tells whether v has so many different signs among its letters that nobody has written it as code or prose.
func signed(v []byte) bool {
	if len(v) < 8 || len(v) > 64 {
		return false
	}
	var seen byteSet
	signs, letters := 0, 0
	for i, c := range v {
		switch {
		case isSpace(c) || c == '\\' || c == '-' && i+1 < len(v) && indexByte("9fzFZ", v[i+1]) >= 0:
			return false // a sentence, or a regular expression
		case isAlpha(c):
			letters++
		case !isDigit(c) && !seen[c]:
			seen[c] = true
			signs++
		}
	}
	return signs >= 5 && letters >= 4 && !worded(v)
}

// balanced tells whether every bracket in v is closed by its own kind, as in code; one that is still open at the end
// may go on behind it.
func balanced(v []byte) bool {
	var open [maxLoose]byte
	n := 0
	for _, c := range v {
		switch k := indexByte("([{", c); {
		case k >= 0 && n < len(open):
			open[n] = ")]}"[k]
			n++
		case indexByte(")]}", c) >= 0:
			if n == 0 || open[n-1] != c {
				return n == 0 && c != v[0] // closes what was opened in front of the name
			}
			n--
		}
	}
	return true
}

func highBytes(v []byte) (n int) {
	for _, c := range v {
		if c >= 0x80 {
			n++
		}
	}
	return n
}

// filled tells whether all of v is of a set.
func filled(v []byte, set *byteSet) bool { return tokenEnd(v, 0, set) == len(v) }
