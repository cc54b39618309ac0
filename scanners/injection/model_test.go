package main

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/yett-dev/yett/sdk/scanner"
)

// example is a text as the model sees it: the features of each of its segments that a trigger leads to.
type example struct {
	row
	segments [][]uint16
	ruled    bool // a rule finds something
}

// family is the part of a source's name that one author stands for.
func (r row) family() string {
	name, _, _ := strings.Cut(r.Source, "/")
	return name
}

// examples reads rows and cuts them into segments.
func examples(t *testing.T, rows []row) []example {
	var got [][]uint16
	ruled := false
	cutter := spec
	cutter.Scan = func(in *scanner.In, out *scanner.Out) error {
		got, ruled = nil, false
		hits, err := in.Hits()
		if err != nil {
			return err
		}
		s := &work
		start, end := -1, -1
		for _, h := range hits {
			if rules.jobs[h.Trigger] != jobText || h.Start < end {
				continue
			}
			start, end = bounds(in.Text, h.Start)
			s.seg.fold(in.Text[start:end], start)
			s.seg.understand(in.Text[start:end], start)
			if s.seg.words() >= fewWords && !s.seg.code {
				got = append(got, s.seg.features(nil))
			}
		}
		return nil
	}
	r, err := scanner.New(cutter, nil)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := scanner.New(spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	var list []example
	for _, row := range rows {
		if _, err := r.Scan([]byte(row.Text)); err != nil {
			t.Fatal(err)
		}
		segments := got
		found, err := whole.Scan([]byte(row.Text))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			ruled = ruled || f.Kind != kindTable[kSuspected].name
		}
		list = append(list, example{row: row, segments: segments, ruled: ruled})
	}
	return list
}

// learner is a logistic model of the best segment of a text.
type learner struct {
	w, grad [modelSize]float64
	bias    float64
}

func (m *learner) segment(f []uint16) float64 {
	sum := 0.0
	for _, i := range f {
		sum += m.w[i]
	}
	return sum*float64(normal(len(f)))/256 + m.bias
}

// best gives the segment with the highest score.
func (m *learner) best(segments [][]uint16) (at int, score float64) {
	at, score = -1, math.Inf(-1)
	for i, f := range segments {
		if v := m.segment(f); v > score {
			at, score = i, v
		}
	}
	return at, score
}

const (
	epochs  = 30
	rate    = 0.15
	penalty = 3e-4
)

// trainingSet is what the model is made of: nothing that is kept aside.
func trainingSet(t *testing.T) []example {
	in, _ := tuned(examples(t, allRows(t)))
	return append(in, examples(t, append(moreBenign(t), ownCases(t)...))...)
}

// ownCases are the lines that this folder is tested with.
func ownCases(t *testing.T) (rows []row) {
	for _, line := range cases(t, "clean") {
		text, _, _ := expand(line)
		rows = append(rows, row{Text: text, Source: "own"})
	}
	for _, line := range cases(t, "orders") {
		rows = append(rows, row{Text: line, Source: "own", Injection: true})
	}
	for _, line := range cases(t, "hit") {
		_, notation, _ := strings.Cut(line, " | ")
		text, _, _ := expand(notation)
		rows = append(rows, row{Text: text, Source: "own", Injection: true})
	}
	return rows
}

// The weights are what training gives. GOLDEN=write writes them; otherwise it is checked that they are about
// the same,
// since other processors round other sums.
func TestModelIsTrained(t *testing.T) {
	m := train(trainingSet(t))
	packed := m.pack()
	if os.Getenv("GOLDEN") == "write" {
		if err := os.WriteFile("model.bin", packed, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	differ := 0
	for i, b := range packed {
		if d := int(int8(b)) - int(int8(weights[i])); d < -2 || d > 2 {
			differ++
		}
	}
	if len(packed) != len(weights) || differ > len(packed)/100 {
		t.Errorf("%d of %d weights are not those of model.bin: run GOLDEN=write go test -run TestModelIsTrained",
			differ, len(packed))
	}
}

// pack rounds the weights to bytes.
func (m *learner) pack() []byte {
	out := make([]byte, 0, modelSize+1)
	for _, w := range m.w {
		out = append(out, round(w*weightUnit))
	}
	return append(out, round(m.bias*weightUnit/modelBias))
}

func round(v float64) byte { return byte(int8(min(127, max(-127, math.Round(v))))) }

// weightOf tells how much an example counts. Orders that a text hides without any word that speaks to a model teach
// little.
func weightOf(e *example) float64 {
	switch f := e.family(); {
	case !e.Injection:
		return 1.0
	case f == "BIPIA":
		return 0
	case strings.HasPrefix(f, "cyberseceval-pi"), strings.HasPrefix(f, "piguard"):
		return 1.5
	}
	return 1
}

// seeds is how many models are averaged: which segment of a text is learned from depends on the order of the texts.
const seeds = 5

// train fits a model: the mean of several, each with the examples in an order of its own.
func train(list []example) *learner {
	list = onlyTelling(list)
	mean := &learner{}
	for seed := range int64(seeds) {
		m := fit(list, seed)
		for i, w := range m.w {
			mean.w[i] += w / seeds
		}
		mean.bias += m.bias / seeds
	}
	return mean
}

func fit(list []example, seed int64) *learner {
	m := &learner{bias: -1}
	rng := rand.New(rand.NewSource(seed))
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	for range epochs {
		rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, k := range order {
			e := &list[k]
			at, _ := m.best(e.segments)
			if at < 0 {
				continue
			}
			m.step(e.segments[at], e.Injection, weightOf(e))
			if !e.Injection && len(e.segments) > 1 {
				m.step(e.segments[rng.Intn(len(e.segments))], false, 0.3)
			}
		}
	}
	return m
}

func (m *learner) step(f []uint16, positive bool, weight float64) {
	want := 0.0
	if positive {
		want = 1
	}
	p := 1 / (1 + math.Exp(-m.segment(f)))
	g := (p - want) * weight
	scale := float64(normal(len(f))) / 256
	for _, i := range f {
		d := g*scale + penalty*m.w[i]
		m.grad[i] += d * d
		m.w[i] -= rate * d / math.Sqrt(m.grad[i]+1e-3)
	}
	m.bias -= 0.01 * g
}

func partOf(s string, n uint32) uint32 {
	h := fnv.New32a()
	h.Write([]byte(s))
	return h.Sum32() % n
}

// tuned leaves out what is kept aside.
func tuned(list []example) (in, aside []example) {
	for _, e := range list {
		if e.GroupHalf == "held" {
			aside = append(aside, e)
		} else {
			in = append(in, e)
		}
	}
	return in, aside
}

// allRows are the injection set and the benign outputs.
func allRows(t *testing.T) []row {
	return append(labelled(t, "injection.jsonl.gz"), labelled(t, "benign_outputs.jsonl.gz")...)
}

// moreBenign are texts that were not collected for this: what tools have answered, and sentences of all sorts.
func moreBenign(t *testing.T) (rows []row) {
	seen := map[string]bool{}
	for _, r := range labelled(t, "traces.jsonl.gz") {
		if text := string(r.Result); r.Source != "ASB" && len(text) > 20 && !seen[text] {
			seen[text] = true
			_ = json.Unmarshal(r.Result, &text) // another type of result is read as it stands
			rows = append(rows, row{Text: text, Source: "traces/" + r.Source})
		}
	}
	for _, r := range labelled(t, "pii_sentences.jsonl.gz") {
		if r.GroupHalf != "held" {
			rows = append(rows, row{Text: r.Text, Source: "pii_sentences"})
		}
	}
	return rows
}

// onlyTelling drops the segments of positive texts that benign ones hold too: what surrounds an injection.
func onlyTelling(list []example) []example {
	key := func(f []uint16) string { return fmt.Sprint(f) }
	benign := map[string]bool{}
	for _, e := range list {
		for _, f := range e.segments {
			if !e.Injection {
				benign[key(f)] = true
			}
		}
	}
	out := slices.Clone(list)
	for i, e := range out {
		if e.Injection {
			out[i].segments = slices.DeleteFunc(slices.Clone(e.segments),
				func(f []uint16) bool { return benign[key(f)] })
		}
	}
	return out
}

type scored struct {
	*example
	score float64
}

// across gives each example the score of a model that has not seen its part; part names it.
func across(list []example, part func(*example) string) (out []scored) {
	var names []string
	for i := range list {
		if n := part(&list[i]); !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	for _, n := range names {
		var rest []example
		for i := range list {
			if part(&list[i]) != n {
				rest = append(rest, list[i])
			}
		}
		m := train(rest)
		for i := range list {
			if part(&list[i]) == n {
				_, v := m.best(list[i].segments)
				out = append(out, scored{&list[i], v})
			}
		}
	}
	return out
}
