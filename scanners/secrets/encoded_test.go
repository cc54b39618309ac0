package main

import (
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"strings"
	"testing"
)

// Every mark that is looked for in another writing is found there, whole: in base64 at each place in a group, with and
// without padding, in both alphabets, and in hexadecimal of either case.
func TestEncodedTokens(t *testing.T) {
	r := runner(t, "")
	tried := 0
	for _, rule := range tokenRules {
		for _, src := range rule.patterns {
			p := compile(src)
			known := false
			for _, mark := range encodable {
				known = known || p.lit == mark
			}
			if !known {
				continue
			}
			tried++
			misses := 0
			for seed := range int64(30) {
				token := strings.TrimRight(sampleOf(src, seed), "-_.=")
				for _, before := range []string{"", ":", "a:", "abc=", `{"k":"`} {
					text := before + token + "\n"
					for _, code := range []string{
						base64.StdEncoding.EncodeToString([]byte(text)), base64.RawURLEncoding.EncodeToString([]byte(text)),
						hex.EncodeToString([]byte(text)), strings.ToUpper(hex.EncodeToString([]byte(text))),
					} {
						start, end := 4+len(before)*len(code)/len(text)+2, 4+(len(before)+len(token))*len(code)/len(text)-2
						if !hasSpan(scanFor(t, r, "see "+code+" there"), start, end) {
							misses++
						}
					}
				}
			}
			if misses > 60 { // of 600: chance makes a sample too plain now and then
				t.Errorf("%s %s: %d of 600 missed", rule.kind, src, misses)
			}
		}
	}
	if tried < len(encodable) {
		t.Errorf("%d patterns have one of %d marks", tried, len(encodable))
	}
}

func TestEscapedURLs(t *testing.T) {
	r := runner(t, "")
	for _, plain := range []string{"postgres://app:" + sampleOf("<w:12>", 1) + "@db.internal:5432/app",
		"https://bot:" + sampleOf("<w:14>", 2) + "@git.internal/x"} {
		text := "https://x/?target=" + url.QueryEscape(plain)
		pass := plain[strings.LastIndexByte(plain[:strings.IndexByte(plain, '@')], ':')+1 : strings.IndexByte(plain, '@')]
		at := strings.Index(text, pass)
		if found := scanFor(t, r, text); len(found) != 1 || found[0].Start != at || found[0].End != at+len(pass) {
			t.Errorf("%s: %+v", text, found)
		}
	}
	if found := scanFor(t, r, "https://x/?target="+url.QueryEscape("https://user:password@host/")); len(found) > 0 {
		t.Errorf("%+v", found)
	}
}

// A token that is broken over lines or strings is found from its first byte to its last.
func TestJoinedTokens(t *testing.T) {
	r := runner(t, "")
	for _, join := range []string{"\" +\n\t\t\"", "\" + \"", "\" \\\n  \"", "\\\n", "=\r\n", "\n"} {
		for cut := 9; cut < 36; cut += 7 {
			token := sampleOf("gh"+"p_<w:36>", int64(cut))
			broken := token[:cut] + join + token[cut:]
			if found := scanFor(t, r, "x = \""+broken+"\"\n"); !hasSpan(found, 5, 5+len(broken)) {
				t.Errorf("%q: %+v", broken, found)
			}
		}
	}
	for _, text := range []string{"see gh" + "p_abc123\nand other words of prose that follow here", "gh" + "p_\n\n\n"} {
		if found := scanFor(t, r, text); len(found) > 0 {
			t.Errorf("%q: %+v", text, found)
		}
	}
}
