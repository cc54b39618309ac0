package prefilter

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/yett-dev/yett/sdk/abi"
)

// builtinClasses are byte classes as the built-in scanners ask for them.
var builtinClasses = []abi.Trigger{runOf("at", 1), runOf("digits", 7), runOf("hex", 32), runOf("base64", 40)}

// words are what texts and literals of the benchmarks are made of.
var words = strings.Fields(`the of and to in is for that with this from are was not have but all they one can when
	there use your which do how their if will up other about out many then them these so some her would make like him
	into time has look two more write go see number no way could people my than first water been call who oil its now
	find long down day did get come made may part function return value error string index length result context
	package import struct type interface const range break continue default switch case status request response
	server client handler message connection timeout buffer reader writer parse format print append copy delete
	channel select mutex config option version release update install remove create destroy resource provider region
	instance cluster volume network subnet route table column schema query insert commit branch merge review issue
	comment approve directory file path name extension content header footer title section paragraph image button
	click event listener render component state effect memo callback reference document element attribute style color
	background border margin padding position absolute relative display flex grid align center justify between wrap
	transport transform translate transaction transfer account balance payment invoice customer order product price
	quantity discount total shipping address street city country postal phone email contact support service manager
	process thread memory storage backup restore snapshot archive compress extract encode decode hash digest sign`)

// cleanText is prose, code and logs by turns: n bytes without a run of a built-in class.
func cleanText(r *rand.Rand, n int) string {
	var b strings.Builder
	word := func() string { return words[r.IntN(len(words))] }
	for b.Len() < n {
		switch r.IntN(4) {
		case 0:
			fmt.Fprintf(&b, "%s %s, %s %s %s the %s. ", word(), word(), word(), word(), word(), word())
		case 1:
			fmt.Fprintf(&b, "\tif %s := %s.%s(%s, %d); %s != nil {\n\t\treturn %s\n\t}\n", word(), word(), word(), word(),
				r.IntN(100), word(), word())
		case 2:
			fmt.Fprintf(&b, "2026-03-%02d 12:%02d:%02d INFO %s: %s=%d %s=%q\n", r.IntN(28)+1, r.IntN(60), r.IntN(60), word(),
				word(), r.IntN(1000), word(), word())
		case 3:
			fmt.Fprintf(&b, "  {%q: %q, %q: %d, %q: [%q, %q]},\n", word(), word(), word(), r.IntN(1000), word(), word(), word())
		}
	}
	return b.String()[:n]
}

// literals5000 are 5 to 20 bytes long, like the prefixes of tokens and the names of vendors, and none is in text.
func literals5000(r *rand.Rand, text string) []abi.Trigger {
	var set []abi.Trigger
	lower := strings.ToLower(text)
	part := func() string {
		w := words[r.IntN(len(words))]
		return w[:min(len(w), 2+r.IntN(6))]
	}
	for len(set) < 5000 {
		var s string
		switch r.IntN(4) {
		case 0:
			s = part() + "_" + part() + "_"
		case 1:
			s = part()[:2] + string("abcdefghijklmnopqrstuvwxyz"[r.IntN(26)]) + "-" + part() + "-"
		case 2:
			s = part() + part()
		case 3:
			s = strings.ToUpper(part()[:2]) + fmt.Sprintf("%d", r.IntN(100)) + strings.ToUpper(part())
		}
		if len(s) < 5 || len(s) > 20 || strings.Contains(lower, strings.ToLower(s)) {
			continue
		}
		set = append(set, abi.Trigger{Literal: s, Fold: r.IntN(3) == 0})
	}
	return set
}

func benchFind(b *testing.B, texts []string, sets ...[]abi.Trigger) {
	a := compile(b, sets...)
	var f Found
	total, hits, over := 0, 0, 0
	for _, t := range texts {
		total += len(t)
		a.Find(t, &f)
		for s := range sets {
			h, complete := f.Hits(s)
			if hits += len(h); !complete {
				over++
			}
		}
	}
	b.SetBytes(int64(total))
	b.ReportAllocs()
	b.ReportMetric(float64(hits)/float64(total>>10), "hits/KiB")
	b.ReportMetric(float64(over), "over")
	for b.Loop() {
		for _, t := range texts {
			a.Find(t, &f)
			for s := range sets {
				f.Hits(s)
			}
		}
	}
}

// nearMisses is made of literals that lack their last byte.
func nearMisses(r *rand.Rand, set []abi.Trigger, n int) string {
	var b strings.Builder
	for b.Len() < n {
		if l := set[r.IntN(len(set))].Literal; l != "" {
			b.WriteString(l[:len(l)-1])
		}
	}
	return b.String()[:n]
}

const benchText = 64 << 10

func BenchmarkFind(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	clean := cleanText(r, benchText)
	set := literals5000(r, clean)
	many := append(append([]abi.Trigger(nil), set...), builtinClasses...)
	b.Run("clean-5000", func(b *testing.B) { benchFind(b, []string{clean}, many) })
	b.Run("clean-5000-literals", func(b *testing.B) { benchFind(b, []string{clean}, set) })
	b.Run("clean-classes", func(b *testing.B) { benchFind(b, []string{clean}, builtinClasses) })
	b.Run("clean-4KiB", func(b *testing.B) { benchFind(b, []string{clean[:4<<10]}, many) })
	b.Run("nearmiss", func(b *testing.B) { benchFind(b, []string{nearMisses(r, set, benchText)}, set) })
	b.Run("dirty", func(b *testing.B) { benchFind(b, []string{dirtyText(r, set, clean, 1<<10)}, many) })
	b.Run("dirty-10", func(b *testing.B) { benchFind(b, []string{dirtyText(r, set, clean, 100)}, many) })
	for _, h := range hostile(r) {
		b.Run("hostile "+h.name, func(b *testing.B) { benchFind(b, []string{h.text}, h.sets...) })
	}
	if texts := benignTexts(b); texts != nil {
		b.Run("benign-secrets", func(b *testing.B) { benchFind(b, texts, secretsTriggers(b)) })
		b.Run("benign-secrets-5000", func(b *testing.B) { benchFind(b, texts, secretsTriggers(b), many) })
		b.Run("clean-secrets", func(b *testing.B) { benchFind(b, []string{clean}, secretsTriggers(b)) })
	}
}

// dirtyText has a literal about every so many bytes.
func dirtyText(r *rand.Rand, set []abi.Trigger, clean string, every int) string {
	b := []byte(clean)
	for at := r.IntN(every); at < len(b)-20; at += every/2 + r.IntN(every) {
		copy(b[at:], set[r.IntN(len(set))].Literal)
	}
	return string(b)
}

// textbook is an Aho-Corasick automaton as one finds it in books, complete transitions over the bytes that occur; what
// the prefilter is measured against. It counts hits and nothing else.
type textbook struct {
	class [256]uint8
	width int
	next  []uint32
	outs  [][]uint32
}

func newTextbook(set []abi.Trigger) *textbook {
	t := &textbook{width: 1}
	for _, tr := range set {
		for _, c := range []byte(tr.Literal) {
			if c = lowerCase(c); t.class[c] == 0 {
				t.class[c] = uint8(t.width)
				t.width++
			}
		}
	}
	for c := 'A'; c <= 'Z'; c++ {
		t.class[c] = t.class[c|0x20]
	}
	t.next, t.outs = make([]uint32, t.width), make([][]uint32, 1)
	for i, tr := range set {
		s := 0
		for _, c := range []byte(tr.Literal) {
			at := s*t.width + int(t.class[c])
			if t.next[at] == 0 {
				t.next[at] = uint32(len(t.outs))
				t.next, t.outs = append(t.next, make([]uint32, t.width)...), append(t.outs, nil)
			}
			s = int(t.next[at])
		}
		t.outs[s] = append(t.outs[s], uint32(i))
	}
	fail := make([]int, len(t.outs))
	var queue []int
	for c := range t.width {
		if s := int(t.next[c]); s != 0 {
			queue = append(queue, s)
		}
	}
	for head := 0; head < len(queue); head++ {
		s := queue[head]
		t.outs[s] = append(t.outs[s], t.outs[fail[s]]...)
		for c := range t.width {
			to, back := &t.next[s*t.width+c], t.next[fail[s]*t.width+c]
			if *to == 0 {
				*to = back
				continue
			}
			fail[*to] = int(back)
			queue = append(queue, int(*to))
		}
	}
	for i := range t.next {
		t.next[i] *= uint32(t.width)
	}
	return t
}

func (t *textbook) count(text string) (n int) {
	s := uint32(0)
	for i := range len(text) {
		s = t.next[s+uint32(t.class[text[i]])]
		if o := t.outs[int(s)/t.width]; len(o) > 0 {
			n += len(o)
		}
	}
	return n
}

func BenchmarkTextbook(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	clean := cleanText(r, benchText)
	set := literals5000(r, clean)
	t := newTextbook(set)
	b.SetBytes(int64(len(clean)))
	for b.Loop() {
		t.count(clean)
	}
}

func BenchmarkCompile(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	set := literals5000(r, "")
	b.ReportAllocs()
	for b.Loop() {
		compile(b, set)
	}
}
