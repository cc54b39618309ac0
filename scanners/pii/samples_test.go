package main

import (
	"bufio"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The notation of testdata: ⟦…⟧ holds the shape of a number, written as in numberRules; small letters d, a and x are
// classes, ^ ends a count, and everything else stands for itself. In a line of testdata/hit a shape becomes a number
// that the check of
// the line's kind accepts, and the whole is the wanted span. In testdata/clean ⟦!KIND shape⟧ becomes a number that no
// rule of the kind accepts, and ⟦=KIND shape⟧ one that a rule does accept. ⟦'text⟧ is text as it stands.

// draw fills a shape at random.
func draw(shape string, r *rand.Rand) string {
	var out strings.Builder
	for i := 0; i < len(shape); {
		c := shape[i]
		i++
		if c != 'd' && c != 'a' && c != 'x' {
			if c != '^' { // which ends a count
				out.WriteByte(c)
			}
			continue
		}
		n := 0
		for i < len(shape) && isDigit(shape[i]) {
			n = n*10 + int(shape[i]-'0')
			i++
		}
		for range n {
			letter := c == 'a' || c == 'x' && r.IntN(2) == 0
			if letter {
				out.WriteByte(byte('A' + r.IntN(26)))
			} else {
				out.WriteByte(byte('0' + r.IntN(10)))
			}
		}
	}
	return out.String()
}

// compact leaves letters and digits.
func compact(s string) []byte {
	var v []byte
	for _, c := range []byte(s) {
		if isWord(c) {
			v = append(v, upper(c))
		}
	}
	return v
}

// form is how a number is written.
func form(s string) (form, any string) {
	written, either := []byte(s), []byte(s)
	for i, c := range []byte(s) {
		switch {
		case isDigit(c):
			written[i], either[i] = '9', 'x'
		case isAlpha(c):
			written[i], either[i] = 'A', 'x'
		}
	}
	return string(written), string(either)
}

// accepted tells whether a number is one of the kind.
func accepted(kind, s string) bool {
	v := compact(s)
	switch kind {
	case "CREDIT_CARD":
		return cardIssuer(v) && luhn(v) && !testCard(v)
	case "IBAN":
		return mod97(append(slices.Clone(v[4:]), v[:4]...)) == 1
	}
	written, any := form(s)
	fits := func(i uint8) bool {
		return i != cardRule && numberRules[i].kind == kind && numberRules[i].check(v)
	}
	return slices.ContainsFunc(shapes[written], fits) || slices.ContainsFunc(shapes[any], fits)
}

// sample draws until the number is, or is not, one of the kind; kinds without a check take the first.
func sample(t *testing.T, kind, shape string, want bool, r *rand.Rand) string {
	checked := kind == "CREDIT_CARD" || kind == "IBAN" ||
		slices.ContainsFunc(numberRules, func(r rule) bool { return r.kind == kind })
	for range 200000 {
		if s := draw(shape, r); !checked || accepted(kind, s) == want {
			return s
		}
	}
	t.Fatalf("no %s of the shape %s (accepted: %v) in 200000 tries", kind, shape, want)
	return ""
}

// expand makes the text of one case and gives the marked spans.
func expand(t *testing.T, kind, line string, seed uint64) (text string, marks [][2]int) {
	r := rand.New(rand.NewPCG(seed, 7))
	line = strings.ReplaceAll(line, `\n`, "\n")
	for {
		before, rest, marked := strings.Cut(line, "⟦")
		text += before
		if !marked {
			return text, marks
		}
		inside, after, _ := strings.Cut(rest, "⟧")
		start := len(text)
		switch inside[0] {
		case '\'':
			text += inside[1:]
		case '!', '=':
			of, shape, _ := strings.Cut(inside[1:], " ")
			text += sample(t, of, shape, inside[0] == '=', r)
		default:
			text += sample(t, kind, inside, true, r)
		}
		marks = append(marks, [2]int{start, len(text)})
		line = after
	}
}

// cases reads the lines of a folder of texts, comments left out.
func cases(t *testing.T, folder string) (lines []string) {
	files, err := filepath.Glob(filepath.Join("testdata", folder, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases in %s: %v", folder, err)
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		in := bufio.NewScanner(f)
		for in.Scan() {
			if line := in.Text(); line != "" && line[0] != '#' {
				lines = append(lines, line)
			}
		}
		if err := f.Close(); err != nil || in.Err() != nil {
			t.Fatal(err, in.Err())
		}
	}
	return lines
}
