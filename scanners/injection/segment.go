package main

import "unicode/utf8"

// A segment is a sentence or line; one that is longer than maxSegment is cut between words, at places that the
// words
// themselves decide, so that a text in pieces is cut like the whole.
const maxSegment = 512

// token is a word of a segment, or one letter of a script without spaces.
type token struct {
	ns, ne   int // in norm
	start    int // in the text
	place    int // in words, times wordPlace
	hash     uint32
	concepts uint32
}

// wordPlace is how many letters of a script without spaces count as a word.
const wordPlace = 3

// segment is one stretch of text, folded and cut into words.
type segment struct {
	norm     []byte
	tokens   []token
	concepts uint32
	code     bool // what it was folded from looks like a program
	mixed    int  // words that mix scripts
	leet     int  // words with digits for letters
	word     []rune
}

// fold fills the segment from text, which stands at base.
func (s *segment) fold(text []byte, base int) {
	s.norm, s.tokens, s.concepts, s.mixed, s.leet, s.word = s.norm[:0], s.tokens[:0], 0, 0, 0, s.word[:0]
	start := 0
	for i := 0; i < len(text); {
		if len(s.word) == 0 {
			if i = s.plain(text, i, base); i == len(text) {
				break
			}
		}
		r, n := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRune(text[i:])
		} else if r == '%' || r == '&' || r == '\\' {
			r, n = unescape(text[i:])
		}
		switch {
		case r >= utf8.RuneSelf && invisible(r):
		case unspaced(r) && wordRune(r):
			s.endWord(base + start)
			s.space(r)
			s.begin(base + i)
			s.norm = utf8.AppendRune(s.norm, r)
			s.close()
		case wordRune(r):
			if len(s.word) == 0 {
				start = i
			}
			s.word = append(s.word, r)
		default:
			s.endWord(base + start)
		}
		i += n
	}
	s.endWord(base + start)
}

// asciiFold gives the folded form of each ASCII letter and digit; 0 for other bytes, 1 for those that need a closer
// look.
var asciiFold = func() (t [256]byte) {
	for c := range 256 {
		switch b := byte(c); {
		case isUpper(b):
			t[c] = b | 0x20
		case isWord(b):
			t[c] = b
		case b >= utf8.RuneSelf || b == '%' || b == '&' || b == '\\':
			t[c] = 1
		}
	}
	return t
}()

// plain folds words of ASCII letters, which most are, up to the first byte that needs a closer look, and gives the
// beginning of the word that holds it.
func (s *segment) plain(text []byte, i, base int) int {
	norm := s.norm
	for i < len(text) {
		c := asciiFold[text[i]]
		if c <= 1 {
			if c == 1 {
				break
			}
			i++
			continue
		}
		start, before := i, len(norm)
		if before > 0 {
			norm = append(norm, ' ')
		}
		ns := len(norm)
		h := uint32(2166136261)
		digits := false
		for ; c > 1; c = asciiFold[text[i]] {
			norm = append(norm, c)
			h = (h ^ uint32(c)) * 16777619
			digits = digits || c <= '9'
			if i++; i == len(text) {
				c = 0
				break
			}
		}
		if c == 1 && text[i] != '&' && text[i] != '\\' || digits || len(norm)-ns >= longWord {
			norm = norm[:before]
			i = start
			break
		}
		s.tokens = append(s.tokens, token{ns: ns, ne: len(norm), start: base + start, hash: h})
	}
	s.norm = norm
	return i
}

// unescape reads what stands for one ASCII character: %41, &#65;, &#x41;, \\u0041, \\n.
func unescape(t []byte) (rune, int) {
	v, i := 0, 1
	switch {
	case len(t) > 2 && t[0] == '%' && isHex(t[1]) && isHex(t[2]):
		v, i = int(hexValue(t[1]))<<4|int(hexValue(t[2])), 3
	case len(t) > 5 && t[0] == '\\' && t[1] == 'u' && t[2] == '0' && t[3] == '0' && isHex(t[4]) && isHex(t[5]):
		v, i = int(hexValue(t[4]))<<4|int(hexValue(t[5])), 6
	case len(t) > 1 && t[0] == '\\' && (t[1] == 'n' || t[1] == 'r' || t[1] == 't'):
		return ' ', 2
	case len(t) > 3 && t[0] == '&' && t[1] == '#':
		i = 2
		if t[2]|0x20 == 'x' {
			for i = 3; i < len(t) && i < 7 && isHex(t[i]); i++ {
				v = v<<4 | int(hexValue(t[i]))
			}
		} else {
			for ; i < len(t) && i < 7 && isDigit(t[i]); i++ {
				v = v*10 + int(t[i]-'0')
			}
		}
		if i < len(t) && t[i] == ';' {
			i++
		}
	}
	if v < ' ' || v >= utf8.RuneSelf {
		return rune(t[0]), 1
	}
	return rune(v), i
}

// space parts a word from what stands before it; letters of a script without spaces follow each other directly.
func (s *segment) space(r rune) {
	if n := len(s.norm); n > 0 && (!unspaced(r) || s.norm[n-1] < utf8.RuneSelf) {
		s.norm = append(s.norm, ' ')
	}
}

func (s *segment) begin(start int) {
	s.tokens = append(s.tokens, token{ns: len(s.norm), start: start})
}

func (s *segment) close() {
	t := &s.tokens[len(s.tokens)-1]
	t.ne = len(s.norm)
	h := uint32(2166136261)
	for _, c := range s.norm[t.ns:t.ne] {
		h = (h ^ uint32(c)) * 16777619
	}
	t.hash = h
}

const longWord = 20

func (s *segment) endWord(start int) {
	if len(s.word) == 0 {
		return
	}
	ascii, digits, other := 0, 0, 0
	for i, r := range s.word {
		f := foldRune(r)
		s.word[i] = f
		switch {
		case f >= utf8.RuneSelf:
			other++
		case isDigit(byte(f)):
			digits++
		default:
			ascii++
		}
	}
	if ascii > 0 && other > 0 {
		s.mixed++
		for i, r := range s.word {
			if c, ok := lookalike[r]; ok {
				s.word[i] = rune(c)
				other--
			}
		}
	}
	if digits > 0 && digits < len(s.word) && len(s.word) >= 4 && other <= 0 {
		s.unleet()
	}
	s.space('a')
	s.begin(start)
	for _, r := range s.word {
		s.norm = utf8.AppendRune(s.norm, r)
	}
	s.word = s.word[:0]
	s.close()
	if t := s.tokens[len(s.tokens)-1]; other <= 0 && t.ne-t.ns >= longWord {
		s.split(t)
	}
}

// unleet replaces digits by the letters they look like, in a word that has both.
func (s *segment) unleet() {
	const letters = "oizeasgtbg"
	s.leet++
	for i, r := range s.word {
		if r >= '0' && r <= '9' {
			c := letters[r-'0']
			if c == 'i' && i == len(s.word)-1 {
				c = 'l'
			}
			s.word[i] = rune(c)
		}
	}
}

// split cuts words that were written together at the words of the lexicon.
func (s *segment) split(long token) {
	var buf [maxSegment]byte
	n := copy(buf[:], s.norm[long.ns:])
	word := buf[:n]
	s.norm, s.tokens = s.norm[:long.ns], s.tokens[:len(s.tokens)-1]
	begun := false
	for i := 0; i < n; {
		concepts, end := uint32(0), i
		if i+2 < n && lex.heads[bucket(word[i], word[i+1], word[i+2])] != 0 {
			concepts, end = lex.at(word, i, true)
		}
		if concepts != 0 && end-i >= 4 {
			if begun {
				s.close()
				s.norm = append(s.norm, ' ')
			}
			s.begin(long.start)
			s.norm = append(s.norm, word[i:end]...)
			s.close()
			if begun = false; end < n {
				s.norm = append(s.norm, ' ')
			}
			i = end
			continue
		}
		if !begun {
			s.begin(long.start)
			begun = true
		}
		s.norm = append(s.norm, word[i])
		i++
	}
	if begun {
		s.close()
	}
}
