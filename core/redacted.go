package core

import (
	"regexp"
	"strings"

	"github.com/yett-dev/yett/config"
	"github.com/yett-dev/yett/core/ops"
)

// masked stands where something was taken out of the log.
const masked = "[SECRET]"

// credentials are what gives access by its form, wherever it stands. The group of an expression is what is taken out.
var credentials = []*regexp.Regexp{
	regexp.MustCompile(`(?i)\b(?:bearer|basic)\s+([A-Za-z0-9._~+/=-]{8,})`),
	regexp.MustCompile(`\b[a-z][a-z0-9+.-]*://[^\s/:@"']*:([^\s/@"']+)@`),
	regexp.MustCompile(`\b(eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]+)`),
	regexp.MustCompile(`(-----BEGIN [A-Z ]*PRIVATE KEY-----[^"']*)`),
	regexp.MustCompile(`\b(gh[pousr]_\w{36,}|github_pat_\w{22,}|glpat-[\w-]{20,}|xox[abeoprs]-[\w-]{10,}|` +
		`whsec_[\w+/=-]{16,}|(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[\w-]{35}|[sr]k_live_\w{16,}|npm_\w{36})`),
}

// assigned is a name, and what stands between it and its value. Behind a colon and a blank may stand what is said of
// the name, as in "api_key: needs a value": our own messages begin with one of these words.
var (
	assigned = regexp.MustCompile(`(?i)(?:password|passwd|passphrase|secret(?:[_-]?key)?|(?:api|private|access)[_-]?key|` +
		`[\w-]*token)\\*["']?\s*(=|:)\s*`)
	setup = "/setup?" // of the address that the first operator signs up at, with a token
	prose = regexp.MustCompile(`^\s+(?:needs|wants|cannot|is|looks|must|has|takes|the|unknown|no|not)(?:[\s"',;&})\]]|$)`)
)

// Redacted is a text of the server's log (name "") or the value of an attribute of that name, without what looks like a
// key or a secret. It knows forms only, and costs microseconds. Scanners know more, but they log too: a scanner would
// be asked about its own lines.
func Redacted(name, text string) string {
	if text != "" && (config.SecretName(name) || strings.EqualFold(name, "authorization")) {
		return masked
	}
	text = ops.Keyless(text)
	for _, re := range credentials {
		text = maskGroup(re, text)
	}
	return maskAssigned(text)
}

// maskGroup masks the last group of each match.
func maskGroup(re *regexp.Regexp, text string) string {
	var b strings.Builder
	at := 0
	for _, m := range re.FindAllStringSubmatchIndex(text, -1) {
		b.WriteString(text[at:m[len(m)-2]] + masked)
		at = m[len(m)-1]
	}
	b.WriteString(text[at:])
	return b.String()
}

// maskAssigned masks what is given to a name that says that it is secret.
func maskAssigned(text string) string {
	var b strings.Builder
	for {
		m := assigned.FindStringSubmatchIndex(text)
		if m == nil {
			b.WriteString(text)
			return b.String()
		}
		from, to := m[1], m[1]
		if gives(text, m) {
			var begin, end int
			begin, end = valueOf(text[from:])
			from, to = from+begin, from+end
		}
		b.WriteString(text[:from])
		if from < to {
			b.WriteString(masked)
		}
		text = text[to:]
	}
}

// gives reports whether the name that assigned has found is followed by its value, and not by words about it.
func gives(text string, m []int) bool {
	name := strings.ToLower(strings.TrimSpace(text[m[0]:m[2]]))
	switch bare := strings.TrimRight(name, "\\\"'"); {
	case bare == "defer_token" || bare == "approval_token": // of use to their own keys alone, and what is looked for
		return false
	case text[m[2]] == '=':
		return name != "token" || !strings.HasSuffix(text[:m[0]], setup)
	}
	said := name == "token" // as in "unexpected token: x"
	return !said && !prose.MatchString(text[m[3]:])
}

// valueOf is where the value that a text begins with lies: in quotes, which may be escaped themselves; in brackets; or
// up to a blank or a sign that ends it. What has no end goes on to the end of the text.
func valueOf(text string) (from, to int) {
	escapes := len(text) - len(strings.TrimLeft(text, `\`))
	if escapes < len(text) && strings.IndexByte("\"'`", text[escapes]) >= 0 {
		return escapes + 1, endOfQuote(text, escapes)
	}
	if text != "" && (text[0] == '[' || text[0] == '{') {
		if end := strings.LastIndexAny(text, "]}"); end > 0 {
			return 1, end
		}
		return 1, len(text)
	}
	return 0, endOfBare(text)
}

// another is what ends a value behind a comma: a blank, a sign that ends it, or another name and its value.
var another = regexp.MustCompile(`^(?:[\s"'}\])]|$|[\w.-]+\\*["']?\s*[=:])`)

// endOfBare is where a value without quotes ends. A comma may be a part of it.
func endOfBare(text string) int {
	for at := 0; ; {
		end := strings.IndexAny(text[at:], " \t\r\n\"',;&})]")
		if end < 0 {
			return len(text)
		}
		if end += at; strings.IndexByte(",;&", text[end]) < 0 || another.MatchString(text[end+1:]) {
			return end
		}
		at = end + 1
	}
}

// endOfQuote is where what is quoted ends. The opening quote has so many backslashes in front of it, and the closing
// one has them too. A quote of the text itself has more, by how often it was escaped. Two single quotes are one of the
// text.
func endOfQuote(text string, escapes int) int {
	quote, run := text[escapes], 0
	for i := escapes + 1; i < len(text); i++ {
		switch {
		case text[i] == '\\':
			run++
			continue
		case text[i] == quote && run >= escapes && (run-escapes)%(2*(escapes+1)) == 0:
			if quote != '\'' || i+1 == len(text) || text[i+1] != quote {
				return i - escapes
			}
			i++
		}
		run = 0
	}
	return len(text)
}
