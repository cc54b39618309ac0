package chain

import (
	"encoding/json"
	"strings"
	"testing"
)

var jsonSeeds = []string{"", " ", "{}", " [ ] ", `"a"`, `{"a":1}`, `{"a":-0.5e+10,"b":[true,false,null]}`, `[1,]`,
	`{"a"}`, `{,}`, "[01]", "[1.]", "[-]", "[1e]", `["\ud83d\ude00"]`,
	`["\ud83d\ud83d\ude00"]`, `["\u00g0"]`, `["\x"]`, "[\"\x01\"]", "[\"\xff\"]", `{"a":1}{"b":2}`, "[tru]", "1", " 1 ",
	"-0.5e3", "1.", "true", "tru", "null ", "-", "[nulll]", `"\"`, `["a" "b"]`, `{"a":{"b":[{}]}} `, "\ufeff[]",
	"[1\n,2\t]", "[0e0]", "[00]"}

// What the byte-wise reader takes for JSON is what isJSON does, and at no place does it give up too soon.
func checkJSONText(t *testing.T, text string) {
	t.Helper()
	for _, typed := range []bool{false, true} {
		checkJSONTyped(t, text, typed)
	}
}

func checkJSONTyped(t *testing.T, text string, typed bool) {
	t.Helper()
	j := jsonText{typed: typed}
	j.read(text)
	if got, want := j.whole(), isJSON(text, typed); got != want {
		t.Errorf("%.80q, typed %v: %v, want %v", text, typed, got, want)
	}
	if !isJSON(text, typed) {
		return
	}
	j = jsonText{typed: typed}
	for i := range len(text) {
		j.next(text[i])
		if j.broken() {
			t.Fatalf("%.80q: given up at byte %d", text, i)
		}
	}
}

func TestJSONText(t *testing.T) {
	for _, s := range jsonSeeds {
		checkJSONText(t, s)
	}
	for _, n := range []int{jsonDepth, jsonDepth + 1} {
		text := strings.Repeat("[", n) + strings.Repeat("]", n)
		if json.Valid([]byte(text)) != (n == jsonDepth) {
			t.Fatal("encoding/json nests to another depth")
		}
		checkJSONText(t, text)
	}
}

func FuzzJSONText(f *testing.F) {
	for _, s := range jsonSeeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) { checkJSONText(t, text) })
}
