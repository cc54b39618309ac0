package connect

import (
	"fmt"
	"strings"

	"github.com/yett-dev/yett/cmd/internal/agents/swap"
)

// around is how many lines around a change are shown.
const around = 3

// unified is the difference between a file and what it becomes, as diff -u shows it. It is "" if nothing differs.
func unified(path string, f *swap.File, after []byte, stays bool) string {
	from, to := path, path
	if !f.Exists {
		from = "/dev/null"
	}
	if !stays {
		to, after = "/dev/null", nil
	}
	ops := diffLines(lines(string(f.Text)), lines(string(after)))
	var b strings.Builder
	for start := 0; start < len(ops); {
		for start < len(ops) && ops[start].kind == ' ' {
			start++
		}
		if start == len(ops) {
			break
		}
		end, quiet := start, 0 // of the hunk: up to twice that many equal lines do not end it
		for i := start; i < len(ops) && quiet <= 2*around; i++ {
			if quiet++; ops[i].kind != ' ' {
				end, quiet = i+1, 0
			}
		}
		hunk(&b, ops, max(start-around, 0), min(end+around, len(ops)))
		start = end
	}
	if b.Len() == 0 {
		return ""
	}
	return fmt.Sprintf("--- %s\n+++ %s\n", from, to) + b.String()
}

// op is one line of a difference.
type op struct {
	kind byte // ' ', '-' or '+'
	text string
}

func lines(s string) []string { return strings.SplitAfter(s, "\n")[:strings.Count(s, "\n")+tail(s)] }

// tail is 1 if a text does not end with a line end.
func tail(s string) int {
	if s == "" || strings.HasSuffix(s, "\n") {
		return 0
	}
	return 1
}

// diffLines is the shortest difference between what is left when equal lines at both ends are set aside.
func diffLines(a, b []string) []op {
	var head, foot []op
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		head = append(head, op{' ', a[0]})
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		foot = append([]op{{' ', a[len(a)-1]}}, foot...)
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	// common[i][j] is the length of the longest common part of a[i:] and b[j:]
	if len(a)*len(b) > 4<<20 { // too much to compare: all of it is replaced
		for _, l := range a {
			head = append(head, op{'-', l})
		}
		a = nil
	}
	common := make([][]int, len(a)+1)
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if common[i][j] = max(common[i+1][j], common[i][j+1]); a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			}
		}
	}
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			head = append(head, op{' ', a[i]})
			i, j = i+1, j+1
		case i < len(a) && (j == len(b) || common[i+1][j] >= common[i][j+1]):
			head = append(head, op{'-', a[i]})
			i++
		default:
			head = append(head, op{'+', b[j]})
			j++
		}
	}
	return append(head, foot...)
}

// hunk writes the lines from..to with their head.
func hunk(b *strings.Builder, ops []op, from, to int) {
	count := func(ops []op, not byte) (n int) {
		for _, o := range ops {
			if o.kind != not {
				n++
			}
		}
		return n
	}
	place := func(not byte) string {
		before, n := count(ops[:from], not), count(ops[from:to], not)
		if n > 0 {
			before++
		}
		if n == 1 {
			return fmt.Sprint(before)
		}
		return fmt.Sprintf("%d,%d", before, n)
	}
	fmt.Fprintf(b, "@@ -%s +%s @@\n", place('+'), place('-'))
	for _, o := range ops[from:to] {
		b.WriteByte(o.kind)
		b.WriteString(o.text)
		if tail(o.text) == 1 {
			b.WriteString("\n\\ No newline at end of file\n")
		}
	}
}
