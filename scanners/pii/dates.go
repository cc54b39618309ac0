package main

import "github.com/yett-dev/yett/sdk/scanner"

var monthNames = []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}

var monthEndings = []string{"", "uary", "ruary", "ch", "il", "e", "y", "ust", "tember", "t", "ober", "ember"}

// month reads the name of a month at i and gives its number and end; 0 if there is none.
func month(t []byte, i int) (n, end int) {
	if isAlpha(at(t, i-1)) {
		return 0, 0
	}
	switch at(t, i) | 0x20 {
	case 'j', 'f', 'm', 'a', 's', 'o', 'n', 'd':
	default:
		return 0, 0
	}
	for m, name := range monthNames {
		if !hasPrefix(t, i, name) {
			continue
		}
		for _, ending := range monthEndings {
			if end = i + 3 + len(ending); hasPrefix(t, i+3, ending) && !isAlpha(at(t, end)) {
				return m + 1, end
			}
		}
	}
	return 0, 0
}

// run gives the digits from i on: how many and their value.
func run(t []byte, i int) (n, value int) {
	for i+n < len(t) && n < 9 && isDigit(t[i+n]) {
		value = value*10 + int(t[i+n]-'0')
		n++
	}
	return n, value
}

// date looks for a day around the word t[from:to].
func (s *scan) date(from, to int) int {
	start := earlierParts(s.t, from)
	end, full := dateAt(s.t, start)
	if end == 0 && start != from {
		start = from
		end, full = dateAt(s.t, start)
	}
	if end == 0 {
		start, end, full = namedMonthBefore(s.t, from)
	}
	if end == 0 || isWord(at(s.t, end)) || at(s.t, end) == '_' || isWord(at(s.t, start-1)) || at(s.t, start-1) == '_' ||
		(at(s.t, end) == '-' || at(s.t, end) == '/') && isWord(at(s.t, end+1)) ||
		end-start == len("85.07.30") && s.t[start+2] == '.' && at(s.t, end) == '.' && isDigit(at(s.t, end+1)) {
		return s.year(from, to)
	}
	if end-start == len("85.07.30") && at(s.t, end) == ' ' && isDigit(at(s.t, end+1)) {
		if number := s.shaped(from, to); number > end { // 85.07.30 033.28
			return number
		}
	}
	if full && s.bornNear(start, end) {
		s.add("DATE_OF_BIRTH", start, end, 0.85)
		return end
	}
	if full && (s.spoken(start) || s.bare) || !full && (start == 0 && end == len(s.t) || s.spoken(start) &&
		s.today(start)) {
		s.add("DATE_TIME", start, end, 0.5)
	}
	if full {
		return end
	}
	return 0
}

// earlierParts gives where a date whose last part is at from may begin: 2/8/1935, 5-May-2021.
func earlierParts(t []byte, from int) int {
	start := from
	for range 2 {
		c := at(t, start-1)
		if c != '-' && c != '/' && c != '.' && c != ' ' {
			break
		}
		i := start - 1
		switch {
		case isDigit(at(t, i-1)) && c != ' ':
			for n := 0; n < 2 && isDigit(at(t, i-1)); n++ {
				i--
			}
		case start == from && isAlpha(at(t, i-1)):
			for n := 0; n < 9 && isAlpha(at(t, i-1)); n++ {
				i--
			}
			if m, _ := month(t, i); m == 0 || !isDigit(at(t, i-2)) {
				return start
			}
			i--
			for n := 0; n < 2 && isDigit(at(t, i-1)); n++ {
				i--
			}
			return i
		default:
			return start
		}
		start = i
	}
	return start
}

// bornNear: the word for birth stands before the date, or close behind it.
func (s *scan) bornNear(start, end int) bool {
	return topicsOf(s.t[max(0, start-48):start], &birthBeginning)&ctxBirth != 0 ||
		topicsOf(s.t[end:min(len(s.t), end+16)], &birthBeginning)&ctxBirth != 0
}

// dateAt reads a date at i. full dates have a year, a month and a day.
func dateAt(t []byte, i int) (end int, full bool) {
	n1, a := run(t, i)
	sep := at(t, i+n1)
	if n1 == 0 || n1 > 4 || sep != '-' && sep != '/' && sep != '.' && sep != ' ' && !isAlpha(sep) && sep != 0xc2 {
		return 0, false
	}
	j := i + n1
	if sep == ' ' || isAlpha(sep) || isAlpha(at(t, j+1)) {
		return dayMonthName(t, i, j, n1, a)
	}
	n2, b := run(t, j+1)
	if n2 == 0 || n2 == 3 || n2 > 4 {
		return 0, false
	}
	k := j + 1 + n2
	if at(t, k) != sep || !isDigit(at(t, k+1)) {
		return partDate(t, k, sep, n1, n2, a, b), false
	}
	n3, c := run(t, k+1)
	k += 1 + n3
	if isDigit(at(t, k)) {
		return 0, false
	}
	switch {
	case n1 == 4 && n2 <= 2 && n3 <= 2 && a >= 1850 && a <= 2150 && dayMonth(c, b):
		return clock(t, k), true
	case n1 <= 2 && n2 <= 2 && (n3 == 4 && c >= 1850 && c <= 2150 || n3 == 2 && sep != '.' || n3 == 2 && n1 == 2 &&
		n2 == 2) &&
		(dayMonth(a, b) || dayMonth(b, a)):
		return clock(t, k), true
	}
	return 0, false
}

// partDate: 5/2021 and 5/21.
func partDate(t []byte, end int, sep byte, n1, n2, a, b int) int {
	if sep != '/' || n1 > 2 || a < 1 || a > 31 || isDigit(at(t, end)) {
		return 0
	}
	if n2 == 4 && a <= 12 && b >= 1900 && b <= 2100 || n2 <= 2 && (dayMonth(a, b) || dayMonth(b, a)) {
		return end
	}
	return 0
}

// dayMonthName: 5-May-2021, 21 May 1980, 3rd of March, 1999; j is where the first digits end.
func dayMonthName(t []byte, i, j, n1, a int) (end int, full bool) {
	if n1 > 2 || a < 1 || a > 31 {
		return 0, false
	}
	for _, ordinal := range []string{"st", "nd", "rd", "th"} {
		if hasPrefix(t, j, ordinal) {
			j += 2
			break
		}
	}
	if at(t, j) == '.' {
		j++
	}
	if at(t, j) == ' ' || at(t, j) == '-' || at(t, j) == '/' {
		j++
	}
	if hasPrefix(t, j, "of ") {
		j += 3
	}
	m, end := month(t, j)
	if m == 0 || a > monthDays[m] {
		return 0, false
	}
	k := end
	for k < len(t) && k-end < 2 && (t[k] == ' ' || t[k] == '-' || t[k] == ',' || t[k] == '.' || t[k] == '/') {
		k++
	}
	if n, y := run(t, k); k > end && n == 4 && y >= 1850 && y <= 2150 || k > end && n == 2 && t[k-1] == '-' {
		return clock(t, k+n), true
	}
	return end, false
}

// namedMonthBefore: May 12, 1977 and May 1st, 1977, where from is the day or the year.
func namedMonthBefore(t []byte, from int) (start, end int, full bool) {
	i := from
	for n := 0; n < 8 && i > 0 && !isAlpha(t[i-1]) && t[i-1] != '\n'; n++ {
		i--
	}
	// an ordinal's letters
	for _, ordinal := range []string{"st", "nd", "rd", "th"} {
		if i > 3 && hasPrefix(t, i-2, ordinal) && isDigit(t[i-3]) {
			i -= 3
			for i > 0 && (isDigit(t[i-1]) || t[i-1] == ' ') {
				i--
			}
			break
		}
	}
	for n := 0; n < 10 && i > 0 && isAlpha(t[i-1]); n++ {
		i--
	}
	m, j := month(t, i)
	if m == 0 {
		return 0, 0, false
	}
	for n := 0; n < 2 && (at(t, j) == ' ' || at(t, j) == '.'); n++ {
		j++
	}
	n, day := run(t, j)
	if n == 4 && day >= 1850 && day <= 2150 {
		return i, j + n, false // May 1977
	}
	if n == 0 || n > 2 || day < 1 || day > monthDays[m] {
		return 0, 0, false
	}
	j += n
	for _, ordinal := range []string{"st", "nd", "rd", "th"} {
		if hasPrefix(t, j, ordinal) {
			j += 2
			break
		}
	}
	end = j
	for k := 0; k < 2 && (at(t, j) == ' ' || at(t, j) == ','); k++ {
		j++
	}
	if n, y := run(t, j); j > end && n == 4 && y >= 1850 && y <= 2150 {
		return i, clock(t, j+n), true
	}
	return i, end, false
}

// clock reads a time of day behind a date.
func clock(t []byte, i int) int {
	j := i
	if c := at(t, i); c != 'T' && c != ' ' {
		return i
	}
	j++
	n, h := run(t, j)
	if n == 0 || n > 2 || h > 24 || at(t, j+n) != ':' {
		return i
	}
	j += n
	for at(t, j) == ':' && isDigit(at(t, j+1)) && isDigit(at(t, j+2)) && j-i < 10 {
		j += 3
	}
	if at(t, j) == '.' {
		if n, _ := run(t, j+1); n > 0 {
			j += 1 + n
		}
	}
	if at(t, j) == 'Z' {
		return j + 1
	}
	if c := at(t, j); (c == '+' || c == '-') && isDigit(at(t, j+1)) && isDigit(at(t, j+2)) {
		j += 3
		if at(t, j) == ':' {
			j++
		}
		for isDigit(at(t, j)) && isDigit(at(t, j+1)) && j-i < 30 {
			j += 2
		}
	}
	return j
}

// wordBefore gives the word that stands before i in the same sentence.
func wordBefore(t []byte, i int) []byte {
	end := i
	if end > 0 && t[end-1] == ' ' || end > 0 && t[end-1] == '\n' {
		end--
	} else {
		return nil
	}
	if end > 0 && t[end-1] == ':' && end > 1 && isAlpha(t[end-2]) {
		end--
	}
	start := end
	for start > 0 && end-start < 12 && isAlpha(t[start-1]) {
		start--
	}
	return t[start:end]
}

// spoken tells whether the date at i stands in a sentence: behind a word that leads to one. Dates of records, logs and
// listings are no personal data by themselves.
func (s *scan) spoken(i int) bool {
	switch w := wordBefore(s.t, i); string(w) {
	case "on", "is", "was", "in", "since", "during", "until", "till", "from", "before", "after", "When", "when", "Date",
		"On", "Since", "During", "Until", "In", "s", "dated", "around", "am", "vom", "le", "el", "il":
		return true
	}
	return false
}

// today: only sentences like "Today is 5/21" make a date of a fraction.
func (s *scan) today(i int) bool {
	return string(wordBefore(s.t, i)) == "is" || string(wordBefore(s.t, i)) == "on"
}

// year looks for the year of a sentence: "in 1972".
func (s *scan) year(from, to int) int {
	if n, y := run(s.t, from); to-from != 4 || n != 4 || y < 1900 || y > 2035 {
		return 0
	}
	if c := at(s.t, to); c == '%' || c == '.' && isDigit(at(s.t, to+1)) || c == '/' || c == '-' || c == ':' {
		return 0
	}
	switch string(wordBefore(s.t, from)) {
	case "in", "In", "since", "Since", "during", "During":
		s.addAs("DATE_TIME", from, to, 0.4, info, scanner.Flag)
		return to
	}
	return 0
}

// age reads "42 years old", "a 42-year-old", "turned 42", "aged 42".
func (s *scan) age(from, to int) int {
	n, years := run(s.t, from)
	if n == 0 || from+n != to || years < 1 || years > 120 {
		return 0
	}
	for _, unit := range []string{" year old", " years old", "-year-old", "-years-old", " yo ", " y/o",
		" years of age", " jahre alt", " años"} {
		if hasPrefix(s.t, to, unit) {
			s.add("AGE", from, to, 0.7)
			return to
		}
	}
	switch string(wordBefore(s.t, from)) {
	case "turn", "turned", "turning", "aged", "Aged", "age", "Age":
		if c := at(s.t, to); c != '%' && c != '-' && c != ':' && !(c == '.' && isDigit(at(s.t, to+1))) {
			s.add("AGE", from, to, 0.5)
			return to
		}
	}
	return 0
}
