package main

func itVAT(v []byte) bool {
	if isAlpha(v[0]) {
		return string(v[:2]) == "IT" && luhn(v[2:])
	}
	return luhn(v) && !same(v)
}

func plCard(v []byte) bool {
	sum := 0
	for i, w := range [9]int{7, 3, 1, 9, 7, 3, 1, 7, 3} {
		n := int(v[i] - '0')
		if isUpper(v[i]) {
			n = int(v[i]-'A') + 10
		}
		sum += n * w
	}
	return sum%10 == 0
}

// inPlate checks the code of an Indian state.
func inPlate(v []byte) bool {
	switch string(v[:2]) {
	case "AN", "AP", "AR", "AS", "BR", "CG", "CH", "DD", "DL", "DN", "GA", "GJ", "HP", "HR", "JH", "JK", "KA", "KL",
		"LA",
		"LD", "MH", "ML", "MN", "MP", "MZ", "NL", "OD", "OR", "PB", "PY", "RJ", "SK", "TG", "TN", "TR", "TS", "UK",
		"UP",
		"WB":
		return true
	}
	return false
}

// deElster is the form of a tax number with the country's code: two digits of the state first, or the tax office's
// number and a zero.
func deElster(v []byte) bool {
	state := number(v[:2])
	return (state >= 1 && state <= 16 || v[4] == '0' && state < 60) && !same(v)
}

// myPlace tells whether the place of birth is one of Malaysia's codes.
func myPlace(v []byte) bool {
	p := number(v[6:8])
	return p > 0 && p != 17 && p != 18 && p != 19 && p != 20 && p != 69 && p != 70 && p != 73 && p != 80 && p != 81
}

// phTIN checks the digit of a Philippine taxpayer number.
func phTIN(v []byte) bool {
	return digitSum(v, 1, 2, 3, 4, 5, 6, 7, 8)%11%10 == digit(v, 8) || digitSum(v, 9, 8, 7, 6, 5, 4, 3,
		2)%11%10 == digit(v, 8)
}

func auTFN(v []byte) bool {
	if len(v) == 8 {
		return digitSum(v, 10, 7, 8, 4, 6, 3, 5, 1)%11 == 0 && !same(v)
	}
	return digitSum(v, 1, 4, 3, 7, 5, 8, 6, 9, 10)%11 == 0 && !same(v)
}

func nzIRD(v []byte) bool {
	var d [9]byte
	d[0] = '0'
	copy(d[9-len(v):], v)
	n := number(d[:])
	if n < 10000000 || n > 150000000 {
		return false
	}
	r := (11 - digitSum(d[:], 3, 2, 7, 6, 5, 4, 3, 2)%11) % 11
	if r == 10 {
		r = (11 - digitSum(d[:], 7, 4, 3, 2, 5, 2, 7, 6)%11) % 11
	}
	return r == digit(d[:], 8)
}

func caSIN(v []byte) bool { return v[0] != '0' && v[0] != '8' && luhn(v) && !same(v) }

// mxRFC: a date between the initials and the homonym key.
func mxRFC(v []byte) bool { return dateYMD(len(v) - 9)(v) }

func arCUIT(v []byte) bool {
	switch number(v[:2]) {
	case 20, 23, 24, 25, 26, 27, 30, 33, 34:
		return complement11(9, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2)(v)
	}
	return false
}

// deLicence: the authority (letter, two digits, a sign), five signs, a check digit and an issue number; or two letters
// of a district and numbers.
func deLicence(v []byte) bool {
	digits := 0
	for _, c := range v {
		if isDigit(c) {
			digits++
		}
	}
	card := isUpper(v[0]) && isDigit(v[1]) && isDigit(v[2]) && (isDigit(v[9]) || v[9] == 'X')
	return (card || isUpper(v[0]) && digits >= 8 && isDigit(v[9])) && !same(v[3:])
}

// ukPlate: two letters, the half-year, three letters; or the older forms with the year's letter first or last.
func ukPlate(v []byte) bool {
	if len(v) == 7 && isUpper(v[1]) && isDigit(v[2]) && isDigit(v[3]) && isUpper(v[4]) {
		half := number(v[2:4])
		return (half >= 2 && half <= 29 || half >= 51 && half <= 79) && !charAt(0, "IQZ")(v) && !charAt(1, "IQZ")(v) &&
			!hasLetter(v[4:], "IQ")
	}
	if isDigit(v[1]) {
		return v[1] != '0' && !charAt(0, "IOQUZ")(v) && !hasLetter(v[len(v)-3:], "IQZ")
	}
	return v[3] != '0' && !hasLetter(v[:3], "IQZ") && !charAt(len(v)-1, "IOQUZ")(v)
}

// trPlate checks the province.
func trPlate(v []byte) bool { p := number(v[:2]); return p >= 1 && p <= 81 && !hasLetter(v, "QWX") }

func hasLetter(v []byte, set string) bool {
	for i := range v {
		if charAt(i, set)(v) {
			return true
		}
	}
	return false
}

// onlyNamed is the check of numbers that have none: rules with it count only where a word speaks of them.
func onlyNamed(v []byte) bool { return !same(v) && !sequentialWhole(v) }

func sequentialWhole(v []byte) bool { return len(v) > 9 && sequential(v) }

// usLicence: numbers alone are too many to be licences, so digits need a word; one letter and eight digits do not.
func usLicence(v []byte) bool { return !same(v) }

func esShortNIF(v []byte) bool { return v[7] == spanishLetters[number(v[:7])%23] }

// germanPlates are the shapes of number plates: a district, one or two letters, up to four digits, E or H.
func germanPlates() string {
	list := ""
	for _, district := range []string{"a1", "a2", "a3"} {
		for _, first := range []string{"-", " "} {
			for _, letters := range []string{"a1", "a2"} {
				for _, second := range []string{" ", "-", ""} {
					for _, digits := range []string{"d2", "d3", "d4"} {
						shape := district + first + letters + second + digits
						if list != "" {
							list += "|"
						}
						list += shape + "|" + shape + "a1"
					}
				}
			}
		}
	}
	return list
}

// postcode is a British postcode written without its space.
func postcode(v []byte) bool {
	n := len(v) - 3
	return isDigit(v[n]) && outward(v[:n]) && !hasLetter(v[n+1:], "CIKMOV")
}
