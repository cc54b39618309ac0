package main

import "github.com/yett-dev/yett/sdk/scanner"

// maxSpan bounds every finding and what is looked at around a hit, so that a stream cut anywhere finds the same; bytes.
const maxSpan = 16 << 10

// specialRule is a credential that needs code: where it may begin, and what finds it there.
type specialRule struct {
	kinds    []string // without SECRET_
	severity scanner.Severity
	triggers []scanner.Trigger
	find     func(*scan, scanner.Hit)
}

func literal(s string) scanner.Trigger { return scanner.Trigger{Literal: s} }
func folded(s string) scanner.Trigger  { return scanner.Trigger{Literal: s, Fold: true} }

var specials = []specialRule{
	{[]string{"PRIVATE_KEY"}, crit, []scanner.Trigger{literal("-----BEGIN ")}, (*scan).pem},
	{[]string{"PRIVATE_KEY"}, crit, []scanner.Trigger{literal("Private-Lines: ")}, (*scan).putty},
	{[]string{"URL_CREDENTIALS", "CONNECTION_STRING"}, crit, []scanner.Trigger{literal("://")}, (*scan).url},
	{[]string{"URL_CREDENTIALS", "CONNECTION_STRING"}, crit, []scanner.Trigger{folded("%3a%2f%2f")}, (*scan).escapedURL},
	{[]string{"CURL_USER"}, high, []scanner.Trigger{literal("curl")}, (*scan).curl},
	{[]string{"PASSWORD"}, high, commands(), (*scan).command},
	{[]string{"PASSWORD"}, high, []scanner.Trigger{folded("passw")}, (*scan).netrc},
	{[]string{"BEARER_TOKEN"}, high, []scanner.Trigger{folded("bearer ")}, (*scan).bearer},
	{[]string{"BASIC_AUTH"}, high, []scanner.Trigger{literal("Basic "), literal("basic ")}, (*scan).basic},
	{[]string{"AUTHORIZATION_HEADER"}, high, []scanner.Trigger{folded("authorization:"), folded("x-api-key:"), folded("x-auth-token:")}, (*scan).header},
	{[]string{"SESSION_COOKIE"}, high, []scanner.Trigger{folded("cookie:")}, (*scan).cookie},
	{[]string{"JWT"}, high, []scanner.Trigger{literal("eyJ")}, (*scan).jwt},
	{[]string{"JWT_BASE64"}, high, []scanner.Trigger{literal("ZXlK")}, (*scan).jwtBase64},
	{[]string{"SENTRY_TOKEN"}, crit, []scanner.Trigger{literal("sntrys_eyJ")}, (*scan).sentryOrg},
	{[]string{"KUBERNETES_SECRET"}, high, []scanner.Trigger{folded("kind: secret"), folded("kind: 'secret"), folded("kind: \"secret"), folded("kind\": \"secret"), folded("kind\":\"secret")}, (*scan).kubernetes},
	{[]string{"JWK"}, crit, []scanner.Trigger{literal("kty")}, (*scan).jwk},
	{[]string{"DISCORD_BOT_TOKEN"}, crit, snowflakes(), (*scan).discordBot},
	{[]string{"ETHEREUM_PRIVATE_KEY"}, crit, []scanner.Trigger{folded("wallet"), folded("private key"), folded("privkey")}, (*scan).ethereum},
	{[]string{"FACEBOOK_APP_TOKEN"}, high, []scanner.Trigger{folded("facebook ")}, (*scan).facebookApp},
}

// around is the text within maxSpan bytes behind i.
func (s *scan) around(i int) []byte { return s.t[i:min(len(s.t), i+maxSpan)] }

// putty takes the private lines of a PuTTY key.
func (s *scan) putty(h scanner.Hit) {
	t := s.around(h.End)
	i := 0
	for i < len(t) && isDigit(t[i]) {
		i++
	}
	start := i
	for i < len(t) && (isSpace(t[i]) || isWord(t[i]) || t[i] == '+' || t[i] == '/' || t[i] == '=') {
		i++
	}
	for j := start; j < i; j++ { // what follows is "Private-MAC:": stop at the line before
		if t[j] == '\n' && i-j > 8 && string(t[j+1:j+8]) == "Private" {
			i = j
		}
	}
	for start < i && isSpace(t[start]) {
		start++
	}
	if i-start >= 40 {
		s.whole("PRIVATE_KEY", i)
		s.add("PRIVATE_KEY", h.End+start, h.End+i, rankSpecial, 1)
	}
}

var base64url = setOf("b=+/")

func tokenEnd(t []byte, i int, set *byteSet) int {
	for i < len(t) && set[t[i]] {
		i++
	}
	return i
}

var segment = setOf("b")

// jwt takes a signed or encrypted token: at least a header and a body that are JSON objects in base64.
func (s *scan) jwt(h scanner.Hit) {
	if h.Start < s.done.jwt || !startsClean(s.t, h.Start) {
		return
	}
	t := s.around(h.Start)
	i := tokenEnd(t, 0, segment)
	s.done.jwt = h.Start + i
	if i < 14 || i+4 >= len(t) || t[i] != '.' {
		return
	}
	if header, ok := decodeURL64(t[:i]); !ok || !contains(header, `"alg"`) {
		return
	}
	encrypted := string(t[i+1:i+3]) != "ey"
	parts := 1
	for i < len(t) && t[i] == '.' && parts < 5 {
		j := tokenEnd(t, i+1, segment)
		if j == i+1 && !(encrypted && parts == 1) && parts < 2 {
			return
		}
		i = j
		parts++
	}
	if encrypted && parts != 5 || i < 40 || i < len(t) && t[i] == '.' || contains(t[:i], "..") && !encrypted {
		return // what has more parts, or dots in a row, is cut or something else
	}
	i = tokenEnd(t, i, setOf("w=_/+-"))
	if documented[fnv(t[:i])] {
		s.example(h.Start, h.Start+i)
	} else if !filler(t[:i]) || i > 80 {
		s.whole("JWT", i)
		s.add("JWT", h.Start, h.Start+i, rankSpecial, 0.95)
	}
}

// jwtBase64 takes a token that was encoded a second time.
func (s *scan) jwtBase64(h scanner.Hit) {
	if h.Start < s.done.jwtBase64 || !startsClean(s.t, h.Start) {
		return
	}
	t := s.around(h.Start)
	i := tokenEnd(t, 0, base64url)
	s.done.jwtBase64 = h.Start + i
	if i < 60 {
		return
	}
	for _, dot := range [...]string{"LmV5S", "5leU", "uZXlK"} { // ".eyJ" at the three places a byte can have in base64
		if contains(t[:i], dot) {
			s.whole("JWT_BASE64", i)
			s.add("JWT_BASE64", h.Start, h.Start+i, rankSpecial, 0.9)
			return
		}
	}
}

// sentryOrg takes an organisation token: JSON in base64 that names a url, then 43 bytes behind an underscore.
func (s *scan) sentryOrg(h scanner.Hit) {
	t := s.around(h.Start)
	i := tokenEnd(t, len("sntrys_"), setOf("s"))
	j := tokenEnd(t, min(i+1, len(t)), setOf("s"))
	if startsClean(s.t, h.Start) && i < len(t) && t[i] == '_' && i > 60 && j-i-1 == 43 {
		s.add("SENTRY_TOKEN", h.Start, h.Start+j, rankSpecial, 0.95)
	}
}

// facebookApp takes an application's id and secret joined by a bar.
func (s *scan) facebookApp(h scanner.Hit) {
	t := s.around(h.End)
	i := tokenEnd(t, 0, setOf("d"))
	if i < 15 || i > 16 || i == len(t) || t[i] != '|' {
		return
	}
	if j := tokenEnd(t, i+1, segment); j-i-1 == 27 {
		s.add("FACEBOOK_APP_TOKEN", h.End, h.End+j, rankSpecial, 0.9)
	}
}

// snowflakes are the ways in which the base64 of a decimal number begins, and with it a bot's token for Discord. Those
// of capital letters alone need a fourth letter, for they stand in words.
func snowflakes() (list []scanner.Trigger) {
	for _, head := range [...]string{"MT", "Mj", "Mz", "ND", "NT", "Nj", "Nz", "OD", "OT"} {
		for _, c := range "AEIMQUYcgk" {
			start := head + string(c)
			if isLower(head[1]) || isLower(byte(c)) {
				list = append(list, literal(start))
				continue
			}
			for _, d := range "wxyz012345" {
				list = append(list, literal(start+string(d)))
			}
		}
	}
	return list
}

// discordBot takes the token of a bot: the base64 of its decimal id, a time, a signature, with dots between.
func (s *scan) discordBot(h scanner.Hit) {
	if !startsClean(s.t, h.Start) {
		return
	}
	t := s.t[h.Start:min(len(s.t), h.Start+120)]
	id := tokenEnd(t, 0, segment)
	if id < 24 || id > 26 || id == len(t) || t[id] != '.' {
		return
	}
	time := tokenEnd(t, id+1, segment)
	if time-id-1 != 6 || time == len(t) || t[time] != '.' {
		return
	}
	end := tokenEnd(t, time+1, segment)
	if n := end - time - 1; n < 27 || n > 38 || !endsClean(s.t, h.Start+end) || filler(t[time:end]) {
		return
	}
	s.add("DISCORD_BOT_TOKEN", h.Start, h.Start+end, rankSpecial, 0.95)
}

// ethereum takes a number of 32 bytes beside a word for what it opens. Hashes of transactions look the same, so their
// words in front of it count more.
func (s *scan) ethereum(h scanner.Hit) {
	const reach = 160
	for i := max(h.Start-reach, s.done.ethereum); i+66 <= len(s.t) && i < h.End+reach; i++ {
		s.done.ethereum = i + 1
		if s.t[i] != '0' || s.t[i+1] != 'x' || !startsClean(s.t, i) || !endsClean(s.t, i+66) {
			continue
		}
		v := s.t[i+2 : i+66]
		if filled(v, hexBytes) && entropy(v) >= 300 && !filler(v) && !hashWords.in(s.t[max(0, i-40):i]) {
			s.add("ETHEREUM_PRIVATE_KEY", i, i+66, rankSpecial, 0.8)
		}
	}
}

var hashWords = newWordSet("hash", "tx", "transaction", "block", "topic", "root", "signature", "digest", "sha")
