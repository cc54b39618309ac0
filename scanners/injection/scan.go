package main

import (
	"cmp"
	"slices"

	"github.com/yett-dev/yett/sdk/scanner"
)

// candidate is a possible finding.
type candidate struct {
	kind       int
	start, end int
	confidence float32
}

// scan is the work on one text.
type scan struct {
	t     []byte
	set   settings
	seg   segment // of the text
	deep  segment // of what is decoded
	list  []uint16
	buf   []byte
	found []candidate

	// how far each sort of work has come: a later hit before it brings nothing new
	segStart, segEnd                           int
	markDone, hiddenDone, insideDone, linkDone int
	encodedDone                                [jobEnd]int // by encoding: one finds nothing for another
}

// work is kept between texts for its buffers; calls of one scanner never overlap.
var work scan

func scanText(in *scanner.In, out *scanner.Out) error {
	hits, err := in.Hits()
	if err != nil {
		return err
	}
	s := &work
	s.t, s.set, s.found = in.Text, config, s.found[:0]
	s.segStart, s.segEnd = -1, -1
	s.markDone, s.hiddenDone, s.insideDone, s.linkDone, s.encodedDone = 0, 0, 0, 0, [jobEnd]int{}
	for _, h := range hits {
		switch j := rules.jobs[h.Trigger]; j {
		case jobText:
			if h.Start >= s.segEnd {
				s.text(bounds(s.t, h.Start))
			}
		case jobMark:
			s.mark(rules.markOf(h.Trigger), h)
		case jobLink:
			s.link(h)
		case jobHidden:
			s.hidden(h)
		default:
			s.decode(j, h)
		}
	}
	s.emit(out)
	return nil
}

// text judges one segment.
func (s *scan) text(start, end int) {
	if start == s.segStart && end == s.segEnd || start >= end {
		return
	}
	s.segStart, s.segEnd = start, end
	s.seg.fold(s.t[start:end], start)
	s.seg.understand(s.t[start:end], start)
	if kind, confidence, ok := s.seg.judge(); ok {
		s.add(kind, start, end, confidence)
		return
	}
	if s.seg.code || s.seg.words() < fewWords {
		return
	}
	if score := s.score(&s.seg); score+s.set.sensitivity*modelUnit > modelThreshold {
		s.add(kSuspected, start, end, confidenceOf(score))
	}
}

// fewWords is how many words the model needs.
const fewWords = 3

// isCode tells whether a tenth of a segment are the signs that programs are written with. The model knows prose.
func isCode(t []byte) bool {
	n := 0
	for _, c := range t {
		if signs[c] {
			n++
		}
	}
	return n*10 >= len(t)
}

var signs = func() (t [256]bool) {
	for _, c := range []byte("{}()[]<>=;|\\_+/\"$&") {
		t[c] = true
	}
	return t
}()

func (s *scan) add(kind, start, end int, confidence float32) {
	if start < end && end-start <= maxSpan {
		s.found = append(s.found, candidate{kind, start, end, confidence})
	}
}

// emit reports what is left when candidates inside others are dropped; of those that cover the same, the kind that
// comes first stays. What is only flagged never takes the place of what is removed.
func (s *scan) emit(out *scanner.Out) {
	slices.SortFunc(s.found, func(a, b candidate) int {
		return cmp.Or(a.start-b.start, b.end-a.end, b2i(kindTable[b.kind].redact)-b2i(kindTable[a.kind].redact),
			a.kind-b.kind)
	})
	var reach [2]int // of flagged ones, of removed ones
	for _, c := range s.found {
		k := &kindTable[c.kind]
		if c.end <= reach[1] || !k.redact && c.end <= reach[0] || s.set.disabled[c.kind] {
			continue
		}
		reach[b2i(k.redact)] = c.end
		if k.redact {
			out.Redact(k.name, c.start, c.end, c.confidence)
		} else {
			out.Flag(k.name, c.start, c.end, c.confidence)
		}
	}
}
