package scan

import (
	"strings"
	"unicode/utf8"

	"github.com/yett-dev/yett/sdk"
)

// Finding is one place of a file that a scanner flags.
type Finding struct {
	File       string  `json:"file"`
	Line       int     `json:"line"`   // from 1
	Column     int     `json:"column"` // from 1, characters
	EndLine    int     `json:"end_line"`
	EndColumn  int     `json:"end_column"` // of the first character behind it
	Start      int     `json:"start"`      // bytes
	End        int     `json:"end"`
	Kind       string  `json:"kind"`
	Scanner    string  `json:"scanner"`
	Severity   string  `json:"severity"`
	Confidence float32 `json:"confidence"`
	Masked     string  `json:"masked"`
	Value      string  `json:"value,omitempty"`  // with --show
	Reason     string  `json:"reason,omitempty"` // of the comment that allows it

	value    string // all of it; it leaves this program with --show alone
	severity sdk.Severity
}

// place is a position in a text.
type place struct{ offset, line, column int }

// pass moves the place behind a text.
func (p *place) pass(text string) {
	for {
		n := strings.IndexByte(text, '\n')
		if n < 0 {
			break
		}
		p.offset, p.line, p.column = p.offset+n+1, p.line+1, 1
		text = text[n+1:]
	}
	p.offset, p.column = p.offset+len(text), p.column+utf8.RuneCountInString(text)
}

// maxMarked is how much of a line is kept to look for a comment in it, bytes. In what of a line lies behind it, none
// counts.
const maxMarked = 64 << 10

// places makes Findings of what a scan settles, and looks for the comments that allow them. A finding waits for the end
// of its line.
type places struct {
	file  string
	least sdk.Severity
	at    place
	line  strings.Builder // the line at hand so far
	from  int             // its offset
	open  []Finding       // those that begin in it
	given []Finding       // all that is found, for doubles

	found, allowed []Finding
	unreasoned     []Unreasoned
	low            int  // findings below least
	noAllow        bool // comments do not count
}

// Unreasoned is a comment that allows nothing, because it does not say why.
type Unreasoned struct {
	File string `json:"file"`
	Line int    `json:"line"`
}

func newPlaces(file string, least sdk.Severity) *places {
	return &places{file: file, least: least, at: place{0, 1, 1}}
}

// take is a settled.
func (p *places) take(released string, found []sdk.Finding, around string, at int) error {
	for i := range found {
		f := &found[i]
		if f.Severity < p.least {
			p.low++
			continue
		}
		released = p.read(released, f.Start)
		if !p.double(f) {
			p.add(f, around[f.Start-at:f.End-at])
		}
		if len(p.given) > maxFindings {
			return errCrowded
		}
	}
	_ = p.read(released, p.at.offset+len(released))
	return nil
}

// read goes on to an offset, and gives the text behind it.
func (p *places) read(text string, to int) (rest string) {
	n := max(0, min(len(text), to-p.at.offset))
	text, rest = text[:n], text[n:]
	for text != "" {
		part, after, ended := strings.Cut(text, "\n")
		if n := min(len(part), maxMarked-p.line.Len()); n > 0 {
			p.line.WriteString(part[:n])
		}
		if p.at.pass(part); ended {
			p.endLine()
			p.at.pass("\n")
			p.from = p.at.offset
		}
		text = after
	}
	return rest
}

// double reports whether a finding is one that is known in another spelling: a text is scanned as it stands and as it
// reads.
func (p *places) double(f *sdk.Finding) bool {
	for i := len(p.given) - 1; i >= max(0, len(p.given)-64); i-- {
		g := &p.given[i]
		if g.Kind == f.Kind && g.Scanner == f.Scanner && g.Start <= f.Start && f.End <= g.End {
			return true
		}
	}
	return false
}

func (p *places) add(f *sdk.Finding, value string) {
	end := p.at
	end.pass(value)
	one := Finding{File: p.file, Line: p.at.line, Column: p.at.column, EndLine: end.line, EndColumn: end.column,
		Start: f.Start, End: f.End, Kind: f.Kind, Scanner: f.Scanner, Severity: f.Severity.String(), Confidence: f.Confidence,
		Masked: masked(value), value: value, severity: f.Severity}
	p.given = append(p.given, one)
	p.open = append(p.open, one)
}

// endLine settles the findings that begin in the line at hand.
func (p *places) endLine() {
	line := p.line.String()
	p.line.Reset()
	var marks marks
	if !p.noAllow {
		marks = marksOf(line)
	}
	for i := range p.open {
		f := &p.open[i]
		reason, marked := marks.allow(f, p.open, p.from)
		if reason != "" {
			f.Reason = reason
			p.allowed = append(p.allowed, *f)
			continue
		}
		p.found = append(p.found, *f)
		if said := len(p.unreasoned); marked && (said == 0 || p.unreasoned[said-1].Line != f.Line) {
			p.unreasoned = append(p.unreasoned, Unreasoned{p.file, f.Line})
		}
	}
	p.open = p.open[:0]
}
