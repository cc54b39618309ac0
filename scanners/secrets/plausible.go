package main

import "math"

// What tells a secret from a sample, a name or a sentence: entropy, known fillers, and whether characters follow each
// other as they do in names. Everything here is a pure function of the value, in whole numbers, so that a module and a
// native build agree to the bit.

const entropyUnit = 1 << 16

// weigh[n] is n·log2(n) in entropyUnits, for n up to the longest value that is judged.
var weigh = func() (w [1025]int64) {
	for n := 2; n < len(w); n++ {
		w[n] = int64(math.Round(float64(n) * math.Log2(float64(n)) * entropyUnit))
	}
	return w
}()

// entropy of v in hundredths of a bit per byte; of a long value, that of its first 1024 bytes.
func entropy(v []byte) int {
	v = v[:min(len(v), len(weigh)-1)]
	if len(v) == 0 {
		return 0
	}
	var count [256]int
	for _, c := range v {
		count[c]++
	}
	sum := weigh[len(v)]
	for _, n := range count {
		sum -= weigh[n]
	}
	return int(sum * 100 / int64(len(v)) / entropyUnit)
}

// fillers are what people write where a secret goes. Compared with the value in lower case.
var fillers = newWordSet(
	"example", "redacted", "placeholder", "changeme", "change_me", "change-me", "dummy", "insert",
	"sample", "****", "....", "%s", "enter_", "replace", "_here",
	"abcdefghijklmn", "abcabcabc", "0123456789abc", "123456789012345678", "token_goes", "undefined", "...", "hunter2",
)

// words are fillers so short that one generated value in fifteen thousand has one by chance.
var words = []string{"xxxx", "your", "todo"}

// saysWord tells whether a person wrote one of words into v: the word is in one case, and v is no mix of letters and
// digits as only a program makes it.
func saysWord(v, low []byte) bool {
	for _, word := range words {
		for i := 0; i+len(word) <= len(low); i++ {
			if string(low[i:i+len(word)]) != word || !oneCase(v[i:i+len(word)]) {
				continue
			}
			p := profileOf(v)
			return p.turns < 4 || entropy(v) < 350
		}
	}
	return false
}

// oneCase tells whether v is a word as it is written: but for its first letter, all of it is in lower or in upper case.
func oneCase(v []byte) bool {
	lowers, uppers := 0, 0
	for _, c := range v[1:] {
		if isLower(c) {
			lowers++
		} else {
			uppers++
		}
	}
	return lowers == 0 && isUpper(v[0]) || uppers == 0
}

// filler tells whether v is no secret but stands for one.
func filler(v []byte) bool {
	var buf [256]byte
	low := buf[:0]
	for _, c := range v[:min(len(v), len(buf))] {
		low = append(low, lower(c))
	}
	if fillers.in(low) || saysWord(v[:len(low)], low) || template(low) {
		return true
	}
	same, longest, rising := 1, 1, 1
	var seen byteSet
	distinct := 0
	for i, c := range low {
		if !seen[c] {
			seen[c] = true
			distinct++
		}
		if i > 0 && c == low[i-1]+1 {
			if rising++; rising == 10 {
				return true // klmnopqrstuv
			}
		} else {
			rising = 1
		}
		if i > 0 && c == low[i-1] {
			same++
			longest = max(longest, same)
		} else {
			same = 1
		}
	}
	return longest >= 8 && longest*3 >= len(low) || distinct <= 3 && len(low) >= 8 || distinct <= 1
}

func contains(v []byte, s string) bool {
	for i := 0; i+len(s) <= len(v); i++ {
		if v[i] == s[0] && string(v[i:i+len(s)]) == s {
			return true
		}
	}
	return false
}

// template tells whether something is to be filled in: ${name}, $(command), {{ name }}, <% name %>, #{name}, %(name)s.
func template(v []byte) bool {
	for i := 0; i+2 < len(v); i++ {
		closing := ""
		switch string(v[i : i+2]) {
		case "${", "#{":
			closing = "}"
		case "$(", "%(":
			closing = ")"
		case "{{":
			closing = "}}"
		case "<%":
			closing = "%>"
		default:
			continue
		}
		j := i + 2
		for j < len(v) && (nameByte(v[j]) || indexByte(" $|:=\"'/,?!@[]", v[j]) >= 0) {
			j++
		}
		if j == len(v) || string(v[j:min(len(v), j+len(closing))]) == closing {
			return true // closed, or cut off behind a name
		}
	}
	return false
}

// profile counts what a value is made of.
type profile struct {
	lower, upper, digit, other int
	turns                      int // changes between letters and digits
	cases                      int // changes from lower to upper case
	consonants                 int // longest run of consonants
	vowels                     int
	dots, slashes, seps        int
}

func profileOf(v []byte) (p profile) {
	run := 0
	for i, c := range v {
		var prev byte
		if i > 0 {
			prev = v[i-1]
		}
		switch {
		case isLower(c):
			p.lower++
		case isUpper(c):
			p.upper++
			if isLower(prev) {
				p.cases++
			}
		case isDigit(c):
			p.digit++
		case c >= 0x80:
			p.lower++ // a letter of another script, for all we need to know
		default:
			p.other++
		}
		switch c {
		case '.':
			p.dots++
		case '/', '\\':
			p.slashes++
		case '-', '_', ' ':
			p.seps++
		}
		if isDigit(c) && isAlpha(prev) || isAlpha(c) && isDigit(prev) {
			p.turns++
		}
		switch l := c | 0x20; {
		case !isAlpha(c):
			run = 0
		case l == 'a' || l == 'e' || l == 'i' || l == 'o' || l == 'u' || l == 'y':
			p.vowels++
			run = 0
		default:
			run++
			p.consonants = max(p.consonants, run)
		}
	}
	return p
}

func (p *profile) letters() int { return p.lower + p.upper }

// random tells whether v, which has digits, looks generated: letters and digits mixed as no name mixes them.
func random(v []byte, p *profile) bool {
	n := len(v)
	switch {
	case p.letters() == 0:
		return false
	case p.dots >= 2 || p.slashes >= 3 && p.other > 3:
		return n >= 40 && p.turns >= n/6
	case p.turns >= 1 && n >= 16 && p.digit*4 < n:
		if gibberish(v) && readable(v)*3 < n {
			return true // few digits, and letters in no order
		}
	}
	return p.turns >= 3 && p.turns*9 >= n || p.turns >= 3 && p.cases >= 3 && p.turns*16 >= n
}

// periodic tells whether v repeats something of up to twelve bytes three times or more.
func periodic(v []byte) bool {
	for n := 1; n <= 12 && n*3 <= len(v); n++ {
		i := n
		for i < len(v) && lower(v[i]) == lower(v[i-n]) {
			i++
		}
		if i >= n*3 && i*3 >= len(v)*2 {
			return true
		}
	}
	return false
}

var uuidShape = compile("<X:8>-<X:4>-<X:4>-<X:4>-<X:12>")

func isUUID(v []byte) bool { return len(v) == 36 && uuidShape.whole(v) }
