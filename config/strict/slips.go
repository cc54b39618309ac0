package strict

import (
	"bytes"
	"strings"
)

// yamlSlips are the mistakes behind what the YAML library says, in words that tell what to do.
var yamlSlips = []struct{ said, means string }{
	{"did not find expected alphabetic or numeric character", `* and & have a meaning of their own in YAML: put a pattern in quotes, as in ["*/read"]`},
	{"mapping values are not allowed in this context", `a key and colon cannot stand here: indent the line like its neighbours, and put text that has ": " in quotes`},
	{"did not find expected key", `this line does not fit those above it: check its indentation, that it reads "key: value", and that brackets are closed once`},
	{"could not find expected ':'", `a key has no colon: write "key: value"`},
	{"did not find expected ',' or '}'", "a { is not closed, or a comma is missing between its entries; put text with a colon in quotes"},
	{"did not find expected ',' or ']'", "a [ is not closed, or a comma is missing between its entries"},
	{"did not find expected '-' indicator", `each entry of a list begins with "- " in the same column`},
	{"did not find expected node content", "a value is missing, or a bracket is not closed"},
	{"found unexpected end of stream", "a text in quotes has no closing quote"},
	{"found unexpected document indicator", "a text in quotes has no closing quote"},
}

// yamlSlip finds the mistake behind what the YAML library said of a line, and its column where that is certain.
func yamlSlip(data []byte, line int, msg string) (int, int, string) {
	lines := bytes.Split(data, []byte("\n"))
	if msg == "found character that cannot start any token" || strings.HasPrefix(msg, "found a tab character") {
		for n := max(line-1, 1); n <= min(line+1, len(lines)); n++ { // the library may name the line before
			indent := lines[n-1][:len(lines[n-1])-len(bytes.TrimLeft(lines[n-1], " \t"))]
			if i := bytes.IndexByte(indent, '\t'); i >= 0 {
				return n, i + 1, "a tab indents this line; YAML takes spaces only"
			}
		}
		if line <= len(lines) {
			if i := bytes.IndexAny(lines[line-1], "@`%\t"); i >= 0 {
				if lines[line-1][i] == '\t' {
					return line, i + 1, "a tab stands where a value begins; YAML takes spaces only"
				}
				return line, i + 1, "a value cannot begin with " + string(lines[line-1][i]) + "; put it in quotes"
			}
		}
	}
	for _, slip := range yamlSlips {
		if strings.HasPrefix(msg, slip.said) {
			return line, 0, slip.means
		}
	}
	return line, 0, msg
}

// jsonSlip says the same of what the JSON library said.
func jsonSlip(msg string) string {
	switch {
	case strings.Contains(msg, `invalid character '}' looking for beginning of object key`):
		return "a comma cannot stand before }"
	case strings.Contains(msg, `invalid character ']' looking for beginning of value`):
		return "a comma cannot stand before ]"
	case strings.Contains(msg, `invalid character '\''`):
		return `texts and keys are in double quotes (")`
	case strings.Contains(msg, "invalid character '/'"):
		return "JSON has no comments"
	case strings.Contains(msg, "unexpected end of JSON input"):
		return "it ends too early: a }, a ] or a closing quote is missing"
	}
	return msg
}
