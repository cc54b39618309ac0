package main

// The finders of digitFinders, as bits.
const (
	mayNetwork = 1 << iota
	mayDate
	mayIBAN
	mayShaped
	mayPhone
	mayAge
	mayStreet
	mayZip
)

// possible looks at the bytes around a word with digits, t[from:to], and says which finders could find anything: most
// numbers of a text are nothing, and this is all that they cost. The finders decide.
func possible(t []byte, from, to int) (may uint8) {
	b2, b1, a0, a1 := at(t, from-2), at(t, from-1), at(t, to), at(t, to+1)
	n := to - from
	digits := 0
	for digits < 7 && digits < n && isDigit(t[from+digits]) {
		digits++
	}
	if joins[a0] {
		may = byNext(a0, a1)
	}
	if joins[b1] {
		may |= byPrevious(b2, b1, from)
	}
	switch a1 | 0x20 {
	case 'y', 'j', 'a':
		may |= mayAge
	}
	if digits == 7 || digits == 6 && (b1 == ' ' || b1 == '-' || b1 == '.' || b1 == ')') {
		may |= mayPhone
	}
	if digits < n || n >= 6 || from == 0 {
		may |= mayShaped
	}
	if from == 0 || digits < n {
		may |= mayDate
	}
	if n > 4 && a0 == ' ' && b1 == ' ' {
		may &^= mayDate
	}
	if n > 3 || digits < n {
		may &^= mayAge
	}
	if n >= 4 && isAlpha(t[from]) && isAlpha(t[from+1]) {
		may |= mayIBAN
	}
	if digits < 3 || n > 5 || digits == 3 && a0 != ' ' || ends[b1] && (b1 != '.' && b1 != '-' && b1 != '/' || isWord(b2)) {
		return may
	}
	if from == 0 || isUpper(b2) {
		return may | mayZip
	}
	for _, c := range t[max(0, from-20):from] {
		if postal[c] {
			return may | mayZip
		}
	}
	return may
}

// joins are the bytes beside a word that byNext and byPrevious know.
var joins = tableOf(".:-/ ()+")

// ends are bytes before a number that cannot be a postal code, some of them only behind a word.
var ends = tableOf("_$%\\.-/")

// postal are letters of which every word for postal codes has one.
var postal = tableOf("zpZP")

func tableOf(bytes string) (table [256]bool) {
	for i := range len(bytes) {
		table[bytes[i]] = true
	}
	return table
}

// byNext judges by the two bytes behind a word.
func byNext(a0, a1 byte) (may uint8) {
	switch a0 {
	case '.', ':', '-', '/':
		if isWord(a1) {
			may |= mayDate | mayShaped
		}
		if isHex(a1) || a1 == ':' {
			may |= mayNetwork
		}
		if isDigit(a1) || a1 == '(' {
			may |= mayPhone
		}
	case ' ':
		switch {
		case isDigit(a1):
			may |= mayShaped | mayPhone | mayStreet
		case isUpper(a1):
			may |= mayShaped | mayDate | mayStreet
		case isLower(a1):
			may |= mayDate
		case a1 == '(':
			may |= mayPhone
		case a1 >= 0x80:
			may |= mayStreet
		}
	case '(', ')', '+':
		may |= mayShaped | mayPhone
	}
	return may
}

// byPrevious judges by the two bytes before a word.
func byPrevious(b2, b1 byte, from int) (may uint8) {
	switch b1 {
	case '.', ':', '-', '/':
		if isHex(b2) || b2 == ':' {
			may |= mayNetwork
		}
		if isWord(b2) {
			may |= mayDate | mayShaped
		}
	case ' ':
		if isAlpha(b2) || b2 == ',' || b2 == '.' {
			may |= mayDate | mayStreet
		}
		if isUpper(b2) || isDigit(b2) || from < 6 {
			may |= mayShaped
		}
		if b2 == 'n' || b2 == 'd' || b2 == 'e' || b2 == 'g' || b2 == ':' {
			may |= mayAge
		}
	case '+', '(':
		may |= mayPhone
	}
	return may
}
