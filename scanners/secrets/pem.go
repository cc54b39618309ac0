package main

import "github.com/yett-dev/yett/sdk/scanner"

const (
	leastBody  = 40 // bytes of base64 that make a key
	leastRun   = 32 // bytes of base64 that make a line of one, where other things may stand beside it
	mostOthers = 16 // lines in a row that have none
)

// pem takes a private key from its first dash to its last, body included. One whose end is not in sight is taken up to
// where the base64 stops. A log may have written something before each line.
func (s *scan) pem(h scanner.Hit) {
	t := s.around(h.Start)
	i := len("-----BEGIN ")
	for i < len(t) && i < 60 && (isUpper(t[i]) || isDigit(t[i]) || t[i] == ' ') {
		i++
	}
	label := t[len("-----BEGIN "):i]
	if !contains(label, "PRIVATE KEY") || i+5 > len(t) || string(t[i:i+5]) != "-----" {
		return
	}
	body := i + 5
	end, ok, ended := plainBody(t, body)
	if !ended {
		if far, found := linesBody(t, body); found {
			end, ok = max(end, far), true
		}
	}
	if ok {
		s.whole("PRIVATE_KEY", end)
		s.add("PRIVATE_KEY", h.Start, h.Start+end, rankSpecial, 1)
	}
}

// plainBody takes all that may stand in the body of a key, also inside the string of a program.
func plainBody(t []byte, body int) (end int, ok, ended bool) {
	i, size := body, 0
	for ; i < len(t) && pemByte(t[i]) && !marks(t, i, "-----END ") && !marks(t, i, "-----BEGIN"); i++ {
		if isWord(t[i]) || t[i] == '+' || t[i] == '/' {
			size++
		}
	}
	first := body
	for first < i && isSpace(t[first]) {
		first++
	}
	if size < leastBody || filler(t[first:min(i, first+64)]) {
		return body, false, false
	}
	if marks(t, i, "-----END ") {
		return markEnd(t, i), true, true
	}
	return i, true, false
}

// linesBody takes the lines that have base64 in them, whatever stands before and behind it, up to the end of the key.
// Without an end in sight three lines are needed.
func linesBody(t []byte, body int) (end int, ok bool) {
	size, lines, others := 0, 0, 0
	for i := body; i < len(t) && others < mostOthers; i++ {
		run, mixed, line, taken := 0, byteMix(0), i, 0
		for ; i < len(t) && t[i] != '\n'; i++ {
			if marks(t, i, "-----END ") { // what follows is no key's, however it looks
				return markEnd(t, i), size >= leastBody
			}
			if marks(t, i, "-----BEGIN") {
				return end, lines >= 3
			}
			if !isWord(t[i]) && t[i] != '+' && t[i] != '/' && t[i] != '=' {
				run, mixed = 0, 0
				continue
			}
			run++
			if mixed |= mixOf(t[i]); run >= leastRun && mixed == mixAll {
				end, taken = i+1, run
			}
		}
		switch {
		case taken > 0:
			size += taken
			lines++
			others = 0
		case len(trimSpace(t[line:min(i, len(t))])) > 0:
			others++
		}
	}
	return end, lines >= 3
}

// byteMix are the classes of bytes that a run has.
type byteMix uint8

const mixAll byteMix = 7

func mixOf(c byte) byteMix {
	switch {
	case isUpper(c):
		return 1
	case isDigit(c):
		return 2
	case isWord(c) && c != '_':
		return 4
	}
	return 0
}

func trimSpace(v []byte) []byte {
	for len(v) > 0 && isSpace(v[0]) {
		v = v[1:]
	}
	return v
}

func marks(t []byte, i int, mark string) bool {
	return i+len(mark) <= len(t) && t[i] == '-' && string(t[i:i+len(mark)]) == mark
}

// markEnd is behind the line that ends a key, which begins at i.
func markEnd(t []byte, i int) int {
	for i += len("-----END "); i < len(t) && (isUpper(t[i]) || isDigit(t[i]) || t[i] == ' '); i++ {
	}
	for n := 0; n < 5 && i < len(t) && t[i] == '-'; n++ {
		i++
	}
	return i
}

// pemByte tells whether a byte may stand in the body of a key, also inside the string of a program or a JSON document.
func pemByte(c byte) bool {
	switch c {
	case '+', '/', '=', '\\', '-', ':', ',', '"', '\'', '.', '(', ')', '@', '>', '<', '#', '|', '*', ';', '_', '$', '`':
		return true
	}
	return isWord(c) || isSpace(c)
}
