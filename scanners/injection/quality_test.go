package main

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// row is one line of a labelled set.
type row struct {
	Text      string          `json:"text"`
	Injection bool            `json:"injection"`
	Source    string          `json:"source"`
	Lang      string          `json:"lang"`
	Group     string          `json:"group"`
	GroupHalf string          `json:"group_half"`
	Result    json.RawMessage `json:"result"`
}

// labelled reads a set from the directory YETT_DATA.
func labelled(t *testing.T, file string) []row {
	dir := os.Getenv("YETT_DATA")
	if dir == "" {
		t.Skip("YETT_DATA is not set: it names the directory with the labelled sets to measure on")
	}
	f, err := os.Open(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var rows []row
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var r row
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return rows
}

// score counts rows.
type score struct{ positive, hit, negative, wrong int }

func (s score) recall() float64  { return float64(s.hit) / float64(max(1, s.positive)) }
func (s score) wrongly() float64 { return float64(s.wrong) / float64(max(1, s.negative)) }

func (s *score) add(positive, found bool) {
	switch {
	case positive && found:
		s.hit++
		fallthrough
	case positive:
		s.positive++
	case found:
		s.wrong++
		fallthrough
	default:
		s.negative++
	}
}

// scores are counts by a name, and by the part of it before the first slash.
type scores map[string]*score

func (m scores) add(name string, positive, found bool) {
	names := []string{name}
	if family, _, ok := strings.Cut(name, "/"); ok {
		names = append(names, family)
	}
	for _, n := range names {
		if m[n] == nil {
			m[n] = &score{}
		}
		m[n].add(positive, found)
	}
}

func (m scores) report(t *testing.T, title string) {
	for _, n := range slices.Sorted(maps.Keys(m)) {
		s := m[n]
		t.Logf("%-18s %-58s recall %.3f (%4d)  false %.3f (%d of %d)", title, n, s.recall(), s.positive,
			s.wrongly(), s.wrong,
			s.negative)
	}
}

// macro is the mean recall of the four families that the goal is about.
func (m scores) macro() (sum float64) {
	for _, n := range []string{"garak", "ASB", "cyberseceval-pi", "piguard-valid"} {
		if m[n] != nil {
			sum += m[n].recall() / 4
		}
	}
	return sum
}

func (m scores) wrongly() float64 {
	var all score
	for n, s := range m {
		if !strings.Contains(n, "/") {
			all.negative += s.negative
			all.wrong += s.wrong
		}
	}
	return all.wrongly()
}

func (m scores) atLeast(t *testing.T, name string, least float64) {
	t.Helper()
	if s := m[name]; s == nil || s.recall() < least {
		t.Errorf("%s: recall is below %.2f: %+v", name, least, s)
	}
}

func TestQualityOnLabelledInjections(t *testing.T) {
	r := runner(t, "")
	tunedRows, aside, languages, kinds := scores{}, scores{}, scores{}, map[string]int{}
	for _, row := range allRows(t) {
		found, err := r.Scan([]byte(row.Text))
		if err != nil {
			t.Fatal(err)
		}
		m := tunedRows
		if row.GroupHalf == "held" {
			m = aside
		}
		m.add(row.Source, row.Injection, len(found) > 0)
		if row.Lang != "" {
			languages.add(strings.ReplaceAll(row.Lang, "/", ", ")+" "+row.GroupHalf, row.Injection, len(found) > 0)
		}
		for _, f := range found {
			kinds[f.Kind+" "+map[bool]string{true: "in injections", false: "in benign"}[row.Injection]]++
		}
		if wrong := row.Injection != (len(found) > 0); wrong && os.Getenv("YETT_MISSES") != "" &&
			row.GroupHalf != "held" {
			t.Logf("WRONG injection=%v %s %.300q %+v", row.Injection, row.Source, row.Text, found)
		}
	}
	tunedRows.report(t, "tuned")
	aside.report(t, "kept aside")
	languages.report(t, "languages")
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		t.Logf("%5d %s", kinds[k], k)
	}
	t.Logf("macro recall of the tuned %.3f, false positives %.4f", tunedRows.macro(), tunedRows.wrongly())
	if tunedRows.macro() < 0.80 || tunedRows.wrongly() > 0.012 {
		t.Errorf("macro recall %.3f, false positives %.4f", tunedRows.macro(), tunedRows.wrongly())
	}
	aside.atLeast(t, "ASB", 0.98)
	aside.atLeast(t, "cyberseceval-pi", 0.29)
	aside.atLeast(t, "cyberseceval-pi-ml", 0.31)
	aside.atLeast(t, "BIPIA", 0.48)
	for _, benign := range []string{"NotInject", "tau-bench", "OpenHands", "SWE-agent"} {
		if s := tunedRows[benign]; s.wrongly() > 0.02 {
			t.Errorf("%s: false positives %+v", benign, *s)
		}
	}
}

// What the model adds on rows it has not learned from: by fifths of the groups, and with each source left out.
func TestModelOnWhatItHasNotSeen(t *testing.T) {
	list := trainingSet(t)
	for title, part := range map[string]func(*example) string{
		"fifths": func(e *example) string {
			return fmt.Sprint(partOf(e.Group+e.Text[:min(len(e.Text),
				60)], 5))
		},
		"source left out": func(e *example) string { return e.family() },
	} {
		m, rulesOnly := scores{}, scores{}
		for _, s := range across(list, part) {
			m.add(s.family(), s.Injection, s.ruled || s.score*weightUnit > modelThreshold)
			rulesOnly.add(s.family(), s.Injection, s.ruled)
		}
		m.report(t, title)
		t.Logf("%s: macro recall %.3f (rules alone %.3f), false positives %.4f (%.4f)", title, m.macro(),
			rulesOnly.macro(),
			m.wrongly(), rulesOnly.wrongly())
		if m.macro() < 0.60 || title == "fifths" && m.wrongly() > 0.02 {
			t.Errorf("%s: macro recall %.3f, false positives %.4f", title, m.macro(), m.wrongly())
		}
	}
}

// How much of what tools put out has a trigger at all: the rest never enters the sandbox.
func TestFewBenignTextsHaveTriggers(t *testing.T) {
	for _, set := range []string{"benign_outputs.jsonl.gz", "traces.jsonl.gz", "pii_sentences.jsonl.gz"} {
		texts, bytes, tripped, trippedBytes := 0, 0, 0, 0
		for _, row := range labelled(t, set) {
			text := row.Text
			if text == "" {
				text = string(row.Result)
			}
			if text == "" || row.Source == "ASB" {
				continue
			}
			texts++
			bytes += len(text)
			if len(hostHits([]byte(text))) > 0 {
				tripped++
				trippedBytes += len(text)
			}
		}
		t.Logf("%s: %d of %d texts (%.3f) have a trigger, %.3f of the bytes", set, tripped, texts,
			float64(tripped)/float64(texts),
			float64(trippedBytes)/float64(bytes))
		if float64(tripped)/float64(texts) > 0.25 {
			t.Errorf("%s: more than a quarter of the texts has a trigger", set)
		}
	}
}
