package config

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

// Pos is where something was written. File is a file's name, "env NAME" or "flag NAME"; Line and Column count from 1
// and are 0 where they have no meaning. The zero Pos is a built-in default.
type Pos struct {
	File         string
	Line, Column int
}

// String gives "file:line:column", as much of it as is known.
func (p Pos) String() string {
	switch {
	case p.File == "":
		return "default"
	case p.Line == 0:
		return p.File
	case p.Column == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Problem is one thing that is wrong in a configuration. Msg never holds the value of a secret.
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

// Error is what Load returns: everything that is wrong, sorted by place.
type Error struct {
	Problems []Problem // at most 1000
	More     int       // how many there are beyond these

	read map[string]string
}

// Read gives what each file held that was read, as Config.Read does: whoever mends one of them mends the configuration.
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

// report collects problems while a configuration is read, together with where each key was last set.
type report struct {
	problems []Problem
	more     int
	origins  map[string]Pos
}

func newReport() *report { return &report{origins: map[string]Pos{}} }

func (r *report) add(pos Pos, key, format string, args ...any) {
	if len(r.problems) == keptProblems {
		r.more++
		return
	}
	r.problems = append(r.problems, Problem{Pos: pos, Key: key, Msg: fmt.Sprintf(format, args...)})
}

// errorf adds a problem at the place where key, or the nearest thing around it, was written.
func (r *report) errorf(key, format string, args ...any) {
	r.add(r.at(key), key, format, args...)
}

// take adds the problems of another report, which keeps its own places.
func (r *report) take(other *report) {
	for _, p := range other.problems {
		r.add(p.Pos, p.Key, "%s", p.Msg)
	}
	r.more += other.more
}

// written says whether key or something below it was set by a source.
func (r *report) written(key string) bool {
	if _, ok := r.origins[key]; ok {
		return true
	}
	for k := range r.origins {
		if strings.HasPrefix(k, key+".") || strings.HasPrefix(k, key+"[") {
			return true
		}
	}
	return false
}

// at finds where key was written, or else the nearest thing around it that was.
func (r *report) at(key string) Pos {
	for {
		if p, ok := r.origins[key]; ok {
			return p
		}
		i := strings.LastIndexAny(key, ".[")
		if i < 0 {
			return r.origins[""]
		}
		key = key[:i]
	}
}

// forget drops the origins of everything below key, which is about to be replaced.
func (r *report) forget(key string) {
	for k := range r.origins {
		if strings.HasPrefix(k, key+".") || strings.HasPrefix(k, key+"[") {
			delete(r.origins, k)
		}
	}
}

// err gives what was collected, sorted and without repeats, or nil.
func (r *report) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	return &Error{Problems: sorted(r.problems), More: r.more}
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

// join adds a member's name to a key.
func join(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}
