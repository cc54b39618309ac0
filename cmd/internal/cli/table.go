package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yett-dev/yett/sdk/wire"
)

// fit is what becomes of a column's cells when the table is too wide.
type fit int

const (
	fitCut   fit = iota // ends in …
	fitWhole            // stays
	fitWrap             // goes on in the next line
)

// Column is one column of a table.
type Column struct {
	name string
	fit  fit
}

// Whole is a column whose cells are never cut: what people copy.
func Whole(name string) Column { return Column{name, fitWhole} }

// Wrap is a column whose cells go on in the next line: what people read.
func Wrap(name string) Column { return Column{name, fitWrap} }

// Cut is a column whose cells end in … when the table is too wide.
func Cut(name string) Column { return Column{name, fitCut} }

// PrintTable writes rows so that they fit width cells (0: as wide as they are). What could hide or move text is shown
// as an escape: the names and arguments in the rows are the agents' own words.
func PrintTable(w io.Writer, width int, cols []Column, rows [][]string) error {
	return PrintBlocks(w, width, cols, rows, nil)
}

// PrintBlocks is printTable with a line of its own above each row, for what is too long to be a column. The first of
// lead is the line's heading. Rows are then indented.
func PrintBlocks(w io.Writer, width int, cols []Column, rows [][]string, lead []string) error {
	indent := ""
	if lead != nil {
		indent = "  "
	}
	shown := make([][]string, 0, len(rows)+1)
	head := make([]string, len(cols))
	for i, c := range cols {
		head[i] = c.name
	}
	widths := make([]int, len(cols))
	for _, row := range append([][]string{head}, rows...) {
		cells := make([]string, len(cols))
		for i := range cols {
			cells[i] = Visible(row[i])
			widths[i] = max(widths[i], CellWidth(cells[i]))
		}
		shown = append(shown, cells)
	}
	if width > 0 {
		shrink(cols, widths, max(width-len(indent), 1))
	}
	var b strings.Builder
	for i, cells := range shown {
		if lead != nil {
			b.WriteString(Visible(lead[i]) + "\n")
		}
		writeRow(&b, indent, cols, widths, cells)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeRow writes one row, as many lines as its longest wrapped cell needs.
func writeRow(b *strings.Builder, indent string, cols []Column, widths []int, cells []string) {
	lines := make([][]string, len(cols))
	height := 1
	for i, c := range cells {
		if cols[i].fit == fitWrap {
			lines[i] = wrapTo(c, widths[i])
		} else {
			lines[i] = []string{CutTo(c, widths[i])}
		}
		height = max(height, len(lines[i]))
	}
	for n := range height {
		var line strings.Builder
		line.WriteString(indent)
		for i := range cols {
			c := ""
			if n < len(lines[i]) {
				c = lines[i][n]
			}
			line.WriteString(c + strings.Repeat(" ", max(widths[i]-CellWidth(c), 0)+2))
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

// shrink takes from the widest column that need not stay until the row fits or nothing can be taken.
func shrink(cols []Column, widths []int, width int) {
	total := 2 * (len(cols) - 1)
	for _, n := range widths {
		total += n
	}
	for ; total > width; total-- {
		widest := -1
		for i, c := range cols {
			least := max(leastCell, len(c.name))
			if c.fit == fitWrap {
				least = max(leastWrapped, least)
			}
			if c.fit != fitWhole && widths[i] > least && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
	}
}

// wrapTo breaks a text into lines of so many cells, at spaces where there are any.
func wrapTo(s string, width int) (lines []string) {
	for CellWidth(s) > width {
		n, end, space := 0, len(s), -1
		for i, r := range s {
			if r == ' ' && i > 0 {
				space = i
			}
			if n += runeWidth(r); n > width && i > 0 {
				end = i
				break
			}
		}
		if end == len(s) {
			break
		}
		if space > 0 {
			end = space
		}
		lines = append(lines, s[:end])
		s = strings.TrimLeft(s[end:], " ")
	}
	return append(lines, s)
}

// CutTo cuts to so many cells, and shows that it did.
func CutTo(s string, width int) string {
	if CellWidth(s) <= width {
		return s
	}
	n := 0
	for i, r := range s {
		if n += runeWidth(r); n > width-1 {
			return s[:i] + "…"
		}
	}
	return s
}

func CellWidth(s string) (n int) {
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

// runeWidth is how many cells a terminal gives a character; near enough for a table.
func runeWidth(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana), r >= 0xFF01 &&
		r <= 0xFF60, r >= 0x1F300 && r <= 0x1FAFF:
		return 2
	}
	return 1
}

// plain reports whether a character shows what it is: no control, no bidirectional or zero-width mark.
func plain(r rune) bool {
	return r != utf8.RuneError && !wire.Hidden(r)
}

// Visible writes what could hide or move text as an escape.
func Visible(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		_, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case plain(r):
			b.WriteRune(r)
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n', r == '\t', r == '\r':
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		default:
			fmt.Fprintf(&b, `\u{%x}`, r)
		}
	}
	return b.String()
}

// VisibleJSON does the same to JSON text without changing what it means: such characters are only ever within strings.
func VisibleJSON(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		switch {
		case r < 0x7f || plain(r):
			out = append(out, text[:n]...)
		case r > 0xffff:
			high, low := (r-0x10000)>>10+0xd800, (r-0x10000)&0x3ff+0xdc00
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		text = text[n:]
	}
	return out
}

const (
	leastCell    = 6   // how far a cell is cut down to make a table fit
	leastWrapped = 24  // the same of one that is wrapped
	defaultWidth = 120 // of a table that goes to no terminal
)

// TableWidth is how wide a table may be.
func TableWidth(w io.Writer) int {
	if n := WidthOf(w); n > 0 {
		return n
	}
	return defaultWidth
}
