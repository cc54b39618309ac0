// Package gitignore reads the files .gitignore of a tree and says which paths git would not look at. It owns the
// grammar of these files and nothing else: it opens no file and knows no tree. It must agree with git check-ignore for
// every path, and its time for one path must stay proportional to the pattern's length times the path's, since
// whoever wrote the tree wrote the patterns. Texts come from whoever walks the tree.
package gitignore

import "strings"

// pattern is one line of a file.
type pattern struct {
	text    string
	literal int  // bytes of text before the first wildcard
	negated bool // what it matches is looked at after all
	onlyDir bool
	anyDir  bool // it has no slash, so it is about the last element of a path
}

// List is what one file says about the paths below the folder that it lies in. The zero List says nothing.
type List struct{ patterns []pattern }

// Parse reads the text of a file. Git knows no mistakes in such a file, so there are none here: a line that is no
// pattern matches nothing.
func Parse(text string) *List {
	l := &List{}
	text = strings.TrimPrefix(text, "\ufeff")
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSuffix(line, "\r")
		if nul := strings.IndexByte(line, 0); nul >= 0 {
			line = line[:nul]
		}
		if line == "" || line[0] == '#' {
			continue
		}
		l.patterns = append(l.patterns, parse(withoutSpaces(line)))
	}
	return l
}

// withoutSpaces cuts the spaces at the end of a line, up to one that a backslash keeps.
func withoutSpaces(line string) string {
	last := -1
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ' ':
			if last < 0 {
				last = i
			}
			continue
		case '\\':
			if i++; i == len(line) {
				return line
			}
		}
		last = -1
	}
	if last < 0 {
		return line
	}
	return line[:last]
}

func parse(line string) pattern {
	var p pattern
	if line, p.negated = strings.CutPrefix(line, "!"); strings.HasSuffix(line, "/") {
		line, p.onlyDir = line[:len(line)-1], true
	}
	p.text, p.anyDir = line, !strings.Contains(line, "/")
	if !p.anyDir {
		p.text = strings.TrimPrefix(line, "/")
	}
	if p.literal = strings.IndexAny(p.text, `*?[\`); p.literal < 0 {
		p.literal = len(p.text)
	}
	return p
}

// Match says what the list has to say about a path, which is relative to the folder of its file and has slashes. said
// is false where no line matches. A folder that is ignored takes with it what is in it: to look there is up to the
// caller.
func (l *List) Match(path string, dir bool) (ignored, said bool) {
	for i := len(l.patterns) - 1; i >= 0; i-- {
		p := &l.patterns[i]
		if p.onlyDir && !dir || !p.matches(path) {
			continue
		}
		return !p.negated, true
	}
	return false, false
}

func (p *pattern) matches(path string) bool {
	if p.anyDir {
		path = path[strings.LastIndexByte(path, '/')+1:]
		return p.text != "" && match(p.text, path, false)
	}
	rest, ok := strings.CutPrefix(path, p.text[:p.literal])
	if !ok {
		return false
	}
	if p.text == "" {
		return path == ""
	}
	// Git compares the text before the first wildcard by itself, so a ** behind it counts as one at the beginning.
	return match(p.text[p.literal:], rest, true)
}
