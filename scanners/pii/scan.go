package main

import (
	"cmp"
	"slices"

	"github.com/yett-dev/yett/sdk/scanner"
)

// candidate is a possible finding; one that a longer one covers is dropped, and of equal spans the less confident.
type candidate struct {
	kind       string
	start, end int
	confidence float32
	severity   scanner.Severity
	action     scanner.Action
}

// scan is the work on one text.
type scan struct {
	t     []byte
	set   settings
	found []candidate

	// upTo is how far digits have been dealt with: a later hit before it brings nothing new, so that a text which
	// repeats a trigger is not read again for each.
	upTo       int
	cryptoUpTo int
	wordsUpTo  int
	phoneUpTo  int
	cardEnd    int // of a card that shaped has found

	ctx              topic // cache of around
	ctxStart, ctxEnd int

	bare  bool // the text is nothing but a number or a few
	shape shapeOf
}

// work is kept between texts for its buffers; calls of one scanner never overlap.
var work = scan{found: make([]candidate, 0, 256)}

func scanText(in *scanner.In, out *scanner.Out) error {
	hits, err := in.Hits()
	if err != nil {
		return err
	}
	s := &work
	s.t, s.set, s.found = in.Text, config, s.found[:0]
	s.upTo, s.cryptoUpTo, s.wordsUpTo, s.phoneUpTo, s.ctxStart, s.ctxEnd = 0, 0, 0, 0, -1, -1
	s.bare = bareText(in.Text)
	for _, h := range hits {
		triggers[h.Trigger].find(s, h)
	}
	s.emit(out)
	return nil
}

// bareText tells whether a text is a number, or a few, with no words around: what somebody has typed into a field.
func bareText(t []byte) bool {
	if len(t) > 96 {
		return false
	}
	letters, digits := 0, 0
	for i := 0; i <= len(t); i++ {
		c := at(t, i)
		switch {
		case isSpace(c):
			if letters > 4 && digits == 0 {
				return false
			}
			letters, digits = 0, 0
		case isDigit(c):
			digits++
		case c == '{' || c == '[' || c == '"' || c == '<':
			return false
		case isAlpha(c) || c >= 0x80:
			letters++
		}
	}
	return true
}

func (s *scan) add(kind string, start, end int, confidence float32) {
	k := kindIndex[kind]
	s.addAs(kind, start, end, confidence, kinds[k].severity, kinds[k].action)
}

// addExample reports what documentation uses as an example, or what leaks little: low, and left in place.
func (s *scan) addExample(kind string, start, end int, confidence float32) {
	s.addAs(kind, start, end, confidence, min(low, kinds[kindIndex[kind]].severity), scanner.Flag)
}

func (s *scan) addAs(kind string, start, end int, confidence float32, v scanner.Severity, a scanner.Action) {
	s.found = append(s.found, candidate{kindNames[kindIndex[kind]], start, end, confidence, v, a})
}

// emit reports what is left when candidates that overlap better ones are dropped. A disabled kind still covers what it
// overlaps, so that disabling a kind does not bring its values back under another name.
func (s *scan) emit(out *scanner.Out) {
	slices.SortStableFunc(s.found, func(a, b candidate) int {
		return cmp.Or(a.start-b.start, b.end-a.end, cmp.Compare(b.confidence, a.confidence), cmp.Compare(a.kind,
			b.kind))
	})
	kept := s.found[:0]
	for _, c := range s.found {
		covered := false
		for i := len(kept) - 1; i >= 0 && i >= len(kept)-4 && !covered; i-- { // few begin before and end behind
			k := &kept[i]
			covered = k.end >= c.end && (k.action == scanner.Redact || c.action == scanner.Flag)
			if covered && c.action != scanner.Flag && !s.set.disabled[c.kind] { // a card number in an address is a card number
				k.severity = max(k.severity, c.severity)
			}
		}
		if !covered {
			kept = append(kept, c)
		}
	}
	for _, c := range kept {
		if s.set.disabled[c.kind] || c.confidence < s.set.minConfidence {
			continue
		}
		out.Emit(scanner.Finding{Kind: c.kind, Start: c.start, End: c.end, Confidence: c.confidence,
			Severity: c.severity, SetSeverity: true, Action: c.action})
	}
}
