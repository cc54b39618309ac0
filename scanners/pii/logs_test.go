package main

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/yett-dev/yett/sdk/scanner"
)

// ordinary are numbers as logs and tables write them, which stand for nobody though their checks may fit by chance.
var ordinary = map[string]func(r *rand.Rand) string{
	"a number and milliseconds": func(r *rand.Rand) string {
		return fmt.Sprintf("%06d %d", 100_000+r.IntN(900_000), 1_700_000_000_000+r.Int64N(80_000_000_000))
	},
	"four columns of sizes": func(r *rand.Rand) string {
		return fmt.Sprintf("%d %d %d %d,", 2000+r.IntN(5)*1000, r.IntN(9000)+1000, r.IntN(9000)+1000, 10+r.IntN(90))
	},
	"day and hour": func(r *rand.Rand) string {
		return fmt.Sprintf("%02d%02d%02d %02d%02d", 20+r.IntN(7), 1+r.IntN(12), 1+r.IntN(28), r.IntN(24), r.IntN(60))
	},
	"day and serial": func(r *rand.Rand) string {
		return fmt.Sprintf("%02d%02d%02d-%05d", 1+r.IntN(28), 1+r.IntN(12), r.IntN(27), r.IntN(100_000))
	},
}

// TestOrdinaryNumbers are no cards and national numbers within a line of a log.
func TestOrdinaryNumbers(t *testing.T) {
	s, err := scanner.New(spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, number := range ordinary {
		r := rand.New(rand.NewPCG(3, 2))
		for range 5000 {
			text := "2026-01-01T00:00:00Z INFO worker has finished the batch, " + number(r) + " and nothing else to tell"
			found, err := s.Scan([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range found {
				if grave := f.Kind == "PII_CREDIT_CARD" || f.Kind == "PII_SE_PERSONNUMMER" ||
					f.Kind == "PII_NO_FODSELSNUMMER"; grave && scanner.Severity(f.Severity) > low {
					t.Fatalf("%s: %s of %q", name, f.Kind, text[f.Start:f.End])
				}
			}
		}
	}
}

// TestShortCalls: beside a word for telephones a number is one, also in a short text and if another check fits it.
func TestShortCalls(t *testing.T) {
	s, err := scanner.New(spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 2))
	for i := range 9000 {
		form := []string{"%03d %03d %03d", "%02d %03d %03d", "0%02d %03d %04d"}[i%3]
		number := fmt.Sprintf(form, 20+r.IntN(79), r.IntN(1000), r.IntN(1000))
		for _, frame := range []string{"Tel. %s", "call %s now", "mobile %s"} {
			text := fmt.Sprintf(frame, number)
			found, err := s.Scan([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			if len(found) != 1 || found[0].Kind != "PII_PHONE" || found[0].End-found[0].Start < len(number) {
				t.Fatalf("%q: %v", text, found)
			}
		}
	}
}

// TestBirthBeforeADot finds a date of birth that a number follows.
func TestBirthBeforeADot(t *testing.T) {
	for _, text := range []string{"born 12.03.1985.4 pages follow", "DOB 3/9/85.755 is the next number"} {
		found, err := scanner.Run(spec, nil, []byte(text))
		if err != nil || len(found) == 0 || found[0].Kind != "PII_DATE_OF_BIRTH" {
			t.Errorf("%q: %v, %v", text, found, err)
		}
	}
}
