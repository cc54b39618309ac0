package main

import "github.com/yett-dev/yett/sdk/scanner"

// Credentials in documents of a known form.

// kubernetes takes the values under data and stringData of a manifest of kind Secret.
func (s *scan) kubernetes(h scanner.Hit) {
	if h.End < len(s.t) && isWord(s.t[h.End]) || h.Start < s.done.kubernetes {
		return // SecretStore, or a manifest we have read
	}
	start, end := max(0, h.Start-4096), min(len(s.t), h.End+4096)
	for i := h.Start; i > start+4; i-- {
		if string(s.t[i-4:i]) == "\n---" {
			start = i
			break
		}
	}
	for i := h.End; i+4 < end; i++ {
		if string(s.t[i:i+4]) == "\n---" {
			end = i
			break
		}
	}
	s.done.kubernetes = end
	inside := -1 // indent of the data: line we are under
	for i := start; i < end; {
		stop := i
		for stop < end && s.t[stop] != '\n' {
			stop++
		}
		inside = s.manifestLine(i, stop, inside)
		i = stop + 1
	}
}

// manifestLine looks at one line and gives the indent of the data block it leaves us in, or -1.
func (s *scan) manifestLine(i, stop, inside int) int {
	indent := i
	for indent < stop && (s.t[indent] == ' ' || s.t[indent] == '\t') {
		indent++
	}
	line := s.t[indent:stop]
	depth := indent - i
	if len(line) == 0 || line[0] == '#' {
		return inside
	}
	colon := 0
	for colon < len(line) && line[colon] != ':' {
		colon++
	}
	if colon == len(line) { // a line of a block scalar
		if inside >= 0 && depth > inside {
			s.manifestValue(indent, trim(line))
		}
		return inside
	}
	name := trim(line[:colon])
	if string(name) == "data" || string(name) == "stringData" {
		s.inClear = string(name) == "stringData"
		return depth
	}
	if inside < 0 || depth <= inside {
		return -1
	}
	value := trim(line[colon+1:])
	at := indent + colon + 1
	for at < stop && len(value) > 0 && s.t[at] != value[0] {
		at++
	}
	s.manifestValue(at, value)
	return inside
}

// manifestValue takes a value under data when it is base64, and one under stringData when it is not made of words.
func (s *scan) manifestValue(at int, value []byte) {
	if len(value) < 10 || filler(value) || s.inClear && worded(value) || !s.inClear && len(value)%4 != 0 {
		return
	}
	if filled(value, base64url) {
		s.add("KUBERNETES_SECRET", at, at+len(value), rankSpecial, 0.85)
	}
}

// trim takes blanks, quotes and a comma off both ends.
func trim(v []byte) []byte {
	for len(v) > 0 && (isSpace(v[0]) || v[0] == '"' || v[0] == '\'') {
		v = v[1:]
	}
	for len(v) > 0 && (isSpace(v[len(v)-1]) || v[len(v)-1] == '"' || v[len(v)-1] == '\'' || v[len(v)-1] == ',') {
		v = v[:len(v)-1]
	}
	return v
}

// jwk takes the private part of a JSON Web Key: the member d (k of a symmetric key) near kty, in one object.
func (s *scan) jwk(h scanner.Hit) {
	if h.Start == 0 || h.End == len(s.t) || isWord(s.t[h.End]) || nameByte(s.t[h.Start-1]) {
		return
	}
	start, end := h.Start, h.End
	for start > s.done.jwk && h.Start-start < 4096 && s.t[start-1] != '{' {
		start--
	}
	for end = max(end, s.done.jwk); end < len(s.t) && end-h.End < 4096 && s.t[end] != '}'; end++ {
	}
	start = max(start, s.done.jwk)
	s.done.jwk = max(s.done.jwk, end)
	for i := max(start, 1); i < end; i++ {
		if c := s.t[i]; c != 'd' && c != 'k' || nameByte(s.t[i-1]) {
			continue
		}
		j := i + 1
		for j < end && j-i < 8 && (s.t[j] == '"' || s.t[j] == '\'' || s.t[j] == ':' || s.t[j] == ' ' || s.t[j] == '\\') {
			j++
		}
		stop := tokenEnd(s.t[:end], j, segment)
		if j-i >= 2 && stop-j >= 20 && entropy(s.t[j:stop]) >= 300 && !filler(s.t[j:stop]) {
			s.add("JWK", j, stop, rankSpecial, 0.9)
		}
	}
}
