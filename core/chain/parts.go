package chain

import (
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/yett-dev/yett/core/prefilter"
	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
)

// What a part of a text has, without what is beside it: at first, and at least where that has too many places of
// triggers again.
const partBytes, leastPart = 32 << 10, 4 << 10

// inParts says whether a step takes a reading in parts: one with more places of its triggers than are told, by a
// scanner that takes streams in windows. Read whole it would have to look for its triggers itself, and what it may do
// for one call would bound the length of a text.
func (s *ScanStep) inParts(text string, complete bool) bool {
	return !complete && s.set >= 0 && s.mode() == abi.StreamWindow && len(text) > 2*s.partBytes()
}

// partBytes keeps what is scanned twice to half of the text.
func (s *ScanStep) partBytes() int { return max(partBytes, 4*s.Stream.Lookbehind) }

// scanParts scans a text as a stream of windows would be: what is found, with all that it depends on, is within
// Lookbehind bytes on either side of its start. Each part counts what begins in it. full says that a part has as many
// findings as a call may.
func (c *ScanChain) scanParts(ctx context.Context, s *ScanStep, in *Input) (found []sdk.Finding, full bool, err error) {
	text, look := in.Text, s.Stream.Lookbehind
	hits := c.found.Get().(*prefilter.Found)
	defer c.found.Put(hits)
	for from, to := 0, 0; from < len(text); from = to {
		var w Window
		var start int
		for size := s.partBytes(); ; size /= 2 {
			if to = runeEnd(text, from+size); len(text)-to < size/2 {
				to = len(text)
			}
			end := runeEnd(text, min(to+look, len(text)))
			start = runeEnd(text, max(from-look-utf8.UTFMax, 0))
			w = Window{Input: *in, First: start == 0, Last: end == len(text)}
			w.Text = text[start:end]
			c.pass.Find(w.Text, hits)
			if w.Hits, w.HitsComplete = hits.Hits(s.set); w.HitsComplete || size/2 < max(leastPart, 4*look) {
				break
			}
		}
		if w.HitsComplete && len(w.Hits) == 0 {
			continue
		}
		some, _, err := s.Scanner.(PieceScanner).ScanPiece(ctx, &w)
		if err == nil {
			err = valid(some, len(w.Text))
		}
		if err != nil {
			return nil, false, fmt.Errorf("bytes %d to %d: %w", start, start+len(w.Text), err)
		}
		folded := len(some) >= abi.MaxFindings // then the last one may stand for what begins behind it
		full = full || folded
		for _, f := range c.covering(s, in, some) {
			f.Start, f.End = f.Start+start, f.End+start
			if f.Start < to && (f.Start >= from || folded && f.End > from) {
				found = append(found, f)
			}
		}
	}
	return found, full, nil
}

// runeEnd moves an offset on to where a character begins, by at most three bytes; in what is not UTF-8 not at all.
func runeEnd(text string, at int) int {
	for on := range utf8.UTFMax {
		if at+on >= len(text) {
			return len(text)
		}
		if utf8.RuneStart(text[at+on]) {
			return at + on
		}
	}
	return at
}
