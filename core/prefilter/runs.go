package prefilter

import (
	"slices"
	"strings"
)

// classes are the byte classes by name. They say the same as sdk/scanner does.
var classes = [...]struct{ name, bytes string }{
	{"digits", "0123456789"},
	{"hex", "0123456789abcdefABCDEF"},
	{"base64", "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=-_"},
	{"at", "@"},
}

func classNamed(name string) int {
	for i := range classes {
		if classes[i].name == name {
			return i
		}
	}
	return -1
}

// classRuns finds the runs of one class for all minima that are asked for.
type classRuns struct {
	in     [256]bool
	single byte        // the only member, if there is just one
	one    bool        // there is just one
	wanted []wantedRun // ordered by min
}

type wantedRun struct {
	min     int
	pattern uint32
}

// groupRuns gives one finder for each class that occurs. The runs' pattern numbers begin at base.
func groupRuns(runs []run, base int) []classRuns {
	var found []classRuns
	for c := range classes {
		g := classRuns{single: classes[c].bytes[0], one: len(classes[c].bytes) == 1}
		for i := range len(classes[c].bytes) {
			g.in[classes[c].bytes[i]] = true
		}
		for i, r := range runs {
			if r.class == c {
				g.wanted = append(g.wanted, wantedRun{r.min, uint32(base + i)})
			}
		}
		if len(g.wanted) > 0 {
			slices.SortFunc(g.wanted, func(a, b wantedRun) int { return a.min - b.min })
			found = append(found, g)
		}
	}
	return found
}

// find reports every maximal run. Where a run of the least length could begin it looks at that run's last byte first,
// and goes back from there: most of the text is never looked at, and no byte is looked at twice.
func (g *classRuns) find(text string, f *Found) {
	if g.one && g.wanted[0].min == 1 {
		g.findSingle(text, f)
		return
	}
	least, in := g.wanted[0].min, &g.in
	start, known := 0, 0 // text[start:known] are members, and start is not preceded by one
	for least <= len(text)-start {
		i := start + least - 1
		for i >= known && in[text[i]] {
			i--
		}
		if i >= known {
			// A stranger at i: whatever begins after it has members up to the byte that was probed first.
			start, known = i+1, start+least
			continue
		}
		end := start + least
		for end < len(text) && in[text[end]] {
			end++
		}
		g.report(f, start, end)
		if f.live == 0 {
			return
		}
		start, known = end+1, end+1
	}
}

// findSingle is find for runs of one byte that may be as short as one.
func (g *classRuns) findSingle(text string, f *Found) {
	for end := 0; f.live > 0; {
		next := strings.IndexByte(text[end:], g.single)
		if next < 0 {
			return
		}
		start := end + next
		for end = start + 1; end < len(text) && text[end] == g.single; end++ {
		}
		g.report(f, start, end)
	}
}

func (g *classRuns) report(f *Found, start, end int) {
	for _, w := range g.wanted {
		if w.min > end-start {
			return
		}
		f.report(w.pattern, uint32(start))
	}
}
