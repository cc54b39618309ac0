package main

import (
	"strings"
	"unicode/utf8"

	"github.com/yett-dev/yett/sdk/scanner"
)

const (
	maxDepth   = 3    // encodings inside each other
	maxEncoded = 2048 // bytes of an encoded run that are read on either side of a hit
)

// telling are words that an injection rarely does without; their encoded forms are triggers, so that no text
// is decoded
// on suspicion.
var telling = []string{"ignore", "instruct", "previous", "system", "prompt", "reveal", "disregard", "password",
	"secret", "forget", "jailbreak",
	"pretend", "assistant", "you are"}

// encodedTwice is how many of them are looked for below two layers of base64.
const encodedTwice = 5

const base64Letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

// encoded adds the triggers of the encodings.
func (e *engine) encoded() {
	for n, word := range telling {
		for _, form := range []string{word, strings.ToUpper(word[:1]) + word[1:], strings.ToUpper(word)} {
			for shift := range 3 {
				once := inner64(form, shift)
				if len(once) >= 6 {
					e.add(scanner.Trigger{Literal: once}, jobBase64)
				}
				for again := range 3 {
					if form == strings.ToUpper(word) || n >= encodedTwice {
						break
					}
					if twice := inner64(once, again); len(twice) >= 8 {
						e.add(scanner.Trigger{Literal: twice}, jobBase64)
					}
				}
			}
			e.add(scanner.Trigger{Literal: hexOf(form, ""), Fold: true}, jobHex)
			if form == strings.ToUpper(word) {
				continue
			}
			e.add(scanner.Trigger{Literal: hexOf(form[:3], " "), Fold: true}, jobHex)
			e.add(scanner.Trigger{Literal: hexOf(form[:3], "\\x"), Fold: true}, jobHex)
			e.add(scanner.Trigger{Literal: hexOf(form[:3], "%"), Fold: true}, jobText)
			e.add(scanner.Trigger{Literal: hexOf(form[:2], "\\u00"), Fold: true}, jobText)
			e.add(scanner.Trigger{Literal: hexOf(form[:2], ";&#x")[1:], Fold: true}, jobText)
			e.add(scanner.Trigger{Literal: entity(form[0]) + entity(form[1])}, jobText)
		}
		e.add(scanner.Trigger{Literal: rot13(word), Fold: true}, jobRot13)
		if len(word) >= 6 {
			e.add(scanner.Trigger{Literal: backwards(word), Fold: true}, jobReverse)
		}
		for _, sep := range []string{" ", ".", "-", "_", "*"} {
			if !strings.Contains(word, " ") {
				e.add(scanner.Trigger{Literal: strings.Join(strings.Split(word[:5], ""), sep), Fold: true},
					jobSpaced)
			}
		}
	}
	for _, leet := range []string{"1gn0r", "r3v34", "pr0mp", "5y573", "pr3v1", "f0r93", "53cr3"} {
		for _, sep := range []string{" ", ".", "-"} {
			e.add(scanner.Trigger{Literal: strings.Join(strings.Split(leet, ""), sep), Fold: true}, jobSpaced)
		}
	}
}

// inner64 is the part of a word's base64 that does not depend on its neighbours, for a word that begins so
// many bytes
// behind a group of three.
func inner64(word string, shift int) string {
	padded := strings.Repeat("\x00", shift) + word
	var out []byte
	for i := 0; i+2 < len(padded); i += 3 {
		v := uint(padded[i])<<16 | uint(padded[i+1])<<8 | uint(padded[i+2])
		out = append(out, base64Letters[v>>18], base64Letters[v>>12&63], base64Letters[v>>6&63],
			base64Letters[v&63])
	}
	skip := [3]int{0, 2, 3}[shift]
	return string(out[min(skip, len(out)):])
}

func hexOf(s, before string) string {
	const digits = "0123456789abcdef"
	var out []byte
	for i := range len(s) {
		if before != " " || i > 0 {
			out = append(out, before...)
		}
		out = append(out, digits[s[i]>>4], digits[s[i]&15])
	}
	return string(out)
}

func entity(c byte) string {
	return "&#" + string([]byte{'0' + c/100, '0' + c/10%10, '0' + c%10}[b2i(c < 100):]) + ";"
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func rot13(s string) string {
	b := []byte(s)
	turn(b)
	return string(b)
}

func turn(b []byte) {
	for i, c := range b {
		if l := c | 0x20; isLower(l) {
			b[i] = c&0x20 | ((l-'a'+13)%26 + 'A')
		}
	}
}

func backwards(s string) string {
	b := []byte(s)
	for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
	return string(b)
}

// run gives the stretch around start…end whose bytes all satisfy in.
func run(t []byte, start, end int, in func(byte) bool) (int, int) {
	low, high := max(0, start-maxEncoded), min(len(t), end+maxEncoded)
	for start > low && in(t[start-1]) {
		start--
	}
	for end < high && in(t[end]) {
		end++
	}
	return start, end
}

func isBase64(c byte) bool {
	return isWord(c) || c == '+' || c == '/' || c == '-' || c == '_' || c == '='
}
func isHex(c byte) bool { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }

// decode reads the run around a hit in its encoding and judges what it says.
func (s *scan) decode(j job, h scanner.Hit) {
	if h.Start < s.encodedDone[j] {
		return
	}
	var start, end int
	out := s.buf[:0]
	switch j {
	case jobBase64:
		start, end = run(s.t, h.Start, h.End, isBase64)
		for skip := 0; skip < 4 && start+skip < h.Start+1; skip++ {
			if out = decodeBase64(s.buf[:0], s.t[start+skip:end]); readable(out) {
				break
			}
		}
	case jobHex:
		start, end = run(s.t, h.Start, h.End, func(c byte) bool {
			return isHex(c) || c == ' ' || c == '\\' ||
				c == 'x' || c == ':'
		})
		out = decodeHex(out, s.t[start:end])
	case jobRot13:
		start, end = bounds(s.t, h.Start)
		out = append(out, s.t[start:end]...)
		turn(out)
	case jobReverse:
		start, end = bounds(s.t, h.Start)
		s.reverse(start, end)
		s.encodedDone[j] = end
		return
	case jobSpaced:
		start, end, out = despace(out, s.t, h)
	}
	s.encodedDone[j] = max(end, h.End)
	s.buf = out[:0]
	if j == jobSpaced && s.says(out, 1) || readable(out) && s.says(out, 1) {
		s.add(kEncoded, start, end, 0.9)
	}
}

// says tells whether a decoded text holds an injection, by the rules, encoded again or not.
func (s *scan) says(text []byte, depth int) bool {
	for at := 0; at < len(text); {
		_, end := bounds(text, at)
		end = max(end, at+1)
		s.deep.fold(text[at:end], 0)
		s.deep.understand(text[at:end], 0)
		if kind, _, ok := s.deep.judge(); ok && kind != kSteering {
			return true
		}
		at = end
		for at < len(text) && isSpace(text[at]) {
			at++
		}
	}
	if depth == maxDepth {
		return false
	}
	for _, c := range text {
		if !isBase64(c) && !isSpace(c) {
			return false
		}
	}
	inner := decodeBase64(nil, text)
	return readable(inner) && s.says(inner, depth+1)
}

// reverse reads a stretch from its end.
func (s *scan) reverse(start, end int) {
	out := s.buf[:0]
	for i := end; i > start; {
		_, n := utf8.DecodeLastRune(s.t[start:i])
		out = append(out, s.t[i-n:i]...)
		i -= n
	}
	s.buf = out[:0]
	if s.says(out, 1) {
		s.add(kEncoded, start, end, 0.8)
	}
}

// decodeBase64 reads both alphabets up to the padding; what does not fill a byte is dropped.
func decodeBase64(out, in []byte) []byte {
	acc, n := uint32(0), 0
	for _, c := range in {
		var v uint32
		switch {
		case isUpper(c):
			v = uint32(c - 'A')
		case isLower(c):
			v = uint32(c-'a') + 26
		case isDigit(c):
			v = uint32(c-'0') + 52
		case c == '+' || c == '-':
			v = 62
		case c == '/' || c == '_':
			v = 63
		case isSpace(c):
			continue
		default:
			return out
		}
		acc = acc<<6 | v
		if n += 6; n >= 8 {
			n -= 8
			out = append(out, byte(acc>>n))
		}
	}
	return out
}

// decodeHex reads pairs of digits; anything between them is skipped.
func decodeHex(out, in []byte) []byte {
	for i := 0; i+1 < len(in); {
		if in[i] == '0' && in[i+1] == 'x' || !isHex(in[i]) || !isHex(in[i+1]) {
			i++
			if in[i-1] == '0' {
				i++
			}
			continue
		}
		out = append(out, hexValue(in[i])<<4|hexValue(in[i+1]))
		i += 2
	}
	return out
}

func hexValue(c byte) byte {
	if isDigit(c) {
		return c - '0'
	}
	return c&0xf + 9
}

// despace joins letters that stand apart, with the same byte between them each time; a wider gap parts words.
func despace(out, t []byte, h scanner.Hit) (start, end int, joined []byte) {
	sep := t[h.Start+1]
	start, end = h.Start, h.Start
	for low := max(0, h.Start-maxEncoded); start-1 > low; {
		k := start - 1
		for k > low && t[k] == sep && start-k < 4 {
			k--
		}
		if t[k] == sep || k == start-1 || k > 0 && isWord(t[k]) && isWord(t[k-1]) || t[k] == '\n' {
			break
		}
		start = k
	}
	for high := min(len(t), h.End+maxEncoded); end < high; {
		out = append(out, t[end])
		k := end + 1
		for k < high && t[k] == sep && k-end < 4 {
			k++
		}
		if k > end+2 {
			out = append(out, ' ')
		}
		if k == end+1 || k+1 < high && isWord(t[k]) && isWord(t[k+1]) {
			end++
			break
		}
		end = k
	}
	return start, min(end, len(t)), out
}
