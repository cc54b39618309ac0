package main

// Checks of numbers by their own digits. v holds the characters of a number alone, capitals, separators left out. Each
// rule's shape has fixed the length and which characters are digits.

// luhn is the check of ISO/IEC 7812-1.
func luhn(v []byte) bool { return luhnSum(v)%10 == 0 }

func luhnSum(v []byte) int {
	sum, double := 0, false
	for i := len(v) - 1; i >= 0; i-- {
		d := digit(v, i)
		if double {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
		double = !double
	}
	return sum
}

// mod1110 is ISO 7064 MOD 11,10, which German and Croatian numbers use.
func mod1110(v []byte) bool {
	p := 10
	for i := range len(v) - 1 {
		sum := (digit(v, i) + p) % 10
		if sum == 0 {
			sum = 10
		}
		p = sum * 2 % 11
	}
	return (11-p)%10 == digit(v, len(v)-1)
}

// mod97 is ISO 7064 MOD 97-10 over digits and letters, A = 10.
func mod97(v []byte) int {
	r := 0
	for _, c := range v {
		if isDigit(c) {
			r = (r*10 + int(c-'0')) % 97
		} else {
			r = (r*100 + int(c-'A') + 10) % 97
		}
	}
	return r
}

// decimal97 is the remainder by 97 of a number of many digits.
func decimal97(v []byte) int {
	r := 0
	for _, c := range v {
		r = (r*10 + int(c-'0')) % 97
	}
	return r
}

var (
	verhoeffTimes = [10][10]byte{
		{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 2, 3, 4, 0, 6, 7, 8, 9, 5}, {2, 3, 4, 0, 1, 7, 8, 9, 5, 6},
		{3, 4, 0, 1, 2, 8, 9, 5, 6, 7}, {4, 0, 1, 2, 3, 9, 5, 6, 7, 8}, {5, 9, 8, 7, 6, 0, 4, 3, 2, 1},
		{6, 5, 9, 8, 7, 1, 0, 4, 3, 2}, {7, 6, 5, 9, 8, 2, 1, 0, 4, 3}, {8, 7, 6, 5, 9, 3, 2, 1, 0, 4},
		{9, 8, 7, 6, 5, 4, 3, 2, 1, 0},
	}
	verhoeffTurn = [8][10]byte{
		{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 5, 7, 6, 2, 8, 3, 0, 9, 4}, {5, 8, 0, 3, 7, 9, 6, 1, 4, 2},
		{8, 9, 1, 6, 0, 4, 3, 5, 2, 7}, {9, 4, 5, 3, 1, 2, 6, 8, 7, 0}, {4, 2, 8, 6, 5, 7, 3, 9, 0, 1},
		{2, 7, 9, 3, 8, 0, 6, 4, 1, 5}, {7, 0, 4, 6, 9, 1, 3, 2, 5, 8},
	}
)

func verhoeff(v []byte) bool {
	c := byte(0)
	for i := range len(v) {
		c = verhoeffTimes[c][verhoeffTurn[i%8][v[len(v)-1-i]-'0']]
	}
	return c == 0
}

// remainder11: the last digit is the weighted sum modulo 11, where 10 counts as ten.
func remainder11(ten int, weights ...int) func([]byte) bool {
	return func(v []byte) bool {
		r := digitSum(v, weights...) % 11
		if r == 10 {
			r = ten
		}
		return r == digit(v, len(weights)) && !same(v)
	}
}

// complement11: the last digit is 11 less the weighted sum modulo 11; 11 counts as 0 and 10 as ten.
func complement11(ten int, weights ...int) func([]byte) bool {
	return func(v []byte) bool {
		r := (11 - digitSum(v, weights...)%11) % 11
		if r == 10 {
			r = ten
		}
		return r == digit(v, len(weights)) && !same(v)
	}
}

// complement10: the last digit is 10 less the weighted sum modulo 10.
func complement10(weights ...int) func([]byte) bool {
	return func(v []byte) bool {
		return (10-digitSum(v, weights...)%10)%10 == digit(v, len(weights)) && !same(v)
	}
}

// both holds when all checks do.
func both(checks ...func([]byte) bool) func([]byte) bool {
	return func(v []byte) bool {
		for _, ok := range checks {
			if !ok(v) {
				return false
			}
		}
		return true
	}
}

// firstOf holds when the first character is one of set.
func firstOf(set string) func([]byte) bool { return charAt(0, set) }

// charAt holds when the character at i is one of set.
func charAt(i int, set string) func([]byte) bool {
	return func(v []byte) bool {
		for k := range len(set) {
			if set[k] == v[i] {
				return true
			}
		}
		return false
	}
}

// dateYMD holds when six digits from i are year, month and day.
func dateYMD(i int) func([]byte) bool {
	return func(v []byte) bool { return dayMonth(number(v[i+4:i+6]), number(v[i+2:i+4])) }
}

// dateDMY holds when six digits from i are day, month and year.
func dateDMY(i int) func([]byte) bool {
	return func(v []byte) bool { return dayMonth(number(v[i:i+2]), number(v[i+2:i+4])) }
}

// century tells whether four digits from i are a year in which a living person may be born.
func century(i int) func([]byte) bool {
	return func(v []byte) bool { y := number(v[i : i+4]); return y >= 1880 && y <= 2100 }
}

func always([]byte) bool { return true }
