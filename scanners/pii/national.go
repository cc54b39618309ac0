package main

// Checks of numbers of the Americas, Britain and Australia that need more than a weighted sum.

func usSSN(v []byte) bool {
	area, group, serial := number(v[:3]), number(v[3:5]), number(v[5:9])
	return area != 0 && area != 666 && area < 900 && group != 0 && serial != 0 && !same(v) &&
		string(v) != "123456789" && string(v) != "987654321" && !advertised(v)
}

// advertised are numbers that were printed in advertisements and belong to nobody.
func advertised(v []byte) bool {
	return string(v[:5]) == "07805" && string(v[5:]) == "1120" || string(v[:5]) == "21909" && string(v[5:]) == "9999"
}

func usITIN(v []byte) bool {
	g := number(v[3:5])
	return v[0] == '9' && (g >= 50 && g <= 65 || g >= 70 && g <= 88 || g >= 90 && g <= 92 || g >= 94)
}

// usEIN checks the campus prefix.
func usEIN(v []byte) bool {
	switch p := number(v[:2]); p {
	case 0, 7, 8, 9, 17, 18, 19, 28, 29, 49, 69, 70, 78, 79, 89, 96, 97:
		return false
	default:
		return !same(v[2:])
	}
}

func usRouting(v []byte) bool {
	p := number(v[:2])
	return (p >= 1 && p <= 12 || p >= 21 && p <= 32 || p >= 61 && p <= 72 || p == 80) &&
		digitSum(v, 3, 7, 1, 3, 7, 1, 3, 7, 1)%10 == 0
}

func usNPI(v []byte) bool {
	return (v[0] == '1' || v[0] == '2') && (luhnSum(v)+24)%10 == 0 && !same(v[:9])
}

func usDEA(v []byte) bool {
	return digitSum(v[2:], 1, 2, 1, 2, 1, 2)%10 == digit(v, 8) && charAt(0, "ABCDEFGHJKLMPRSTUX")(v)
}

// usMBI is a Medicare beneficiary identifier: eleven characters of fixed classes.
func usMBI(v []byte) bool {
	for i, c := range v {
		letter := isUpper(c) && !charAt(i, "SLOIBZ")(v)
		switch "1AX9AX9AA99"[i] {
		case '1':
			if c < '1' || c > '9' {
				return false
			}
		case '9':
			if !isDigit(c) {
				return false
			}
		case 'A':
			if !letter {
				return false
			}
		default:
			if !letter && !isDigit(c) {
				return false
			}
		}
	}
	return true
}

func ukNINO(v []byte) bool {
	switch string(v[:2]) {
	case "BG", "GB", "KN", "NK", "NT", "TN", "ZZ":
		return false
	}
	return !charAt(0, "DFIQUV")(v) && !charAt(1, "DFIQUVO")(v) && charAt(8, "ABCDFMP")(v)
}

func ukLicence(v []byte) bool {
	for i, c := range v {
		switch {
		case i < 5 && !isUpper(c) && (c != '9' || i < 1),
			i > 0 && i < 5 && isUpper(c) && v[i-1] == '9',
			i >= 5 && i < 11 && !isDigit(c),
			(i == 11 || i == 12) && !isUpper(c) && c != '9',
			i >= 14 && !isUpper(c):
			return false
		}
	}
	month := number(v[6:8])
	if month > 50 {
		month -= 50
	}
	return dayMonth(number(v[8:10]), month)
}

func twoChecks(first, second []int) func([]byte) bool {
	return func(v []byte) bool {
		check := func(weights []int) bool {
			r := digitSum(v, weights...) % 11
			if r < 2 {
				return v[len(weights)] == '0'
			}
			return 11-r == digit(v, len(weights))
		}
		return check(first) && check(second) && !same(v)
	}
}

var (
	brCPF  = twoChecks([]int{10, 9, 8, 7, 6, 5, 4, 3, 2}, []int{11, 10, 9, 8, 7, 6, 5, 4, 3, 2})
	brCNPJ = twoChecks([]int{5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2}, []int{6, 5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2})
)

func auABN(v []byte) bool {
	return v[0] != '0' && (digitSum(v, 10, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19)-10)%89 == 0
}

func auMedicare(v []byte) bool {
	return v[0] >= '2' && v[0] <= '6' && digitSum(v, 1, 3, 7, 9, 1, 3, 7, 9)%10 == digit(v, 8)
}

// mxCURP: the last digit over base 37 without Ñ counted away.
func mxCURP(v []byte) bool {
	sum := 0
	for i := range 17 {
		n := int(v[i] - '0')
		if isUpper(v[i]) {
			if n = int(v[i]-'A') + 10; v[i] > 'N' {
				n++
			}
		}
		sum += n * (18 - i)
	}
	return (10-sum%10)%10 == digit(v, 17) && dateYMD(4)(v) && charAt(10, "HMX")(v)
}

func clRUT(v []byte) bool {
	sum, w := 0, 2
	for i := len(v) - 2; i >= 0; i-- {
		sum += digit(v, i) * w
		if w++; w == 8 {
			w = 2
		}
	}
	return v[len(v)-1] == "0K987654321"[sum%11]
}

func ecPerson(v []byte) bool { p := number(v[:2]); return p >= 1 && p <= 24 && v[2] < '6' && luhn(v) }
