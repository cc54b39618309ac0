package main

import "github.com/yett-dev/yett/sdk/scanner"

// streetWords end the name of a street; in German they end its last word.
var streetWords = map[string]bool{}

func init() {
	list := "street st avenue ave road rd drive dr lane ln boulevard blvd court ct place pl way terrace ter " +
		"circle cir " +
		"parkway pkwy highway hwy square sq trail trl crescent cres close grove gardens row alley loop plaza " +
		"ridge run view " +
		"turnpike commons mews quay"
	for i := 0; i < len(list); {
		end := i
		for end < len(list) && list[end] != ' ' {
			end++
		}
		streetWords[list[i:end]] = true
		i = end + 1
	}
}

// street reads an address that begins with a house number: 12 High Street, Suite 3, Springfield, IL 62701.
func (s *scan) street(from, to int) int {
	n, _ := run(s.t, from)
	if n == 0 || n > 6 || to-from > n+1 || from > 0 && (s.t[from-1] == '.' || s.t[from-1] == '-' ||
		s.t[from-1] == '$' ||
		s.t[from-1] == ':' || s.t[from-1] == '/') {
		return s.streetBefore(from, to)
	}
	i, found := to, 0
	for words := 0; words < 5; words++ {
		if at(s.t, i) != ' ' {
			break
		}
		word := i + 1
		i = word
		for i < len(s.t) && i-word < 20 && (isWord(s.t[i]) || s.t[i] >= 0x80 || s.t[i] == '\'' || s.t[i] == '-') {
			i++
		}
		if i == word || !isUpper(s.t[word]) && s.t[word] < 0xc3 && !isDigit(s.t[word]) && !(words > 0 && i-word < 4) {
			break
		}
		var low [20]byte
		for k, c := range s.t[word:i] {
			low[k] = lower(c)
		}
		if words > 0 && isAlpha(s.t[word]) && streetWords[string(low[:i-word])] {
			found = i
			if at(s.t, i) == '.' {
				i++
				found = i
			}
			break
		}
	}
	if found == 0 {
		return s.streetBefore(from, to)
	}
	end := s.unit(found)
	end = s.cityZip(end)
	s.add("POSTAL_ADDRESS", from, end, 0.7)
	return end
}

var germanStreets = []string{"straße", "strasse", "straat", "gasse", "platz", "allee", "weg", "gatan", "vej", "gata",
	"veien", "str.", "ring", "damm"}

// streetBefore reads an address whose house number comes last: Hauptstraße 12, Rue de Rivoli 8.
func (s *scan) streetBefore(from, to int) int {
	if n, _ := run(s.t, from); n == 0 || n > 4 || to-from > n+1 || at(s.t, from-1) != ' ' {
		return 0
	}
	end := from - 1
	start := end
	for start > 0 && end-start < 28 && (isAlpha(s.t[start-1]) || s.t[start-1] >= 0x80 || s.t[start-1] == '.' ||
		s.t[start-1] == '-') {
		start--
	}
	if end-start < 6 || !isUpper(s.t[start]) && s.t[start] < 0xc3 {
		return 0
	}
	for _, w := range germanStreets {
		if n := end - len(w); n > start+1 && hasPrefix(s.t, n, w) {
			stop := to
			if at(s.t, to) == ',' && at(s.t, to+1) == ' ' { // the postal code and the town
				if n, _ := run(s.t, to+2); n >= 4 && n <= 5 && at(s.t, to+2+n) == ' ' && isUpper(at(s.t, to+3+n)) {
					for stop = to + 3 + n; stop < len(s.t) && stop-to < 40 && (isAlpha(s.t[stop]) ||
						s.t[stop] >= 0x80); stop++ {
					}
				}
			}
			s.add("POSTAL_ADDRESS", start, stop, 0.6)
			return stop
		}
	}
	return 0
}

// unit reads "Suite 12", "Apt. 4B", "#5" behind a street.
func (s *scan) unit(i int) int {
	j := i
	for n := 0; n < 3 && (at(s.t, j) == ' ' || at(s.t, j) == ',' || at(s.t, j) == '\n'); n++ {
		if j++; j >= len(s.t) {
			return i
		}
	}
	for _, w := range []string{"suite ", "apt. ", "apt ", "unit ", "ste ", "ste. ", "floor ", "room ", "#"} {
		if hasPrefix(s.t, j, w) {
			end := j + len(w)
			for end < len(s.t) && isWord(s.t[end]) && end-j < 16 {
				end++
			}
			return end
		}
	}
	return i
}

// cityZip reads ", Springfield, IL 62701" behind a street.
func (s *scan) cityZip(i int) int {
	for j := i; j < len(s.t)-7 && j-i < 48; j++ {
		c := s.t[j]
		if isUpper(c) && isUpper(s.t[j+1]) && !isWord(at(s.t, j-1)) && at(s.t, j+2) == ' ' && usState(s.t[j:j+2]) {
			if end := usZip(s.t, j+3); end > 0 {
				return end
			}
		}
		if !isWord(c) && c < 0x80 && c != ' ' && c != ',' && c != '\n' && c != '.' && c != '-' && c != '\'' {
			break
		}
	}
	return i
}

const states = "ALAKAZARCACOCTDEDCFLGAHIIDILINIAKSKYLAMEMDMAMIMNMSMOMTNENVNHNJNMNYNCNDOHOKORPARI" +
	"SCSDTNTXUTVTVAWAWVWIWYPRVIGUASMPAAAEAP"

func usState(code []byte) bool {
	for i := 0; i < len(states); i += 2 {
		if states[i] == code[0] && states[i+1] == code[1] {
			return true
		}
	}
	return false
}

// usZip reads 12345 or 12345-6789 at i.
func usZip(t []byte, i int) int {
	n, _ := run(t, i)
	if n != 5 || isWord(at(t, i+5)) {
		return 0
	}
	if m, _ := run(t, i+6); at(t, i+5) == '-' && m == 4 && !isWord(at(t, i+10)) {
		return i + 10
	}
	return i + 5
}

// zip reads a postal code: behind a US state, or where a word speaks of one.
func (s *scan) zip(from, to int) int {
	n, _ := run(s.t, from)
	if n < 3 || n > 5 || !s.clearBefore(from) {
		return 0
	}
	if n == 5 && at(s.t, from-1) == ' ' && usState(s.t[max(0, from-3):max(2, from-1)]) && from >= 3 && !isWord(at(s.t,
		from-4)) {
		if end := usZip(s.t, from); end > 0 {
			s.add("POSTAL_ADDRESS", from-3, end, 0.6)
			return end
		}
	}
	end := from + n
	if m, _ := run(s.t, end+1); n == 5 && at(s.t, end) == '-' && m == 4 {
		end += 5
	} else if m, _ := run(s.t, end+1); n == 3 && at(s.t, end) == ' ' && m == 2 || n == 4 && at(s.t, end) == '-' &&
		m == 3 {
		end += 1 + m // 123 45 in Sweden and the Czech Republic, 1234-567 in Portugal
	} else if n == 3 {
		return 0
	} else if n == 4 && at(s.t, end) == ' ' && isUpper(at(s.t, end+1)) && isUpper(at(s.t, end+2)) && !isWord(at(s.t,
		end+3)) {
		end += 3 // 1234 AB in the Netherlands
	}
	if topics(s.t[max(0, from-20):from])&ctxZip == 0 || at(s.t, from-2) == ',' || !s.clearAfter(end) {
		if s.bare && n == 5 && from == 0 && to == len(s.t) {
			s.addAs("ZIP_CODE", from, to, 0.2, info, scanner.Flag)
			return to
		}
		return 0
	}
	s.add("ZIP_CODE", from, end, 0.7)
	return end
}

// postcodeUK reads a British postcode whose inward half begins at the space that was hit.
func (s *scan) postcodeUK(h scanner.Hit) {
	start, end := h.Start, h.Start+4
	if end > len(s.t) || !isAlpha(s.t[end-1]) || isWord(at(s.t, end)) {
		return
	}
	var v [5]byte
	n, small := 0, isLower(s.t[end-1]) || isLower(s.t[end-2])
	for start > 0 && isWord(s.t[start-1]) && h.Start-start < 5 {
		start--
	}
	for ; n < h.Start-start; n++ {
		small = small || isLower(s.t[start+n])
		v[n] = upper(s.t[start+n])
	}
	if small && !s.bare && s.around(start, end)&(ctxZip|ctxAddress) == 0 {
		return
	}
	v[4] = upper(s.t[end-1])
	if !charAt(4, "ABDEFGHJLNPQRSTUWXYZ")(v[:]) {
		return
	}
	if n > 4 || !outward(v[:n]) || isWord(at(s.t, start-1)) || at(s.t, start-1) == '_' {
		return
	}
	s.add("UK_POSTCODE", start, end, 0.6)
}

// outward checks the first half of a postcode: A9, A99, AA9, AA99, A9A, AA9A.
func outward(v []byte) bool {
	letters := 0
	for letters < len(v) && isUpper(v[letters]) {
		letters++
	}
	rest := v[letters:]
	if letters < 1 || letters > 2 || len(rest) < 1 || len(rest) > 2 || !isDigit(rest[0]) || charAt(0, "QVX")(v) {
		return string(v) == "GIR"
	}
	return len(rest) == 1 || isDigit(rest[1]) || isUpper(rest[1])
}
