package scanner

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/yett-dev/yett/sdk/abi"
)

// wordScanner reports each hit of its own trigger and of the lists of its configuration.
func wordScanner(seen *[]Hit) Spec {
	return Spec{Name: "words", Version: "1", Kinds: []Kind{{Name: "WORD"}}, Triggers: []Trigger{{Literal: "own"}},
		TriggersFrom: []TriggersFrom{{Path: "/words", Fold: true}, {Path: "/lists/exact"}},
		Config:       `{"type":"object"}`,
		Init:         func([]byte) error { return nil },
		Scan: func(in *In, _ *Out) error {
			hits, err := in.Hits()
			*seen = slices.Clone(hits)
			return err
		}}
}

// TestTriggersFromConfiguration: entries are numbered behind the scanner's own triggers, in the order of the lists.
func TestTriggersFromConfiguration(t *testing.T) {
	var got []Hit
	for _, c := range []struct {
		config, text string
		want         []Hit
	}{
		{`{}`, "own gnu", []Hit{{0, 0, 3}}},
		{`{"words":["gnu","emu"],"lists":{"exact":["Ox"]}}`, "Ox own EMU ox gnu", []Hit{{3, 0, 2}, {0, 3, 6}, {2, 7, 10}, {1, 14, 17}}},
		{`{"words":["gnu","GNU"],"lists":{"exact":["gnu"]}}`, "gnu", []Hit{{1, 0, 3}, {2, 0, 3}, {3, 0, 3}}},
		{`{"lists":{"x":1,"exact":["a","ab","abc"]}}`, "abc", []Hit{{1, 0, 1}, {2, 0, 2}, {3, 0, 3}}},
		{`{"words":["é","日"]}`, "É é日", []Hit{{1, 3, 5}, {2, 5, 8}}},
		{`{"words":["own"]}`, "own", []Hit{{0, 0, 3}, {1, 0, 3}}},
	} {
		if _, err := Run(wordScanner(&got), []byte(c.config), []byte(c.text)); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s in %q: %v %v, want %v", c.config, c.text, got, err, c.want)
		}
	}
	for config, why := range map[string]string{
		`{"words":"gnu"}`:         "words: must be an array of strings",
		`{"words":["a",""]}`:      "words[1]: must have 1 to 256 bytes",
		`{"lists":{"exact":[1]}}`: "lists.exact: must be an array of strings",
		`{"lists":[]}`:            "lists.exact: not a JSON object",
		`{"words":["` + strings.Repeat("a", 257) + `"]}`:                       "words[0]: must have 1 to 256 bytes",
		`{"words":["a"` + strings.Repeat(`,"a"`, abi.MaxConfigTriggers) + `]}`: "words: more than 10000 entries",
	} {
		if _, err := Run(wordScanner(&got), []byte(config), nil); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%.40s: %v, want %s", config, err, why)
		}
	}
	doc, err := Describe(wordScanner(&got))
	if err != nil || !bytes.Contains(doc, []byte(`"triggers_from":[{"path":"/words","fold":true},{"path":"/lists/exact"}]`)) {
		t.Errorf("%s %v", doc, err)
	}
	if _, err := Describe(Spec{Name: "x", Version: "1", Scan: wordScanner(&got).Scan,
		TriggersFrom: []TriggersFrom{{Path: "words"}}}); err == nil {
		t.Error("a path without a slash is taken")
	}
}

// TestWordsAreAllFound: thousands of words in letters of many scripts are found wherever they are, and nothing else is.
func TestWordsAreAllFound(t *testing.T) {
	if testing.Short() {
		t.Skip("many texts")
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	letters := []string{"a", "b", "A", "B", "é", "É", "日", "\xf0\x9f\x99\x82", "1", "-"}
	some := func(most int) string {
		var b strings.Builder
		for range 1 + rnd.IntN(most) {
			b.WriteString(letters[rnd.IntN(len(letters))])
		}
		return b.String()
	}
	var config struct {
		Words []string `json:"words"`
	}
	for range 3000 {
		config.Words = append(config.Words, some(5))
	}
	doc, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	var got []Hit
	run, err := New(wordScanner(&got), doc)
	if err != nil {
		t.Fatal(err)
	}
	lower := func(s string) string { // A to Z only
		return strings.Map(func(r rune) rune {
			if 'A' <= r && r <= 'Z' {
				return r | 0x20
			}
			return r
		}, s)
	}
	for range 20 {
		text := some(60)
		var want []Hit
		for at := range len(text) {
			for i, w := range config.Words {
				if strings.HasPrefix(lower(text)[at:], lower(w)) {
					want = append(want, Hit{i + 1, at, at + len(w)})
				}
			}
		}
		if _, err := run.Scan([]byte(text)); err != nil || !slices.Equal(got, want) {
			t.Fatalf("%q: %d hits, want %d: %v", text, len(got), len(want), err)
		}
	}
}
