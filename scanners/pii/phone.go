package main

import "github.com/yett-dev/yett/sdk/scanner"

// callingCodes: each country's code and the lengths that its national numbers may have.
const callingCodes = "1:10 7:10 20:8-10 27:9 30:10 31:9-11 32:8-9 33:9 34:9 36:8-9 39:6-12 40:9 41:9 43:4-13 " +
	"44:9-10 45:8 46:7-10 " +
	"47:8 48:9 49:4-13 51:8-9 52:10 53:6-8 54:10-11 55:10-11 56:9 57:8-10 58:10 60:8-10 61:9 62:7-12 63:8-10 " +
	"64:8-10 65:8 " +
	"66:8-9 81:9-10 82:8-11 84:9-10 86:9-12 90:10 91:10 92:8-10 93:9 94:9 95:6-10 98:10 211:9 212:9 213:8-9 216:8 " +
	"218:8-9 " +
	"220:7 221:9 222:8 223:8 224:8-9 225:8-10 226:8 227:8 228:8 229:8-10 230:7-8 231:7-9 232:8 233:9 234:7-10 " +
	"235:8 236:8 " +
	"237:8-9 238:7 239:7 240:9 241:7-8 242:9 243:7-9 244:9 245:7-9 246:7 247:4-6 248:7 249:9 250:9 251:9 252:7-9 " +
	"253:8 " +
	"254:9-10 255:9 256:9 257:8 258:8-9 260:9 261:9 262:9 263:7-10 264:8-9 265:7-9 266:8 267:7-8 268:8 269:7 " +
	"290:4-5 291:7 " +
	"297:7 298:6 299:6 350:8 351:9 352:4-11 353:7-9 354:7-9 355:8-9 356:8 357:8 358:5-11 359:7-9 370:8 371:8 " +
	"372:7-8 373:8 " +
	"374:8 375:9-10 376:6-9 377:8-9 378:6-10 380:9 381:8-9 382:8-9 383:8-9 385:8-9 386:8 387:8-9 389:8 420:9 " +
	"421:9 423:7-9 " +
	"500:5 501:7 502:8 503:8 504:8 505:8 506:8 507:7-8 508:6 509:8 590:9 591:8 592:7 593:8-9 594:9 595:9 596:9 " +
	"597:6-7 " +
	"598:8 599:7-8 670:7-8 672:6 673:7 674:7 675:7-8 676:5-7 677:5-7 678:5-7 679:7 680:7 681:6 682:5 683:4 " +
	"685:5-7 686:5-8 " +
	"687:6 688:5-6 689:6-8 690:4 691:7 692:7 850:8-10 852:8 853:8 855:8-9 856:8-10 880:8-10 886:8-9 960:7 961:7-8 " +
	"962:8-9 " +
	"963:8-9 964:8-10 965:8 966:9 967:7-9 968:8 970:8-9 971:8-9 972:8-9 973:8 974:8 975:7-8 976:8 977:8-10 992:9 " +
	"993:8 " +
	"994:9 995:9 996:9 998:9"

// lengths is the range of a national number's length by calling code; zero where there is no such code.
var lengths = readCodes()

func readCodes() (table [1000][2]uint8) {
	for i := 0; i < len(callingCodes); i++ {
		code, n := 0, [2]int{}
		for ; callingCodes[i] != ':'; i++ {
			code = code*10 + int(callingCodes[i]-'0')
		}
		k := 0
		for i++; i < len(callingCodes) && callingCodes[i] != ' '; i++ {
			if callingCodes[i] == '-' {
				k = 1
				continue
			}
			n[k] = n[k]*10 + int(callingCodes[i]-'0')
		}
		table[code] = [2]uint8{uint8(n[0]), uint8(max(n[0], n[1]))}
	}
	return table
}

// dialled is a telephone number as written.
type dialled struct {
	start, end int
	plus       bool
	d          [20]byte // digits
	n          int
	groups     [9]int // digits in each group
	k          int    // number of groups
	paren      bool   // some group stands in parentheses
	first      byte   // the first separator
	mixed      bool   // separators differ
	slash      bool
}

// phone looks for a telephone number whose first run of two or more digits begins the word t[from:to].
func (s *scan) phone(from, to int) int {
	if !isDigit(s.t[from]) && !(s.t[from]|0x20 == 't' || s.t[from] == 'x') {
		return 0
	}
	for from < to && !isDigit(s.t[from]) {
		from++
	}
	start := from
	// "+1 (415", "+63 (917", "(0)20": what belongs to the number before its first long run
	for n := 0; n < 6 && start > 0; n++ {
		c := s.t[start-1]
		if c == '+' || c == '(' || isDigit(c) && (n > 0) || (c == ' ' || c == '-' || c == '.') && n < 3 &&
			(isDigit(at(s.t, start-2)) && !isWord(at(s.t, start-3)) || at(s.t, start-2) == '+') {
			start--
			if c == '+' {
				break
			}
			continue
		}
		break
	}
	for start < from && s.t[start] != '+' && s.t[start] != '(' && !isDigit(s.t[start]) {
		start++
	}
	if end := s.phoneAt(start); end > 0 {
		return end
	}
	if start != from {
		return s.phoneAt(from)
	}
	return 0
}

func (s *scan) phoneAt(start int) int {
	if start > 0 {
		c := s.t[start-1]
		if isWord(c) || c == '_' || c == '$' || c == '.' && isWord(at(s.t, start-2)) || c == '/' && isWord(at(s.t,
			start-2)) ||
			c == '-' && isDigit(at(s.t, start-2)) || c == '=' && isWord(at(s.t, start-2)) && at(s.t, start) != '+' &&
			s.topicFree(start) {
			return 0
		}
	}
	if start < s.phoneUpTo {
		return 0
	}
	p := readPhone(s.t, start)
	if p.k == len(p.groups) {
		s.phoneUpTo = p.end - 2*p.groups[p.k-1] // a table: what begins inside has been tried
	}
	if p.n < 6 {
		return 0
	}
	words := s.around(start, p.end)
	for ; p.k >= 1 && p.n >= 6; p.dropGroup(s.t) {
		if confidence := s.judgePhone(&p, words); confidence > 0 {
			end := extension(s.t, p.end)
			if fictional(p.d[:p.n]) {
				s.addExample("PHONE", p.start, end, min(confidence, 0.4))
			} else if confidence < 0.45 {
				s.addAs("PHONE", p.start, end, confidence, low, scanner.Redact)
			} else {
				s.add("PHONE", p.start, end, confidence)
			}
			return end
		}
	}
	return 0
}

// topicFree tells whether no word near i speaks of telephones.
func (s *scan) topicFree(i int) bool { return s.around(i, i)&ctxPhone == 0 }

// readPhone reads digits and what stands between them in telephone numbers.
func readPhone(t []byte, start int) (p dialled) {
	p.start = start
	i := start
	if at(t, i) == '+' {
		p.plus = true
		i++
	}
	for p.k < len(p.groups) {
		gap := i
		for i < len(t) && i-gap < 3 && (t[i] == ' ' || t[i] == '-' || t[i] == '.' || t[i] == '(' || t[i] == ')' ||
			t[i] == '/') {
			p.paren = p.paren || t[i] == '('
			i++
		}
		if p.k > 0 && i > gap {
			c := t[gap]
			p.slash = p.slash || c == '/'
			if p.k == 1 {
				p.first = c
			} else if c != p.first && p.first != ')' {
				p.mixed = true
			}
			if i-gap > 1 && t[gap] == ' ' && t[gap+1] == ' ' {
				break
			}
		}
		word := i
		for i < len(t) && isDigit(t[i]) {
			if p.n == len(p.d) {
				return dialled{}
			}
			p.d[p.n] = t[i]
			p.n++
			i++
		}
		if i == word || p.k > 0 && word == gap {
			break
		}
		p.groups[p.k] = i - word
		p.k++
		p.end = i
	}
	return p
}

// dropGroup takes the last group away.
func (p *dialled) dropGroup(t []byte) {
	p.k--
	p.n -= p.groups[p.k]
	p.end -= p.groups[p.k]
	for p.end > p.start && !isDigit(t[p.end-1]) {
		p.end--
	}
}

// extension reads "x123" or " ext. 123" behind a number.
func extension(t []byte, i int) int {
	j := i
	for _, word := range []string{" ext. ", " ext ", " ext.", "ext", " x", "x", " extension ", "#", ";ext="} {
		if hasPrefix(t, i, word) {
			j = i + len(word)
			break
		}
	}
	end := j
	for end < len(t) && isDigit(t[end]) && end-j < 6 {
		end++
	}
	if end > j && j > i && !isWord(at(t, end)) {
		return end
	}
	return i
}

// endsWell tells whether a number may end at i: not inside a word or a longer number.
func (s *scan) endsWell(p *dialled) bool {
	c, next := at(s.t, p.end), at(s.t, p.end+1)
	switch {
	case isDigit(c), c == '_', c == '%':
		return false
	case isAlpha(c):
		return extension(s.t, p.end) > p.end
	case c == '-', c == '.', c == '/', c == ',', c == ':':
		return !isDigit(next)
	}
	return true
}

// judgePhone gives the confidence that p is a telephone number; 0 if it is none.
func (s *scan) judgePhone(p *dialled, words topic) float32 {
	if p.n < 6 || p.n > 17 || !s.endsWell(p) {
		return 0
	}
	if p.plus {
		return international(p.d[:p.n], 0.9)
	}
	if p.k == 2 && p.first == '.' || p.groups[0] == 2 && p.dumped(s.t) {
		return 0 // a decimal, a listing of bytes
	}
	if p.n > 10 && string(p.d[:2]) == "00" && p.k > 1 {
		if c := international(p.d[2:p.n], 0.75); c > 0 {
			return c
		}
	}
	said := words&ctxPhone != 0 || hasPrefix(s.t, p.end, "-office") ||
		p.k > 1 && (s.leadsTo(p.start, leads) || s.leadsTo(p.start, moreLeads))
	confidence := float32(0.55)
	if said {
		confidence = 0.85
	}
	switch d := p.d[:p.n]; {
	case p.slash && !said, d[0] == '0' && d[1] == '0':
		return 0
	case p.k == 2 && !p.paren && at(s.t, p.end) == ' ' && isUpper(at(s.t, p.end+1)) && isLower(at(s.t, p.end+2)):
		return 0 // a house and its street
	case s.northAmerican(p, said):
		return confidence + 0.1
	case d[0] == '0' && d[1] != '0' && p.n >= 9 && (p.n <= 11 || said) && p.n <= 12 && p.k > 1 && p.evenGroups():
		return confidence
	case p.k == 1 && words&ctxPhone != 0 && p.n >= 7 && p.n <= 12 && !same(d) && words&softPhone == 0:
		return 0.6
	case p.k == 1 && p.n >= 8 && p.n <= 12 && !same(d) &&
		(s.leadsTo(p.start, leads) || hasPrefix(s.t, p.end, "-office")):
		return 0.6
	case p.k == 1 && p.n == 11 && d[0] == '0' && (d[1] == '9' || d[1] == '7') && !same(d[2:]):
		return 0.4
	case p.k == 1 && s.bare && (d[0] == '0' && d[1] != '0' && p.n >= 10 && p.n <= 11 ||
		p.n == 10 && d[0] >= '2' && d[0] <= '5' || p.n == 10 && d[0] >= '2' && d[3] >= '2'):
		return 0.3
	case p.k == 4 && s.bare && p.n == 10 && d[0] >= '2' && d[0] <= '5':
		return 0.4
	case said && p.k > 1 && p.n >= 6 && p.n <= 12 && p.evenGroups():
		return 0.75
	case p.paren && p.k >= 2 && p.groups[0] >= 2 && p.n >= 7 && p.n <= 12 && at(s.t, p.start) == '(' && at(s.t,
		p.start+p.groups[0]+1) == ')' &&
		p.evenGroups():
		return 0.5
	case p.paren && at(s.t, p.start) == '0' && p.n >= 10 && p.n <= 12:
		return 0.5
	}
	return 0
}

// dumped tells whether pairs of digits stand among others, as in a listing of bytes.
func (p *dialled) dumped(t []byte) bool {
	for _, n := range p.groups[:p.k] {
		if n != 2 {
			return false
		}
	}
	pair := func(i int) bool {
		return isHex(at(t, i)) && isHex(at(t, i+1)) && !isWord(at(t, i-1)) && !isWord(at(t, i+2))
	}
	return at(t, p.start-1) == ' ' && pair(p.start-3) || at(t, p.end) == ' ' && pair(p.end+1)
}

// Words right before somebody's number. The second list leads to numbers of other things too.
var (
	leads     = []string{"me on ", "me at ", "us at ", "us on ", "messages to ", "call ", "contact: ", "dial "}
	moreLeads = []string{"number is ", "number: ", "number ", "nummer ist ", "numéro est le "}
)

// leadsTo tells whether one of the words stands right before i.
func (s *scan) leadsTo(i int, words []string) bool {
	for _, lead := range words {
		if hasPrefix(s.t, i-len(lead), lead) {
			return true
		}
	}
	return false
}

// evenGroups: two digits or more in each group; the first may be a trunk prefix.
func (p *dialled) evenGroups() bool {
	for i, n := range p.groups[:p.k] {
		if n < 2 && (i > 0 || p.k > 1 && p.groups[1] < 3) && !(i == 1 && p.paren) || n > 8 {
			return false
		}
	}
	return true
}

// northAmerican tells whether p has the form of a number in the North American plan.
func (s *scan) northAmerican(p *dialled, said bool) bool {
	d, g := p.d[:p.n], p.groups[:p.k]
	if len(d) == 11 && d[0] == '1' && (len(g) == 4 && g[0] == 1) {
		d, g = d[1:], g[1:]
	}
	if len(g) == 2 && p.paren && g[0] == 3 && g[1] == 7 {
		return d[0] >= '2'
	}
	if len(g) != 3 || g[0] != 3 || g[1] != 3 || g[2] != 4 || d[0] < '2' {
		return false
	}
	if p.paren || said {
		return true
	}
	switch p.first {
	case '-', '.':
		return !p.mixed
	case ' ': // three numbers in a row look the same
		return !p.mixed && d[3] >= '2' && !(d[1] == '1' && d[2] == '1') && !isDigit(at(s.t, p.end+1)) &&
			!isDigit(at(s.t, p.start-2))
	}
	return false
}

// international gives the confidence when d is a calling code and a national number of a length that it may have.
func international(d []byte, confidence float32) float32 {
	for n := 1; n <= 3 && n < len(d); n++ {
		l := lengths[number(d[:n])]
		if l[1] == 0 || d[0] == '0' {
			continue
		}
		rest := len(d) - n
		if d[n] == '0' && rest > int(l[1]) { // +44 (0)20
			rest--
		}
		if rest < int(l[0]) || rest > int(l[1]) {
			return 0
		}
		if n == 1 && d[0] == '1' && (d[1] < '2' || d[4] < '2') {
			return confidence - 0.2
		}
		return confidence
	}
	return 0
}

// fictional numbers are kept free for films and documentation.
func fictional(d []byte) bool {
	if len(d) == 11 && d[0] == '1' {
		d = d[1:]
	}
	return len(d) == 10 && string(d[3:8]) == "55501" || len(d) == 11 && string(d[:7]) == "0770090" ||
		len(d) == 12 && string(d[:8]) == "44770090"
}
