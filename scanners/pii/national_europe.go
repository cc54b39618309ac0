package main

// Checks of European numbers that need more than a weighted sum.

func pesel(v []byte) bool {
	return dayMonth(number(v[4:6]), number(v[2:4])%20) && digitSum(v, 1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1)%10 == 0
}

// deTaxID: of the first ten digits one occurs twice or three times, and the rest at most once.
func deTaxID(v []byte) bool {
	var count [10]int
	for i := range 10 {
		count[digit(v, i)]++
	}
	repeated := 0
	for _, n := range count {
		if n > 3 {
			return false
		}
		if n > 1 {
			repeated++
		}
	}
	return v[0] != '0' && repeated == 1 && mod1110(v)
}

// icaoCheck is the check digit of machine-readable documents, weights 7 3 1.
func icaoCheck(v []byte) byte {
	sum := 0
	for i, c := range v {
		value := int(c - '0')
		if isUpper(c) {
			value = int(c-'A') + 10
		}
		sum += value * [3]int{7, 3, 1}[i%3]
	}
	return '0' + byte(sum%10)
}

// deDocument is the number of an identity card or passport: no vowels, its check digit last, or T and eight digits.
func deDocument(v []byte) bool {
	if !charAt(0, "CFGHJKLMNPRTVWXYZ")(v) {
		return false
	}
	digits := 0
	for i, c := range v {
		if isDigit(c) {
			digits++
		} else if !charAt(i, "CFGHJKLMNPRTVWXYZ")(v) {
			return false
		}
	}
	return v[0] == 'T' && digits == 8 || len(v) == 9 && v[8] == icaoCheck(v[:8]) || len(v) == 10 &&
		v[9] == icaoCheck(v[:9])
}

// crossSum adds the digits of each digit's product.
func crossSum(v []byte, weights ...int) int {
	sum := 0
	for i, w := range weights {
		p := digit(v, i) * w
		sum += p/10 + p%10
	}
	return sum
}

// deHealth is a Krankenversichertennummer: a letter and nine digits.
func deHealth(v []byte) bool {
	n := int(v[0]-'A') + 1
	d := append([]byte{byte('0' + n/10), byte('0' + n%10)}, v[1:9]...)
	return crossSum(d, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2)%10 == digit(v, 9)
}

// dePension is a Rentenversicherungsnummer: area, birth date, letter, serial, check.
func dePension(v []byte) bool {
	n := int(v[8]-'A') + 1
	d := append(append([]byte{}, v[:8]...), byte('0'+n/10), byte('0'+n%10), v[9], v[10])
	day := number(v[2:4])
	return day%50 >= 1 && day%50 <= 31 && dayMonth(day%50, number(v[4:6])) &&
		crossSum(d, 2, 1, 2, 5, 7, 1, 2, 1, 2, 1, 2, 1)%10 == digit(v, 11)
}

// deDoctor is a Lebenslange Arztnummer.
func deDoctor(v []byte) bool {
	return (10-digitSum(v, 4, 9, 4, 9, 4, 9)%10)%10 == digit(v, 6) && !same(v[:6]) && !same(v)
}

func deClinic(v []byte) bool { return number(v[:2]) > 0 && !same(v) }

func frNIR(v []byte) bool {
	d := append([]byte{}, v...)
	if v[5] == '2' && (v[6] == 'A' || v[6] == 'B') { // Corsica: 2A counts as 19, 2B as 18
		d[5], d[6] = '1', '9'-(v[6]-'A')
	}
	for _, c := range d {
		if !isDigit(c) {
			return false
		}
	}
	month := number(d[3:5])
	return d[0] != '0' && d[0] != '9' && (month >= 1 && month <= 12 || month >= 20) &&
		97-decimal97(d[:13]) == number(d[13:15])
}

const spanishLetters = "TRWAGMYFPDXBNJZSQVHLCKE"

func esNIF(v []byte) bool { return v[8] == spanishLetters[number(v[:8])%23] }

func esNIE(v []byte) bool {
	return v[0] >= 'X' && v[0] <= 'Z' && v[8] == spanishLetters[(int(v[0]-'X')*10000000+number(v[1:8]))%23]
}

func esCIF(v []byte) bool {
	sum := luhnSum(append(append([]byte{}, v[1:8]...), '0'))
	check := (10 - sum%10) % 10
	return charAt(0, "ABCDEFGHJNPQRSUVW")(v) && (v[8] == byte('0'+check) || v[8] == "JABCDEFGHI"[check])
}

// itFiscal checks the last letter of a codice fiscale; digits may be replaced by letters (omocodia).
func itFiscal(v []byte) bool {
	sum := 0
	for i := range 15 {
		n := int(v[i] - '0')
		if isUpper(v[i]) {
			n = int(v[i] - 'A')
		}
		if i%2 == 1 {
			sum += n
			continue
		}
		sum += itOdd[n]
	}
	return v[15] == byte('A'+sum%26)
}

var itOdd = [26]int{1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23}

// itFiscalForm: month letter and day.
func itFiscalForm(v []byte) bool {
	day := number(v[9:11]) % 40
	return charAt(8, "ABCDEHLMPRST")(v) && (day >= 1 && day <= 31 || number(v[9:11]) == 0)
}

func ptNIF(v []byte) bool {
	r := digitSum(v, 9, 8, 7, 6, 5, 4, 3, 2) % 11
	return charAt(0, "1235689")(v) && (11-r)%11%10 == digit(v, 8)
}

func nlBSN(v []byte) bool {
	return (digitSum(v, 9, 8, 7, 6, 5, 4, 3, 2)-digit(v, 8))%11 == 0 && !same(v)
}

func beNational(v []byte) bool {
	month, day := number(v[2:4]), number(v[4:6])
	if month%20 > 12 || day > 31 { // unknown dates have month or day 0; 20 and 40 are added for foreigners
		return false
	}
	n, check := number(v[:9]), number(v[9:11])
	return 97-n%97 == check || 97-(2000000000+n)%97 == check
}

// sePerson: the last ten digits by Luhn; the day of a coordination number has 60 added.
func sePerson(v []byte) bool {
	v = v[len(v)-10:]
	day := number(v[4:6])
	return dayMonth(day%60, number(v[2:4])) && day < 92 && luhn(v) && !same(v)
}

func seOrganisation(v []byte) bool {
	return v[2] >= '2' && v[0] != '0' && v[0] != '4' && luhn(v) && !same(v)
}

// fiHETU has the date first and the check character last; the century sign is left out of v or a letter at 6.
func fiHETU(v []byte) bool {
	serial := v[6:9]
	if len(v) == 11 {
		if !charAt(6, "ABCDEFYXWVU")(v) {
			return false
		}
		serial = v[7:10]
	}
	n := number(v[:6])*1000 + number(serial)
	return dayMonth(number(v[:2]), number(v[2:4])) &&
		v[len(v)-1] == "0123456789ABCDEFHJKLMNPRSTUVWXY"[n%31]
}

func noPerson(v []byte) bool {
	day, month := number(v[:2]), number(v[2:4])
	return dayMonth(day%40, month%40) &&
		digitSum(v, 3, 7, 6, 1, 8, 9, 4, 5, 2, 1)%11 == 0 && digitSum(v, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2, 1)%11 == 0
}

func chAHV(v []byte) bool {
	return string(v[:3]) == "756" && digitSum(v, 1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1)%10 == 0
}

func atSVNR(v []byte) bool {
	return v[0] != '0' && dateDMY(4)(v) && digitSum(v, 3, 7, 9, 0, 5, 8, 4, 2, 1, 6)%11 == digit(v, 3)
}

func trPerson(v []byte) bool {
	odd, even := 0, 0
	for i := 0; i < 9; i += 2 {
		odd += digit(v, i)
	}
	for i := 1; i < 9; i += 2 {
		even += digit(v, i)
	}
	tenth := ((odd*7-even)%10 + 10) % 10
	return v[0] != '0' && tenth == digit(v, 9) && (odd+even+tenth)%10 == digit(v, 10)
}

func ieTax(v []byte) bool {
	sum := digitSum(v, 8, 7, 6, 5, 4, 3, 2)
	if len(v) == 9 {
		sum += int(v[8]-'A'+1) * 9
	}
	return v[7] == "WABCDEFGHIJKLMNOPQRSTUV"[sum%23]
}

func czPerson(v []byte) bool {
	month := number(v[2:4])
	n := number(v[:9])*10 + digit(v, 9)
	return month%50%20 >= 1 && month%50%20 <= 12 && number(v[4:6]) >= 1 && number(v[4:6]) <= 31 && n%11 == 0
}

// baltic is the number of Estonia and Lithuania, checked in one or two rounds.
func baltic(v []byte) bool {
	r := digitSum(v, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1) % 11
	if r == 10 {
		r = digitSum(v, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3) % 11 % 10
	}
	return v[0] >= '1' && v[0] <= '8' && dateYMD(1)(v) && r == digit(v, 10)
}

func roPerson(v []byte) bool {
	r := digitSum(v, 2, 7, 9, 1, 4, 6, 3, 5, 8, 2, 7, 9) % 11
	if r == 10 {
		r = 1
	}
	return v[0] != '0' && dateYMD(1)(v) && r == digit(v, 12)
}

func ruINN(v []byte) bool {
	return digitSum(v, 7, 2, 4, 10, 3, 5, 9, 4, 6, 8)%11%10 == digit(v, 10) &&
		digitSum(v, 3, 7, 2, 4, 10, 3, 5, 9, 4, 6, 8)%11%10 == digit(v, 11)
}

func ruSNILS(v []byte) bool {
	return digitSum(v, 9, 8, 7, 6, 5, 4, 3, 2, 1)%101%100 == number(v[9:11]) && !same(v)
}

// deVATForm: the authority publishes no check, and mod1110 is what everybody has found; where a word speaks of the
// number, one that fails it is one all the same.
func deVATForm(v []byte) bool { return string(v[:2]) == "DE" && v[2] != '0' && !same(v[2:]) }

func plVAT(v []byte) bool {
	return string(v[:2]) == "PL" && remainder11(10, 6, 5, 7, 2, 3, 4, 5, 6, 7)(v[2:])
}

func ptVAT(v []byte) bool { return string(v[:2]) == "PT" && ptNIF(v[2:]) }

// seVAT is SE, the number of an organisation and 01.
func seVAT(v []byte) bool {
	return string(v[:2]) == "SE" && string(v[12:]) == "01" && (seOrganisation(v[2:12]) || sePerson(v[2:12]))
}

func deVAT(v []byte) bool { return string(v[:2]) == "DE" && !same(v[2:]) && mod1110(v[2:]) }
