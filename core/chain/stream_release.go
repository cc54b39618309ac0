package chain

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/exact"
)

// redactAndRelease releases what no step and no byte to come can change, with the findings that begin in it.
func (s *Stream) redactAndRelease(final bool, res *StreamResult) {
	s.pending = ordered(s.pending)
	judged := s.c.judge(&s.in, s.buf, s.base, slices.Clone(s.pending))
	for i := range judged {
		if judged[i].Action == sdk.Drop {
			outcome(&res.ScanResult, judged)
			return
		}
	}
	to := s.settled(final)
	whole := false // the text has turned out to be JSON, and is at its end
	if after := s.json.clone(); !after.broken() && (final || to > s.known) {
		after.read(s.buf[s.known-s.base:])
		switch {
		case after.broken(), final && !after.whole():
			s.json.at = jsonBroken
		case final:
			whole = true
		default:
			to = s.agreed(judged, to)
		}
	}
	given := judged
	if !final {
		to = s.apart(judged, to)
		given = within(slices.Clone(judged), s.known, to, false)
	}
	outcome(&res.ScanResult, given)
	res.Findings = given
	if whole {
		var err error
		if res.Text, err = s.restOfJSON(given); err != nil {
			res.deny(sdk.ReasonScanUnavailable, "the text could not be redacted: "+err.Error())
			return
		}
	} else {
		res.Text = s.cut(given, to)
	}
	if res.Text == s.buf[s.known-s.base:to-s.base] {
		res.unchanged()
	}
	if !s.json.broken() {
		s.json.read(s.buf[s.known-s.base : to-s.base])
		s.output.read(res.Text)
		if whole && !s.output.whole() {
			res.deny(sdk.ReasonScanUnavailable, "the text could not be redacted: its JSON would break")
			return
		}
	}
	s.pending = s.pending[len(given):] // without their actions, which would change their order
	s.known = to
}

// apart moves an offset back to the beginning of every redaction that reaches it and whose template depends on what
// touches it, which is not known yet.
func (s *Stream) apart(judged []sdk.Finding, to int) int {
	for i := len(judged) - 1; i >= 0; i-- {
		f := &judged[i]
		if f.Start >= to || s.grown(f.End) < to || !changes(f) {
			continue
		}
		if _, template := s.c.action(&s.in, f); !dependent(template) {
			continue
		}
		for to = f.Start; to > s.known && !utf8.RuneStart(s.buf[to-s.base]); {
			to--
		}
		i = len(judged) // one that begins before it may reach the new end
	}
	return max(to, s.known)
}

// settled is the offset up to which every enforcing step has settled the text, moved back to the beginning of a
// character: redactions grow to whole ones.
func (s *Stream) settled(final bool) int {
	end := s.Taken()
	if final {
		return end
	}
	to := s.settledBy(s.enforces)
	for to > s.known && to < end && !utf8.RuneStart(s.buf[to-s.base]) {
		to--
	}
	return max(to, s.known)
}

// outcome is what applyFindings of a ScanChain makes of findings, the text apart.
func outcome(res *ScanResult, found []sdk.Finding) {
	top, first := topOf(found)
	if first == nil || top == sdk.Allow {
		return
	}
	res.Code, res.Reason = reasonOf(first)
	switch top {
	case sdk.Drop:
		res.deny(res.Code, res.Reason)
	case sdk.Flag:
		res.Outcome = Warned
	default:
		res.Outcome = Redacted
	}
}

// grown is where a redaction that ends at end ends once it is grown to whole characters, as far as the text is known.
func (s *Stream) grown(end int) int {
	for end >= s.base && end < s.Taken() && !utf8.RuneStart(s.buf[end-s.base]) {
		end++
	}
	return end
}

// cut gives the text from known to the offset to, with every redaction that begins in it. One that ends behind it, or
// at its end, goes on in the next piece.
func (s *Stream) cut(found []sdk.Finding, to int) string {
	var b strings.Builder
	at := s.known
	if s.skip > 0 {
		at = min(max(at, s.grown(s.skip)), to)
	}
	for _, f := range found {
		if !changes(&f) {
			continue
		}
		start := f.Start
		for start > at && !utf8.RuneStart(s.buf[start-s.base]) {
			start--
		}
		if s.skip == 0 || start > s.grown(s.skip) {
			b.WriteString(s.buf[at-s.base : start-s.base])
			b.WriteString(f.Replacement)
		}
		s.skip = max(s.skip, f.End)
		at = min(s.grown(s.skip), to)
	}
	b.WriteString(s.buf[at-s.base : to-s.base])
	return b.String()
}

// unions are the redactions that findings make of what is held back, with offsets from known on.
func (s *Stream) unions(found []sdk.Finding) (text string, spans []span) {
	text = s.buf[s.known-s.base:]
	moved := append([]sdk.Finding(nil), found...)
	for i := range moved {
		moved[i].Start -= s.known
		moved[i].End -= s.known
	}
	return text, union(text, moved)
}

// agreed moves to back until what is released before it is the same whether the whole text turns out to be JSON or not:
// outside numbers, words and escapes, and before the first redaction that is not well inside one string.
func (s *Stream) agreed(found []sdk.Finding, to int) int {
	text, spans := s.unions(found)
	apart, inside := make([]bool, len(text)+1), make([]bool, len(text)+1)
	j := s.json.clone()
	for i := range len(text) + 1 {
		apart[i], inside[i] = j.apart(), j.inString() && !j.key // what is put into a name has its place behind it
		if i < len(text) {
			j.next(text[i])
		}
	}
	r := to - s.known
	for moved := true; moved; {
		moved = false
		for r > 0 && (!apart[r] || r < len(text) && !utf8.RuneStart(text[r])) {
			r--
		}
		for _, u := range spans {
			if u.start < r && (u.end >= r || !alike(u, apart, inside)) {
				r, moved = u.start, true
				break
			}
		}
	}
	return s.known + r
}

// alike reports whether a redaction looks the same in JSON as in other text.
func alike(u span, apart, inside []bool) bool {
	if !apart[u.start] || !apart[u.end] || string(exact.AppendString(nil, u.with)) != `"`+u.with+`"` {
		return false
	}
	for i := u.start; i <= u.end; i++ {
		if !inside[i] {
			return false
		}
	}
	return true
}

// restOfJSON redacts the rest of what is JSON as a whole. No token but a string is cut at known.
func (s *Stream) restOfJSON(found []sdk.Finding) (string, error) {
	text, spans := s.unions(found)
	if !s.json.inString() {
		cut, err := jsonSpans(text, spans, s.known)
		return splice(text, cut), err
	}
	for i := range spans {
		spans[i].start++
		spans[i].end++
	}
	text = `"` + text
	cut, err := jsonSpans(text, spans, s.known-1)
	return splice(text, cut)[1:], err
}
