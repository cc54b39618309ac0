package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/scanner"
)

func runner(t testing.TB, config string) *scanner.Runner {
	t.Helper()
	r, err := scanner.New(spec, []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func scanFor(t testing.TB, r *scanner.Runner, text string) []sdk.Finding {
	t.Helper()
	found, err := r.Scan([]byte(text))
	if err != nil {
		t.Fatalf("%v in %.200q", err, text)
	}
	return found
}

func hasSpan(found []sdk.Finding, start, end int) bool {
	for _, f := range found {
		if f.Start <= start && f.End >= end {
			return true
		}
	}
	return false
}

// A number of weight within another finding gives it its own weight: whoever redacts by severity sees neither pass.
func TestNumbersWithinAddresses(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for kind, shape := range map[string]string{"CREDIT_CARD": "4d15", "US_SSN": "d3-d2-d4", "IBAN": "DEd20"} {
		number := sample(t, kind, shape, true, rng)
		alone := scanFor(t, runner(t, ""), "my number is "+number)
		within := scanFor(t, runner(t, ""), "mail "+number+"@gmail.com now")
		if len(alone) == 0 || len(within) == 0 || within[0].Severity < alone[0].Severity || alone[0].Severity < sdk.High {
			t.Errorf("%s alone: %+v, within an address: %+v", kind, alone, within)
		}
	}
}

// Every line of testdata/hit: the marked spans are found with their kind, and nothing else.
func TestHits(t *testing.T) {
	r := runner(t, "")
	for _, line := range cases(t, "hit") {
		kind, notation, ok := strings.Cut(line, " | ")
		if !ok {
			t.Fatalf("not KIND | text: %s", line)
		}
		for seed := range uint64(20) {
			text, marks := expand(t, kind, notation, seed)
			found := scanFor(t, r, text)
			good := len(found) == len(marks)
			for i := 0; good && i < len(found); i++ {
				good = found[i].Kind == "PII_"+kind && found[i].Start == marks[i][0] && found[i].End == marks[i][1]
			}
			if !good {
				t.Errorf("%s: want %v, got %+v\n%s", kind, marks, found, text)
				break
			}
		}
	}
}

// Every line of testdata/clean: nothing is found.
func TestClean(t *testing.T) {
	r := runner(t, "")
	for _, line := range cases(t, "clean") {
		for seed := range uint64(20) {
			text, _ := expand(t, "", line, seed)
			if found := scanFor(t, r, text); len(found) > 0 {
				t.Errorf("found %+v in\n%s", found, text)
				break
			}
		}
	}
}

// wordFor gives a word that supports a rule: one that speaks of little else, so that the rule is what is tested.
func wordFor(need topic) string {
	best, bits := "", 99
	for w, mask := range contextWords {
		if mask&need == 0 || w[0] >= 0x80 {
			continue
		}
		n := 0
		for m := mask; m != 0; m &= m - 1 {
			n++
		}
		if n < bits || n == bits && w < best {
			best, bits = w, n
		}
	}
	return best
}

// Each rule finds numbers of each of its shapes behind a word for them; a number that fails every check of the kind is
// not taken for one, and a number inside a longer one neither.
func TestEveryRule(t *testing.T) {
	r := runner(t, "")
	random := rand.New(rand.NewPCG(3, 4))
	for i := range numberRules {
		rule := &numberRules[i]
		word := wordFor(rule.need)
		if word == "" {
			t.Errorf("%s: no word supports it", rule.kind)
			continue
		}
		for _, shape := range strings.Split(rule.shapes, "|") {
			shape = strings.ReplaceAll(shape, "~", "")
			for range 5 {
				number := drawFor(rule, shape, random)
				if number == "" {
					t.Errorf("%s %s: no number passes its check", rule.kind, shape)
					break
				}
				text := fmt.Sprintf("%s: %s;", word, number)
				at := len(word) + 2
				if found := scanFor(t, r, text); !hasSpan(found, at, at+len(number)) {
					t.Errorf("%s %s: %+v in %s", rule.kind, shape, found, text)
					break
				}
				for _, no := range []string{"x" + number, number + "x", number + "1234567890123", "3." + number} {
					for _, f := range scanFor(t, r, "a "+no) {
						if f.Kind == "PII_"+rule.kind && f.Severity > sdk.Low && f.End-f.Start >= len(number) {
							t.Errorf("%s: found in %q: %+v", rule.kind, no, f)
						}
					}
				}
			}
		}
	}
}

// drawFor draws a number of a rule's shape that passes its check.
func drawFor(rule *rule, shape string, random *rand.Rand) string {
	for range 3000000 {
		if s := draw(shape, random); rule.check(compact(s)) && twoDigits(s) {
			return s
		}
	}
	return ""
}

// twoDigits tells whether two digits stand together, without which nothing leads to a number.
func twoDigits(s string) bool {
	for i := 1; i < len(s); i++ {
		if isDigit(s[i-1]) && isDigit(s[i]) {
			return true
		}
	}
	return false
}

func TestKinds(t *testing.T) {
	if n := len(kinds); n < 90 {
		t.Errorf("%d kinds, want at least 90", n)
	}
	for _, k := range kindList() {
		if strings.Trim(k.Name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "" || !strings.HasPrefix(k.Name, "PII_") {
			t.Errorf("kind %q is not PII_UPPER_SNAKE", k.Name)
		}
	}
	if len(numberRules) > 255 {
		t.Errorf("%d rules: their index has to fit a byte", len(numberRules))
	}
}
