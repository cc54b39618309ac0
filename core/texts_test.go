package core

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/yett-dev/yett/core/chain"
)

// textParts are what texts for the built-in scanners are made of. They are made at run time from the notations of the
// scanners' testdata, so nothing here is a secret.
type textParts struct {
	hot  [][]string // by scanner: what it finds
	cool []string   // what looks so and is not
	rows []string   // of the labelled sets, if YETT_DATA names their directory
}

const partsSeed = 41

// scannerParts draws the parts. ask says whether a scanner finds anything in a text: a number that fails its check is
// not found.
func scannerParts(t *testing.T, ask func(scanner, text string) []int) *textParts {
	t.Helper()
	rng := rand.New(rand.NewPCG(partsSeed, 1))
	p := &textParts{}
	for _, name := range []string{"secrets", "pii", "injection"} {
		draw := map[string]func(*rand.Rand, string) string{"secrets": secretOf, "pii": numberOf}[name]
		var hot []string
		for _, line := range notations(t, name, "hit", "orders") {
			if _, notation, ok := strings.Cut(line, " | "); ok {
				line = notation
			}
			hot = append(hot, found(name, drawn(rng, line, draw, 24), ask)...)
		}
		if len(hot) < 40 {
			t.Fatalf("%s finds something in %d parts of its own testdata", name, len(hot))
		}
		p.hot = append(p.hot, hot)
		for _, line := range notations(t, name, "clean") {
			p.cool = append(p.cool, drawn(rng, line, draw, 1)...)
		}
	}
	p.rows = labelledTexts(t)
	return p
}

// notations are the lines of a scanner's folders, comments left out.
func notations(t *testing.T, scanner string, folders ...string) (lines []string) {
	t.Helper()
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join("..", "scanners", scanner, "testdata", folder, "*.txt"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			doc, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(doc)) {
				if line = strings.TrimRight(line, "\n"); line != "" && line[0] != '#' {
					lines = append(lines, line)
				}
			}
		}
	}
	return lines
}

// drawn are n texts of a line. draw fills what stands in its marks; nil leaves it as it is. A line without marks has
// one text.
func drawn(rng *rand.Rand, line string, draw func(*rand.Rand, string) string, n int) (out []string) {
	line = strings.NewReplacer(`\n`, "\n", "¶", "").Replace(line)
	for range n {
		text, rest := "", line
		for {
			before, marked, ok := strings.Cut(rest, "⟦")
			text += before
			if !ok {
				break
			}
			inside, after, _ := strings.Cut(marked, "⟧")
			if draw != nil {
				inside = draw(rng, inside)
			}
			text, rest = text+inside, after
		}
		if out = append(out, text); draw == nil || !strings.Contains(line, "⟦") {
			break
		}
	}
	return out
}

// found are the first of some texts in which a scanner finds something: at most two.
func found(scanner string, texts []string, ask func(scanner, text string) []int) (out []string) {
	const apart = "\n\n.\n\n"
	joined := strings.Join(texts, apart)
	starts := ask(scanner, joined)
	for at, i := 0, 0; i < len(texts) && len(out) < 2; i++ {
		for _, s := range starts {
			if s >= at && s < at+len(texts[i]) {
				out = append(out, texts[i])
				break
			}
		}
		at += len(texts[i]) + len(apart)
	}
	return out
}

var (
	secretRun   = regexp.MustCompile(`<([a-zA-Z])[^:>]*:(\d+)(?:-\d+)?>`)
	secretClass = map[byte]string{'d': "0123456789", 'x': "0123456789abcdef", 'X': "0123456789ABCDEF",
		'a': lower + "0123456789", 'A': upper + "0123456789", 'l': lower + upper, 'c': lower, 'u': upper + "234567"}
)

const lower, upper = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

// secretOf fills the notation of scanners/secrets: <class:count>.
func secretOf(rng *rand.Rand, notation string) string {
	return secretRun.ReplaceAllStringFunc(notation, func(run string) string {
		m := secretRun.FindStringSubmatch(run)
		n, err := strconv.Atoi(m[2])
		if err != nil {
			panic(err)
		}
		of := secretClass[m[1][0]]
		if of == "" {
			of = lower + upper + "0123456789"
		}
		return letters(rng, of, n)
	})
}

func letters(rng *rand.Rand, of string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = of[rng.IntN(len(of))]
	}
	return string(b)
}

var numberRun = regexp.MustCompile(`([dax])(\d+)\^?`)

// numberOf fills the notation of scanners/pii: d for digits, a for letters and x for either, each with a count.
func numberOf(rng *rand.Rand, notation string) string {
	if plain, is := strings.CutPrefix(notation, "'"); is {
		return plain
	}
	if notation[0] == '!' || notation[0] == '=' {
		_, notation, _ = strings.Cut(notation, " ")
	}
	return numberRun.ReplaceAllStringFunc(notation, func(run string) string {
		m := numberRun.FindStringSubmatch(run)
		n, err := strconv.Atoi(m[2])
		if err != nil {
			panic(err)
		}
		return letters(rng, map[string]string{"d": "0123456789", "a": upper, "x": upper + "0123456789"}[m[1]], n)
	})
}

// labelledTexts are rows of the labelled sets that nothing is kept aside of.
func labelledTexts(t *testing.T) (texts []string) {
	t.Helper()
	dir := os.Getenv("YETT_DATA")
	if dir == "" {
		return nil
	}
	for _, name := range []string{"secrets", "secrets_misc", "secrets_creddata", "pii", "pii_sentences", "injection",
		"benign_outputs"} {
		file, err := os.Open(filepath.Join(dir, name+".jsonl.gz"))
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(file)
		if err != nil {
			t.Fatal(err)
		}
		in := bufio.NewScanner(z)
		in.Buffer(nil, 1<<20)
		for in.Scan() {
			var row struct {
				Text string `json:"text"`
				Half string `json:"group_half"`
			}
			if err := json.Unmarshal(in.Bytes(), &row); err != nil {
				t.Fatal(err)
			}
			if row.Text != "" && row.Half != "held" {
				texts = append(texts, row.Text)
			}
		}
		if err := file.Close(); err != nil || in.Err() != nil {
			t.Fatal(err, in.Err())
		}
	}
	return texts
}

// words are what stands between parts. They trip no trigger, so that a scanner reads the parts and little else.
var words = strings.Fields("the green table near seven windows holds paper and bread while rain falls on older roofs " +
	"Straße naïve 日本語 🙂 сад a, b; row done none empty wide river stone above below")

// part draws something that is found, something that looks so, a row, or words.
func (p *textParts) part(rng *rand.Rand, rows bool) string {
	switch n := rng.IntN(10); {
	case rows && len(p.rows) > 0 && n < 5:
		return p.rows[rng.IntN(len(p.rows))]
	case n < 6:
		hot := p.hot[rng.IntN(len(p.hot))]
		return hot[rng.IntN(len(hot))]
	case n < 8:
		return p.cool[rng.IntN(len(p.cool))]
	}
	return filler(rng, 80)
}

func filler(rng *rand.Rand, size int) string {
	var b strings.Builder
	for b.Len() < size {
		b.WriteString(words[rng.IntN(len(words))])
		b.WriteByte(" \n"[min(rng.IntN(12)/11, 1)])
	}
	return b.String()
}

// plain is a text of about that size: a share of it is parts, the rest is words.
func (p *textParts) plain(rng *rand.Rand, size, every int, rows bool) string {
	var b strings.Builder
	for b.Len() < size {
		b.WriteString(p.part(rng, rows))
		b.WriteString([]string{" ", "\n", "\n\n", "", ", ", `","`, "\t", `\n`, ": ", "🙂"}[rng.IntN(10)])
		if rng.IntN(every) == 0 {
			b.WriteString(filler(rng, 1+rng.IntN(1+size/4)))
		}
		if rng.IntN(40) == 0 { // a spelling of what else stands there as it is
			b.WriteString(spelled(rng, p.part(rng, false), 3))
		}
	}
	return b.String()
}

// document is JSON of about that size.
func (p *textParts) document(rng *rand.Rand, size, every int, rows bool) string {
	var b strings.Builder
	b.WriteString([]string{"[", "{\"all\": [", " [ "}[rng.IntN(3)])
	closing := "]"
	if strings.HasPrefix(b.String(), "{") {
		closing = "]}"
	}
	for first := true; first || b.Len() < size; first = false {
		if !first {
			b.WriteString([]string{",", ", ", ",\n  "}[rng.IntN(3)])
		}
		p.value(&b, rng, 3, size, every, rows)
	}
	return b.String() + closing + []string{"", "\n", "  "}[rng.IntN(3)]
}

// value writes one value of JSON.
func (p *textParts) value(b *strings.Builder, rng *rand.Rand, depth, size, every int, rows bool) {
	switch n := rng.IntN(12); {
	case n == 0:
		b.WriteString([]string{"true", "false", "null", "{}", "[]", `""`, "[ ]"}[rng.IntN(7)])
	case n == 1:
		b.WriteString([]string{"0", "-1.5e+3", strconv.Itoa(rng.IntN(1e9)), "4" + letters(rng, "0123456789", 15),
			"0.10", "1E9"}[rng.IntN(6)])
	case n < 5 && depth > 0:
		b.WriteByte('[')
		for i := range rng.IntN(4) {
			if i > 0 {
				b.WriteString(" , "[rng.IntN(2):])
			}
			p.value(b, rng, depth-1, size, every, rows)
		}
		b.WriteByte(']')
	case n < 8 && depth > 0:
		b.WriteByte('{')
		for i := range rng.IntN(5) {
			if i > 0 {
				b.WriteByte(',')
			}
			name := []string{"name", "password", "email", "é", "token", "n", "note", "ssn"}[rng.IntN(8)] + strconv.Itoa(i)
			if rng.IntN(8) == 0 {
				name = p.part(rng, false) + strconv.Itoa(i)
			}
			b.WriteString(`"` + spelled(rng, name, 30) + `"` + []string{":", ": ", " : "}[rng.IntN(3)])
			p.value(b, rng, depth-1, size, every, rows)
		}
		b.WriteByte('}')
	default:
		text := p.part(rng, rows)
		if rng.IntN(every) == 0 {
			text += filler(rng, 1+rng.IntN(1+size/4))
		}
		if rng.IntN(6) == 0 { // JSON in a string of JSON
			text = `{"inner":"` + spelled(rng, text, 40) + `"}`
		}
		b.WriteString(`"` + spelled(rng, text, []int{3, 20, 1 << 30}[rng.IntN(3)]) + `"`)
	}
}

// spelled is a text as it stands in a string of JSON. One character of so many is an escape although it need not be.
func spelled(rng *rand.Rand, text string, every int) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case strings.ContainsRune("\"\\\n\t\r\b\f", r) && rng.IntN(4) > 0:
			b.WriteByte('\\')
			b.WriteByte(map[rune]byte{'"': '"', '\\': '\\', '\n': 'n', '\t': 't', '\r': 'r', '\b': 'b', '\f': 'f'}[r])
		case r == '/' && rng.IntN(every) == 0:
			b.WriteString(`\/`)
		case r < 0x20 || r == '"' || r == '\\' || rng.IntN(every) == 0:
			for _, u := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, []string{`\u%04x`, `\u%04X`}[rng.IntN(2)], u)
			}
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// startsIn gives where the findings of one step begin.
func startsIn(t *testing.T, s *chain.ScanStep, text string) (starts []int) {
	t.Helper()
	found, err := s.Scanner.Scan(context.Background(), &chain.Input{Text: text})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		starts = append(starts, f.Start)
	}
	return starts
}
