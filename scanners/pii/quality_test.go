package main

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/yett-dev/yett/sdk"
)

// labelSpan is a labelled span, in characters.
type labelSpan struct {
	Entity     string
	Start, End int
	Value      string
}

// row is one line of a labelled set.
type row struct {
	Entity, Text, Source string
	PII                  bool
	Spans                []labelSpan
	Half                 string `json:"group_half"`
}

// labelled reads a set from the directory YETT_DATA.
func labelled(t *testing.T, file string) (rows []row) {
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

// place gives a span's bytes.
func (s labelSpan) place(text string) (start, end int) {
	chars := []rune(text)
	return len(string(chars[:s.Start])), len(string(chars[:s.End]))
}

// checksumTypes are the entities whose numbers carry a check of their own.
var checksumTypes = strings.Fields("ABA_ROUTING_NUMBER AU_ABN AU_ACN AU_MEDICARE AU_TFN CA_SIN CREDIT_CARD CRYPTO " +
	"DE_HEALTH_INSURANCE " +
	"DE_ID_CARD DE_LANR DE_PASSPORT DE_SOCIAL_SECURITY DE_TAX_ID DE_VAT_ID ES_NIE ES_NIF " +
	"FI_PERSONAL_IDENTITY_CODE IBAN_CODE " +
	"IN_AADHAAR IT_FISCAL_CODE IT_VAT_CODE KR_BRN KR_RRN MEDICAL_LICENSE NG_NIN PH_TIN PL_PESEL " +
	"SE_ORGANISATIONSNUMMER " +
	"SE_PERSONNUMMER SG_NRIC_FIN SG_UEN TH_TNIN TR_NATIONAL_ID UK_NHS US_NPI ZA_ID_NUMBER")

// about tells whether a kind names an entity: the words of one are among those of the other.
func about(kind, entity string) bool {
	a, b := strings.Split(strings.TrimPrefix(kind, "PII_"), "_"), strings.Split(entity, "_")
	if len(a) > len(b) {
		a, b = b, a
	}
	return !slices.ContainsFunc(a, func(word string) bool { return !slices.Contains(b, word) })
}

type score struct{ positive, hit, negative, wrong int }

func (s score) recall() float64 { return float64(s.hit) / float64(max(1, s.positive)) }
func (s score) fpr() float64    { return float64(s.wrong) / float64(max(1, s.negative)) }

func showMisses() bool { return os.Getenv("YETT_MISSES") != "" }

// measureEntities counts rows of the set that is about one entity a row.
func measureEntities(t *testing.T, rows []row, want func(row) bool) (s score) {
	r := runner(t, "")
	for _, row := range rows {
		if !want(row) {
			continue
		}
		found := scanFor(t, r, row.Text)
		if !row.PII {
			s.negative++
			if slices.ContainsFunc(found, func(f sdk.Finding) bool { return about(f.Kind, row.Entity) }) {
				s.wrong++
				if showMisses() && row.Half == "dev" {
					t.Logf("FALSE %s %q %+v", row.Entity, row.Text, found)
				}
			}
			continue
		}
		s.positive++
		if touches(row, found) {
			s.hit++
		} else if showMisses() && row.Half == "dev" {
			t.Logf("MISS %s %q %+v", row.Entity, row.Text, found)
		}
	}
	return s
}

func touches(r row, found []sdk.Finding) bool {
	if len(r.Spans) == 0 {
		return len(found) > 0
	}
	for _, span := range r.Spans {
		start, end := span.place(r.Text)
		if slices.ContainsFunc(found, func(f sdk.Finding) bool { return f.Start < end && start < f.End }) {
			return true
		}
	}
	return false
}

func TestQualityOnEntities(t *testing.T) {
	rows := labelled(t, "pii.jsonl.gz")
	notNames := func(r row) bool { return r.Entity != "PERSON" && r.Entity != "LOCATION" && r.Entity != "ORGANIZATION" }
	for _, half := range []string{"dev", "held"} {
		in := func(r row) bool { return r.Half == half }
		sums := measureEntities(t, rows, func(r row) bool { return in(r) && slices.Contains(checksumTypes, r.Entity) })
		all := measureEntities(t, rows, func(r row) bool {
			return in(r) && notNames(r) && !slices.Contains(checksumTypes, r.Entity)
		})
		total := (float64(all.hit) + float64(sums.hit)) / float64(all.positive+sums.positive)
		t.Logf("%-5s checksum types: recall %.3f (%d) false %.3f (%d of %d)", half, sums.recall(), sums.positive,
			sums.fpr(),
			sums.wrong, sums.negative)
		t.Logf("%-5s other types: recall %.3f (%d) false %.3f (%d of %d); all positives %.3f", half, all.recall(),
			all.positive, all.fpr(), all.wrong, all.negative, total)
		least := map[string][2]float64{"dev": {0.98, 0.97}, "held": {0.98, 0.94}}[half]
		if sums.recall() < least[0] || total < least[1] {
			t.Errorf("%s: recall %.3f of checksum types, %.3f of all, want %v", half, sums.recall(), total, least)
		}
		if sums.fpr() > 0.03 {
			t.Errorf("%s: false positives of checksum types %.3f are above 0.03", half, sums.fpr())
		}
		if showMisses() {
			entities := map[string]bool{}
			for _, r := range rows {
				entities[r.Entity] = entities[r.Entity] || in(r)
			}
			for e, here := range entities {
				if s := measureEntities(t, rows, func(r row) bool { return in(r) && r.Entity == e }); here &&
					half == "held" {
					t.Logf("  %-28s recall %.2f (%d) false %.2f (%d)", e, s.recall(), s.positive, s.fpr(), s.negative)
				}
			}
		}
	}
}

// patternKinds says which kinds answer for an entity of the sentences.
var patternKinds = map[string][]string{
	"CREDIT_CARD": {"PII_CREDIT_CARD"}, "EMAIL_ADDRESS": {"PII_EMAIL"}, "PHONE_NUMBER": {"PII_PHONE"},
	"IBAN_CODE": {"PII_IBAN"}, "IP_ADDRESS": {"PII_IP_ADDRESS"}, "US_SSN": {"PII_US_SSN"},
	"US_DRIVER_LICENSE": {"PII_US_DRIVER_LICENSE", "PII_US_PASSPORT", "PII_IT_DRIVER_LICENSE", "PII_DE_FUEHRERSCHEIN"},
	"DOMAIN_NAME":       {"PII_URL"}, "AGE": {"PII_AGE"}, "ZIP_CODE": {"PII_ZIP_CODE", "PII_UK_POSTCODE"},
	"DATE_TIME": {"PII_DATE_TIME", "PII_DATE_OF_BIRTH"},
}

// spans counts spans of one entity: found ones overlap a label, and half of both.
type spans struct{ labels, found, hits, right int }

func (s *spans) f1() float64 {
	p, r := float64(s.right)/float64(max(1, s.found)), float64(s.hits)/float64(max(1, s.labels))
	return 2 * p * r / max(p+r, 1e-9)
}

// measureSpans counts by entity, and the sum under "" without the entities left out.
func measureSpans(t *testing.T, rows []row, half string) map[string]*spans {
	r := runner(t, "")
	counts := map[string]*spans{}
	for e := range patternKinds {
		counts[e] = &spans{}
	}
	for _, row := range rows {
		if row.Half != half {
			continue
		}
		found := scanFor(t, r, row.Text)
		for e, kinds := range patternKinds {
			c := counts[e]
			var labels [][2]int
			for _, s := range row.Spans {
				if s.Entity == e {
					start, end := s.place(row.Text)
					labels = append(labels, [2]int{start, end})
				}
			}
			hit := make([]bool, len(labels))
			for _, f := range found {
				if !slices.Contains(kinds, f.Kind) {
					continue
				}
				c.found++
				right := false
				for i, l := range labels {
					common := min(l[1], f.End) - max(l[0], f.Start)
					if common*2 > max(l[1]-l[0], f.End-f.Start) {
						hit[i], right = true, true
					}
				}
				if right {
					c.right++
				} else if showMisses() && half == "dev" {
					t.Logf("FALSE %s %s %q in %.160q", e, f.Kind, row.Text[f.Start:f.End], row.Text)
				}
			}
			c.labels += len(labels)
			for i, l := range labels {
				if hit[i] {
					c.hits++
				} else if showMisses() && half == "dev" {
					t.Logf("MISS %s %q in %.160q", e, row.Text[l[0]:l[1]], row.Text)
				}
			}
		}
	}
	return counts
}

func TestQualityOnSentences(t *testing.T) {
	rows := labelled(t, "pii_sentences.jsonl.gz")
	for _, half := range []string{"dev", "held"} {
		counts := measureSpans(t, rows, half)
		var all, narrow spans
		for _, e := range sortedKeys(counts) {
			c := counts[e]
			t.Logf("%-5s %-18s labels %3d found %3d F1 %.3f", half, e, c.labels, c.found, c.f1())
			sums := []*spans{&all}
			if e != "DATE_TIME" && e != "ZIP_CODE" && e != "AGE" {
				sums = append(sums, &narrow)
			}
			for _, sum := range sums {
				sum.labels, sum.found, sum.hits, sum.right = sum.labels+c.labels, sum.found+c.found, sum.hits+c.hits,
					sum.right+c.right
			}
		}
		if all.f1() < 0.92 || narrow.f1() < 0.96 {
			t.Errorf("%s: F1 %.3f, without dates, postal codes and ages %.3f, want 0.92 and 0.96", half, all.f1(),
				narrow.f1())
		}
		t.Logf("%-5s pattern types F1 %.3f; without DATE_TIME, ZIP_CODE and AGE %.3f", half, all.f1(), narrow.f1())
	}
}

func sortedKeys[V any](m map[string]V) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Outputs of tools: what is found there is counted by kind. Names of people, their addresses and birth dates are
// personal data there too, so that only other kinds count against the scanner.
func TestBenignOutputs(t *testing.T) {
	rows := labelled(t, "benign_outputs.jsonl.gz")
	r := runner(t, "")
	kinds, wrong := map[string]int{}, 0
	for _, row := range rows {
		bad := false
		for _, f := range scanFor(t, r, row.Text) {
			kinds[f.Kind+" "+f.Severity.String()]++
			if !truePersonal(f, row) {
				bad = true
				if showMisses() {
					t.Logf("%s %s %q in %q", f.Kind, f.Severity, row.Text[f.Start:f.End],
						row.Text[max(0, f.Start-40):min(len(row.Text), f.End+20)])
				}
			}
		}
		if bad {
			wrong++
		}
	}
	for _, k := range sortedKeys(kinds) {
		t.Logf("%-40s %d", k, kinds[k])
	}
	share := float64(wrong) / float64(cmp.Or(len(rows), 1))
	if share > 0.02 {
		t.Errorf("%.3f of the outputs have a finding that is no personal data, want at most 0.02", share)
	}
	t.Logf("%d of %d outputs have a finding that is no personal data: %.3f", wrong, len(rows), share)
}

// truePersonal: the records of a shop's and an airline's customers.
func truePersonal(f sdk.Finding, r row) bool {
	switch f.Kind {
	case "PII_EMAIL":
		return true
	case "PII_DATE_OF_BIRTH", "PII_POSTAL_ADDRESS", "PII_ZIP_CODE":
		return r.Source == "tau-bench"
	}
	return false
}
