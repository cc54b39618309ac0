package main

// understand looks the words of the segment up. text is what the segment was folded from. What a text that
// speaks about
// such words quotes is not an order.
func (s *segment) understand(text []byte, base int) {
	norm := s.norm
	s.code = isCode(text)
	place := 0
	for i := range s.tokens {
		t := &s.tokens[i]
		t.place = place
		if norm[t.ns] < 0xe0 || t.ne-t.ns > 4 {
			place += wordPlace
		} else {
			place++
		}
		t.concepts = 0
		k := t.ns
		if k+2 >= len(norm) || lex.heads[bucket(norm[k], norm[k+1], norm[k+2])] != 0 {
			t.concepts, _ = lex.at(norm, k, false)
		}
		if i+1 < len(s.tokens) {
			if p := lex.phrases[pair(t.hash, s.tokens[i+1].hash)]; p != 0 {
				more, _ := lex.chain(p, norm, k, false)
				t.concepts |= more
			}
		}
		if t.concepts == 0 {
			continue
		}
		if t.concepts&(cReveal|cSend) != 0 && i > 0 && denies(norm[s.tokens[i-1].ns:s.tokens[i-1].ne]) {
			t.concepts &^= cReveal | cSend
		}
		s.concepts |= t.concepts
	}
	if s.concepts&cSend != 0 {
		s.addresses(text, base)
	}
	if s.concepts&cReply != 0 && len(s.tokens) > 2 && s.tokens[1].concepts&cReply != 0 &&
		string(norm[s.tokens[0].ns:s.tokens[0].ne]) == "in" {
		s.tokens[0].concepts |= cSteer // in your answer, do this
		s.concepts |= cSteer
	}
	if s.concepts&cMeta != 0 {
		s.unquote(text, base)
	}
}

// words counts, in scripts without spaces three letters as one.
func (s *segment) words() int {
	if len(s.tokens) == 0 {
		return 0
	}
	return s.tokens[len(s.tokens)-1].place/wordPlace + 1
}

// denies tells whether a word turns the next one around: never share, don't tell.
func denies(word []byte) bool {
	switch string(word) {
	case "never", "not", "t", "nicht", "nie", "niemals", "jamais", "pas", "nunca", "no", "non", "mai", "nao",
		"не", "никогда":
		return true
	}
	return false
}

// addresses makes a place of each mail address.
func (s *segment) addresses(text []byte, base int) {
	k := 0
	for i := 1; i+1 < len(text); i++ {
		if text[i] != '@' || !isWord(text[i-1]) || !isWord(text[i+1]) {
			continue
		}
		for k+1 < len(s.tokens) && s.tokens[k+1].start-base <= i {
			k++
		}
		s.tokens[k].concepts |= cPlace
		s.concepts |= cPlace
	}
}

// maxQuote bounds what counts as a quotation, bytes.
const maxQuote = 100

// unquote takes the concepts from words in quotation marks when a word outside of them speaks of the quotation.
func (s *segment) unquote(text []byte, base int) {
	from, to := -1, -1
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c != '"' && c != '\'' && c != '`' || i > 0 && isWord(text[i-1]) {
			continue
		}
		for j := i + 2; j < len(text) && j < i+maxQuote; j++ {
			if text[j] == c && (j+1 == len(text) || !isWord(text[j+1])) {
				from, to = i, j
				break
			}
		}
		break
	}
	if from < 0 {
		return
	}
	outside := uint32(0)
	for i := range s.tokens {
		if at := s.tokens[i].start - base; at < from || at > to {
			outside |= s.tokens[i].concepts
		}
	}
	if outside&cMeta == 0 {
		return
	}
	for i := range s.tokens {
		if at := s.tokens[i].start - base; at >= from && at <= to {
			s.tokens[i].concepts = 0
		}
	}
	s.concepts = outside
}
