package main

import "github.com/yett-dev/yett/sdk/scanner"

// shapeOf is a number on its way through the shapes.
type shapeOf struct {
	v         [maxShape]byte // letters and digits alone, capitals
	n, m      int            // bytes as written; length of v
	form, any uint16         // states of the trie, as written and with x for letters and digits
	letters   int
	digits    int
	small     int
}

func (p *shapeOf) reset() { *p = shapeOf{} }

// put appends a byte as written; false when no shape goes on like that.
func (p *shapeOf) put(c byte) bool {
	class := shapeClass[c]
	p.form = walk.step(p.form, class)
	switch class {
	case classDigit:
		p.digits++
	case classLetter:
		p.letters++
		if isLower(c) {
			p.small++
		}
	default:
		p.any = walk.step(p.any, class)
		p.n++
		return (p.form != noState || p.any != noState) && p.n < maxShape
	}
	p.any = walk.step(p.any, classEither)
	if p.form == noState && p.any == noState || p.m == maxShape {
		return false
	}
	p.v[p.m] = upper(c)
	p.m++
	p.n++
	return true
}

const maxSegments = 7

// digits deals with the number around a run of digits.
func (s *scan) digits(h scanner.Hit) {
	if h.Start < s.upTo {
		return
	}
	if s.quiet(h) {
		return
	}
	t, from, to := s.t, h.Start, h.End
	for least := max(0, from-maxShape); from > least && inWord[t[from-1]]; {
		from--
	}
	for most := min(len(t), to+2*maxShape); to < most && inWord[t[to]]; {
		to++
	}
	if h.Start-from >= maxShape || to-from > 2*maxShape { // no number is that long
		for to < len(s.t) && isWord(s.t[to]) {
			to++
		}
		s.upTo = to
		return
	}
	s.upTo = to
	may := possible(s.t, from, to)
	for i := range digitFinders {
		if may&(1<<i) == 0 {
			continue
		}
		if end := digitFinders[i](s, from, to); end > 0 {
			s.upTo = max(to, end)
			return
		}
	}
}

// digitFinders are tried in turn on a word with digits, those that possible names; one that finds something says where
// it ends.
var digitFinders = [...]func(*scan, int, int) int{
	(*scan).network, (*scan).date, (*scan).iban, (*scan).shaped, (*scan).phone, (*scan).age, (*scan).street,
	(*scan).zip,
}

// inWord are the bytes of which isWord is true.
var inWord = func() (table [256]bool) {
	for c := range 256 {
		table[c] = isWord(byte(c))
	}
	return table
}()

// plain are bytes beside which a short number is no part of anything.
var plain = func() (table [256]bool) {
	for c := range 128 {
		table[c] = !isWord(byte(c))
	}
	for _, c := range []byte(" -./:+()@_#") {
		table[c] = false
	}
	return table
}()

// quiet tells, from a few bytes, that a hit is nothing: a short number between brackets or signs, or a time of day,
// which most numbers in the outputs of tools are.
func (s *scan) quiet(h scanner.Hit) bool {
	before, behind := at(s.t, h.Start-1), at(s.t, h.End)
	n := h.End - h.Start
	if n <= 3 && plain[before] && plain[behind] {
		return true
	}
	if n != 2 || behind != ':' || before == ':' || isWord(before) {
		return false
	}
	i := h.End
	for range 2 {
		if at(s.t, i) != ':' || !isDigit(at(s.t, i+1)) || !isDigit(at(s.t, i+2)) {
			break
		}
		i += 3
	}
	if i == h.End || at(s.t, i) == ':' || isWord(at(s.t, i)) {
		return false
	}
	s.upTo = i
	return true
}

// best is the rule that fits a number best.
type best struct {
	rule       int
	start, end int
	confidence float32
}

// shaped looks for a number of some rule that begins with the word t[from:to], or with a short word of letters before.
func (s *scan) shaped(from, to int) int {
	b := best{rule: -1}
	s.cardEnd = 0
	s.shapedFrom(from, &b)
	if start := slashed(s.t, from); start < from {
		s.shapedFrom(start, &b)
	}
	start := from
	for range 3 { // KA 05 MH 1234, B-AB 1234, 1AB2-CD3-EF45
		word := start - 1
		if word < 1 || s.t[word] != ' ' && s.t[word] != '-' && s.t[word] != '.' {
			break
		}
		start = word
		pair := false // of digits: then its own hit has tried what begins here
		for start > 0 && isWord(s.t[start-1]) && word-start < 5 {
			start--
			pair = pair || isDigit(s.t[start]) && start+1 < word && isDigit(s.t[start+1])
		}
		if start == word || word-start > 4 || pair || start > 0 && isWord(s.t[start-1]) ||
			isLower(s.t[start]) && !s.bare && s.t[word] == ' ' && !vatPrefix(s.t[start:word]) {
			break
		}
		s.shapedFrom(start, &b)
	}
	if b.rule < 0 || s.cardEnd >= b.end && b.confidence < 0.6 {
		return s.cardEnd
	}
	r := &numberRules[b.rule]
	if b.confidence < 0.45 {
		s.addAs(r.kind, b.start, b.end, b.confidence, min(low, kinds[kindIndex[r.kind]].severity), redact)
	} else {
		s.add(r.kind, b.start, b.end, b.confidence)
	}
	return b.end
}

// slashed gives where a number begins whose part behind a slash is at from: 12.ABC.345/01DE-35, 12ABC345/01DE-35.
func slashed(t []byte, from int) int {
	slash := from - 1
	if at(t, slash) == '-' {
		slash -= len("01DE-")
	}
	switch {
	case at(t, slash) != '/':
		return from
	case at(t, slash-4) == '.' && at(t, slash-8) == '.':
		return max(0, slash-len("12.ABC.345"))
	}
	return max(0, slash-len("12ABC345"))
}

// vatPrefix tells whether a word in small letters is the country of a tax number, which is an everyday word else.
func vatPrefix(w []byte) bool {
	switch string(w) {
	case "de", "it", "pl", "pt":
		return true
	}
	return false
}

// shapedFrom tries the numbers of one and more segments from start on.
func (s *scan) shapedFrom(start int, b *best) {
	if !s.clearBefore(start) {
		return
	}
	p := &s.shape
	p.reset()
	paren := false
	for i, segments := start, 0; segments < maxSegments; segments++ {
		word := i
		for i < len(s.t) && isWord(s.t[i]) {
			if !p.put(s.t[i]) {
				return
			}
			i++
		}
		if i == word {
			return
		}
		if p.digits == 0 && i-word > 6 || segments > 0 && p.small > 3 && !s.bare {
			return // prose
		}
		end := i
		if paren && at(s.t, i) == ')' {
			if !p.put(')') {
				return
			}
			end++
		}
		if p.digits > 0 && p.n >= 5 {
			s.match(start, end, b)
		}
		switch c := at(s.t, i); c {
		case ' ', '-', '.', '/', ':', '+', '(':
			paren = c == '('
			if i >= len(s.t)-1 || !p.put(c) {
				return
			}
			i++
			if c == ' ' && s.t[i] == '(' { // A123456 (3)
				if paren = true; !p.put('(') {
					return
				}
				i++
			}
		default:
			return
		}
	}
}

// match tries the rules of the shape that t[start:end] has.
func (s *scan) match(start, end int, b *best) {
	p := &s.shape
	if p.form != noState {
		s.matchRules(walk.rules[p.form], start, end, b)
	}
	if p.any != noState && p.letters > 0 {
		s.matchRules(walk.rules[p.any], start, end, b)
	}
}

// goesOn tells whether another group of as many digits follows the last one behind a space: then what was read is the
// beginning of a longer number.
func (s *scan) goesOn(end int) bool {
	if at(s.t, end) != ' ' || !isDigit(at(s.t, end+1)) {
		return false
	}
	group := end
	for group > 0 && isDigit(s.t[group-1]) {
		group--
	}
	n, _ := run(s.t, end+1)
	return n == end-group && at(s.t, group-1) == ' ' && isDigit(at(s.t, group-2))
}

// numberWords announce a number without saying of what.
var numberWords = []string{"nummer ", "number ", "number is ", "number: ", "nr. ", "no. ", " id ", " id: ",
	"identifier ", "numéro ", "número "}

func (s *scan) matchRules(rules []uint8, start, end int, b *best) {
	if len(rules) == 0 || !s.clearAfter(end) || s.goesOn(end) {
		return
	}
	p := &s.shape
	for _, i := range rules {
		if i == cardRule {
			s.card(start, end)
			continue
		}
		r := &numberRules[i]
		if !r.check(p.v[:p.m]) {
			continue
		}
		if !s.bare && r.proof < strong && p.letters == 0 && sequential(p.v[:p.m]) {
			continue
		}
		words := s.around(start, end)
		said := words&r.need != 0
		confidence := [...]float32{named: 0, weak: 0.3, medial: 0.4, strong: 0.75}[r.proof]
		switch {
		case said:
			confidence = [...]float32{named: 0.5, weak: 0.6, medial: 0.75, strong: 0.95}[r.proof]
			if words&r.need&anyCountry != 0 {
				confidence += 0.04
			} else if words&anyCountry != 0 && r.need&anyCountry != 0 {
				confidence -= 0.15 // another country's
			}
		case r.proof == medial && s.leadsTo(start, numberWords):
			confidence = 0.45
		case r.proof == named, r.proof < strong && (!s.bare || words&ctxPhone != 0):
			continue // alone a number may be this; beside a word for telephones it is one of those
		}
		if p.small > 0 && !s.bare && (!said || r.need&ctxPlate != 0) {
			continue // ids are written in capitals
		}
		longer := end-start > b.end-b.start
		if b.rule < 0 || confidence > b.confidence+0.01 || longer && confidence > b.confidence-0.15 {
			*b = best{int(i), start, end, confidence}
		}
	}
}

// clearBefore tells whether a number may begin at i: not inside a word, an amount, a decimal or a longer chain.
func (s *scan) clearBefore(i int) bool {
	if i == 0 {
		return true
	}
	switch c := s.t[i-1]; {
	case isWord(c), c == '_', c == '$', c == '%', c == '\\':
		return false
	case c == '.', c == '-', c == '/', c == ',':
		return !isWord(at(s.t, i-2)) || c == ',' && !isDigit(at(s.t, i-2))
	case c >= 0x80:
		return true
	}
	return true
}

// clearAfter tells whether a number may end at i.
func (s *scan) clearAfter(i int) bool {
	c, next := at(s.t, i), at(s.t, i+1)
	switch {
	case isWord(c), c == '_', c == '%', c == '@':
		return false
	case c == '.', c == '-', c == '/', c == ':':
		return !isWord(next)
	case c == ',':
		return !isDigit(next)
	}
	return true
}
