package rules

import (
	"errors"
	"fmt"
	"strings"
)

// maxPattern is the longest tool or agent pattern in bytes. Names are at most 256 bytes; a pattern may say a little
// more.
const maxPattern = 512

// refusedInPattern are characters that other pattern languages give a meaning to. Taken literally they would make a
// deny rule that quietly matches nothing, so they are refused.
const refusedInPattern = "?[]{}\\"

// Glob is one compiled name pattern: `*` stands for any run of characters inside one `/` segment, `**` for any run
// across segments, everything else for itself, case included. So `pay/*` matches `pay/refund` and neither `pay` nor
// `pay/eu/refund`; `pay/**` matches `pay/refund` and `pay/eu/refund` but not `pay`. A Glob is immutable and safe for
// concurrent use.
type Glob struct {
	text   string
	prefix string // the literal before the first star
	suffix string // the literal after the last star
	exact  bool   // no star at all
}

// ParseGlob compiles a pattern of 1 to 512 bytes. The error says what is wrong with it in one clause.
func ParseGlob(text string) (*Glob, error) {
	switch {
	case text == "":
		return nil, errors.New("an empty pattern")
	case len(text) > maxPattern:
		return nil, fmt.Errorf("a pattern of %d bytes, the limit is %d", len(text), maxPattern)
	case strings.Contains(text, "***"):
		return nil, fmt.Errorf("pattern %q: more than two stars in a row", text)
	}
	if i := strings.IndexAny(text, refusedInPattern); i >= 0 {
		return nil, fmt.Errorf("pattern %q: %q has no meaning here, only * and ** have one", text, text[i])
	}
	first, last := strings.IndexByte(text, '*'), strings.LastIndexByte(text, '*')
	if first < 0 {
		return &Glob{text: text, prefix: text, exact: true}, nil
	}
	return &Glob{text: text, prefix: text[:first], suffix: text[last+1:]}, nil
}

// String is the pattern as written.
func (g *Glob) String() string { return g.text }

// Match reports whether the pattern covers the whole name. It allocates nothing.
func (g *Glob) Match(name string) bool {
	if g.exact {
		return name == g.text
	}
	if len(name) < len(g.prefix)+len(g.suffix) || !strings.HasPrefix(name, g.prefix) ||
		!strings.HasSuffix(name, g.suffix) {
		return false
	}
	return matchStars(g.text, name)
}

// matchStars walks pattern and name together and keeps one point to come back to for the latest `*` and one for the
// latest `**`. One of each is enough: a later `**` can take over whatever an earlier star would have taken, and a
// `*` cannot leave its segment, so moving an earlier one never opens a way that moving the later one does not.
func matchStars(pat, name string) bool {
	const none = -1
	p, n := 0, 0
	starP, starN := none, 0
	deepP, deepN := none, 0
	for n < len(name) || p < len(pat) {
		if p < len(pat) && pat[p] == '*' {
			if p+1 < len(pat) && pat[p+1] == '*' {
				p += 2
				deepP, deepN, starP = p, n, none
			} else {
				p++
				starP, starN = p, n
			}
			continue
		}
		if n < len(name) && p < len(pat) && pat[p] == name[n] {
			p, n = p+1, n+1
			continue
		}
		switch {
		case starP != none && starN < len(name) && name[starN] != '/':
			starN++
			p, n = starP, starN
		case deepP != none && deepN < len(name):
			deepN++
			p, n, starP = deepP, deepN, none
		default:
			return false
		}
	}
	return true
}
