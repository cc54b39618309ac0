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
		`(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[\w-]{35}|[sr]k_live_\w{16,}|npm_\w{36})`),
}

// assigned is a name and its value. Behind a colon and a blank may stand what is said of the name, as in "api_key:
// needs a value": our own messages begin with one of these words. What is quoted ends with the quote, or never.
var (
	assigned = regexp.MustCompile(`(?i)(?:password|passwd|passphrase|secret|api[_-]?key|private[_-]?key|access[_-]?key)` +
		`\\*["']?\s*(=\s*|:\s*)` +
		`(\\+["'](?s:.*?)(?:\\+["']|$)|"(?:[^"\\]|\\.)*(?:"|$)|'(?:[^'\\]|\\.)*(?:'|$)|[^\s"',;&})\]]+)`)
	prose = regexp.MustCompile(`^:\s+$`)
	word  = regexp.MustCompile(`^(?:needs|wants|cannot|is|looks|must|has|takes|the|unknown|no|not)$`)
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
		text = maskGroup(re, text, nil)
	}
	return maskGroup(assigned, text, func(between, value string) bool {
		return prose.MatchString(between) && word.MatchString(value)
	})
}

// maskGroup masks the last group of each match, unless it is spared, by what is before it and by itself.
func maskGroup(re *regexp.Regexp, text string, spared func(before, value string) bool) string {
	all := re.FindAllStringSubmatchIndex(text, -1)
	if all == nil {
		return text
	}
	var b strings.Builder
	at := 0
	for _, m := range all {
		from, to := m[len(m)-2], m[len(m)-1]
		if spared != nil && spared(text[m[2]:m[3]], text[from:to]) {
			continue
		}
		if inner := strings.Trim(text[from:to], `\"'`); inner != "" { // the quotes stay
			from += strings.Index(text[from:to], inner)
			to = from + len(inner)
		}
		b.WriteString(text[at:from] + masked)
		at = to
	}
	b.WriteString(text[at:])
	return b.String()
}
