package chain

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yett-dev/yett/core/quote"
	"github.com/yett-dev/yett/sdk"
)

// Lengths, in bytes, of what is looked for in the words of a plugin. Shorter values would be found in any text. A name,
// such as a reason code, cannot hold a mark. A name that holds a value of handedName bytes or more is an error.
const (
	handedLeast = 4   // the shortest value
	handedLine  = 8   // the shortest line of a value with several lines: logs split it into lines
	handedLines = 512 // most lines of one value
	handedName  = 8   // the shortest value in a name
	handedStart = 5   // the shortest beginning of a value whose end was cut off
	handedEnds  = 64  // most places in a text at which it may have been cut
)

// Handed is a secret that the operator gives to a plugin: by reference, or under a name such as token.
type Handed struct {
	Key   string // in the configuration
	Value string
}

// Hider hides what one plugin was handed wherever the plugin says it back. nil hides nothing. It is safe for concurrent
// use.
type Hider struct {
	forms []handedForm
	marks []string
	names []Handed
}

// handedForm is one way to write a value.
type handedForm struct{ text, mark string }

// NewHider makes the Hider of one plugin.
func NewHider(all []Handed) *Hider {
	h := &Hider{}
	for _, v := range all {
		if len(v.Value) < handedLeast {
			continue
		}
		mark := "[secret of " + plainKey(v.Key) + "]"
		h.marks = append(h.marks, mark)
		for _, text := range handedForms(v.Value) {
			h.forms = append(h.forms, handedForm{text, mark})
		}
		if len(v.Value) >= handedName {
			h.names = append(h.names, v)
		}
	}
	if len(h.forms) == 0 {
		return nil
	}
	return h
}

// Marks lists the texts that replace values.
func (h *Hider) Marks() []string {
	if h == nil {
		return nil
	}
	return h.marks
}

// plainKey replaces the characters of a key that some text would have to escape.
func plainKey(key string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || strings.ContainsRune("\"\\<>&'`", r) {
			return '_'
		}
		return r
	}, key)
}

// handedForms are the ways to write a value and each of its lines.
func handedForms(value string) (out []string) {
	parts := []string{value}
	if lines := strings.Split(value, "\n"); len(lines) > 1 {
		for _, line := range lines[:min(len(lines), handedLines)] {
			if line = strings.TrimSpace(line); len(line) >= handedLine {
				parts = append(parts, line)
			}
		}
	}
	for _, p := range parts {
		valid := strings.ToValidUTF8(p, "?") // as supervise keeps the end of a plugin's stderr
		out = append(out, p, Heard(p), quote.Line(p), quote.Line(valid), strings.ToValidUTF8(p, "\uFFFD"), unprinted(p, '?'),
			unprinted(p, '\uFFFD'), url.QueryEscape(p), url.PathEscape(p))
		for _, once := range handedQuotes(p) {
			out = append(append(out, once), handedQuotes(once)...) // an error that quotes an error
		}
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(s string) bool { return len(s) < handedLeast })
}

// handedQuotes are the ways to quote a text, without the quotes.
func handedQuotes(s string) []string {
	return []string{inner(strconv.Quote(s)), inner(strconv.QuoteToASCII(s)), inner(jsonQuoted(s)), inner(htmlQuoted(s))}
}

func inner(quoted string) string { return quoted[1 : len(quoted)-1] }

func jsonQuoted(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return strconv.Quote(s) // a string can always be encoded
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func htmlQuoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return strconv.Quote(s) // as above
	}
	return string(b)
}

// unprinted is a text as errors quote it, with a sign in place of what does not print.
func unprinted(s string, sign rune) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return sign
		}
		return r
	}, s)
}

// handedSpan is a place of a text that is to be hidden.
type handedSpan struct {
	from, to int
	mark     string
}

// Hide replaces the values in a text with marks, in every form that quoting gives them. It finds each line of a value
// with several lines, and the beginning of a value whose end was cut off.
func (h *Hider) Hide(text string) string {
	if h == nil || text == "" {
		return text
	}
	spans := h.spans(text)
	if len(spans) == 0 {
		return text
	}
	var b strings.Builder
	at := 0
	for _, s := range spans {
		if s.from >= at {
			b.WriteString(text[at:s.from])
			b.WriteString(s.mark)
		}
		at = max(at, s.to)
	}
	b.WriteString(text[at:])
	return b.String()
}

// Within is Hide, and keeps the text within most bytes: marks are longer than most values.
func (h *Hider) Within(text string, most int) string {
	out := h.Hide(text)
	if len(out) <= max(most, len(text)) {
		return out
	}
	return strings.ToValidUTF8(out[:most-len("…")], "") + "…"
}

// spans are the places of values in a text, by where they begin, the longest first. A place within a mark is left out:
// that text was hidden before.
func (h *Hider) spans(text string) []handedSpan {
	var out, marks []handedSpan
	for _, f := range h.forms {
		out = appendSpans(out, text, f.text, f.mark)
	}
	ends := cutEnds(text)
	for _, f := range h.forms {
		for _, end := range ends {
			if from, cut := cutAt(text[:end], f.text); cut {
				out = append(out, handedSpan{from, end, f.mark})
			}
		}
	}
	if len(out) == 0 {
		return nil
	}
	for _, mark := range h.marks {
		marks = appendSpans(marks, text, mark, "")
	}
	out = slices.DeleteFunc(out, func(s handedSpan) bool {
		return slices.ContainsFunc(marks, func(m handedSpan) bool { return m.from <= s.from && s.to <= m.to })
	})
	slices.SortStableFunc(out, func(a, b handedSpan) int {
		if a.from != b.from {
			return a.from - b.from
		}
		return b.to - a.to
	})
	return out
}

// appendSpans adds every place of a part in a text, those that overlap too.
func appendSpans(out []handedSpan, text, part, mark string) []handedSpan {
	for at := 0; ; at++ {
		i := strings.Index(text[at:], part)
		if i < 0 {
			return out
		}
		at += i
		out = append(out, handedSpan{at, at + len(part), mark})
	}
}

// cutEnds are the places where a text may have been cut: its end, and each "…".
func cutEnds(text string) []int {
	ends := []int{len(text)}
	for at := 0; len(ends) < handedEnds; at += len("…") {
		i := strings.Index(text[at:], "…")
		if i < 0 {
			break
		}
		at += i
		ends = append(ends, at)
	}
	return ends
}

// cutAt finds the beginning of a value at the end of a text.
func cutAt(text, value string) (from int, found bool) {
	if len(value) <= handedStart {
		return 0, false
	}
	for at := max(len(text)-len(value)+1, 0); ; at++ {
		i := strings.Index(text[at:], value[:handedStart])
		if i < 0 {
			return 0, false
		}
		if at += i; strings.HasPrefix(value, text[at:]) {
			return at, true
		}
	}
}

// Error hides the values in the text of an error and in the plugin's words. errors.Is and errors.As see what err wraps.
func (h *Hider) Error(err error) error {
	if h == nil || err == nil {
		return err
	}
	text, words := err.Error(), Words(err)
	shown, said := h.Hide(text), h.Hide(words)
	if shown == text && said == words {
		return err
	}
	return &veiled{err: err, text: shown, words: said}
}

// veiled is an error whose text and words show no secret of the plugin.
type veiled struct {
	err         error
	text, words string
}

func (e *veiled) Error() string { return e.text }
func (e *veiled) Unwrap() error { return e.err }

// Name refuses a name that holds a value.
func (h *Hider) Name(what, name string) error {
	if h == nil {
		return nil
	}
	for _, v := range h.names {
		if strings.Contains(name, v.Value) {
			return fmt.Errorf("%s holds the secret of %s", what, plainKey(v.Key))
		}
	}
	return nil
}

// Verdict hides the values in the texts of a verdict, each of at most that many bytes. If a name holds a value, a
// permit is an error. A deferral or a denial is a denial: on_error cannot make it weaker.
func (h *Hider) Verdict(v sdk.Verdict, most int) (sdk.Verdict, error) {
	if h == nil {
		return v, nil
	}
	err := h.Name("the code", v.Code)
	for _, who := range v.From {
		if err == nil {
			err = h.Name("an approver", who)
		}
	}
	if err != nil && v.Effect >= sdk.Defer {
		return sdk.Verdict{Effect: sdk.Deny, Code: sdk.ReasonStepError,
			Reason: "the step's verdict is invalid: " + err.Error()}, nil
	}
	if err != nil {
		return sdk.Verdict{}, err
	}
	v.Reason, v.Message, v.RuleID = h.Within(v.Reason, most), h.Within(v.Message, most), h.Within(v.RuleID, most)
	return v, nil
}

// Findings hides the values in the replacements of findings, each of at most that many bytes.
func (h *Hider) Findings(all []sdk.Finding, most int) []sdk.Finding {
	if h == nil {
		return all
	}
	for i := range all {
		all[i].Replacement = h.Within(all[i].Replacement, most)
	}
	return all
}
