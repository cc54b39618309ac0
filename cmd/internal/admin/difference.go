package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/yett-dev/yett/cmd/internal/cli"
)

// toolDifference is the unified difference of two definitions of a tool, as indented JSON. Characters that hide or move
// text are written as escapes. It has no lines if the definitions are the same.
func toolDifference(was, is []byte) ([]string, error) {
	a, err := shownLines(was)
	if err != nil {
		return nil, err
	}
	b, err := shownLines(is)
	if err != nil {
		return nil, err
	}
	return unified(compare(a, b)), nil
}

// shownLines are the lines of a definition. A text of several lines is broken where its own lines end: a change in a
// long description is not to drown in it. What goes on in a next line begins with a mark that no line of JSON has.
func shownLines(text []byte) ([]string, error) {
	if len(text) == 0 {
		return nil, nil
	}
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "  "); err != nil {
		return nil, err
	}
	var out []string
	for line := range strings.SplitSeq(string(cli.VisibleJSON(b.Bytes())), "\n") {
		goesOn := line[:len(line)-len(strings.TrimLeft(line, " "))] + "  | "
		from, mark := 0, ""
		for i := 0; i+1 < len(line); i++ {
			if line[i] != '\\' {
				continue
			}
			if i++; line[i] == 'n' && i+2 < len(line) && line[i+1:] != `"` && line[i+1:] != `",` {
				out = append(out, mark+line[from:i+1])
				from, mark = i+1, goesOn
			}
		}
		out = append(out, mark+line[from:])
	}
	return out, nil
}

// diffLine is a line of a difference: ' ' in both, '-' only in the old text, '+' only in the new one.
type diffLine struct {
	op   byte
	text string
}

// mostEdits bounds the work: texts that differ in more lines are shown one behind the other.
const mostEdits = 1000

// compare finds the lines that two texts have in common, by Myers' algorithm.
func compare(a, b []string) []diffLine {
	head := 0
	for head < min(len(a), len(b)) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < min(len(a), len(b))-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	out := lines(nil, ' ', a[:head])
	out = append(out, edits(a[head:len(a)-tail], b[head:len(b)-tail])...)
	return lines(out, ' ', a[len(a)-tail:])
}

func lines(out []diffLine, op byte, texts []string) []diffLine {
	for _, t := range texts {
		out = append(out, diffLine{op, t})
	}
	return out
}

// edits finds the fewest lines that make b of a.
func edits(a, b []string) []diffLine {
	size := min(len(a)+len(b), mostEdits)
	furthest := make([]int, 2*size+3) // by diagonal: how far into a
	mid := size + 1
	var before [][]int
	for d := 0; d <= size; d++ {
		before = append(before, slices.Clone(furthest[mid-d-1:mid+d+2]))
		for k := -d; k <= d; k += 2 {
			x := furthest[mid+k-1] + 1
			if k == -d || k != d && furthest[mid+k-1] < furthest[mid+k+1] {
				x = furthest[mid+k+1]
			}
			for x < len(a) && x-k < len(b) && a[x] == b[x-k] {
				x++
			}
			furthest[mid+k] = x
			if x >= len(a) && x-k >= len(b) {
				return walkBack(a, b, before)
			}
		}
	}
	return lines(lines(nil, '-', a), '+', b)
}

// walkBack finds the way that edits has come. before[d] is furthest in front of round d, around its middle.
func walkBack(a, b []string, before [][]int) []diffLine {
	var out []diffLine
	x, y := len(a), len(b)
	for d := len(before) - 1; d >= 0; d-- {
		row, mid, k := before[d], d+1, x-y
		down := k == -d || k != d && row[mid+k-1] < row[mid+k+1]
		start := row[mid+k-1] + 1 // of the lines in common, in a
		if down {
			start = row[mid+k+1]
		}
		for x > start {
			x, y = x-1, y-1
			out = append(out, diffLine{' ', a[x]})
		}
		switch {
		case d == 0:
		case down:
			y--
			out = append(out, diffLine{'+', b[y]})
		default:
			x--
			out = append(out, diffLine{'-', a[x]})
		}
	}
	slices.Reverse(out)
	return out
}

// around is how many lines that are the same are shown in front of a change and behind it.
const around = 3

// unified writes what differs, with what is around it.
func unified(all []diffLine) []string {
	shown := make([]bool, len(all))
	for i, l := range all {
		if l.op == ' ' {
			continue
		}
		for j := max(0, i-around); j <= min(len(all)-1, i+around); j++ {
			shown[j] = true
		}
	}
	var out []string
	oldLine, newLine := 1, 1
	for i, l := range all {
		if shown[i] && (i == 0 || !shown[i-1]) {
			end := i
			for end < len(all) && shown[end] {
				end++
			}
			out = append(out, hunkHead(all[i:end], oldLine, newLine))
		}
		if shown[i] {
			out = append(out, string(l.op)+l.text)
		}
		if l.op != '+' {
			oldLine++
		}
		if l.op != '-' {
			newLine++
		}
	}
	return out
}

func hunkHead(part []diffLine, oldLine, newLine int) string {
	was, is := 0, 0
	for _, l := range part {
		if l.op != '+' {
			was++
		}
		if l.op != '-' {
			is++
		}
	}
	if was == 0 {
		oldLine--
	}
	if is == 0 {
		newLine--
	}
	return fmt.Sprintf("@@ -%d,%d +%d,%d @@", oldLine, was, newLine, is)
}
