package sdk

// Relations between patterns. Both answers err to the safe side: CoversGlob may miss an inclusion, OverlapGlobs misses
// no overlap.

// token of a pattern: a literal byte, or one of the stars.
type token int16

const (
	star  token = -1 // any run within one segment
	cross token = -2 // any run at all
)

func tokens(pattern string) []token {
	var out []token
	for i := 0; i < len(pattern); {
		if pattern[i] != '*' {
			out = append(out, token(pattern[i]))
			i++
			continue
		}
		n := i
		for i < len(pattern) && pattern[i] == '*' {
			i++
		}
		if i-n > 1 {
			out = append(out, cross)
		} else {
			out = append(out, star)
		}
	}
	return out
}

// agentTokens reads a pattern of agents, where a lone star is everybody.
func agentTokens(pattern string) []token {
	if pattern == "*" {
		return []token{cross}
	}
	return tokens(pattern)
}

// walk answers a question about two patterns that goes on from pair to pair of places in them, each pair once.
type walk struct {
	a, b []token
	no   map[[2]int]bool
	step func(w *walk, i, j int) bool
}

func (w *walk) at(i, j int) bool {
	at := [2]int{i, j}
	if w.no[at] {
		return false
	}
	if w.step(w, i, j) {
		return true
	}
	w.no[at] = true
	return false
}

// covers: everything that b[j:] matches is matched by a[i:].
func covers(w *walk, i, j int) bool {
	switch {
	case i == len(w.a):
		return j == len(w.b)
	case w.a[i] == cross:
		return w.at(i+1, j) || j < len(w.b) && w.at(i, j+1)
	case w.a[i] == star:
		return w.at(i+1, j) || j < len(w.b) && w.b[j] != '/' && w.b[j] != cross && w.at(i, j+1)
	}
	return j < len(w.b) && w.a[i] == w.b[j] && w.at(i+1, j+1)
}

// overlaps: there is a text that both a[i:] and b[j:] match.
func overlaps(w *walk, i, j int) bool {
	aStar := i < len(w.a) && w.a[i] < 0
	bStar := j < len(w.b) && w.b[j] < 0
	switch {
	case i == len(w.a) && j == len(w.b):
		return true
	case aStar && bStar:
		return w.at(i+1, j) || w.at(i, j+1)
	case aStar:
		return w.at(i+1, j) || j < len(w.b) && (w.a[i] == cross || w.b[j] != '/') && w.at(i, j+1)
	case bStar:
		return w.at(i, j+1) || i < len(w.a) && (w.b[j] == cross || w.a[i] != '/') && w.at(i+1, j)
	}
	return i < len(w.a) && j < len(w.b) && w.a[i] == w.b[j] && w.at(i+1, j+1)
}

// CoversAgent reports whether a list of agent patterns covers everything that the pattern inner covers. An empty list
// covers every agent. It may say no where a cleverer test would say yes, never the other way round.
func CoversAgent(globs []string, inner string) bool {
	if len(globs) == 0 {
		return true
	}
	for _, g := range globs {
		w := walk{a: agentTokens(g), b: agentTokens(inner), no: map[[2]int]bool{}, step: covers}
		if w.at(0, 0) {
			return true
		}
	}
	return false
}

// OverlapsAgent reports whether some agent is covered both by a list of patterns and by the pattern other.
func OverlapsAgent(globs []string, other string) bool {
	if len(globs) == 0 {
		return true
	}
	for _, g := range globs {
		w := walk{a: agentTokens(g), b: agentTokens(other), no: map[[2]int]bool{}, step: overlaps}
		if w.at(0, 0) {
			return true
		}
	}
	return false
}

// Literals counts the bytes of a pattern that are no stars: how narrow it is.
func Literals(pattern string) int {
	n := 0
	for i := range len(pattern) {
		if pattern[i] != '*' {
			n++
		}
	}
	return n
}

// CoversTool reports whether a kill of the tools that a pattern names covers a tool: one that the pattern matches, or
// one below that. "stripe" covers "stripe/refund", and "*" covers every tool.
func CoversTool(pattern, tool string) bool {
	for i := range len(tool) {
		if tool[i] == '/' && MatchGlob(pattern, tool[:i]) {
			return true
		}
	}
	return MatchGlob(pattern, tool)
}
