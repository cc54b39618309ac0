package log

import "bytes"

// Members calls fn with the names and values, as they stand there, of an object that is written as records are: without
// white space, and no name with an escape. It ends early, with ok true, when fn returns false. ok is false for anything
// else: then only a parser can say what it is. It costs a tenth of parsing. The slices are parts of object.
func Members(object []byte, fn func(name, value []byte) (more bool)) (ok bool) {
	if len(object) < 2 || object[0] != '{' || object[len(object)-1] != '}' {
		return false
	}
	if len(object) == 2 {
		return true
	}
	for i := 1; ; i++ { // at a name's quote
		end := textEnd(object, i)
		if end < 0 || end >= len(object) || object[end] != ':' {
			return false
		}
		name := object[i+1 : end-1]
		i = valueEnd(object, end+1)
		if i < 0 || i >= len(object) || i == end+1 || bytes.IndexByte(name, '\\') >= 0 {
			return false
		}
		if !fn(name, object[end+1:i]) {
			return true
		}
		switch {
		case object[i] == '}':
			return i == len(object)-1
		case object[i] != ',':
			return false
		}
	}
}

// PlainText is the inside of a JSON string without escapes. ok is false for anything else.
func PlainText(value []byte) (text []byte, ok bool) {
	if len(value) < 2 || value[0] != '"' || bytes.IndexByte(value, '\\') >= 0 {
		return nil, false
	}
	return value[1 : len(value)-1], true
}

// textEnd is the index behind the string that begins at i, -1 if none does.
func textEnd(b []byte, i int) int {
	if i >= len(b) || b[i] != '"' {
		return -1
	}
	for i++; i < len(b); i++ {
		switch b[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
	return -1
}

// valueEnd is the index behind the value that begins at i, -1 if it has no end.
func valueEnd(b []byte, i int) int {
	for depth := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			if i = textEnd(b, i); i < 0 {
				return -1
			}
			if depth == 0 {
				return i
			}
			i--
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // of the object around it: behind a number or a word
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',':
			if depth == 0 {
				return i
			}
		}
	}
	return -1
}
