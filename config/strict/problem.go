package strict

import (
	"fmt"
	"maps"
	"sort"
	"strings"

	"github.com/yett-dev/yett/core/quote"
)

// maxProblems is how many problems an error prints, keptProblems how many are kept; the rest are counted.
const (
	maxProblems  = 20
	keptProblems = 1000
)

// Problem is one thing that is wrong in what was read. Msg never holds the value of a secret.
type Problem struct {
	Pos Pos
	Key string // e.g. "chains.authorize.steps[0].use"; "" when a whole file is at fault
	Msg string
}

// String gives "file:line:column: key: message".
func (p Problem) String() string {
	s := p.Msg
	if p.Key != "" {
		s = quote.Visible(p.Key) + ": " + s
	}
	if p.Pos.File != "" {
		s = quote.Visible(p.Pos.String()) + ": " + s
	}
	return s
}

// Error is everything that is wrong, sorted by place.
type Error struct {
	Problems []Problem // at most 1000
	More     int       // how many there are beyond these

	read map[string]string
}

// Read gives what each file held that was read, as Loader.Digests does: whoever mends one of them mends the whole.
func (e *Error) Read() map[string]string { return maps.Clone(e.read) }

// Error prints one problem a line, at most 20, then how many more there are.
func (e *Error) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i == maxProblems {
			fmt.Fprintf(&b, "\nand %d more problems", len(e.Problems)-i+e.More)
			break
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(p.String())
	}
	return b.String()
}

// Report collects problems while something is read, together with where each key was last set.
type Report struct {
	Origins  Origins
	problems []Problem
	more     int
}

// NewReport gives a report of nothing.
func NewReport() *Report { return &Report{Origins: Origins{}} }

// Add adds a problem. key is "" when a whole file is at fault.
func (r *Report) Add(pos Pos, key, format string, args ...any) {
	if len(r.problems) == keptProblems {
		r.more++
		return
	}
	r.problems = append(r.problems, Problem{Pos: pos, Key: key, Msg: fmt.Sprintf(format, args...)})
}

// Errorf adds a problem at the place where key, or the nearest thing around it, was written.
func (r *Report) Errorf(key, format string, args ...any) {
	r.Add(r.Origins.At(key), key, format, args...)
}

// AddAll adds the problems of another report, which keeps its own places.
func (r *Report) AddAll(other *Report) {
	for _, p := range other.problems {
		r.Add(p.Pos, p.Key, "%s", p.Msg)
	}
	r.more += other.more
}

// Problems gives what was collected, sorted and without repeats.
func (r *Report) Problems() []Problem { return sorted(r.problems) }

// Err gives what was collected as an *Error, or nil.
func (r *Report) Err() error {
	if len(r.problems) == 0 {
		return nil
	}
	return &Error{Problems: r.Problems(), More: r.more}
}

func sorted(list []Problem) []Problem {
	sort.SliceStable(list, func(i, j int) bool {
		a, b := list[i], list[j]
		switch {
		case a.Pos.File != b.Pos.File:
			return a.Pos.File < b.Pos.File
		case a.Pos.Line != b.Pos.Line:
			return a.Pos.Line < b.Pos.Line
		case a.Pos.Column != b.Pos.Column:
			return a.Pos.Column < b.Pos.Column
		case a.Key != b.Key:
			return a.Key < b.Key
		}
		return a.Msg < b.Msg
	})
	out := list[:0]
	for i, p := range list {
		if i == 0 || p != list[i-1] {
			out = append(out, p)
		}
	}
	return out
}
