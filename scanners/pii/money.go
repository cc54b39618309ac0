package main

import "github.com/yett-dev/yett/sdk/scanner"

// cardRange is a range of issuers' numbers, by their first digits, and the lengths in use.
type cardRange struct {
	from, to int // of as many digits
	lengths  []int
}

var cardRanges = []cardRange{
	{34, 34, []int{15}}, {37, 37, []int{15}}, // American Express
	{4, 4, []int{13, 16, 19}},                    // Visa
	{51, 55, []int{16}}, {2221, 2720, []int{16}}, // Mastercard
	{300, 305, []int{14}}, {3095, 3095, []int{14}}, {36, 36, []int{14}}, {38, 39, []int{14}}, // Diners Club
	{6011, 6011, []int{16, 19}}, {622126, 622925, []int{16, 19}}, {644, 659, []int{16, 19}}, // Discover
	{3528, 3589, []int{16, 19}}, {2131, 2131, []int{15}}, {1800, 1800, []int{15}}, // JCB
	{62, 62, []int{16, 17, 18, 19}}, {81, 81, []int{16, 17, 18, 19}}, // UnionPay
	{50, 50, []int{12, 13, 14, 15, 16, 17, 18, 19}}, {56, 59, []int{12, 13, 14, 15, 16, 17, 18, 19}}, // Maestro
	{60, 61, []int{12, 13, 14, 15, 16, 17, 18, 19}}, {63, 63, []int{12, 13, 14, 15, 16, 17, 18, 19}},
	{66, 69, []int{12, 13, 14, 15, 16, 17, 18, 19}},
	{2200, 2204, []int{16, 17, 18, 19}}, {9792, 9792, []int{16}}, {82, 82, []int{16}}, // Mir, Troy, RuPay
}

func cardIssuer(v []byte) bool {
	for _, r := range cardRanges {
		n := 1
		for p := r.from; p >= 10; p /= 10 {
			n++
		}
		if p := number(v[:n]); p < r.from || p > r.to {
			continue
		}
		for _, l := range r.lengths {
			if l == len(v) {
				return true
			}
		}
	}
	return false
}

// cardForms are the groups in which cards are written.
var cardForms = map[string]bool{
	"9999 9999 9999 9999": true, "9999-9999-9999-9999": true, "9999.9999.9999.9999": true, "9999 999999 99999": true,
	"9999-999999-99999": true, "9999 999999 9999": true, "9999-999999-9999": true, "9999 9999 9999 9999 999": true,
	"9999-9999-9999-9999-999": true, "9999 9999 9999": true, "999999 9999999999": true, "9999 9999 9999 999": true,
	"9999.999999.99999": true, "9999.999999.9999": true, "9999-9999-9999-999": true, "9999 9999 9999 99": true,
	"9999-9999-9999-99": true, "999999 9999999999999": true,
}

// card reports t[start:end] when it is the number of a payment card; s.shape holds it.
func (s *scan) card(start, end int) {
	p := &s.shape
	v := p.v[:p.m]
	if !luhn(v) || same(v) {
		return
	}
	words := s.around(start, end)
	confidence := float32(0.7)
	if !cardIssuer(v) {
		if words&ctxCard != 0 && len(v) >= 13 {
			s.cardEnd = end
			s.add("CREDIT_CARD", start, end, 0.6)
		}
		return
	}
	switch {
	case words&ctxCard != 0:
		confidence = 0.97
	case p.n == p.m && !s.bare && (len(v) < 15 || len(v) > 16 || v[0] == '2' || v[0] > '6' || sequential(v)):
		return // chance gives one in twelve such numbers a valid end, and these are seldom cards
	case len(v) == 12, len(v) == 14 && p.n == len("9999 9999 9999 99"), len(v) == 19 && p.n == len("999999 9999999999999"):
		if s.bare { // columns of sizes, and a number before a time in milliseconds, look like that
			s.cardEnd = end
			s.addAs("CREDIT_CARD", start, end, 0.4, low, redact)
		}
		return
	case p.n != p.m:
		confidence = 0.85
	}
	s.cardEnd = end
	if testCard(v) {
		s.addExample("CREDIT_CARD", start, end, 0.3)
		return
	}
	s.add("CREDIT_CARD", start, end, confidence)
}

// testCard tells whether a number is one that processors publish for tests: few different digits.
func testCard(v []byte) bool {
	var seen [10]bool
	n := 0
	for i := range v {
		if d := digit(v, i); !seen[d] {
			seen[d] = true
			n++
		}
	}
	run := 0 // of digits that repeat, or go up by one
	for i := 1; i < len(v); i++ {
		if v[i] == v[i-1] || v[i] == v[i-1]+1 {
			run++
		}
	}
	return n <= 3 || n <= 4 && run >= len(v)/2 || run >= len(v)-3
}

// ibanLengths by country, as the registry has them.
var ibanLengths = map[string]int{
	"AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BI": 27, "BR": 29,
	"BY": 28,
	"CH": 21, "CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DJ": 27, "DK": 18, "DO": 28, "EE": 20, "EG": 29, "ES": 24,
	"FI": 18,
	"FK": 18, "FO": 18, "FR": 27, "GB": 22, "GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28, "HN": 28, "HR": 21,
	"HU": 28,
	"IE": 22, "IL": 23, "IQ": 23, "IS": 26, "IT": 27, "JO": 30, "KW": 30, "KZ": 20, "LB": 28, "LC": 32, "LI": 21,
	"LT": 20,
	"LU": 20, "LV": 21, "LY": 25, "MC": 27, "MD": 24, "ME": 22, "MK": 19, "MN": 20, "MR": 27, "MT": 31, "MU": 30,
	"NI": 28,
	"NL": 18, "NO": 15, "OM": 23, "PK": 24, "PL": 28, "PS": 29, "PT": 25, "QA": 29, "RO": 24, "RS": 22, "RU": 33,
	"SA": 24,
	"SC": 31, "SD": 18, "SE": 24, "SI": 19, "SK": 24, "SM": 27, "SO": 23, "ST": 25, "SV": 28, "TL": 23, "TN": 24,
	"TR": 26,
	"UA": 29, "VA": 22, "VG": 24, "XK": 20, "YE": 30, "DZ": 26, "AO": 25, "BF": 28, "BJ": 28, "CF": 27, "CG": 27,
	"CI": 28,
	"CM": 27, "CV": 25, "GA": 27, "GQ": 27, "GW": 25, "IR": 26, "KM": 27, "MA": 28, "MG": 27, "ML": 28, "MZ": 25,
	"NE": 28,
	"SN": 28, "TD": 27, "TG": 28,
}

// iban reads an account number that begins with the word t[from:to].
func (s *scan) iban(from, to int) int {
	if to-from < 4 || !isAlpha(s.t[from]) || !isAlpha(s.t[from+1]) || !isDigit(s.t[from+2]) || !isDigit(s.t[from+3]) {
		return 0
	}
	country := [2]byte{upper(s.t[from]), upper(s.t[from+1])}
	length := ibanLengths[string(country[:])]
	if length == 0 || isWord(at(s.t, from-1)) || at(s.t, from-1) == '_' {
		return 0
	}
	var v [34]byte
	n, i := 0, from
	small, large := false, false
	for ; i < len(s.t) && n < length; i++ {
		c := s.t[i]
		if c == ' ' || c == '-' || c == 0xa0 || c == 0xc2 && at(s.t, i+1) == 0xa0 {
			if !isWord(s.t[i-1]) && s.t[i-1] != 0xc2 || n < 4 {
				return 0
			}
			continue
		}
		if !isWord(c) {
			return 0
		}
		small, large = small || isLower(c), large || isUpper(c)
		v[n] = upper(c)
		n++
	}
	if n < length || isWord(at(s.t, i)) || small && large {
		return 0
	}
	rotated := v
	copy(rotated[:], v[4:length])
	copy(rotated[length-4:], v[:4])
	if mod97(rotated[:length]) != 1 {
		return 0
	}
	confidence := float32(0.95)
	if small {
		confidence = 0.8
	}
	s.add("IBAN", from, i, confidence)
	return i
}

// swift looks for a bank's code behind the words that announce one.
func (s *scan) swift(h scanner.Hit) {
	if h.Start < s.wordsUpTo || isAlpha(at(s.t, h.Start-1)) || isAlpha(at(s.t, h.End)) {
		return
	}
	stop := min(len(s.t), h.End+32)
	s.wordsUpTo = stop
	for i := h.End; i < stop; i++ {
		if !isUpper(s.t[i]) || isWord(s.t[i-1]) {
			continue
		}
		end := i
		letters := 0
		for end < len(s.t) && end-i < 12 && (isUpper(s.t[end]) || isDigit(s.t[end])) {
			if end-i < 6 && isUpper(s.t[end]) {
				letters++
			}
			end++
		}
		if n := end - i; (n == 8 || n == 11) && letters == 6 && !isWord(at(s.t, end)) && knownCountry(s.t[i+4:i+6]) {
			s.add("SWIFT_BIC", i, end, 0.7)
		}
		i = end
	}
}

const countries = "ADAEAFAGAIALAMAOARATAUAWAZBABBBDBEBFBGBHBIBJBMBNBOBRBSBTBWBYBZCACDCFCGCHCICLCMCN" +
	"COCRCUCVCYCZDEDJDKDMDODZECEEEGERESETFIFJFKFMFOFRGAGBGDGEGGGHGIGLGMGNGQGRGTGUGWGY" +
	"HKHNHRHTHUIDIEILIMINIQIRISITJEJMJOJPKEKGKHKIKMKNKPKRKWKYKZLALBLCLILKLRLSLTLULVLY" +
	"MAMCMDMEMGMHMKMLMMMNMOMRMSMTMUMVMWMXMYMZNANCNENGNINLNONPNRNZOMPAPEPFPGPHPKPLPRPS" +
	"PTPWPYQARORSRURWSASBSCSDSESGSISKSLSMSNSOSRSSSTSVSYSZTCTDTGTHTJTLTMTNTOTRTTTVTWTZ" +
	"UAUGUSUYUZVAVCVEVGVIVNVUWSXKYEZAZMZW"

func knownCountry(code []byte) bool {
	for i := 0; i < len(countries); i += 2 {
		if countries[i] == code[0] && countries[i+1] == code[1] {
			return true
		}
	}
	return false
}
