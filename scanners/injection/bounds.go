package main

import "unicode/utf8"

// bounds gives the segment around text[at]: from the last boundary to the next one.
func bounds(t []byte, at int) (start, end int) {
	low, high := max(0, at-maxSegment), min(len(t), at+maxSegment)
	start, end = -1, -1
	for i := at; i > low; i-- {
		if ends[t[i-1]] && boundary(t, i) {
			start = i
			break
		}
	}
	if start < 0 {
		if start = low; low > 0 {
			start = cutBefore(t, low, at)
		}
	}
	for i := at + 1; i < high; i++ {
		if ends[t[i-1]] && boundary(t, i) {
			end = i
			break
		}
	}
	if end < 0 {
		if end = high; high < len(t) {
			end = cutBehind(t, at, high)
		}
	}
	for start < at && isSpace(t[start]) {
		start++
	}
	for end > at+1 && isSpace(t[end-1]) {
		end--
	}
	return start, end
}

// cutBefore is where a stretch without an end in sight is cut before at: at least a quarter of maxSegment
// before it, at a
// place that the bytes before it decide.
func cutBefore(t []byte, low, at int) int {
	for i := at - maxSegment/4; i > low; i-- {
		if cut(t, i) {
			return i
		}
	}
	i := max(low, at-maxSegment/2)
	for i < at && !utf8.RuneStart(t[i]) {
		i++
	}
	return i
}

func cutBehind(t []byte, at, high int) int {
	for i := at + maxSegment/4; i < high; i++ {
		if cut(t, i) {
			return i
		}
	}
	i := min(high, at+maxSegment/2)
	for i > at+1 && i < len(t) && !utf8.RuneStart(t[i]) {
		i--
	}
	return i
}

// cut tells whether a long stretch may be cut before t[i]: one place between words in eight, chosen by the
// bytes there.
func cut(t []byte, i int) bool {
	if i < 8 || i >= len(t) || !isSpace(t[i-1]) || isSpace(t[i]) {
		return false
	}
	h := uint32(0)
	for _, c := range t[i-6 : i] {
		h = (h ^ uint32(c)) * 16777619
	}
	return h>>16&7 == 0
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// ends are the bytes behind which a sentence or a line may begin.
var ends = [256]bool{'\n': true, ' ': true, '\t': true, 0x81: true, 0x82: true, 0x9f: true, 0xa4: true}

// boundary tells whether a sentence or a line begins at t[i], 0 < i.
func boundary(t []byte, i int) bool {
	switch p := t[i-1]; p {
	case '\n':
		return lineBreak(t, i)
	case ' ', '\t':
		if i < 2 {
			return false
		}
		switch t[i-2] {
		case '!', '?', ';':
			return true
		case '.':
			return !(i >= 4 && isAlpha(t[i-3]) && !isAlpha(t[i-4])) // not behind an initial, or a spaced letter
		case '"', '\'', ')':
			return i >= 3 && (t[i-3] == '.' || t[i-3] == '!' || t[i-3] == '?')
		}
	case 0x82: // 。
		return i >= 3 && t[i-3] == 0xe3 && t[i-2] == 0x80
	case 0x81: // ！
		return i >= 3 && t[i-3] == 0xef && t[i-2] == 0xbc
	case 0x9f: // ？ ؟
		return i >= 3 && t[i-3] == 0xef && t[i-2] == 0xbc || i >= 2 && t[i-2] == 0xd8
	case 0xa4: // danda
		return i >= 3 && t[i-3] == 0xe0 && t[i-2] == 0xa5
	}
	return false
}

// lineBreak tells whether the line that ends before t[i] is over, or goes on in the next one as prose does.
func lineBreak(t []byte, i int) bool {
	j := i
	for j < len(t) && (t[j] == ' ' || t[j] == '\t' || t[j] == '\r') {
		j++
	}
	if j-i > 1 || j == len(t) || !isLower(t[j]) && t[j] < utf8.RuneSelf {
		return true
	}
	if i < 2 {
		return true
	}
	p := t[i-2]
	if p == '\r' && i > 2 {
		p = t[i-3]
	}
	return !isWord(p) && p != ',' && p < utf8.RuneSelf
}
