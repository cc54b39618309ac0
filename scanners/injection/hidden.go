package main

import (
	"unicode/utf8"

	"github.com/yett-dev/yett/sdk/scanner"
)

// hiddenTriggers are runes that show nothing: zero-width space, joiners, invisible operators, overrides of the
// reading
// direction, fillers, soft hyphen, the tags, and those variation selectors that stand for the commonest letters.
func hiddenTriggers() []rune {
	list := []rune("\u200b\u2060\u2061\u2062\u2063\u2064\u202d\u202e\u3164\u180e\u00ad\U000E0001")
	for r := rune(0xe0020); r < 0xe007f; r++ {
		list = append(list, r)
	}
	for _, c := range " aeinorst" {
		list = append(list, 0xe0100+c-16)
	}
	return list
}

const (
	fewTags   = 4 // tags that are text and no accident
	fewHidden = 8 // invisible runes in a row that carry something
	fewInside = 3 // words of a segment that are cut by invisible runes
)

// hidden judges the run of invisible runes around a hit.
func (s *scan) hidden(h scanner.Hit) {
	if h.Start < s.hiddenDone {
		return
	}
	start, n, tags := h.Start, 0, 0
	if start > 2 && h.End-h.Start == 3 && s.t[h.Start] == 0xe2 && s.t[h.Start+1] == 0x80 && s.t[h.Start+2] >= 0xad {
		s.override(h)
		return
	}
	for low := max(0, start-maxSegment); start > low; {
		r, size := utf8.DecodeLastRune(s.t[low:start])
		if !invisible(r) {
			break
		}
		start -= size
	}
	end := start
	limit := min(len(s.t), start+maxSpan/2)
	for end < limit {
		r, size := utf8.DecodeRune(s.t[end:])
		if !invisible(r) && r != 0x2800 {
			break
		}
		if r >= 0xe0000 {
			tags++
		}
		n++
		end += size
	}
	s.hiddenDone = max(end, h.Start+1)
	flag := start >= 4 && string(s.t[start-4:start]) == "\U0001F3F4"
	switch {
	case n == 0:
	case tags >= fewTags && (!flag || tags > 7):
		s.add(kHidden, start, end, 0.95)
	case n >= fewHidden && tags == 0:
		s.add(kInvisible, start, end, 0.8)
	default:
		s.inside(h)
	}
}

// inside judges invisible runes between letters, which hide words from who looks for them.
func (s *scan) inside(h scanner.Hit) {
	if h.Start < s.insideDone {
		return
	}
	start, end := bounds(s.t, h.Start)
	s.insideDone = end
	n := 0
	for i := start + 1; i < end; {
		r, size := utf8.DecodeRune(s.t[i:end])
		if r >= utf8.RuneSelf && invisible(r) && isAlpha(s.t[i-1]) && i+size < end && isAlpha(s.t[i+size]) {
			n++
		}
		i += size
	}
	if n > 0 {
		s.text(start, end)
	}
	if n >= fewInside {
		s.add(kInvisible, start, end, 0.6)
	}
}

// override judges a forced reading direction: right to left writing needs none.
func (s *scan) override(h scanner.Hit) {
	end := min(len(s.t), h.End+maxSegment)
	for i := h.End; i < end; i++ {
		if s.t[i] == '\n' || s.t[i] == 0xe2 && i+2 < len(s.t) && s.t[i+1] == 0x80 && s.t[i+2] == 0xac {
			end = i
			break
		}
	}
	s.hiddenDone = max(end, h.End)
	for end > h.End && end < len(s.t) && s.t[end]&0xc0 == 0x80 {
		end--
	}
	if end-h.End >= 2 {
		s.add(kBidi, h.Start, end, 0.7)
		s.reverse(h.End, end)
	}
}
