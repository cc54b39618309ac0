package edge

import "strings"

// Path gives the path of a request's target as it was sent. It is false for a path that another server could read as a
// different one: an encoded byte, an empty or dotted segment, a parameter. Nothing is served there, so nothing is
// decoded or tidied.
func Path(target string) (path string, exact bool) {
	if !strings.HasPrefix(target, "/") {
		_, rest, ok := strings.Cut(target, "://")
		at := strings.IndexAny(rest, "/?")
		if !ok || at < 0 {
			return "", false
		}
		target = rest[at:]
	}
	path, _, _ = strings.Cut(target, "?")
	if path == "/" {
		return path, true
	}
	rest, ok := strings.CutPrefix(path, "/")
	for ok && rest != "" {
		var segment string
		segment, rest, ok = strings.Cut(rest, "/")
		if !plainSegment(segment) {
			return path, false
		}
	}
	return path, !ok && path != ""
}

// plainSegment says whether a segment holds unreserved characters alone and names no directory.
func plainSegment(s string) bool {
	if s == "" || s == "." || s == ".." {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.', c == '~':
		default:
			return false
		}
	}
	return true
}
