package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/scanner"
)

func TestConfig(t *testing.T) {
	for _, c := range []struct{ config, want string }{
		{``, ""}, {`{}`, ""}, {`{"disable":["PII_EMAIL"],"min_confidence":0.5}`, ""},
		{`{"disabled":[]}`, "disabled: unknown key; known are disable and min_confidence"},
		{`{"disable":["PII_NOPE"]}`, "disable: unknown kind PII_NOPE"},
		{`{"disable":"PII_EMAIL"}`, "disable: must be an array of strings"},
		{`{"min_confidence":"4"}`, "min_confidence: must be a number"},
		{`{"min_confidence":1.5}`, "min_confidence: must be between 0 and 1"},
		{`[]`, "not a JSON object"},
	} {
		_, err := scanner.New(spec, []byte(c.config))
		if got := strings.TrimPrefix(fmt.Sprint(err), "config: "); c.want == "" && err != nil ||
			c.want != "" && got != c.want {
			t.Errorf("%s: got %v, want %q", c.config, err, c.want)
		}
	}
	config = settings{}
}

// A disabled kind is not reported, and its values do not come back under another.
func TestDisabledKindStaysAway(t *testing.T) {
	defer func() { config = settings{} }()
	text := "mail jo@acme-corp.co.uk"
	if found := scanFor(t, runner(t, ""), text); len(found) != 1 || found[0].Kind != "PII_EMAIL" {
		t.Fatalf("found %+v", found)
	}
	if found := scanFor(t, runner(t, `{"disable":["PII_EMAIL"]}`), text); len(found) != 0 {
		t.Errorf("a disabled kind came back as %+v", found)
	}
	if found := scanFor(t, runner(t, `{"min_confidence":0.96}`), text); len(found) != 0 {
		t.Errorf("found below the least confidence: %+v", found)
	}
}

// More findings than a call may have: the last one covers the rest, whole.
func TestManyFindingsLoseNothing(t *testing.T) {
	text := strings.Repeat("jo@acme-corp.co.uk, ", 400)
	found := scanFor(t, runner(t, ""), text)
	if len(found) != scanner.MaxFindings {
		t.Fatalf("%d findings, want %d", len(found), scanner.MaxFindings)
	}
	for at := 0; at < len(text); at += 20 {
		if !hasSpan(found, at, at+18) {
			t.Fatalf("the address at %d is not covered", at)
		}
	}
}

// What documentation uses as an example is reported low, and left in place.
func TestExamplesAreLow(t *testing.T) {
	r := runner(t, "")
	for _, text := range []string{
		"to someone@example.com", "card " + strings.Repeat("4242 ", 4), "call 212-555-0123", "ping 192.0.2.1",
		"on 127.0.0.1:80",
		"from 10.1.2.3", "at 2001:db8::1",
	} {
		found := scanFor(t, r, text)
		if len(found) != 1 || found[0].Severity > sdk.Low || found[0].Suggested != sdk.Flag {
			t.Errorf("%s: %+v", text, found)
		}
	}
}

// hostHits is what a host sends: every occurrence of every trigger, found in the simplest way, in an order of its own.
func hostHits(text []byte) []byte {
	var hits []byte
	add := func(t, at int) {
		hits = binary.LittleEndian.AppendUint32(hits, uint32(t))
		hits = binary.LittleEndian.AppendUint32(hits, uint32(at))
	}
	in := map[string]func(byte) bool{
		"digits": isDigit, "at": func(c byte) bool { return c == '@' },
		"base64": func(c byte) bool { return isWord(c) || strings.IndexByte("+/=-_", c) >= 0 },
	}
	for t := len(spec.Triggers) - 1; t >= 0; t-- {
		trigger := spec.Triggers[t]
		for at := range text {
			switch {
			case trigger.Class != "":
				n := 0
				for at+n < len(text) && in[trigger.Class](text[at+n]) {
					n++
				}
				if n >= trigger.Min && (at == 0 || !in[trigger.Class](text[at-1])) {
					add(t, at)
				}
			case trigger.Fold && hasPrefix(text, at, strings.ToLower(trigger.Literal)),
				strings.HasPrefix(string(text[at:min(len(text), at+len(trigger.Literal))]), trigger.Literal):
				add(t, at)
			}
		}
	}
	return hits
}

// check runs what must hold for every text.
func check(t *testing.T, r *scanner.Runner, text []byte) []sdk.Finding {
	found, err := r.Scan(text)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) < 512 {
		with, err := r.ScanHits(text, hostHits(text))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(found, with) {
			t.Fatalf("without hits %+v, with hits %+v", found, with)
		}
	}
	for i, f := range found {
		if f.Start < 0 || f.End > len(text) || f.Start >= f.End {
			t.Fatalf("bad span %+v in %d bytes", f, len(text))
		}
		if f.End-f.Start > maxSpan && i < scanner.MaxFindings-1 {
			t.Fatalf("a finding of %d bytes", f.End-f.Start)
		}
	}
	return found
}

func TestSameWithAndWithoutHits(t *testing.T) {
	r := runner(t, "")
	n := 0
	for _, folder := range []string{"hit", "clean"} {
		for _, line := range cases(t, folder) {
			kind, rest, ok := strings.Cut(line, " | ")
			if !ok {
				kind, rest = "", line
			}
			text, _ := expand(t, kind, rest, 7)
			n += len(check(t, r, []byte(text)))
		}
	}
	if n == 0 {
		t.Error("nothing was found at all")
	}
}

// hostile are units that, repeated, make each matcher look as far as it may.
var hostile = []string{
	"12", "12 ", "12-", "1.2.3.4.", "12:", "ab:", "::1", ":1:", "12/", "1-2-3-", "+1 (", "(12", "a@", "@", "a.a@a.",
	"@@a.b",
	"A1 ", "AB12 ", "GB82 ", "12345678 ", "1234 5678 9012 3456 ", "12345678901234567890123456789012345678901234567890",
	"1A2B3C4D5E6F", "bc1q", "0x12", "3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy ", "http://a.b/", "https://", "Mr. ",
	"Mr. Ab ", "name is A",
	"swift ", "SWIFT AAAADEFF ", "MAC ", "MAC a", "May 1", "1 May ", "12 Main Street ", "12 A B C D ", "phone 12 ",
	"card 4111 ",
	"born 1/2/", "0 0 12 ", " 1AA", "A1 1AA", "passport 12345678 ", "\xc3\xa9\xc3\xa9", "12\xe4\xb8\xad", "IL 62701 ",
	"12.34.",
}

// A text that repeats a trigger must not be read again for each: FuzzScan and BenchmarkHostile look for more.
func TestHostileRepetition(t *testing.T) {
	if testing.Short() {
		t.Skip("texts that take long")
	}
	r := runner(t, "")
	for _, unit := range hostile {
		check(t, r, []byte(strings.Repeat(unit, 256<<10/len(unit))))
	}
}

func BenchmarkHostile(b *testing.B) {
	for _, unit := range hostile {
		b.Run(fmt.Sprintf("%.24q", unit), func(b *testing.B) {
			benchmarkScan(b, []byte(strings.Repeat(unit, 64<<10/len(unit))))
		})
	}
}

// cleanText is prose and code without personal data, n bytes of it.
func cleanText(n int) []byte {
	const page = `The committee met on Tuesday to discuss the proposal. Nobody objected, and the minutes were approved.
func sum(values []int) int {
	total := 0
	for _, v := range values {
		total += v // overflow is the caller's business
	}
	return total
}
Lines of a log follow: 2024-05-18 14:00:00 INFO worker 17 finished batch 42 in 1830 ms with status available.
`
	return []byte(strings.Repeat(page, n/len(page)+1)[:n])
}

func benchmarkScan(b *testing.B, text []byte) {
	r, err := scanner.New(spec, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Scan(text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkScanClean64KiB(b *testing.B) { benchmarkScan(b, cleanText(64<<10)) }

// One finding for each KiB.
func BenchmarkScanDirty64KiB(b *testing.B) {
	text := cleanText(64 << 10)
	for i := 0; i+1024 <= len(text); i += 1024 {
		copy(text[i:], fmt.Sprintf("\nmail user%d@acme-corp.co.uk\n", i))
	}
	benchmarkScan(b, text)
}

func BenchmarkScanSource(b *testing.B) {
	text, err := os.ReadFile("rules.go")
	if err != nil {
		b.Fatal(err)
	}
	benchmarkScan(b, text)
}

func FuzzScan(f *testing.F) {
	for _, unit := range hostile {
		f.Add([]byte(unit + unit))
	}
	for _, text := range []string{
		"call +44 (0)20 7946 0958 x12", "dob: 1990-10-25T10:00:00Z", "5-MAY-2021",
		"975 Sunset Drive, Suite 217, Springfield, IL 62701",
		"DE89 3704 0044 0532 0130 00", "fe80::1%eth0 ::ffff:192.0.2.1 00:00:5e:00:53:01", "A123456(7)",
		"Mrs. Maria Muster",
	} {
		f.Add([]byte(text))
	}
	r := runner(f, "")
	f.Fuzz(func(t *testing.T, text []byte) { check(t, r, text) })
}
