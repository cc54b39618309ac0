package main

// Checks of Asian and African numbers that need more than a weighted sum.

func cnResident(v []byte) bool {
	sum := digitSum(v, 7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
	return v[0] != '0' && v[0] != '9' && century(6)(v) && dayMonth(number(v[12:14]), number(v[10:12])) &&
		v[17] == "10X98765432"[sum%11]
}

func zaPerson(v []byte) bool {
	return dateYMD(0)(v) && v[10] <= '2' && (v[11] == '8' || v[11] == '9') && luhn(v)
}

// thPerson: the second and third digits are a province.
func thPerson(v []byte) bool {
	p := number(v[1:3])
	known := p >= 10 && p <= 27 || p >= 30 && p <= 58 || p >= 60 && p <= 67 || p >= 70 && p <= 77 ||
		p >= 80 && p <= 86 || p >= 90 && p <= 96
	return v[0] != '0' && v[0] != '9' && known && !same(v) &&
		(11-digitSum(v, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2)%11)%10 == digit(v, 12)
}

func jpNumber(v []byte) bool {
	r := digitSum(v, 6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2) % 11
	if r <= 1 {
		return v[11] == '0' && !same(v)
	}
	return 11-r == digit(v, 11)
}

// krPerson: birth date, then a digit for sex, century and origin, then a place of registration.
func krPerson(origin string) func([]byte) bool {
	return both(dateYMD(0), charAt(6, origin), func(v []byte) bool { return number(v[7:9]) <= 96 })
}

func krBusiness(v []byte) bool {
	sum := digitSum(v, 1, 3, 7, 1, 3, 7, 1, 3, 5) + digit(v, 8)*5/10
	return (10-sum%10)%10 == digit(v, 9) && v[0] != '0'
}

func krLicence(v []byte) bool { r := number(v[:2]); return r >= 11 && r <= 28 && r != 27 }

func sgPerson(v []byte) bool {
	sum := digitSum(v[1:], 2, 7, 6, 5, 4, 3, 2)
	switch v[0] {
	case 'S':
		return v[8] == "JZIHGFEDCBA"[sum%11]
	case 'T':
		return v[8] == "JZIHGFEDCBA"[(sum+4)%11]
	case 'F':
		return v[8] == "XWUTRQPNMLK"[sum%11]
	case 'G':
		return v[8] == "XWUTRQPNMLK"[(sum+4)%11]
	case 'M':
		return v[8] == "KLJNPQRTUWX"[10-(sum+3)%11]
	}
	return false
}

// hkPerson: one or two letters, six digits, a check character.
func hkPerson(v []byte) bool {
	sum, w := 0, len(v)
	if w == 8 {
		sum = 36 * 9
	}
	for i, c := range v[:len(v)-1] {
		n := int(c - '0')
		if isUpper(c) {
			n = int(c-'A') + 10
		}
		sum += n * (w - i)
	}
	r := (11 - sum%11) % 11
	return v[len(v)-1] == "0123456789A"[r]
}

func twPerson(v []byte) bool {
	const order = "ABCDEFGHJKLMNPQRSTUVXYWZIO"
	n := 10
	for i := range len(order) {
		if order[i] == v[0] {
			n += i
		}
	}
	return (v[1] == '1' || v[1] == '2' || v[1] == '8' || v[1] == '9') &&
		(n/10+n%10*9+digitSum(v[1:], 8, 7, 6, 5, 4, 3, 2, 1, 1))%10 == 0
}

func inPAN(v []byte) bool { return charAt(3, "ABCFGHJLPT")(v) }

func inGSTIN(v []byte) bool {
	state := number(v[:2])
	return state >= 1 && state <= 37 && v[13] == 'Z' && v[12] != '0'
}

func inAadhaar(v []byte) bool { return v[0] >= '2' && verhoeff(v) && !same(v) }

func inPassport(v []byte) bool {
	return charAt(0, "ABCDEFGHIJKLMNOPRSTUVWY")(v) && v[1] != '0' && v[len(v)-1] != '0'
}

func plausibleNIK(v []byte) bool { // Indonesia: province, then a date whose day has 40 added for women
	p := number(v[:2])
	return p >= 11 && p <= 94 && dayMonth(number(v[6:8])%40, number(v[8:10]))
}

// uenSigns are the signs of the numbers of other entities, in the order of their values.
const uenSigns = "ABCDEFGHJKLMNPQRSTUVWX0123456789"

func sgUEN(v []byte) bool {
	switch len(v) {
	case 9: // business: eight digits and a letter
		return v[8] == "XMKECAWLJDB"[digitSum(v, 10, 4, 9, 3, 8, 2, 7, 1)%11]
	case 10:
		if isDigit(v[0]) { // local company: year, number, letter
			return century(0)(v) && v[9] == "ZKCMDNERGWH"[digitSum(v, 10, 8, 6, 4, 9, 7, 5, 3, 1)%11]
		}
		sum := 0
		for i, w := range [9]int{4, 3, 5, 3, 10, 2, 2, 5, 7} {
			for n := range len(uenSigns) {
				if uenSigns[n] == v[i] {
					sum += n * w
				}
			}
		}
		return charAt(0, "RST")(v) && !hasLetter(v, "IOYZ") && v[9] == uenSigns[(sum+6)%11]
	}
	return false
}
