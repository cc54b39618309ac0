//go:build !wasip1

package scanner

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/yett-dev/yett/sdk"
	"github.com/yett-dev/yett/sdk/abi"
)

// wordSpec finds the word "zebra", in any case, and reports it.
func wordSpec() Spec {
	return Spec{
		Name: "word", Version: "1.2.3",
		Kinds:    []Kind{{"WORD", Medium}, {"OTHER", Critical}},
		Triggers: []Trigger{{Literal: "zebra", Fold: true}},
		Stream:   abi.StreamWindow, Lookbehind: 64,
		Scan: func(in *In, out *Out) error {
			hits, err := in.Hits()
			for _, h := range hits {
				out.Redact("WORD", h.Start, h.End, 0.5)
			}
			return err
		},
	}
}

func TestRun(t *testing.T) {
	got, err := Run(wordSpec(), nil, []byte("a Zebra and a zebra"))
	want := []sdk.Finding{
		{Kind: "WORD", Scanner: "word", Start: 2, End: 7, Confidence: 0.5, Severity: sdk.Medium, Suggested: sdk.Redact},
		{Kind: "WORD", Scanner: "word", Start: 14, End: 19, Confidence: 0.5, Severity: sdk.Medium, Suggested: sdk.Redact},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := Run(wordSpec(), []byte(`{"x":1}`), nil); err == nil ||
		!strings.Contains(err.Error(), "x: this scanner has no configuration") {
		t.Errorf("a configuration nobody reads was accepted: %v", err)
	}
}

// A finding that the ABI does not allow fails the scan; nothing is repaired.
func TestEmitRefuses(t *testing.T) {
	nan := float32(math.NaN())
	for name, f := range map[string]Finding{
		"undeclared kind":       {Kind: "NOPE", End: 1},
		"outside the window":    {Kind: "WORD", Start: 3, End: 201},
		"outside the window: 5": {Kind: "WORD", Start: 5, End: 4},
		"outside the window: -": {Kind: "WORD", Start: -1, End: 4},
		"is empty: 5":           {Kind: "WORD", Start: 5, End: 5},
		"longer than Look":      {Kind: "WORD", End: 65},
		"bad confidence":        {Kind: "WORD", End: 1, Confidence: nan},
		"bad confidence, ":      {Kind: "WORD", End: 1, Confidence: 1.5},
		"severity or action":    {Kind: "WORD", End: 1, Action: 9},
		"replacement longer":    {Kind: "WORD", End: 1, Action: Replace, Replacement: strings.Repeat("x", abi.MaxReplacement+1)},
	} {
		spec := wordSpec()
		spec.Scan = func(_ *In, out *Out) error { out.Emit(f); return nil }
		if _, err := Run(spec, nil, make([]byte, 200)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestTooManyFindingsAreFolded(t *testing.T) {
	spec := wordSpec()
	spec.Scan = func(_ *In, out *Out) error {
		for i := 299; i >= 0; i-- {
			out.Emit(Finding{Kind: []string{"WORD", "OTHER"}[i%2], Start: i * 10, End: i*10 + 5, Confidence: float32(i) / 300,
				Action: Flag})
		}
		out.Redact("OTHER", 2800, 2801, 1)
		return nil
	}
	found, err := Run(spec, nil, make([]byte, 3000))
	if err != nil || len(found) != abi.MaxFindings {
		t.Fatalf("%d findings, %v", len(found), err)
	}
	last := found[abi.MaxFindings-1]
	if last.Start != 2550 || last.End != 2995 || last.Severity != sdk.Critical || last.Suggested != sdk.Redact ||
		last.Confidence != 1 {
		t.Errorf("the last finding does not cover the rest: %+v", last)
	}
}

func TestRegisterRefuses(t *testing.T) {
	for want, change := range map[string]func(*Spec){
		"Name and Spec.Version": func(s *Spec) { s.Name = "" },
		"one of Spec.Scan":      func(s *Spec) { s.Scan = nil },
		"Lookbehind":            func(s *Spec) { s.Lookbehind = 0 },
		"repeated kind":         func(s *Spec) { s.Kinds = append(s.Kinds, s.Kinds[0]) },
		"exactly one of":        func(s *Spec) { s.Triggers = []Trigger{{Literal: "a", Class: "hex", Min: 2}} },
		"unknown class":         func(s *Spec) { s.Triggers = []Trigger{{Class: "runes", Min: 2}} },
		"Min below 1":           func(s *Spec) { s.Triggers = []Trigger{{Class: "hex"}} },
		"too long in total":     func(s *Spec) { s.Triggers = []Trigger{{Literal: strings.Repeat("ab", 40_000)}} },
	} {
		spec := wordSpec()
		change(&spec)
		if _, err := New(spec, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
}

func TestScanErrorsAreStatuses(t *testing.T) {
	if got := statusOf(errors.New("x")); got != abi.StatusInternal {
		t.Errorf("a plain error is status %d", got)
	}
	if got := statusOf(&StatusError{70, "x"}); got != 70 {
		t.Errorf("a status of the author's became %d", got)
	}
	if got := statusOf(&StatusError{0, "x"}); got != abi.StatusInternal {
		t.Errorf("an error became status %d, which is clean", got)
	}
}

func TestDescribeIsTheMetadataOfTheABI(t *testing.T) {
	spec := wordSpec()
	spec.Config = `{"type":"object","properties":{"a":{"type":"string"}}}`
	spec.MemoryMiB, spec.DeadlineMS = 8, 250
	spec.Triggers = append(spec.Triggers, Trigger{Class: "digits", Min: 12}, Trigger{Literal: "a\"b\\\n"})
	doc, err := Describe(spec)
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.DisallowUnknownFields()
	var got abi.Metadata
	if err := dec.Decode(&got); err != nil {
		t.Fatalf("%v in %s", err, doc)
	}
	want := abi.Metadata{
		Name: "word", Version: "1.2.3", ABI: 1, Kinds: []abi.Kind{{Name: "WORD", Severity: 2}, {Name: "OTHER", Severity: 4}},
		ConfigSchema: map[string]any{"type": "object", "properties": map[string]any{"a": map[string]any{"type": "string"}}},
		Stream:       abi.Stream{Mode: "window", Lookbehind: 64}, Needs: abi.Needs{MemoryBytes: 8 << 20, DeadlineMS: 250},
		Triggers: spec.Triggers,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestCommand(t *testing.T) {
	m, err := newMachine(wordSpec())
	if err != nil {
		t.Fatal(err)
	}
	registered = m
	defer func() { registered = nil }()
	var out strings.Builder
	if err := command(nil, strings.NewReader("one zebra"), &out); err != nil {
		t.Fatal(err)
	}
	if want := `{"kind":"WORD","start":4,"end":9,"severity":"medium","confidence":0.5,"suggested":"redact"}` +
		"\n"; out.String() != want {
		t.Errorf("printed %s", out.String())
	}
	out.Reset()
	if err := command([]string{"-describe"}, nil, &out); err != nil || !json.Valid([]byte(out.String())) {
		t.Errorf("-describe printed %s, %v", out.String(), err)
	}
	if err := command([]string{"-config", "/does/not/exist"}, strings.NewReader(""), &out); err == nil {
		t.Error("a missing configuration was passed over")
	}
}

func TestInitDocument(t *testing.T) {
	for doc, want := range map[string]string{
		`{"abi":1,"name":"n","config":{"a":1}}`: `{"a":1}`, `{"abi":1,"name":"n"}`: `{}`,
		`{"abi":1,"name":"n","config":null}`: `{}`,
	} {
		if got, err := configOf([]byte(doc)); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v", doc, got, err)
		}
	}
	for _, doc := range []string{`{}`, `{"abi":2}`, `{"abi":1,"x":0}`, `{"abi":1,"name":3}`, ``, `{"abi":1} {}`} {
		if _, err := configOf([]byte(doc)); err == nil {
			t.Errorf("%s was accepted", doc)
		}
	}
}

// naive finds hits in the simplest way there is.
func naive(triggers []Trigger, text []byte) (hits []Hit) {
	for start := range text {
		for t, trig := range triggers {
			if trig.Class != "" {
				in := classOf(trig.Class)
				end := start
				for end < len(text) && in[text[end]] {
					end++
				}
				if end-start >= trig.Min && (start == 0 || !in[text[start-1]]) {
					hits = append(hits, Hit{t, start, end})
				}
				continue
			}
			end := start + len(trig.Literal)
			if end > len(text) {
				continue
			}
			a, b := string(text[start:end]), trig.Literal
			if trig.Fold {
				a, b = asciiLower(a), asciiLower(b)
			}
			if a == b {
				hits = append(hits, Hit{t, start, end})
			}
		}
	}
	return hits
}

func asciiLower(s string) string {
	b := []byte(s)
	for i := range b {
		b[i] = fold(b[i])
	}
	return string(b)
}

func encode(hits []Hit) (raw []byte) {
	for _, h := range slices.Backward(hits) {
		raw = binary.LittleEndian.AppendUint32(raw, uint32(h.Trigger))
		raw = binary.LittleEndian.AppendUint32(raw, uint32(h.Start))
	}
	return raw
}

// echo is a scanner of which the findings are its hits.
func echo(triggers []Trigger) Spec {
	return Spec{Name: "echo", Version: "1", Kinds: []Kind{{"HIT", Low}}, Triggers: triggers,
		Scan: func(in *In, out *Out) error {
			hits, err := in.Hits()
			for _, h := range hits {
				out.Flag("HIT", h.Start, h.End, float32(h.Trigger)/100)
			}
			return err
		}}
}

var fuzzTriggers = []Trigger{
	{Literal: "he"}, {Literal: "she"}, {Literal: "hers", Fold: true}, {Literal: "HIS", Fold: true}, {Literal: "Her"}, {Literal: "he", Fold: true},
	{Literal: "ß"}, {Literal: "\x00\xff"}, {Class: "digits", Min: 2}, {Class: "hex", Min: 3}, {Class: "at", Min: 1}, {Class: "base64", Min: 6},
}

func checkHits(t *testing.T, text []byte) {
	r, err := New(echo(fuzzTriggers), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := naive(fuzzTriggers, text)
	if len(want) > abi.MaxFindings {
		return
	}
	found, err := r.Scan(text)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != len(want) {
		t.Fatalf("%d hits, want %d in %q", len(found), len(want), text)
	}
	for _, h := range want {
		if !slices.ContainsFunc(found, func(f sdk.Finding) bool {
			return f.Start == h.Start && f.End == h.End && f.Confidence == float32(h.Trigger)/100
		}) {
			t.Fatalf("hit %+v was not found in %q", h, text)
		}
	}
	with, err := r.ScanHits(text, encode(want))
	if err != nil || !reflect.DeepEqual(with, found) {
		t.Fatalf("with the host's hits %+v (%v), without %+v", with, err, found)
	}
}

func TestHitsAgainstTheSimplestSearch(t *testing.T) {
	for _, text := range []string{"", "ushers", "USHERS HIS hers", "she he HE hErs 12 123 @ @@ deadbeef abc==/+ ß\x00\xff",
		strings.Repeat("hers", 20)} {
		checkHits(t, []byte(text))
	}
}

// Hits that the text does not bear out are an error: a host that is wrong about them is wrong about everything.
func TestHostHitsAreChecked(t *testing.T) {
	r, err := New(echo(fuzzTriggers), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range [][]Hit{{{0, 1, 0}}, {{99, 0, 0}}, {{0, 900, 0}}, {{8, 4, 0}}} {
		if _, err := r.ScanHits([]byte("he 123"), encode(bad)); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}

func FuzzHits(f *testing.F) {
	f.Add([]byte("ushers 123 dead@beef"))
	f.Fuzz(checkHits)
}

// FuzzHostHits feeds the decoder of what a host wrote.
func FuzzHostHits(f *testing.F) {
	f.Add([]byte("he 123"), encode([]Hit{{0, 0, 0}}))
	r, err := New(echo(fuzzTriggers), nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text, raw []byte) {
		found, err := r.ScanHits(text, raw)
		for _, h := range found {
			if err != nil || h.Start < 0 || h.End > len(text) || h.Start >= h.End {
				t.Fatalf("finding %+v, %v", h, err)
			}
		}
	})
}

// FuzzMembers holds the reader against encoding/json: what it accepts is JSON, and names and strings read the same.
func FuzzMembers(f *testing.F) {
	for _, s := range []string{`{"a":[1,-2.5e3,"x\u00e9\ud83d\ude00"],"b":{"c":null}}`, `{"a":1,"a":2}`, `{"a":01}`,
		`{"a":"\ud800"}`, `{} `, `{"a":tru}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		err := Members(doc, func(name string, v Value) error {
			if s, err := v.Str(); err == nil {
				var want string
				if json.Unmarshal(v.Raw(), &want) != nil || want != s {
					t.Fatalf("%q read as %q", v.Raw(), s)
				}
			}
			if _, err := v.Strings(); err == nil && !json.Valid(v.Raw()) {
				t.Fatalf("%q is no array", v.Raw())
			}
			return nil
		})
		var any map[string]any
		if err == nil && json.Unmarshal(doc, &any) != nil {
			t.Fatalf("accepted %q", doc)
		}
	})
}

func TestMembersRefuses(t *testing.T) {
	for _, doc := range []string{
		``, `[]`, `{`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{"a":1}x`, `{"a":1,"a":1}`, "{\"a\":\"\n\"}", `{"a":"\x"}`,
		`{"a":"\ud800"}`, "{\"a\":\"\xff\"}", `{"a":01}`, `{"a":1.}`, `{"a":1e}`, `{"a":-}`, `{"a":nul}`,
		`{"a":` + strings.Repeat("[", 140) + strings.Repeat("]", 140) + `}`,
	} {
		if err := Members([]byte(doc), func(string, Value) error { return nil }); err == nil {
			t.Errorf("%s was accepted", doc)
		}
	}
}

func BenchmarkHitsClean64KiB(b *testing.B) {
	text := []byte(strings.Repeat("the quick brown fox jumps over it, ", 2000)[:64<<10])
	r, err := New(wordSpec(), nil)
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

func TestCleanScanAllocatesNothing(t *testing.T) {
	r, err := New(wordSpec(), nil)
	if err != nil {
		t.Fatal(err)
	}
	text := []byte(strings.Repeat("nothing in here ", 100))
	if n := testing.AllocsPerRun(100, func() { _, _ = r.Scan(text) }); n != 0 {
		t.Errorf("%v allocations a scan", n)
	}
}
