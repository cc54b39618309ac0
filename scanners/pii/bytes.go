package main

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
func isDigit(c byte) bool { return c-'0' <= 9 }
func isAlpha(c byte) bool { return isLower(c | 0x20) }
func isWord(c byte) bool  { return isAlpha(c) || isDigit(c) }
func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
func isHex(c byte) bool   { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }

func upper(c byte) byte {
	if isLower(c) {
		return c &^ 0x20
	}
	return c
}

func lower(c byte) byte {
	if isUpper(c) {
		return c | 0x20
	}
	return c
}

// at gives the byte at i, and a space outside the text.
func at(t []byte, i int) byte {
	if i < 0 || i >= len(t) {
		return ' '
	}
	return t[i]
}

// hasPrefix tells whether lit stands at i, ASCII case aside; lit is lower case.
func hasPrefix(t []byte, i int, lit string) bool {
	if i < 0 || len(t)-i < len(lit) {
		return false
	}
	for k := range len(lit) {
		if lower(t[i+k]) != lit[k] {
			return false
		}
	}
	return true
}

// number reads decimal digits; values beyond nine digits are not asked for.
func number(v []byte) int {
	n := 0
	for _, c := range v {
		n = n*10 + int(c-'0')
	}
	return n
}

// digitSum adds digits by weights.
func digitSum(v []byte, weights ...int) int {
	sum := 0
	for i, w := range weights {
		sum += int(v[i]-'0') * w
	}
	return sum
}

// digit gives the value of the digit at i.
func digit(v []byte, i int) int { return int(v[i] - '0') }

// same tells whether all bytes are one and the same.
func same(v []byte) bool {
	for _, c := range v {
		if c != v[0] {
			return false
		}
	}
	return true
}

// sequential tells whether each digit is one more, or one less, than the one before it, 9 and 0 being neighbours.
func sequential(v []byte) bool {
	up, down := true, true
	for i := 1; i < len(v); i++ {
		step := (int(v[i]) - int(v[i-1]) + 10) % 10
		up, down = up && step == 1, down && step == 9
	}
	return up || down
}

var monthDays = [13]int{0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

// dayMonth tells whether there is such a day.
func dayMonth(day, month int) bool {
	return month >= 1 && month <= 12 && day >= 1 && day <= monthDays[month]
}
