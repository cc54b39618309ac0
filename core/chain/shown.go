package chain

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// leadMost is how many characters of what is masked are shown at most; never more than a quarter of them.
const leadMost = 4

// described says what stands in a masked place: [SECRET_TOKEN: 26 characters (19 letters, 7 digits), begins pay1…].
func described(kind, text string) string {
	text = Decoded(text)
	n := utf8.RuneCountInString(text)
	out := fmt.Sprintf("[%s: %s (%s)", kind, counted(n, "character"), shapeOf(text))
	most := min(leadMost, n/4)
	if chosen(kind) {
		most = min(most, len(markOf(text)))
	}
	if lead := leadOf(text, most); lead != "" {
		out += ", begins " + lead + "…"
	}
	return out + "]"
}

// chosen reports whether the values of a kind are such as people choose: whoever sees how one begins has half guessed
// it.
func chosen(kind string) bool {
	for word := range strings.SplitSeq(kind, "_") {
		if slices.Contains(chosenWords, word) {
			return true
		}
	}
	return slices.Contains(chosenKinds, kind)
}

// chosenWords are what kinds of chosen values are called, any scanner's.
var chosenWords = []string{"PASSWORD", "PASSWD", "PASSPHRASE", "PASSCODE", "PWD", "PIN"}

// chosenKinds are those of our own scanner that hold a password, or may hold one, and do not say so.
var chosenKinds = []string{"SECRET_BASIC_AUTH", "SECRET_CONNECTION_STRING", "SECRET_CURL_USER", "SECRET_GENERIC",
	"SECRET_KUBERNETES_SECRET", "SECRET_URL_CREDENTIALS"}

// marks are what issuers let their tokens begin with. Everybody knows them.
var marks = []string{
	"-----BEGIN", "AIza", "AKIA", "ASIA", "SG.", "dop_v1_", "eyJ", "gho_", "ghp_", "ghr_", "ghs_", "ghu_", "github_pat_",
	"glpat-", "hf_", "npm_", "pypi-", "rk_live_", "sk-", "sk_live_", "sk_test_", "xapp-", "xoxb-", "xoxp-", "ya29.",
	"yett_",
}

// markOf is the issuer's mark that a text begins with, "" for none.
func markOf(text string) string {
	for _, m := range marks {
		if strings.HasPrefix(text, m) {
			return m
		}
	}
	return ""
}

func counted(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// leadOf is how a text begins. Only letters, digits and a few harmless signs are shown as they are.
func leadOf(text string, n int) string {
	var b strings.Builder
	for _, r := range text {
		if n--; n < 0 {
			break
		}
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.+/=@", r) {
			r = '?'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// shapeOf counts the classes of characters of a text.
func shapeOf(text string) string {
	classes := [...]struct {
		name string
		n    int
	}{{name: "letter"}, {name: "digit"}, {name: "space"}, {name: "sign"}}
	for _, r := range text {
		switch {
		case unicode.IsLetter(r):
			classes[0].n++
		case unicode.IsDigit(r):
			classes[1].n++
		case unicode.IsSpace(r):
			classes[2].n++
		default:
			classes[3].n++
		}
	}
	var parts []string
	for _, c := range classes {
		if c.n > 0 {
			parts = append(parts, counted(c.n, c.name))
		}
	}
	return strings.Join(parts, ", ")
}
