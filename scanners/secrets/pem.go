package main

import "github.com/yett-dev/yett/sdk/scanner"

const (
	leastBody   = 40  // bytes of base64 that make a key
	leastRun    = 16  // bytes of base64 in a row that make a part of one, where other things may stand beside it
	leastElided = 600 // bytes of base64 from which a key is reported even if something is left out of it
	mostGap     = 512 // bytes of other words between two such parts
	leastShare  = 8   // one byte in so many of what follows the header is base64, or it is a program that only names it
)

// pem takes a private key from its first dash to its last, body included. One whose end is not in sight is taken up to
// where the base64 stops. A log may have written something before each line.
func (s *scan) pem(h scanner.Hit) {
	t := s.around(h.Start)
	i := len("-----BEGIN ")
	for i < len(t) && i < 60 && (isUpper(t[i]) || isDigit(t[i]) || t[i] == ' ') {
		i++
	}
	label := string(t[len("-----BEGIN "):i])
	if !contains(t[:i], "PRIVATE KEY") || i+5 > len(t) || string(t[i:i+5]) != "-----" {
		return
	}
	body, ending := i+5, "-----END "+label+"-----"
	if end, ok := plainBody(t, body, ending); ok && end == 0 {
		return
	} else if ok {
		s.add("PRIVATE_KEY", h.Start, h.Start+end, rankSpecial, 1)
		return
	}
	end, size, open := mixedBody(t, body, ending)
	if size < leastBody {
		return
	}
	if open { // it goes on where nobody looks
		s.whole("PRIVATE_KEY", len(t))
	}
	s.add("PRIVATE_KEY", h.Start, h.Start+end, rankSpecial, 1)
}

// plainBody takes a key with its end in sight, and between nothing but what may stand in a body, also inside the string
// of a program.
func plainBody(t []byte, body int, ending string) (end int, ok bool) {
	i, size := body, 0
	for ; i < len(t) && pemByte(t[i]) && !marks(t, i, ending) && !marks(t, i, "-----BEGIN"); i++ {
		if isWord(t[i]) || t[i] == '+' || t[i] == '/' {
			size++
		}
	}
	first := body
	for first < i && isSpace(t[first]) {
		first++
	}
	if size < leastElided && contains(t[body:i], "...") {
		return 0, true // a sample with its middle left out
	}
	if !marks(t, i, ending) || size < leastBody || filler(t[first:min(i, first+64)]) {
		return 0, false
	}
	return i + len(ending), true
}

// mixedBody takes the runs of base64 in what follows, whatever stands between them, up to the end of the key or up to
// where words go on for long. size is how much base64 there is. open says that the runs reach the end of what is looked
// at: there may be more.
func mixedBody(t []byte, body int, ending string) (end, size int, open bool) {
	gap := 0
	for i := body; i < len(t); {
		switch {
		case marks(t, i, ending):
			if size >= leastBody {
				end = i + len(ending)
			}
			return end, size, false
		case marks(t, i, "-----BEGIN ") && contains(t[i:min(len(t), i+60)], "PRIVATE KEY"):
			return end, size, false // that one is looked at by itself
		}
		from := i
		var mix byteMix
		for i < len(t) && (isWord(t[i]) || t[i] == '+' || t[i] == '/' || t[i] == '=') {
			mix |= mixOf(t[i])
			i++
		}
		switch run := t[from:i]; {
		case len(run) == 0:
			i++
		case len(run) >= leastRun && mix == mixAll && !filler(run[:min(len(run), 64)]) && !worded(run):
			if (size+len(run))*leastShare < i-body {
				return end, size, false
			}
			end, size, gap = i, size+len(run), 0
		case end > 0 && gap == 0 && i < len(t) && onlySpace(t[end:from]): // the last line is short
			end, gap = i, len(run)
		default:
			if gap += len(run); gap > mostGap {
				return end, size, false
			}
		}
	}
	return end, size, len(t) == maxSpan
}

// onlySpace says whether there is nothing but space between two runs.
func onlySpace(between []byte) bool {
	for _, c := range between {
		if !isSpace(c) {
			return false
		}
	}
	return true
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

func marks(t []byte, i int, mark string) bool {
	return i+len(mark) <= len(t) && t[i] == '-' && string(t[i:i+len(mark)]) == mark
}

// pemByte tells whether a byte may stand in the body of a key, also inside the string of a program or a JSON document.
func pemByte(c byte) bool {
	switch c {
	case '+', '/', '=', '\\', '-', ':', ',', '"', '\'', '.', '(', ')', '@', '>', '<', '#', '|', '*', ';', '_', '$', '`':
		return true
	}
	return isWord(c) || isSpace(c)
}
