package main

import "github.com/yett-dev/yett/sdk/scanner"

// Credentials on their way: in URLs, request headers and command lines.

var connectionSchemes = []string{
	"postgres", "postgresql", "mysql", "mariadb", "mongodb", "mongodb+srv", "redis", "rediss", "amqp", "amqps", "mssql",
	"sqlserver", "oracle", "nats", "mqtt", "mqtts", "clickhouse", "cockroachdb", "ldap", "ldaps", "smtp", "smtps", "kafka",
}

var userinfoStop = func() (s byteSet) {
	for _, c := range " \t\r\n\"'`<>/?#\\|()[],;" {
		s[c] = true
	}
	return s
}()

// url takes the password of scheme://user:password@host.
func (s *scan) url(h scanner.Hit) {
	t := s.t[:min(len(s.t), h.End+512)]
	end := h.End
	at, colon := 0, 0
	for end < len(t) && !userinfoStop[t[end]] {
		if t[end] == '@' {
			at = end
		}
		if t[end] == ':' && colon == 0 && at == 0 {
			colon = end
		}
		end++
	}
	if at == 0 || colon == 0 || at <= colon+1 || at+1 == end {
		return
	}
	start := h.Start
	for start > 0 && h.Start-start < 20 && (isWord(s.t[start-1]) || s.t[start-1] == '+' || s.t[start-1] == '.' ||
		s.t[start-1] == '-') {
		start--
	}
	pass := t[colon+1 : at]
	if start == h.Start || len(pass) < 3 || filler(pass) && len(pass) < 40 || !passwordLike(pass) {
		return
	}
	if contains(t[at:end], "contribsys.com") {
		colon = h.End - 1 // the whole pair is the licence
	}
	for _, c := range connectionSchemes {
		if foldEqual(s.t[start:h.Start], c) {
			s.add("CONNECTION_STRING", colon+1, at, rankSpecial, 0.9)
			return
		}
	}
	s.add("URL_CREDENTIALS", colon+1, at, rankSpecial, 0.85)
}

// stock are values that documents use for a password.
var stock = []string{
	"password", "passwd", "pass", "pwd", "pw", "secret", "token", "test", "user", "username", "admin", "root", "guest",
	"foo", "bar", "hunter2", "mypassword", "my-password", "my_password", "somepassword", "p4ssw0rd", "api_key", "apikey",
	"key", "changeit", "x-oauth-basic", "auth_token", "access_token", "string", "none", "null",
	"anonymous", "anoncvs",
}

// passwordLike tells whether v can be a password rather than a variable or a word that stands for one.
func passwordLike(v []byte) bool {
	word := v
	if n := len(v) - 1; n > 0 && isDigit(v[n]) && !isDigit(v[n-1]) {
		word = v[:n] // pass1
	}
	for _, w := range stock {
		if foldEqual(v, w) || foldEqual(word, w) {
			return false
		}
	}
	if v[0] == '$' || v[0] == '%' || v[0] == '{' || v[0] == '<' || v[0] == '[' || v[0] == '*' || contains(v, "{") ||
		contains(v, "$") && contains(v, "_") {
		return false
	}
	allUpper := len(v) > 0
	number := true
	for _, c := range v {
		allUpper = allUpper && (isUpper(c) || c == '_')
		number = number && isDigit(c)
	}
	return !allUpper && !(number && len(v) < 6)
}

// urlStart goes back to the scheme of the URL that ends in a webhook's path.
func urlStart(t []byte, i int) int {
	for n := 0; i > 0 && n < 80 && (isWord(t[i-1]) || t[i-1] == '.' || t[i-1] == '-' || t[i-1] == '/' ||
		t[i-1] == ':'); n++ {
		i--
	}
	return i
}

func isURLKind(kind string) bool { return len(kind) > 8 && kind[len(kind)-8:] == "_WEBHOOK" }

// bearer takes the token behind the word.
func (s *scan) bearer(h scanner.Hit) {
	if h.Start > 0 && isWord(s.t[h.Start-1]) {
		return
	}
	s.headerValue("BEARER_TOKEN", h.End, 0.8)
}

var headerBytes = setOf("w+/=_.~-")

// headerValue takes a token at i when it looks generated.
func (s *scan) headerValue(kind string, i int, confidence float32) {
	t := s.around(i)
	end := tokenEnd(t, 0, headerBytes)
	v := t[:end]
	if documented[fnv(v)] {
		s.example(i, i+end)
		return
	}
	if end < 10 || filler(v) || end < len(t) && (t[end] == '(' || t[end] == '[') {
		return
	}
	p := profileOf(v)
	if isUUID(v) || entropy(v) >= 300 && (random(v, &p) || p.digit >= 3 && p.letters() >= 3 && p.turns >= 3) {
		s.whole(kind, end)
		s.add(kind, i, i+end, rankHeader, confidence)
	}
}

// basic takes the pair behind the word: base64 of name, colon, password.
func (s *scan) basic(h scanner.Hit) {
	if h.Start > 0 && isWord(s.t[h.Start-1]) {
		return
	}
	t := s.around(h.End)
	end := tokenEnd(t, 0, setOf("s"))
	if documented[fnv(t[:end])] {
		s.example(h.End, h.End+end)
	} else if pair, ok := decodePair(t[:end]); ok && passwordLike(pair) && !filler(t[:end]) {
		s.add("BASIC_AUTH", h.End, h.End+end, rankSpecial, 0.9)
	}
}

// decodePair decodes user:password and gives the password.
func decodePair(v []byte) (password []byte, ok bool) {
	for len(v) > 0 && v[len(v)-1] == '=' {
		v = v[:len(v)-1]
	}
	if len(v) < 8 || len(v) > 1024 {
		return nil, false
	}
	plain, ok := decodeBase64(v)
	if !ok {
		return nil, false
	}
	colon := -1
	for i, c := range plain {
		if c < 0x20 || c == 0x7f {
			return nil, false
		}
		if c == ':' && colon < 0 {
			colon = i
		}
	}
	if colon < 0 || colon+2 >= len(plain) {
		return nil, false
	}
	return plain[colon+1:], true
}

// header takes the value of an authorisation header, behind its scheme if it has one.
func (s *scan) header(h scanner.Hit) {
	t := s.t[:min(len(s.t), h.End+64)]
	i := skipBlank(t, h.End)
	j := i
	for j < len(t) && (isAlpha(t[j]) || t[j] == '-') {
		j++
	}
	if j < len(t) && t[j] == ' ' && j > i {
		if foldEqual(t[i:j], "basic") || foldEqual(t[i:j], "bearer") {
			return // these have rules of their own
		}
		i = j + 1
	}
	s.headerValue("AUTHORIZATION_HEADER", i, 0.8)
}

// curl takes the password of -u user:password and the values of -H headers that carry one, up to the end of the
// command.
func (s *scan) curl(h scanner.Hit) {
	t := s.t[:min(len(s.t), h.End+2048)]
	if h.Start < s.done.curl {
		return
	}
	for i := h.End; i < len(t); i++ {
		s.done.curl = i
		c := t[i]
		if c == '\n' && t[i-1] != '\\' && !(t[i-1] == '\r' && t[i-2] == '\\') {
			return
		}
		if c != '-' || !isSpace(t[i-1]) {
			continue
		}
		if j, ok := option(t, i, "-u", "--user"); ok {
			s.curlUser(t, j)
		} else if j, ok := option(t, i, "-H", "--header"); ok {
			s.curlHeader(t, j)
		}
	}
}

// curlHeader takes the value of a header whose name speaks of a secret: short ones too, for here it is one.
func (s *scan) curlHeader(t []byte, i int) {
	for i < len(t) && (t[i] == '"' || t[i] == '\'' || t[i] == '\\') {
		i++
	}
	start := i
	for i < len(t) && nameByte(t[i]) {
		i++
	}
	if i == len(t) || t[i] != ':' || !lastWordIn(t[start:i],
		[]string{"token", "key", "authorization", "secret", "auth", "password", "apikey"}) {
		return
	}
	i = skipBlank(t, i+1)
	end := tokenEnd(t, i, headerBytes)
	v := t[i:end]
	p := profileOf(v)
	if len(v) >= 8 && p.digit >= 2 && p.letters() >= 2 && entropy(v) >= 280 && !filler(v) {
		s.add("AUTHORIZATION_HEADER", i, end, rankHeader, 0.7)
	}
}

func option(t []byte, i int, short, long string) (int, bool) {
	for _, o := range [...]string{long, short} {
		if len(t)-i > len(o) && string(t[i:i+len(o)]) == o {
			j := i + len(o)
			if t[j] == ' ' || t[j] == '=' {
				return skipBlank(t, j+1), true
			}
			if o == short && (t[j] == '"' || t[j] == '\'' || isWord(t[j])) {
				return j, true
			}
		}
	}
	return 0, false
}

func (s *scan) curlUser(t []byte, i int) {
	var quote byte
	start := i
	if i < len(t) && (t[i] == '"' || t[i] == '\'') {
		quote = t[i]
		i++
	}
	colon, j := 0, i
	for ; j < len(t) && t[j] != '\n'; j++ {
		if quote != 0 && t[j] == quote || quote == 0 && isSpace(t[j]) ||
			quote == 0 && (t[j] == '"' || t[j] == ')' || t[j] == '`') {
			break
		}
		if t[j] == ':' && colon == 0 {
			colon = j
			if quote == 0 && j+1 < len(t) && (t[j+1] == '\'' || t[j+1] == '"') {
				quote = t[j+1]
				colon, j = j+1, j+1
			}
		}
	}
	if colon == 0 || j-colon-1 < 3 {
		return
	}
	v := t[colon+1 : j]
	if quote != 0 && j < len(t) {
		j++ // the quotes belong to the pair
	}
	if passwordLike(v) && !filler(v) {
		s.add("CURL_USER", start, j, rankSpecial, 0.85)
	}
}

// decodeBase64 decodes the standard alphabet without padding. (encoding/base64 would bring reflection into the module.)
func decodeBase64(v []byte) (plain []byte, ok bool) {
	if len(v)%4 == 1 {
		return nil, false
	}
	acc, bits := uint32(0), 0
	for _, c := range v {
		var six byte
		switch {
		case isUpper(c):
			six = c - 'A'
		case isLower(c):
			six = c - 'a' + 26
		case isDigit(c):
			six = c - '0' + 52
		case c == '+':
			six = 62
		case c == '/':
			six = 63
		default:
			return nil, false
		}
		acc = acc<<6 | uint32(six)
		if bits += 6; bits >= 8 {
			bits -= 8
			plain = append(plain, byte(acc>>bits))
		}
	}
	return plain, true
}
